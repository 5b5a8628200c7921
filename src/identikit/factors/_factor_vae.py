"""The FactorVAE score: which factor was fixed, told by the code that varies least."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.factors._batches import BATCH, Pool, eligible, in_chunks, pools, share
from identikit.factors._data import prepare
from identikit.factors._factor import Kinds
from identikit.factors._permute import check_held_out, is_reference
from identikit.factors._registry import metric
from identikit.factors._result import (
    HELD_OUT,
    IN_SAMPLE,
    Excluded,
    Score,
    mean_part,
    method,
)
from identikit.moments import FOLDS

VOTES = 5_000
TRAIN, TEST = 10_000, 5_000
#: The reference leaves out codes with a standard deviation below this.
PRUNED = 0.05
PERMUTATIONS = 20


@metric(
    "FactorVAE score",
    "Does a code of its own stand still when a factor does?",
    invariant_to="signed permutation and scale per code",
    place=61,
    reference="Kim and Mnih 2018",
)
def factor_vae(
    codes: object,
    factors: object = None,
    *,
    names: Sequence[str] | None = None,
    kinds: Kinds = None,
    seed: int = 0,
    preset: str | None = None,
    permutations: int = PERMUTATIONS,
) -> Score:
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
        For the chance level.
    """
    reference = is_reference(preset)
    data = prepare(codes, factors, names=names, kinds=kinds, seed=seed)
    check_held_out(data.rows, "the FactorVAE score")
    scored, excluded = eligible(data, "the FactorVAE score")
    K = len(scored)
    spread = data.codes.std(axis=0, ddof=1)
    kept = spread >= PRUNED if reference else np.ones(len(spread), dtype=bool)
    excluded += tuple(
        Excluded("code", name, f"its standard deviation is {size:.3g}, below {PRUNED}")
        for name, size, there in zip(data.code_names, spread, kept)
        if not there
    )
    if not kept.any():
        raise InputError(f"every code has a standard deviation below {PRUNED}; there is no score")
    z = data.codes[:, kept] / spread[kept]
    rng = np.random.default_rng(data.seed)
    right, without, shown = [], np.empty((FOLDS, K)), np.empty((len(spread), K))
    for order, parts in enumerate(pools(data, scored, permutations, whole=reference)):
        if reference:
            for place, every in enumerate(parts if order == 0 else parts[:1]):
                learned, judged = (_votes(z, every, n // K, rng) for n in (TRAIN, TEST))
                if place == 0:
                    right.append(_told(learned, judged))
                    votes = judged[None]
                else:
                    without[place - 1] = _told(learned, judged)
        else:
            votes = np.array([_votes(z, every, share(VOTES, K), rng) for every in parts])
            hits = np.array([_told(votes.sum(0) - own, own) for own in votes])
            right.append(hits.mean(0))
        if order == 0:
            shown[kept] = votes.sum(0) / votes.sum((0, 1))
            if not reference:
                without = (hits.sum(0) - hits) / (FOLDS - 1)
    titles = tuple(factor.name for factor in scored)
    number = TRAIN + TEST if reference else share(VOTES, K) * K * FOLDS
    words = f"Majority of {number:,} votes of {BATCH} rows."
    names_kept = tuple(name for name, there in zip(data.code_names, kept) if there)
    scores = (mean_part("accuracy", np.array(right), without, titles, 0.0),)
    return Score(
        "factor_vae",
        scores,
        data.known_rows(scored),
        names_kept,
        titles,
        excluded,
        method(words, scores, IN_SAMPLE if reference else HELD_OUT),
        shown[kept],
        "share of votes",
    )


def _votes(
    z: Array, every: Sequence[Pool], votes: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """How often each code varies least when each factor is fixed (L, K)."""
    found = np.zeros((z.shape[1], len(every)), dtype=np.int64)
    for place, pool in enumerate(every):
        for rows in in_chunks(pool.classmates(rng, votes)):
            least = np.argmin(z[rows].var(axis=1), axis=1)
            found[:, place] += np.bincount(least, minlength=z.shape[1])
    return found


def _told(learned: NDArray[np.int64], judged: NDArray[np.int64]) -> Array:
    """The share of each factor's votes that go to a code that stands for it."""
    stands_for = np.argmax(learned, axis=1)
    right = np.zeros(learned.shape[1])
    np.add.at(right, stands_for, judged[np.arange(len(judged)), stands_for])
    return np.asarray(right / judged.sum(0))
