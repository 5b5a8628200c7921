"""Importances by random forests and boosted trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.factors._data import Data
from identikit.factors._factor import Factor
from identikit.factors._importance import Importances, Settings
from identikit.factors._permute import Mask, folds, inside, orders, ratio
from identikit.factors._probe import fitted
from identikit.moments import FOLDS

#: Numbers in codes that are worth several threads.
ROOM = 50_000


def importances_of_trees(
    data: Data, scored: Sequence[Factor], settings: Settings, count: int
) -> Importances:
    """Impurity importances, and accuracy or R² on other rows.

    Permuted rows are fitted once each, without the first fold or on the one split.
    """
    split = settings.train is not None
    shape = data.codes.shape[1], len(scored)
    fits, without = np.empty((FOLDS, *shape)), np.empty((FOLDS, *shape))
    null, scores = np.empty((1 + count, 1, *shape)), np.empty((1 + count, shape[1]))
    apart = np.empty((FOLDS, shape[1]))
    most = 0
    for place, factor in enumerate(scored):
        ((z, rows, _),) = data.blocks([factor], settings.most)
        values = (factor.values if factor.labels is None else factor.labels)[rows]
        fit = _Fit(settings.model, z, factor.labels is not None, data.seed)
        n = len(z)
        most = max(most, n)
        first = folds(n)[0] if settings.train is None else slice(int(n * settings.train), n)
        test = inside(n, first)
        for order, shuffled in enumerate(orders(n, count, data.seed)):
            if order == 0 and not split:  # fitted below, without each fold
                continue
            null[order, 0, :, place], scores[order, place] = fit(values[shuffled], ~test, test)
        for fold, part in enumerate(folds(n)):
            if split:  # without some of the train and some of the test rows
                rest = np.arange(n) % FOLDS != fold
                left = test & rest  # of very few test rows, none
                found = fit(values, ~test & rest, left if left.any() else test)
            else:
                found = fit(values, ~inside(n, part), inside(n, part))
            without[fold, :, place], apart[fold, place] = found
    if split:
        fits = null[0]
    else:  # each score is that of a fold; without it, the mean of the others
        fits, scores[0] = without, apart.mean(0)
        apart = (apart.sum(0) - apart) / (FOLDS - 1)
    return Importances(fits, without, null[1:], scores, apart, most)


@dataclass(frozen=True)
class _Fit:
    """Fits trees to some rows: importances, and accuracy or R² on others."""

    model: str
    z: Array
    discrete: bool
    seed: int

    def __call__(self, values: NDArray[Any], train: Mask, test: Mask) -> tuple[Array, float]:
        if len(np.unique(values[train])) < 2:  # nothing to learn
            agree = np.mean(values[test] == values[train][0]) if self.discrete else 0.0
            return np.zeros(self.z.shape[1]), float(agree)
        machine = _machine(self.model, discrete=self.discrete, seed=self.seed)
        if hasattr(machine, "n_jobs") and self.z.size > ROOM:
            machine.n_jobs = -1  # for less, threads cost more than they save
        fitted(machine, self.z[train], values[train])
        if hasattr(machine, "n_jobs"):
            machine.n_jobs = 1  # threads add up predictions in any order, and so to other digits
        found = _gains(machine, self.z.shape[1])
        said = machine.predict(self.z[test])
        if self.discrete:
            return found, float(np.mean(said == values[test]))
        total = float(((values[test] - values[test].mean()) ** 2).sum())
        missed = float(((values[test] - said) ** 2).sum())
        return found, 1.0 - missed / total if total > 0 else 0.0


def _machine(model: str, *, discrete: bool, seed: int) -> Any:
    from sklearn import ensemble

    options: dict[str, Any] = {"random_state": seed}
    if model == "boosted":
        exact = (ensemble.GradientBoostingRegressor, ensemble.GradientBoostingClassifier)
        return exact[discrete](**options)
    if model == "binned":
        # Leaves of 5 rows: with scikit-learn's 20, a hundred rows are hardly split at all.
        options |= {"max_depth": 3, "min_samples_leaf": 5, "early_stopping": False}
        fast = (ensemble.HistGradientBoostingRegressor, ensemble.HistGradientBoostingClassifier)
        return fast[discrete](**options)
    options |= {"max_depth": 10}
    if model == "small forest":
        # All codes at every split: where the right one is not on offer, the others gain importance.
        options |= {"n_estimators": 10, "max_samples": 0.5, "max_features": 1.0}
    elif discrete:
        options["criterion"] = "entropy"
    kind = ensemble.RandomForestClassifier if discrete else ensemble.RandomForestRegressor
    return kind(**options)


def _gains(machine: Any, width: int) -> Array:
    """Share of every code in what splits gain.

    scikit-learn has no importances of trees on binned codes; the gains are in their nodes.
    """
    if hasattr(machine, "feature_importances_"):
        found: Array = machine.feature_importances_
        return found
    total = np.zeros(width)
    for tree in (tree for stage in machine._predictors for tree in stage):
        splits = tree.nodes[tree.nodes["is_leaf"] == 0]
        total += np.bincount(splits["feature_idx"], weights=splits["gain"], minlength=width)
    return ratio(total, total.sum())
