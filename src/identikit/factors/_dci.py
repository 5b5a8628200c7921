"""Disentanglement, completeness and informativeness (DCI) from the importances of codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.factors._linear import labelled_sums
from identikit.factors._metric import Refits, Trial, also, metric
from identikit.factors._penalised import PENALTIES, held_out_penalised, lasso_path
from identikit.factors._probe import fitted
from identikit.factors._resample import Rows, held_out, in_sample, one_split, pooled, ratio
from identikit.factors._result import HELD_OUT, IN_SAMPLE, ONE_SPLIT, Part, Score, named, part_of
from identikit.moments import FOLDS

#: Size of the codes above which several threads are worth their cost.
ROOM = 50_000
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
    permutations=(5, 2),
    called="DCI",
    place=30,
)
def dci(trial: Trial, *, probe: str = "forest") -> Score:
    """Disentanglement D, completeness C and informativeness I from importances R, codes × factors.

    D = Σ_i ρ_i (1 − H_K(R_i·/ΣR_i·)) with ρ_i = ΣR_i·/ΣR: the entropies have base K, and codes are
    weighted by their importance. C is the same for the columns of R, with base L. I is the held-out
    accuracy of the probe, or its R² for a continuous factor. R is estimated on all folds but one,
    and I on the remaining one. At least two factors are needed; the lasso leaves out factors whose
    values are words. The lasso has more permutations by default (50, or 10 for the reference);
    trees are fitted once for each permutation. preset="reference" is as in disentanglement_lib
    (boosted), Tripod (forest) or the code of Carbonneau et al. (lasso; in sample).

    Parameters
    ----------
    probe : "forest", "lasso" or "boosted"
        Importances are impurity decreases of a random forest, absolute coefficients of the lasso,
        or gains of boosted trees (on binned codes, which is eight times as fast; on the codes
        themselves for the reference).

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


@dataclass(frozen=True)
class Settings:
    """How a probe is run.

    It uses at most `most` rows and is fitted on the share `train` of them (None: on all folds but
    one, for each fold). `even` gives all factors the same weight in completeness.
    """

    words: str
    permutations: int
    most: int
    train: float | None = None
    where: str = HELD_OUT
    even: bool = False
    model: str = ""


