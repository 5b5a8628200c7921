"""Check new vectors against a pin: has anything changed, up to what, and why?"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit._progress import Progress
from identikit._version import __version__
from identikit.alignment import RUNGS
from identikit.errors import InputError
from identikit.moments import Moments
from identikit.retrieval import _causes_maps  # noqa: F401 - it adds its causes to the list
from identikit.retrieval._causes import SMALL, diagnose
from identikit.retrieval._causes_plain import changed_rows
from identikit.retrieval._evidence import FOUND, Evidence, look_elsewhere
from identikit.retrieval._foreign_rows import compared_share, foreign_rows
from identikit.retrieval._gate import Gate, foreign_failures
from identikit.retrieval._moved_rows import pair_rows
from identikit.retrieval._pin import Pin, PinnedView, load_pin
from identikit.retrieval._pinned_views import (
    Ids,
    check_ids,
    finite,
    layers_of,
    moments_of,
    opened_view,
    rows_at,
    with_ids,
)
from identikit.retrieval._quick_ladder import chosen, quick_ladder, required
from identikit.retrieval.check_result import CheckResult, LayerCheck, MomentsChange
from identikit.sources import Source, read_labels, view_and_tags

#: The share of the pinned model's own rows that may be taken for foreign, if none is given.
FALSE_ALARMS = 0.01

#: With foreign rows, a row has changed if it is this far from the pinned one and others are not.
SLIGHT = 0.01


def check(
    view: object,
    reference: object,
    *,
    ids: object = None,
    require: str = "identity",
    fail_above: float = 0.1,
    strict: bool = False,
    rows: bool = False,
    false_alarms: float | None = None,
    slices: object = None,
    progress: Progress | None = None,
) -> CheckResult:
    """Compare new vectors with pinned ones: have they changed, up to what, and why?

    The pinned rows are found again in the new view, by id or by their number, and compared one by
    one. It passes if the error of the required rung of the ladder,
    √(E‖y − h(x)‖² / E‖y − E y‖²), is at most `fail_above`, and if not just some of the rows have
    changed. What cannot be compared raises an error: a check never passes silently.

    Parameters
    ----------
    view : array, path or mapping
        The new vectors, as `pin` takes them.
    reference : Pin or path
        What to compare them with.
    ids : str, path object or sequence, optional
        As for `pin`.
    require : str
        The rung up to which they must be the same: "identity" by default, coordinate by
        coordinate; "rigid" lets a rotation pass.
    fail_above : float
        The largest error that passes.
    strict : bool
        Judge the upper end of the interval instead of the error.
    rows : bool
        Also look for rows that come from another model, among all rows. It then fails if there are
        more of them than false alarms explain. This needs no pairs: rows are compared one by one
        only if ids, or as many rows as were pinned, tell which is which.
    false_alarms : float, optional
        With `rows`: the share of the pinned model's own rows that may be taken for foreign, by
        default 0.01.
    slices : str, path object or sequence, optional
        With `rows`: a column of the view, a file, or one label per row. The share of foreign rows
        is then also given for each slice.
    progress : callable, optional
        Called with (the name of the step, steps done, steps in all).

    Examples
    --------
    >>> import numpy as np
    >>> from identikit import check, pin
    >>> X = np.random.default_rng(0).normal(size=(500, 8))
    >>> reference = pin(X)
    >>> check(X.astype(np.float16), reference).cause.name
    'rounding'
    >>> bool(check(X[:, ::-1], reference))
    False
    """
    if require not in RUNGS:
        raise InputError(f"require is {require!r}; expected one of {', '.join(RUNGS)}")
    if not fail_above >= 0:
        raise InputError(f"fail_above is {fail_above}; expected an error, 0 or larger")
    if slices is not None and not rows:
        raise InputError("slices are for the rows of another model; ask for these too (--rows)")
    if false_alarms is not None and not rows:
        raise InputError(
            "a false-alarm rate is for the rows of another model; ask for these too (--rows)"
        )
    pinned = reference if isinstance(reference, Pin) else _loaded(reference)
    views = _matched(layers_of(view), pinned)
    if rows and len(views) > 1:
        raise InputError("foreign rows are looked for in one view, and these are several layers")
    gate = Gate(require, fail_above, strict)
    layers, failures, foreign = [], list[str](), None
    for (name, each), layer in zip(views, pinned.layers, strict=True):
        each, tags = _sliced(each, slices)
        each, texts = with_ids(each, ids, f"layer {name!r}" if name else "the view")
        with opened_view(each, name) as source:
            check_ids(texts, source)
            _check_width(source, layer)
            moments = moments_of(each, source.name, progress)
            found, unlike = _compare(source, texts, layer, moments, gate, may_fail=not rows)
            if rows:
                _check_slices(tags, source)
                foreign = foreign_rows(
                    layer,
                    source,
                    false_alarms=FALSE_ALARMS if false_alarms is None else false_alarms,
                    ids=texts,
                    slices=tags,
                    compared=compared_share(unlike),
                    progress=progress,
                )
        layers.append(found)
        failures += gate.failures(found, several=len(views) > 1)
    failures += foreign_failures(foreign)
    return CheckResult(
        __version__,
        layers[0].name if len(layers) == 1 else _label(view, "the new layers"),
        _label(reference, "the pin"),
        require,
        fail_above,
        strict,
        tuple(layers),
        tuple(failures),
        pinned.fingerprints,
        foreign,
    )


def _loaded(reference: object) -> Pin:
    if not isinstance(reference, str | os.PathLike):
        raise InputError(
            f"the reference is a {type(reference).__name__}; expected a pin, or the path of one"
        )
    return load_pin(reference)


def _label(given: object, otherwise: str) -> str:
    return Path(given).name if isinstance(given, str | os.PathLike) else otherwise


def _matched(views: dict[str, object], pinned: Pin) -> list[tuple[str, object]]:
    """The new view of every pinned layer; a single view has any name."""
    if len(views) == len(pinned.layers) == 1:
        return list(views.items())
    if len(pinned.layers) == 1 or list(views) == [""]:
        raise InputError(
            f"the pin has {len(pinned.layers)} layer(s) and the new side {len(views)}; give the "
            "same kind of view that was pinned, a file or a folder of layers"
        )
    lacking = [layer.name for layer in pinned.layers if layer.name not in views]
    if lacking:
        raise InputError(
            f"{len(lacking)} of the pinned layers are not there, {lacking[0]!r} among them; there "
            f"are {', '.join(list(views)[:20])}"
        )
    return [(layer.name, views[layer.name]) for layer in pinned.layers]


def _sliced(view: object, slices: object) -> tuple[object, NDArray[np.object_] | None]:
    if slices is None:
        return view, None
    if isinstance(slices, os.PathLike) or (isinstance(slices, str) and "::" in slices):
        slices = read_labels(slices, "slices")
    rest, found = view_and_tags(view, {"slice": slices})
    return rest, found["slice"]


def _check_slices(tags: NDArray[np.object_] | None, source: Source) -> None:
    if tags is not None and len(tags) != source.rows:
        raise InputError(
            f"there are {len(tags)} slice labels for {source.rows} rows; expected one per row"
        )


def _check_width(source: Source, layer: PinnedView) -> None:
    if source.width != layer.width:
        raise InputError(
            f"{source.name!r} has {source.width} columns, and {layer.width} were pinned: another "
            "model, or vectors that were cut; a pin can be compared only with the same width"
        )


def _compare(
    source: Source,
    texts: Ids | None,
    layer: PinnedView,
    moments: Moments,
    gate: Gate,
    *,
    may_fail: bool,
) -> tuple[LayerCheck, NDArray[np.bool_] | None]:
    """Compare one layer; without rows in the pin, by the moments of all rows alone.

    Also says which of the compared rows have changed, however little, if there are any.
    """
    change = _moments_change(layer.moments, moments)
    base = (source.name, source.rows, layer.rows)
    if layer.sample is None:
        if gate.require != "identity" or gate.strict:
            raise InputError(
                "the pin was made without rows, and moments alone tell neither rungs nor "
                "intervals; leave out --require and --strict, or pin with rows"
            )
        notes = ("no rows were pinned: only mean and covariance of all rows are compared",)
        how = "no rows were compared"
        return LayerCheck(*base, 0, how, None, change.error, None, (), (), (), change, notes), None
    try:
        if not may_fail and texts is None and source.rows != layer.rows:
            raise InputError(
                f"rows were not compared one by one, as there are no ids and {source.rows} rows, "
                f"not the {layer.rows} that were pinned"
            )
        pairs = pair_rows(source, texts, layer)
    except InputError as error:
        # Foreign rows are found without pairs, in an index of other things than were pinned.
        if may_fail:
            raise
        return LayerCheck(*base, 0, str(error), None, 0.0, None, (), (), (), change), None
    a = layer.values()[pairs.there]
    b = finite(rows_at(source, pairs.places), f"{source.name!r}")
    _check_varies(a, "the pinned rows")
    _check_varies(b, f"the rows of {source.name!r}")
    ladder = quick_ladder(a, b, gate.require)
    judged = required(ladder, gate.require)
    first = Evidence(a, b)
    moved = None
    if first.error > 3 * FOUND:
        moved = look_elsewhere(source, a, pairs.places, first.distances, first.spreads[0])
    errors = {rung.group: rung.error for rung in ladder}
    evidence = Evidence(a, b, errors, moved, texts is not None)
    changed = changed_rows(evidence)
    names: tuple[str, ...] = ()
    if changed is not None:
        known = pairs.places[changed] if texts is None else texts[pairs.places[changed]]
        names = tuple(map(str, known))
    unlike = changed_rows(evidence, SLIGHT)
    found = LayerCheck(
        *base,
        len(a),
        pairs.how,
        chosen(ladder),
        judged.error,
        judged.interval,
        ladder,
        diagnose(evidence),
        names,
        change,
        tuple(_notes(source, layer, change, first.error)),
    )
    return found, evidence.distances > SMALL if unlike is None else unlike


def _check_varies(rows: Array, what: str) -> None:
    if not np.ptp(rows, axis=0).any():
        raise InputError(f"{what} are all the same, so there is nothing to compare")


def _moments_change(before: Moments, now: Moments) -> MomentsChange:
    if any(before.units) or any(now.units):
        raise InputError("these numbers are too large or too small to be compared; rescale them")
    covariances = [each.block(0, 0) / each.rows for each in (before, now)]
    sizes = [max(float(np.sqrt(np.trace(each))), 1e-150) for each in covariances]
    gap = float(np.linalg.norm(now.centre(0) - before.centre(0)))
    apart = np.linalg.norm(covariances[1] - covariances[0])
    return MomentsChange(
        gap / sizes[0],
        sizes[1] / sizes[0],
        float(apart / max(float(np.linalg.norm(covariances[0])), 1e-300)),
        float(np.sqrt(1 / before.rows + 1 / now.rows)),
    )


def _notes(source: Source, layer: PinnedView, change: MomentsChange, error: float) -> list[str]:
    if source.rows == layer.rows or change.mean <= 3 * change.chance + error:
        return []
    return [
        f"there are {source.rows:,} rows and {layer.rows:,} were pinned, and their mean differs by "
        f"{change.mean:.2g} of the spread, more than chance gives ({change.chance:.2g}): other "
        "contents, or another model for some of the rows (--rows looks for these)"
    ]
