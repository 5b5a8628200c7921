"""Which axes two or more covariances distinguish, and how well, given sampling error.

Axes p and q with variances v_ep, v_eq in environment e are not determined if the ratio v_ep/v_eq is
the same in all environments: every rotation in their plane then diagonalises the covariances too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array

Pairs = NDArray[np.bool_]

#: The level of the test over all pairs of axes (Bonferroni).
LEVEL = 0.05
#: The mean fourth power of a normal variable of variance 1.
NORMAL = 3.0
#: The root mean square of the sine of a uniformly distributed angle.
ANY_ANGLE = 0.5**0.5


def tie_p_values(variances: Array, spreads: Array, *, noise: bool = False) -> Array:
    """p-values of ratios at least this different for each pair of axes, if they are tied; (d, d).

    Let x be the difference and m the mean of the two variance profiles, each divided by its mean,
    and δ the best common ratio. For axes fixed beforehand, Q = Σ_e (x_e − δ m_e)²/(s_ep + s_eq)
    would be χ² with k − 1 degrees of freedom. But a joint diagonaliser rotates a tied plane to
    where Q is large. So p is the tail probability of the largest eigenvalue of a 2 × 2 Wishart
    matrix with as many degrees of freedom, which bounds Q over all rotations; for two environments,
    this is χ² with 2 degrees of freedom.

    `variances` (k, d) are those of each axis in each environment, and `spreads` their sampling
    variances. With `noise` they include an unknown part that all environments share; profiles are
    then centred, and have one degree of freedom less.
    """
    environments, d = variances.shape
    freedom = environments - 1 - int(noise)
    if freedom < 1:
        return np.ones((d, d))
    centred = variances - variances.mean(axis=0) if noise else variances
    unit = np.sqrt((centred**2).mean(axis=0)) if noise else variances.mean(axis=0)
    v, s = centred / unit, spreads / unit**2
    sign = np.where(v.T @ v < 0, -1.0, 1.0)
    total = s[:, :, None] + s[:, None, :]
    weight = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    apart = v[:, :, None] - sign * v[:, None, :]
    middle = (v[:, :, None] + sign * v[:, None, :]) / 2
    scale = np.maximum((weight * middle**2).sum(axis=0), 1e-300)
    apart -= (weight * apart * middle).sum(axis=0) / scale * middle
    return _largest_root((weight * apart**2).sum(axis=0), freedom)


def tied_axes(variances: Array, spreads: Array, *, noise: bool = False) -> Pairs:
    """Pairs of axes whose ratio of variances is constant within sampling error, (d, d)."""
    d = variances.shape[1]
    tied = tie_p_values(variances, spreads, noise=noise) > LEVEL / max(d * (d - 1) / 2, 1)
    np.fill_diagonal(tied, False)
    return np.asarray(tied)


def _largest_root(x: Array, freedom: int) -> Array:
    """P(largest eigenvalue > x) of a 2 × 2 Wishart matrix with unit scale.

    It follows by integrating the density ∝ (l₁l₂)^((ν−3)/2) (l₁ − l₂) exp(−(l₁ + l₂)/2) by parts:
    P = Q(ν − 1, x) + 2^(ν−2) X^a e^(−X) γ(a, X)/Γ(ν − 1), with a = (ν − 1)/2, X = x/2, Q and γ the
    upper regularised and the lower incomplete gamma function.
    """
    from scipy.special import gammainc, gammaincc, gammaln

    half = np.maximum(x, 1e-300) / 2
    if freedom == 1:
        return np.asarray(np.exp(-half))
    a = (freedom - 1) / 2
    inside = np.log(np.maximum(gammainc(a, half), 1e-300)) + gammaln(a) - gammaln(2 * a)
    second = np.exp(a * np.log(half) - half + inside + (freedom - 2) * np.log(2.0))
    return np.asarray(np.minimum(gammaincc(2 * a, 2 * half) + second, 1.0))


def leakages(variances: Array, spreads: Array, weights: Array, tied: Pairs) -> Array:
    """The standard error of each recovered axis: how much of the others leaks into it, (d,).

    Every source is scaled to mean variance 1. To first order the leakage of axis q into axis p is
    Σ_e c_e n_e, with n_e the error of the covariance of the two axes in environment e and

        c_e = w_e (a_e/S − Σ_f w_f a_f (v_fp + v_fq)/2S − ½),   a = v_p − v_q,   S = Σ_e w_e a_e²:

    which accounts for the rotation that decorrelates the two, and for the whitening before it. The
    angle between tied axes is arbitrary, and counts as random.
    """
    means = weights @ variances
    v, deviation = variances / means, np.sqrt(spreads) / means
    w = weights[:, None, None]
    apart, middle = v[:, :, None] - v[:, None, :], (v[:, :, None] + v[:, None, :]) / 2
    size = np.maximum((w * apart**2).sum(axis=0), 1e-300)
    turned = (apart - (w * apart * middle).sum(axis=0)) / size
    # The covariance of two independent normal sources has variance v_p v_q/n; a variance has 2v²/n.
    noise = deviation[:, :, None] * deviation[:, None, :] / 2
    return total_leak(((w * (turned - 0.5)) ** 2 * noise).sum(axis=0), tied)


def total_leak(variances: Array, tied: Pairs) -> Array:
    """The root of the sum of all leakages into each axis, given their variances (d, d)."""
    leaks = np.where(tied, ANY_ANGLE**2, np.minimum(variances, ANY_ANGLE**2))
    np.fill_diagonal(leaks, 0.0)
    return np.asarray(np.sqrt(leaks.sum(axis=1)))


def tails(fourth: Array) -> Array:
    """n Var(v)/v² for the variance v of n rows, from the mean fourth powers of rows over √v.

    It is 2 for normal rows and more for heavier tails; lighter tails count as normal.
    """
    return np.maximum(fourth, NORMAL) - 1


def groups(tied: Pairs) -> tuple[tuple[int, ...], ...]:
    """Sets of two or more axes that are connected by ties."""
    from scipy.sparse.csgraph import connected_components

    count, labels = connected_components(tied, directed=False)
    found = (np.flatnonzero(labels == label) for label in range(count))
    return tuple(tuple(map(int, axes)) for axes in found if len(axes) > 1)
