"""How an audit stays within its memory: one pass, several passes over pairs, or reduced views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from identikit._progress import Progress, share
from identikit._threads import blas_threads
from identikit.errors import InputError
from identikit.moments import (
    Folds,
    Tile,
    in_few_rows,
    leading,
    reduction_bytes,
    row_span,
    span_bytes,
    tiles,
)
from identikit.moments.engines import Engine
from identikit.moments.memory import (
    COPIES,
    HELD,
    LEAST_ROWS,
    SAMPLE,
    audit_bytes,
    block_rows,
    default_memory,
    remembered_bytes,
)
from identikit.sources import Source
from identikit.sources.projected import CHUNK, Projected, ProjectedSource


@dataclass(frozen=True)
class Plan:
    """Which views are read together, in which form, and why.

    Parameters
    ----------
    widths : tuple of int
        Columns of each view as it is compared, after any reduction.
    reduced : tuple of int
        Numbers of the views that are first reduced to their leading subspace.
    tiles : tuple of Tile
        The passes over the rows, after that.
    block_rows : int
        Rows to read at a time.
    careful : bool
        Whether there is too little memory for several threads to read at once.
    needed, budget : int
        Bytes that one pass over all unreduced views would take, and bytes that may be used.
    threads : int
        Pairs to compare at a time.
    roomy : bool
        Whether there is memory to remember what is computed without each fold.
    spans : bool
        Whether the reduced views keep all directions in which their rows vary, because there are
        fewer rows than columns.
    """

    widths: tuple[int, ...]
    reduced: tuple[int, ...]
    tiles: tuple[Tile, ...]
    block_rows: int
    careful: bool
    needed: int
    budget: int
    threads: int = 1
    roomy: bool = False
    spans: bool = False

    @property
    def choice(self) -> str:
        """The way of reading, in a few words."""
        if self.spans:
            return "in the span of the rows"
        return f"reduced to {self._limit} dimensions" if self.reduced else self._passes

    @property
    def _limit(self) -> int:
        # One column holds the mean.
        return max(self.widths[v] for v in self.reduced) - 1

    @property
    def _passes(self) -> str:
        return "one pass" if len(self.tiles) == 1 else f"{len(self.tiles)} passes over pairs"

    @property
    def says(self) -> str:
        """The choice in one sentence, with its reason."""
        if self.choice == "one pass":
            return "All views were read in one pass."
        if self.spans:
            return (
                f"Of {len(self.widths)} views, {len(self.reduced)} have more than twice as many "
                "columns as rows and were compared in the coordinates of the span of their rows, "
                "which lose nothing but the single columns: permutation and monomial are tried on "
                "the original columns if there are at most 1,280."
            )
        why = (
            f"as all of them at once would take {self.needed / 1e6:,.1f} MB of memory, and "
            f"{self.budget / 1e6:,.1f} MB may be used"
        )
        if not self.reduced:
            return f"The views were read in {self._passes}, {why}."
        return (
            f"Of {len(self.widths)} views, {len(self.reduced)} were reduced to {self._limit:,} "
            f"dimensions or less, {why}; then they were read in {self._passes}."
        )


@dataclass(frozen=True)
class Reduced:
    """How a view was reduced: to how many leading directions, and what they leave out.

    `lost`, `exact` and `bound` are those of `Subspace`; `whole` means that nothing is left out.
    """

    dims: int
    lost: float
    exact: bool
    bound: float
    whole: bool = False


def plan(
    widths: Sequence[int],
    folds: int,
    rows: int,
    memory: int | None = None,
    *,
    spans: bool = False,
) -> Plan:
    """Choose how to read views, so that no process exceeds its memory.

    They are read all at once if that fits, otherwise in several passes over pairs. If a pair is too
    wide for that, every view wider than some limit is first reduced to that many columns, which are
    its leading directions and its mean; the limit is the largest that fits. The memory counted is
    that of the statistics, the work on a pair, the bases of all reduced views, blocks of rows and
    the row sample.

    With `spans`, views with far fewer rows than columns are compared in the span of their rows
    where that fits, which saves time and loses nothing.
    """
    budget = default_memory() if memory is None else memory
    needed = audit_bytes(widths, folds, rows)
    few = [rows if in_few_rows(rows, width) else width for width in widths]
    if spans and few != list(widths):
        spanning = span_bytes(rows, max(widths)) + _held_bytes(widths, few)
        if spanning + _pair_bytes(few, folds, rows) <= budget:
            return replace(_planned(widths, few, folds, rows, needed, budget), spans=True)
    if _pair_bytes(widths, folds, rows) <= budget:
        return _planned(widths, widths, folds, rows, needed, budget)

    def limited(limit: int) -> list[int]:
        return [min(limit, rows) if width > limit else width for width in widths]

    def fits(limit: int) -> bool:
        return _reduced_bytes(widths, limited(limit), folds, rows) <= budget

    # The memory needed rises with the limit, except where the limit reaches a view's width, as that
    # view then needs no basis.
    ends = sorted({2, *(width for width in widths if width > 2)}, reverse=True)
    for above, least in pairwise(ends):
        if fits(least):
            most = above - 1
            while least < most:
                middle = (least + most + 1) // 2
                least, most = (middle, most) if fits(middle) else (least, middle - 1)
            return _planned(widths, limited(least), folds, rows, needed, budget)
    small = _reduced_bytes(widths, limited(2), folds, rows)
    raise InputError(
        f"even with every view reduced to 2 columns an audit in {folds} folds needs "
        f"{small / 1e6:,.1f} MB, the budget is {budget / 1e6:,.1f} MB; give a larger memory budget"
    )


def _planned(
    widths: Sequence[int],
    compared: Sequence[int],
    folds: int,
    rows: int,
    needed: int,
    budget: int,
) -> Plan:
    reduced = tuple(v for v, width in enumerate(widths) if compared[v] < width)
    room = budget - _held_bytes(widths, compared)
    passes = tiles(compared, folds, room, rows)
    together = [[compared[v] for v in tile.views] for tile in passes]
    room -= max(audit_bytes(some, folds, rows) for some in together)
    read = max(sum(some) for some in together) + max((widths[v] for v in reduced), default=0)
    step = block_rows(read, room)
    a_thread = 8 * read * (folds * read + HELD * SAMPLE + COPIES * block_rows(read))
    careful = room < a_thread * blas_threads()
    threads, roomy = pairs_at_a_time(together, folds, rows, room)
    return Plan(
        tuple(compared), reduced, tuple(passes), step, careful, needed, budget, threads, roomy
    )


def pairs_at_a_time(
    together: Sequence[Sequence[int]], folds: int, rows: int, room: int
) -> tuple[int, bool]:
    """How many pairs to compare at a time, and whether there is room to remember what they share.

    Parameters
    ----------
    together : sequence of sequence of int
        The widths of the views of each pass.
    folds, rows : int
    room : int
        Bytes beyond those of `audit_bytes`.
    """

    def more(some: Sequence[int], threads: int) -> int:
        """Bytes beyond those of reading, which are free again when views are compared."""
        comparing = audit_bytes(some, folds, rows, reading=False)
        comparing += remembered_bytes(some, folds, rows, threads)
        return comparing - audit_bytes(some, folds, rows)

    for threads in (blas_threads(), 1):
        if max(more(some, threads) for some in together) <= room:
            return threads, True
    return 1, False


def _pair_bytes(widths: Sequence[int], folds: int, rows: int) -> int:
    """Bytes for a pass over the two widest views."""
    return audit_bytes(sorted(widths)[-2:], folds, rows)


def _held_bytes(widths: Sequence[int], compared: Sequence[int]) -> int:
    """Bytes for the bases of all reduced views, and for the block that is being projected."""
    bases = [width * few for width, few in zip(widths, compared) if few < width]
    widest = max((width for width, few in zip(widths, compared) if few < width), default=0)
    return 8 * (sum(bases) + (LEAST_ROWS + CHUNK) * widest)


def _reduced_bytes(widths: Sequence[int], compared: Sequence[int], folds: int, rows: int) -> int:
    """Peak bytes of an audit of reduced views, while they are reduced and while compared."""
    held = _held_bytes(widths, compared)
    reducing = [
        reduction_bytes(width, few - 1) for width, few in zip(widths, compared) if few < width
    ]
    return held + max([_pair_bytes(compared, folds, rows), *reducing])


def reduce_views(
    sources: Sequence[Source],
    chosen: Plan,
    folds: Folds,
    seed: int = 0,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> tuple[list[Source], dict[int, Reduced]]:
    """Reduce views as planned; return all views to compare, and how each reduced one was reduced.

    Only rows that are in a fold count. Closing a reduced view closes its source.
    """
    reducing = progress and (lambda _, done, rows: progress("reducing", done, rows))
    views, what = list(sources), {}
    widths = [source.width for source in sources]
    left = chosen.budget - _held_bytes(widths, chosen.widths)
    for position, v in enumerate(chosen.reduced):
        report = share(reducing, position, len(chosen.reduced))
        if chosen.spans:
            found = row_span(sources[v], folds)
            if report is not None:
                report("reading", folds.rows, folds.rows)
        else:
            k = max(1, chosen.widths[v] - 1)
            found = leading(sources[v], folds, k, left, seed, engine=engine, progress=report)
        size = found.basis.shape[1]
        what[v] = Reduced(size, found.lost, found.exact, found.bound, whole=chosen.spans)
        basis, at_mean = found.with_mean(), None
        if chosen.spans:
            # All rows lie in the span. Rounding errors along the part of the mean outside of it
            # must be zero, or they could be mistaken for a direction.
            at_mean = found.mean @ basis
            basis[:, size:] = 0.0
        recipe = Projected(sources[v].origin, found.mean, basis, at_mean)
        del found
        views[v] = ProjectedSource(sources[v], recipe)
    return views, what
