"""Views that are layers of two models, told by their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

_DIGITS = re.compile(r"(\d+)")
#: What the layers of networks are called.
_LAYER = re.compile("layer|block|stage|hidden", re.IGNORECASE)


class Side(NamedTuple):
    """A model, and its layers from the lowest to the highest: short names and those of views."""

    model: str
    layers: list[str]
    views: list[str]


def two_models(names: Sequence[str]) -> tuple[Side, Side] | None:
    """The layers of two models, if that is what the names of views say; otherwise None.

    Names are "model/layer", as files of the same name in two folders are called, or with a colon.
    There are exactly two models with two numbered layers or more each, and both have layers of one
    kind, such as "layer_#": the same name but for numbers.

    >>> a, b = two_models(["s0/layer_2", "s0/layer_10", "s1/layer_2", "s1/layer_3"]) or ((), ())
    >>> a.model, a.layers, b.layers
    ('s0', ['layer_2', 'layer_10'], ['layer_2', 'layer_3'])
    >>> two_models(["s0/layer_2", "s1/layer_2", "s2/layer_2"])
    """
    sides: dict[str, list[tuple[str, str]]] = {}
    for name in names:
        # The model ends at the last slash or colon.
        cut = max(name.rfind("/"), name.rfind(":"))
        if cut < 1:
            return None
        sides.setdefault(name[:cut].rstrip(": "), []).append((name[cut + 1 :].lstrip(), name))
    if len(sides) != 2:
        return None
    numbered = [[each for each, _ in side if _DIGITS.search(each)] for side in sides.values()]
    kinds = [{_DIGITS.sub("#", layer) for layer in side} for side in numbered]
    if min(map(len, numbered)) < 2 or not any(map(_LAYER.search, kinds[0] & kinds[1])):
        return None
    one, other = (
        Side(model, *map(list, zip(*sorted(side, key=lambda each: _natural(each[0])))))
        for model, side in sides.items()
    )
    return one, other


def _natural(text: str) -> list[tuple[int, str]]:
    """A key by which layer 2 comes before layer 10."""
    numbers = (part.lstrip("0") for part in _DIGITS.split(text)[1::2])
    words = _DIGITS.split(text)[::2]
    return [part for word, digits in zip_longest(words, numbers, fillvalue="")
            for part in ((0, word), (len(digits), digits))]  # fmt: skip
