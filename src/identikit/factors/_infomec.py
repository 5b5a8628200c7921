"""InfoMEC: modularity, explicitness and compactness from mutual information."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.factors._data import Data
from identikit.factors._metric import Trial, also, check_noise, metric
from identikit.factors._neighbours import CLASSES, NMI, Mask, gate, normalised_information
from identikit.factors._probe import held_out_explicitness, in_sample_explicitness
from identikit.factors._resample import ratio
from identikit.factors._result import Excluded, Part, Score, part_of

QUESTION = "Does a code know of one factor, is a factor in one code, and can it be read off?"
ROWS = 10_000
#: Codes count as whitened if no entry of their covariance differs from the identity by more.
WHITE = 0.1
#: Noise that should not matter, in standard deviations, and the change of InfoM that is tolerated.
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
    """InfoM, InfoC and InfoE from NMI_ij = I(s_i; z_j)/H(s_i).

    For InfoM, let p be the largest share of a single factor in a code's information about all
    factors; InfoM is the mean over codes of (p − 1/K)/(1 − 1/K). InfoC is the same with the roles
    of codes and factors exchanged. InfoE is the share of a factor's entropy that a logistic
    regression on all codes removes (R² for a continuous factor).

    The published version (preset="reference", latent_quantization) cuts continuous factors into 20
    classes of equal frequency. It chooses the largest share on the rows on which it is measured,
    gives every active code the same weight, and counts information that is only noise: codes of
    pure noise have an InfoM near 0.5, and appending noise to a perfect code lowers it to 0.75. By
    default, the largest share is chosen on other rows, codes are weighted by their information, and
    entries that are not above those of permuted rows count as 0. If codes are deterministic, even a
    tiny dependence counts in full: on a lattice, z = s_1 + 0.001 s_2 determines both factors.
    `noise` sets the resolution of interest.

    Parameters
    ----------
    weighted, gated : bool, optional
        Whether codes are weighted by their information, and whether entries at chance level count
        as 0. Both are true by default and false for the reference.
    noise : float
        Standard deviation of the noise added to codes of variance 1, for InfoM and InfoC.
    neighbours : int
        Number of neighbours in the nearest-neighbour estimate of information.
    discrete_codes : bool
        Treat the values of every code as classes and use the plug-in estimate of information.
    rows : int or None
        The largest number of rows to use, or None for all.
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
            "InfoMEC with gated=True drops entries that are not above those of permuted rows, so "
            f"it needs at least one permutation; permutations is {trial.permutations}. Use "
            "gated=False or preset='reference' to keep all entries"
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
    """Which codes have more than a twentieth of the largest range (all without `threshold`)."""
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
    """A warning if InfoM depends on details of the codes that are finer than a little noise."""
    if blurred.value - sharp.value <= MATTERS:
        return ()
    return (
        f"InfoM is {sharp.value:.2f}, but {blurred.value:.2f} if noise of {FINE} standard "
        "deviations is added to the codes: they are nearly deterministic, so even a factor that "
        "changes them very little counts in full; noise=… sets the resolution of interest",
    )


def _whitened(data: Data) -> tuple[str, ...]:
    """A warning if the codes are uncorrelated and have equal variances."""
    cov = np.atleast_2d(np.cov(data.codes.T / data.codes.std()))
    scale = float(np.diagonal(cov).mean())
    if len(cov) < 2 or np.abs(cov / scale - np.eye(len(cov))).max() > WHITE:
        return ()
    return (
        "the codes are whitened, so codes that are only noise have as large a variance as the "
        "others; with equal weights they pull InfoM towards its chance level; weighted=True "
        "prevents this",
    )


def modularity_of(
    nmi: NMI, kept: Mask, active: Mask, names: Sequence[str], *, weighted: bool
) -> Part:
    """InfoM: how much of each code's information is about a single factor."""
    every, rest = _shares(nmi, kept, axis=-2)
    weights = every[1] if weighted else active.astype(float)
    ways = np.full(len(active), kept.shape[1])
    each = _rescaled(*every, ways)
    values = ratio((each * weights).sum(-1), weights.sum(-1))
    some = rest[1] if weighted else np.repeat(weights[:1], len(rest[1]), 0)
    without = ratio((_rescaled(*rest, ways[:1]) * some).sum(-1), some.sum(-1))
    per_code = {name: float(x) for name, x, on in zip(names, each[0], active[0]) if on}
    return part_of("InfoM", values, without, per_code=per_code)


def compactness_of(nmi: NMI, kept: Mask, active: Mask) -> tuple[Array, Array]:
    """How much of the information about a factor is in one code (1 + P, K), and without folds."""
    every, rest = _shares(nmi, kept, axis=-1)
    ways = active.sum(-1)
    return _rescaled(*every, ways), _rescaled(*rest, ways[:1])


def _shares(nmi: NMI, kept: Mask, axis: int) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Largest entry and sum along an axis, for every order and for the true one without each fold.

    `train` decides which entry is the largest.
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
    """(share − 1/ways)/(1 − 1/ways) of share = largest/total; 0 if total is 0, 1 if ways is 1."""
    even = 1.0 / np.maximum(ways, 1)[:, None]
    share = np.divide(largest, total, out=np.zeros_like(largest) + even, where=total > 0)
    scaled = (share - even) / np.where(even < 1, 1 - even, 1.0)
    return np.where((even < 1) | (total <= 0), scaled, 1.0)
