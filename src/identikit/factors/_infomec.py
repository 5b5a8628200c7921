"""InfoMEC: modularity, explicitness and compactness by information."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.factors._data import Data
from identikit.factors._metric import Trial, also, check_noise, metric
from identikit.factors._nmi import (
    CLASSES,
    Mask,
    compactness_of,
    gate,
    modularity_of,
    normalised_information,
)
from identikit.factors._probe import held_out_explicitness, in_sample_explicitness
from identikit.factors._result import Excluded, Part, Score

QUESTION = "Does a code know of one factor, is a factor in one code, and can it be read off?"
ROWS = 10_000
#: Covariances of whitened codes differ from the identity by less.
WHITE = 0.1
#: Noise that should not matter, in standard deviations, and how much it may.
FINE, MATTERS = 0.05, 0.1


@also(
    "infomec_weighted",
    "InfoMEC, weighted",
    QUESTION,
    by_name=True,
    place=51,
    weighted=True,
    gated=False,
)
@metric(
    "InfoMEC",
    QUESTION,
    invariant_to="signed permutation and scale per code",
    reference="Hsu et al. 2023",
    permutations=(15, 10),
    place=50,
)
def infomec(
    trial: Trial,
    *,
    weighted: bool | None = None,
    gated: bool | None = None,
    noise: float = 0.0,
    neighbours: int = 10,
    discrete_codes: bool = False,
    rows: int | None = ROWS,
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
    check_noise(noise)
    weighted = not trial.reference if weighted is None else weighted
    gated = not trial.reference if gated is None else gated
    trial.needs_several()
    if neighbours < 1:
        raise InputError(f"neighbours is {neighbours}; expected at least one")
    trial.needs_folds()
    if gated and trial.permutations < 1:
        raise InputError(
            "InfoMEC with its gate leaves out what permuted rows share, so it needs at least one "
            f"permutation; permutations is {trial.permutations}. preset='reference' leaves nothing "
            "out"
        )
    data = trial.data
    nmi = normalised_information(trial, rows, neighbours, noise, discrete=discrete_codes)
    passes = gate(nmi.mean) if gated else np.ones(nmi.mean.shape, dtype=bool)
    wide = _wide(data.codes[:rows], threshold=trial.reference and not discrete_codes)
    active = (np.where(passes, nmi.mean, 0.0).sum(1) > 0) & wide
    kept = passes & active[:, None]
    if trial.reference:
        explicit = in_sample_explicitness(trial, rows, CLASSES, discrete=discrete_codes)
    else:
        explicit = held_out_explicitness(trial)
    how = "plug-in" if discrete_codes else f"{neighbours} nearest neighbours"
    words = f"Information by {how}" + (f", noise of {noise:g} added" if noise else "")
    words += ", codes weighted by it" if weighted else ""
    words += ", entries at chance gated;" if gated else ";"
    warnings = _whitened(data) if not weighted else ()
    if nmi.mean[0].max() > MATTERS and not (noise or discrete_codes):
        alone = replace(trial, permutations=0)
        blurred = normalised_information(alone, rows, neighbours, FINE, discrete=False)
        sharp, soft = (
            modularity_of(each, kept[:1], active[:1], data.code_names, weighted=weighted)
            for each in (nmi.first, blurred)
        )
        warnings += _deterministic(sharp, soft)
    return trial.score(
        (
            modularity_of(nmi, kept, active, data.code_names, weighted=weighted),
            trial.mean_part("InfoC", *compactness_of(nmi, kept, active)),
            trial.mean_part("InfoE", *explicit),
        ),
        f"{words} at most {rows or data.rows:,} rows.",
        rows=nmi.rows,
        matrix=(nmi.mean[0] * kept[0]).T,
        matrix_of="mutual information / entropy",
        excluded=_inactive(data, wide, active[0]),
        warnings=warnings,
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
