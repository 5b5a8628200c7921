"""The memory that statistics need, and passes over few views at a time if it is too little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from identikit.errors import InputError
from identikit.sources.memory import default_memory as default_memory

__all__ = ["SAMPLE", "Tile", "check_memory", "default_memory", "scatter_bytes", "tiles"]

Pair = tuple[int, int]

#: Bytes of one float64 block: enough rows for BLAS, and about as small as the cache.
BLOCK_BYTES = 32 * 2**20

#: The number of columns up to which blocks are summed in small pieces, and the bytes of such
#: blocks.
NARROW, NARROW_BYTES = 512, 8 * 2**20

#: Number of rows of such a piece. BLAS processes 256 or 384 rows at a time, depending on the
#: processor, and an incomplete batch takes as long as a full one.
PIECE_ROWS = (2304, 1536, 768)

#: The smallest number of rows of a block; with fewer, BLAS is limited by memory bandwidth.
LEAST_ROWS = 128

#: Numbers in memory per number of a block: as stored, the next block, the rows of one fold, and two
#: float64 copies.
COPIES = 5

#: Number of rows of the sample, and how many times as many are in memory at most while it is drawn.
SAMPLE, HELD = 1000, 8

#: Number of extreme rows in memory per view while they are selected (twice as many as are kept).
LARGEST_HELD = 128

#: Number of square matrices, as wide as the wider view of a pair, that are in memory while the two
#: are compared: moments of training and test rows, whitened ones, maps, and the workspace of an
#: SVD. Measurements gave 20 or less.
PAIR_WORK = 22

#: Up to this width, moments whose memory nobody planned remember what they compute.
NARROW_PAIR = 256

#: Square matrices that moments with room remember of each view, and of the pair in work, per fold.
VIEW_KEPT, PAIR_KEPT = 4, 12

#: Numbers that are remembered of each sampled row for the chance level of its neighbours.
NEIGHBOUR_DRAWS = 500

#: Numbers of a stack of draws that are in work at a time, and how many such stacks a thread needs.
STACK, STACK_WORK = 2**21, 6

#: Number of draws of independent views for narrow views, for wide views, and the total cost above
#: which there are fewer than `MOST_DRAWS`; one draw costs p q min(p, q). A measure that sums over
#: many columns varies little between draws, so that few of them suffice.
MOST_DRAWS, LEAST_DRAWS, COST = 99, 10, 5e7

#: Number of square matrices of the size of the sample that are in memory while neighbours are
#: found.
SAMPLE_WORK = 4


#: Smaller allocations may not be returned to the system when freed (glibc's M_MMAP_THRESHOLD).
PIECE_BYTES = 32 * 2**20


def scatter_bytes(widths: Sequence[int], folds: int) -> int:
    """Bytes of the scatter matrices of stacked views: one per fold, and one to work with."""
    return 8 * sum(widths) ** 2 * (folds + 1)


def number_of_draws(p: int, q: int) -> int:
    """The number of draws of independent views for views of these ranks.

    >>> [number_of_draws(d, d) for d in (8, 64, 100, 256)]
    [99, 99, 50, 10]
    """
    return int(min(max(COST / max(p * q * min(p, q), 1), LEAST_DRAWS), MOST_DRAWS))


def stacked(draws: int, size: int) -> int:
    """How many of some draws of a size are in work at a time, if there is room for it."""
    return min(-(-draws // 2), max(1, STACK // size))


def audit_bytes(widths: Sequence[int], folds: int, rows: int, *, reading: bool = True) -> int:
    """Least memory of an audit in bytes, if views of these widths share a pass.

    With f folds, widths d and D = Σ d:

    - While rows are read, 8 (f + 2) D² bytes: one scatter matrix per fold, and two to merge.
    - While views are compared, 8 (f D² + (f + 4) Σ d² + max(22 d², 4 s²)) bytes: each view's
      whitenings without each fold, its scatter, its loadings and its principal axes, and the work
      on the widest pair or on the distances of s sampled rows.

    The larger of these, or the second without `reading`, is increased by the rows in memory (the
    sample, the largest rows, and blocks being read) and by the overhead of `allocated`.
    """
    squares, total = [width**2 for width in widths], sum(widths)
    work = max(PAIR_WORK * max(squares), SAMPLE_WORK * min(rows, SAMPLE) ** 2)
    comparing = folds * total**2 + (folds + 4) * sum(squares) + work
    comparing += 2 * min(rows, SAMPLE) * total
    held = min(rows, HELD * SAMPLE) + COPIES * min(rows, LEAST_ROWS)
    held += min(rows, LARGEST_HELD) * len(widths)
    most = max(comparing, (folds + 2) * total**2) if reading else comparing
    return allocated(8 * (most + held * total))


def remembered_bytes(widths: Sequence[int], folds: int, rows: int, threads: int) -> int:
    """Bytes for what moments with room remember while several threads compare pairs.

    These are, without each fold, the scatter, principal axes and loadings of each view, its
    products on the fold, and its sampled rows with their ranks; decompositions of the pair that is
    in work in each thread; and the draws of independent views.
    """
    squares, total = [width**2 for width in widths], sum(widths)
    widest, sampled = max(squares), min(rows, SAMPLE)
    work = max(PAIR_WORK * widest, SAMPLE_WORK * sampled**2)
    draws = number_of_draws(max(widths), max(widths))
    count = folds * (VIEW_KEPT * sum(squares) + 2 * sampled * total)
    count += NEIGHBOUR_DRAWS * sampled * len(widths)
    count += threads * folds * PAIR_KEPT * widest + (threads - 1) * work
    count += draws * (4 * widest + (sum(squares) if len(widths) > 2 else 0))
    count += threads * STACK_WORK * stacked(draws, widest) * widest
    return allocated(8 * count)


def allocated(count: int) -> int:
    """Bytes by which a process grows for `count` bytes of arrays, including gaps between them."""
    return count + min(count // 5, PIECE_BYTES)


def block_rows(width: int, room: int | None = None) -> int:
    """Number of rows of this many columns to read at a time.

    `room` is the number of bytes for blocks, beyond the minimum that `audit_bytes` includes.
    """
    if width <= NARROW:
        whole = PIECE_ROWS[0]
        rows = whole * -(-min(NARROW_BYTES // (8 * width), 16384) // whole)
    else:
        rows = max(256, BLOCK_BYTES // (8 * width))
    return rows if room is None else min(rows, LEAST_ROWS + max(room, 0) // (8 * COPIES * width))


def check_memory(widths: Sequence[int], folds: int, memory: int | None) -> None:
    """Raise an error if the statistics of views of these widths exceed the memory budget."""
    needed, budget = scatter_bytes(widths, folds), default_memory() if memory is None else memory
    if needed > budget:
        raise too_little(widths, folds, needed, budget)


def too_little(widths: Sequence[int], folds: int, needed: int, budget: int) -> InputError:
    """The error for statistics that exceed the memory budget."""
    return InputError(
        f"the statistics of {len(widths)} views with {sum(widths)} columns in {folds} folds "
        f"need {needed / 1e6:,.1f} MB, the budget is {budget / 1e6:,.1f} MB; "
        "give fewer columns, fewer folds, or a larger memory budget"
    )


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
