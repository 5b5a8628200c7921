"""Causes that are maps from one space to another, or other uses of a model, or another model."""

from __future__ import annotations

import numpy as np

from identikit.retrieval._causes import (
    EXACT,
    NEARLY_THE_SAME,
    SAME_COORDINATES,
    SMALL,
    Cause,
    cause,
)
from identikit.retrieval._evidence import Evidence

#: The share of the change that is common to all rows if the input of all rows changed alike.
COMMON = 0.25


@cause("column permutation")
def column_permutation(e: Evidence) -> Cause | None:
    """Columns are in another order, or flipped."""
    error = e.errors.get("permutation")
    # The rung also has a shift, which is not what is meant here.
    unmoved = e.error * np.sqrt(max(1 - e.shift_share, 0.0))
    if error is None or error > SMALL or error > unmoved / 3:
        return None
    return Cause(
        "column permutation",
        0.9,
        f"the same columns in another order, or with other signs (error {error:.2g} after "
        f"re-ordering them, {e.error:.2g} before)",
        "the order of the columns where vectors are written to and read from a table",
    )


@cause("rotation")
def rotation(e: Evidence) -> Cause | None:
    """Products of centred rows are as before: nothing but a rotation, with one scale or none."""
    if e.shape > SMALL or e.same_columns > NEARLY_THE_SAME:
        return None
    return Cause(
        "rotation",
        0.8 + 0.05 * (1 - e.shape / SMALL),
        f"distances between rows are as before (they differ by {e.shape:.1%}), coordinates are not",
        "a rotation or PCA after the model, or the same training from another start; align "
        "--group rigid makes them equal",
    )


@cause("linear map")
def linear_map(e: Evidence) -> Cause | None:
    """A linear map makes them equal, and no rotation does."""
    error = min((e.errors[name] for name in ("linear", "affine") if name in e.errors), default=1.0)
    if error > SMALL or e.error < 2 * SMALL:
        return None
    return Cause(
        "linear map",
        0.75,
        f"a linear map takes one to the other (error {error:.2g}), a rotation does not",
        "whitening, a projection or an adapter after the model; align --group affine makes them "
        "equal",
    )


@cause("noise")
def noise(e: Evidence) -> Cause | None:
    """A small change of all rows, about as large in each and in no common direction."""
    if e.same_columns < NEARLY_THE_SAME or e.shift_share > 1 - EXACT:
        return None
    if e.error > SMALL and e.shift_share > COMMON:
        return None
    low, high = np.quantile(e.distances, [0.05, 0.95])
    alike = high <= 4 * low
    if not alike and e.error > SMALL:
        return None
    return Cause(
        "noise",
        0.7 if alike else 0.6,
        f"all rows changed a little ({np.median(e.distances):.1%} of the spread), by about the "
        "same amount and each in a direction of its own",
        "weights or sums in lower precision: an int8 or float16 export, another runtime, GPU or "
        "library version",
    )


@cause("prefix")
def prefix(e: Evidence) -> Cause | None:
    """A common shift of all rows, and a smaller change of each."""
    if e.same_columns < NEARLY_THE_SAME or e.error <= SMALL or e.shift_share <= COMMON:
        return None
    return Cause(
        "prefix",
        0.65,
        f"all rows were moved in one direction, which is {e.shift_share:.0%} of the change, and "
        "each a little in its own",
        "a prefix or instruction (such as 'query: ') that is missing, added or another one; then "
        "the chat or prompt template",
    )


@cause("pooling")
def pooling(e: Evidence) -> Cause | None:
    """The same coordinates, but other values: one model, used in another way or trained further."""
    if e.same_columns < SAME_COORDINATES:
        return None
    return Cause(
        "pooling",
        0.5,
        f"equal columns still go together (a median correlation of {e.same_columns:.2f}), but "
        "values differ by more than noise",
        "the same model used in another way, which vectors alone do not tell for certain: pooling "
        "(mean, first token, maximum), maximum length, another layer, or a fine-tuned version",
    )


@cause("another model")
def another_model(e: Evidence) -> Cause | None:
    """Equal columns have nothing to do with each other."""
    if e.same_columns >= SAME_COORDINATES:
        return None
    best = min(e.errors.values(), default=None)
    left = "" if best is None else f", and the best map leaves an error of {best:.2f}"
    return Cause(
        "another model",
        0.55,
        f"equal columns hardly go together (a median correlation of {e.same_columns:.2f}){left}",
        "the name and revision of the model, and the order of the rows; all vectors must be "
        "computed again, or mapped (identikit migrate)",
    )
