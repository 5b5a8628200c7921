"""Explicitness: can a linear classifier predict a factor's classes from the codes?"""

from __future__ import annotations

import numpy as np

from identikit._linalg import Array
from identikit.factors._bins import Labels
from identikit.factors._metric import Trial, metric
from identikit.factors._probe import CLASSES, PROBED, ROWS, area, logistic, probed, ten_classes
from identikit.factors._resample import TEST, TRAIN, Rows, one_split
from identikit.factors._result import ONE_SPLIT, Score


@metric(
    "explicitness",
    "Can a linear classifier read each factor off the codes?",
    invariant_to="invertible affine maps",
    reference="Ridgeway and Mozer 2018",
    permutations=(PROBED, 5),
    place=43,
)
def explicitness(trial: Trial) -> Score:
    """Mean over factors and classes of the area under the ROC curve, one class against the rest.

    The classifier is a logistic regression with a small ridge on whitened codes, scored on held-out
    rows; chance is 0.5. Continuous factors are cut into 10 classes of equal frequency. At most
    10,000 rows are used. preset="reference" fits codes that are not whitened, on two thirds of at
    most 15,000 rows.

    Parameters
    ----------
    codes, factors, names, kinds, seed
        As in `prepare`.
    preset : None or "reference"
        Held out over folds, or one split as in disentanglement_lib.
    permutations : int, optional
        Number of permutations for the chance level; 10 by default, 5 for the reference.
    """
    trial.needs_folds()
    if trial.reference:
        found = trial.refit(_area, one_split, values=ten_classes)
        values, without = found.means()
        how, most = "fitted on two thirds of the rows", f"{TRAIN:,} + {TEST:,}"
    else:
        found = probed(trial)
        values, without = (each[..., 0] for each in found.means())
        how, most = "with a small ridge on whitened codes", f"{ROWS:,}"
    many = f"{CLASSES} classes of continuous factors"
    return trial.score(
        trial.mean_part("explicitness", values, without, 0.0),
        f"Logistic regression {how}; {many}; {most} rows at most.",
        ONE_SPLIT if trial.reference else None,
        rows=found.rows,
    )


def _area(z: Array, labels: Labels, train: Rows, test: Rows) -> float:
    classes = np.unique(labels[train])
    scored = test[np.isin(labels[test], classes)]
    if len(classes) < 2 or not len(scored):
        return 0.5
    shares = logistic(z[train], labels[train]).predict_proba(z[scored])
    return area(shares, np.searchsorted(classes, labels[scored]))
