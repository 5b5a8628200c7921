"""All that a linear score needs, for the true order of rows and for permuted ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from identikit._linalg import Array, rank_tolerance, whitening
from identikit.disentangle._bins import ranks
from identikit.disentangle._data import Data
from identikit.disentangle._factor import Factor
from identikit.disentangle._permute import FOLDS, permuted_columns, ratio
from identikit.disentangle._sums import Sums, fold_sums, standardised


def labelled_sums(
    data: Data, scored: Sequence[Factor], permutations: int, *, ranked: bool = False
) -> tuple[list[tuple[list[int], Sums]], int]:
    """Sums of every block of factors, for the true order of rows and then for permuted ones.

    A block has (1 + P)·k columns: its k factors, then the same k of every permutation, by one
    matrix product for many permutations. Also given is the most rows that a block has.

    Parameters
    ----------
    data : Data
    scored : sequence of Factor
        With numbers.
    permutations : int
        P.
    ranked : bool
        Take ranks of codes and factors first.
    """
    key = ("sums", tuple(factor.name for factor in scored), permutations, ranked)
    if key not in data.shared:
        data.shared[key] = _labelled_sums(data, scored, permutations, ranked=ranked)
    found: tuple[list[tuple[list[int], Sums]], int] = data.shared[key]
    return found


def _labelled_sums(
    data: Data, scored: Sequence[Factor], permutations: int, *, ranked: bool
) -> tuple[list[tuple[list[int], Sums]], int]:
    each = list(data.blocks(scored))
    count = max(1, min(FOLDS, min(len(z) for z, _, _ in each) // 2))
    blocks = []
    for z, _, places in each:
        s = np.column_stack([scored[place].values for place in places])
        if ranked:
            z, s = ranks(z), ranks(s)
        z, s = standardised(z), standardised(s)
        blocks.append((places, column_sums(z, s, count, permutations, data.seed)))
    return blocks, max(len(z) for z, _, _ in each)


def column_sums(z: Array, s: Array, count: int, permutations: int, seed: int) -> Sums:
    """Sums of `count` folds for columns in the true order of rows and in permuted ones."""
    parts = [fold_sums(z, some, count) for some in permuted_columns(s, permutations, seed)]
    all_of = (np.concatenate([getattr(each, k) for each in parts], -1) for k in ("s", "ss", "zs"))
    return Sums(parts[0].n, parts[0].z, parts[0].zz, *all_of)


def gathered(parts: Sequence[tuple[list[int], Array]], width: int) -> Array:
    """Columns of all blocks (…, (1 + P)·k) in the factors' order, as (…, 1 + P, width)."""
    places, values = parts[0]
    lead = (*values.shape[:-1], values.shape[-1] // len(places))
    whole = np.empty((*lead, width))
    for places, values in parts:
        whole[..., places] = values.reshape(*lead, len(places))
    return whole


def gathered_each(
    parts: Sequence[tuple[list[int], tuple[Array, ...]]], width: int
) -> tuple[Array, ...]:
    """`gathered` for several arrays a block."""
    several = range(len(parts[0][1]))
    return tuple(gathered([(p, arrays[which]) for p, arrays in parts], width) for which in several)


def correlations(sums: Sums) -> Array:
    """Pearson's correlations (F, L, Q); 0 with what does not vary."""
    variance = np.einsum("fll->fl", sums.cov_zz)
    variance = np.where(variance > 1e-13, variance, 0.0)
    scale = np.sqrt(variance[:, :, None] * sums.var_s[:, None, :])
    cov = sums.cov_zs
    return np.clip(ratio(cov, scale), -1.0, 1.0)


def coefficients(train: Sums, eps: float) -> Array:
    """Least squares with intercept (F, L, Q); of least norm where codes depend on each other."""
    found = np.empty_like(train.zs)
    for place, (n, scatter, cross) in enumerate(zip(train.n, train.cov_zz, train.cov_zs)):
        scale = np.sqrt(np.maximum(np.diagonal(scatter), 0.0))
        tolerance = rank_tolerance(int(n), len(scatter), eps)
        white = whitening(scatter, None, np.where(scale > 1e-6, scale, 0.0), tolerance).map
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
