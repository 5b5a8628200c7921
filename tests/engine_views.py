"""Views and tasks that travel to workers, which import them from here."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources import Source, open_source


class Rows:
    """A source whose rows are those of another, with something that happens as they are read."""

    def __init__(self, recipe: Any, source: Source) -> None:
        self.name, self.rows, self.width, self.eps = (
            source.name,
            source.rows,
            source.width,
            source.eps,
        )
        self.origin, self.files = recipe, ()
        self._recipe, self._source = recipe, source

    def read(self, start: int, stop: int) -> NDArray[Any]:
        self._recipe.happens(start, stop)
        return self._source.read(start, stop)

    def close(self) -> None:
        self._source.close()


@dataclass(frozen=True)
class Recipe:
    """A view that is small and travels."""

    view: object

    def open_source(self, name: str) -> Rows:
        return Rows(self, open_source(self.view, name))

    def happens(self, start: int, stop: int) -> None:
        """Nothing."""


@dataclass(frozen=True)
class Heavy(Recipe):
    """A view that travels with something large."""

    luggage: bytes


@dataclass(frozen=True)
class Gate(Recipe):
    """Whoever comes to a certain row says so in a folder, and waits until the gate is opened."""

    folder: str
    row: int

    def happens(self, start: int, stop: int) -> None:
        if start <= self.row < stop and not Path(self.folder, "open").exists():
            Path(self.folder, f"pid-{os.getpid()}").touch()
            while not Path(self.folder, "open").exists():
                time.sleep(0.01)


@dataclass(frozen=True)
class Deadly(Recipe):
    """Whoever comes to a certain row is killed."""

    row: int

    def happens(self, start: int, stop: int) -> None:
        if start <= self.row < stop:
            os.kill(os.getpid(), signal.SIGKILL)


class AwkwardError(Exception):
    """It does not survive being pickled."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


def fail(how: str) -> Any:
    if how == "input":
        raise InputError("the width is 0; give a larger one")
    if how == "os":
        raise PermissionError("this is not for you")
    if how == "awkward":
        raise AwkwardError(1, 2)
    if how == "import":
        raise ModuleNotFoundError("No module named 'identikit'")
    if how == "lambda":
        return lambda: "from a worker"
    return how


def pid_of(_: object) -> int:
    return os.getpid()


def slowly(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def threads(_: object) -> int:
    """The most BLAS threads of this process, while a task runs."""
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
