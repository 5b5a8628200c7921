"""Disentanglement, completeness and informativeness (DCI) from the importances of codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.factors._importance import SETTINGS, Importances
from identikit.factors._lasso import importances_of_lasso
from identikit.factors._metric import Trial, also, metric
from identikit.factors._resample import ratio
from identikit.factors._result import Part, Score, named, part_of
from identikit.factors._trees import importances_of_trees

QUESTION = "Does each code serve one factor, each factor have one code, and is it predictable?"
PAPER = "Eastwood and Williams 2018"
PROBES = ("forest", "lasso", "boosted")


@also(
    "dci_boosted",
    "DCI, boosted trees",
    QUESTION,
    reference=f"{PAPER}; Locatello et al. 2019",
    by_name=True,
    place=32,
    probe="boosted",
)
@also(
    "dci_lasso",
    "DCI, lasso",
    QUESTION,
    invariant_to="signed permutation and scale per code",
    place=31,
    probe="lasso",
)
@metric(
    "DCI, random forest",
    QUESTION,
    invariant_to="permutation and monotone function per code, nearly",
    reference=PAPER,
    called="DCI",
    place=30,
)
def dci(trial: Trial, *, probe: str = "forest") -> Score:
    """Disentanglement D, completeness C and informativeness I from importances R, codes × factors.

    D = Σ_i ρ_i (1 − H_K(R_i·/ΣR_i·)) with ρ_i = ΣR_i·/ΣR: the entropies have base K, and codes are
    weighted by their importance. C is the same for the columns of R, with base L. I is the held-out
    accuracy of the probe, or its R² for a continuous factor. R is estimated on all folds but one,
    and I on the remaining one.

    Parameters
    ----------
    codes, factors, names, kinds, seed
        As in `prepare`; at least two factors are needed. The lasso leaves out factors whose values
        are words.
    preset : None or "reference"
        Held out over folds, or as in disentanglement_lib (boosted), Tripod (forest) or the code of
        Carbonneau et al. (lasso; in sample).
    probe : "forest", "lasso" or "boosted"
        Importances are impurity decreases of a random forest, absolute coefficients of the lasso,
        or gains of boosted trees (on binned codes, which is eight times as fast; on the codes
        themselves for the reference).
    permutations : int, optional
        Number of permutations for the chance level. Slower probes have fewer by default, and each
        permutation is fitted once.

    Examples
    --------
    >>> s = np.random.default_rng(0).normal(size=(400, 2))
    >>> round(dci(s, s, probe="lasso").value, 2)
    1.0
    """
    if probe not in PROBES:
        raise InputError(f"probe is {probe!r}; expected one of {PROBES}")
    settings = SETTINGS[probe, trial.reference]
    if trial.asked is None:
        trial = replace(trial, permutations=settings.permutations)
    if probe == "lasso":
        trial = trial.numeric("the lasso")
    trial.needs_several()
    trial.needs_folds()
    find = importances_of_lasso if probe == "lasso" else importances_of_trees
    found = find(trial, settings)
    parts = (
        _part("disentanglement", found, disentanglement, per_code=trial.data.code_names),
        _part("completeness", found, completeness, per_factor=trial.titles, even=settings.even),
        trial.mean_part("informativeness", found.scores, found.scores_without),
    )
    matrix = found.fits.mean(0)
    return trial.score(
        parts,
        settings.words,
        settings.where,
        rows=found.rows,
        matrix=matrix,
        matrix_of="importance",
    )


def _part(
    name: str,
    found: Importances,
    function: Callable[..., tuple[Array, Array]],
    *,
    per_code: tuple[str, ...] = (),
    per_factor: tuple[str, ...] = (),
    **options: Any,
) -> Part:
    """A part of the score from the fits, the fits without each fold, and those of permuted rows."""
    values, each = function(found.fits, **options)
    null = function(found.null, **options)[0].mean(-1)
    return part_of(
        name,
        np.append(values.mean(), null),
        function(found.without, **options)[0],
        0.0,
        per_factor=named(per_factor, each.mean(0)) if per_factor else None,
        per_code=named(per_code, each.mean(0)) if per_code else None,
    )


def disentanglement(importance: Array) -> tuple[Array, Array]:
    """D of matrices (…, L, K), and the D of every code; codes without importance have no weight.

    >>> disentanglement(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]]))[0]
    array(1.)
    """
    each = concentration(importance)
    return _weighted(each, importance.sum(-1)), each


def completeness(importance: Array, *, even: bool = False) -> tuple[Array, Array]:
    """C of matrices (…, L, K), and the C of every factor; `even` gives all factors equal weight."""
    each = concentration(importance.swapaxes(-1, -2))
    weights = np.ones_like(each) if even else importance.sum(-2)
    return _weighted(each, weights), each


def concentration(importance: Array) -> Array:
    """1 − entropy of every row, with its length as base; 0 for zeros, 1 for a single column."""
    total = importance.sum(-1)
    if importance.shape[-1] == 1:
        return np.where(total > 0, 1.0, 0.0)
    share = ratio(importance, total[..., None])
    nats = -(share * np.log(np.where(share > 0, share, 1.0))).sum(-1)
    return np.where(total > 0, 1.0 - nats / np.log(importance.shape[-1]), 0.0)


def _weighted(each: Array, weights: Array) -> Array:
    return ratio((each * weights).sum(-1), weights.sum(-1))
