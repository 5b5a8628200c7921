"""Fitted maps between two spaces: transform, inverse, compose, save, load."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError

from identikit import _files
from identikit._linalg import Array
from identikit._version import __version__
from identikit.alignment._groups import GROUPS, Group, join
from identikit.alignment._ladder import applicable, ladder
from identikit.alignment._stats import pair_stats, whitened_stats
from identikit.errors import InputError
from identikit.moments import Moments, accumulate

FORMAT = "identikit-map-1"


class AlignmentMap(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The best map of a group from one view's space to another's: ``y ≈ x @ weights_ + shift_``.

    A scikit-learn transformer: ``fit(X, Y)``, ``transform(X)``, ``inverse_transform(Y)``.

    Parameters
    ----------
    group : str
        A rung of the ladder: identity, permutation, monomial, rigid, similarity, linear, affine.
    folds : int
        Folds for the held-out error.

    Attributes
    ----------
    weights_ : array (p, q)
    shift_ : array (q,)
    error : float or None
        Held-out error in the direction of the map, 0 the same, 1 no better than the mean; None for
        a composed map, whose error nobody has measured.
    source_, target_ : str
        Names of the two spaces.
    """

    def __init__(self, group: str = "affine", folds: int = 5) -> None:
        self.group = group
        self.folds = folds

    def fit(self, X: object, y: object, groups: ArrayLike | None = None) -> AlignmentMap:
        """Fit on the rows of X and y; rows with one label in `groups` share a fold."""
        return self.fit_moments(accumulate([X, y], folds=self.folds, groups=groups, sample=0))

    def fit_moments(self, moments: Moments, i: int = 0, j: int = 1) -> AlignmentMap:
        """Fit on the moments of two views."""
        p, q = moments.widths[i], moments.widths[j]
        rungs = applicable(p, q, (self.group,))
        if not rungs:
            fits = ", ".join(rung.name for rung in applicable(p, q))
            raise InputError(
                f"a map of the group {self.group!r} needs views of one width, but "
                f"{moments.names[i]!r} has {p} columns and {moments.names[j]!r} has {q}; "
                f"possible here: {fits}"
            )
        held_out, _ = ladder(moments, i, j, (self.group,))[self.group]
        self.error: float | None = held_out.error
        self.weights_, self.shift_ = best_map(rungs[0], moments, i, j)
        self.source_, self.target_ = moments.names[i], moments.names[j]
        self.n_features_in_ = p
        return self

    def _check(self, X: ArrayLike, width: int, space: str) -> Array:
        X = np.asarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != width:
            raise InputError(
                f"this map takes rows of {space!r} with {width} columns, but the array has shape "
                f"{X.shape}"
            )
        return X

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    def _fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this map is not fitted yet: call fit(X, Y) first")

    def transform(self, X: ArrayLike) -> Array:
        """Rows of the source space in the target space."""
        self._fitted()
        X = self._check(X, self.weights_.shape[0], self.source_)
        result: Array = X @ self.weights_ + self.shift_
        return result

    def inverse_transform(self, Y: ArrayLike) -> Array:
        """Rows of the target space in the source space; of least norm where that is not unique."""
        self._fitted()
        Y = self._check(Y, self.weights_.shape[1], self.target_)
        result: Array = (Y - self.shift_) @ np.linalg.pinv(self.weights_)
        return result

    def compose(self, then: AlignmentMap) -> AlignmentMap:
        """This map and `then` after it, in the strictest group that holds both."""
        self._fitted()
        then._fitted()
        if self.weights_.shape[1] != then.weights_.shape[0]:
            raise InputError(
                f"these maps do not follow each other: the first ends in {self.target_!r} with "
                f"{self.weights_.shape[1]} columns, the second starts from {then.source_!r} with "
                f"{then.weights_.shape[0]}"
            )
        weights = self.weights_ @ then.weights_
        shift = self.shift_ @ then.weights_ + then.shift_
        group = join(self.group, then.group)
        return _made(group, weights, shift, self.source_, then.target_, None)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Write the map as a safetensors file with a JSON header, atomically."""
        from safetensors.numpy import save

        self._fitted()
        header = {
            "format": FORMAT,
            "identikit": __version__,
            "group": self.group,
            "error": self.error,
            "source": {"name": self.source_, "width": self.weights_.shape[0]},
            "target": {"name": self.target_, "width": self.weights_.shape[1]},
        }
        arrays = {"weights": self.weights_, "shift": self.shift_}
        data = save(arrays, metadata={"identikit": json.dumps(header)})
        with _files.replacing(path, overwrite=overwrite) as temporary:
            temporary.write_bytes(data)


def best_map(rung: Group, moments: Moments, i: int = 0, j: int = 1) -> tuple[Array, Array]:
    """The map y ≈ x W + b of a group that fits all rows best, in the views' own coordinates.

    Parameters
    ----------
    rung : Group
        One that has maps between views of these widths.
    moments : Moments
    i, j : int
        The source and the target.
    """
    p, q = moments.widths[i], moments.widths[j]
    if rung.whitened:
        stats, _ = whitened_stats(moments, i, j)
        weights, shift = rung.fit(stats)
        assert stats.white is not None
        weights = stats.white @ weights
        if rung.name == "linear" and stats.constant is not None:
            weights, shift = weights + np.outer(stats.constant, shift), np.zeros(q)
    else:
        stats = pair_stats(moments, i, j)
        weights, shift = rung.fit(stats.padded() if rung.padded else stats)
    return np.ascontiguousarray(weights[:p, :q]), shift[:q]


def load_map(path: str | os.PathLike[str]) -> AlignmentMap:
    """Read a map that `AlignmentMap.save` wrote.

    Parameters
    ----------
    path : path
        A ``.safetensors`` file.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get("identikit", "{}"))
            names = set(file.keys())
            arrays = {name: file.get_tensor(name) for name in names & {"weights", "shift"}}
    except (SafetensorError, json.JSONDecodeError, OSError) as error:
        raise InputError(f"{path} is not a readable safetensors file: {error}") from error
    form = header.get("format") if isinstance(header, dict) else None
    if form != FORMAT or len(arrays) != 2:
        raise InputError(
            f"{path} is not a map written by this version of identikit (its header says {form!r}, "
            f"expected {FORMAT!r})"
        )
    weights, shift = arrays["weights"], arrays["shift"]
    try:
        group, held_out = header["group"], header["error"]
        source, target = header["source"]["name"], header["target"]["name"]
        whole = group in GROUPS and weights.ndim == 2 and shift.shape == weights.shape[1:]
    except (KeyError, TypeError):
        whole = False
    if not whole:
        raise InputError(f"{path} is damaged: its arrays do not fit its header")
    return _made(group, weights, shift, source, target, held_out)


def _made(
    group: str, weights: Array, shift: Array, source: str, target: str, error: float | None
) -> AlignmentMap:
    made = AlignmentMap(group)
    made.weights_, made.shift_, made.error = weights, shift, error
    made.source_, made.target_, made.n_features_in_ = source, target, weights.shape[0]
    return made


def align(
    X: object,
    Y: object,
    group: str = "affine",
    *,
    folds: int = 5,
    groups: ArrayLike | None = None,
    **options: Any,
) -> AlignmentMap:
    """Fit the best map of a group from X's space to Y's, with its held-out error.

    Parameters
    ----------
    X, Y : array or path
        Two views of the same rows.
    group : str
        A rung of the ladder.
    folds : int
        Folds for the held-out error.
    groups : array (rows,), optional
        Labels of dependent rows, which share a fold.
    **options
        As of `accumulate`: names, drop_nonfinite, memory, progress.

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
    moments = accumulate([X, Y], folds=folds, groups=groups, sample=0, **options)
    return AlignmentMap(group, folds).fit_moments(moments)
