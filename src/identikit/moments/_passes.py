"""One or two passes over the rows, by this process or by an engine, possibly resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import well_conditioned_root
from identikit._progress import Progress, silent
from identikit._threads import blas_threads, one_thread
from identikit.errors import InputError
from identikit.moments._folds import Folds
from identikit.moments._moments import Moments, Shard
from identikit.moments._part import StackLayout
from identikit.moments._scan import (
    CHUNK_ROWS,
    NonfiniteError,
    Reading,
    Summed,
    finite,
    scan,
)
from identikit.moments._sizes import check_sizes
from identikit.moments.engines import Engine
from identikit.moments.memory import NARROW
from identikit.moments.memory import block_rows as default_block_rows
from identikit.sources import Source, open_sources
from identikit.sources.device import on_one_device

__all__ = ["finite_rows", "read_moments"]

Span = tuple[int, int]

#: The smallest and largest number of row ranges per worker, so that a slow or lost worker does not
#: delay the others, and the number of rows that makes a range worth the communication.
SPANS_A_WORKER, ROWS_A_SPAN = (4, 16), 2**16

#: The number of rows from which threads are worthwhile, and seconds between two looks at them.
MANY_ROWS, PATIENCE = 2**17, 0.1

#: The largest number of row ranges of a pass that saves checkpoints, and the smallest number of
#: their rows; with fewer, merging would take longer than reading.
SPANS_KEPT, ROWS_KEPT = 256, 8192


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """How far a reading has come: the ranges of rows read, in which pass, and their sums."""

    second: bool
    spans: tuple[Span, ...]
    summed: Summed


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
    checkpoint: Checkpoint | None = None,
    keep: Callable[[Checkpoint], None] | None = None,
) -> Moments:
    """`accumulate` for open sources and rows that are already assigned to folds.

    With a `checkpoint` of an unfinished reading, only the remaining rows are read; `keep` is called
    from time to time with one.
    """
    widths = tuple(source.width for source in sources)
    step = min(block_rows or default_block_rows(sum(widths)), folds.rows)
    if digest:
        step = -(-step // CHUNK_ROWS) * CHUNK_ROWS
    reading = Reading(folds, StackLayout(widths), step, seed, sample, drop_nonfinite, digest)
    before = [stamps_of(source) for source in sources]
    read = partial(
        read_rows,
        sources,
        engine=engine,
        progress=progress,
        threads=1 if block_rows is not None else blas_threads(),
        keep=keep,
    )
    if checkpoint is not None and checkpoint.second:
        turned = replace(reading, layout=checkpoint.summed.moments.layout)
        summed = read(turned, second=True, checkpoint=checkpoint)
    else:
        summed = read(reading, checkpoint=checkpoint)
        if not any(hasattr(source, "exponent") for source in sources):
            check_sizes(summed.moments)
        layout = _well_conditioned(summed.moments) if summed.moments.rows > 1 else None
        if layout is not None:
            del summed  # the memory budget allows for only one
            summed = read(replace(reading, layout=layout), second=True)
    for source, stamps in zip(sources, before):
        if stamps_of(source) != stamps:
            raise InputError(
                f"view {source.name!r} ({source.origin}) changed or disappeared while it was read; "
                "let whatever writes it finish, and run this again"
            )
    digests = tuple(f"{digest:032x}" for digest in summed.digests)
    return replace(
        summed.moments,
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


def read_rows(
    sources: Sequence[Source],
    reading: Reading,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
    threads: int = 1,
    second: bool = False,
    checkpoint: Checkpoint | None = None,
    keep: Callable[[Checkpoint], None] | None = None,
) -> Summed:
    """One pass over all rows that are not in the checkpoint.

    `threads` is how many threads this process may use if there is no engine; `second` says whether
    this is the second pass.
    """
    rows, report = reading.folds.rows, progress or silent
    if engine is not None:
        at_a_time = spans_for(rows, engine.workers)
    else:
        at_a_time = threads if _is_work_for_threads(sources, reading) else 1
    spans = spans_of(rows, at_a_time) if keep is None else kept_spans(rows)
    done = [] if checkpoint is None else list(checkpoint.spans)
    summed = None if checkpoint is None else checkpoint.summed
    left = [span for span in spans if span not in set(done)]
    for first in range(0, len(left), at_a_time):
        some, before = left[first : first + at_a_time], sum(b - a for a, b in done)

        def count(found: int, before: int = before) -> None:
            report("reading", before + found, rows)

        try:
            if engine is not None:
                # With narrow rows a worker's core is busy already; a reading thread would slow it.
                own = replace(reading, ahead=reading.layout.width > NARROW)
                more: Summed = sum_by_engine(engine, _scan_span, sources, own, some, count)
            elif len(some) == 1:
                more = scan(sources, reading, *some[0], count)
            else:
                more = _scan_in_threads(sources, reading, some, count)
        except NonfiniteError as error:
            raise InputError(describe_nonfinite(sources, reading.step)) from error
        summed = more if summed is None else summed + more
        done += some
        if keep is not None and len(done) < len(spans):
            keep(Checkpoint(second, tuple(done), summed))
    assert summed is not None  # there is at least one row
    return summed


def _is_work_for_threads(sources: Sequence[Source], reading: Reading) -> bool:
    """Whether to read ranges in parallel, as BLAS by itself uses few threads for narrow views."""
    few = reading.folds.rows < MANY_ROWS or reading.layout.width > NARROW
    return not few and not on_one_device(sources)


class _StoppedError(Exception):
    """Another thread has failed, or the user wants to stop."""


def _scan_in_threads(
    sources: Sequence[Source],
    reading: Reading,
    spans: Sequence[Span],
    report: Callable[[int], None],
) -> Summed:
    """Read every range in a thread of its own, with one BLAS thread each, and merge the results.

    Products of a few hundred columns are too small for BLAS to parallelise well, and leave cores
    idle while rows are being converted; reading whole ranges in parallel keeps them busy. Threads
    open the sources again, since a file has only one position. `report` is called by the calling
    thread with the number of rows read so far.
    """
    done, stop = [0] * len(spans), [False]
    # One thread reads while others sum; more threads for reading would slow them down.
    own = replace(reading, ahead=False)

    def run(number: int) -> Summed:
        def count(rows: int) -> None:
            done[number] = rows
            if stop[0]:
                raise _StoppedError

        with opened([s.origin for s in sources], [s.name for s in sources]) as again:
            return scan(again, own, *spans[number], count)

    with one_thread(), ThreadPoolExecutor(len(spans), "identikit-scan") as pool:
        futures = [pool.submit(run, number) for number in range(len(spans))]
        try:
            running = True
            while running:
                finished, going = wait(futures, PATIENCE, FIRST_EXCEPTION)
                report(sum(done))
                running = bool(going) and not any(future.exception() for future in finished)
        finally:
            stop[0] = True  # has no effect if all are done
    for error in [future.exception() for future in futures]:
        if error is not None and not isinstance(error, _StoppedError):
            raise error
    return reduce(add, [future.result() for future in futures])


def sum_by_engine(
    engine: Engine,
    task: Callable[[list[Any], tuple[Any, int, int]], Any],
    sources: Sequence[Source],
    reading: Any,
    spans: Sequence[Span],
    count: Callable[[int], None],
) -> Any:
    """The sum of a task's results over ranges of rows, computed by workers.

    The task is called with the views to open and with (reading, start, stop), where `reading` has
    only the folds of that range. `count` is called with the number of rows done.
    """
    finished = [0]

    def done(number: int) -> None:
        finished[0] += spans[number][1] - spans[number][0]
        count(finished[0])

    items = [
        (replace(reading, folds=reading.folds.within(start, stop)), start, stop)
        for start, stop in spans
    ]
    return engine.reduce(task, [source.origin for source in sources], items, done)


def _scan_span(views: list[Any], item: tuple[Reading, int, int]) -> Summed:
    """The task of a worker: open the views, read a range of rows, and close them."""
    with opened(views) as sources:
        return scan(sources, *item)


@contextmanager
def opened(
    views: Sequence[object], names: Sequence[str] | None = None
) -> Iterator[Sequence[Source]]:
    """Open some views, and close them afterwards."""
    sources = open_sources(views, names)
    try:
        yield sources
    finally:
        for source in sources:
            source.close()


def spans_for(rows: int, workers: int) -> int:
    """Number of row ranges for the given number of workers."""
    fewest, most = SPANS_A_WORKER
    return workers * min(max(fewest, rows // (workers * ROWS_A_SPAN)), most)


def spans_of(rows: int, count: int) -> list[Span]:
    """At most `count` ranges of rows, each starting at a multiple of `CHUNK_ROWS`."""
    size = -(-rows // (count * CHUNK_ROWS)) * CHUNK_ROWS if count > 1 else rows
    return [(start, min(start + size, rows)) for start in range(0, rows, size)]


def kept_spans(rows: int) -> list[Span]:
    """The ranges of rows after which a checkpoint may be saved."""
    return spans_of(rows, min(SPANS_KEPT, -(-rows // ROWS_KEPT)))


def stamps_of(source: Source) -> list[tuple[int, int] | None]:
    """Size and modification time of every file that a view is read from."""
    stamps: list[tuple[int, int] | None] = []
    for path in source.files:
        try:
            found = path.stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((found.st_size, found.st_mtime_ns))
    return stamps


def _well_conditioned(moments: Moments) -> StackLayout | None:
    """Coordinates in which every view is well conditioned; None if no view needs them."""
    views = range(len(moments.names))
    if all(moments.whiten(v).settled for v in views):
        return None
    pairs = [well_conditioned_root(moments.block(v, v), moments.scales(v)) for v in views]
    return StackLayout(moments.widths, tuple(r for _, r in pairs), tuple(f for f, _ in pairs))


def describe_nonfinite(sources: Sequence[Source], step: int) -> str:
    """An error message that says which views have NaN or infinity, and in which rows."""
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
