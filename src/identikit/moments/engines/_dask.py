"""Dask distributed: workers on this machine or on many."""

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

from identikit._linalg import one_thread
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

#: Seconds between two looks at what has been finished.
LOOK = 0.01

#: Seconds without a word after which to ask whether there are workers left, and how often.
SILENCE, ASKED = 10.0, 3


class Dask:
    """A Dask cluster: an `Engine`.

    Paths are opened by the workers, which must see them under the same name. Rows that lie in
    memory go to them once, each to one worker; those that a lost worker had are sent again.

    Parameters
    ----------
    scheduler : str or distributed.Client, optional
        The address of a scheduler, such as "tcp://host:8786", or a client, which is left as it is;
        by default a cluster of processes on this machine, with one thread each, that `close` stops.
    workers : int, optional
        How many processes that cluster has; as many as there are cores by default.
    """

    def __init__(self, scheduler: Any = None, workers: int | None = None) -> None:
        self._distributed = require("distributed", "dask", "the Dask engine")
        if scheduler is not None and workers is not None:
            raise InputError(
                f"the scheduler at {scheduler} has the workers that it has; leave out "
                f"workers={workers}, which is for a cluster that is started here"
            )
        # Whether workers can be reached from here, and not only the scheduler.
        self._stack, self._direct = ExitStack(), True if scheduler is None else None
        # Beside what was sent stands what it was sent for, so that its id stays its own.
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
        """The number and ``task(item)`` of every item, as they come."""
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
        """The sum of ``task(views, item)`` over all items, as a tree of ``+`` on the workers.

        A worker that is lost has its items done again by others, by Dask's own doing, unless rows
        that were sent to it are lost too: then all is done again.
        """
        told: set[int] = set()
        for _ in range(1 + REDONE):
            futures = self._submit(task, views, items)
            root = self._sum(futures)
            try:
                for number, future in self._finished([*futures, root]):
                    if future.cancelled() and self._client.status == "running":
                        break  # rows that were sent are lost
                    self._check(future, number)
                    if number == len(items):
                        return self._ask(future.result)  # type: ignore[no-any-return]
                    if number not in told:
                        told.add(number)
                        done(number)
                    if future is not root:
                        future.release()
            finally:
                for future in [*futures, root]:
                    future.release()
            self.forget()
        raise LostError(
            f"workers of the Dask cluster at {self.address} were lost {1 + REDONE} times over, and "
            "with them the rows that they had been sent; look into their logs, or give paths that "
            "they see in place of arrays"
        )

    def forget(self) -> None:
        """Let the workers drop the rows that they were sent."""
        self._sent.clear()

    def close(self) -> None:
        """Stop the cluster, if it was started here, and close the client, likewise."""
        self._stack.close()

    def _submit(
        self,
        task: Callable[[list[Any], Range[T]], R],
        views: Sequence[object],
        items: Sequence[Range[T]],
    ) -> list[Any]:
        """A future an item."""
        sent = [self._views(view, items) for view in views]
        # A large item goes to a worker, and not through the scheduler.
        given = [
            item if (packed_size(item) or 0) <= SMALL else self._scatter([item])[0]
            for item in items
        ]
        return self._calls(
            _run_on_views, [task] * len(items), [list(each) for each in zip(*sent)], given
        )

    def _sum(self, futures: list[Any]) -> Any:
        """The future of all of them added up, which to which as in `add_up`."""
        while len(futures) > 1:
            # Before items that are still waiting, so that few results wait to be added.
            pairs = self._calls(add, futures[:-1:2], futures[1::2], priority=1)
            futures = pairs + futures[2 * len(pairs) :]
        return futures[0]

    def _views(self, view: object, items: Sequence[Range[Any]]) -> list[Any]:
        """What stands for a view in the task of each item: see `_run_on_views`."""
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
        """Of what lies in memory, its rows of each item, to one worker each."""
        keys = [(id(view), start, stop) for _, start, stop in items]
        missing = [key for key in keys if key not in self._sent]
        with closing(open_source(view)) as source:
            sent = self._scatter([source.read(a, b) for _, a, b in missing])
            rows = source.rows
        self._sent |= {key: (future, view) for key, future in zip(missing, sent)}
        return [[rows, key[1], [self._sent[key][0]]] for key in keys]

    def _blocks(self, view: DaskBlocks, items: Sequence[Range[Any]]) -> list[Any]:
        """Of what lies on the cluster, futures of the blocks of each item."""
        if view.client is not self._client:
            raise InputError(
                f"a view lies on the Dask cluster at {view.client.scheduler.address}, and the "
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
        """Futures of calls, which Dask makes again if their workers are lost."""
        name = uuid4().hex
        keys = [f"identikit-{name}-{number}" for number in range(len(arguments[0]))]
        if not keys:
            return []
        futures: list[Any] = self._ask(
            self._client.map, function, *arguments, key=keys, pure=False, priority=priority
        )
        return futures

    def _finished(self, futures: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """The number of every future, and the future, as they are finished, failed or lost."""
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
        """Raise what a task has raised, or say that there is no task any more."""
        if future.cancelled():
            raise self._lost("")
        if future.status != "error":
            return
        error = future.exception()
        if isinstance(error, self._distributed.KilledWorker):
            raise LostError(
                f"worker after worker of the Dask cluster at {self.address} ended on the same "
                "rows: they ran out of memory or were killed; their logs say more",
                number,
            ) from error
        if _is_foreign(error):
            raise self._foreign(error) from error
        raise error

    def _ask(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call the client, and say clearly if nobody answers, or nobody who understands."""
        if self._client.status != "running":  # else it would try to find the scheduler again
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
    """Whether this comes of another Python over there, with other packages."""
    if isinstance(error, MissingExtraError):
        return False
    signs = ("No module named", "deserializ")
    return isinstance(error, ImportError) or any(sign in str(error) for sign in signs)


def _run(task: Callable[[T], R], item: T) -> R:
    """What a worker does with an item."""
    with one_thread():
        return task(item)


def _run_on_views(
    task: Callable[[list[Any], Range[T]], R], views: Sequence[Any], item: Range[T]
) -> R:
    """What a worker does with a range of rows.

    A view is a path, a recipe, or what `RowsAtHand` takes, with arrays where futures were.
    """
    try:
        with one_thread():
            return task([RowsAtHand(*v) if isinstance(v, list) else v for v in views], item)
    except InputError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        from distributed import get_worker

        raise InputError(
            f"{error}: the worker at {get_worker().address} does not find it; every worker has to "
            "see the files under the same paths"
        ) from None


class RowsAtHand:
    """A view of which only some consecutive rows are at hand: a recipe, and the source it opens.

    Parameters
    ----------
    rows : int
        Of the whole view.
    first : int
        The number of the first row that is at hand.
    blocks : sequence of arrays
        The rows from there on.
    name : str
        What reports call the view.
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
        """Rows `start` to `stop`, all of them at hand."""
        first, parts = self._first, []
        for block in self._blocks:
            if start < first + len(block) and first < stop:
                parts.append(block[max(start - first, 0) : stop - first])
            first += len(block)
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return rows.astype(np.float32) if is_bfloat16(rows.dtype) else rows

    def close(self) -> None:
        """Nothing to let go of."""
