"""Which axes of an ICA are identified: convergence does not say, other rows do.

If turning two axes in their plane changes nothing (both Gaussian, or together round), the solver
still stops somewhere, and where is chance. So the axes found on one half of the rows are judged on
the other half, and against those that the other half finds. Copies of a row in both halves would
make the halves agree on whatever these rows happen to look like; so copies stay together, and only
distinct rows are counted.
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

#: Columns that are looked at first: most rows differ there.
COLUMNS = 8

#: Runs of rows whose spread gives the standard errors, and distinct rows that a run should have.
RUNS = 20
LEAST_RUN = 25

#: Standard errors by which an axis must be non-Gaussian, and by which the contrast must rise when
#: the axis is turned towards any other one, if both halves have all their runs. With fewer runs a
#: standard error is itself uncertain, and more of them are needed: as many as Student's t has for
#: the same level.
STANDARD_ERRORS = 3.0

#: Correlation that an axis must have with itself, over restarts and over halves.
AGREEMENT = 0.9

#: E[log cosh ν] of a standard normal ν, by quadrature.
NORMAL_LOG_COSH = 0.374567207491438


@dataclass(frozen=True, eq=False)
class Axes:
    """What is known of each axis, one entry an axis.

    Parameters
    ----------
    non_gaussianity, non_gaussianity_error : arrays
        E[log cosh s] − E[log cosh ν] of unit-variance s on rows that had no part in finding the
        axis, and its standard error; negative for heavy tails, positive for light ones.
    sharpness : array
        By how many standard errors the contrast rises, at least, when the axis is turned towards
        another one; on such rows too, both halves together. Infinite if there is only one axis.
    tied_with : array of int
        That other axis; −1 if there is only one axis.
    restarts, halves : arrays
        Correlation with the same axis from other random starts, and from the other half.
    identified : array of bool
        Whether the axis is sharp and agrees with itself.
    why_not : tuple of str
        "" for an identified axis; "gaussian" if it is not sharp and as good as Gaussian, "tied" if
        it is not sharp although it is non-Gaussian, "unstable" if it is sharp but does not agree.

    Rows that are exact copies of each other are in one half and one run, and count once.
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
    """For each axis its partner among as many others, and the size of their correlation.

    Both in the rows of rotations of the same whitened space; the partners are those of the largest
    sum of correlations.
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
    """Judge axes found on all rows by what each half of the rows says.

    Parameters
    ----------
    axes : array (k, k)
        In rows.
    found : sequence of two sequences of Rotation
        What the random starts have led to on each half, the best one first.
    halves : sequence of two arrays
        The whitened rows of the halves.
    copies : sequence of two arrays, optional
        Of each half, a number a row: the same for rows that are copies, which stand next to each
        other. All rows are distinct by default.
    """
    copies = [np.arange(len(half)) for half in halves] if copies is None else copies
    runs = [cut(same, int(np.clip(len(np.unique(same)) // LEAST_RUN, 2, RUNS))) for same in copies]
    enough = _enough(sum(len(each) - 1 for each in runs))
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
    # Each half's axes on the rows of the other.
    held_out = [
        _on_other_rows([rows[run] for run in each], weights, rotation.signs[order])
        for rows, each, weights, rotation, order in zip(
            reversed(halves), reversed(runs), own, best, partners
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
    """The standard errors to ask for if they come from so many degrees of freedom."""
    from scipy.special import stdtr, stdtrit

    level = stdtr(2 * (RUNS - 1), STANDARD_ERRORS)
    return float(stdtrit(freedom, level)) if freedom else float("inf")


def _on_other_rows(runs: Sequence[Rows], axes: Array, signs: Array) -> tuple[Array, Array, Array]:
    """Non-Gaussianity, its standard error, and the rise of the contrast in standard errors.

    Turning s_i towards s_j and s_j away from s_i raises the contrast, at second order, by half of
    σ_i (E[ψ'(s_i) s_j²] − E[s_i ψ(s_i)]) + σ_j (E[ψ'(s_j) s_i²] − E[s_j ψ(s_j)]).
    """
    turn = np.ascontiguousarray(axes.T, dtype=runs[0].dtype)
    sums, crosses = [], []
    for run in runs:
        s = run @ turn
        psi = np.tanh(s)
        square, product, slope = s * s, s * psi, 1 - psi * psi
        crosses.append(slope.T @ square / len(s))
        parts = [s, square, psi, product, slope, square * slope, product * slope, log_cosh(s)]
        equal = np.full(len(s), 1 / len(s), s.dtype)
        sums.append([equal @ part for part in parts])
    by_run = np.asarray(sums, dtype=np.float64).transpose(1, 0, 2)
    mean, variance, _, inner, _, _, _, value = by_run
    _, _, psi, weight, slope, bend, lean, _ = by_run.mean(axis=1)
    # All rows together have mean 0 and variance 1. A run has not, and what its values owe to that,
    # at first order, is no part of their error.
    excess = variance - 1
    value, error = _with_error(value - psi * mean - weight / 2 * excess - NORMAL_LOG_COSH)
    owed = inner - ((weight + bend) / 2 + lean) * excess
    half = np.stack(crosses) - slope[:, None] * excess[:, None, :] - owed[:, :, None]
    half *= signs[:, None]
    rise, rise_error = _with_error(half + half.transpose(0, 2, 1))
    rise /= np.maximum(rise_error, 1e-300)
    np.fill_diagonal(rise, np.inf)
    return value, error, rise


def _with_error(runs: Array) -> tuple[Array, Array]:
    """Mean of equally reliable runs, and its standard error; one run alone knows of none."""
    if len(runs) == 1:
        return runs[0], np.full_like(runs[0], np.inf)
    return runs.mean(axis=0), runs.std(axis=0, ddof=1) / np.sqrt(len(runs))


def first_copies(rows: Rows) -> Numbers:
    """For each row the number of the first row that is equal to it, which may be itself.

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
    """How many rows there are, copies counted once."""
    return int((first_copies(rows) == np.arange(len(rows))).sum())


def half_of(rows: Rows, half: int) -> Numbers:
    """The numbers of every other row, 0 or 1 the first one; copies go where the first one goes."""
    first = first_copies(rows)
    place = np.cumsum(first == np.arange(len(rows))) - 1
    return np.flatnonzero(place[first] % 2 == half)


def cut(copies: Numbers, parts: int) -> list[slice]:
    """Parts with about as many distinct rows each, of rows whose copies stand next to each other.

    Parameters
    ----------
    copies : array (n,)
        A number a row, the same for copies.
    parts : int
        How many, if there are as many distinct rows.

    Examples
    --------
    >>> cut(np.array([7, 7, 7, 2, 4]), 2)
    [slice(0, 4, None), slice(4, 5, None)]
    """
    starts = np.flatnonzero(np.concatenate([[True], copies[1:] != copies[:-1]]))
    bounds = [part[0] for part in np.array_split(starts, parts) if len(part)] + [len(copies)]
    return [slice(int(first), int(after)) for first, after in pairwise(bounds)]


def _positive_zeros(rows: Rows) -> Rows:
    """The same numbers, next to each other in memory, with 0 for −0."""
    result: Rows = np.ascontiguousarray(rows) + 0
    return result
