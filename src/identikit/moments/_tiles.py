"""All pairs of many views in several passes, when one pass would not fit the memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from identikit.moments._memory import check_memory, default_memory, scatter_bytes

Pair = tuple[int, int]


@dataclass(frozen=True)
class Tile:
    """Views to read together, and the pairs of them to look at in that pass."""

    views: tuple[int, ...]
    pairs: tuple[Pair, ...]


def tiles(widths: Sequence[int], folds: int, memory: int | None = None) -> list[Tile]:
    """Passes that together see every pair of views once, each within the memory budget.

    One pass if all fits. Otherwise views are cut into chunks of half the budget's width, and every
    two chunks share a pass; if even that does not fit, every pair has a pass of its own.

    Parameters
    ----------
    widths : sequence of int
        Columns of each view.
    folds : int
        Folds the scatter is kept for.
    memory : int, optional
        Bytes; a quarter of the machine's memory by default.
    """
    budget = default_memory() if memory is None else memory
    views = range(len(widths))
    everything = tuple(combinations(views, 2))
    if scatter_bytes(widths, folds) <= budget:
        return [Tile(tuple(views), everything)]
    chunks: list[list[int]] = [[]]
    for view in views:
        if (
            chunks[-1]
            and 4 * scatter_bytes([widths[v] for v in (*chunks[-1], view)], folds) > budget
        ):
            chunks.append([])
        chunks[-1].append(view)
    joined = [sorted(a + b) for a, b in combinations(chunks, 2)]
    if all(scatter_bytes([widths[v] for v in tile], folds) <= budget for tile in joined):
        return _each_pair_once(joined)
    for a, b in everything:
        check_memory([widths[a], widths[b]], folds, budget)
    return [Tile(pair, (pair,)) for pair in everything]


def _each_pair_once(groups: Sequence[Sequence[int]]) -> list[Tile]:
    seen: set[Pair] = set()
    result = []
    for views in groups:
        pairs = tuple(pair for pair in combinations(views, 2) if pair not in seen)
        seen.update(pairs)
        result.append(Tile(tuple(views), pairs))
    return result
