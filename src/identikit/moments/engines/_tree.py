"""Merging results by twos, as they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

R = TypeVar("R")


class Tree(Generic[R]):
    """A binary tree of merges over a given number of results.

    Which two are merged depends on their numbers alone, so that the root is the same to the last
    digit in whatever order they come. Those that come more or less in order leave few waiting for
    their neighbours: about the binary logarithm of how many there are.

    Parameters
    ----------
    count : int
        How many results there will be.
    merge : callable
        Of two neighbours, the one with the lower number first.

    Attributes
    ----------
    root : object
        All of them merged, once the last has come.
    waiting : dict
        What waits for its neighbour, by level and number there.
    """

    root: R

    def __init__(self, count: int, merge: Callable[[R, R], R]) -> None:
        self.waiting: dict[tuple[int, int], R] = {}
        self._count, self._merge = count, merge

    def add(self, number: int, result: R) -> None:
        """Add one result, and merge all that can be merged now."""
        level, count = 0, self._count
        while count > 1:
            beside = number ^ 1
            if beside < count:
                if (level, beside) not in self.waiting:
                    self.waiting[level, number] = result
                    return
                other = self.waiting.pop((level, beside))
                pair = (other, result) if beside < number else (result, other)
                result = self._merge(*pair)
            level, number, count = level + 1, number // 2, -(-count // 2)
        self.root = result
