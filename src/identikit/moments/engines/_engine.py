"""What an engine is: something that runs a task on many items, and merges what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from identikit.errors import InputError

T = TypeVar("T")
R = TypeVar("R")

#: What a task needs to know beside the views, the first row, and the row after the last.
Range = tuple[T, int, int]

#: How often an item is begun again whose worker has ended.
REDONE = 2


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

    def share(self, views: Sequence[object]) -> list[Any]:
        """What stands for these views in `reduce`.

        A path stays a path, which workers open; an array goes to them once.
        """
        ...

    def reduce(
        self,
        task: Callable[[list[Any], Range[T]], R],
        shared: list[Any],
        items: Sequence[Range[T]],
        merge: Callable[[R, R], R],
        done: Callable[[int], None],
    ) -> R:
        """Merge ``task(views, item)`` of all items, as a tree; `done` hears of each by number.

        An item is a range of rows, of which the task reads no others. Which results are merged with
        which is fixed, so that the outcome does not depend on who was quicker.
        """
        ...

    def map(self, task: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R]]:
        """The number and ``task(item)`` of every item, as they come."""
        ...

    def forget(self) -> None:
        """Let go of what was shared: arrays may hold something else the next time."""
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
