"""InfoMEC: modularity, explicitness and compactness by information."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.disentangle._data import Data, prepare
from identikit.disentangle._factor import Kinds
from identikit.disentangle._infoe import held_out_explicitness, in_sample_explicitness
from identikit.disentangle._nmi import Information, gate, normalised_information
from identikit.disentangle._parts import chance_of, interval_of, mean_part, method
from identikit.disentangle._permute import check_held_out, check_noise, check_permuted, ratio
from identikit.disentangle._presets import is_reference
from identikit.disentangle._registry import metric
from identikit.disentangle._result import Excluded, Part, Score
from identikit.errors import InputError

Mask = NDArray[np.bool_]

ROWS = 10_000
PERMUTATIONS, REFERENCE_PERMUTATIONS = 15, 10


@metric(
    "InfoMEC",
    "Does a code know of one factor, is a factor in one code, and can it be read off?",
    invariant_to="signed permutation and scale per code",
    place=50,
    reference="Hsu et al. 2023",
)
def infomec(
    codes: object,
    factors: object = None,
    *,
    names: Sequence[str] | None = None,
    kinds: Kinds = None,
    seed: int = 0,
    preset: str | None = None,
    weighted: bool | None = None,
    gated: bool | None = None,
    noise: float = 0.0,
    neighbours: int = 10,
    discrete_codes: bool = False,
    rows: int | None = ROWS,
    permutations: int | None = None,
) -> Score:
    """InfoM, InfoC and InfoE of NMI_ij = I(s_i; z_j)/H(s_i).

    InfoM: the largest share that a factor has in what a code knows, less 1/K, over 1 − 1/K. InfoC:
    the same of codes in what is known of a factor. InfoE: the part of a factor's entropy that a
    logistic regression from all codes takes away (R² for a continuous factor).

    As published (preset="reference"), the largest share is found where it is measured, every active
    code weighs the same, and noise counts: pure noise has an InfoM near 0.5, and appending noise to
    a perfect code lowers it to 0.75. By default, the largest share is found on other rows, codes
    weigh what they know, and entries that are not above those of permuted rows count as 0. Codes
    without noise of their own hide nothing, however small it is: z = s_1 + 0.001 s_2 on a lattice
    tells both. `noise` sets the resolution of interest.

    Parameters
    ----------
    codes, factors, names, kinds, seed
        As `prepare` takes them; at least two factors.
    preset : None or "reference"
        As above, or as in latent_quantization.
    weighted, gated : bool, optional
        Whether codes weigh what they know, and whether entries at chance count as 0; by default
        true, and false for the reference.
    noise : float
        Standard deviation of noise added to codes of variance 1, for InfoM and InfoC.
    neighbours : int
        Of the k-nearest-neighbour estimate of information.
    discrete_codes : bool
        Take the values of every code as classes; information is then the plug-in estimate.
    rows : int or None
        The most rows used, or None for all.
    permutations : int, optional
        For the gate and the chance level; by default 15, and 10 for the reference.
    """
    reference = is_reference(preset)
    check_noise(noise)
    weighted = not reference if weighted is None else weighted
    gated = not reference if gated is None else gated
    count = permutations
    if count is None:
        count = REFERENCE_PERMUTATIONS if reference else PERMUTATIONS
    data = prepare(codes, factors, names, kinds, seed)
    if len(data.factors) < 2:
        raise InputError("InfoMEC compares factors, and needs at least two of them")
    if neighbours < 1:
        raise InputError(f"neighbours is {neighbours}; expected at least one")
    check_held_out(data.rows, "InfoMEC")
    if gated:
        check_permuted(count, "InfoMEC with its gate")
    nmi = normalised_information(
        data, count, rows, neighbours, noise, discrete=discrete_codes, whole=reference
    )
    passes = gate(nmi.mean) if gated else np.ones(nmi.mean.shape, dtype=bool)
    wide = _wide(data.codes[:rows], threshold=reference and not discrete_codes)
    active = (np.where(passes, nmi.mean, 0.0).sum(1) > 0) & wide
    kept = passes & active[:, None]
    titles = tuple(factor.name for factor in data.factors)
    if reference:
        explicit = in_sample_explicitness(data, count, rows, discrete=discrete_codes)
    else:
        explicit = held_out_explicitness(data, count)
    how = "plug-in" if discrete_codes else f"{neighbours} nearest neighbours"
    words = f"Information by {how}" + (f", noise of {noise:g} added" if noise else "")
    words += ", codes weighted by it" if weighted else ""
    words += ", entries at chance gated;" if gated else ";"
    return Score(
        "infomec",
        (
            _modularity(nmi, kept, active, data.code_names, weighted=weighted),
            _compactness(nmi, kept, active, titles),
            mean_part("InfoE", *explicit, titles),
        ),
        nmi.rows,
        data.code_names,
        titles,
        data.excluded + _inactive(data, wide, active[0]),
        method(f"{words} at most {rows or data.rows:,} rows.", count, held_out=not reference),
        (nmi.mean[0] * kept[0]).T,
        "mutual information / entropy",
    )


def _wide(codes: Array, *, threshold: bool) -> Mask:
    """Which codes have more than a twentieth of the largest range, if that is asked for."""
    ranges = np.ptp(codes, axis=0)
    return np.asarray(ranges > (ranges.max() / 20 if threshold else -1.0))


def _inactive(data: Data, wide: Mask, active: Mask) -> tuple[Excluded, ...]:
    narrow = "inactive: its range is below a twentieth of the largest"
    return tuple(
        Excluded("code", name, "inactive: no information about any factor" if moves else narrow)
        for name, moves, there in zip(data.code_names, wide, active)
        if not there
    )


def _modularity(
    nmi: Information, kept: Mask, active: Mask, names: Sequence[str], *, weighted: bool
) -> Part:
    """How much of what each code knows is of one factor."""
    every, rest = _shares(nmi, kept, axis=-2)
    weights = every[1] if weighted else active.astype(float)
    ways = np.full(len(active), kept.shape[1])
    each = _rescaled(*every, ways)
    values = ratio((each * weights).sum(-1), weights.sum(-1))
    some = rest[1] if weighted else np.repeat(weights[:1], len(rest[1]), 0)
    without = ratio((_rescaled(*rest, ways[:1]) * some).sum(-1), some.sum(-1))
    return Part(
        "InfoM",
        float(values[0]),
        interval_of(float(values[0]), without),
        chance_of(values[1:]),
        per_code={name: float(x) for name, x, on in zip(names, each[0], active[0]) if on},
    )


def _compactness(nmi: Information, kept: Mask, active: Mask, names: Sequence[str]) -> Part:
    """How much of what is known of each factor is in one code."""
    every, rest = _shares(nmi, kept, axis=-1)
    ways = active.sum(-1)
    each = _rescaled(*every, ways)
    return mean_part("InfoC", each, _rescaled(*rest, ways[:1]), names)


def _shares(
    nmi: Information, kept: Mask, axis: int
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Largest entry and sum along an axis: of every order, and of the true one without each fold.

    Which entry is largest is decided by `train`.
    """
    largest, total = _largest(nmi.train * kept, nmi.test * kept, axis)
    every = largest.sum(0), total.sum(0)
    if nmi.rest is not None:
        return every, _largest(nmi.rest * kept[0], nmi.rest * kept[0], axis)
    return every, ((every[0] - largest)[:, 0], (every[1] - total)[:, 0])


def _largest(train: Array, test: Array, axis: int) -> tuple[Array, Array]:
    most = np.expand_dims(np.argmax(train, axis=axis), axis)
    return np.take_along_axis(test, most, axis).squeeze(axis), test.sum(axis)


def _rescaled(largest: Array, total: Array, ways: NDArray[np.intp]) -> Array:
    """(share − 1/ways)/(1 − 1/ways); 0 where nothing is shared, and 1 if there is one way only."""
    even = 1.0 / np.maximum(ways, 1)[:, None]
    share = np.divide(largest, total, out=np.zeros_like(largest) + even, where=total > 0)
    scaled = (share - even) / np.where(even < 1, 1 - even, 1.0)
    return np.where((even < 1) | (total <= 0), scaled, 1.0)
