"""Reading several ranges of rows at once, in threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import replace
from functools import reduce
from operator import add

from identikit._linalg import one_thread
from identikit.moments._scan import Reading, Summed, scan
from identikit.sources import Source, open_sources

#: Seconds between two checks of the threads' progress.
PATIENCE = 0.1


class _StoppedError(Exception):
    """Another thread has failed, or the user wants to stop."""


def scan_spans(
    sources: Sequence[Source],
    reading: Reading,
    spans: Sequence[tuple[int, int]],
    report: Callable[[int], None],
) -> Summed:
    """Read every range in a thread of its own, with one BLAS thread each, and merge the results.

    Products of a few hundred columns are too small for BLAS to parallelise well, and leave cores
    idle while rows are being converted; reading whole ranges in parallel keeps them busy. Threads
    open the sources again, since a file has only one position. `report` is called by the calling
    thread with the number of rows read so far.
    """
    done, stop = [0] * len(spans), [False]

    def run(number: int) -> Summed:
        def count(rows: int) -> None:
            done[number] = rows
            if stop[0]:
                raise _StoppedError

        with ExitStack() as stack:
            own = open_sources([s.origin for s in sources], [s.name for s in sources])
            for source in own:
                stack.callback(source.close)
            # One thread reads while others sum; more threads for reading would slow them down.
            return scan(own, replace(reading, ahead=False), *spans[number], count)

    with one_thread(), ThreadPoolExecutor(len(spans), "identikit-scan") as pool:
        futures = [pool.submit(run, number) for number in range(len(spans))]
        try:
            running = True
            while running:
                running = bool(wait(futures, PATIENCE, FIRST_EXCEPTION).not_done) and not any(
                    future.done() and future.exception() for future in futures
                )
                report(sum(done))
        finally:
            stop[0] = True  # has no effect if all are done
        failed = [future.exception() for future in futures if future.done()]
        for error in failed:
            if error is not None and not isinstance(error, _StoppedError):
                raise error
        return reduce(add, [future.result() for future in futures])
