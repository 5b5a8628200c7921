"""Independent component analysis: whitened axes, each as non-Gaussian as possible.

A view x = s M + b, with independent s of which at most one is Gaussian, has the axes s for its
canonical basis: whatever invertible linear map lies between two such views, ICA of each alone finds
the same axes, up to their order and sign (Comon 1994). "The same up to a linear map" becomes "the
same axes", and nobody has looked at the pairing of the rows.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from identikit.alignment import AlignmentMap, made_map
from identikit.alignment.given import column_names, given_rows, is_in_memory
from identikit.axes._ica_core import Search, independent_components
from identikit.axes._ica_solver import Rows
from identikit.axes._transformer import AxesTransformer
from identikit.errors import InputError
from identikit.moments import Moments, accumulate
from identikit.sources import open_source

if TYPE_CHECKING:
    import pandas as pd


class ICA(AxesTransformer):
    """Independent axes: s = (x − mean_) components_ᵀ, and back x = s mixing_ + mean_.

    The view is centred, whitened, and turned. Axes have unit variance, positive skewness, and stand
    in the order of their non-Gaussianity. A scikit-learn transformer: ``fit(X)``, ``transform(X)``,
    ``inverse_transform(S)``.

    Random starts on each half of the rows lead to axes, and the best of these to those of all rows:
    by FastICA's fixed point where that converges, by L-BFGS where it does not. What the halves do
    not agree on is not identified, however well the gradient has converged. Random starts find
    their way if there are about k² rows for k components; with far fewer all is noise.

    Parameters
    ----------
    n_components : int, float or None
        How many principal directions are kept: a number; a share of the variance below 1; or all
        that the rank allows.
    restarts : int
        Random starts on each half of the rows, at least 2.
    tol : float
        Largest entry of the contrast's gradient (E[σψ(s)sᵀ] less its transpose, over 2) at which
        the axes have converged.
    max_iter : int
        Passes over the rows at which to give up.
    max_rows : int
        Rows that the axes are found on: all, or a uniform sample of so many. Mean and whitening are
        always of all rows.
    seed : int or None
        Of the random starts, the halves and the sample; another one every time if there is none.
    solver : str
        Of the way from the halves' axes to those of all rows: "auto", or "picard" for python-picard
        (extra ``ica``).

    Attributes
    ----------
    components_ : array (k, d)
        The axes: rows of the map from centred x to s.
    mixing_ : array (k, d)
        The map back.
    mean_ : array (d,)
    explained_variance_ratio_ : float
        Share of the view's variance in the directions kept.
    gradient_, converged_, n_iter_ : float, bool, int
        Largest entry of the gradient on all rows used, whether it is below `tol`, passes taken.
    n_rows_, n_samples_seen_ : int
        Rows that the axes were found on, and rows that were there.
    feature_names_in_ : array (d,) of str
        Of a data frame; one with other columns, or in another order, is then refused.
    skewness_ : array (k,)
    axes_ : Axes
        What is known of each axis: `Axes.identified` and its reasons; as a table in `table`.

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
            As `accumulate` takes its views.
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
        """Find the axes of a view from its moments, which whiten it, and some of its rows.

        Parameters
        ----------
        moments : Moments
            Of the view, perhaps among others.
        view : int or str
            Which one.
        rows : array (n, d), optional
            Rows to find the axes on; the moments' own sample by default.
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
                "raise max_iter, or ask for fewer components",
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
        """`transform` as a map that the ladder's maps compose with and that can be saved."""
        self._fitted()
        shift = -self.mean_ @ self.components_.T
        return made_map("affine", self.components_.T.copy(), shift, self.name_, self._target)

    @property
    def inverse_map_(self) -> AlignmentMap:
        """`inverse_transform` as such a map."""
        self._fitted()
        return made_map("affine", self.mixing_, self.mean_, self._target, self.name_)

    @property
    def _source(self) -> str:
        return self.name_

    @property
    def table(self) -> pd.DataFrame:
        """One row for each axis: what is known of it, and whether it is identified."""
        import pandas as pd

        self._fitted()
        return pd.DataFrame({**vars(self.axes_), "skewness": self.skewness_})
