"""Causes that can be seen number by number or row by row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.retrieval._causes import EXACT, SAME_COORDINATES, SMALL, Cause, cause, diagnose
from identikit.retrieval._evidence import OFF_GRID, Evidence

#: Unit round-off of the formats that vectors are commonly stored in (bfloat16 may be truncated).
FORMATS = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}

#: The share of the numbers that must be within a format's rounding.
ALMOST_ALL = 0.999

#: An error below this is rounding, whatever the format.
NEGLIGIBLE = 1e-4

#: Rows have changed and others not if sorted distances jump by this factor, to at least SMALL.
JUMP = 3.0

#: The least share of rows that have not changed, for others to be called an exception.
UNCHANGED = 0.05

#: Rows needed to name the cause in the rows that have changed.
ENOUGH = 20

#: The largest number of steps of a grid that is called one: int8 has 255.
STEPS = 256

#: The share of the change that may be left if only lengths have changed.
BESIDE_LENGTHS = 0.1


@cause("same")
def same(e: Evidence) -> Cause | None:
    """Nothing has changed."""
    if e.change.any():
        return None
    return Cause("same", 1.0, "every number is the same", "nothing")


@cause("rounding")
def rounding(e: Evidence) -> Cause | None:
    """All numbers are within the rounding of a format of each other."""
    gap, size = np.abs(e.change), np.maximum(np.abs(e.a), np.abs(e.b))
    if e.distances.max() > SMALL:
        return None
    for name, unit in FORMATS.items():
        # Numbers below the smallest normal float16 have a fixed spacing.
        least = 2.0**-25 if name == "float16" else 0.0
        if np.mean(gap <= unit * (1 + 1e-6) * size + least) >= ALMOST_ALL:
            return Cause(
                "rounding",
                1.0,
                f"all numbers agree up to rounding to {name}",
                f"whether vectors are computed, stored or sent as {name}; searches hardly notice",
            )
    if e.error < NEGLIGIBLE:
        return Cause(
            "rounding",
            0.9,
            f"the largest change of a row is {e.distances.max():.1g} of the spread, as rounding in "
            "other sums gives",
            "another machine, batch size or version of the numerical library; it is harmless",
        )
    return None


@cause("some rows")
def some_rows(e: Evidence) -> Cause | None:
    """Some rows have changed and the others have not, with nothing in between."""
    changed = changed_rows(e)
    if changed is None:
        return None
    count = int(changed.sum())
    says = f"{count} of {e.rows} rows have changed, and the others hardly at all"
    if count >= ENOUGH:
        inner = next((one for one in diagnose(e.of(changed)) if one.name != "some rows"), None)
        if inner is not None:
            says += f"; of those that have, the likeliest cause is {inner.name!r} ({inner.says})"
    return Cause(
        "some rows",
        0.98,
        says,
        "what these rows have in common (a batch, a shard, a date, a worker): they were computed "
        "in another way or from another text; check --rows looks for more of them",
    )


def changed_rows(e: Evidence, least: float = SMALL) -> NDArray[np.bool_] | None:
    """Which rows have changed, if others clearly have not; None if there are not two kinds.

    `least` is the smallest distance of a row that has changed.
    """
    order = np.sort(np.maximum(e.distances, 1e-3))
    jumps = order[1:] / order[:-1]
    at = int(jumps.argmax())
    if jumps[at] < JUMP or order[at + 1] < least or at + 1 < max(1, UNCHANGED * e.rows):
        return None
    found: NDArray[np.bool_] = e.distances > np.sqrt(order[at] * order[at + 1])
    return found


@cause("row shift")
def row_shift(e: Evidence) -> Cause | None:
    """Rows are found again a fixed number of places away."""
    moved = e.moved
    if moved is None or moved.found < max(2, moved.wanted / 2):
        return None
    if moved.same_offset < 0.8 * moved.found:
        return None
    return Cause(
        "row shift",
        0.99,
        f"{moved.found} of {moved.wanted} rows are {abs(moved.offset)} places "
        f"{'further down' if moved.offset > 0 else 'further up'} than they were",
        "a row that was added or lost before them, a header, an off-by-one in the export"
        + ("; ids have moved against their vectors" if e.by_id else ""),
    )


@cause("row permutation")
def row_permutation(e: Evidence) -> Cause | None:
    """Rows are found again at other places, but not a fixed number of places away."""
    moved = e.moved
    if moved is None or moved.found < max(2, moved.wanted / 2):
        return None
    if moved.same_offset >= 0.8 * moved.found:
        return None
    return Cause(
        "row permutation",
        0.99,
        f"{moved.found} of {moved.wanted} rows are elsewhere in the new file",
        "the order of the rows: a shuffled or sorted input, results that workers returned in "
        "another order" + ("; ids do not belong to their vectors" if e.by_id else ", or pin ids"),
    )


@cause("normalisation")
def normalisation(e: Evidence) -> Cause | None:
    """Every row has kept its direction but not its length, or a constant was added to all."""
    before, now = e.norms
    ratios = now[before > 0] / before[before > 0]
    if not len(ratios):
        return None
    if e.directions < EXACT and e.left_after_lengths < BESIDE_LENGTHS and _other_lengths(ratios):
        return Cause(
            "normalisation",
            0.93,
            _lengths(before, now, ratios),
            "whether vectors are normalised in the model, by the client or by the index: do it in "
            "one place",
        )
    if e.error > EXACT and e.shift_share > 1 - EXACT**2:
        about = "they are centred now" if _centred(e) else "a constant vector was added to all"
        return Cause(
            "normalisation",
            0.93,
            f"all rows were moved by the same vector: {about}",
            "a step that subtracts a mean before or after the model",
        )
    if e.error > SMALL and len(e.columns) and e.columns.min() > 1 - EXACT**2:
        return Cause(
            "normalisation",
            0.92,
            "every column was multiplied by a number of its own, with or without a shift",
            "a step that standardises columns, such as a scaler fitted on other data",
        )
    return None


def _other_lengths(ratios: Array) -> bool:
    return float(np.abs(np.log(np.maximum(ratios, 1e-30))).mean()) > 0.005


def _lengths(before: Array, now: Array, ratios: Array) -> str:
    if float(np.std(ratios)) < 0.01 * float(np.mean(ratios)):
        return f"all rows were multiplied by {float(np.mean(ratios)):.4g}"
    units = [bool(np.abs(norms - 1).max() < 0.01) for norms in (before, now)]
    if units == [False, True]:
        return "directions agree, and all new rows have length 1, which the pinned ones have not"
    if units == [True, False]:
        return "directions agree, and the new rows no longer have length 1, as the pinned ones do"
    return "directions agree, and lengths do not"


def _centred(e: Evidence) -> bool:
    return float(np.linalg.norm(e.b.mean(axis=0))) < 0.1 * e.spreads[1]


@cause("quantised")
def quantised(e: Evidence) -> Cause | None:
    """The new numbers take few values, as int8 codes do, and follow the pinned ones."""
    if e.same_columns < SAME_COORDINATES:
        return None
    values = _few_values(e)
    if values is None:
        return None
    codes = bool((e.b == np.round(e.b)).all()) and float(np.abs(e.b).max()) <= 255
    values += ", all of them whole: they are codes, not vectors" if codes else ""
    return Cause(
        "quantised",
        0.94,
        f"{values}, as int8 or coarser vectors have",
        "the precision of the store or of the embedding call"
        + ("; turn codes back into vectors before comparing" if codes else ""),
    )


def _few_values(e: Evidence) -> str | None:
    """How the new numbers lie on a grid, and the pinned ones do not; None if they do not."""
    for (before, now), lines in zip(e.steps, ("column", "row"), strict=True):
        if now <= STEPS < before:
            return f"the numbers of a {lines} are multiples of one step, about {now:.0f} of them"
    before, now = e.off_grid
    if now < OFF_GRID < before:
        return "every row consists of multiples of its largest number over 127"
    return None
