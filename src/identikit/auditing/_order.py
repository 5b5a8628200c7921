"""What the order of rows shows: whether rows depend on each other, and if views share more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array, orthonormal_columns

#: The probability, at most, with which independent rows of a pair are taken for dependent ones.
LEVEL = 0.005

#: How many times the variance of independent rows the means of stretches of rows may have. At 1.5,
#: an interval that assumes independent rows is a fifth too short.
LARGEST = 1.5

#: The least effective number of values of a series, (Σz²)²/Σz⁴, which for normal scores is a third
#: of the rows.
EVENTS = 8

#: The least number of blocks that can show whether views share more than the order, the number of
#: sets of random signs, and how many of these may give as large a value as the given signs.
BLOCKS, SIGNS, AS_GOOD = 12, 999, 1

#: If views share only their order, slow changes make up at least this share of their cross-scatter.
SLOW = 0.5

#: Positions in a block, and positions left out after it, so that no short run is in two blocks.
PLACES, GAP = 4, 4

#: An orthonormal basis of what is left of four values without their mean and their slope.
_CURVES = np.array([[1.0, -1.0, -1.0, 1.0], [-1.0, 3.0, -3.0, 1.0]]) / [[2.0], [np.sqrt(20.0)]]


@dataclass(frozen=True, eq=False)
class Order:
    """Rows in their order, along the leading axes of every view.

    Parameters
    ----------
    scores : tuple of array (n, k)
        For each view, largest variance first; NaN where a row is not finite.
    excess : tuple of float
        For each view; see `excess`.
    """

    scores: tuple[Array, ...]
    excess: tuple[float, ...]
    _of_pairs: dict[tuple[int, int], float] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, scores: Sequence[Array]) -> Order:
        """Compute the excess of rows whose scores along the leading axes are given."""
        whole = [view[np.isfinite(view).all(axis=1)] for view in scores]
        return cls(tuple(scores), tuple(excess(view, LEVEL / 3) for view in whole))

    def dependence(self, i: int, j: int) -> float:
        """Variance of stretches of rows over that of independent rows; 1 if not clearly more.

        This is the largest `excess` of the views' leading axes, and of the contribution of each row
        to the error of a linear map between them, ‖y − h(x)‖² − e²‖y‖², on which intervals depend.
        """
        if (i, j) not in self._of_pairs:
            x, y = self._both(i, j)
            contributions = np.stack([_contributions(x, y), _contributions(y, x)], axis=1)
            self._of_pairs[i, j] = max(
                self.excess[i], self.excess[j], excess(contributions, LEVEL / 3)
            )
        return self._of_pairs[i, j]

    def dependent(self, i: int, j: int) -> bool:
        """Whether the rows of two views clearly depend on others nearby."""
        return self.dependence(i, j) > LARGEST

    def stands_out(self, i: int, j: int) -> bool | None:
        """Whether two views share more than a smooth function of the row number.

        Two views that are sorted, drift, or come in the same classes agree even if single rows of
        one are unrelated to the same rows of the other. So the rows are divided into blocks of four
        positions, each the mean of 1, 2, 4, … rows, and the block's mean and slope are subtracted.
        If views share only a smooth function, the cross products C_B = Σ x yᵀ of blocks have either
        sign equally often. So ‖Σ C_B‖² must be larger than with all but one of 999 random sets of
        signs ± C_B, which happens by chance in one of 500 cases however the rows of a block depend
        on each other (a wild bootstrap, Wu 1986). It must also exceed the mean over these sets by
        twice as much as it does for blocks that are shifted against each other, which fails if what
        the views share is still smooth from block to block.

        The result is None if there are too few rows to tell.
        """
        x, y = self._both(i, j)
        rows, rng, shared = 1, np.random.default_rng(0), None
        while len(x) // ((PLACES + GAP) * rows) >= BLOCKS:
            shared = _shares_blocks(_curves(x, rows), _curves(y, rows), rng)
            if shared:
                return True
            rows *= 2
        return shared

    def only_order(self, i: int, j: int) -> bool:
        """Whether rows depend on others, and views share only a smooth function of the row number.

        That is, what they share changes slowly, and does not stand out.
        """
        slow = self.dependent(i, j) and self.slow_share(i, j) >= SLOW
        return slow and self.stands_out(i, j) is False

    def slow_share(self, i: int, j: int) -> float:
        """The share of the views' cross-scatter in slow changes, over eight rows or more.

        With C the cross-scatter of the leading axes and C_s that of their slow changes (the first
        eighth of the cosine coefficients), this is ⟨C_s, C⟩/⟨C, C⟩: about 1 if the views share only
        a smooth function of the row number, and 1/8 if rows are related to their partners alone.
        """
        from scipy.fft import dct

        x, y = (dct(_normal_scores(side), axis=0, norm="ortho") for side in self._both(i, j))
        slow = max(len(x) // 8, 1)
        whole = x.T @ y
        size = float(np.vdot(whole, whole))
        return float(np.vdot(x[:slow].T @ y[:slow], whole)) / size if size > 0 else 0.0

    def _both(self, i: int, j: int) -> tuple[Array, Array]:
        x, y = self.scores[i], self.scores[j]
        finite = np.isfinite(x).all(axis=1) & np.isfinite(y).all(axis=1)
        return x[finite], y[finite]


def excess(series: Array, level: float = LEVEL) -> float:
    """Largest power of slow changes relative to independent rows, if it is clearly above 1.

    The normal scores of each column, which have no outliers, have squared cosine coefficients
    c_1², …, c_{n−1}², each about χ²₁ if the rows are exchangeable, whatever their distribution.
    The mean of the first 1, 2, 4, …, n/4 of them is the variance of the means of stretches of n,
    n/2, … rows. It counts if a χ² variable exceeds it with a probability below
    level / (number of means), so that for independent rows anything counts with a probability of at
    most `level`.
    """
    from scipy.fft import dct
    from scipy.special import chdtrc

    n = len(series)
    scores = _normal_scores(series)
    squares = np.square(scores)
    events = squares.sum(axis=0) ** 2 / np.square(squares).sum(axis=0).clip(1e-300)
    scores, events = scores[:, events >= EVENTS], events[events >= EVENTS]
    if not len(events):
        return 1.0
    counts = 2 ** np.arange((n // 4).bit_length())
    power = np.square(dct(scores, axis=0, norm="ortho")[1:])
    power *= (n - 1) / power.sum(axis=0)
    means = np.cumsum(power, axis=0)[counts - 1] / counts[:, None]
    chance = chdtrc(counts[:, None], counts[:, None] * means) * means.size
    # A few large values that happen to be close together are no evidence about shorter stretches.
    counted = (chance < level) & (counts[:, None] <= 0.75 * events)
    return float(means[counted].max(initial=1.0))


def _normal_scores(series: Array) -> Array:
    """Normal quantiles of the ranks of each column, centred; equal values have equal scores."""
    from scipy.special import ndtri

    n = len(series)
    scores = np.empty(series.shape)
    for column, values in zip(scores.T, series.T):
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        middle = np.cumsum(counts) - counts / 2
        column[:] = ndtri(middle / n)[inverse]
    return scores - scores.mean(axis=0) if n else scores


def _contributions(x: Array, y: Array) -> Array:
    """The contribution of each row to the error of the best affine map."""
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    gram = x.T @ x
    ridge = 1e-6 * np.trace(gram) * np.eye(len(gram)) / max(len(gram), 1)
    missed = np.square(y - x @ np.linalg.lstsq(gram + ridge, x.T @ y, rcond=None)[0]).sum(axis=1)
    whole: Array = np.square(y).sum(axis=1)
    result: Array = missed - missed.sum() / max(whole.sum(), 1e-300) * whole
    return result


def _curves(scores: Array, rows: int) -> Array:
    """Blocks of four means of `rows` rows each, without mean and slope: (blocks, 2, axes), white.

    Blocks of more than the median norm are scaled down to it, so that no single jump dominates.
    """
    blocks = len(scores) // ((PLACES + GAP) * rows)
    few = scores[: (PLACES + GAP) * blocks * rows, : max(1, blocks // 6)]
    means = few.reshape(blocks, PLACES + GAP, rows, -1)[:, :PLACES].mean(axis=2)
    curves: Array = np.einsum("ct,btk->bck", _CURVES, means)
    for _ in range(4):
        flat = curves.reshape(2 * blocks, -1)
        curves = orthonormal_columns(flat).reshape(blocks, 2, -1)
        norms = np.sqrt(np.square(curves).sum(axis=(1, 2)))
        median = np.median(norms)
        curves *= np.divide(median, norms, out=np.ones(blocks), where=norms > median)[:, None, None]
    return curves


def _shares_blocks(x: Array, y: Array, rng: np.random.Generator) -> bool:
    """Whether neither chance nor a smooth change explains the cross products of blocks."""
    blocks = len(x)
    products = np.einsum("bci,bcj->bij", x, y).reshape(blocks, -1)
    given = float(np.square(products.sum(axis=0)).sum())
    signs: NDArray[np.float64] = rng.choice([-1.0, 1.0], size=(SIGNS, blocks))
    by_chance = np.square(signs @ products).sum(axis=1)
    if np.count_nonzero(by_chance >= given * (1 - 1e-9)) > AS_GOOD:
        return False
    left, right = np.conj(np.fft.rfft(x, axis=0)), np.fft.rfft(y, axis=0)
    shifted = np.fft.irfft(np.einsum("fci,fcj->fij", left, right), blocks, axis=0)[1:]
    mean = float(by_chance.mean())
    return given - mean > 2 * (float(np.square(shifted).sum(axis=(1, 2)).max()) - mean)
