"""What stands for views and items in the tasks of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from identikit.moments.engines._engine import Range
from identikit.moments.engines._held import Held
from identikit.moments.engines._travel import SMALL, packed_size, travels
from identikit.sources import DaskBlocks, open_source

Key = tuple[int, ...]


class Sending:
    """Sends to workers what they cannot open for themselves, and each thing once.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    ask : callable
        Calls a method of the client.
    direct : bool
        Whether workers can be reached from here, and not only the scheduler.
    """

    def __init__(self, client: Any, ask: Callable[..., Any], *, direct: bool) -> None:
        self._client, self._ask, self._direct = client, ask, direct
        # Beside what was sent stands what it was sent for, so that its id stays its own.
        self._sent: dict[Key, tuple[Any, object]] = {}

    def forget(self) -> None:
        """Let the workers drop all of it."""
        self._sent.clear()

    def view(self, view: object, items: Sequence[Range[Any]]) -> list[Any]:
        """What stands for a view in the task of each item, as `opened` understands it."""
        if isinstance(view, DaskBlocks) and view.client is not None:
            return self._blocks(view, items)
        if not travels(view):
            return self._rows(view, items)
        if (packed_size(view) or 0) <= SMALL:
            return [view] * len(items)
        if (id(view),) not in self._sent:
            self._sent[id(view),] = self._scatter([view], broadcast=True)[0], view
        return [self._sent[id(view),][0]] * len(items)

    def item(self, item: Range[Any]) -> Any:
        """A small item as it is; a large one goes to a worker, and not through the scheduler."""
        return item if (packed_size(item) or 0) <= SMALL else self._scatter([item])[0]

    def _rows(self, view: object, items: Sequence[Range[Any]]) -> list[Any]:
        """Of what lies in memory, its rows of each item, to one worker each."""
        keys = [(id(view), start, stop) for _, start, stop in items]
        missing = [key for key in keys if key not in self._sent]
        source = open_source(view)
        try:
            held = [Held(source.rows, a, [source.read(a, b)]) for _, a, b in missing]
            for key, future in zip(missing, self._scatter(held)):
                self._sent[key] = future, view
        finally:
            source.close()
        return [self._sent[key][0] for key in keys]

    def _blocks(self, view: DaskBlocks, items: Sequence[Range[Any]]) -> list[Any]:
        """Of what lies on the cluster, futures of the blocks of each item."""
        ranges = [view.within(start, stop) for _, start, stop in items]
        wanted = sorted({number for some in ranges for number in some})
        blocks = self._ask(self._client.compute, [view.blocks[number] for number in wanted])
        future, rows = dict(zip(wanted, blocks)), int(view.ends[-1])
        return [[rows, view.start_of(some[0]), [future[n] for n in some]] for some in ranges]

    def _scatter(self, things: list[Any], *, broadcast: bool = False) -> list[Any]:
        if not things:
            return []
        direct = True if self._direct else None
        futures: list[Any] = self._ask(
            self._client.scatter, things, hash=False, broadcast=broadcast, direct=direct
        )
        return futures


def opened(views: Sequence[Any]) -> list[Any]:
    """What stands for views, once it is with a worker, and Dask has put arrays for futures."""
    return [Held(*view) if isinstance(view, list) else view for view in views]
