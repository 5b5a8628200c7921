"""Engines that read rows and compute the units of a study: this process, a pool, or Dask."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeGuard

from identikit.errors import InputError
from identikit.moments.engines._dask import Dask
from identikit.moments.engines._engine import Engine, LostError
from identikit.moments.engines._pool import THREADS, Pool, cores, start_workers, submit

__all__ = [
    "THREADS",
    "Dask",
    "Engine",
    "LostError",
    "Pool",
    "cores",
    "engine_for",
    "start_workers",
    "submit",
]


@contextmanager
def engine_for(engine: object = None) -> Iterator[Engine | None]:
    """Give the requested engine, and close it afterwards if it was started here.

    The engine is None if this process does the work itself.

    Parameters
    ----------
    engine : str, Engine or distributed.Client, optional
        "single" (the same as None), "pool", "dask", the address of a Dask scheduler such as
        "tcp://host:8786", a Dask client, or an engine, which is left open.
    """
    if engine is None or engine == "single":
        yield None
    elif _is_engine(engine):
        try:
            yield engine
        finally:
            engine.forget()
    else:
        started = _start(engine)
        try:
            yield started
        finally:
            started.close()


def _is_engine(engine: object) -> TypeGuard[Engine]:
    return all(hasattr(engine, name) for name in ("workers", "map", "reduce", "forget"))


def _start(engine: object) -> Engine:
    if engine == "pool":
        return Pool()
    if engine == "dask":
        return Dask()
    client = getattr(sys.modules.get("distributed"), "Client", None)
    if isinstance(engine, str) and "://" in engine:
        return Dask(engine)
    if client is not None and isinstance(engine, client):
        return Dask(engine)
    raise InputError(
        f"there is no engine {engine!r}; expected 'single', 'pool', 'dask', the address of a Dask "
        "scheduler such as 'tcp://host:8786', a Dask client, or an engine"
    )
