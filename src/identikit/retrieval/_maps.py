"""Fit a map between two embedding models, of the kind that searches best on rows held out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.retrieval._kinds import FITS, Fit, Rows
from identikit.retrieval._looks import cloud
from identikit.retrieval._space_map import METRICS, SIDES, SpaceMap, load_space_map, normal

__all__ = ["FOLDS", "NEAREST", "SpaceMap", "fit_space_map", "load_space_map"]

#: A fifth of the rows is left out at a time, until so many rows have been left out in all; once,
#: if there is one kind and nothing to choose.
FOLDS, JUDGED = 5, 600

#: The nearest rows that two searches are compared by, among at most so many rows.
NEAREST, INDEX = 10, 2000

#: The fewest rows that a map is fitted on.
FEWEST = 20

Model = str | Mapping[str, str]


def fit_space_map(
    source: ArrayLike,
    target: ArrayLike,
    *,
    kinds: Sequence[str] = ("rigid", "affine"),
    metric: str = "cosine",
    side: str = "queries",
    seed: int = 0,
    queries: ArrayLike | None = None,
    source_model: Model = "the source model",
    target_model: Model = "the target model",
) -> SpaceMap:
    """Fit maps of several kinds on paired rows, and return the one that searches best.

    Every kind is fitted on four fifths of the rows, and searched with on the fifth left out: its
    rows stand in for queries that are mapped and search the target's rows ("queries"), or they are
    the index that is mapped and that the target's rows search ("documents"). The *overlap* is the
    share of the ten nearest rows that this search has in common with the one that needs no map. A
    kind replaces a simpler one only if its overlap is larger by more than the 95 % interval of the
    difference over the same searches. The error would choose otherwise and worse: least squares
    always has the smaller error, and a rotation keeps more of the order.

    Parameters
    ----------
    source, target : array (n, p) and array (n, q)
        The same documents in the two models.
    kinds : sequence of str
        Some of "rigid" (a rotation about the means, with a scale), "affine" (a ridge regression),
        "low_rank" (the same through fewer axes) and "network" (affine, and a small residual
        network; needs the extra torch).
    metric : str
        What the search compares rows by: cosine, dot or l2.
    side : str
        "queries" for a map of the source's queries into the target's index, "documents" for a map
        of the source's index into the target's space.
    seed : int
        Which rows are left out, and where a network starts.
    queries : array (m, p), optional
        Some queries in the source model. The map remembers what they look like, not them, so that
        it can tell queries that lack a prefix.
    source_model, target_model : str or mapping of str
        The model's name, or several facts with the key "model" among them; they are kept in the
        file.

    Returns
    -------
    SpaceMap

    Examples
    --------
    >>> import numpy as np
    >>> from identikit.retrieval import fit_space_map
    >>> rng = np.random.default_rng(0)
    >>> new = rng.normal(size=(300, 4))
    >>> old = new @ np.linalg.qr(rng.normal(size=(4, 4)))[0]
    >>> t = fit_space_map(new, old)
    >>> t.kind, round(t.overlap["rigid"], 3)
    ('rigid', 1.0)
    """
    tried = _checked(kinds, metric, side)
    x, y = (_rows(rows, metric, f"the {end}") for rows, end in zip((source, target), _ENDS))
    if len(x) != len(y) or len(x) < FEWEST:
        raise InputError(
            f"the source has {len(x)} rows and the target {len(y)}; a map needs the same documents "
            f"in both models, and at least {FEWEST} of them"
        )
    rows = Rows(x, y, metric, side, seed)
    overlaps, held_out = _judged(rows, tried)
    kind = _chosen(overlaps, tried)
    fit = FITS[kind](rows, rows.stats())
    asked = None if queries is None else _rows(queries, metric, "the queries")
    if asked is not None and asked.shape[1] != x.shape[1]:
        raise InputError(
            f"the queries have {asked.shape[1]} columns, but the source has {x.shape[1]}; give "
            "queries of the source model"
        )
    return SpaceMap(
        kind,
        fit.weights,
        fit.shift,
        cloud(x, _model(source_model)),
        cloud(y, _model(target_model)),
        fit.layers,
        metric,
        side,
        None if asked is None or len(asked) < FEWEST else cloud(asked, _model(source_model)),
        held_out,
        {name: float(each.mean()) for name, each in overlaps.items()},
    )


_ENDS = ("source", "target")


def _checked(kinds: Sequence[str], metric: str, side: str) -> list[str]:
    """The kinds from the simplest on; a word that is not known is an error."""
    if metric not in METRICS:
        raise InputError(f"the metric is {metric!r}; give one of {', '.join(METRICS)}")
    if side not in SIDES:
        raise InputError(f"the side is {side!r}; give one of {', '.join(SIDES)}")
    if isinstance(kinds, str) or not kinds or not set(kinds) <= set(FITS):
        raise InputError(f"kinds is {kinds!r}; give a list of some of {', '.join(FITS)}")
    return [kind for kind in FITS if kind in kinds]


def _rows(given: ArrayLike, metric: str, what: str) -> Array:
    rows = np.asarray(given, dtype=np.float64)
    if rows.ndim != 2 or not rows.shape[1]:
        raise InputError(f"{what} has the shape {rows.shape}; give rows of numbers")
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        raise InputError(
            f"{what} has NaN or infinity in {int(bad.sum())} rows, the first of them row "
            f"{int(bad.argmax())}; leave these rows out"
        )
    if metric == "cosine" and not rows.any(axis=1).all():
        empty = ~rows.any(axis=1)
        raise InputError(
            f"{what} has {int(empty.sum())} rows of zeros, the first of them row "
            f"{int(empty.argmax())}, which have no cosine; leave these rows out"
        )
    return normal(rows, metric)


def _model(given: Model) -> dict[str, str]:
    if isinstance(given, str):
        return {"model": given}
    return {str(key): str(value) for key, value in given.items()}


def _splits(rows: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Rows to fit on, and rows left out of the fit."""
    fold = np.random.default_rng(rows.seed).permutation(len(rows.x)) % FOLDS
    judged = 0
    for each in range(FOLDS):
        yield rows.only(fold != each), rows.only(fold == each)
        judged += int(np.count_nonzero(fold == each))
        if judged >= JUDGED:
            return


