"""Modularity: does a code know of one factor only?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.factors._data import prepare
from identikit.factors._factor import Kinds
from identikit.factors._permute import (
    check_held_out,
    check_noise,
    is_reference,
    pooled,
)
from identikit.factors._registry import metric
from identikit.factors._result import (
    HELD_OUT,
    IN_SAMPLE,
    Part,
    Score,
    chance_of,
    interval_of,
    method,
    named,
)
from identikit.factors._tables import default_bins, information

PERMUTATIONS = 50
BINS = 20


@metric(
    "modularity",
    "Does each code know of one factor only?",
    invariant_to="permutation and monotone function per code",
    place=42,
    reference="Ridgeway and Mozer 2018",
)
def modularity(
    codes: object,
    factors: object = None,
    *,
    names: Sequence[str] | None = None,
    kinds: Kinds = None,
    seed: int = 0,
    preset: str | None = None,
    bins: int | None = None,
    noise: float = 0.0,
    permutations: int = PERMUTATIONS,
) -> Score:
    """Mean over codes of 1 − Σ_{j≠j*} m_j² / ((K − 1) m_{j*}²), with m_j = I(z; s_j).

    The factor j* that a code knows most of is found on other rows than the m; a code without
    information has 0, and so has one that knows more of the other factors together. Information is
    that of `mig`. preset="reference" has 20 bins of equal width, no correction, in sample.

    Parameters
    ----------
    codes, factors, names, kinds, seed
        As `prepare` takes them; at least two factors.
    preset : None or "reference"
        Held out, or as in disentanglement_lib.
    bins, noise
        As in `mig`.
    permutations : int
        For the chance level.
    """
    reference = is_reference(preset)
    check_noise(noise)
    data = prepare(codes, factors, names=names, kinds=kinds, seed=seed)
    if len(data.factors) < 2:
        raise InputError("modularity compares factors, and needs at least two of them")
    if not reference:
        check_held_out(data.rows, "modularity")
    bins = bins or (BINS if reference else default_bins(data.rows))
    found = information(data, bins, permutations, noise, even=reference)
    if reference:
        values = _modularity(found.whole, found.whole)
        without = _modularity(found.train, found.train)[:, 0]
    else:
        each = _modularity(found.train, np.maximum(found.held_out, 0.0))
        values, rest = pooled(each, np.ones_like(each))
        without = rest[:, 0]
    value = values.mean(-1)
    part = Part(
        "modularity",
        float(value[0]),
        interval_of(float(value[0]), without.mean(-1), 0.0),
        chance_of(value[1:]),
        per_code=named(data.code_names, values[0]),
    )
    words = f"{bins} bins of equal {'width' if reference else 'frequency'}"
    words += f", noise of {noise:g} added." if noise else "."
    return Score(
        "modularity",
        (part,),
        int(found.n.sum(0).max()),
        data.code_names,
        tuple(factor.name for factor in data.factors),
        data.excluded,
        method(words, (part,), IN_SAMPLE if reference else HELD_OUT),
        found.whole[0],
        "mutual information",
    )


def _modularity(train: Array, test: Array) -> Array:
    """Of every code, from information (…, L, K)."""
    most = np.argmax(train, axis=-1)[..., None]
    squares = test**2
    largest = np.take_along_axis(squares, most, axis=-1)[..., 0]
    others = squares.sum(-1) - largest
    share = np.ones(largest.shape)
    np.divide(others, largest * (test.shape[-1] - 1), out=share, where=largest > 0)
    return np.maximum(1.0 - share, 0.0)
