"""Importances from random forests and boosted trees."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.factors._importance import Importances, Settings
from identikit.factors._metric import Trial
from identikit.factors._probe import fitted
from identikit.factors._resample import Rows, held_out, one_split, ratio

#: Size of the codes above which several threads are worth their cost.
ROOM = 50_000


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
