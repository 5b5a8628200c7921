"""Points of the plane and their labels by angle, for the studies that use them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Standard deviation of the points, in both papers.
SIGMA = 3.0


def points(rows: int, rng: np.random.Generator, noise: int = 0) -> NDArray[np.float32]:
    """Inputs (rows, 2 + noise): a point of the plane, N(0, 9 I), and standard normal entries."""
    x = rng.standard_normal((rows, 2 + noise), dtype=np.float32)
    x[:, :2] *= SIGMA
    return x


def sectors(x: NDArray[np.floating], classes: int, turn: float) -> NDArray[np.int64]:
    """The label of a point: the number of the sector in which its angle lies.

    The K = `classes` equal sectors fill the angle `turn`, and the label is
    ⌊(angle mod turn) / (turn / K)⌋. A turn of 2π is the whole circle; with π, opposite sectors
    share a label. Only the first two coordinates of x count.

    Examples
    --------
    >>> sectors(np.array([[1.0, 0.1], [-1.0, 0.1], [-1.0, -0.1]]), 4, 2 * np.pi)
    array([0, 1, 2])
    >>> sectors(np.array([[1.0, 0.1], [-1.0, 0.1], [-1.0, -0.1]]), 4, np.pi)
    array([0, 3, 0])
    """
    angle = np.arctan2(x[:, 1].astype(np.float64), x[:, 0].astype(np.float64)) % turn
    # The remainder of an angle just below 0 is rounded up to a whole turn.
    return np.minimum((angle / turn * classes).astype(np.int64), classes - 1)
