"""What every world gives: samples, promises of theory, and a check of its own assumptions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from identikit.errors import InputError, require


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of a world: what nobody sees, what a learner sees, and what is known beside it.

    Attributes
    ----------
    latents : array (rows, d)
        The true factors.
    observations : array (rows, D)
        What a learner sees of them.
    labels : array (rows,), optional
        The class of each row.
    instances : array (rows,), optional
        Which instance it is another view of.
    positives, positive_latents : array (rows, D) and (rows, d), optional
        The partner of each row, as a learner sees it and as it is.
    negatives : array (rows, D), optional
        Another row that was drawn near it on purpose.
    environments : array (rows,), optional
        Under which conditions it was seen.
    """

    latents: Any
    observations: Any
    labels: Any = None
    instances: Any = None
    positives: Any = None
    positive_latents: Any = None
    negatives: Any = None
    environments: Any = None

    def torch(self) -> Sample:
        """The same as PyTorch tensors: numbers as float32, labels as int64."""
        torch = require("torch", "torch", "A sample as tensors")
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        kinds = {"f": torch.float32, "i": torch.int64, "u": torch.int64}
        return replace(
            self,
            **{
                name: torch.as_tensor(np.ascontiguousarray(array), dtype=kinds[array.dtype.kind])
                for name, array in given.items()
                if array is not None
            },
        )

    def __repr__(self) -> str:
        there = [field.name for field in fields(self) if getattr(self, field.name) is not None]
        return f"Sample({len(self.observations):,} rows; {', '.join(there)})"


@dataclass(frozen=True)
class Promise:
    """What theory promises a learner in a world: up to which rung it finds the latents, and why.

    `rung` is one of the ladder's, or None where nothing is promised.
    """

    learner: str
    rung: str | None
    why: str


@dataclass(frozen=True)
class Assumption:
    """One assumption of a world, tested: its value beside what is needed, and a sentence."""

    name: str
    ok: bool
    value: float
    needed: str
    says: str


@dataclass(frozen=True)
class Assumptions:
    """The assumptions of a world; true if all of them hold."""

    items: tuple[Assumption, ...]

    @property
    def ok(self) -> bool:
        """Whether all hold."""
        return not self.failed

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of those that do not."""
        return tuple(item.name for item in self.items if not item.ok)

    def __bool__(self) -> bool:
        return self.ok

    def __getitem__(self, name: str) -> Assumption:
        """One of them by name."""
        return next(item for item in self.items if item.name == name)

    def require(self) -> None:
        """Raise an error that says which assumptions do not hold, if any."""
        if self.failed:
            says = "; ".join(item.says for item in self.items if not item.ok)
            raise InputError(f"the world does not meet its assumptions: {says}")


def rows_of(rows: int) -> int:
    """A number of rows, if it is one."""
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
        raise InputError(f"rows is {rows!r}; a sample needs a whole number of rows, 1 or more")
    return int(rows)


def one_of(value: str, choices: Iterable[str], what: str) -> str:
    """A choice, if it is one of those there are."""
    choices = tuple(choices)
    if value not in choices:
        raise InputError(f"{what} is {value!r}; choose one of {', '.join(choices)}")
    return value
