"""Scores of codes against the latents of a world: the rung, R² of each block, and the MCC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from identikit._result import Result
from identikit._text import plain
from identikit.auditing import Pair, audit
from identikit.errors import InputError
from identikit.factors import RotationLevel, mcc, r2, rotation_level
from identikit.factors import Score as Metric
from identikit.worlds._mixing import as_rows

if TYPE_CHECKING:
    import pandas as pd

#: Number of permutations of the rows for the score of codes without information.
PERMUTATIONS = 40


@dataclass(frozen=True, repr=False)
class Score(Result):
    """How well codes have found the latents of a world.

    Attributes
    ----------
    pair : Pair
        The audit of codes against latents: `.group`, `.error`, `.interval`, `.ladder`.
    r2 : dict of str to float
        Held-out R² of a linear map from the codes to the latents of each block.
    mcc : float
        Held-out mean correlation of latents with codes, matched one to one.
    rotation : float
        The MCC of the latents themselves after a random rotation. If `mcc` is not above it, the
        axes were not found, however high it is. 95 % of rotations are within `rotation_range`.
    within_tolerance : bool
        Whether the error at the named rung is within the tolerance.
    """

    pair: Pair
    r2: Mapping[str, float]
    mcc: float
    rotation: float | None
    rotation_range: tuple[float, float] | None
    metrics: Mapping[str, Metric]

    @property
    def group(self) -> str:
        """The strictest rung that holds."""
        return self.pair.group

    @property
    def error(self) -> float:
        """The held-out error at that rung."""
        return self.pair.error

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of that error."""
        return self.pair.interval

    @property
    def within_tolerance(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.pair.within_tolerance

    @property
    def ladder(self) -> Any:
        """The error at every rung."""
        return self.pair.ladder

    def __bool__(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.within_tolerance

    @property
    def table(self) -> pd.DataFrame:
        """One row per rung of the ladder."""
        return self.pair.table

    def __repr__(self) -> str:
        blocks = ", ".join(f"{plain(name)} {value:.3f}" for name, value in self.r2.items())
        level = "" if self.rotation is None else f" (a random rotation {self.rotation:.3f})"
        return (
            f"Score({self.group}, error {self.error:.3f}; R² {blocks}; MCC {self.mcc:.3f}{level})"
        )

    def to_dict(self) -> dict[str, Any]:
        """The result as one JSON-ready document."""
        return {
            "pair": self.pair.to_dict(),
            "r2": dict(self.r2),
            "mcc": self.mcc,
            "rotation": self.rotation,
            "rotation_range": None if self.rotation_range is None else list(self.rotation_range),
            "metrics": {name: metric.to_dict() for name, metric in self.metrics.items()},
        }


def score(
    codes: ArrayLike,
    latents: ArrayLike,
    *,
    blocks: Mapping[str, Sequence[int]] | None = None,
    tolerance: float = 0.1,
    seed: int = 0,
) -> Score:
    """Score how well codes have found the latents, and up to which rung.

    Parameters
    ----------
    codes : array (rows, k)
        The learner's representation of the observations.
    latents : array (rows, d)
        The true latents of the same rows.
    blocks : mapping of str to sequence of int, optional
        Columns of the latents that are scored together, such as content and style; by default all
        of them, under the name "latents".
    tolerance : float
        The largest error at which two views count as the same.
    seed : int
        Seed for folds, permutations and rotations.

    Examples
    --------
    >>> from identikit.worlds import AnisotropicPairs
    >>> z = AnisotropicPairs([25.0, 9.0, 3.0]).sample(2000, seed=0).latents
    >>> found = score(-2 * z[:, [2, 0, 1]], z, blocks={"content": [0], "style": [1, 2]})
    >>> found.group, round(found.mcc, 6), round(found.r2["content"], 6)
    ('monomial', 1.0, 1.0)
    """
    z = np.asarray(latents, dtype=np.float64)
    if z.ndim != 2:
        raise InputError(f"latents have the shape {z.shape}; expected rows of numbers")
    z = as_rows(z, z.shape[1], "latents")
    codes = np.asarray(codes)
    if codes.ndim != 2 or len(codes) != len(z):
        raise InputError(
            f"codes have the shape {codes.shape} and latents {z.shape}; expected equally many rows"
        )
    chosen = {"latents": range(z.shape[1])} if blocks is None else dict(blocks)
    for name, columns in chosen.items():
        if not len(columns) or min(columns) < 0 or max(columns) >= z.shape[1]:
            raise InputError(
                f"block {name!r} has the columns {list(columns)}; expected some of 0 to "
                f"{z.shape[1] - 1}"
            )
    pair = audit(
        [codes, z], names=["codes", "latents"], tolerance=tolerance, seed=seed
    ).comparisons[0]
    explained = r2(codes, z, seed=seed, permutations=PERMUTATIONS)
    matched = mcc(codes, z, seed=seed, permutations=PERMUTATIONS)
    each = list(explained.per_factor.values())
    level: RotationLevel = rotation_level(codes, z, seed=seed)
    of_latents = level.of_factors
    return Score(
        pair,
        {name: float(np.mean([each[k] for k in columns])) for name, columns in chosen.items()},
        float(matched.value),
        None if of_latents is None else of_latents.mean,
        None if of_latents is None else of_latents.interval,
        {"r2": explained, "mcc": matched},
    )
