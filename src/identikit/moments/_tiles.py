"""All pairs of many views in several passes, when one pass would not fit the memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from identikit.moments.memory import audit_bytes, default_memory, too_little

Pair = tuple[int, int]


@dataclass(frozen=True)
class Tile:
    """Views to read together, and the pairs of them to look at in that pass."""

    views: tuple[int, ...]
    pairs: tuple[Pair, ...]


def tiles(
    widths: Sequence[int], folds: int, memory: int | None = None, rows: int = 10**9
) -> list[Tile]:
    """Passes that together see every pair of views once, each within the memory budget.

    One pass if all fits. Otherwise views are cut into chunks of which two fit the budget, and every
    two share a pass; if even that does not work, every pair has a pass of its own.

    Parameters
    ----------
    widths : sequence of int
        Columns of each view.
    folds : int
        Folds the scatter is kept for.
    memory : int, optional
        Bytes; half of the machine's memory by default.
    rows : int
        Rows of the views; very many by default.
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
        # A chunk will share a pass with one of its size.
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
