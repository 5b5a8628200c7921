"""The importance of every code for every factor: how the probes are run and what they return."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array
from identikit.factors._metric import Refits
from identikit.factors._result import HELD_OUT, IN_SAMPLE, ONE_SPLIT
from identikit.moments import FOLDS


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
