"""Fitted maps between two spaces: transform, inverse, compose, save, load."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError

from identikit._linalg import Array
from identikit.alignment._ladder import applicable
from identikit.alignment._map_fit import (
    best_map,
    checked_ridge,
    held_out_errors,
    in_own_units,
    own_error,
)
from identikit.alignment._ridge import choose_strength
from identikit.alignment._rungs import join
from identikit.alignment._stats import pair_stats
from identikit.alignment.given import Names, check_names, column_names, given_rows, is_in_memory
from identikit.errors import InputError
from identikit.inference import jackknife_interval
from identikit.moments import FOLDS, Moments, accumulate
from identikit.sources import BY_POSITION, paired, read_labels


class AlignmentMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The best map of a rung from one view's space to another's: ``y ≈ x @ weights_ + shift_``.

    A scikit-learn transformer: ``fit(X, Y)``, ``transform(X)``, ``inverse_transform(Y)``.

    Parameters
    ----------
    group : str
        A rung of the ladder: identity, permutation, monomial, rigid, similarity, linear, affine.
    folds : int
        Folds for the held-out error.
    ridge : "auto", None or float
        The strength of the ridge of a linear or affine map, as a share of the source's mean
        eigenvalue. With "auto" it is chosen from the data (0 if there are enough rows); None means
        no ridge.

    Attributes
    ----------
    weights_ : array (p, q)
    shift_ : array (q,)
    error : float or None
        Error of *this map* on new rows, in its direction, over the target's own columns: 0 for an
        exact map, 1 for one that is no better than the mean. The map was fitted on all rows, so
        its error is estimated from maps that were fitted on parts of them (`own_error`). None for a
        composed map, whose error was not measured.
    interval : tuple of float or None
        The 95 % interval of that error.
    held_out : float or None
        Error of maps fitted on all folds but one, as in the ladder of an audit: the error to expect
        of a map that is fitted on that many rows.
    strength_ : float or None
        The strength of the ridge.
    source_, target_ : str
        Names of the two spaces.
    pairing_ : str
        How rows were paired, if `align` did so.
    source_names, target_names : array of str or None
        Columns of the data frames that the map was fitted on. A data frame with other columns, or
        with these in another order, is then refused.
    """

    pairing_: str

    def __init__(
        self, *, group: str = "affine", folds: int = FOLDS, ridge: float | str | None = "auto"
    ) -> None:
        self.group = group
        self.folds = folds
        self.ridge = ridge

    def fit(self, X: object, y: object, groups: ArrayLike | None = None) -> AlignmentMap:
        """Fit on the rows of X and y; rows with the same label in `groups` share a fold."""
        if y is None:
            raise InputError("AlignmentMap requires y to be passed, but the target y is None")
        views = [
            given_rows(view, "AlignmentMap", vector=view is y) if is_in_memory(view) else view
            for view in (X, y)
        ]
        if isinstance(views[0], np.ndarray) and len(views[0]) == 1:
            raise InputError("a map cannot be fitted on 1 sample; give more rows of both views")
        self.fit_moments(accumulate(views, folds=self.folds, groups=groups, sample=0))
        self.remember(column_names(X), column_names(y))
        return self

    def fit_moments(self, moments: Moments, i: int = 0, j: int = 1) -> AlignmentMap:
        """Fit on the moments of two views."""
        p, q = moments.widths[i], moments.widths[j]
        rungs = applicable(p, q, (self.group,))
        if not rungs:
            fits = ", ".join(rung.name for rung in applicable(p, q))
            raise InputError(
                f"a map of the rung {self.group!r} needs views of the same width, but "
                f"{moments.names[i]!r} has {p} columns and {moments.names[j]!r} has {q}; "
                f"possible here: {fits}"
            )
        strength = checked_ridge(self.ridge, rungs[0])
        held_out = held_out_errors(rungs[0], moments, i, j, strength)
        chosen = strength or 0.0
        if chosen < 0:
            own_rows = pair_stats(moments, i, j)
            chosen = choose_strength(own_rows, shift=rungs[0].shift) if rungs[0].whitened else 0.0
        self.strength_: float | None = chosen
        self.weights_, self.shift_ = in_own_units(
            rungs[0], moments, i, j, *best_map(rungs[0], moments, i, j, chosen)
        )
        own = own_error(rungs[0], moments, i, j, chosen and strength, held_out)
        self.held_out_: float | None = held_out.error
        self.error_: float | None = own.error
        self.interval_: tuple[float, float] | None = jackknife_interval(
            own.error, own.leave_one_out(), floor=0.0
        )
        self.source_, self.target_ = moments.names[i], moments.names[j]
        self.n_features_in_, self._n_features_out = p, q
        self.remember(None, None)
        return self

    @property
    def error(self) -> float | None:
        """Error of this map on new rows."""
        return self.error_

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of that error."""
        return self.interval_

    @property
    def held_out(self) -> float | None:
        """Error of maps fitted on all folds but one."""
        return self.held_out_

    @property
    def source_names(self) -> Names | None:
        """Column names of the source, if it was a data frame."""
        return getattr(self, "feature_names_in_", None)

    @property
    def target_names(self) -> Names | None:
        """Column names of the target, if it was a data frame."""
        return self._target_names

    def remember(self, source: Iterable[str] | None, target: Iterable[str] | None) -> None:
        """Store the column names of source and target, where there are any."""
        self.__dict__.pop("feature_names_in_", None)
        if source is not None:
            self.feature_names_in_: Names = np.array(list(source), dtype=object)
        self._target_names = None if target is None else np.array(list(target), dtype=object)

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> Names:
        """Names of the target's columns, or this class's name with a number if they have none."""
        self._fitted()
        known = self.source_names
        if not (input_features is None or known is None or list(input_features) == list(known)):
            raise InputError("input_features is not equal to feature_names_in_")
        if self._target_names is not None:
            return self._target_names
        names: Names = super().get_feature_names_out()
        return names

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # The target is required, and is a view with rows and columns.
        tags.target_tags.required = tags.target_tags.two_d_labels = True
        tags.target_tags.multi_output, tags.target_tags.single_output = True, False
        return tags

    def __repr__(self, *arguments: int) -> str:
        if not self.__sklearn_is_fitted__():
            return str(super().__repr__(*arguments))
        p, q = self.weights_.shape
        error = "" if self.error is None else f"; error on new rows {self.error:.3g}"
        return (
            f"AlignmentMap({self.group!r}, {self.source_!r} ({p}) to {self.target_!r} ({q}){error})"
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    def _fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this map is not fitted yet: call fit(X, Y) first")

    def transform(self, X: ArrayLike) -> Array:
        """Map rows of the source space to the target space."""
        self._fitted()
        check_names(X, self.source_names, "this map")
        rows = given_rows(X, "AlignmentMap", self.weights_.shape[0], self.source_)
        result: Array = rows.astype(np.float64, copy=False) @ self.weights_ + self.shift_
        return result

    def inverse_transform(self, Y: ArrayLike) -> Array:
        """Map rows of the target space back, to those of least norm where that is not unique."""
        self._fitted()
        check_names(Y, self.target_names, "this map")
        rows = given_rows(Y, "AlignmentMap", self.weights_.shape[1], self.target_)
        gaps = np.subtract(rows, self.shift_, dtype=np.float64)
        result: Array = gaps @ np.linalg.pinv(self.weights_)
        return result

    def compose(self, then: AlignmentMap) -> AlignmentMap:
        """This map followed by `then`, as a map of the strictest rung that contains both."""
        self._fitted()
        then._fitted()
        if self.weights_.shape[1] != then.weights_.shape[0]:
            raise InputError(
                f"these maps cannot be composed: the first ends in {self.target_!r} with "
                f"{self.weights_.shape[1]} columns, the second starts from {then.source_!r} with "
                f"{then.weights_.shape[0]}"
            )
        weights = self.weights_ @ then.weights_
        shift = self.shift_ @ then.weights_ + then.shift_
        group = join(self.group, then.group)
        made = made_map(group, weights, shift, self.source_, then.target_)
        made.remember(self.source_names, then.target_names)
        return made

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Write the map as a safetensors file with a JSON header, atomically."""
        from identikit.alignment._map_file import save_map

        self._fitted()
        save_map(self, path, overwrite=overwrite)


