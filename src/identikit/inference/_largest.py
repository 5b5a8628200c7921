"""The largest of many similarities: how large it is by chance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from identikit._linalg import Array, eigh
from identikit.inference._null import Null

#: Draws of all values at once.
DRAWS = 1999


def largest_by_chance(
    laws: Sequence[Sequence[Null | None]], first: Array, second: Array, draws: int = DRAWS
) -> Array:
    """Draws of the largest value of a table whose rows and columns are all independent views.

    One pairing of the rows serves all cells, so that cells of like views rise and fall together:
    for quadratic forms of the cross-scatter, such as CKA, the correlation of cells (i, j) and
    (k, l) is ρ(i, k) ρ'(j, l), with ρ the debiased CKA of views i and k. So Z = R N R'ᵀ with normal
    N, RRᵀ = ρ and R'R'ᵀ = ρ', and every cell is its own law's quantile at the level of Z. The seed
    is fixed.

    Parameters
    ----------
    laws : sequence of sequence of Null or None
        Of every cell; cells without one do not count.
    first, second : arrays
        ρ of the rows' views and of the columns'.
    draws : int
        How many draws.
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
    """R with RRᵀ the correlations, or the nearest that are possible."""
    values, vectors = eigh(correlations)
    root = vectors * np.sqrt(values)
    unit: Array = root / np.linalg.norm(root, axis=1)[:, None]
    return unit
