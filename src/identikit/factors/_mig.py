"""Mutual information gap (MIG)."""

from __future__ import annotations

import numpy as np

from identikit._linalg import Array
from identikit.factors._metric import Trial, metric
from identikit.factors._resample import pooled
from identikit.factors._result import Score
from identikit.factors._tables import information

NO_INTERVAL = (
    "MIG has no interval here: without some of the rows a factor has one value only; more rows of "
    "each value are needed"
)


@metric(
    "MIG",
    "Does one code know more of a factor than any other code?",
    invariant_to="permutation and monotone function per code",
    reference="Chen et al. 2018",
    permutations=50,
    place=40,
)
def mig(trial: Trial, *, bins: int | None = None, noise: float = 0.0) -> Score:
    """Mean over factors of (I(z_a; s) − I(z_b; s)) / H(s), for the two most informative codes.

    The two codes a and b are chosen on other rows, so that chance is 0. Codes (and continuous
    factors) are cut into bins of equal frequency. The bias of I and H, of order 1/n, is removed by
    the jackknife over folds (Quenouille 1956), so that the value does not depend on the number of
    rows, and a perfect code scores 1 even with few rows. preset="reference" uses 20 bins of equal
    width, without correction, in sample.

    Parameters
    ----------
    codes, factors, names, kinds, seed
        As in `prepare`.
    preset : None or "reference"
        Held out, or as in disentanglement_lib.
    bins : int, optional
        Number of bins per code; by default 20, or for held-out scores a fifth of a fold's rows if
        that is fewer.
    noise : float
        Standard deviation of the noise added to codes of variance 1: the resolution of interest.
        Without noise, even a factor that changes a code on a lattice very little counts in full.
    permutations : int
        Number of permutations for the chance level; 50 by default.

    Examples
    --------
    >>> s = np.random.default_rng(0).integers(5, size=(2000, 3))
    >>> round(mig(s, s).value, 2)
    1.0
    """
    found = information(trial, bins, noise)
    if trial.reference:
        values = _gap(found.whole, found.whole) / found.whole_entropy
        # Without a fold a factor may be constant; its MIG is then NaN.
        with np.errstate(invalid="ignore"):
            without = (_gap(found.train, found.train) / found.train_entropy)[:, 0]
    else:
        weight, gap = found.n[:, None], _gap(found.train, found.held_out)
        several = pooled(weight * gap, weight * found.held_out_entropy)
        # With very few rows the bias correction is rough and may exceed the maximum of 1.
        values, without = (np.minimum(each, 1.0) for each in several)
    part = trial.mean_part("MIG", values, without)
    return trial.score(
        part,
        found.words,
        rows=found.rows,
        matrix=np.clip(found.whole[0] / found.whole_entropy[0], 0.0, 1.0),
        matrix_of="mutual information / entropy",
        warnings=() if part.interval is not None else (NO_INTERVAL,),
    )


def _gap(train: Array, test: Array) -> Array:
    """Information of the best code minus that of the second best; `train` decides which they are.

    Codes are the last axis but one.
    """
    order = np.argsort(-train, axis=-2, kind="stable")
    top = np.take_along_axis(test, order, axis=-2)
    # With a single code there is nothing to subtract.
    return np.asarray(top[..., 0, :] - (top[..., 1, :] if top.shape[-2] > 1 else 0.0))