def made_map(group: str, weights: Array, shift: Array, source: str, target: str) -> AlignmentMap:
    """A map with the given weights and shift, whose error was not measured."""
    made = AlignmentMap(group=group)
    made.weights_, made.shift_ = weights, shift
    made.error_ = made.interval_ = made.held_out_ = made.strength_ = None
    made.source_, made.target_ = source, target
    made.n_features_in_, made._n_features_out = weights.shape[0], len(shift)
    made.remember(None, None)
    return made


def align(
    X: object,
    Y: object,
    *,
    group: str = "affine",
    folds: int = FOLDS,
    groups: ArrayLike | None = None,
    ridge: float | str | None = "auto",
    names: Sequence[str] | None = None,
    ids: str | Sequence[object] | None = None,
    **options: Any,
) -> AlignmentMap:
    """Fit the best map of a rung from X's space to Y's, with its error on new rows.

    Parameters
    ----------
    X, Y : array or path
        Two views of the same rows.
    group : str
        A rung of the ladder.
    folds : int
        Folds for the held-out error.
    groups : array (rows,), optional
        One label per row; dependent rows share a label, and so a fold.
    ridge : "auto", None or float
        The strength of the ridge of a linear or affine map; see `AlignmentMap`.
    names : sequence of str, optional
        Names of the two spaces.
    ids : str or sequence, optional
        Pair rows by id instead of by position, as `audit` does; `pairing_` says what was done.
    **options
        Passed on to `accumulate`: drop_nonfinite, memory, progress.

    Returns
    -------
    AlignmentMap

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> Y = X @ [[0.6, 0.8], [-0.8, 0.6]] + [3, 4]
    >>> t = align(X, Y, group="rigid")
    >>> bool(np.allclose(t.transform(X), Y)), t.error < 1e-6
    (True, True)
    """
    with paired([X, Y], ids, names) as (views, named, matched):
        if matched is not None and groups is not None and not isinstance(groups, str):
            groups = matched.pick(read_labels(groups))
        moments = accumulate(views, folds=folds, groups=groups, names=named, sample=0, **options)
    fitted = AlignmentMap(group=group, folds=folds, ridge=ridge).fit_moments(moments)
    fitted.pairing_ = BY_POSITION if matched is None else str(matched)
    fitted.remember(column_names(X), column_names(Y))
    return fitted
