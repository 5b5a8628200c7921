"""Mean correlation coefficient of codes and factors, matched one to one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.factors import _linear as linear
from identikit.factors._data import prepare
from identikit.factors._factor import Kinds
from identikit.factors._linear import Sums, correlations, gathered
from identikit.factors._permute import check_held_out, is_reference, pooled, ratio
from identikit.factors._rdc import dependence
from identikit.factors._registry import metric
from identikit.factors._result import (
    HELD_OUT,
    IN_SAMPLE,
    Part,
    Score,
    chance_of,
    interval_of,
    method,
    named,
)

Blocks = Sequence[tuple[list[int], Sums]]

PERMUTATIONS = 200
CORRELATIONS = ("pearson", "spearman", "rdc")
REFERENCE = "Hyvärinen and Morioka 2016"


@metric(
    "MCC, Pearson",
    "Does each factor have a code of its own, up to scale?",
    invariant_to="signed permutation and scale per code",
    place=10,
    reference=REFERENCE,
)
@metric(
    "MCC, Spearman",
    "Does each factor have a code of its own, up to a monotone function?",
    invariant_to="permutation and monotone function per code",
    place=11,
    reference=f"{REFERENCE}; Khemakhem et al. 2020",
    name="mcc_spearman",
    correlation="spearman",
)
@metric(
    "MCC after a linear map",
    "Is each factor a linear function of the codes?",
    invariant_to="invertible affine maps",
    place=12,
    reference="Khemakhem et al. 2020",
    name="mcc_linear",
    after="linear",
)
def mcc(
    codes: object,
    factors: object = None,
    *,
    names: Sequence[str] | None = None,
    kinds: Kinds = None,
    seed: int = 0,
    preset: str | None = None,
    correlation: str = "pearson",
    after: str | None = None,
    permutations: int = PERMUTATIONS,
) -> Score:
    """Mean correlation of factors with codes, matched one to one so that it is largest.

    MCC = (1/k) Σ_j ± corr(s_j, z_π(j)), k = min(K, L); matching π and signs from the rows outside
    a fold, correlations within it, so that it is 0 at chance. It is far from 0 for an arbitrary
    rotation of the factors: read it beside `rotation_level`. preset="reference" is the usual
    |corr| in sample, which is above 0 at chance: 1.4/√n at K = 5.

    Parameters
    ----------
    codes, factors, names, kinds, seed
        As `prepare` takes them; factors of words are left out.
    preset : None or "reference"
        Held out, or in sample as in the field (icebeem, `mean_corr_coef`).
    correlation : "pearson", "spearman" or "rdc"
        Spearman's ranks are those of all rows; ties get their mean rank. The randomised dependence
        coefficient is for preset="reference" only: few rows make it 1 whatever the data.
    after : None or "linear"
        "linear" correlates each factor with its least-squares fit from all codes ("weak" MCC).
    permutations : int
        For the chance level.

    Examples
    --------
    >>> s = np.random.default_rng(0).normal(size=(500, 3))
    >>> round(mcc(-2 * s[:, [2, 0, 1]], s).value, 6)
    1.0
    """
    reference = is_reference(preset)
    if correlation not in CORRELATIONS:
        raise InputError(f"correlation is {correlation!r}; expected one of {CORRELATIONS}")
    if after not in (None, "linear") or (after and correlation != "pearson"):
        raise InputError(
            f"after is {after!r} with {correlation}; expected None, or 'linear' with pearson"
        )
    if correlation == "rdc" and not reference:
        raise InputError("correlation='rdc' has no sign to hold out; use preset='reference'")
    data = prepare(codes, factors, names=names, kinds=kinds, seed=seed)
    scored, excluded = data.numeric("MCC")
    if not reference:
        check_held_out(data.rows, "MCC")
    width = len(scored)
    # In sample, a factor has a code of its own or none; a fitted line every factor has.
    matches = min(width, data.codes.shape[1]) if after is None else width
    if correlation == "rdc":
        whole, rest, n = dependence(data, scored, permutations)
        values, without, matrix = signed(whole, whole)[0], signed(rest, rest)[:, 0], whole
    else:
        ranked = correlation == "spearman"
        blocks, n = linear.labelled_sums(data, scored, permutations, ranked=ranked)
        rule = _after_line if after else _matched
        values, without = rule(blocks, width, data.eps, reference=reference)
        every = [(places, correlations(s.total().first(len(places)))) for places, s in blocks]
        matrix = gathered(every, width)
    value = values.sum(-1) / matches
    part = Part(
        "MCC",
        float(value[0]),
        interval_of(float(value[0]), without.sum(-1) / matches),
        chance_of(value[1:]),
        named([factor.name for factor in scored], values[0]),
    )
    title = {"rdc": "Randomised dependence"}.get(correlation, correlation.capitalize())
    words = f"{title} correlation" + (" after least squares." if after else ".")
    return Score(
        "mcc",
        (part,),
        n,
        data.code_names,
        tuple(factor.name for factor in scored),
        excluded,
        method(words, (part,), IN_SAMPLE if reference else HELD_OUT),
        None if after else matrix[0, :, 0],
        None if after else "correlation",
    )


def _matched(blocks: Blocks, width: int, _: float, *, reference: bool) -> tuple[Array, Array]:
    """Correlations of matched pairs (1 + P, K), and the true order's without each fold (F, K)."""
    every = [(places, sums, sums.without_each()) for places, sums in blocks]
    if reference:
        whole = gathered([(p, correlations(s.total())) for p, s, _ in every], width)
        rest = gathered([(p, correlations(w.first(len(p)))) for p, _, w in every], width)
        return signed(whole, whole)[0], signed(rest, rest)[:, 0]
    train = gathered([(p, correlations(w)) for p, _, w in every], width)
    test = gathered([(p, correlations(s)) for p, s, _ in every], width)
    weight = gathered([(p, s.n[:, None] * (s.var_s > 0)) for p, s, _ in every], width)
    values, without = pooled(signed(train, test) * weight, weight)
    return values, without[:, 0]


