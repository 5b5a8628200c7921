"""The β-VAE score: which factor was kept, told from the differences of codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from identikit._linalg import Array
from identikit.factors._batches import BATCH, Pool, eligible, in_chunks, pools, share
from identikit.factors._bins import Labels
from identikit.factors._data import prepare
from identikit.factors._factor import Kinds
from identikit.factors._permute import check_held_out, is_reference
from identikit.factors._probe import logistic
from identikit.factors._registry import metric
from identikit.factors._result import HELD_OUT, IN_SAMPLE, Score, mean_part, method
from identikit.moments import FOLDS

BATCHES = 4_000
TRAIN, TEST = 10_000, 5_000
PERMUTATIONS, REFERENCE_PERMUTATIONS = 20, 10


@metric(
    "β-VAE score",
    "Do the codes show which factor two rows share?",
    invariant_to="signed permutation and scale per code",
    place=60,
    reference="Higgins et al. 2017",
)
def beta_vae(
    codes: object,
    factors: object = None,
    *,
    names: Sequence[str] | None = None,
    kinds: Kinds = None,
    seed: int = 0,
    preset: str | None = None,
    permutations: int | None = None,
) -> Score:
    """Accuracy of telling, from mean |z − z'| over 64 pairs of rows that share a factor, which one.

    Logistic regression from differences in units of their standard deviations. 4,000 batches, as
    many of every factor, each within one of 5 folds; those of a fold are scored by what was fitted
    on the others'. 1/K is chance. Continuous factors are shared if they fall into the same of 20
    classes of equal frequency. preset="reference": 10,000 batches to fit and 5,000 to score, both
    from all rows, differences as they are.

    Parameters
    ----------
    codes, factors, names, kinds, seed
        As `prepare` takes them; at least two factors.
    preset : None or "reference"
        As above, or as in disentanglement_lib.
    permutations : int, optional
        For the chance level; by default 20, and 10 for the reference.
    """
    reference = is_reference(preset)
    count = permutations
    if count is None:
        count = REFERENCE_PERMUTATIONS if reference else PERMUTATIONS
    data = prepare(codes, factors, names=names, kinds=kinds, seed=seed)
    check_held_out(data.rows, "the β-VAE score")
    scored, excluded = eligible(data, "the β-VAE score")
    K = len(scored)
    rng = np.random.default_rng(data.seed)
    right, without = [], np.empty((FOLDS, K))
    for order, parts in enumerate(pools(data, scored, count, whole=reference)):
        if reference:
            for place, every in enumerate(parts if order == 0 else parts[:1]):
                drawn = [_differences(data.codes, every, n // K, rng) for n in (TRAIN, TEST)]
                hits = _recalls(drawn[0], drawn[1], K, scaled=False)
                if place == 0:
                    right.append(hits)
                else:
                    without[place - 1] = hits
            continue
        drawn = [_differences(data.codes, every, share(BATCHES, K), rng) for every in parts]
        hits = np.array([_held_out(drawn, fold, K) for fold in range(FOLDS)])
        right.append(hits.mean(0))
        if order == 0:
            without = (hits.sum(0) - hits) / (FOLDS - 1)
    titles = tuple(factor.name for factor in scored)
    number = TRAIN + TEST if reference else share(BATCHES, K) * K * FOLDS
    words = f"Logistic regression from {number:,} batches of {BATCH} pairs."
    scores = (mean_part("accuracy", np.array(right), without, titles, 0.0),)
    return Score(
        "beta_vae",
        scores,
        data.known_rows(scored),
        data.code_names,
        titles,
        excluded,
        method(words, scores, IN_SAMPLE if reference else HELD_OUT),
    )


def _differences(
    codes: Array, every: Sequence[Pool], batches: int, rng: np.random.Generator
) -> tuple[Array, Labels]:
    """Mean |z − z'| of batches (K·batches, L), and which factor each shares."""
    found = []
    for pool in every:
        pairs = pool.pairs(rng, batches)
        for a, b in zip(*map(in_chunks, pairs)):
            found.append(np.abs(codes[a] - codes[b]).mean(axis=1))
    return np.concatenate(found), np.repeat(np.arange(len(every)), batches)


def _held_out(drawn: Sequence[tuple[Array, Labels]], fold: int, K: int) -> Array:
    others = [each for place, each in enumerate(drawn) if place != fold]
    train = np.concatenate([z for z, _ in others]), np.concatenate([k for _, k in others])
    return _recalls(train, drawn[fold], K, scaled=True)


def _recalls(
    train: tuple[Array, Labels], test: tuple[Array, Labels], K: int, *, scaled: bool
) -> Array:
    """The share of each factor's batches that are told right."""
    scale = train[0].std(axis=0) if scaled else np.ones(train[0].shape[1])
    scale = np.where(scale > 0, scale, 1.0)
    model = logistic(train[0] / scale, train[1])
    right = model.predict(test[0] / scale) == test[1]
    return np.bincount(test[1], weights=right, minlength=K) / np.bincount(test[1], minlength=K)
