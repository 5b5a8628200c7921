"""One pass over the rows, or two: by this process or by an engine, in one go or resumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import blas_threads, well_conditioned_root
from identikit._progress import Progress, silent
from identikit.errors import InputError
from identikit.moments._folds import Folds
from identikit.moments._moments import Moments, Shard
from identikit.moments._part import Layout
from identikit.moments._scan import (
    CHUNK_ROWS,
    NonfiniteError,
    Reading,
    Scanned,
    finite,
    scan,
)
from identikit.moments._sizes import check_sizes
from identikit.moments._threads import scan_spans
from identikit.moments.engines import Engine
from identikit.moments.memory import NARROW
from identikit.moments.memory import block_rows as default_block_rows
from identikit.sources import Source, open_sources
from identikit.sources.device import on_one_device

Span = tuple[int, int]

#: Ranges of rows a worker gets at least and at most, so that one that is late or lost does not hold
#: up the rest, and rows that make a range worth the messages about it.
SPANS_A_WORKER, ROWS_A_SPAN = (4, 16), 2**16

#: Rows from which on threads are worth their while.
MANY_ROWS = 2**17

#: Ranges of rows that a pass is cut into if what was read is to be kept.
SPANS_KEPT = 256

#: Rows that such a range has at least, or merging would take longer than reading.
ROWS_KEPT = 8192


class Kept(NamedTuple):
    """What has been read: which ranges, in which pass, and their moments and digests."""

    second: bool
    spans: tuple[Span, ...]
    scanned: Scanned


class Keeper(Protocol):
    """Keeps what has been read so far, so that a reading that is killed can go on."""

    def recall(self) -> Kept | None:
        """What was kept of this very reading, if anything."""
        ...

    def keep(self, kept: Kept) -> None:
        """Keep this in place of what was kept before, or decline if that was a moment ago."""
        ...


def read_moments(
    sources: Sequence[Source],
    folds: Folds,
    *,
    seed: int = 0,
    sample: int = 1000,
    drop_nonfinite: bool = False,
    block_rows: int | None = None,
    progress: Progress | None = None,
    engine: Engine | None = None,
    digest: bool = False,
    keeper: Keeper | None = None,
) -> Moments:
    """`accumulate` for open sources and rows already dealt out to folds.

    Parameters
    ----------
    engine : Engine, optional
        Workers that read ranges of rows; this process by default.
    digest : bool
        Digest what is read; the moments then know which shard they are of.
    keeper : Keeper, optional
        Keeps what has been read so far, and knows what was read before.
    """
    widths = tuple(source.width for source in sources)
    step = min(block_rows or default_block_rows(sum(widths)), folds.rows)
    if digest:
        step = -(-step // CHUNK_ROWS) * CHUNK_ROWS
    reading = Reading(folds, Layout(widths), step, seed, sample, drop_nonfinite, digest)
    before = [stamps_of(source) for source in sources]
    threads = 1 if block_rows is not None else blas_threads()
    passes = Passes(sources, engine, keeper, progress, threads)
    kept = None if keeper is None else keeper.recall()
    if kept is not None and kept.second:
        scanned = passes.read(replace(reading, layout=kept.scanned.moments.layout), True, kept)
    else:
        scanned = passes.read(reading, False, kept)
        if not any(hasattr(source, "exponent") for source in sources):
            check_sizes(scanned.moments)
        layout = _well_conditioned(scanned.moments) if scanned.moments.rows > 1 else None
        if layout is not None:
            del scanned  # before the next: the memory is for one
            scanned = passes.read(replace(reading, layout=layout), True, None)
    for source, stamps in zip(sources, before):
        if stamps_of(source) != stamps:
            raise InputError(
                f"view {source.name!r} ({source.origin}) changed or disappeared while it was read; "
                "let whatever writes it finish, and run this again"
            )
    digests = tuple(f"{digest:032x}" for digest in scanned.digests)
    return replace(
        scanned.moments,
        names=tuple(source.name for source in sources),
        eps=tuple(source.eps for source in sources),
        seed=seed,
        rule=folds.rule,
        shards=(Shard(folds.rows, digests),) if digests else (),
    )


def finite_rows(sources: Sequence[Source], block_rows: int = 4096) -> NDArray[np.bool_]:
    """Which rows are finite in every view."""
    rows = sources[0].rows
    return np.concatenate(
        [
            finite([source.read(start, min(start + block_rows, rows)) for source in sources])
            for start in range(0, rows, block_rows)
        ]
    )


@dataclass(frozen=True)
class Passes:
    """Who reads, and who is told."""

    sources: Sequence[Source]
    engine: Engine | None
    keeper: Keeper | None
    progress: Progress | None
    threads: int = 1

    def read(self, reading: Reading, second: bool, kept: Kept | None) -> Scanned:
        """One pass over the rows that `kept` does not hold."""
        rows = reading.folds.rows
        if self.engine is None:
            at_a_time = self._threads(reading)
        else:
            at_a_time = spans_for(rows, self.engine.workers)
        spans = spans_of(rows, at_a_time) if self.keeper is None else kept_spans(rows)
        done = [] if kept is None else list(kept.spans)
        scanned = None if kept is None else kept.scanned
        left = [span for span in spans if span not in set(done)]
        for first in range(0, len(left), at_a_time):
            some = left[first : first + at_a_time]
            try:
                more = self._read_spans(reading, some, sum(b - a for a, b in done))
            except NonfiniteError as error:
                raise InputError(describe_nonfinite(self.sources, reading.step)) from error
            scanned = more if scanned is None else scanned + more
            done += some
            if self.keeper is not None and len(done) < len(spans):
                self.keeper.keep(Kept(second, tuple(done), scanned))
        assert scanned is not None  # there is at least one row
        return scanned

    def _threads(self, reading: Reading) -> int:
        """Ranges to read at once: BLAS shares out the sums of wide views well, not of narrow."""
        many = reading.folds.rows >= MANY_ROWS
        if many and reading.layout.width <= NARROW and not on_one_device(self.sources):
            return self.threads
        return 1

    def _read_spans(self, reading: Reading, spans: list[Span], before: int) -> Scanned:
        rows, told = reading.folds.rows, self.progress or silent
        if self.engine is None and len(spans) == 1:
            return scan(
                self.sources,
                reading,
                *spans[0],
                lambda what, done, _: told(what, before + done, rows),
            )
        if self.engine is None:
            return scan_spans(
                self.sources, reading, spans, lambda done: told("reading", before + done, rows)
            )
        finished = [before]

        def done(number: int) -> None:
            start, stop = spans[number]
            finished[0] += stop - start
            told("reading", finished[0], rows)

        # Of narrow rows a worker has its hands full; a thread that reads would be in its way.
        own = replace(reading, ahead=reading.layout.width > NARROW)
        items = [
            (replace(own, folds=reading.folds.within(start, stop)), start, stop)
            for start, stop in spans
        ]
        views = [source.origin for source in self.sources]
        scanned: Scanned = self.engine.reduce(_scan_span, views, items, done)
        return scanned


def _scan_span(views: list[Any], item: tuple[Reading, int, int]) -> Scanned:
    """What a worker does: open the views, read a range of rows, close them."""
    sources = open_sources(views)
    try:
        return scan(sources, *item)
    finally:
        for source in sources:
            source.close()


def spans_for(rows: int, workers: int) -> int:
    """Ranges that so many workers get."""
    fewest, most = SPANS_A_WORKER
    return workers * min(max(fewest, rows // (workers * ROWS_A_SPAN)), most)


def spans_of(rows: int, count: int) -> list[Span]:
    """At most `count` ranges that start at whole chunks of rows."""
    size = -(-rows // (count * CHUNK_ROWS)) * CHUNK_ROWS if count > 1 else rows
    return [(start, min(start + size, rows)) for start in range(0, rows, size)]


def kept_spans(rows: int) -> list[Span]:
    """The ranges of rows after which what was read may be kept."""
    return spans_of(rows, min(SPANS_KEPT, -(-rows // ROWS_KEPT)))


def stamps_of(source: Source) -> list[tuple[int, int] | None]:
    """Size and time of change of every file that a view is read from."""
    stamps: list[tuple[int, int] | None] = []
    for path in source.files:
        try:
            found = path.stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((found.st_size, found.st_mtime_ns))
    return stamps


def _well_conditioned(moments: Moments) -> Layout | None:
    """Coordinates in which every view is well conditioned, if any view needs them."""
    views = range(len(moments.names))
    if all(moments.whiten(v).settled for v in views):
        return None
    pairs = [well_conditioned_root(moments.block(v, v), moments.scales(v)) for v in views]
    return Layout(moments.widths, tuple(r for _, r in pairs), tuple(f for f, _ in pairs))


def describe_nonfinite(sources: Sequence[Source], step: int) -> str:
    """The sentence that says which views hold NaN or infinity, in how many rows, first where."""
    words = []
    for source in sources:
        bad, first = 0, -1
        for start in range(0, source.rows, step):
            block = source.read(start, min(start + step, source.rows))
            wrong = np.flatnonzero(~finite([block]))
            if len(wrong) and first < 0:
                first = start + int(wrong[0])
            bad += len(wrong)
        if bad:
            words.append(
                f"view {source.name!r} has NaN or infinity in {bad} of {source.rows} rows, the "
                f"first is row {first}"
            )
    return (
        f"{'; '.join(words)} (counting from 0); repair them, or leave such rows out of all views "
        "with --drop-nonfinite (drop_nonfinite=True)"
    )
