"""What the statistics and the work on them may take."""

from __future__ import annotations

from collections.abc import Sequence

from identikit.errors import InputError
from identikit.sources.memory import default_memory as default_memory

#: Bytes of one float64 block: enough rows for BLAS, small enough to stay near the cache.
BLOCK_BYTES = 32 * 2**20

#: Columns up to which blocks are summed in small pieces, and need not be large themselves.
NARROW, NARROW_BYTES = 512, 8 * 2**20

#: Rows of such a piece. BLAS goes through rows 256 or 384 at a time, by the processor, and a last
#: few take it as long as many.
PIECE_ROWS = (2304, 1536, 768)

#: Rows of a block that there must be room for: with fewer, BLAS waits for memory.
LEAST_ROWS = 128

#: Numbers in memory for each one of a block: as stored, the block read ahead, a fold's share of it,
#: and float64 to work with, twice.
COPIES = 5

#: Rows of the sample, and how many times as many are held at most while it is drawn.
SAMPLE, HELD = 1000, 8

#: Of each view, the largest rows that are held while they are looked for, twice.
LARGEST_HELD = 128

#: Square matrices as wide as the wider view of a pair, while the two are compared: moments of
#: training and test rows, some of them whitened, maps, and what an SVD needs. Measured: 20 or less.
PAIR_WORK = 22

#: Up to this width, the jackknife keeps a view's principal axes without each fold, and of the last
#: pair the scatters and the canonical decomposition, `FOLD_WORK` square matrices a fold.
NARROW_PAIR, FOLD_WORK = 256, 6

#: Draws of independent views are kept for the next pair if they take no more than this share of
#: what the scatter matrices of all views take.
DRAWS_SHARE = 0.2

#: Square matrices as wide as the sample has rows, while neighbours are looked for.
SAMPLE_WORK = 4


#: What is freed in smaller pieces than this may stay with the process (glibc's M_MMAP_THRESHOLD).
PIECE_BYTES = 32 * 2**20


def scatter_bytes(widths: Sequence[int], folds: int) -> int:
    """Bytes of the scatter matrices of stacked views: one a fold, and one to work with."""
    return 8 * sum(widths) ** 2 * (folds + 1)


def audit_bytes(widths: Sequence[int], folds: int, rows: int) -> int:
    """Bytes that an audit takes at its peak, if views of these widths share a pass.

    For f folds, widths d and D = Σ d: while rows are read, 8 (f + 2) D², a scatter a fold and two
    to merge; while views are compared, 8 (1.2 f D² + (f + 3) Σ d² + max(22 d², 4 s²)), of each view
    its whitenings without each fold, its scatter and its principal axes, and the work on the widest
    pair or on the distances of s rows; for views up to 256 columns also the principal axes
    without each fold, f Σ d², 6 f d² for the pair, and the sample and its ranks without each part
    of it. To the larger of these, rows that are held for the sample or as the largest, or being
    read, and what `allocated` adds.

    Parameters
    ----------
    widths : sequence of int
        Columns of each view.
    folds, rows : int
        How many folds, and rows in all.
    """
    squares, total = [width**2 for width in widths], sum(widths)
    work = max(PAIR_WORK * max(squares), SAMPLE_WORK * min(rows, SAMPLE) ** 2)
    # Of wider views nothing is kept; but a wider view must never seem to take less.
    narrow = [min(width, NARROW_PAIR) ** 2 for width in widths]
    kept = folds * (sum(narrow) + FOLD_WORK * max(narrow))
    statistics = int((1 + DRAWS_SHARE) * folds * total**2)
    sampled = min(rows, SAMPLE) * (total + folds * sum(min(w, NARROW_PAIR) for w in widths))
    comparing = statistics + (folds + 3) * sum(squares) + work + kept + sampled
    held = min(rows, HELD * SAMPLE) + COPIES * min(rows, LEAST_ROWS)
    held += min(rows, LARGEST_HELD) * len(widths)
    return allocated(8 * (max(comparing, (folds + 2) * total**2) + held * total))


def allocated(count: int) -> int:
    """Bytes that a process grows by for so many bytes of arrays: there are gaps between them."""
    return count + min(count // 5, PIECE_BYTES)


def block_rows(width: int, room: int | None = None) -> int:
    """Rows to read at a time.

    Parameters
    ----------
    width : int
        Columns of all views that are read together.
    room : int, optional
        Bytes for blocks beyond the least that `audit_bytes` counts.
    """
    if width <= NARROW:
        whole = PIECE_ROWS[0]
        rows = whole * -(-min(NARROW_BYTES // (8 * width), 16384) // whole)
    else:
        rows = max(256, BLOCK_BYTES // (8 * width))
    return rows if room is None else min(rows, LEAST_ROWS + max(room, 0) // (8 * COPIES * width))


def check_memory(widths: Sequence[int], folds: int, memory: int | None) -> None:
    """Raise if the statistics of views of these widths would not fit the budget."""
    needed, budget = scatter_bytes(widths, folds), default_memory() if memory is None else memory
    if needed > budget:
        raise too_little(widths, folds, needed, budget)


def too_little(widths: Sequence[int], folds: int, needed: int, budget: int) -> InputError:
    """The error that says what statistics need, what the budget is, and what to do."""
    return InputError(
        f"the statistics of {len(widths)} views with {sum(widths)} columns in {folds} folds "
        f"need {needed / 1e6:,.1f} MB, the budget is {budget / 1e6:,.1f} MB; "
        "give fewer columns, fewer folds, or a larger memory budget"
    )
