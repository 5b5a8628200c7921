"""Disentanglement, completeness and informativeness by importances."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.factors._data import prepare
from identikit.factors._factor import Kinds
from identikit.factors._importance import SETTINGS, Importances
from identikit.factors._lasso import importances_of_lasso
from identikit.factors._permute import check_held_out, is_reference, ratio
from identikit.factors._registry import metric
from identikit.factors._result import (
    Part,
    Score,
    chance_of,
    interval_of,
    mean_part,
    method,
    named,
)
from identikit.factors._trees import importances_of_trees

QUESTION = "Does each code serve one factor, each factor have one code, and is it predictable?"
PAPER = "Eastwood and Williams 2018"
PROBES = ("forest", "lasso", "boosted")


@metric(
    "DCI, random forest",
    QUESTION,
    invariant_to="permutation and monotone function per code, nearly",
    place=30,
    reference=PAPER,
)
@metric(
    "DCI, lasso",
    QUESTION,
    invariant_to="signed permutation and scale per code",
    place=31,
    reference=PAPER,
    name="dci_lasso",
    probe="lasso",
)
@metric(
    "DCI, boosted trees",
    QUESTION,
    invariant_to="permutation and monotone function per code, nearly",
    place=32,
    reference=f"{PAPER}; Locatello et al. 2019",
    name="dci_boosted",
    by_name=True,
    probe="boosted",
)
def dci(
    codes: object,
    factors: object = None,
    *,
    names: Sequence[str] | None = None,
    kinds: Kinds = None,
    seed: int = 0,
    preset: str | None = None,
    probe: str = "forest",
    permutations: int | None = None,
) -> Score:
    """D, C and I of a matrix R of importances, codes × factors.

    D = Σ_i ρ_i (1 − H_K(R_i·/ΣR_i·)), ρ_i = ΣR_i·/ΣR: entropies of base K, codes weighted by their
    importance; C the same of columns, with base L. I is the accuracy of the probe on other rows, R²
    for a continuous factor. R comes from all folds but one, I from that one.

    Parameters
    ----------
    codes, factors, names, kinds, seed
        As `prepare` takes them; at least two factors. The lasso leaves out factors of words.
    preset : None or "reference"
        Over folds, or as in disentanglement_lib (boosted), Tripod (forest) or the code of
        Carbonneau et al. (lasso; in sample).
    probe : "forest", "lasso" or "boosted"
        Importances by impurity of a random forest, by gain of boosted trees (of binned codes, which
        is eight times as fast, and of the codes themselves for the reference), or absolute
        coefficients.
    permutations : int, optional
        For the chance level; fewer by default the slower the probe, and each is fitted once.

    Examples
    --------
    >>> s = np.random.default_rng(0).normal(size=(400, 2))
    >>> round(dci(s, s, probe="lasso").value, 2)
    1.0
    """
    reference = is_reference(preset)
    if probe not in PROBES:
        raise InputError(f"probe is {probe!r}; expected one of {PROBES}")
    settings = SETTINGS[probe, reference]
    count = settings.permutations if permutations is None else permutations
    data = prepare(codes, factors, names=names, kinds=kinds, seed=seed)
    scored, excluded = list(data.factors), data.excluded
    if probe == "lasso":
        scored, excluded = data.numeric("the lasso")
    if len(scored) < 2:
        raise InputError("DCI compares factors, and needs at least two of them")
    check_held_out(data.rows, "DCI")
    find = importances_of_lasso if probe == "lasso" else importances_of_trees
    found = find(data, scored, settings, count)
    titles = tuple(factor.name for factor in scored)
    parts = (
        _part("disentanglement", found, disentanglement, per_code=data.code_names),
        _part("completeness", found, completeness, per_factor=titles, even=settings.even),
        mean_part("informativeness", found.scores, found.scores_without, titles),
    )
    return Score(
        "dci",
        parts,
        found.rows,
        data.code_names,
        titles,
        excluded,
        method(settings.words, parts, settings.where),
        found.fits.mean(0),
        "importance",
    )


def _part(
    name: str,
    found: Importances,
    function: Callable[..., tuple[Array, Array]],
    per_code: Sequence[str] = (),
    per_factor: Sequence[str] = (),
    **options: bool,
) -> Part:
    """A part from the fits, those without each fold, and those of permuted rows."""
    values, each = function(found.fits, **options)
    value = float(values.mean())
    return Part(
        name,
        value,
        interval_of(value, function(found.without, **options)[0], 0.0),
        chance_of(function(found.null, **options)[0].mean(-1)),
        named(per_factor, each.mean(0)) if per_factor else {},
        named(per_code, each.mean(0)) if per_code else {},
    )


def disentanglement(importance: Array) -> tuple[Array, Array]:
    """D of matrices (…, L, K), and that of every code; codes without importance weigh nothing.

    >>> disentanglement(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]]))[0]
    array(1.)
    """
    each = concentration(importance)
    return _weighted(each, importance.sum(-1)), each


def completeness(importance: Array, *, even: bool = False) -> tuple[Array, Array]:
    """C of matrices (…, L, K), and that of every factor, which may all weigh the same."""
    each = concentration(importance.swapaxes(-1, -2))
    weights = np.ones_like(each) if even else importance.sum(-2)
    return _weighted(each, weights), each


def concentration(importance: Array) -> Array:
    """1 − entropy of every row, of base its length; 0 for a row of zeros, 1 for a single column."""
    total = importance.sum(-1)
    if importance.shape[-1] == 1:
        return np.where(total > 0, 1.0, 0.0)
    share = ratio(importance, total[..., None])
    nats = -(share * np.log(np.where(share > 0, share, 1.0))).sum(-1)
    return np.where(total > 0, 1.0 - nats / np.log(importance.shape[-1]), 0.0)


def _weighted(each: Array, weights: Array) -> Array:
    return ratio((each * weights).sum(-1), weights.sum(-1))
