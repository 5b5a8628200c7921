"""All pairs of many views in several passes, if one pass would not fit into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from identikit.moments.memory import audit_bytes, default_memory, too_little

Pair = tuple[int, int]


@dataclass(frozen=True)
class Tile:
    """Views that are read together in one pass, and the pairs of them that are compared in it."""

    views: tuple[int, ...]
    pairs: tuple[Pair, ...]


def tiles(
    widths: Sequence[int], folds: int, memory: int | None = None, rows: int = 10**9
) -> list[Tile]:
    """Passes that together contain every pair of views once, each within the memory budget.

    There is a single pass if all views fit. Otherwise views are divided into chunks so that any two
    chunks fit, and there is a pass for every two chunks. If that does not work either, every pair
    of views gets its own pass.

    Parameters
    ----------
    widths : sequence of int
        Number of columns of each view.
    folds : int
        Number of folds for which scatter matrices are kept.
    memory : int, optional
        Budget in bytes; half of the machine's memory by default.
    rows : int
        Number of rows of the views; very many by default.
    """
    budget = default_memory() if memory is None else memory

    def needed(views: Sequence[int]) -> int:
        return audit_bytes([widths[v] for v in views], folds, rows)

    views = range(len(widths))
    everything = tuple(combinations(views, 2))
    if needed(views) <= budget:
        return [Tile(tuple(views), everything)]
    chunks: list[list[int]] = [[]]
    for view in views:
        # A chunk will share a pass with another of about its size.
        if chunks[-1] and needed((*chunks[-1], view) * 2) > budget:
            chunks.append([])
        chunks[-1].append(view)
    joined = [sorted(a + b) for a, b in combinations(chunks, 2)]
    if all(needed(tile) <= budget for tile in joined):
        return _each_pair_once(joined)
    worst = max(everything, key=needed)
    if needed(worst) > budget:
        raise too_little([widths[v] for v in worst], folds, needed(worst), budget)
    return [Tile(pair, (pair,)) for pair in everything]


def _each_pair_once(groups: Sequence[Sequence[int]]) -> list[Tile]:
    seen: set[Pair] = set()
    result = []
    for views in groups:
        pairs = tuple(pair for pair in combinations(views, 2) if pair not in seen)
        seen.update(pairs)
        result.append(Tile(tuple(views), pairs))
    return result
