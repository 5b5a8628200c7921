"""Who reads the rows and computes the units of a study: this process, a pool, or Dask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from identikit.errors import InputError
from identikit.moments.engines._engine import Engine

__all__ = ["Engine", "engine_for"]


@contextmanager
def engine_for(engine: object = None) -> Iterator[Engine | None]:
    """The engine that is meant, closed afterwards if it was started here; None for this process."""
    if engine is None or engine == "single":
        yield None
        return
    raise InputError(f"there is no engine {engine!r}")
