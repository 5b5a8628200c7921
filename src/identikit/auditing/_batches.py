"""Batches of one table: do they differ only by a map, or by more than that?

The rows of two batches are not paired, but some units are in both: control compounds, guides, wells
of one layout. Rows are averaged by unit and batch, and the rungs of the ladder are measured on the
controls that two batches share, held out. A map fitted on all of these controls is then tested on
the other units that both batches have.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identikit._linalg import Array
from identikit._progress import Progress
from identikit.alignment import RUNGS, axis_free
from identikit.auditing._audit import assemble, audit
from identikit.auditing._units import Batch, as_truth, read_batches
from identikit.auditing.batches_result import BatchAudit, Remains, Skipped
from identikit.auditing.result import Audit, Interval, Pair, View
from identikit.errors import InputError
from identikit.inference import jackknife_interval
from identikit.moments import FOLDS, LEAST_GROUPS
from identikit.sources import open_source, read_labels, view_and_tags

#: The most batches that are compared with each other.
MOST_BATCHES = 12


def audit_batches(
    view: object,
    by: str | ArrayLike,
    anchors: str | ArrayLike,
    *,
    ids: str | ArrayLike | None = None,
    groups: ArrayLike | None = None,
    batches: Sequence[str] | None = None,
    folds: int = FOLDS,
    tolerance: float = 0.1,
    seed: int = 0,
    drop_nonfinite: bool = False,
    progress: Progress | None = None,
) -> BatchAudit:
    """Compare every pair of batches of a table, and say what a map leaves of their difference.

    Parameters
    ----------
    view : path, data frame, array or AnnData
        All rows of all batches, in any form that `audit` takes.
    by : str or array (rows,)
        The batch of every row: the name of a column that comes with the view, or labels.
    anchors : str or array (rows,)
        The controls, on which maps are fitted. A column of true and false marks the rows that are
        controls, and `ids` then names the unit of each; any other column names the unit of every
        control, and is empty for other rows.
    ids : str or array (rows,), optional
        The unit of every row, such as a compound, guide or well; several columns are separated by
        commas.
    groups : array (rows,), optional
        One label per row; units with the same label, such as guides of one gene, share a fold.
    batches : sequence of str, optional
        The batches to compare; all by default.
    folds, tolerance, seed, drop_nonfinite, progress
        As for `audit`.

    Returns
    -------
    BatchAudit

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> units = rng.normal(size=(60, 3))
    >>> turned = units @ [[0.6, 0.8, 0.0], [-0.8, 0.6, 0.0], [0.0, 0.0, 1.0]]
    >>> names = [f"unit {k}" for k in range(60)]
    >>> found = audit_batches(
    ...     np.concatenate([units, turned]),
    ...     by=["monday"] * 60 + ["tuesday"] * 60,
    ...     anchors=([True] * 40 + [False] * 20) * 2,
    ...     ids=names * 2,
    ... )
    >>> found.verdict.group, found.remains[0].others
    ('rigid', 20)
    """
    given = {"by": by, "anchors": anchors} | ({} if ids is None else {"ids": ids})
    rows_of, tags = view_and_tags(view, given)
    with closing(open_source(rows_of)) as source:
        for what, labels in tags.items():
            if labels.shape != (source.rows,):
                raise InputError(
                    f"{what} has shape {labels.shape}, but the view has {source.rows} rows; give "
                    "one value per row"
                )
        unit, anchored = _units(tags, anchors)
        names = _names(tags["by"], batches)
        found = read_batches(source, tags["by"], unit, names, drop_nonfinite=drop_nonfinite)
    controls = np.unique(unit[anchored & (unit != "")].astype(str))
    labels_of = None if groups is None else _labels_of_units(unit, read_labels(groups))
    title = by if isinstance(by, str) else "batch"
    options: dict[str, Any] = {"folds": folds, "tolerance": tolerance, "seed": seed}
    made, remains, skipped = [], [], []
    every = list(combinations(range(len(found)), 2))
    for done, (i, j) in enumerate(every):
        if progress is not None:
            progress("comparing", done, len(every))
        a, b = found[i], found[j]
        both = np.intersect1d(a.units.astype(str), b.units.astype(str))
        shared, others = np.intersect1d(both, controls), np.setdiff1d(both, controls)
        if len(shared) < 2 * folds:
            skipped.append(Skipped(a.name, b.name, len(shared)))
            continue
        own = None if labels_of is None else np.array([labels_of[name] for name in shared])
        one = _audited(a, b, shared, groups=own, **options)
        made.append(((i, j), one))
        kin = others if labels_of is None else np.array([labels_of[name] for name in others])
        remains.append(_remains(a, b, shared, others, kin, one.comparisons[0]))
    if not made:
        raise InputError(_too_few(skipped, 2 * folds))
    return BatchAudit(_together(made), title, tuple(remains), tuple(skipped))


def _units(
    tags: dict[str, NDArray[np.object_]], anchors: object
) -> tuple[NDArray[np.object_], NDArray[np.bool_]]:
    """The unit of every row, and which rows are controls."""
    truth = as_truth(tags["anchors"])
    if truth is None:
        return tags.get("ids", tags["anchors"]), tags["anchors"] != ""
    if "ids" not in tags:
        what = repr(anchors) if isinstance(anchors, str) else "anchors"
        raise InputError(
            f"{what} says which rows are controls, but not which controls of two batches are the "
            "same unit; name the column of the unit (compound, guide, well) with ids (--id)"
        )
    if not truth.any():
        raise InputError("no row is a control: the column of anchors is true in no row")
    return tags["ids"], truth


def _names(tags: NDArray[np.object_], wanted: Sequence[str] | None) -> list[str]:
    there = sorted({str(tag) for tag in tags} - {""})
    absent = [name for name in wanted or () if name not in there]
    if absent:
        raise InputError(
            f"there is no batch {absent[0]!r}; the batches are {', '.join(map(repr, there[:20]))}"
        )
    names = list(dict.fromkeys(wanted)) if wanted else there
    if len(names) < 2:
        raise InputError(f"there are {len(names)} batches; expected two or more to compare")
    if len(names) > MOST_BATCHES:
        raise InputError(
            f"there are {len(names)} batches, but at most {MOST_BATCHES} can be compared with each "
            f"other; choose some (--batches {','.join(there[:2])}), or a coarser column"
        )
    return names


def _labels_of_units(unit: NDArray[np.object_], labels: NDArray[Any]) -> dict[str, Any]:
    if labels.shape != unit.shape:
        raise InputError(
            f"groups has shape {labels.shape}, but the view has {len(unit)} rows; give one label "
            "per row"
        )
    found: dict[str, Any] = {}
    for row, (name, label) in enumerate(zip(unit.tolist(), labels.tolist())):
        if found.setdefault(str(name), label) != label and name:
            raise InputError(
                f"unit {name!r} is in the groups {found[str(name)]!r} and {label!r} (row {row}, "
                "counting from 0); give all rows of a unit the same label"
            )
    return found


def _audited(a: Batch, b: Batch, shared: NDArray[Any], **options: Any) -> Audit:
    with warnings.catch_warnings():
        # There are usually few units; that does not suggest a transposed view.
        warnings.filterwarnings("ignore", "there are fewer rows")
        views = [batch.means[batch.places(shared)] for batch in (a, b)]
        return audit(views, names=[a.name, b.name], **options)


def _remains(
    a: Batch,
    b: Batch,
    shared: NDArray[Any],
    others: NDArray[Any],
    kin: NDArray[Any],
    pair: Pair,
) -> Remains:
    """The error on other units of a map fitted on the shared controls.

    `kin` are labels of the other units; units with the same label count as one in the interval.
    """
    from identikit.alignment import align  # which loads scikit-learn

    group = pair.group
    if group not in RUNGS:
        group = min(pair.ladder, key=lambda rung: rung.error).group
    rung = next(rung for rung in pair.ladder if rung.group == group)
    tried = others if len(np.unique(kin)) >= LEAST_GROUPS else shared
    before, others_before, noises, sides = [], [], [], []
    for x, y in ((a, b), (b, a)):
        source, target = x.means[x.places(shared)], y.means[y.places(shared)]
        fitted, centre = align(source, target, group=group), target.mean(axis=0)
        before.append(_error(_missed(source, target), _missed(centre, target)))
        source, target = x.means[x.places(tried)], y.means[y.places(tried)]
        total = _missed(centre, target)
        others_before.append(_error(_missed(source, target), total))
        sides.append((_missed(fitted.transform(source), target), total))
        parts = [batch.noise(tried) for batch in (a, b)]
        noises += [float(np.sqrt(sum(filter(None, parts)) / total.sum()))] * (None not in parts)
    error, interval = None, None
    if tried is others:
        worse = max(sides, key=lambda side: _error(*side))
        error, interval = _error(*worse), _interval(*worse, kin)
    return Remains(
        a.name,
        b.name,
        len(shared),
        len(others),
        pair.group,
        group,
        max(before),
        rung.error,
        rung.interval,
        None if error is None else max(others_before),
        error,
        interval,
        max(noises, default=None),
        # Maps that mix columns need more controls than there are columns.
        few=group in axis_free() and len(shared) <= a.means.shape[1] + 1,
    )


def _missed(guess: Array, target: Array) -> Array:
    """The squared error of every unit."""
    return np.asarray(np.square(guess - target).sum(axis=1))


def _error(missed: Array, total: Array) -> float:
    return float(np.sqrt(missed.sum() / total.sum()))


def _interval(missed: Array, total: Array, kin: NDArray[Any]) -> Interval:
    """Interval of the error of a given map, by the jackknife over units in up to twenty parts."""
    part = np.unique(kin, return_inverse=True)[1] % 20
    rest = [_error(missed[part != k], total[part != k]) for k in range(int(part.max()) + 1)]
    return jackknife_interval(_error(missed, total), np.array(rest), floor=0.0)


def _together(made: list[tuple[tuple[int, int], Audit]]) -> Audit:
    """One audit of all pairs of batches."""
    pairs = {numbers: one.comparisons[0] for numbers, one in made}
    views: dict[int, View] = {}
    for numbers, one in made:
        views = dict(zip(numbers, one.views)) | views
    pairing = "units that two batches share, each the mean of its rows in a batch"
    settings = replace(made[0][1].settings, dropped=0, pairing=pairing)
    return assemble(min(one.rows for _, one in made), views, pairs, settings)


def _too_few(skipped: list[Skipped], needed: int) -> str:
    most = max(skipped, key=lambda each: each.controls)
    return (
        f"no two batches share {needed} controls, which is the fewest that maps can be fitted and "
        f"tested on: {most.a!r} and {most.b!r} share the most, {most.controls}; name units that "
        "more batches have (--anchors, --id)"
    )
