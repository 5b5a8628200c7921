"""ICA by non-stationarity: axes whose variances differ between environments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import inverse_or_zero
from identikit.alignment.given import column_names, given_rows
from identikit.axes import AxesTransformer
from identikit.errors import InputError
from identikit.recover._axes import find_axes
from identikit.recover._environments import (
    estimated_variability,
    read_environments,
    warn_of_ties,
)
from identikit.recover._ties import tails


class VarianceICA(AxesTransformer):
    """Independent axes of rows in several environments: s = (x − mean_) components_ᵀ.

    While `ICA` needs sources that are not Gaussian, this method needs environments in which their
    variances differ, and Gaussian sources are allowed. The covariances C_e = M diag(v_e) Mᵀ are
    diagonalised jointly (Matsuoka, Ohya and Kawamoto 1995; Pham and Cardoso 2001;
    `joint_diagonalise`). An axis is identified if its variances are not proportional to those of
    any other axis, beyond sampling error. The sampling error is computed from the kurtosis of the
    axes, and assumes independent rows.

    A scikit-learn transformer: ``fit(X, environments)``, ``transform(X)``,
    ``inverse_transform(S)``.

    Attributes
    ----------
    components_ : array (k, d)
        The axes: rows of the map from centred x to s, which has mean variance 1.
    mixing_ : array (k, d)
        The map back: x = s mixing_ + mean_.
    mean_ : array (d,)
        The mean of all rows. Covariances are centred within environments.
    environments_ : array
        The labels, in order of first appearance.
    means_, variances_ : arrays (environments, d) and (environments, k)
        Mean of the rows, and variance of each axis, in each environment.
    identified_, ties_, errors_, off_, sweeps_
        As the attributes of `JointDiagonal`.
    variability_ : Variability
        The variability of the estimated precisions, with tied axes counted as one. Full variability
        is sufficient, but not necessary: two environments with distinct ratios identify all axes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> environments = np.repeat([0, 1, 2], 1000)
    >>> S = rng.normal(size=(3000, 2)) * np.array([[1, 1], [3, 1], [1, 2]])[environments]
    >>> ica = VarianceICA().fit(S @ [[1, 2], [3, 1]], environments)
    >>> np.abs(np.corrcoef(ica.transform(S @ [[1, 2], [3, 1]]).T, S.T)[:2, 2:]).round(1)
    array([[1., 0.],
           [0., 1.]])
    >>> ica.identified_
    array([ True,  True])
    """

    def fit(self, X: object, y: ArrayLike | None = None) -> VarianceICA:
        """Find the axes.

        Parameters
        ----------
        X : array (rows, d)
        y : array (rows,)
            The environment of each row.
        """
        columns = column_names(X)
        rows = given_rows(X, "VarianceICA").astype(np.float64)
        if y is None:
            raise InputError(
                "VarianceICA requires y to be passed, but the target y is None: give the "
                "environment of each row"
            )
        found = read_environments(y, len(rows))
        counts, means = found.counts, found.means(rows)
        if counts.min() < 2:
            label = found.labels[int(counts.argmin())]
            raise InputError(
                f"environment {label!s} has 1 sample; each needs 2 or more for a variance"
            )
        centred = rows - means[found.codes]
        parts = [centred[found.codes == e] for e in range(len(counts))]
        C = np.stack([part.T @ part / (len(part) - 1) for part in parts])
        if not np.isfinite(C).all():
            raise InputError("the squares of X overflow in float64; divide X by a large number")
        if not C.any():
            raise InputError("X is constant within every environment: nothing varies")
        weights = counts / counts.sum()
        axes = find_axes(C, weights)
        s = centred @ axes.unmixing.T
        squares = s**2 * inverse_or_zero(axes.variances)[found.codes]
        per_row = axes.variances**2 / counts[:, None]
        spreads = tails((squares**2).mean(axis=0)) * per_row
        self.ties_, self.identified_, self.errors_ = axes.judged(spreads, 2 * per_row, weights)
        self.components_, self.mixing_ = axes.unmixing, axes.mixing.T
        self.mean_, self.means_, self.variances_ = rows.mean(axis=0), means, axes.variances
        self.environments_ = found.labels
        self.variability_ = estimated_variability(axes.variances, spreads, self.ties_)
        self.off_, self.sweeps_ = axes.off, axes.sweeps
        self.n_features_in_, self._n_features_out = rows.shape[1], len(axes.unmixing)
        self.__dict__.pop("feature_names_in_", None)
        if columns is not None:
            self.feature_names_in_ = columns
        warn_of_ties(len(counts), self.ties_, "axes")
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
