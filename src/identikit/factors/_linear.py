"""Linear scores from sums over folds, for the true order of rows and for permuted ones.

Sums are additive, so folds can be left out or merged without going back to the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from identikit._linalg import GRAM_FLOOR, Array, rank_tolerance, whitening
from identikit.factors._metric import Trial
from identikit.factors._resample import folds, permuted_columns, ranks, ratio
from identikit.moments import FOLDS


@dataclass(frozen=True)
class Sums:
    """Sums over the rows of each of F folds, for L codes z and Q columns s.

    Codes and columns are standardised over all rows first, so that the sums do not lose precision.
    """

    n: Array  # (F,)
    z: Array  # (F, L)
    zz: Array  # (F, L, L)
    s: Array  # (F, Q)
    ss: Array  # (F, Q)
    zs: Array  # (F, L, Q)

    def total(self) -> Sums:
        """All folds merged into one."""
        return self.some(range(len(self.n)))

    def without_each(self) -> Sums:
        """For each fold, the sums of all other folds; empty if there is only one fold."""
        sums = (getattr(self, each.name) for each in fields(self))
        several = len(self.n) if len(self.n) > 1 else 0
        return Sums(*((values.sum(0) - values)[:several] for values in sums))

    def some(self, chosen: Sequence[int]) -> Sums:
        """The chosen folds merged into one."""
        return Sums(
            *(getattr(self, k.name)[list(chosen)].sum(0, keepdims=True) for k in fields(self))
        )

    def nested(self) -> Iterator[tuple[Sums, Sums, Sums, Sums]]:
        """For each fold, the sums for choosing a penalty, and then those for the final fit.

        A penalty is chosen by fits on all folds but this one and the next, compared on the next
        one. The final fit is on all folds but this one, and is scored on this one.
        """
        every = range(len(self.n))
        for fold in every:
            between = (fold + 1) % len(every)
            others = [f for f in every if f != fold]
            inner = [f for f in others if f != between]
            yield self.some(inner), self.some([between]), self.some(others), self.some([fold])

    def mapped(self, by: Array) -> Sums:
        """The sums for codes z @ by, with one matrix (L, M) or one per fold (F, L, M)."""
        transposed = np.swapaxes(by, -1, -2)
        return Sums(
            self.n,
            (transposed @ self.z[..., None])[..., 0],
            transposed @ self.zz @ by,
            self.s,
            self.ss,
            transposed @ self.zs,
        )

    def first(self, columns: int) -> Sums:
        """The same sums for the first columns only, which are in the true order of rows."""
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
        """Variances of the columns (F, Q), set to 0 where they are only rounding error."""
        return _beyond_rounding(self.ss / self.n[:, None] - self.mean_s**2)

    @property
    def cov_zs(self) -> Array:
        """Covariances of codes with columns (F, L, Q)."""
        return self.zs / self.n[:, None, None] - self.mean_z[:, :, None] * self.mean_s[:, None, :]


def _beyond_rounding(variances: Array) -> Array:
    """Variances of standardised columns, set to 0 where they are only rounding error."""
    return np.where(variances > GRAM_FLOOR, variances, 0.0)


def whitened(z: Array, eps: float) -> Array:
    """Uncorrelated codes of variance 1, as many as there are linearly independent codes."""
    z = standardised(z)
    scatter, scale = z.T @ z, np.sqrt(np.einsum("ij,ij->j", z, z))
    tolerance = rank_tolerance(len(z), z.shape[1], eps)
    white: Array = z @ whitening(scatter, None, scale, tolerance).map * np.sqrt(len(z))
    return white


def standardised(values: Array) -> Array:
    """Columns with mean 0 and variance 1; constant columns become 0."""
    centred = values - values.mean(axis=0)
    scale = np.sqrt((centred**2).mean(axis=0))
    unit: Array = np.divide(centred, scale, out=np.zeros_like(centred), where=scale > 0)
    return unit


def fold_sums(codes: Array, columns: Array, count: int) -> Sums:
    """The sums of every fold, for codes and columns that are already standardised."""
    parts = []
    for fold in folds(len(codes), count):
        z, s = codes[fold], columns[fold]
        parts.append((float(len(z)), z.sum(0), z.T @ z, s.sum(0), (s * s).sum(0), z.T @ s))
    return Sums(*(np.array(values) for values in zip(*parts)))


@dataclass(frozen=True)
class Blocks:
    """Sums for every block of factors known in the same rows, and the rows of the largest block.

    A block has the positions of its k factors and the sums of (1 + P)·k columns: its factors in the
    true order of rows, then the same factors in every permutation.
    """

    parts: list[tuple[list[int], Sums]]
    rows: int

    @property
    def true(self) -> Blocks:
        """The same blocks for the true order of rows only."""
        return Blocks([(places, sums.first(len(places))) for places, sums in self.parts], self.rows)

    def each(self, function: Callable[[Sums], tuple[Array, ...]]) -> list[Array]:
        """Apply a function that returns arrays (…, (1 + P)·k), and join them as (…, 1 + P, K)."""
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

    def in_sample(self, function: Callable[[Sums], Array]) -> tuple[Array, Array]:
        """A function of the sums of all rows, and, for the true order, of those without a fold."""
        (whole,) = self.each(lambda sums: (function(sums.total()),))
        (rest,) = self.true.each(lambda sums: (function(sums.without_each()),))
        return whole, rest


def labelled_sums(trial: Trial, *, ranked: bool = False) -> Blocks:
    """Sums for the true order of rows and for permuted ones, computed once for all metrics.

    The factors must be numeric; `ranked` replaces codes and factors by their ranks first.
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
    """Sums over `count` folds for columns in the true order of rows and in permuted ones."""
    parts = [fold_sums(z, some, count) for some in permuted_columns(s, permutations, seed)]
    all_of = (np.concatenate([getattr(each, k) for each in parts], -1) for k in ("s", "ss", "zs"))
    return Sums(parts[0].n, parts[0].z, parts[0].zz, *all_of)


