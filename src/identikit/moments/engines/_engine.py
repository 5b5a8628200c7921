"""The interface of engines: workers that run a task on many items and add up the results."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from identikit.errors import InputError
from identikit.sources import open_source

T = TypeVar("T")
R = TypeVar("R")

#: The settings of a task, its first row, and the row after its last.
Range = tuple[T, int, int]

#: How often an item is started again if its worker has died.
REDONE = 2

#: The number of bytes that is small enough to be sent with every item.
SMALL = 2**20

#: A recipe that is larger than this share of its rows is taken to contain the rows.
SHARE = 1 / 8


class Engine(Protocol):
    """Workers in other processes, on this machine or elsewhere.

    Tasks must be functions defined at the top level of a module, because they are pickled and sent
    to a worker with their items. An `InputError` that a task raises is raised again in this
    process. The items of a worker that dies are done by others if possible, and no item is counted
    twice.

    Attributes
    ----------
    workers : int
        How many tasks run at a time.
    """

    workers: int

    def map(self, task: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R]]:
        """Yield the number and ``task(item)`` of every item, in the order of completion."""
        ...

    def reduce(
        self,
        task: Callable[[list[Any], Range[T]], R],
        views: Sequence[object],
        items: Sequence[Range[T]],
        done: Callable[[int], None],
    ) -> R:
        """The sum of ``task(views, item)`` over all items, by pairwise summation.

        An item is a range of rows, and the task reads only these rows. A view that is a path or a
        recipe is opened by the workers; an array is sent to them once. `done` is called with the
        number of each finished item. The order of additions is fixed, so that the sum does not
        depend on which worker is faster.
        """
        ...

    def forget(self) -> None:
        """Discard the arrays that were sent, as they may have other contents next time."""
        ...

    def close(self) -> None:
        """Forget, and stop the workers that were started here; closing twice is harmless."""
        ...


class LostError(InputError):
    """Workers died, or the scheduler did.

    Parameters
    ----------
    message : str
        What happened.
    item : int, optional
        The number of the item on which several workers in turn died.
    """

    def __init__(self, message: str, item: int | None = None) -> None:
        super().__init__(message)
        self.item = item


def add_up(count: int, results: Iterable[tuple[int, Any]]) -> Any:
    """The sum of numbered results, by pairwise summation in a binary tree.

    Which two results are added depends only on their numbers, so that the sum is exactly the same
    whatever the order in which they arrive. If they arrive roughly in order, only about log₂ of
    their number are waiting for their neighbours at any time.

    Examples
    --------
    >>> add_up(3, [(2, "c"), (0, "a"), (1, "b")])
    'abc'
    """
    waiting: dict[tuple[int, int], Any] = {}  # by level of the tree, and number on that level
    for number, result in results:
        waiting[0, number] = result
        level, size = 0, count
        while size > 1:
            pair = (level, number & ~1), (level, number | 1)
            if pair[1][1] < size:
                if not (pair[0] in waiting and pair[1] in waiting):
                    break
                both = waiting.pop(pair[0]) + waiting.pop(pair[1])
            else:
                both = waiting.pop((level, number))
            level, number, size = level + 1, number // 2, -(-size // 2)
            waiting[level, number] = both
    (total,) = waiting.values()
    return total


def travels(view: object) -> bool:
    """Whether workers can open a view themselves: a path, or a recipe that does not hold rows."""
    if isinstance(view, str):
        return True
    if not hasattr(view, "open_source"):
        return False
    size = packed_size(view)
    if size is None or size <= SMALL:
        return size is not None
    source = open_source(view)
    try:
        return size <= SHARE * source.rows * source.width * source.read(0, 1).itemsize
    finally:
        source.close()


def packed_size(thing: object) -> int | None:
    """Size of a pickled object in bytes; None if it cannot be pickled."""
    arrays: list[pickle.PickleBuffer] = []  # measured without a copy
    try:
        rest = pickle.dumps(thing, protocol=5, buffer_callback=arrays.append)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return len(rest) + sum(memoryview(array).nbytes for array in arrays)
