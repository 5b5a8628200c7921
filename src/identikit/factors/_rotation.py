"""What an arbitrary rotation scores: the level that MCC has to be read against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from identikit._linalg import GRAM_EXACT, GRAM_FLOOR, inverse_or_zero, random_rotation
from identikit.factors import _linear as linear
from identikit.factors._data import prepare
from identikit.factors._factor import Kinds
from identikit.factors._linear import Sums, fold_sums, standardised, whitened
from identikit.factors._mcc import signed
from identikit.factors._metric import check_held_out, is_reference
from identikit.factors._result import Interval
from identikit.moments import FOLDS

ROTATIONS = 200


@dataclass(frozen=True)
class Level:
    """Mean and 95 % range of MCC over random rotations."""

    mean: float
    interval: Interval

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"mean": self.mean, "interval": list(self.interval)}


@dataclass(frozen=True)
class RotationLevel:
    """MCC of codes whose axes are arbitrary.

    `of_factors`: the K factors themselves (variance 1) after a rotation, which hold all and
    disentangle nothing; None for a single factor. `of_codes`: what these codes hold, the K fits of
    the factors by least squares from all codes, whitened and rotated (of a single factor, the codes
    themselves). If MCC is not above the second, the axes of the codes mean no more than others
    would.
    """

    of_factors: Level | None
    of_codes: Level
    factors: int
    rotations: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        of_factors = None if self.of_factors is None else self.of_factors.to_dict()
        return vars(self) | {"of_factors": of_factors, "of_codes": self.of_codes.to_dict()}


def rotation_level(
    codes: object,
    factors: object = None,
    *,
    names: Sequence[str] | None = None,
    kinds: Kinds = None,
    seed: int = 0,
    preset: str | None = None,
    rotations: int = ROTATIONS,
) -> RotationLevel:
    """Pearson MCC of random rotations (Haar), scored as `mcc` does, in rows where all is known.

    Parameters
    ----------
    codes, factors, names, kinds, seed
        As `prepare` takes them.
    preset : None or "reference"
        Held out or in sample, as in `mcc`.
    rotations : int
        How many.

    Examples
    --------
    >>> s = np.random.default_rng(0).normal(size=(5000, 5))
    >>> round(rotation_level(s, s).of_factors.mean, 1)
    0.7
    """
    reference = is_reference(preset)
    data = prepare(codes, factors, names=names, kinds=kinds, seed=seed)
    scored, _ = data.numeric("MCC")
    columns = np.full((data.rows, len(scored)), np.nan)
    for place, factor in enumerate(scored):
        columns[slice(None) if factor.known is None else factor.known, place] = factor.values
    rows = np.flatnonzero(np.isfinite(columns).all(axis=1))
    check_held_out(len(rows), "the level of a rotation")
    s = standardised(columns[rows])
    rng = np.random.default_rng(data.seed)
    both = (s, whitened(data.codes[rows], data.eps))
    factors, codes = (_parts(fold_sums(z, s, FOLDS), whole=reference) for z in both)
    several = len(scored) > 1
    return RotationLevel(
        _level(*factors, rotations, rng) if several else None,
        _level(*(_fits(*codes, data.eps) if several else codes), rotations, rng),
        len(scored),
        rotations,
    )


def _parts(sums: Sums, *, whole: bool) -> tuple[Sums, Sums]:
    """Rows to match on and rows to score."""
    return (sums.total(), sums.total()) if whole else (sums.without_each(), sums)


def _fits(train: Sums, test: Sums, eps: float) -> tuple[Sums, Sums]:
    """The fits of all factors in place of the codes, whitened, both by the train rows."""
    whole = test.total()
    values, vectors = np.linalg.eigh(whole.mapped(linear.coefficients(whole, eps)[0]).cov_zz[0])
    # Fewer codes than factors have fewer fits that are independent.
    by = linear.coefficients(train, eps) @ vectors[:, values > GRAM_EXACT * values[-1]]
    values, vectors = np.linalg.eigh(train.mapped(by).cov_zz)
    scale = inverse_or_zero(np.sqrt(np.maximum(values, GRAM_FLOOR * values[:, -1:])))
    # Back to the axes before: so one rotation is the same in every fold.
    by = by @ (vectors * scale[:, None]) @ vectors.swapaxes(1, 2)
    return train.mapped(by), test.mapped(by)


def _level(train: Sums, test: Sums, rotations: int, rng: np.random.Generator) -> Level:
    width, values = train.z.shape[1], []
    for _ in range(rotations):
        turn = random_rotation(width, rng)
        pairs = [linear.correlations(each.mapped(turn))[:, :, None] for each in (train, test)]
        values.append(signed(*pairs).sum(-1).mean() / min(train.s.shape[1], width))
    low, high = np.quantile(values, (0.025, 0.975))
    return Level(float(np.mean(values)), (float(low), float(high)))
