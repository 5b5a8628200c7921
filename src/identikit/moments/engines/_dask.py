"""The Dask engine: workers on this machine or on many."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, closing
from operator import add
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from identikit._threads import one_thread
from identikit.errors import InputError, MissingExtraError, require
from identikit.moments.engines._cluster import PATIENCE, client_of, local_cluster
from identikit.moments.engines._engine import (
    REDONE,
    SMALL,
    LostError,
    Range,
    packed_size,
    travels,
)
from identikit.moments.engines._pool import cores
from identikit.sources import DaskBlocks, open_source
from identikit.sources.checks import is_bfloat16, numeric_eps

T = TypeVar("T")
R = TypeVar("R")

#: Seconds between two checks for finished items.
LOOK = 0.01

#: Seconds without a result after which to check that there are workers left, and the number of such
#: checks before giving up.
SILENCE, ASKED = 10.0, 3


class Dask:
    """An `Engine` that uses a Dask cluster.

    Paths are opened by the workers, which must find the files under the same paths. Rows in memory
    are sent once, each to one worker; the rows of a lost worker are sent again.

    Parameters
    ----------
    scheduler : str or distributed.Client, optional
        The address of a scheduler, such as "tcp://host:8786", or a client, which is left open. By
        default, a cluster of processes on this machine is started, with one thread each, and
        stopped by `close`.
    workers : int, optional
        Number of processes of a cluster that is started here; the number of cores by default.
    """

    def __init__(self, scheduler: Any = None, workers: int | None = None) -> None:
        self._distributed = require("distributed", "dask", "the Dask engine")
        if scheduler is not None and workers is not None:
            raise InputError(
                f"the number of workers of the scheduler at {scheduler} is fixed; leave out "
                f"workers={workers}, which is for a cluster that is started here"
            )
        # Whether workers can be reached directly, and not only through the scheduler.
        self._stack, self._direct = ExitStack(), True if scheduler is None else None
        # The original is stored with the future, so that its id is not reused.
        self._sent: dict[tuple[int, ...], tuple[Any, object]] = {}
        try:
            if scheduler is None:
                started = local_cluster(cores() if workers is None else workers)
                scheduler = self._stack.enter_context(started)
            if isinstance(scheduler, str):
                scheduler = self._stack.enter_context(client_of(scheduler))
            self._client = scheduler
            if self._client.status != "running":
                raise InputError(
                    f"the Dask client that was given is {self._client.status}; give one that is "
                    "connected to its scheduler"
                )
            self.address: str = self._client.scheduler.address
            self.workers = self._count_workers()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Dask:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def map(self, task: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R]]:
        """Yield the number and ``task(item)`` of every item, in the order of completion."""
        futures = self._calls(_run, [task] * len(items), items)
        try:
            for number, future in self._finished(futures):
                self._check(future, number)
                yield number, self._ask(future.result)
                future.release()
        finally:
            for future in futures:
                future.release()

    def reduce(
        self,
        task: Callable[[list[Any], Range[T]], R],
        views: Sequence[object],
        items: Sequence[Range[T]],
        done: Callable[[int], None],
    ) -> R:
        """The sum of ``task(views, item)`` over all items, by pairwise summation on the workers.

        Dask lets other workers repeat the items of a worker that is lost. If rows that were sent to
        it are lost too, all items are repeated.
        """
        reported: set[int] = set()
        for _ in range(1 + REDONE):
            futures = self._submit(task, views, items)
            root = self._sum(futures)
            try:
                for number, future in self._finished([*futures, root]):
                    if future.cancelled() and self._client.status == "running":
                        break  # rows that were sent to a worker are lost
                    self._check(future, number)
                    if number == len(items):
                        return self._ask(future.result)  # type: ignore[no-any-return]
                    if number not in reported:
                        reported.add(number)
                        done(number)
                    if future is not root:
                        future.release()
            finally:
                for future in [*futures, root]:
                    future.release()
            self.forget()
        raise LostError(
            f"workers of the Dask cluster at {self.address} were lost {1 + REDONE} times, and "
            "with them the rows that had been sent to them; look into their logs, or give paths "
            "that they can open in place of arrays"
        )

    def forget(self) -> None:
        """Let the workers discard the rows that were sent to them."""
        self._sent.clear()

    def close(self) -> None:
        """Stop the cluster and close the client, if they were started here."""
        self._stack.close()

    def _submit(
        self,
        task: Callable[[list[Any], Range[T]], R],
        views: Sequence[object],
        items: Sequence[Range[T]],
    ) -> list[Any]:
        """One future per item."""
        sent = [self._views(view, items) for view in views]
        # A large item is sent directly to a worker, and not through the scheduler.
        given = [
            item if (packed_size(item) or 0) <= SMALL else self._scatter([item])[0]
            for item in items
        ]
        return self._calls(
            _run_on_views, [task] * len(items), [list(each) for each in zip(*sent)], given
        )

    def _sum(self, futures: list[Any]) -> Any:
        """The future of the sum of all results, in the same order of additions as in `add_up`."""
        while len(futures) > 1:
            # With higher priority than items, so that few results wait to be added.
            pairs = self._calls(add, futures[:-1:2], futures[1::2], priority=1)
            futures = pairs + futures[2 * len(pairs) :]
        return futures[0]

    def _views(self, view: object, items: Sequence[Range[Any]]) -> list[Any]:
        """What is sent in place of a view, for each item; see `_run_on_views`."""
        if isinstance(view, DaskBlocks) and view.client is not None:
            return self._blocks(view, items)
        if not travels(view):
            return self._rows(view, items)
        if (packed_size(view) or 0) <= SMALL:
            return [view] * len(items)
        if (id(view),) not in self._sent:
            self._sent[id(view),] = self._scatter([view], broadcast=True)[0], view
        return [self._sent[id(view),][0]] * len(items)

    def _rows(self, view: object, items: Sequence[Range[Any]]) -> list[Any]:
        """Send the rows of a view in memory to the workers, those of each item to one worker."""
        keys = [(id(view), start, stop) for _, start, stop in items]
        missing = [key for key in keys if key not in self._sent]
        with closing(open_source(view)) as source:
            sent = self._scatter([source.read(a, b) for _, a, b in missing])
            rows = source.rows
        self._sent |= {key: (future, view) for key, future in zip(missing, sent)}
        return [[rows, key[1], [self._sent[key][0]]] for key in keys]

    def _blocks(self, view: DaskBlocks, items: Sequence[Range[Any]]) -> list[Any]:
        """Futures of the blocks of each item, for a view that is already on the cluster."""
        if view.client is not self._client:
            raise InputError(
                f"a view is on the Dask cluster at {view.client.scheduler.address}, but the "
                f"engine is the one at {self.address}; give the client that persisted it as the "
                "engine"
            )
        ranges = [view.within(start, stop) for _, start, stop in items]
        wanted = sorted({number for some in ranges for number in some})
        blocks = self._ask(self._client.compute, [view.blocks[number] for number in wanted])
        future, rows = dict(zip(wanted, blocks)), int(view.ends[-1])
        return [[rows, view.start_of(some[0]), [future[n] for n in some]] for some in ranges]

    def _scatter(self, things: list[Any], *, broadcast: bool = False) -> list[Any]:
        if not things:
            return []
        futures: list[Any] = self._ask(
            self._client.scatter, things, hash=False, broadcast=broadcast, direct=self._direct
        )
        return futures

    def _calls(
        self, function: Callable[..., Any], *arguments: Sequence[Any], priority: int = 0
    ) -> list[Any]:
        """Futures of calls, which Dask repeats if their workers are lost."""
        name = uuid4().hex
        keys = [f"identikit-{name}-{number}" for number in range(len(arguments[0]))]
        if not keys:
            return []
        futures: list[Any] = self._ask(
            self._client.map, function, *arguments, key=keys, pure=False, priority=priority
        )
        return futures

    def _finished(self, futures: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Yield the number of every future, and the future, when it is finished, failed or lost."""
        waiting, heard, alone = dict(enumerate(futures)), time.monotonic(), 0
        while waiting:
            finished = [number for number, future in waiting.items() if future.done()]
            for number in finished:
                yield number, waiting.pop(number)
            if finished:
                heard, alone = time.monotonic(), 0
            elif time.monotonic() - heard < SILENCE:
                time.sleep(LOOK)
            else:
                heard = time.monotonic()
                alone = 0 if self._ask(self._client.nthreads) else alone + 1
                if alone == ASKED:
                    raise LostError(
                        f"the Dask scheduler at {self.address} has no workers left; start some "
                        f"with: dask worker {self.address}, and run this again"
                    )

    def _check(self, future: Any, number: int) -> None:
        """Raise the exception of a task that failed, or an error if the task was lost."""
        if future.cancelled():
            raise self._lost("")
        if future.status != "error":
            return
        error = future.exception()
        if isinstance(error, self._distributed.KilledWorker):
            raise LostError(
                f"several workers of the Dask cluster at {self.address} in turn died on the same "
                "rows: they ran out of memory or were killed; their logs say more",
                number,
            ) from error
        if _is_foreign(error):
            raise self._foreign(error) from error
        raise error

    def _ask(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call the client, and raise a clear error if the scheduler is lost or incompatible."""
        if self._client.status != "running":  # otherwise it would try to reconnect
            raise self._lost("")
        try:
            return call(*args, **kwargs)
        except (CancelledError, OSError) as error:
            raise self._lost(f" ({error})") from error
        except Exception as error:
            if _is_foreign(error):
                raise self._foreign(error) from error
            raise

    def _foreign(self, error: Exception) -> InputError:
        return InputError(
            f"the Dask cluster at {self.address} could not run this: {error}; its scheduler and "
            "its workers need this version of identikit, and of Dask"
        )

    def _lost(self, why: str) -> LostError:
        return LostError(
            f"the Dask scheduler at {self.address} was lost{why}, and there is no result; start it "
            "again and run this again"
        )

    def _count_workers(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while not (threads := self._ask(self._client.nthreads)):
            if time.monotonic() > deadline:
                raise InputError(
                    f"the Dask scheduler at {self.address} has no workers; start some with: "
                    f"dask worker {self.address}"
                )
            time.sleep(LOOK)
        return sum(threads.values())


def _is_foreign(error: Exception) -> bool:
    """Whether an error is due to different versions of packages on the workers."""
    if isinstance(error, MissingExtraError):
        return False
    signs = ("No module named", "deserializ")
    return isinstance(error, ImportError) or any(sign in str(error) for sign in signs)


def _run(task: Callable[[T], R], item: T) -> R:
    """Run a task in a worker."""
    with one_thread():
        return task(item)


def _run_on_views(
    task: Callable[[list[Any], Range[T]], R], views: Sequence[Any], item: Range[T]
) -> R:
    """Run a task on a range of rows in a worker.

    A view is a path, a recipe, or a list of arguments for `RowsAtHand`, in which Dask has replaced
    futures by arrays.
    """
    try:
        with one_thread():
            return task([RowsAtHand(*v) if isinstance(v, list) else v for v in views], item)
    except InputError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        from distributed import get_worker

        raise InputError(
            f"{error}: the worker at {get_worker().address} does not find it; every worker must "
            "find the files under the same paths"
        ) from None


class RowsAtHand:
    """A view of `rows` rows of which only the `blocks` from row `first` on are available.

    It is both a recipe and a source.
    """

    def __init__(
        self, rows: int, first: int, blocks: Sequence[NDArray[Any]], name: str = "view"
    ) -> None:
        self.name, self.rows, self.width = name, rows, blocks[0].shape[1]
        self.eps = numeric_eps(blocks[0].dtype, f"view {name!r}")
        self.origin: object = self
        self.files: tuple[Path, ...] = ()
        self._first, self._blocks = first, blocks

    def open_source(self, name: str) -> RowsAtHand:
        """The same under another name."""
        return RowsAtHand(self.rows, self._first, self._blocks, name)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop`, all of which must be available."""
        first, parts = self._first, []
        for block in self._blocks:
            if start < first + len(block) and first < stop:
                parts.append(block[max(start - first, 0) : stop - first])
            first += len(block)
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return rows.astype(np.float32) if is_bfloat16(rows.dtype) else rows

    def close(self) -> None:
        """Do nothing, as there is nothing to close."""
