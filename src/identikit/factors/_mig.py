"""Mutual information gap."""

from __future__ import annotations

import numpy as np

from identikit._linalg import Array
from identikit.factors._metric import Trial, metric
from identikit.factors._resample import pooled
from identikit.factors._result import Score
from identikit.factors._tables import information

NO_INTERVAL = (
    "MIG has no interval here: without some of the rows a factor has one value only; it takes more "
    "rows of each value"
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
    """Mean over factors of (I(z_a; s) − I(z_b; s)) / H(s), a and b the two codes that know most.

    The two codes are chosen on other rows, so that chance scores 0. Codes (and continuous factors)
    are cut into bins of equal frequency. The bias of I and H, of order 1/n, is removed by the
    jackknife over folds (Quenouille 1956), so that the value does not drift with the number of
    rows, and few rows cost a perfect code nothing. preset="reference" has 20 bins of equal width,
    no correction, in sample.

    Parameters
    ----------
    codes, factors, names, kinds, seed
        As `prepare` takes them.
    preset : None or "reference"
        Held out, or as in disentanglement_lib.
    bins : int, optional
        Of every code; by default 20, held out no more than a fifth of a fold's rows.
    noise : float
        Standard deviation of noise added to codes of variance 1: the resolution of interest.
        Without it, codes on a lattice tell what they hold however little it moves them.
    permutations : int
        For the chance level; 50 by default.

    Examples
    --------
    >>> s = np.random.default_rng(0).integers(5, size=(2000, 3))
    >>> round(mig(s, s).value, 2)
    1.0
    """
    found = information(trial, bins, noise)
    if trial.reference:
        values = _gap(found.whole, found.whole) / found.whole_entropy
        # Without a fold a factor may have one value, and no value of its own then.
        with np.errstate(invalid="ignore"):
            without = (_gap(found.train, found.train) / found.train_entropy)[:, 0]
    else:
        weight, gap = found.n[:, None], _gap(found.train, found.held_out)
        several = pooled(weight * gap, weight * found.held_out_entropy)
        # The correction for very few rows is rough, and may be too much.
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
    """What the code that knows most has over the second; which they are is decided by `train`.

    Codes are the last axis but one.
    """
    order = np.argsort(-train, axis=-2, kind="stable")
    top = np.take_along_axis(test, order, axis=-2)
    # A single code has no rival.
    return np.asarray(top[..., 0, :] - (top[..., 1, :] if top.shape[-2] > 1 else 0.0))
