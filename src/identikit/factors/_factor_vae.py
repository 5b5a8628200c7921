"""The FactorVAE score: which factor was fixed, told by the code that varies least."""

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
#: The reference leaves out codes with a standard deviation below this.
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
    """Accuracy of telling which factor 64 rows share by the code that varies least among them.

    Variances are in units of the code's own, and a code stands for the factor that it votes for
    most often. 5,000 votes, as many of every factor, each within one of 5 folds; those of a fold
    are judged by the others'. Continuous factors are fixed within one of 20 classes of equal
    frequency. preset="reference": 10,000 votes to learn and 5,000 to judge, both from all rows, and
    codes with a standard deviation below 0.05 left out.

    Parameters
    ----------
    codes, factors, names, kinds, seed
        As `prepare` takes them; at least two factors.
    preset : None or "reference"
        As above, or as in disentanglement_lib.
    permutations : int
        For the chance level; 20 by default.
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
        raise InputError(f"every code has a standard deviation below {PRUNED}; there is no score")
    z = data.codes[:, kept] / spread[kept]

    def draw(pools: Sequence[Pool], votes: int, rng: np.random.Generator) -> Votes:
        found = np.zeros((z.shape[1], len(pools)), dtype=np.int64)
        for place, pool in enumerate(pools):
            for rows in in_chunks(pool.classmates(rng, votes)):
                least = np.argmin(z[rows].var(axis=1), axis=1)
                found[:, place] += np.bincount(least, minlength=z.shape[1])
        return found

    def judge(learned: list[Votes], judged: Votes) -> Array:
        """The share of each factor's votes that go to a code that stands for it."""
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
