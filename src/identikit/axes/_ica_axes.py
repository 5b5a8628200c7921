"""Which axes of an ICA are identified: convergence cannot tell, but held-out rows can.

If rotating two axes in their plane changes nothing (both are Gaussian, or their joint distribution
is rotationally symmetric), the solver still stops at some angle, but at an arbitrary one. So the
axes found on one half of the rows are evaluated on the other half, and compared with the axes found
there. Copies of a row in both halves would make the halves agree for no good reason; so all copies
of a row go to the same half, and only distinct rows are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.axes._ica_solver import Rotation, Rows

Numbers = NDArray[np.intp]

#: Number of columns that are compared first; most distinct rows differ there already.
COLUMNS = 8

#: Number of blocks of rows whose spread gives the standard errors, and distinct rows per block.
BLOCKS = 20
LEAST_BLOCK = 25

#: An axis must be non-Gaussian by this many standard errors, and the contrast must rise by as many
#: when the axis is rotated towards any other one, if both halves have all their blocks. With fewer
#: blocks a standard error is itself uncertain, and more are required: the quantile of Student's t
#: at the same level.
STANDARD_ERRORS = 3.0

#: Least correlation of an axis with its match from other restarts, and from the other half.
AGREEMENT = 0.9

#: E[log cosh ν] of a standard normal ν, by quadrature.
NORMAL_LOG_COSH = 0.374567207491438


@dataclass(frozen=True, eq=False)
class Axes:
    """Diagnostics of the axes, with one entry per axis; copies of a row count once.

    Attributes
    ----------
    non_gaussianity, non_gaussianity_error : arrays
        E[log cosh s] − E[log cosh ν] for s of unit variance and a standard normal ν, on held-out
        rows, and its standard error; negative for heavy tails, positive for light ones.
    sharpness : array
        The smallest number of standard errors by which the contrast rises, on held-out rows, when
        the axis is rotated towards another one; infinite for a single axis.
    tied_with : array of int
        The other axis at which this minimum is attained; −1 for a single axis.
    restarts, halves : arrays
        Correlation with the matching axis from other random starts, and from the other half.
    identified : array of bool
        Whether the axis is sharp and reproducible.
    why_not : tuple of str
        "" for an identified axis; "gaussian" if it is not sharp and cannot be distinguished from a
        Gaussian, "tied" if it is not sharp although non-Gaussian, "unstable" if it is sharp but not
        reproducible.
    """

    non_gaussianity: Array
    non_gaussianity_error: Array
    sharpness: Array
    tied_with: NDArray[np.intp]
    restarts: Array
    halves: Array
    identified: NDArray[np.bool_]
    why_not: tuple[str, ...]


def log_cosh(values: NDArray[Any]) -> NDArray[Any]:
    """log cosh, without overflow."""
    size = np.abs(values)
    result: NDArray[Any] = size + np.log1p(np.exp(-2 * size)) - np.log(2.0).astype(size.dtype)
    return result


def match(axes: Array, others: Array) -> tuple[NDArray[np.intp], Array]:
    """Match each axis to one of equally many others, and return the absolute correlations.

    Axes are rows of rotations of the same whitened space.
    """
    from scipy.optimize import linear_sum_assignment

    correlations = np.abs(axes @ others.T)
    rows, partners = linear_sum_assignment(-correlations)
    return partners, np.minimum(correlations[rows, partners], 1.0)


def judge(
    axes: Array,
    found: Sequence[Sequence[Rotation]],
    halves: Sequence[Rows],
    copies: Sequence[Numbers] | None = None,
) -> Axes:
    """Judge which axes (k, k) found on all rows are identified, using both halves of the rows.

    `found` has the results of the random starts on each half, the best one first, and `halves` the
    whitened rows. `copies` numbers the rows of each half: the same for copies of a row, which must
    be adjacent. By default all rows are distinct.
    """
    copies = [np.arange(len(half)) for half in halves] if copies is None else copies
    counts = [int(np.clip(len(np.unique(same)) // LEAST_BLOCK, 2, BLOCKS)) for same in copies]
    blocks = [cut(same, count) for same, count in zip(copies, counts)]
    enough = _enough(sum(len(each) - 1 for each in blocks))
    best = [starts[0] for starts in found]
    partners = [match(axes, rotation.weights)[0] for rotation in best]
    own = [rotation.weights[order] for rotation, order in zip(best, partners)]
    agreement = np.minimum(np.abs(np.einsum("ij,ij->i", *own)), 1.0)
    over_starts = [
        match(starts[0].weights, other.weights)[1][order]
        for starts, order in zip(found, partners)
        for other in starts[1:]
    ]
    restarts = np.mean(over_starts, axis=0)
    # Evaluate the axes of each half on the rows of the other.
    held_out = [
        _on_other_rows([rows[block] for block in each], weights, rotation.signs[order])
        for rows, each, weights, rotation, order in zip(
            reversed(halves), reversed(blocks), own, best, partners
        )
    ]
    values, errors, rises = (np.stack(part) for part in zip(*held_out))
    value, error = values.mean(axis=0), np.sqrt((errors**2).sum(axis=0)) / 2
    rise = rises.sum(axis=0) / np.sqrt(2)
    sharpness = rise.min(axis=1)
    tied_with = rise.argmin(axis=1) if len(axes) > 1 else np.array([-1])
    sharp = sharpness >= enough
    agrees = np.minimum(agreement, restarts) >= AGREEMENT
    gaussian = np.abs(value) < enough * error
    return Axes(
        value,
        error,
        sharpness,
        tied_with,
        restarts,
        agreement,
        sharp & agrees,
        tuple(
            ("" if fits else "unstable") if clear else "gaussian" if normal else "tied"
            for fits, clear, normal in zip(agrees, sharp, gaussian)
        ),
    )


def _enough(freedom: int) -> float:
    """The required number of standard errors, given their degrees of freedom."""
    from scipy.special import stdtr, stdtrit

    level = stdtr(2 * (BLOCKS - 1), STANDARD_ERRORS)
    return float(stdtrit(freedom, level)) if freedom else float("inf")


def _on_other_rows(blocks: Sequence[Rows], axes: Array, signs: Array) -> tuple[Array, Array, Array]:
    """Non-Gaussianity, its standard error, and the rise of the contrast in standard errors.

    Rotating s_i towards s_j, and s_j away from s_i, raises the contrast at second order by half of
    σ_i (E[ψ'(s_i) s_j²] − E[s_i ψ(s_i)]) + σ_j (E[ψ'(s_j) s_i²] − E[s_j ψ(s_j)]).
    """
    turn = np.ascontiguousarray(axes.T, dtype=blocks[0].dtype)
    sums, crosses = [], []
    for block in blocks:
        s = block @ turn
        psi = np.tanh(s)
        square, product, slope = s * s, s * psi, 1 - psi * psi
        crosses.append(slope.T @ square / len(s))
        parts = [s, square, psi, product, slope, square * slope, product * slope, log_cosh(s)]
        equal = np.full(len(s), 1 / len(s), s.dtype)
        sums.append([equal @ part for part in parts])
    by_block = np.asarray(sums, dtype=np.float64).transpose(1, 0, 2)
    mean, variance, _, inner, _, _, _, value = by_block
    _, _, psi, weight, slope, bend, lean, _ = by_block.mean(axis=1)
    # All rows together have mean 0 and variance 1, but a single block does not. The first-order
    # effect of this is subtracted, because it is no part of the error.
    excess = variance - 1
    value, error = _with_error(value - psi * mean - weight / 2 * excess - NORMAL_LOG_COSH)
    owed = inner - ((weight + bend) / 2 + lean) * excess
    half = np.stack(crosses) - slope[:, None] * excess[:, None, :] - owed[:, :, None]
    half *= signs[:, None]
    rise, rise_error = _with_error(half + half.transpose(0, 2, 1))
    rise /= np.maximum(rise_error, 1e-300)
    np.fill_diagonal(rise, np.inf)
    return value, error, rise


def _with_error(blocks: Array) -> tuple[Array, Array]:
    """Mean of equally reliable blocks, and its standard error, infinite for a single block."""
    if len(blocks) == 1:
        return blocks[0], np.full_like(blocks[0], np.inf)
    return blocks.mean(axis=0), blocks.std(axis=0, ddof=1) / np.sqrt(len(blocks))


def first_copies(rows: Rows) -> Numbers:
    """For each row, the number of the first row that is equal to it (possibly itself).

    >>> first_copies(np.array([[1.0, 0.0], [2.0, 0.0], [1.0, -0.0]]))
    array([0, 1, 0])
    """
    first = np.arange(len(rows))
    few = _positive_zeros(rows[:, :: max(1, rows.shape[1] // COLUMNS)])
    keys = few.view(np.dtype((np.void, few.dtype.itemsize * few.shape[1]))).ravel()
    _, group, counts = np.unique(keys, return_inverse=True, return_counts=True)
    seen: dict[bytes, int] = {}
    for number in np.flatnonzero(counts[group] > 1):
        digest = blake2b(_positive_zeros(rows[number]).tobytes(), digest_size=16).digest()
        first[number] = seen.setdefault(digest, int(number))
    return first


def distinct_rows(rows: Rows) -> int:
    """The number of distinct rows."""
    return int((first_copies(rows) == np.arange(len(rows))).sum())


def half_of(rows: Rows, half: int) -> Numbers:
    """The numbers of every other distinct row, starting at 0 or 1, together with their copies."""
    first = first_copies(rows)
    place = np.cumsum(first == np.arange(len(rows))) - 1
    return np.flatnonzero(place[first] % 2 == half)


def cut(copies: Numbers, parts: int) -> list[slice]:
    """Cut rows into at most `parts` parts with about equally many distinct rows.

    `copies` has one number per row, the same for copies of a row, which must be adjacent.

    >>> cut(np.array([7, 7, 7, 2, 4]), 2)
    [slice(0, 4, None), slice(4, 5, None)]
    """
    starts = np.flatnonzero(np.concatenate([[True], copies[1:] != copies[:-1]]))
    bounds = [part[0] for part in np.array_split(starts, parts) if len(part)] + [len(copies)]
    return [slice(int(first), int(after)) for first, after in pairwise(bounds)]


def _positive_zeros(rows: Rows) -> Rows:
    """The same numbers, contiguous in memory, with 0 in place of −0."""
    result: Rows = np.ascontiguousarray(rows) + 0
    return result
