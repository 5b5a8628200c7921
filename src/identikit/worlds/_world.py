"""What all worlds have: samples, promises of theory, and a check of their assumptions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from identikit._linalg import Array
from identikit.errors import InputError, require
from identikit.worlds._mixing import Mixing, whole

#: If the condition number of a Jacobian is larger, latents are lost in float32.
LARGEST_CONDITION = 1e4
#: Two observations count as equal if, relative to their latents, they are this much closer than
#: is typical.
SAME = 1e-6


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of a world: the hidden latents, the observations of a learner, and side information.

    Attributes
    ----------
    latents : array (rows, d)
        The true factors.
    observations : array (rows, D)
        What a learner sees.
    labels : array (rows,), optional
        The class of each row.
    instances : array (rows,), optional
        The instance of which each row is a view.
    positives, positive_latents : array (rows, D) and (rows, d), optional
        The observations and the latents of the partner of each row.
    negatives : array (rows, D), optional
        A hard negative for each row, drawn near it.
    environments : array (rows,), optional
        The environment of each row.
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
        """The same sample as PyTorch tensors, with numbers as float32 and labels as int64."""
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

    `rung` is a rung of the ladder, or None if nothing is promised.
    """

    learner: str
    rung: str | None
    why: str


@dataclass(frozen=True)
class Assumption:
    """A tested assumption of a world: its value, what is needed, and an explanation."""

    name: str
    ok: bool
    value: float
    needed: str
    says: str


@dataclass(frozen=True)
class Assumptions:
    """The tested assumptions of a world; true in a boolean context if all of them hold."""

    items: tuple[Assumption, ...]

    @property
    def ok(self) -> bool:
        """Whether all hold."""
        return not self.failed

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the assumptions that do not hold."""
        return tuple(item.name for item in self.items if not item.ok)

    def __bool__(self) -> bool:
        return self.ok

    def __getitem__(self, name: str) -> Assumption:
        """The assumption of this name."""
        return next(item for item in self.items if item.name == name)

    def require(self) -> None:
        """Raise an error that says which assumptions do not hold, if any."""
        if self.failed:
            says = "; ".join(item.says for item in self.items if not item.ok)
            raise InputError(f"the world does not meet its assumptions: {says}")


class World:
    """The base class of worlds, which draws rows and tests assumptions.

    A world is a frozen data class. Its property `identified` gives what theory promises a learner.
    It implements `_draw`, which draws a sample, and `_assumptions`, which tests all assumptions
    except those of the mixing. If it has a mixing, that is the field `mixing`.
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
            The number of rows.
        seed : int or Generator
            Seed for the draw.
        """
        return self._draw(whole(rows, "rows"), np.random.default_rng(seed))

    def check(self, rows: int = 2000, seed: int = 0) -> Assumptions:
        """Test the assumptions of the theory, and whether the mixing keeps all latents.

        Parameters
        ----------
        rows, seed : int
            The size and seed of the sample on which they are tested.
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
        return np.asarray(self.sample(rows, seed).latents)

    def _seen(self, z: Array) -> Array:
        """The observations of latents; without a mixing, the latents themselves."""
        return z if self.mixing is None else self.mixing.forward(z)

    def _fits(self, d: int) -> None:
        """Raise an error if the mixing takes another number of latents."""
        if self.mixing is not None and self.mixing.d != d:
            raise InputError(f"the mixing takes {self.mixing.d} latents, but the world has {d}")

    def _set(self, **values: object) -> None:
        """Set derived fields in `__post_init__`."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


def same_in_each(rows: int, parts: int, what: str) -> int:
    """The number of rows per part, if the rows can be divided equally."""
    if rows % parts:
        raise InputError(f"rows is {rows}, and {what}; give a multiple of {parts}")
    return rows // parts


def check_mixing(mixing: Mixing, z: Array) -> list[Assumption]:
    """Test whether the mixing is injective on these latents, and its Jacobians well conditioned.

    For each row and its nearest neighbour, the distance of the observations is divided by that of
    the latents. The mixing counts as injective if the smallest such ratio is more than SAME times
    the median. The condition is the largest condition number of the Jacobians.
    """
    from scipy.spatial import KDTree

    x = mixing.forward(z)
    apart, nearest = map(np.asarray, KDTree(x).query(x, k=2))
    # A row's first neighbour is the row itself, unless another row is equal to it.
    partner = np.where(nearest[:, 1] == np.arange(len(x)), nearest[:, 0], nearest[:, 1])
    between = np.linalg.norm(z - z[partner], axis=1)
    ratios = apart[:, 1] / np.where(between > 0, between, np.inf)
    worst = int(np.argmin(np.where(between > 0, ratios, np.inf)))
    typical = float(np.median(ratios[between > 0])) if between.any() else 0.0
    share = float(ratios[worst] / typical) if typical > 0 else 0.0
    injective = share > SAME
    says = "no two rows of the sample have the same observation"
    if not injective:
        says = (
            f"the mixing is not injective on the sample: rows {worst} and {int(partner[worst])} "
            "have different latents and the same observation"
        )
    values = np.linalg.svd(mixing.jacobian(z), compute_uv=False)
    with np.errstate(divide="ignore", invalid="ignore"):
        conditions = np.nan_to_num(values[:, 0] / values[:, -1], nan=np.inf, posinf=np.inf)
    condition = float(conditions.max())
    kept = condition <= LARGEST_CONDITION
    lost = f"at row {int(conditions.argmax())} the mixing almost loses a direction"
    means = "every latent moves the observations" if kept else lost
    means += f" (condition number {condition:.3g})"
    return [
        Assumption("injective", injective, share, f"> {SAME:g}", says),
        Assumption("condition", kept, condition, f"≤ {LARGEST_CONDITION:g}", means),
    ]


def one_of(value: str, choices: Iterable[str], what: str) -> str:
    """Check that a value is one of the choices."""
    choices = tuple(choices)
    if value not in choices:
        raise InputError(f"{what} is {value!r}; choose one of {', '.join(choices)}")
    return value
