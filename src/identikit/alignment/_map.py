"""Fitted maps between two spaces: transform, inverse, compose, save, load."""

from __future__ import annotations

import json
import os
from dataclasses import replace
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
from identikit.alignment._ladder import HeldOut, applicable, ladder
from identikit.alignment._ridge import choose_strength
from identikit.alignment._ridge import ridge as fit_ridge
from identikit.alignment._stats import pair_stats, whitened_stats
from identikit.errors import InputError
from identikit.inference import jackknife_interval
from identikit.moments import Moments, accumulate

FORMAT = "identikit-map-1"

#: Below this error there is nothing to correct.
EXACT = 1e-4


class AlignmentMap(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The best map of a group from one view's space to another's: ``y ≈ x @ weights_ + shift_``.

    A scikit-learn transformer: ``fit(X, Y)``, ``transform(X)``, ``inverse_transform(Y)``.

    Parameters
    ----------
    group : str
        A rung of the ladder: identity, permutation, monomial, rigid, similarity, linear, affine.
    folds : int
        Folds for the held-out error.
    ridge : "auto", None or float
        Of a linear or affine map: the strength of its ridge, as a share of the source's mean
        eigenvalue, chosen by itself (0 as long as rows are many), none, or a value.

    Attributes
    ----------
    weights_ : array (p, q)
    shift_ : array (q,)
    error : float or None
        Error of *this map* on new rows, in its direction: 0 the same, 1 no better than the mean;
        over the target's own columns. It was fitted on all rows, so it is estimated from maps that
        were fitted on parts of them (`own_error`). None for a composed map, whose error nobody has
        measured.
    interval : tuple of float or None
        Of that error, 95 %.
    held_out : float or None
        Error of maps fitted on all folds but one, as an audit's ladder has it: what a map fitted
        on so many rows can be expected to have.
    strength_ : float or None
        Of the ridge.
    source_, target_ : str
        Names of the two spaces.
    """

    def __init__(
        self, group: str = "affine", folds: int = 5, ridge: float | str | None = "auto"
    ) -> None:
        self.group = group
        self.folds = folds
        self.ridge = ridge

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
        strength = _checked_ridge(self.ridge, rungs[0])
        held_out = _held_out(rungs[0], moments, i, j, strength)
        chosen = strength or 0.0
        if chosen < 0:
            own_rows = pair_stats(moments, i, j)
            chosen = choose_strength(own_rows, shift=rungs[0].shift) if rungs[0].whitened else 0.0
        self.strength_: float | None = chosen
        self.weights_, self.shift_ = _in_own_units(
            rungs[0], moments, i, j, *best_map(rungs[0], moments, i, j, chosen)
        )
        own = own_error(rungs[0], moments, i, j, chosen and strength, held_out)
        self.held_out: float | None = held_out.error
        self.error: float | None = own.error
        self.interval: tuple[float, float] | None = jackknife_interval(
            own.error, own.leave_one_out(), floor=0.0
        )
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
        return _made(group, weights, shift, self.source_, then.target_)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Write the map as a safetensors file with a JSON header, atomically."""
        from safetensors.numpy import save

        self._fitted()
        header = {
            "format": FORMAT,
            "identikit": __version__,
            "group": self.group,
            "error": self.error,
            "interval": None if self.interval is None else list(self.interval),
            "held_out": self.held_out,
            "ridge": self.strength_,
            "source": {"name": self.source_, "width": self.weights_.shape[0]},
            "target": {"name": self.target_, "width": self.weights_.shape[1]},
        }
        arrays = {"weights": self.weights_, "shift": self.shift_}
        data = save(arrays, metadata={"identikit": json.dumps(header)})
        with _files.replacing(path, overwrite=overwrite) as temporary:
            temporary.write_bytes(data)


def best_map(
    rung: Group,
    moments: Moments,
    i: int = 0,
    j: int = 1,
    ridge: float | None = None,
    without: int | None = None,
) -> tuple[Array, Array]:
    """The map y ≈ x W + b of a group that fits best, in the views' own coordinates.

    Both views are in the units of the moments.

    Parameters
    ----------
    rung : Group
        One that has maps between views of these widths.
    moments : Moments
    i, j : int
        The source and the target.
    ridge : float, optional
        The strength of a ridge, chosen by itself if it is negative; see `AlignmentMap`.
    without : int, optional
        A fold to leave out.
    """
    own = pair_stats(moments, i, j, without=without)
    if not rung.whitened:
        return rung.fit(own)
    strength = ridge or 0.0
    if strength < 0:
        strength = choose_strength(own, shift=rung.shift)
    if strength:
        return fit_ridge(own, strength, shift=rung.shift)
    stats, _ = whitened_stats(moments, i, j, without)
    weights, shift = rung.fit(stats)
    assert stats.white is not None
    weights = stats.white @ weights
    if not rung.shift and stats.constant is not None:
        weights, shift = weights + np.outer(stats.constant, shift), np.zeros_like(shift)
    return np.ascontiguousarray(weights), shift


def _in_own_units(
    rung: Group, moments: Moments, i: int, j: int, weights: Array, shift: Array
) -> tuple[Array, Array]:
    """A map between the views themselves, from one in the units of the moments."""
    source, target = moments.units[i], moments.units[j]
    if source != target and rung.name in ("identity", "permutation", "rigid"):
        raise InputError(
            f"views {moments.names[i]!r} and {moments.names[j]!r} differ in size by more than "
            f"1e100, and a map of the group {rung.name!r} keeps the scale; rescale one of them, or "
            "ask for another group"
        )
    with np.errstate(over="ignore"):
        weights, shift = np.ldexp(weights, target - source), np.ldexp(shift, target)
    if not (np.isfinite(weights).all() and np.isfinite(shift).all()):
        raise InputError(
            f"the map from {moments.names[i]!r} to {moments.names[j]!r} has numbers too large for "
            "float64; rescale one of the views"
        )
    return weights, shift


def own_error(
    rung: Group, moments: Moments, i: int, j: int, ridge: float | None, held_out: HeldOut
) -> HeldOut:
    """Error on new rows of the map that is fitted on all rows, fold by fold.

    Maps fitted without a fold had fewer rows. Least squares of rank r on n rows misses
    σ² (1 + r/(n − r − 1)) of new ones, so the held-out error is scaled from the rows that the maps
    had to all of them. For other maps Burman (1989) corrects it: added is what the map of all rows
    misses of all rows, less what the maps of parts miss of all rows on average.

    Parameters
    ----------
    rung, moments, i, j, ridge
        As of `best_map`.
    held_out : HeldOut
        Of maps fitted without a fold.
    """
    folds = [fold for fold, part in enumerate(moments.parts) if part.count]
    if held_out.error < EXACT:
        return held_out
    if rung.whitened and not ridge:
        rank = moments.whiten(i).rank + rung.shift
        fewest = min(moments.n(without=fold) for fold in folds)
        if fewest <= rank + 2:
            return held_out
        most = 1 + rank / (moments.rows - rank - 1)
        factors = [1 + rank / (moments.n(without=fold) - rank - 1) for fold in folds]
        return replace(held_out, residual=held_out.residual * most / np.array(factors))
    tests = [pair_stats(moments, i, j, only=fold) for fold in folds]
    weights, shift = best_map(rung, moments, i, j, ridge)
    gain = np.array([test.squared_error(weights, shift) for test in tests])
    for fold, left_out in zip(folds, tests):
        weights, shift = best_map(rung, moments, i, j, ridge, fold)
        share = left_out.n / moments.rows
        gain -= share * np.array([test.squared_error(weights, shift) for test in tests])
    return replace(held_out, residual=np.maximum(held_out.residual + gain, 0.0))


def _held_out(rung: Group, moments: Moments, i: int, j: int, strength: float | None) -> HeldOut:
    """Errors of maps fitted without a fold."""
    auto, _ = ladder(moments, i, j, (rung.name,))[rung.name]
    if strength is None or not rung.whitened:
        return replace(auto, residual=auto.residual if auto.unridged is None else auto.unridged)
    if strength < 0:
        return auto
    folds = [fold for fold, part in enumerate(moments.parts) if part.count]
    residual = [
        pair_stats(moments, i, j, only=fold).squared_error(
            *best_map(rung, moments, i, j, strength, fold)
        )
        for fold in folds
    ]
    return replace(auto, residual=np.array(residual))


def _checked_ridge(ridge: object, rung: Group) -> float | None:
    """The strength: None for no ridge, −1 for one chosen by itself."""
    if ridge is None:
        return None
    if ridge == "auto":
        return -1.0
    if (
        isinstance(ridge, bool | str)
        or not isinstance(ridge, float | int)
        or not 0 <= ridge < np.inf
    ):
        raise InputError(f'ridge is {ridge!r}; give "auto", None, or a number that is not negative')
    if not rung.whitened and ridge:
        raise InputError(
            f"ridge is {ridge}, but a map of the group {rung.name!r} has none: only linear and "
            "affine maps have"
        )
    return float(ridge)


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
        group, missed = header["group"], header["error"]
        source, target = header["source"]["name"], header["target"]["name"]
        ends, held_out, strength = (header.get(key) for key in ("interval", "held_out", "ridge"))
        interval = None if ends is None else (float(ends[0]), float(ends[1]))
        whole = group in GROUPS and weights.ndim == 2 and shift.shape == weights.shape[1:]
    except (KeyError, TypeError, ValueError, IndexError):
        whole = False
    if not whole:
        raise InputError(f"{path} is damaged: its arrays do not fit its header")
    made = _made(group, weights, shift, source, target)
    made.error, made.interval, made.held_out, made.strength_ = missed, interval, held_out, strength
    return made


def _made(group: str, weights: Array, shift: Array, source: str, target: str) -> AlignmentMap:
    """A map whose error nobody has measured."""
    made = AlignmentMap(group)
    made.weights_, made.shift_ = weights, shift
    made.error = made.interval = made.held_out = made.strength_ = None
    made.source_, made.target_, made.n_features_in_ = source, target, weights.shape[0]
    return made


def align(
    X: object,
    Y: object,
    group: str = "affine",
    *,
    folds: int = 5,
    groups: ArrayLike | None = None,
    ridge: float | str | None = "auto",
    **options: Any,
) -> AlignmentMap:
    """Fit the best map of a group from X's space to Y's, with its error on new rows.

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
    ridge : "auto", None or float
        Of a linear or affine map; see `AlignmentMap`.
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
    return AlignmentMap(group, folds, ridge).fit_moments(moments)
