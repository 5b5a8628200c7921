"""A view in the coordinates of a few directions, projected while it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm

from identikit._linalg import Array
from identikit.sources._open import open_source
from identikit.sources._source import DerivedSource, Source

#: Rows that are projected at a time, so that their float64 copy does not grow with the block.
CHUNK = 64


@dataclass(frozen=True, eq=False)
class Projected:
    """A recipe for ``x @ basis``: the rows of a view in the coordinates of some directions.

    A row that is not finite stays so, in every column. The machine epsilon is that of the view
    itself.

    Parameters
    ----------
    origin : object
        What to open: a path, an array, or another recipe.
    mean : array (d,)
        A point near the rows, subtracted before projecting so that no digits cancel.
    basis : array (d, k)
        Directions in columns.
    at_mean : array (k,), optional
        The coordinates of that point, if they are not ``mean @ basis``. Where the basis has a
        column of zeros, all rows then have exactly this coordinate.
    """

    origin: object
    mean: Array
    basis: Array
    at_mean: Array | None = None

    def open_source(self, name: str) -> Source:
        """Open the view."""
        return ProjectedSource(open_source(self.origin, name), self)


class ProjectedSource(DerivedSource):
    """The projected rows of an open source, in float64; it is closed together with this one."""

    def __init__(self, source: Source, recipe: Projected) -> None:
        super().__init__(source, recipe)
        self.width: int = recipe.basis.shape[1]
        if hasattr(source, "exponent"):
            self.exponent: int = source.exponent
        self._mean = recipe.mean
        self._basis = np.asfortranarray(recipe.basis)
        at_mean = recipe.mean @ recipe.basis if recipe.at_mean is None else recipe.at_mean
        self._at_mean: Array = at_mean

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop`."""
        block = self._source.read(start, stop)
        out = np.empty((len(block), self.width))
        centred = np.empty((min(CHUNK, len(block)), len(self._mean)))
        for first in range(0, len(block), CHUNK):
            some = block[first : first + CHUNK]
            rows = centred[: len(some)]
            np.subtract(some, self._mean, out=rows)
            # Transposes are Fortran-ordered views, into which BLAS can write. It is SciPy's BLAS,
            # because this runs inside the only loop over rows: see `one_thread`.
            target = out[first : first + CHUNK]
            dgemm(1.0, self._basis, rows.T, trans_a=1, beta=0.0, c=target.T, overwrite_c=1)
        out += self._at_mean
        out.flags.writeable = False
        return out
