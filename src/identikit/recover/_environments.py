"""Environment labels: one per row, each shared by several rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.family import Variability, variability
from identikit.moments import accumulate
from identikit.similarity import MCC, mcc

#: Smallest variance that is used, as a share of the mean over environments.
SILENT = 2.0**-26


@dataclass(frozen=True, eq=False)
class Environments:
    """The environments in order of first appearance, and the environment of each row."""

    labels: NDArray[Any]
    codes: NDArray[np.intp]

    @property
    def counts(self) -> NDArray[np.intp]:
        """The number of rows in each environment."""
        return np.bincount(self.codes, minlength=len(self.labels))

    def means(self, rows: Array) -> Array:
        """The mean row of each environment, (environments, d)."""
        sums = np.zeros((len(self.labels), rows.shape[1]))
        np.add.at(sums, self.codes, rows)
        return sums / self.counts[:, None]


def read_environments(labels: ArrayLike, rows: int) -> Environments:
    """Check environment labels, numbers or text: one per row, none missing, not all different."""
    try:
        array = np.asarray(labels)
    except ValueError:
        array = np.empty(())  # lists of different lengths
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (rows,):
        raise InputError(
            f"the environments have the shape {array.shape}, and there are {rows} rows; give one "
            "label per row"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InputError(f"the environment of row {bad} is NaN or infinity; give it a label")
    try:
        known, first, codes = np.unique(array, return_index=True, return_inverse=True)
    except TypeError as error:
        kinds = ", ".join(sorted({type(label).__name__ for label in array}))
        raise InputError(
            f"the environment labels have the types {kinds}, which cannot be sorted together; give "
            "either numbers or text"
        ) from error
    if len(known) == rows > 1:
        raise InputError(
            f"each of the {rows} rows has its own environment; rows of the same environment must "
            "have the same label"
        )
    order = np.argsort(first)
    return Environments(known[order], np.argsort(order)[codes])


def warn_of_ties(
    environments: int, ties: Sequence[Sequence[int]], what: str, least: int = 2
) -> None:
    """Warn of axes that cannot be distinguished, if there are any.

    `ties` are sets of such axes, `what` is what they are called, and `least` is the smallest number
    of environments that could distinguish them.
    """
    if not ties:
        return
    groups = "; ".join(", ".join(map(str, axes)) for axes in ties)
    why = (
        f"there {'is 1 environment' if environments == 1 else f'are {environments} environments'}, "
        f"and {least} or more with different variances are needed to determine the axes"
        if environments < least
        else "the ratio of their variances is the same in all environments, within sampling error; "
        "give environments in which it differs, or more rows"
    )
    warnings.warn(f"{what} {groups} cannot be distinguished: {why}", stacklevel=3)


def estimated_variability(
    variances: Array, spreads: Array, ties: Sequence[Sequence[int]]
) -> Variability:
    """Variability of the precisions 1/v, where tied profiles count as one.

    Otherwise sampling error would make equal columns look linearly independent. Each variance is
    replaced by its standard error if that is larger, and 0 by a small share of the mean.
    """
    v = np.maximum(variances, np.sqrt(spreads)) / variances.mean(axis=0)
    v = np.maximum(v, SILENT)
    for axes in ties:
        v[:, list(axes)] = v[:, list(axes)].mean(axis=1, keepdims=True)
    return variability(1 / v)


def within_correlation(true: ArrayLike, found: ArrayLike, environments: ArrayLike) -> MCC:
    """Mean correlation of matched sources, each centred within its environment.

    If means differ between environments, anything that reveals the environment correlates with the
    sources in pooled rows; after centring, only variation within environments counts. Rows with
    NaN are left out, such as the last one of a trajectory, whose source cannot be recovered.
    Compare `value` with that of a single environment, in which nothing is identified: 0.90 for two
    sources, about 0.60 for ten.

    Parameters
    ----------
    true, found : array (rows, d)
        The true sources, and the recovered ones.
    environments : array (rows,)
        One label per row.

    Returns
    -------
    MCC
        `value`, and the matched `columns` with their `correlations`.

    Examples
    --------
    >>> u = np.random.default_rng(0).normal(size=(1000, 2))
    >>> labels = np.repeat([0, 1], 500)
    >>> guess = labels[:, None] + 0.1 * u[:, ::-1]
    >>> round(within_correlation(u + 9 * labels[:, None], guess, labels).value, 3)
    1.0
    """
    u, s = (np.asarray(part, dtype=np.float64) for part in (true, found))
    if u.ndim != 2 or s.ndim != 2 or len(u) != len(s):
        raise InputError(
            f"the true sources have the shape {u.shape} and the recovered ones {s.shape}; expected "
            "two tables with the same number of rows"
        )
    known = read_environments(environments, len(u))
    kept = np.isfinite(u).all(axis=1) & np.isfinite(s).all(axis=1)
    if not kept.any():
        raise InputError("no row has both its true and its recovered sources")
    present = read_environments(known.codes[kept], int(kept.sum()))
    centred = [part[kept] - present.means(part[kept])[present.codes] for part in (u, s)]
    return mcc(accumulate(centred, folds=1, names=["true", "found"], sample=0))
