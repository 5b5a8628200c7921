"""The FactorVAE score: predict which factor was fixed from the code that varies least."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.factors._batches import BATCH, Pool, in_chunks, sharing, told
from identikit.factors._metric import Trial, metric
from identikit.factors._result import Excluded, Score

VOTES = 5_000
#: The reference leaves out codes whose standard deviation is below this.
PRUNED = 0.05
#: How often each code varies least when each factor is fixed (L, K).
Votes = NDArray[np.int64]


@metric(
    "FactorVAE score",
    "Does a code of its own stand still when a factor does?",
    invariant_to="signed permutation and scale per code",
    reference="Kim and Mnih 2018",
    permutations=20,
    called="the FactorVAE score",
    place=61,
)
def factor_vae(trial: Trial) -> Score:
    """Accuracy of predicting the factor that 64 rows share from the code that varies least in them.

    Variances are relative to the variance of the code over all rows, and every code predicts the
    factor for which it has the most votes. There are 5,000 votes, the same number for every factor,
    and each comes from rows of one of 5 folds; the votes of a fold are judged by the other folds.
    A continuous factor counts as fixed within one of 20 classes of equal frequency.
    preset="reference" learns from 10,000 votes and judges 5,000, both from all rows, and leaves out
    codes with a standard deviation below 0.05.

    Parameters
    ----------
    codes, factors, names, kinds, seed
        As in `prepare`; at least two factors are needed.
    preset : None or "reference"
        As described above, or as in disentanglement_lib.
    permutations : int
        Number of permutations for the chance level; 20 by default.
    """
    trial.needs_folds()
    trial = sharing(trial)
    data = trial.data
    spread = data.codes.std(axis=0, ddof=1)
    kept = spread >= (PRUNED if trial.reference else 0.0)
    pruned = tuple(
        Excluded("code", name, f"its standard deviation is {size:.3g}, below {PRUNED}")
        for name, size, there in zip(data.code_names, spread, kept)
        if not there
    )
    if not kept.any():
        raise InputError(
            f"every code has a standard deviation below {PRUNED}, so there is nothing to score"
        )
    z = data.codes[:, kept] / spread[kept]

    def draw(pools: Sequence[Pool], votes: int, rng: np.random.Generator) -> Votes:
        found = np.zeros((z.shape[1], len(pools)), dtype=np.int64)
        for place, pool in enumerate(pools):
            for rows in in_chunks(pool.classmates(rng, votes)):
                least = np.argmin(z[rows].var(axis=1), axis=1)
                found[:, place] += np.bincount(least, minlength=z.shape[1])
        return found

    def judge(learned: list[Votes], judged: Votes) -> Array:
        """The share of each factor's votes that go to a code that predicts this factor."""
        stands_for = np.argmax(np.sum(learned, axis=0), axis=1)
        right = np.zeros(judged.shape[1])
        np.add.at(right, stands_for, judged[np.arange(len(judged)), stands_for])
        return np.asarray(right / judged.sum(0))

    found = told(trial, draw, judge, VOTES)
    votes = np.sum(found.drawn, axis=0)
    return trial.score(
        trial.mean_part("accuracy", found.right, found.without, 0.0),
        f"Majority of {found.batches:,} votes of {BATCH} rows.",
        matrix=votes / votes.sum(0),
        matrix_of="share of votes",
        codes=tuple(name for name, there in zip(data.code_names, kept) if there),
        excluded=pruned,
    )
