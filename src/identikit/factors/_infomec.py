"""InfoMEC: modularity, explicitness and compactness by information."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.factors._data import Data, prepare
from identikit.factors._factor import Kinds
from identikit.factors._nmi import (
    CLASSES,
    Mask,
    compactness_of,
    gate,
    modularity_of,
    normalised_information,
)
from identikit.factors._permute import (
    check_held_out,
    check_noise,
    check_permuted,
    is_reference,
)
from identikit.factors._probe import held_out_explicitness, in_sample_explicitness
from identikit.factors._registry import metric
from identikit.factors._result import (
    HELD_OUT,
    IN_SAMPLE,
    Excluded,
    Part,
    Score,
    mean_part,
    method,
)

QUESTION = "Does a code know of one factor, is a factor in one code, and can it be read off?"
ROWS = 10_000
#: Covariances of whitened codes differ from the identity by less.
WHITE = 0.1
#: Noise that should not matter, in standard deviations, and how much it may.
FINE, MATTERS = 0.05, 0.1
PERMUTATIONS, REFERENCE_PERMUTATIONS = 15, 10


@metric(
    "InfoMEC",
    QUESTION,
    invariant_to="signed permutation and scale per code",
    place=50,
    reference="Hsu et al. 2023",
)
@metric(
    "InfoMEC, weighted",
    QUESTION,
    invariant_to="signed permutation and scale per code",
    place=51,
    reference="Hsu et al. 2023",
    name="infomec_weighted",
    by_name=True,
    weighted=True,
    gated=False,
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
        As above, or as in latent_quantization, where all factors are classes: a continuous one is
        cut into 20 of equal frequency.
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
    data = prepare(codes, factors, names=names, kinds=kinds, seed=seed)
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
        explicit = in_sample_explicitness(data, count, rows, CLASSES, discrete=discrete_codes)
    else:
        explicit = held_out_explicitness(data, count)
    how = "plug-in" if discrete_codes else f"{neighbours} nearest neighbours"
    words = f"Information by {how}" + (f", noise of {noise:g} added" if noise else "")
    words += ", codes weighted by it" if weighted else ""
    words += ", entries at chance gated;" if gated else ";"
    warnings = _whitened(data) if not weighted else ()
    if nmi.mean[0].max() > MATTERS and not (noise or discrete_codes):
        blurred = normalised_information(
            data, 0, rows, neighbours, FINE, discrete=False, whole=reference
        )
        masks = kept[:1], active[:1]
        warnings += _deterministic(
            *(
                modularity_of(each, *masks, data.code_names, weighted=weighted)
                for each in (nmi.first, blurred)
            )
        )
    parts = (
        modularity_of(nmi, kept, active, data.code_names, weighted=weighted),
        compactness_of(nmi, kept, active, titles),
        mean_part("InfoE", *explicit, titles),
    )
    return Score(
        "infomec",
        parts,
        nmi.rows,
        data.code_names,
        titles,
        data.excluded + _inactive(data, wide, active[0]),
        method(
            f"{words} at most {rows or data.rows:,} rows.",
            parts,
            IN_SAMPLE if reference else HELD_OUT,
        ),
        (nmi.mean[0] * kept[0]).T,
        "mutual information / entropy",
        warnings,
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


def _deterministic(sharp: Part, blurred: Part) -> tuple[str, ...]:
    """What is said of codes that hold information finer than any use of it."""
    if blurred.value - sharp.value <= MATTERS:
        return ()
    return (
        f"InfoM is {sharp.value:.2f}, and {blurred.value:.2f} if noise of {FINE} standard "
        "deviations is added: the codes are nearly deterministic, and what they hold counts in "
        "full however little it moves them; noise=… sets the resolution of interest",
    )


def _whitened(data: Data) -> tuple[str, ...]:
    """What is said of codes that all have one variance and no correlation."""
    cov = np.atleast_2d(np.cov(data.codes.T / data.codes.std()))
    scale = float(np.diagonal(cov).mean())
    if len(cov) < 2 or np.abs(cov / scale - np.eye(len(cov))).max() > WHITE:
        return ()
    return (
        "the codes are whitened: codes of noise are as wide as any, and where all weigh the same "
        "they pull InfoM towards what chance scores; weighted=True cures it",
    )
