"""What an engine is: something that runs a task on many items, and merges what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


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
        """What stands for these views in a task's first argument.

        A path stays a path, which workers open; an array goes to them once.
        """
        ...

    def reduce(
        self,
        task: Callable[[list[Any], T], R],
        shared: list[Any],
        items: Sequence[T],
        merge: Callable[[R, R], R],
        done: Callable[[int], None],
    ) -> R:
        """Merge ``task(shared, item)`` of all items, as a tree; `done` hears of each by number."""
        ...

    def map(self, task: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R]]:
        """The number and ``task(item)`` of every item, as they come."""
        ...

    def close(self) -> None:
        """Let go of the workers that were started here; closing twice is harmless."""
        ...
