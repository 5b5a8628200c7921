"""Independent component analysis: whitened axes, each as non-Gaussian as possible.

Let a view be x = s M + b with independent sources s, at most one of them Gaussian. Then the sources
are its canonical axes: whatever invertible linear map relates two such views, ICA of each view
alone finds the same axes, up to their order and sign (Comon 1994). "The same up to a linear map"
becomes "the same axes", without using the pairing of the rows.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from identikit._linalg import Array
from identikit.alignment import AlignmentMap, made_map
from identikit.alignment.given import check_names, column_names, given_rows, is_in_memory
from identikit.axes._ica_core import Search, independent_components
from identikit.axes._ica_solver import Rows
from identikit.errors import InputError
from identikit.moments import Moments, accumulate
from identikit.sources import open_source

if TYPE_CHECKING:
    import pandas as pd


class AxesTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """s = (x − mean_) components_ᵀ and back, x = s mixing_ + mean_; subclasses fit them."""

    mean_: Array
    components_: Array
    mixing_: Array
    n_features_in_: int

    def transform(self, X: ArrayLike) -> Array:
        """Map rows to the independent axes."""
        self._fitted()
        owner = type(self).__name__
        check_names(X, getattr(self, "feature_names_in_", None), owner)
        rows = given_rows(X, owner, self.n_features_in_, self._source)
        result: Array = np.subtract(rows, self.mean_, dtype=np.float64) @ self.components_.T
        return result

    def inverse_transform(self, S: ArrayLike) -> Array:
        """Map rows from the independent axes back to X; exact if the full rank was kept."""
        self._fitted()
        rows = given_rows(S, type(self).__name__, len(self.components_), self._target)
        result: Array = rows @ self.mixing_ + self.mean_
        return result

    @property
    def _source(self) -> str:
        """The name of the space of X in error messages."""
        return "X"

    @property
    def _target(self) -> str:
        return f"{self._source} (independent axes)"

    def _fitted(self) -> None:
        check_is_fitted(self, "components_", msg="this %(name)s is not fitted yet: call fit first")


class ICA(AxesTransformer):
    """Independent axes: s = (x − mean_) components_ᵀ, and back x = s mixing_ + mean_.

    The view is centred, whitened and rotated. Axes have unit variance and positive skewness, and
    are sorted by non-Gaussianity. A scikit-learn transformer: ``fit(X)``, ``transform(X)``,
    ``inverse_transform(S)``.

    Axes are first found from random starts on each half of the rows; from the best of these, the
    axes of all rows are found, by FastICA's fixed-point iteration if it converges and by L-BFGS
    otherwise. Axes on which the halves disagree are not identified, however well the gradient has
    converged. Random starts work if there are about k² rows for k components; with far fewer rows,
    the result is mostly noise.

    Parameters
    ----------
    n_components : int, float or None
        How many principal directions are kept: their number, the share of the variance that they
        explain (below 1), or None for all that the rank allows.
    restarts : int
        Number of random starts on each half of the rows, at least 2.
    tol : float
        The axes have converged if the largest entry of the gradient of the contrast, the
        antisymmetric part of E[σψ(s)sᵀ], is below this.
    max_iter : int
        The largest number of passes over the rows.
    max_rows : int
        The largest number of rows used to find the axes; of more rows, a uniform sample of this
        size is used. Mean and whitening always use all rows.
    seed : int or None
        Seed for the random starts, the halves and the sample; None for a different one every time.
    solver : str
        How to get from the axes of the halves to those of all rows: "auto", or "picard" for
        python-picard (extra ``ica``).

    Attributes
    ----------
    components_ : array (k, d)
        The axes: rows of the map from centred x to s.
    mixing_ : array (k, d)
        The map back.
    mean_ : array (d,)
    explained_variance_ratio_ : float
        The share of the view's variance in the directions that were kept.
    gradient_, converged_, n_iter_ : float, bool, int
        The largest entry of the gradient on all rows used, whether it is below `tol`, and the
        number of passes over the rows.
    n_rows_, n_samples_seen_ : int
        The number of rows used to find the axes, and of all rows.
    feature_names_in_ : array (d,) of str
        The column names, if X was a data frame; `transform` then refuses a data frame with other
        columns or another order of columns.
    skewness_ : array (k,)
    axes_ : Axes
        Diagnostics of each axis: whether it is identified, and if not, why; also in `table`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> S = np.column_stack([rng.exponential(size=2000), rng.uniform(size=2000)])
    >>> ica = ICA().fit(S @ [[1, 2], [3, 1]])
    >>> np.abs(np.corrcoef(ica.transform(S @ [[1, 2], [3, 1]]).T, S.T)[:2, 2:]).round(1)
    array([[1., 0.],
           [0., 1.]])
    >>> ica.axes_.identified
    array([ True,  True])
    """

    def __init__(
        self,
        *,
        n_components: float | None = None,
        restarts: int = 2,
        tol: float = 1e-6,
        max_iter: int = 500,
        max_rows: int = 100_000,
        seed: int | None = 0,
        solver: str = "auto",
    ) -> None:
        self.n_components = n_components
        self.restarts = restarts
        self.tol = tol
        self.max_iter = max_iter
        self.max_rows = max_rows
        self.seed = seed
        self.solver = solver

    def fit(self, X: object, y: object = None) -> ICA:  # noqa: ARG002
        """Find the axes of a view: an array, a tensor, or a path, read in blocks.

        Parameters
        ----------
        X : array or path
            Any view that `accumulate` accepts.
        y : ignored
        """
        search = self._search()
        columns = column_names(X)
        X = given_rows(X, "ICA") if is_in_memory(X) else X
        names = None if isinstance(X, str | os.PathLike) else ["X"]
        source = open_source(X, None if names is None else names[0])
        try:
            few = source.rows <= self.max_rows
            sample = 0 if few else self.max_rows
            moments = accumulate([X], folds=1, names=names, seed=search.seed, sample=sample)
            rows = np.asarray(source.read(0, source.rows)) if few else None
        finally:
            source.close()
        self._fit(moments, 0, rows, search)
        if columns is not None:
            self.feature_names_in_ = columns
        return self

    def fit_moments(
        self, moments: Moments, view: int | str = 0, rows: ArrayLike | None = None
    ) -> ICA:
        """Find the axes of a view from some of its rows, whitened by its moments.

        Parameters
        ----------
        moments : Moments
            The moments of the view, perhaps among others.
        view : int or str
            Which one.
        rows : array (n, d), optional
            Rows to find the axes from; by default the row sample stored in the moments.
        """
        view = moments.resolve(view)
        given = None
        if rows is not None:
            given = given_rows(rows, "ICA", moments.widths[view], moments.names[view])
        return self._fit(moments, view, given, self._search())

    def _fit(self, moments: Moments, view: int, given: Rows | None, search: Search) -> ICA:
        width = moments.widths[view]
        unit = moments.units[view]
        if given is not None and unit:
            given = np.ldexp(given.astype(np.float64), -unit)
        found = independent_components(moments, view, given, self.n_components, search)
        self.mean_, self.mixing_ = np.ldexp(found.mean, unit), np.ldexp(found.mixing, unit)
        self.components_ = np.ldexp(found.unmixing, -unit)
        self.explained_variance_ratio_, self.skewness_ = found.variance, found.skewness
        self.gradient_, self.converged_ = found.gradient, found.converged
        self.n_iter_, self.n_rows_, self.n_samples_seen_ = found.passes, found.rows, moments.rows
        self.axes_, self.name_, self.n_features_in_ = found.axes, found.name, width
        self._n_features_out = len(found.unmixing)
        self.__dict__.pop("feature_names_in_", None)
        if not found.converged:
            warnings.warn(
                f"the axes of {found.name!r} have not converged: after {found.passes} passes the "
                f"largest entry of the gradient is {found.gradient:.1e}, not below {self.tol:g}; "
                "increase max_iter or reduce n_components",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _search(self) -> Search:
        if self.max_rows < 1:
            raise InputError(f"max_rows is {self.max_rows}; give at least 1")
        seed = self.seed
        if seed is None:
            seed = int(np.random.default_rng().integers(2**32))
        return Search(self.restarts, self.tol, self.max_iter, seed, self.solver)

    @property
    def map_(self) -> AlignmentMap:
        """`transform` as an `AlignmentMap`, which composes with other maps and can be saved."""
        self._fitted()
        shift = -self.mean_ @ self.components_.T
        return made_map("affine", self.components_.T.copy(), shift, self.name_, self._target)

    @property
    def inverse_map_(self) -> AlignmentMap:
        """`inverse_transform` as an `AlignmentMap`."""
        self._fitted()
        return made_map("affine", self.mixing_, self.mean_, self._target, self.name_)

    @property
    def _source(self) -> str:
        return self.name_

    @property
    def table(self) -> pd.DataFrame:
        """One row for each axis: its diagnostics, and whether it is identified."""
        import pandas as pd

        self._fitted()
        return pd.DataFrame({**vars(self.axes_), "skewness": self.skewness_})