SETTINGS = {
    ("forest", False): Settings(
        "Random forest, 10 trees of depth 10 on half the rows each, all codes at every split, at "
        "most 4,000 rows.",
        5, 4_000, model="small forest",
    ),
    ("forest", True): Settings(
        "Random forest, 100 trees of depth 10, entropy, 90 % of at most 15,000 rows.",
        2, 15_000, 0.9, ONE_SPLIT, model="forest",
    ),
    ("boosted", False): Settings(
        "Gradient boosting on binned codes, 100 trees of depth 3 per class, at most 5,000 rows.",
        5, 5_000, model="binned",
    ),
    ("boosted", True): Settings(
        "Gradient boosting, 100 trees of depth 3, two thirds of at most 15,000 rows.",
        2, 15_000, 2 / 3, ONE_SPLIT, model="boosted",
    ),
    ("lasso", False): Settings("Lasso, penalty chosen on a separate fold.", 50, 10**9),
    ("lasso", True): Settings(
        "Lasso of columns scaled to [0, 1], penalty by 10-fold cross-validation; informativeness "
        "max(1 − 12 MSE, 0).",
        10, 10**9, where=IN_SAMPLE, even=True,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Importances:
    """Importances (…, L, K) and the scores of the probes that they come from.

    `fits` (G, L, K) are those that are reported, `without` (F, L, K) those without each fold, and
    `null` (P, G', L, K) those of permuted rows. `scores` (1 + P, K) have the true order first.
    """

    fits: Array
    without: Array
    null: Array
    scores: Array
    scores_without: Array
    rows: int

    @classmethod
    def of(cls, found: Refits) -> Importances:
        """From fits that return the importances of all codes followed by the probe's score."""
        true, null, without = (
            each[..., :-1].swapaxes(-1, -2) for each in (found.true, found.null, found.without)
        )
        scores, apart = found.true[..., -1].mean(0), found.without[..., -1]
        if not len(without):  # each fit is without a fold, and each score is that of a fold
            each = found.true[..., -1]
            without, apart = true, (each.sum(0) - each) / (FOLDS - 1)
        every = np.concatenate([scores[None], found.null[:, 0, :, -1]])
        return cls(true, without, null, every, apart, found.rows)


def importances_of_trees(trial: Trial, settings: Settings) -> Importances:
    """Impurity importances, and accuracy or R² on other rows.

    Each permutation is fitted only once: without the first fold, or on the single split.
    """
    splits = held_out if settings.train is None else partial(one_split, share=settings.train)
    fit = partial(_fit, settings.model, trial.data.seed)
    return Importances.of(trial.refit(fit, splits, most=settings.most, null_splits=1))


def _fit(model: str, seed: int, z: Array, values: NDArray[Any], train: Rows, test: Rows) -> Array:
    """Importances of the codes, then accuracy (for classes, which are integers) or R²."""
    discrete = values.dtype.kind == "i"
    if len(np.unique(values[train])) < 2:  # nothing to learn
        agree = np.mean(values[test] == values[train][0]) if discrete else 0.0
        return np.append(np.zeros(z.shape[1]), agree)
    machine = _machine(model, discrete=discrete, seed=seed)
    if hasattr(machine, "n_jobs") and z.size > ROOM:
        machine.n_jobs = -1
    fitted(machine, z[train], values[train])
    if hasattr(machine, "n_jobs"):
        machine.n_jobs = 1  # threads sum predictions in any order, so rounding would vary
    predicted = machine.predict(z[test])
    if discrete:
        return np.append(_gains(machine, z.shape[1]), np.mean(predicted == values[test]))
    total = ((values[test] - values[test].mean()) ** 2).sum()
    missed = ((values[test] - predicted) ** 2).sum()
    return np.append(_gains(machine, z.shape[1]), 1.0 - missed / total if total > 0 else 0.0)


def _machine(model: str, *, discrete: bool, seed: int) -> Any:
    from sklearn import ensemble

    options: dict[str, Any] = {"random_state": seed}
    if model == "boosted":
        exact = (ensemble.GradientBoostingRegressor, ensemble.GradientBoostingClassifier)
        return exact[discrete](**options)
    if model == "binned":
        # Leaves of at least 5 rows: with scikit-learn's 20, a hundred rows are hardly split.
        options |= {"max_depth": 3, "min_samples_leaf": 5, "early_stopping": False}
        fast = (ensemble.HistGradientBoostingRegressor, ensemble.HistGradientBoostingClassifier)
        return fast[discrete](**options)
    options |= {"max_depth": 10}
    if model == "small forest":
        # All codes at every split: if the right one were not offered, others would gain importance.
        options |= {"n_estimators": 10, "max_samples": 0.5, "max_features": 1.0}
    elif discrete:
        options["criterion"] = "entropy"
    kind = ensemble.RandomForestClassifier if discrete else ensemble.RandomForestRegressor
    return kind(**options)


def _gains(machine: Any, width: int) -> Array:
    """The share of every code in the total gain of the splits.

    scikit-learn has no importances for trees on binned codes, so they are summed from the nodes.
    """
    if hasattr(machine, "feature_importances_"):
        found: Array = machine.feature_importances_
        return found
    total = np.zeros(width)
    for tree in (tree for stage in machine._predictors for tree in stage):
        splits = tree.nodes[tree.nodes["is_leaf"] == 0]
        total += np.bincount(splits["feature_idx"], weights=splits["gain"], minlength=width)
    return ratio(total, total.sum())


def importances_of_lasso(trial: Trial, settings: Settings) -> Importances:
    """Absolute coefficients for columns of variance 1, and R²; in sample if as published."""
    if settings.where == IN_SAMPLE:
        return Importances.of(trial.refit(_published, in_sample, values=attrgetter("values")))
    blocks = labelled_sums(trial)
    slopes, over, under = blocks.each(lambda sums: held_out_penalised(sums, lasso_path))
    weights, (scores, without) = np.abs(slopes), pooled(over, under)
    fits, null = weights[:, :, 0], np.moveaxis(weights[:, :, 1:], 2, 0)
    return Importances(fits, fits, null, scores, without, blocks.rows)


def _published(z: Array, values: Array, train: Rows, _: Rows) -> Array:
    from sklearn.linear_model import LassoCV

    z, values = _unit_range(z[train]), _unit_range(values[train])
    model = fitted(LassoCV(alphas=PENALTIES, cv=min(10, len(z))), z, values)
    error = float(np.mean((model.predict(z) - values) ** 2))
    return np.append(np.abs(model.coef_), max(1.0 - 12.0 * error, 0.0))


def _unit_range(values: Array) -> Array:
    low, high = values.min(axis=0), values.max(axis=0)
    return np.asarray((values - low) / np.where(high > low, high - low, 1.0))
