"""The β-VAE score: predict which factor was fixed from the differences between codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from identikit._linalg import Array
from identikit.factors._batches import BATCH, Pool, in_chunks, sharing, told
from identikit.factors._bins import Labels
from identikit.factors._metric import Trial, metric
from identikit.factors._probe import logistic
from identikit.factors._result import Score

BATCHES = 4_000
#: Mean |z − z'| of every batch, and the factor that its rows share.
Differences = tuple[Array, Labels]


@metric(
    "β-VAE score",
    "Do the codes show which factor two rows share?",
    invariant_to="signed permutation and scale per code",
    reference="Higgins et al. 2017",
    permutations=(20, 10),
    called="the β-VAE score",
    place=60,
)
def beta_vae(trial: Trial) -> Score:
    """Accuracy of predicting the factor that 64 pairs of rows share, from their mean |z − z'|.

    The predictor is a logistic regression on the differences, each in units of its standard
    deviation. There are 4,000 batches, the same number for every factor, and each lies within one
    of 5 folds; the batches of a fold are scored by a model fitted on the other folds. Chance is
    1/K. Two rows share a continuous factor if its values fall into the same of 20 classes of equal
    frequency. preset="reference" fits on 10,000 batches and scores 5,000, both from all rows, and
    does not rescale the differences.

    Parameters
    ----------
    codes, factors, names, kinds, seed
        As in `prepare`; at least two factors are needed.
    preset : None or "reference"
        As described above, or as in disentanglement_lib.
    permutations : int, optional
        Number of permutations for the chance level; 20 by default, 10 for the reference.
    """
    trial.needs_folds()
    trial = sharing(trial)
    codes, K = trial.data.codes, len(trial.factors)

    def draw(pools: Sequence[Pool], batches: int, rng: np.random.Generator) -> Differences:
        found = []
        for pool in pools:
            for a, b in zip(*map(in_chunks, pool.pairs(rng, batches))):
                found.append(np.abs(codes[a] - codes[b]).mean(axis=1))
        return np.concatenate(found), np.repeat(np.arange(K), batches)

    def judge(learned: list[Differences], judged: Differences) -> Array:
        z, shared = (np.concatenate(each) for each in zip(*learned))
        scale = np.ones(z.shape[1]) if trial.reference else z.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        model = logistic(z / scale, shared)
        right = model.predict(judged[0] / scale) == judged[1]
        counts = np.bincount(judged[1], minlength=K)
        return np.bincount(judged[1], weights=right, minlength=K) / counts

    found = told(trial, draw, judge, BATCHES)
    part = trial.mean_part("accuracy", found.right, found.without, 0.0)
    return trial.score(
        part, f"Logistic regression from {found.batches:,} batches of {BATCH} pairs."
    )
