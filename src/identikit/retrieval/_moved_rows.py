"""Find pinned rows again in a new view."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.retrieval._pin import LEAST, PinnedView
from identikit.retrieval._pinned_views import Ids, Numbers
from identikit.sources import Source

#: The share of the pinned rows that must be found again by id.
SHARE = 0.5


@dataclass(frozen=True)
class Paired:
    """Which pinned rows were found (`there`), where in the new view, and how that was done."""

    there: NDArray[np.bool_]
    places: Numbers
    how: str


def pair_rows(source: Source, texts: Ids | None, layer: PinnedView) -> Paired:
    """Find the pinned rows in the new view, by id if ids are given, otherwise by number."""
    assert layer.numbers is not None
    if texts is None:
        if source.rows < layer.rows:
            raise InputError(
                f"{source.name!r} has {source.rows} rows, and {layer.rows} were pinned; without "
                "ids row t must be row t, so give all rows, or ids for both (--id or --ids)"
            )
        how = "paired by row number, assuming that rows are in the pinned order"
        if layer.ids is not None:
            how += "; the pin has ids, by which --id or --ids would pair them"
        return Paired(np.ones(len(layer.numbers), dtype=bool), layer.numbers, how)
    if layer.ids is None:
        raise InputError("the pin has no ids, so rows cannot be paired by id; pin again with ids")
    place_of = {text: place for place, text in enumerate(texts.tolist())}
    places = np.array([place_of.get(text, -1) for text in layer.ids.tolist()], dtype=np.int64)
    there = places >= 0
    count = int(there.sum())
    if count < max(LEAST, SHARE * len(places)):
        lost = layer.ids[~there][0]
        raise InputError(
            f"only {count} of the {len(places)} pinned ids are among those of {source.name!r}; at "
            f"least {max(LEAST, int(np.ceil(SHARE * len(places))))} are needed. {lost!r} was "
            f"pinned, {texts[0]!r} is there: check that ids are written in the same way"
        )
    how = f"paired by id: {count:,} of {len(places):,} pinned rows are there"
    return Paired(there, places[there], how)
