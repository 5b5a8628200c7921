"""Mean correlation coefficient (MCC) of codes and factors that are matched one to one."""

from __future__ import annotations

import numpy as np

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.factors._linear import Blocks, Sums, coefficients, correlations, labelled_sums
from identikit.factors._metric import Trial, also, metric
from identikit.factors._rdc import dependence
from identikit.factors._resample import pooled, ratio
from identikit.factors._result import Score, named, part_of

CORRELATIONS = ("pearson", "spearman", "rdc")
REFERENCE = "Hyvärinen and Morioka 2016"


@also(
    "mcc_linear",
    "MCC after a linear map",
    "Is each factor a linear function of the codes?",
    invariant_to="invertible affine maps",
    reference="Khemakhem et al. 2020",
    place=12,
    after="linear",
)
@also(
    "mcc_spearman",
    "MCC, Spearman",
    "Does each factor have a code of its own, up to a monotone function?",
    invariant_to="permutation and monotone function per code",
    reference=f"{REFERENCE}; Khemakhem et al. 2020",
    place=11,
    correlation="spearman",
)
@metric(
    "MCC, Pearson",
    "Does each factor have a code of its own, up to scale?",
    invariant_to="signed permutation and scale per code",
    reference=REFERENCE,
    permutations=200,
    called="MCC",
    place=10,
)
def mcc(trial: Trial, *, correlation: str = "pearson", after: str | None = None) -> Score:
    """Mean correlation of factors with codes under the one-to-one matching that maximises it.

    MCC = (1/k) Σ_j ± corr(s_j, z_π(j)), k = min(K, L). The matching π and the signs come from the
    rows outside a fold and the correlations from the rows within it, so that chance is 0. An
    arbitrary rotation of the factors scores far above 0: compare MCC with `rotation_level`.
    preset="reference" is the usual |corr| in sample, which is above 0 at chance: 1.4/√n at K = 5.

    Parameters
    ----------
    codes, factors, names, kinds, seed
        As in `prepare`; factors whose values are words are left out.
    preset : None or "reference"
        Held out, or in sample as in common implementations (icebeem, `mean_corr_coef`).
    correlation : "pearson", "spearman" or "rdc"
        Spearman's ranks are taken over all rows; ties share their mean rank. The randomised
        dependence coefficient is for preset="reference" only: with few rows it is 1 for any data.
    after : None or "linear"
        "linear" correlates each factor with its least-squares fit from all codes ("weak" MCC).
    permutations : int
        Number of permutations for the chance level; 200 by default.

    Examples
    --------
    >>> s = np.random.default_rng(0).normal(size=(500, 3))
    >>> round(mcc(-2 * s[:, [2, 0, 1]], s).value, 6)
    1.0
    """
    if correlation not in CORRELATIONS:
        raise InputError(f"correlation is {correlation!r}; expected one of {CORRELATIONS}")
    if after not in (None, "linear") or (after and correlation != "pearson"):
        raise InputError(
            f"after is {after!r} with {correlation}; expected None, or 'linear' with pearson"
        )
    if correlation == "rdc" and not trial.reference:
        raise InputError(
            "correlation='rdc' is not available for held-out rows, as it has no sign; use "
            "preset='reference'"
        )
    trial = trial.numeric()
    # After a linear map every factor has its own fit; otherwise at most one code per factor.
    matches = len(trial.factors) if after else min(len(trial.factors), trial.width)
    if correlation == "rdc":
        whole, rest, n = dependence(trial)
        values, without, matrix = signed(whole, whole)[0], signed(rest, rest)[:, 0], whole
    else:
        blocks = labelled_sums(trial, ranked=correlation == "spearman")
        rule = _after_line if after else _matched
        values, without = rule(blocks, trial)
        (matrix,) = blocks.true.each(lambda sums: (correlations(sums.total()),))
        n = blocks.rows
    part = part_of(
        "MCC",
        values.sum(-1) / matches,
        without.sum(-1) / matches,
        per_factor=named(trial.titles, values[0]),
    )
    title = {"rdc": "Randomised dependence"}.get(correlation, correlation.capitalize())
    words = f"{title} correlation" + (" after least squares." if after else ".")
    shown = None if after else matrix[0, :, 0]
    return trial.score(part, words, rows=n, matrix=shown, matrix_of="correlation")


def _matched(blocks: Blocks, trial: Trial) -> tuple[Array, Array]:
    """Correlations of matched pairs (1 + P, K), and without each fold for the true order (F, K)."""
    if trial.reference:
        (whole,) = blocks.each(lambda sums: (correlations(sums.total()),))
        (rest,) = blocks.true.each(lambda sums: (correlations(sums.without_each()),))
        return signed(whole, whole)[0], signed(rest, rest)[:, 0]
    train, test, weight = blocks.each(
        lambda sums: (correlations(sums.without_each()), correlations(sums), _weight(sums))
    )
    return pooled(signed(train, test) * weight, weight)


def _weight(sums: Sums) -> Array:
    """Number of rows of each fold, and 0 for columns that are constant in it."""
    return sums.n[:, None] * (sums.var_s > 0)


def signed(train: Array, test: Array) -> Array:
    """Test correlations (F, P, K) of matched pairs; matching and signs come from `train`.

    Both arrays (F, L, P, K) hold the correlations of L codes with K factors for P orders of rows.
    """
    from scipy.optimize import linear_sum_assignment

    found = np.zeros((train.shape[0], *train.shape[2:]))
    for fold, order in np.ndindex(found.shape[:2]):
        chosen = train[fold, :, order]
        code, factor = linear_sum_assignment(-np.abs(chosen))
        sign = np.where(chosen[code, factor] < 0, -1.0, 1.0)
        found[fold, order, factor] = sign * test[fold, code, order, factor]
    return found


def _after_line(blocks: Blocks, trial: Trial) -> tuple[Array, Array]:
    """The same as `_matched`, with every factor's least-squares fit from all codes as its code."""

    def fit(train: Sums, test: Sums) -> Array:
        slopes = coefficients(train, trial.data.eps)
        inside = np.einsum("flq,flq->fq", slopes, test.cov_zs)
        fitted = np.einsum("flq,flm,fmq->fq", slopes, test.cov_zz, slopes, optimize=True)
        scale = np.sqrt(np.maximum(fitted, 0.0) * test.var_s)
        return np.clip(ratio(inside, scale), -1.0, 1.0)

    if trial.reference:
        (whole,) = blocks.each(lambda sums: (fit(sums.total(), sums.total()),))
        (rest,) = blocks.true.each(lambda sums: (fit(sums.without_each(), sums.without_each()),))
        return whole[0], rest[:, 0]
    fits, weight = blocks.each(lambda sums: (fit(sums.without_each(), sums), _weight(sums)))
    return pooled(fits * weight, weight)
