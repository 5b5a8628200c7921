"""The distribution of the largest of many similarities under independence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from identikit._linalg import Array, eigh
from identikit.inference._null import Null

#: Number of joint draws of all values.
DRAWS = 1999


def largest_by_chance(
    laws: Sequence[Sequence[Null | None]], first: Array, second: Array, draws: int = DRAWS
) -> Array:
    """Draw the largest value of a table of similarities between independent views.

    All cells share one pairing of the rows, so that cells of similar views are correlated. For
    quadratic forms of the cross-scatter, such as CKA, the correlation of cells (i, j) and (k, l) is
    ρ(i, k) ρ'(j, l), with ρ the debiased CKA of views i and k. Therefore Z = R N R'ᵀ is drawn with
    normal N, RRᵀ = ρ and R'R'ᵀ = ρ', and the value of a cell is the quantile of its own null law at
    the level Φ(Z). The seed is fixed.

    Parameters
    ----------
    laws : sequence of sequence of Null or None
        The null law of every cell; cells without one are ignored.
    first, second : arrays
        ρ of the views in the rows of the table, and of those in its columns.
    draws : int
        Number of draws.
    """
    from scipy.special import ndtr

    rng = np.random.default_rng(0)
    left, right = _root(first), _root(second)
    Z = left @ rng.normal(size=(draws, len(left), len(right))) @ right.T
    largest = np.full(draws, -np.inf)
    for a, row in enumerate(laws):
        for b, law in enumerate(row):
            if law is not None:
                np.maximum(largest, law.quantiles(ndtr(Z[:, a, b])), out=largest)
    return largest


def _root(correlations: Array) -> Array:
    """R with RRᵀ equal to the correlations, or close to them if they are not positive definite."""
    values, vectors = eigh(correlations)
    root = vectors * np.sqrt(values)
    unit: Array = root / np.linalg.norm(root, axis=1)[:, None]
    return unit