def signed(train: Array, test: Array) -> Array:
    """Test correlations (F, P, K) of the pairs, and with the signs, that train correlations choose.

    Parameters
    ----------
    train, test : array (F, L, P, K)
        Correlations of L codes with K factors, for P orders of rows.
    """
    from scipy.optimize import linear_sum_assignment

    found = np.zeros((train.shape[0], *train.shape[2:]))
    for fold, order in np.ndindex(found.shape[:2]):
        chosen = train[fold, :, order]
        code, factor = linear_sum_assignment(-np.abs(chosen))
        sign = np.where(chosen[code, factor] < 0, -1.0, 1.0)
        found[fold, order, factor] = sign * test[fold, code, order, factor]
    return found


def _after_line(blocks: Blocks, width: int, eps: float, *, reference: bool) -> tuple[Array, Array]:
    """The same for the fit of every factor by least squares from all codes."""
    if reference:
        whole = gathered([(p, _fit(s.total(), s.total(), eps)) for p, s in blocks], width)
        some = [(p, s.first(len(p)).without_each()) for p, s in blocks]
        return whole[0], gathered([(p, _fit(w, w, eps)) for p, w in some], width)[:, 0]
    fits = gathered([(p, _fit(s.without_each(), s, eps)) for p, s in blocks], width)
    weight = gathered([(p, s.n[:, None] * (s.var_s > 0)) for p, s in blocks], width)
    values, without = pooled(fits * weight, weight)
    return values, without[:, 0]


def _fit(train: Sums, test: Sums, eps: float) -> Array:
    """Correlation of each column with its fit (F, Q)."""
    slopes = linear.coefficients(train, eps)
    inside = np.einsum("flq,flq->fq", slopes, test.cov_zs)
    fitted = np.einsum("flq,flm,fmq->fq", slopes, test.cov_zz, slopes, optimize=True)
    scale = np.sqrt(np.maximum(fitted, 0.0) * test.var_s)
    return np.clip(ratio(inside, scale), -1.0, 1.0)