def _judged(rows: Rows, kinds: Sequence[str]) -> tuple[dict[str, Array], dict[str, float]]:
    """The overlap of every search, and the error, of every kind."""
    overlaps: dict[str, list[Array]] = {kind: [] for kind in kinds}
    errors = dict.fromkeys(kinds, 0.0)
    spread = 0.0
    splits = islice(_splits(rows), 1 if len(kinds) == 1 else FOLDS)
    for inside, outside in splits:
        stats = inside.stats()
        spread += float(np.square(outside.y - stats.y_mean).sum())
        right = _searched(inside, outside, None)
        for kind in kinds:
            fit = FITS[kind](inside, stats)
            gaps = fit(outside.x, rows.metric) - outside.y
            errors[kind] += float(np.vdot(gaps, gaps))
            found = _searched(inside, outside, fit)
            shared = (found[:, :, None] == right[:, None, :]).any(axis=2)
            overlaps[kind].append(shared.mean(axis=1))
    held_out = {kind: (error / spread) ** 0.5 if spread else 0.0 for kind, error in errors.items()}
    return {kind: np.concatenate(parts) for kind, parts in overlaps.items()}, held_out


def _searched(inside: Rows, outside: Rows, fit: Fit | None) -> NDArray[np.intp]:
    """The nearest rows through a map, or those of the search that needs none."""
    metric = inside.metric
    if inside.side == "queries":
        index, queries = (inside.x, outside.x) if fit is None else (inside.y, outside.x)
        queries = queries if fit is None else fit(queries, metric)
        return nearest(queries[:JUDGED], index[:INDEX], metric)
    index = outside.y if fit is None else fit(outside.x, metric)
    return nearest(inside.y[:JUDGED], index[:INDEX], metric)


def nearest(queries: Array, index: Array, metric: str) -> NDArray[np.intp]:
    """The nearest rows of the index, at most a quarter of them, in no order."""
    scores = queries @ index.T
    if metric == "l2":
        scores = 2 * scores - np.square(index).sum(axis=1)
    count = max(1, min(NEAREST, len(index) // 4))
    return np.argpartition(-scores, count - 1, axis=1)[:, :count]


def _chosen(overlaps: Mapping[str, Array], kinds: Sequence[str]) -> str:
    """The simplest kind that no other beats beyond the interval."""
    best = kinds[0]
    for kind in kinds[1:]:
        gain = overlaps[kind] - overlaps[best]
        if gain.mean() > 1.96 * gain.std(ddof=1) / len(gain) ** 0.5:
            best = kind
    return best
