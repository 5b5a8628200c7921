"""Linear scores from sums over folds, for the true order of rows and for permuted ones.

Sums add up, so folds can be left out or joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from identikit._linalg import GRAM_FLOOR, Array, rank_tolerance, whitening
from identikit.factors._bins import ranks
from identikit.factors._metric import Trial
from identikit.factors._resample import folds, permuted_columns, ratio
from identikit.moments import FOLDS


@dataclass(frozen=True)
class Sums:
    """Sums over the rows of each of F folds, of L codes z and Q columns s.

    Columns are standardised over all rows first, so that sums keep their digits.
    """

    n: Array  # (F,)
    z: Array  # (F, L)
    zz: Array  # (F, L, L)
    s: Array  # (F, Q)
    ss: Array  # (F, Q)
    zs: Array  # (F, L, Q)

    def total(self) -> Sums:
        """All folds as one."""
        return self.some(range(len(self.n)))

    def without_each(self) -> Sums:
        """All folds but one, for each of them; none if there is one only."""
        sums = (getattr(self, each.name) for each in fields(self))
        several = len(self.n) if len(self.n) > 1 else 0
        return Sums(*((values.sum(0) - values)[:several] for values in sums))

    def some(self, chosen: Sequence[int]) -> Sums:
        """The chosen folds as one."""
        return Sums(
            *(getattr(self, k.name)[list(chosen)].sum(0, keepdims=True) for k in fields(self))
        )

    def nested(self) -> Iterator[tuple[Sums, Sums, Sums, Sums]]:
        """For each fold, rows to choose a penalty by, and then rows to fit on and to score.

        Fitted on all folds but it and the next one, chosen by the next one; fitted on all folds but
        it, and scored by it.
        """
        every = range(len(self.n))
        for fold in every:
            between = (fold + 1) % len(every)
            others = [f for f in every if f != fold]
            inner = [f for f in others if f != between]
            yield self.some(inner), self.some([between]), self.some(others), self.some([fold])

    def mapped(self, by: Array) -> Sums:
        """The codes z @ by instead of z, for a matrix (L, M) or one a fold (F, L, M)."""
        turned = np.swapaxes(by, -1, -2)
        return Sums(
            self.n,
            (turned @ self.z[..., None])[..., 0],
            turned @ self.zz @ by,
            self.s,
            self.ss,
            turned @ self.zs,
        )

    def first(self, columns: int) -> Sums:
        """The same codes against the first columns only, those of the true order of rows."""
        some = (values[..., :columns] for values in (self.s, self.ss, self.zs))
        return Sums(self.n, self.z, self.zz, *some)

    @property
    def mean_z(self) -> Array:
        """Means of the codes."""
        return self.z / self.n[:, None]

    @property
    def mean_s(self) -> Array:
        """Means of the columns."""
        return self.s / self.n[:, None]

    @property
    def cov_zz(self) -> Array:
        """Covariances of the codes (F, L, L)."""
        mean = self.mean_z
        return self.zz / self.n[:, None, None] - mean[:, :, None] * mean[:, None, :]

    @property
    def var_s(self) -> Array:
        """Variances of the columns (F, Q); rounding of a constant is 0."""
        return _beyond_rounding(self.ss / self.n[:, None] - self.mean_s**2)

    @property
    def cov_zs(self) -> Array:
        """Covariances of codes with columns (F, L, Q)."""
        return self.zs / self.n[:, None, None] - self.mean_z[:, :, None] * self.mean_s[:, None, :]


def _beyond_rounding(variances: Array) -> Array:
    """Variances of standardised columns in some rows; 0 where they are rounding."""
    return np.where(variances > GRAM_FLOOR, variances, 0.0)


def whitened(z: Array, eps: float) -> Array:
    """Uncorrelated codes of variance 1, as many as are independent."""
    z = standardised(z)
    scatter, scale = z.T @ z, np.sqrt(np.einsum("ij,ij->j", z, z))
    tolerance = rank_tolerance(len(z), z.shape[1], eps)
    white: Array = z @ whitening(scatter, None, scale, tolerance).map * np.sqrt(len(z))
    return white


def standardised(values: Array) -> Array:
    """Columns of mean 0 and variance 1; those that do not vary are 0."""
    centred = values - values.mean(axis=0)
    scale = np.sqrt((centred**2).mean(axis=0))
    unit: Array = np.divide(centred, scale, out=np.zeros_like(centred), where=scale > 0)
    return unit


def fold_sums(codes: Array, columns: Array, count: int) -> Sums:
    """Sums of every fold, of codes and columns that are standardised."""
    parts = []
    for fold in folds(len(codes), count):
        z, s = codes[fold], columns[fold]
        parts.append((float(len(z)), z.sum(0), z.T @ z, s.sum(0), (s * s).sum(0), z.T @ s))
    return Sums(*(np.array(values) for values in zip(*parts)))


@dataclass(frozen=True)
class Blocks:
    """Sums of every block of factors that are known in the same rows, and the most rows of one.

    A block has the places of its k factors and sums of (1 + P)·k columns: its factors in the true
    order of rows, then the same in every permutation.
    """

    parts: list[tuple[list[int], Sums]]
    rows: int

    @property
    def true(self) -> Blocks:
        """The true order of rows alone."""
        return Blocks([(places, sums.first(len(places))) for places, sums in self.parts], self.rows)

    def each(self, function: Callable[[Sums], tuple[Array, ...]]) -> list[Array]:
        """Arrays (…, (1 + P)·k) of every block, put together as (…, 1 + P, K)."""
        places = [place for place, _ in self.parts]
        order = np.argsort(np.concatenate(places))
        found = []
        for arrays in zip(*(function(sums) for _, sums in self.parts)):
            several = [
                a.reshape(*a.shape[:-1], a.shape[-1] // len(p), len(p))
                for a, p in zip(arrays, places)
            ]
            found.append(np.concatenate(several, axis=-1)[..., order])
        return found


def labelled_sums(trial: Trial, *, ranked: bool = False) -> Blocks:
    """Sums for the true order of rows and for permuted ones, made once for all metrics.

    Parameters
    ----------
    trial : Trial
        Its factors have numbers.
    ranked : bool
        Take ranks of codes and factors first.
    """

    def make() -> Blocks:
        each = list(trial.data.blocks(trial.factors))
        least, most = (some(len(z) for z, _, _ in each) for some in (min, max))
        parts = []
        for z, _, places in each:
            s = np.column_stack([trial.factors[place].values for place in places])
            z, s = (standardised(ranks(x) if ranked else x) for x in (z, s))
            count = max(1, min(FOLDS, least // 2))
            sums = column_sums(z, s, count, trial.permutations, trial.data.seed)
            parts.append((places, sums))
        return Blocks(parts, most)

    return trial.data.once(("sums", trial.titles, trial.permutations, ranked), make)


def column_sums(z: Array, s: Array, count: int, permutations: int, seed: int) -> Sums:
    """Sums of `count` folds for columns in the true order of rows and in permuted ones."""
    parts = [fold_sums(z, some, count) for some in permuted_columns(s, permutations, seed)]
    all_of = (np.concatenate([getattr(each, k) for each in parts], -1) for k in ("s", "ss", "zs"))
    return Sums(parts[0].n, parts[0].z, parts[0].zz, *all_of)


def correlations(sums: Sums) -> Array:
    """Pearson's correlations (F, L, Q); 0 with what does not vary."""
    variance = _beyond_rounding(np.einsum("fll->fl", sums.cov_zz))
    scale = np.sqrt(variance[:, :, None] * sums.var_s[:, None, :])
    cov = sums.cov_zs
    return np.clip(ratio(cov, scale), -1.0, 1.0)