def correlations(sums: Sums) -> Array:
    """Pearson correlations (F, L, Q), 0 where a code or a column is constant."""
    variance = _beyond_rounding(np.einsum("fll->fl", sums.cov_zz))
    scale = np.sqrt(variance[:, :, None] * sums.var_s[:, None, :])
    cov = sums.cov_zs
    return np.clip(ratio(cov, scale), -1.0, 1.0)


def coefficients(train: Sums, eps: float) -> Array:
    """Least-squares slopes (F, L, Q), with intercept; of minimum norm if codes are collinear."""
    found = np.empty_like(train.zs)
    for place, (n, scatter, cross) in enumerate(zip(train.n, train.cov_zz, train.cov_zs)):
        scale = np.sqrt(_beyond_rounding(np.diagonal(scatter)))
        tolerance = rank_tolerance(int(n), len(scatter), eps)
        white = whitening(scatter, None, scale, tolerance).map
        found[place] = white @ (white.T @ cross)
    return found


def explained(train: Sums, test: Sums, slopes: Array) -> tuple[Array, Array]:
    """Explained and total sums of squares of the test rows, for slopes from the train rows.

    These are SST − SSE and SST (F, Q), with SST about the mean of the test rows.
    """
    dz, ds = test.mean_z - train.mean_z, test.mean_s - train.mean_s
    inside = np.einsum("flq,flq->fq", slopes, test.cov_zs)
    outside = np.einsum("flq,flm,fmq->fq", slopes, test.cov_zz, slopes, optimize=True)
    shift = ds - np.einsum("flq,fl->fq", slopes, dz)
    n = test.n[:, None]
    return n * (2 * inside - outside - shift**2), n * test.var_s


def held_out_fit(sums: Sums, eps: float) -> tuple[Array, Array]:
    """`explained` for every fold, by least squares on the other folds."""
    train = sums.without_each()
    return explained(train, sums, coefficients(train, eps))
