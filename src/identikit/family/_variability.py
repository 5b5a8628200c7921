"""Whether environments, classes or labels vary enough, by a rank and a condition number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array, singular_values
from identikit.errors import InputError
from identikit.family._reading import matrix
from identikit.moments import Moments, accumulate

#: Above this, a relative error of 1e-6 in the parameters is as large as what is solved for.
LARGEST_CONDITION = 1e6


@dataclass(frozen=True, eq=False)
class Variability:
    """How much a table of parameters varies over its rows; true if that is enough.

    Attributes
    ----------
    rank, needed : int
        Rank of the differences of rows, and the number of columns, which is the rank needed.
    condition : float
        Largest over smallest singular value of the differences; infinite if the rank is too small.
    singular_values : array
        Singular values of the differences, largest first.
    missing : array (needed, needed − rank)
        An orthonormal basis, in columns, of the directions in which no two rows differ.
    largest_condition : float
        The largest condition number that is accepted.
    sentence : str
        A sentence that says what this means.
    """

    rank: int
    needed: int
    condition: float
    singular_values: Array
    missing: Array
    largest_condition: float
    sentence: str

    @property
    def ok(self) -> bool:
        """Whether the rank is as large as needed and the condition number is within its bound."""
        return self.rank == self.needed and self.condition <= self.largest_condition

    def __bool__(self) -> bool:
        return self.ok


def variability(
    parameters: ArrayLike | Moments,
    *,
    reference: int | None = 0,
    largest_condition: float = LARGEST_CONDITION,
) -> Variability:
    """Rank, condition number and missing directions of the differences θ^e − θ^0 of rows.

    Many theorems share this condition: for the matrix Δ of precisions of control signals (Rajendran
    et al. 2024, assumption 6), and for the matrix L of natural parameters of environments
    (time-contrastive learning), of class vectors (classifiers) and of label embeddings (Roeder et
    al. 2021, `diversity`). All of them need full column rank, and therefore at least one row more
    than columns. A matrix of full rank may be close to one of lower rank, so the condition number
    has a bound too.

    The rank is that of the centred rows, which does not depend on the reference; the condition
    number does.

    Parameters
    ----------
    parameters : array (rows, columns), or Moments of one view
        A row for each environment, class or label. For Moments the differences are always those
        from the mean, and the reference is ignored.
    reference : int or None
        The row θ^0 that is subtracted from the others; None for the mean of all rows.
    largest_condition : float
        The bound on the condition number.

    Examples
    --------
    >>> precisions = np.full((4, 3), 1e4)
    >>> precisions[1:] -= 9999 * np.eye(3)  # in each environment one control varies, and only it
    >>> found = variability(precisions)
    >>> found.ok, found.rank, round(found.condition, 6)
    (True, 3, 1.0)
    >>> print(variability(precisions[:3]).sentence)
    the differences of 3 rows span 2 of 3 dimensions, 1 is missing: it takes 4 rows or more
    """
    if isinstance(parameters, Moments):
        if len(parameters.names) != 1:
            raise InputError(
                f"these are moments of {len(parameters.names)} views; give moments of one view"
            )
        moments = parameters
        values = np.sqrt(moments.principal(0)[0])
    else:
        expected = "a row for each environment, class or label"
        table = matrix(parameters, "the table of parameters", expected).array
        moments = accumulate([table], folds=1, names=["parameters"], sample=0)
        values = singular_values(_differences(table, reference))
    rank, needed = moments.whiten(0).rank, moments.widths[0]
    missing = np.empty((needed, 0))
    if rank < needed:
        missing = np.linalg.qr(moments.loadings(0).T, mode="complete")[0][:, rank:]
    full = rank == needed and values[-1] > 0
    condition = float(values[0] / values[-1]) if full else float("inf")
    return Variability(
        rank,
        needed,
        condition,
        values,
        missing,
        largest_condition,
        _sentence(moments.rows, rank, needed, condition, largest_condition),
    )


def _differences(table: Array, reference: int | None) -> Array:
    rows = table.astype(np.float64)
    if reference is None:
        return np.asarray(rows - rows.mean(axis=0))
    if not -len(rows) <= reference < len(rows):
        raise InputError(f"the reference is row {reference}, but there are {len(rows)} rows")
    return np.asarray(np.delete(rows, reference, axis=0) - rows[reference])


def _sentence(rows: int, rank: int, needed: int, condition: float, largest: float) -> str:
    if rank < needed:
        left = needed - rank
        said = (
            f"the differences of {rows} row{'s' if rows > 1 else ''} span {rank} of {needed} "
            f"dimensions, {left} {'is' if left == 1 else 'are'} missing: "
        )
        if rows <= needed:
            return said + f"it takes {needed + 1} rows or more"
        return said + "some columns, or sums of columns, do not vary on their own"
    said = f"the differences of {rows} rows span all {needed} dimensions, with condition number "
    if condition > largest:
        return said + (
            f"{condition:.3g}, which is above {largest:g}: small errors in the rows may undo it"
        )
    return said + f"{condition:.3g}"
