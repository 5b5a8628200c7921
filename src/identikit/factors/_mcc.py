"""Mean correlation coefficient (MCC) of matched codes and factors, and that of arbitrary axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from identikit._linalg import GRAM_EXACT, GRAM_FLOOR, Array, inverse_or_zero, random_rotation, svd
from identikit.errors import InputError
from identikit.factors._data import prepare
from identikit.factors._factor import Kinds
from identikit.factors._linear import (
    Blocks,
    Sums,
    coefficients,
    correlations,
    fold_sums,
    labelled_sums,
    standardised,
    whitened,
)
from identikit.factors._metric import Trial, also, check_held_out, is_reference, metric
from identikit.factors._resample import folds, orders, pooled, ranks, ratio
from identikit.factors._result import Interval, Score, named, part_of
from identikit.moments import FOLDS

CORRELATIONS = ("pearson", "spearman", "rdc")
#: Number of projections per variable, and their scale, as in icebeem.
PROJECTIONS, SCALE = 20, 0.5
#: Directions with smaller singular values, relative to the largest, are dropped. This is part of
#: the method and not a rank rule: such directions are computed accurately, but they fit any noise.
FLAT = 1e-10
REFERENCE = "Hyvärinen and Morioka 2016"
ROTATIONS = 200


@also(
    "mcc_linear",
    "MCC after a linear map",
    "Is each factor a linear function of the codes?",
    invariant_to="invertible affine maps",
    reference="Khemakhem et al. 2020",
    place=12,
    after="linear",
)
@also(
    "mcc_spearman",
    "MCC, Spearman",
    "Does each factor have a code of its own, up to a monotone function?",
    invariant_to="permutation and monotone function per code",
    reference=f"{REFERENCE}; Khemakhem et al. 2020",
    place=11,
    correlation="spearman",
)
@metric(
    "MCC, Pearson",
    "Does each factor have a code of its own, up to scale?",
    invariant_to="signed permutation and scale per code",
    reference=REFERENCE,
    permutations=200,
    called="MCC",
    place=10,
)
def mcc(trial: Trial, *, correlation: str = "pearson", after: str | None = None) -> Score:
    """Mean correlation of factors with codes under the one-to-one matching that maximises it.

    MCC = (1/k) Σ_j ± corr(s_j, z_π(j)), k = min(K, L). The matching π and the signs come from the
    rows outside a fold and the correlations from the rows within it, so that chance is 0. An
    arbitrary rotation of the factors scores far above 0: compare MCC with `rotation_level`.
    Factors whose values are words are left out. preset="reference" is the usual |corr| in sample
    (icebeem, `mean_corr_coef`), which is above 0 at chance: 1.4/√n at K = 5.

    Parameters
    ----------
    correlation : "pearson", "spearman" or "rdc"
        Spearman's ranks are taken over all rows; ties share their mean rank. The randomised
        dependence coefficient is for preset="reference" only: with few rows it is 1 for any data.
    after : None or "linear"
        "linear" correlates each factor with its least-squares fit from all codes ("weak" MCC).

    Examples
    --------
    >>> s = np.random.default_rng(0).normal(size=(500, 3))
    >>> round(mcc(-2 * s[:, [2, 0, 1]], s).value, 6)
    1.0
    """
    if correlation not in CORRELATIONS:
        raise InputError(f"correlation is {correlation!r}; expected one of {CORRELATIONS}")
    if after not in (None, "linear") or (after and correlation != "pearson"):
        raise InputError(
            f"after is {after!r} with {correlation}; expected None, or 'linear' with pearson"
        )
    if correlation == "rdc" and not trial.reference:
        raise InputError(
            "correlation='rdc' is not available for held-out rows, as it has no sign; use "
            "preset='reference'"
        )
    trial = trial.numeric()
    # After a linear map every factor has its own fit; otherwise at most one code per factor.
    matches = len(trial.factors) if after else min(len(trial.factors), trial.width)
    if correlation == "rdc":
        whole, rest, n = dependence(trial)
        values, without, matrix = signed(whole, whole)[0], signed(rest, rest)[:, 0], whole
    else:
        blocks = labelled_sums(trial, ranked=correlation == "spearman")
        rule = _after_line if after else _matched
        values, without = rule(blocks, trial)
        (matrix,) = blocks.true.each(lambda sums: (correlations(sums.total()),))
        n = blocks.rows
    part = part_of(
        "MCC",
        values.sum(-1) / matches,
        without.sum(-1) / matches,
        per_factor=named(trial.titles, values[0]),
    )
    title = {"rdc": "Randomised dependence"}.get(correlation, correlation.capitalize())
    words = f"{title} correlation" + (" after least squares." if after else ".")
    shown = None if after else matrix[0, :, 0]
    return trial.score(part, words, rows=n, matrix=shown, matrix_of="correlation")


def _matched(blocks: Blocks, trial: Trial) -> tuple[Array, Array]:
    """Correlations of matched pairs (1 + P, K), and without each fold for the true order (F, K)."""
    if trial.reference:
        whole, rest = blocks.in_sample(correlations)
        return signed(whole, whole)[0], signed(rest, rest)[:, 0]
    train, test, weight = blocks.each(
        lambda sums: (correlations(sums.without_each()), correlations(sums), _weight(sums))
    )
    return pooled(signed(train, test) * weight, weight)


def _weight(sums: Sums) -> Array:
    """Number of rows of each fold, and 0 for columns that are constant in it."""
    return sums.n[:, None] * (sums.var_s > 0)


def signed(train: Array, test: Array) -> Array:
    """Test correlations (F, P, K) of matched pairs; matching and signs come from `train`.

    Both arrays (F, L, P, K) hold the correlations of L codes with K factors for P orders of rows.
    """
    from scipy.optimize import linear_sum_assignment

    found = np.zeros((train.shape[0], *train.shape[2:]))
    for fold, order in np.ndindex(found.shape[:2]):
        chosen = train[fold, :, order]
        code, factor = linear_sum_assignment(-np.abs(chosen))
        sign = np.where(chosen[code, factor] < 0, -1.0, 1.0)
        found[fold, order, factor] = sign * test[fold, code, order, factor]
    return found


def _after_line(blocks: Blocks, trial: Trial) -> tuple[Array, Array]:
    """The same as `_matched`, with every factor's least-squares fit from all codes as its code."""

    def fit(train: Sums, test: Sums) -> Array:
        slopes = coefficients(train, trial.data.eps)
        inside = np.einsum("flq,flq->fq", slopes, test.cov_zs)
        fitted = np.einsum("flq,flm,fmq->fq", slopes, test.cov_zz, slopes, optimize=True)
        scale = np.sqrt(np.maximum(fitted, 0.0) * test.var_s)
        return np.clip(ratio(inside, scale), -1.0, 1.0)

    if trial.reference:
        whole, rest = blocks.in_sample(lambda sums: fit(sums, sums))
        return whole[0], rest[:, 0]
    fits, weight = blocks.each(lambda sums: (fit(sums.without_each(), sums), _weight(sums)))
    return pooled(fits * weight, weight)


