"""Labels of environments: one a row, shared by rows."""

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

#: What a variance of 0 counts as, as a share of the mean over environments.
SILENT = 2.0**-26


@dataclass(frozen=True, eq=False)
class Environments:
    """The environments in the order in which they first appear, and which one each row is of."""

    labels: NDArray[Any]
    codes: NDArray[np.intp]

    @property
    def counts(self) -> NDArray[np.intp]:
        """Rows of each."""
        return np.bincount(self.codes, minlength=len(self.labels))

    def means(self, rows: Array) -> Array:
        """The mean of the rows of each, (environments, d)."""
        sums = np.zeros((len(self.labels), rows.shape[1]))
        np.add.at(sums, self.codes, rows)
        return sums / self.counts[:, None]


def read_environments(labels: ArrayLike, rows: int) -> Environments:
    """Check labels of environments: one a row, none missing, not all different.

    Parameters
    ----------
    labels : array (rows,)
        Numbers or text.
    rows : int
        How many there must be.
    """
    try:
        array = np.asarray(labels)
    except ValueError:
        array = np.empty(())  # lists of different lengths
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (rows,):
        raise InputError(
            f"the environments have the shape {array.shape}, and there are {rows} rows; give one "
            "label a row"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InputError(f"the environment of row {bad} is NaN or infinity; give it a label")
    try:
        known, first, codes = np.unique(array, return_index=True, return_inverse=True)
    except TypeError as error:
        kinds = ", ".join(sorted({type(label).__name__ for label in array}))
        raise InputError(
            f"the environments are of the kinds {kinds}, which do not sort; give numbers, or text"
        ) from error
    if len(known) == rows > 1:
        raise InputError(
            f"every one of the {rows} rows has an environment of its own; labels of environments "
            "are shared by rows"
        )
    order = np.argsort(first)
    return Environments(known[order], np.argsort(order)[codes])


def warn_of_ties(
    environments: int, ties: Sequence[Sequence[int]], what: str, least: int = 2
) -> None:
    """Say which axes nothing tells apart, if there are any.

    Parameters
    ----------
    environments : int
        How many there are.
    ties : sequence of sequences of int
        Groups of axes.
    what : str
        What the axes are of.
    least : int
        How many environments it takes.
    """
    if not ties:
        return
    groups = "; ".join(", ".join(map(str, axes)) for axes in ties)
    why = (
        f"there {'is 1 environment' if environments == 1 else f'are {environments} environments'}, "
        f"and it takes {least} or more whose variances differ; with fewer nothing sets the axes"
        if environments < least
        else "their variances keep one ratio in all environments, as far as sampling error lets "
        "tell: vary them differently, or give more rows"
    )
    warnings.warn(f"{what} {groups} are not told apart: {why}", stacklevel=3)


def estimated_variability(
    variances: Array, spreads: Array, ties: Sequence[Sequence[int]]
) -> Variability:
    """Variability of the precisions 1/v, where profiles that are tied count as one.

    Otherwise sampling error would give rank to columns that are the same. A variance counts as no
    smaller than its standard error, and one of 0 as a small share of the mean.
    """
    v = np.maximum(variances, np.sqrt(spreads)) / variances.mean(axis=0)
    v = np.maximum(v, SILENT)
    for axes in ties:
        v[:, list(axes)] = v[:, list(axes)].mean(axis=1, keepdims=True)
    return variability(1 / v)