def coefficients(train: Sums, eps: float) -> Array:
    """Least squares with intercept (F, L, Q); of least norm where codes depend on each other."""
    found = np.empty_like(train.zs)
    for place, (n, scatter, cross) in enumerate(zip(train.n, train.cov_zz, train.cov_zs)):
        scale = np.sqrt(_beyond_rounding(np.diagonal(scatter)))
        tolerance = rank_tolerance(int(n), len(scatter), eps)
        white = whitening(scatter, None, scale, tolerance).map
        found[place] = white @ (white.T @ cross)
    return found


def explained(train: Sums, test: Sums, slopes: Array) -> tuple[Array, Array]:
    """What a fitted line takes off the squared deviations of the test rows, and all of them.

    Sums over rows (F, Q): SST − SSE and SST, with SST about the mean of the test rows.
    """
    dz, ds = test.mean_z - train.mean_z, test.mean_s - train.mean_s
    inside = np.einsum("flq,flq->fq", slopes, test.cov_zs)
    outside = np.einsum("flq,flm,fmq->fq", slopes, test.cov_zz, slopes, optimize=True)
    shift = ds - np.einsum("flq,fl->fq", slopes, dz)
    n = test.n[:, None]
    return n * (2 * inside - outside - shift**2), n * test.var_s


def held_out_fit(sums: Sums, eps: float) -> tuple[Array, Array]:
    """`explained` by least squares on the other folds."""
    train = sums.without_each()
    return explained(train, sums, coefficients(train, eps))
