"""Converting moments to other units, or to the coordinates of other moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from identikit._linalg import Array
from identikit.moments._moments import Moments
from identikit.moments._part import Part, StackLayout
from identikit.moments.sample import RowSample


def with_exponents(moments: Moments, exponents: Sequence[int]) -> Moments:
    """The same moments, with the numbers of each view in units of another power of two."""
    steps = [own - other for own, other in zip(moments.units, exponents)]
    each = np.repeat(steps, moments.widths)
    layout, inner = moments.layout, each
    if layout.roots is not None:  # the stored coordinates do not change, only their roots
        inner = np.zeros_like(each)
        roots = tuple(np.ldexp(root, step) for root, step in zip(layout.roots, steps))
        inverses = tuple(np.ldexp(inverse, -step) for inverse, step in zip(layout.inverses, steps))
        layout = StackLayout(layout.widths, roots, inverses)
    twice = 2 * np.array(steps)
    parts = tuple(
        Part(
            part.count,
            np.ldexp(part.mean, each),
            np.ldexp(part.scatter, inner[:, None] + inner),
            np.ldexp(part.cubic, twice[:, None] + each),
            np.ldexp(part.quartic, twice[:, None] + twice),
        )
        for part in moments.parts
    )
    sample, largest = moments.sample, moments.extremes
    return replace(
        moments,
        layout=layout,
        parts=parts,
        sample=RowSample(sample.size, sample.keys, np.ldexp(sample.rows, each)),
        extremes=largest and replace(largest, rows=np.ldexp(largest.rows, each)),
        exponents=tuple(exponents),
        _cache={},
        _pair={},
    )


def in_layout(moments: Moments, layout: StackLayout) -> Moments:
    """The same moments, with the scatter in another layout's coordinates."""
    own = moments.layout.roots
    if layout.roots is None or layout is moments.layout:
        return moments
    turns: Sequence[Array] = layout.inverses
    if own is not None:
        if all(np.array_equal(*pair) for pair in zip(own, layout.roots)):
            return replace(moments, layout=layout)  # a copy, from a file or another process
        turns = [root @ inverse for root, inverse in zip(own, layout.inverses)]
    parts = []
    for part in moments.parts:
        scatter = np.empty_like(part.scatter)
        for i, (left, a) in enumerate(zip(turns, layout.columns)):
            for right, b in zip(turns[i:], layout.columns[i:]):
                block = left.T @ part.scatter[a, b] @ right
                # Exactly symmetric, so that one triangle determines the matrix.
                scatter[a, b] = (block + block.T) / 2 if a == b else block
                scatter[b, a] = scatter[a, b].T
        parts.append(replace(part, scatter=scatter))
    return replace(moments, layout=layout, parts=tuple(parts), _cache={}, _pair={})
