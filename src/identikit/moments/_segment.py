"""A run of rows summed about one pivot: everything from one symmetric product a block."""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dgemm, dsyrk

from identikit._linalg import Array
from identikit.moments._part import Layout, Part, cubic_gain, quartic_gain

#: How far, in units of the first block's variance, the mean of a block may lie from the pivot.
DRIFT = 16.0


def augmented_width(layout: Layout) -> int:
    """Columns of an augmented row, rounded up to whole cache lines of 8 numbers."""
    return -(-(layout.width + len(layout.widths) + 1) // 8) * 8


class Segment:
    """Sums of rows about a pivot that stays close to their mean, so that no digits cancel.

    Rows are ``[z, ‖x_1‖² … ‖x_k‖², 1, 0 …]`` with z = row − pivot, so that their Gram matrix holds
    the count, the sum, the scatter and the cubic and quartic sums of `Part` at once.

    Parameters
    ----------
    pivot : array (D,)
        The mean of the first block.
    spread : array (k,)
        That block's variance, summed over the columns of each view.
    """

    def __init__(self, layout: Layout, pivot: Array, spread: Array) -> None:
        self.layout, self.pivot, self.spread = layout, pivot, spread
        size = augmented_width(layout)
        self.gram = np.zeros((size, size))

    def drifts(self, rows: Array) -> bool:
        """Whether these rows (less the pivot) are so far off that a new pivot is due."""
        few = rows[:: max(1, len(rows) // 64)].mean(axis=0)
        squares = np.array([few[c] @ few[c] for c in self.layout.columns])
        return bool(np.any(squares > DRIFT * self.spread))

    def add(self, rows: Array) -> None:
        """Add augmented rows; C-contiguous, and used up if the layout has roots."""
        if self.layout.roots is not None:
            for columns, turn in zip(self.layout.columns, self.layout.inverses):
                rows[:, columns] = dgemm(1.0, rows[:, columns], turn)
        # The transposes are Fortran-ordered views: BLAS adds in place, into one triangle. SciPy's
        # BLAS and no other in this loop: NumPy brings its own, and idle BLAS threads spin.
        dsyrk(1.0, rows.T, beta=1.0, c=self.gram.T, overwrite_c=1)

    def part(self) -> Part:
        """The moments about the mean, from the sums about the pivot."""
        _mirror_lower(self.gram)
        layout, d = self.layout, self.layout.width
        norms, one = slice(d, d + len(layout.widths)), d + len(layout.widths)
        n = round(self.gram[one, one])
        stored = self.gram[one, :d] / n
        scatter = self.gram[:d, :d] - np.outer(n * stored, stored)
        shift = layout.to_own(stored)
        cubic = layout.to_own(self.gram[norms, :d]) - cubic_gain(n, scatter, shift, layout)
        part = Part(n, self.pivot + shift, scatter, cubic, self.gram[norms, norms])
        quartic = part.quartic - quartic_gain(part, shift, layout)
        return Part(n, part.mean, scatter, cubic, quartic)


def _mirror_lower(matrix: Array, tile: int = 512) -> None:
    """Copy the lower triangle onto the upper one, in place and in tiles."""
    for start in range(0, len(matrix), tile):
        stop = start + tile
        matrix[start:stop, stop:] = matrix[stop:, start:stop].T
        corner = matrix[start:stop, start:stop]
        corner[:] = np.tril(corner) + np.tril(corner, -1).T
