"""Units that recur in several batches: their means, and the spread of replicates about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.sources import Source

#: How many numbers are read at a time.
_BLOCK = 2**22

_TRUE, _FALSE = {"true", "yes", "t", "1"}, {"false", "no", "f", "0", ""}


@dataclass(frozen=True)
class Batch:
    """A batch of rows, averaged by unit.

    Parameters
    ----------
    name : str
    units : array of str
        The units that occur in it, sorted.
    counts : array of int
        The number of rows of each unit.
    means : array (units, d)
    scatter : float or None
        Unbiased estimate, pooled over units, of the mean squared distance of a row from the mean of
        its unit; None if no unit has two rows.
    """

    name: str
    units: NDArray[np.object_]
    counts: NDArray[np.int64]
    means: Array
    scatter: float | None

    def places(self, units: NDArray[Any]) -> NDArray[np.intp]:
        """The positions of the given units."""
        return np.searchsorted(self.units.astype(str), units.astype(str))

    def noise(self, units: NDArray[Any]) -> float | None:
        """Expected squared error, summed over the given units, of their means."""
        if self.scatter is None:
            return None
        return float((self.scatter / self.counts[self.places(units)]).sum())


def as_truth(tags: NDArray[np.object_]) -> NDArray[np.bool_] | None:
    """Tags as booleans; None if they are names."""
    words = {str(tag).lower() for tag in np.unique(tags.astype(str))}
    if not words <= _TRUE | _FALSE:
        return None
    return np.array([str(tag).lower() in _TRUE for tag in tags], dtype=bool)


def read_batches(
    source: Source,
    batch_of_row: NDArray[np.object_],
    unit_of_row: NDArray[np.object_],
    names: Sequence[str],
    *,
    drop_nonfinite: bool = False,
) -> list[Batch]:
    """Average the rows of every unit in the named batches, in one pass over the rows.

    Rows whose unit is empty are ignored.
    """
    units, unit = np.unique(unit_of_row.astype(str), return_inverse=True)
    place = {name: number for number, name in enumerate(names)}
    batch = np.array([place.get(str(name), -1) for name in batch_of_row])
    used = (batch >= 0) & (unit_of_row != "")
    cells, inverse = np.unique(batch[used] * len(units) + unit[used], return_inverse=True)
    code = np.full(source.rows, -1)
    code[used] = inverse
    sums, counts, squares, pivot = _sums(source, code, len(cells), drop_nonfinite)
    found = []
    for number, name in enumerate(names):
        own = (cells // len(units) == number) & (counts > 0)
        means = sums[own] / counts[own, None]
        free = int((counts[own] - 1).sum())
        within = squares[own] - counts[own] * np.square(means).sum(axis=1)
        scatter = float(np.maximum(within, 0.0).sum()) / free if free else None
        present = units[cells[own] % len(units)].astype(object)
        found.append(Batch(name, present, counts[own], means + pivot, scatter))
    return found


def _sums(
    source: Source, code: NDArray[np.intp], cells: int, drop_nonfinite: bool
) -> tuple[Array, NDArray[np.int64], Array, Array]:
    """Sums, counts and sums of squares of the rows of every cell, about a pivot."""
    from scipy.sparse import csr_array

    sums, squares = np.zeros((cells, source.width)), np.zeros(cells)
    counts, pivot = np.zeros(cells, dtype=np.int64), np.zeros(source.width)
    step, begun = max(1, _BLOCK // source.width), False
    for start in range(0, source.rows, step):
        own = code[start : start + step]
        rows = np.asarray(source.read(start, start + step), dtype=np.float64)
        finite = np.isfinite(rows).all(axis=1)
        wrong = ~finite & (own >= 0)
        if wrong.any() and not drop_nonfinite:
            raise InputError(
                f"view {source.name!r} has NaN or infinity in row {start + int(wrong.argmax())} "
                "(counting from 0); clean it, or leave such rows out with drop_nonfinite "
                "(--drop-nonfinite)"
            )
        kept = finite & (own >= 0)
        rows, own = rows[kept], own[kept]
        if not begun and len(rows):
            pivot, begun = rows.mean(axis=0), True
        rows = rows - pivot
        member = csr_array((np.ones(len(own)), (own, np.arange(len(own)))), (cells, len(own)))
        sums += np.asarray(member @ rows)
        squares += np.asarray(member @ np.square(rows).sum(axis=1))
        counts += np.bincount(own, minlength=cells)
    return sums, counts, squares, pivot