def dependence(trial: Trial) -> tuple[Array, Array, int]:
    """The largest canonical correlation of sin(projections of ranks) (Lopez-Paz et al. 2013).

    Returns (1, L, 1 + P, K) for all orders of rows, (F, L, 1, K) without each fold, and the largest
    number of rows. With few rows every pair has a coefficient of 1, because the sines span the
    space of rows. Directions in which the sines hardly vary are dropped; icebeem keeps them, so
    independent data score higher there.
    """
    data, shape = trial.data, (trial.width, len(trial.factors))
    whole = np.empty((1, shape[0], 1 + trial.permutations, shape[1]))
    rest, most = np.empty((FOLDS, *shape)), 0
    for z, _, places in data.blocks(trial.factors):
        s = np.column_stack([trial.factors[place].values for place in places])
        most = max(most, len(z))
        left, right = _features(z, data.seed), _features(s, data.seed + 1)
        for order, rows in enumerate(orders(len(z), trial.permutations, data.seed)):
            whole[0, :, order, places] = _largest(left, [each[rows] for each in right])
        for fold, part in enumerate(folds(len(z))):
            kept = (np.delete(values, part, axis=0) for values in (z, s))
            some = (_features(values, data.seed + add) for add, values in enumerate(kept))
            rest[fold][:, places] = _largest(*some).T
    return whole, rest[:, :, None], most


def _features(values: Array, seed: int) -> list[Array]:
    """For every variable, orthonormal columns that span its centred sines."""
    rng = np.random.default_rng(seed)
    found = []
    for column in (ranks(values) / len(values)).T:
        slope, shift = SCALE / 2 * rng.normal(size=(2, PROJECTIONS))
        sines = np.sin(column[:, None] * slope + shift)
        left, size, _ = svd(sines - sines.mean(0))
        found.append(left[:, size > FLAT * max(size[0], 1e-300)])
    return found


def _largest(left: Sequence[Array], right: Sequence[Array]) -> Array:
    """Largest canonical correlation between every pair of bases (K, L)."""
    both = np.concatenate(left, axis=1).T @ np.concatenate(right, axis=1)
    rows = np.cumsum([0, *(each.shape[1] for each in left)])
    columns = np.cumsum([0, *(each.shape[1] for each in right)])
    return np.array(
        [
            [
                np.linalg.norm(both[rows[i] : rows[i + 1], columns[j] : columns[j + 1]], 2)
                for i in range(len(left))
            ]
            for j in range(len(right))
        ]
    ).clip(0.0, 1.0)


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
    values, vectors = np.linalg.eigh(whole.mapped(coefficients(whole, eps)[0]).cov_zz[0])
    # With fewer codes than factors, fewer fits are linearly independent.
    by = coefficients(train, eps) @ vectors[:, values > GRAM_EXACT * values[-1]]
    values, vectors = np.linalg.eigh(train.mapped(by).cov_zz)
    scale = inverse_or_zero(np.sqrt(np.maximum(values, GRAM_FLOOR * values[:, -1:])))
    # Rotate back to the original axes, so that a rotation means the same in every fold.
    by = by @ (vectors * scale[:, None]) @ vectors.swapaxes(1, 2)
    return train.mapped(by), test.mapped(by)


def _level(train: Sums, test: Sums, rotations: int, rng: np.random.Generator) -> Level:
    width, values = train.z.shape[1], []
    for _ in range(rotations):
        rotation = random_rotation(width, rng)
        pairs = [correlations(each.mapped(rotation))[:, :, None] for each in (train, test)]
        values.append(signed(*pairs).sum(-1).mean() / min(train.s.shape[1], width))
    low, high = np.quantile(values, (0.025, 0.975))
    return Level(float(np.mean(values)), (float(low), float(high)))
