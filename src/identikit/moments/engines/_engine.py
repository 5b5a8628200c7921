"""What an engine is: workers that run a task on many items, and add up what comes of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from identikit.errors import InputError
from identikit.sources import open_source

T = TypeVar("T")
R = TypeVar("R")

#: What a task needs to know beside the views, the first row, and the row after the last.
Range = tuple[T, int, int]

#: How often an item is begun again whose worker has ended.
REDONE = 2

#: Bytes that nobody minds sending with every item.
SMALL = 2**20

#: A recipe that is larger than this share of its rows holds them itself.
SHARE = 1 / 8


class Engine(Protocol):
    """Workers in other processes, on this machine or elsewhere.

    Tasks are functions defined at the top of a module: they travel, with their items, to a worker.
    An `InputError` that a task raises is raised here; a worker that ends is made up for where that
    is possible, and no item ever counts twice.

    Attributes
    ----------
    workers : int
        How many tasks run at a time.
    """

    workers: int

    def map(self, task: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R]]:
        """The number and ``task(item)`` of every item, as they come."""
        ...

    def reduce(
        self,
        task: Callable[[list[Any], Range[T]], R],
        views: Sequence[object],
        items: Sequence[Range[T]],
        done: Callable[[int], None],
    ) -> R:
        """The sum of ``task(views, item)`` over all items, as a tree of ``+``.

        An item is a range of rows, of which the task reads no others. A view that is a path, or a
        recipe, is opened by the workers; an array is sent to them once. `done` is called with the
        number of each item. Which results are added to which is fixed, so that the sum does not
        depend on who was quicker.
        """
        ...

    def forget(self) -> None:
        """Let go of the arrays that were sent: they may hold something else the next time."""
        ...

    def close(self) -> None:
        """Forget, and let go of the workers that were started here; closing twice is harmless."""
        ...


class LostError(InputError):
    """Workers ended, or whoever tells them what to do.

    Parameters
    ----------
    message : str
        What happened.
    item : int, optional
        The number of the item that worker after worker ended on.
    """

    def __init__(self, message: str, item: int | None = None) -> None:
        super().__init__(message)
        self.item = item


def add_up(count: int, results: Iterable[tuple[int, Any]]) -> Any:
    """The sum of numbered results, as a binary tree of ``+``.

    Which two are added depends on their numbers alone, so that the sum is the same to the last
    digit in whatever order they come. Those that come more or less in order leave few waiting for
    their neighbours: about the binary logarithm of how many there are.

    Parameters
    ----------
    count : int
        How many results there are.
    results : iterable of (int, object)
        Their numbers, from 0, and the results.

    Examples
    --------
    >>> add_up(3, [(2, "c"), (0, "a"), (1, "b")])
    'abc'
    """
    waiting: dict[tuple[int, int], Any] = {}  # by level of the tree, and number there
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
    """Whether workers open this for themselves: a path, or a recipe that does not hold its rows."""
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
    """Bytes of what would be sent; None for what cannot be sent at all."""
    arrays: list[pickle.PickleBuffer] = []  # which are measured without a copy
    try:
        rest = pickle.dumps(thing, protocol=5, buffer_callback=arrays.append)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return len(rest) + sum(memoryview(array).nbytes for array in arrays)
