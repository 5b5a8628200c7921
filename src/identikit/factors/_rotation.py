"""The MCC of an arbitrary rotation: the level that an MCC has to be compared with."""

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

    `of_factors` is the MCC of the K factors themselves (with variance 1) after a random rotation,
    which keeps all information and disentangles nothing; None for a single factor. `of_codes` is
    the MCC of the K least-squares fits of the factors from all codes, whitened and rotated at
    random (for a single factor, of the codes themselves). If the MCC of the codes is not above
    `of_codes`, their axes mean no more than any other axes would.
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
    """Pearson MCC of random (Haar) rotations, scored as in `mcc` on rows where all is known.

    Parameters
    ----------
    codes, factors, names, kinds, seed
        As in `prepare`.
    preset : None or "reference"
        Held out or in sample, as in `mcc`.
    rotations : int
        Number of random rotations.

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
    """Sums of the rows for the matching and of the rows to score."""
    return (sums.total(), sums.total()) if whole else (sums.without_each(), sums)


def _fits(train: Sums, test: Sums, eps: float) -> tuple[Sums, Sums]:
    """Replace the codes by the whitened fits of all factors, both estimated on the train rows."""
    whole = test.total()
    values, vectors = np.linalg.eigh(whole.mapped(linear.coefficients(whole, eps)[0]).cov_zz[0])
    # With fewer codes than factors, fewer fits are linearly independent.
    by = linear.coefficients(train, eps) @ vectors[:, values > GRAM_EXACT * values[-1]]
    values, vectors = np.linalg.eigh(train.mapped(by).cov_zz)
    scale = inverse_or_zero(np.sqrt(np.maximum(values, GRAM_FLOOR * values[:, -1:])))
    # Rotate back to the original axes, so that a rotation means the same in every fold.
    by = by @ (vectors * scale[:, None]) @ vectors.swapaxes(1, 2)
    return train.mapped(by), test.mapped(by)


def _level(train: Sums, test: Sums, rotations: int, rng: np.random.Generator) -> Level:
    width, values = train.z.shape[1], []
    for _ in range(rotations):
        rotation = random_rotation(width, rng)
        pairs = [linear.correlations(each.mapped(rotation))[:, :, None] for each in (train, test)]
        values.append(signed(*pairs).sum(-1).mean() / min(train.s.shape[1], width))
    low, high = np.quantile(values, (0.025, 0.975))
    return Level(float(np.mean(values)), (float(low), float(high)))
