"""Dask distributed: workers on this machine or on many."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack
from typing import Any, TypeVar
from uuid import uuid4

from identikit._linalg import one_thread
from identikit.errors import InputError, MissingExtraError, require
from identikit.moments.engines._cluster import PATIENCE, client_of, local_cluster
from identikit.moments.engines._engine import REDONE, LostError, Range
from identikit.moments.engines._pool import cores
from identikit.moments.engines._sending import Sending, opened
from identikit.moments.engines._tree import Tree
from identikit.sources import DaskBlocks

T = TypeVar("T")
R = TypeVar("R")

#: Results that one task merges: a power of two, so that the tree stays the same.
FAN = 4

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
        self._stack, local = ExitStack(), scheduler is None
        try:
            if local:
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
            self._sending = Sending(self._client, self._ask, direct=local)
            self.workers = self._count_workers()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Dask:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def share(self, views: Sequence[object]) -> list[Any]:
        """The views as they are; what becomes of them depends on the rows."""
        for view in views:
            if isinstance(view, DaskBlocks) and view.client not in (None, self._client):
                raise InputError(
                    "a view lies on the Dask cluster at "
                    f"{view.client.scheduler.address}, and the engine is the one at "
                    f"{self.address}; give the client that persisted it as the engine"
                )
        return list(views)

    def reduce(
        self,
        task: Callable[[list[Any], Range[T]], R],
        shared: list[Any],
        items: Sequence[Range[T]],
        merge: Callable[[R, R], R],
        done: Callable[[int], None],
    ) -> R:
        """Merge ``task(views, item)`` of all items, as a tree on the workers.

        A worker that is lost has its items done again by others, by Dask's own doing, unless rows
        that were sent to it are lost too: then all is done again.
        """
        told: set[int] = set()
        for _ in range(1 + REDONE):
            futures = self._submit(task, shared, items)
            root = self._tree(merge, futures)
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

    def map(self, task: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R]]:
        """The number and ``task(item)`` of every item, as they come."""
        futures = self._calls(_run_alone, [task] * len(items), items)
        try:
            for number, future in self._finished(futures):
                self._check(future, number)
                yield number, self._ask(future.result)
                future.release()
        finally:
            for future in futures:
                future.release()

    def forget(self) -> None:
        """Let the workers drop the rows that they were sent."""
        self._sending.forget()

    def close(self) -> None:
        """Stop the cluster, if it was started here, and close the client, likewise."""
        self._stack.close()

    def _submit(
        self,
        task: Callable[[list[Any], Range[T]], R],
        shared: list[Any],
        items: Sequence[Range[T]],
    ) -> list[Any]:
        """A future an item."""
        views = [self._sending.view(view, items) for view in shared]
        of_items = [[view[number] for view in views] for number in range(len(items))]
        sent = [self._sending.item(item) for item in items]
        return self._calls(_run, [task] * len(items), of_items, sent)

    def _tree(self, merge: Callable[[R, R], R], futures: list[Any]) -> Any:
        """The future of all of them merged, which with which as in `Tree`."""
        while len(futures) > 1:
            some = [futures[start : start + FAN] for start in range(0, len(futures), FAN)]
            last = some.pop() if len(some[-1]) == 1 else []
            # Before items that are still waiting, so that few results wait to be merged.
            futures = self._calls(_merged, [merge] * len(some), some, priority=1) + last
        return futures[0]

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


def _run(task: Callable[[list[Any], Range[T]], R], views: Sequence[Any], item: Range[T]) -> R:
    """What a worker does with a range of rows."""
    try:
        with one_thread():
            return task(opened(views), item)
    except InputError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        from distributed import get_worker

        raise InputError(
            f"{error}: the worker at {get_worker().address} does not find it; every worker has to "
            "see the files under the same paths"
        ) from None


def _merged(merge: Callable[[R, R], R], results: Sequence[R]) -> R:
    """What a worker does with a few results."""
    tree = Tree(len(results), merge)
    for number, result in enumerate(results):
        tree.add(number, result)
    return tree.root


def _run_alone(task: Callable[[T], R], item: T) -> R:
    """What a worker does with a unit of work."""
    with one_thread():
        return task(item)
