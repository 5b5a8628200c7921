"""What every world gives: samples, promises of theory, and a check of its own assumptions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from identikit._linalg import Array
from identikit.errors import InputError, require
from identikit.worlds._mixing import Mixing, whole

#: Jacobians of a mixing whose condition number is larger do not keep all latents in float32.
LARGEST_CONDITION = 1e4
#: Two observations are the same if they are this much nearer than their latents, as others go.
SAME = 1e-6


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


class World:
    """What all worlds have in common: rows are drawn, and assumptions tested, in one way.

    A world is a frozen data class. It says in `identified` what theory promises a learner, and has
    two methods of its own: `_draw`, a sample, and `_assumptions`, those beside the mixing's. If it
    has a `mixing`, that is a field.
    """

    mixing: Mixing | None

    @property
    def identified(self) -> tuple[Promise, ...]:
        """What theory promises the learners of this world."""
        raise NotImplementedError

    def sample(self, rows: int, seed: int | np.random.Generator = 0) -> Sample:
        """Draw rows.

        Parameters
        ----------
        rows : int
            How many.
        seed : int or Generator
            Of the draw.
        """
        return self._draw(whole(rows, "rows"), np.random.default_rng(seed))

    def check(self, rows: int = 2000, seed: int = 0) -> Assumptions:
        """Test the assumptions of the theory, and whether the mixing keeps all latents.

        Parameters
        ----------
        rows, seed : int
            Of the sample on which they are tested.
        """
        items, mixing = self._assumptions(rows, seed), getattr(self, "mixing", None)
        if mixing is not None:
            items += check_mixing(mixing, self._mixed(rows, seed))
        return Assumptions(tuple(items))

    def _draw(self, rows: int, rng: np.random.Generator) -> Sample:
        raise NotImplementedError

    def _assumptions(self, rows: int, seed: int) -> list[Assumption]:
        raise NotImplementedError

    def _mixed(self, rows: int, seed: int) -> Array:
        """What goes into the mixing."""
        latents: Array = self.sample(rows, seed).latents
        return latents

    def _seen(self, z: Array) -> Array:
        """The observations of latents: the latents themselves without a mixing."""
        return z if self.mixing is None else self.mixing.forward(z)

    def _fits(self, d: int) -> None:
        """An error if the mixing takes another number of latents."""
        if self.mixing is not None and self.mixing.d != d:
            raise InputError(f"the mixing takes {self.mixing.d} latents, but the world has {d}")

    def _set(self, **values: object) -> None:
        """Set fields that follow from others, while the world is made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


def same_in_each(rows: int, parts: int, what: str) -> int:
    """How many of the rows each environment has, if all have as many."""
    if rows % parts:
        raise InputError(f"rows is {rows}, and {what}; give a multiple of {parts}")
    return rows // parts


def check_mixing(mixing: Mixing, z: Array) -> list[Assumption]:
    """Is the mixing injective on these latents, and does its Jacobian keep all of them?

    Injective: of the pairs of observations that are nearest to each other, none is SAME times
    nearer than its latents are, as pairs go. Condition: the largest of the Jacobians' condition
    numbers.
    """
    from scipy.spatial import KDTree

    x = mixing.forward(z)
    apart, nearest = map(np.asarray, KDTree(x).query(x, k=2))
    # A row's own distance is the first, but of two equal rows either may be named first.
    partner = np.where(nearest[:, 1] == np.arange(len(x)), nearest[:, 0], nearest[:, 1])
    between = np.linalg.norm(z - z[partner], axis=1)
    ratios = apart[:, 1] / np.where(between > 0, between, np.inf)
    worst = int(np.argmin(np.where(between > 0, ratios, np.inf)))
    typical = float(np.median(ratios[between > 0])) if between.any() else 0.0
    share = float(ratios[worst] / typical) if typical > 0 else 0.0
    injective = share > SAME
    says = (
        "no two rows of the sample have the same observation"
        if injective
        else f"the mixing is not injective on the sample: rows {worst} and {int(partner[worst])} "
        "have different latents and the same observation"
    )
    values = np.linalg.svd(mixing.jacobian(z), compute_uv=False)
    with np.errstate(divide="ignore", invalid="ignore"):
        conditions = np.nan_to_num(values[:, 0] / values[:, -1], nan=np.inf, posinf=np.inf)
    condition = float(conditions.max())
    kept = condition <= LARGEST_CONDITION
    means = (
        "every latent moves the observations"
        if kept
        else f"at row {int(conditions.argmax())} the mixing all but loses a direction"
    )
    says_condition = f"{means} (condition number {condition:.3g})"
    return [
        Assumption("injective", injective, share, f"> {SAME:g}", says),
        Assumption("condition", kept, condition, f"≤ {LARGEST_CONDITION:g}", says_condition),
    ]


def one_of(value: str, choices: Iterable[str], what: str) -> str:
    """A choice, if it is one of those there are."""
    choices = tuple(choices)
    if value not in choices:
        raise InputError(f"{what} is {value!r}; choose one of {', '.join(choices)}")
    return value
