"""The linear map between two models, from f and from g, and coordinates that need no map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array, rank_tolerance, svd, triangle
from identikit._threads import one_thread
from identikit.alignment import RUNGS, ladder, whitened_stats
from identikit.errors import InputError
from identikit.family._diversity import choose_tuple
from identikit.family._model import SoftmaxModel
from identikit.family._pair import Ints, Pair
from identikit.moments import FOLDS, Moments, accumulate


@dataclass(frozen=True)
class Gauge:
    """The map between two models: f_b = A f_a (+ shift), g_b = A⁻ᵀ g_a + c.

    `A_from_f` and `A_from_g` (M_b, M_a) act on column vectors and are estimated from f alone and
    from g alone; if the distributions are equal, they are the same matrix. `A_from_tuples` uses
    only M differences of labels, A = L'⁻ᵀ Lᵀ (Roeder et al., Equation 7). It is a certificate that
    is noisier than an estimate from all labels (None if the models identify different numbers of
    dimensions).

    `kappa` = ‖G_a (A_g⁻¹ A_f − I) F_aᵀ‖ / ‖G_a F_aᵀ‖ (g centred over labels, and f over inputs
    if there is a bias) says how much A_f and A_g differ, with each direction weighted by its effect
    on the logits. It is the part of the logit gap that is due to the difference of the two maps, so
    without a bias or candidates it is never larger than `logit_gap`. `kappa_raw` =
    ‖A_g⁻¹ A_f − I‖_F / √r weights all directions equally. `logit_gap` is √E‖Z_c − Z'_c‖² of the
    label-centred logits divided by the spread of a's logits, and `logit_gap_absolute` is not
    divided; if both models share candidates, only the logits of candidates count.

    A distribution may leave directions free, for example if there are fewer labels than dimensions,
    or if f or g has directions that do not affect the logits. Both models are then first projected
    onto what is identified: `identified` is that dimension, and `free` counts the other dimensions
    of a and of b. `error` is the held-out error of predicting f_b from f_a there, and `label_error`
    that of the best affine map between g_a and g_b, in the worse direction (None if there are too
    few labels to hold any out). `shift` is the constant that only a bias allows.
    """

    A_from_f: Array
    A_from_g: Array
    A_from_tuples: Array | None
    kappa: float
    kappa_raw: float
    logit_gap: float
    logit_gap_absolute: float
    identified: int
    free: tuple[int, int]
    error: float
    label_error: float | None
    shift: Array | None
    constant: Array
    notes: tuple[str, ...]


def gauge(a: SoftmaxModel, b: SoftmaxModel) -> Gauge:
    """Estimate the map from model a to b, once from f and once from g alone (Roeder et al. 2021).

    A high CCA of f and of g shows that some A and some B exist. Equal distributions also need
    B = A⁻ᵀ (Theorem 1, with the constant that is missing in Appendix C); `kappa` tests this.

    Parameters
    ----------
    a, b : SoftmaxModel
        Two models of the same inputs and labels, in the same order.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> f, g, A = rng.normal(size=(200, 3)), rng.normal(size=(9, 3)), rng.normal(size=(3, 3))
    >>> same = SoftmaxModel(f @ A.T, g @ np.linalg.inv(A) + 5.0)
    >>> result = gauge(SoftmaxModel(f, g), same)
    >>> bool(np.allclose(result.A_from_f, A)), bool(np.allclose(result.A_from_g, A))
    (True, True)
    """
    return pair_gauge(Pair(a, b))


def pair_gauge(pair: Pair, pivots: Ints | None = None) -> Gauge:
    """`gauge` for a Pair, whose cached decompositions other computations can reuse.

    Parameters
    ----------
    pair : Pair
    pivots : array of int, optional
        The pivots of `diversity(a)`, if they are known.
    """
    a, b = pair.models
    notes = []
    seen = [model.identified(affine=pair.affine) for model in (a, b)]
    ranks = [each.rank for each in seen]
    if ranks[0] != ranks[1]:
        notes.append(
            f"the distributions identify {ranks[0]} and {ranks[1]} dimensions, so they differ; the "
            "maps are least-squares fits between these"
        )
    for model, rank in zip((a, b), ranks):
        if rank == 0:
            raise InputError(
                f"model {model.name!r} gives every label the same logit, so its distribution "
                "identifies nothing and there is no map to estimate"
            )
        if rank < model.M:
            notes.append(
                f"model {model.name!r}: {model.K} labels and its inputs identify {rank} of "
                f"{model.M} dimensions; {model.M - rank} are free"
            )
    fa, fb = (m.f.astype(np.float64) @ each.to_f for m, each in zip((a, b), seen))
    ga, gb = (pair.label_map(m)[:, : m.M] @ each.to_g for m, each in zip((a, b), seen))
    xa = fa - fa.mean(axis=0) if pair.affine else fa
    inputs = accumulate([fa, fb], folds=FOLDS, sample=0)
    labels = accumulate([ga, gb], folds=min(FOLDS, pair.K), sample=0)
    group = "affine" if pair.affine else "linear"
    gap_norm, spread, _ = pair.logit_norms
    with one_thread(max(a.M, b.M)):
        A_f = _fit(inputs, group).T
        B = _fit(labels, "affine")  # for rows, G_b = G_a B, so B estimates A⁻¹
        A_g = np.linalg.pinv(B)
        gap = B @ A_f - np.eye(ranks[0])
        held_out, _ = ladder(inputs, 0, 1, (group,))[group]
        label_error = _label_error(labels)
        back = np.linalg.pinv(A_f).T
    to_b, from_a = seen[1].axes, seen[0].to_f.T
    constant = b.mean_g - to_b @ (back @ (seen[0].to_g.T @ a.mean_g))
    shift = fb.mean(axis=0) - A_f @ fa.mean(axis=0) if pair.affine else None
    tuples = _from_tuples(ga, gb, labels, a.M, pivots)
    return Gauge(
        A_from_f=to_b @ A_f @ from_a,
        A_from_g=to_b @ A_g @ from_a,
        A_from_tuples=None if tuples is None else to_b @ tuples @ from_a,
        kappa=_disagreement(gap, xa, ga),
        kappa_raw=float(np.linalg.norm(gap)) / ranks[0] ** 0.5,
        logit_gap=gap_norm / spread if spread > 0 else float(gap_norm > 0),
        logit_gap_absolute=gap_norm / a.n**0.5,
        identified=min(ranks),
        free=(a.M - ranks[0], b.M - ranks[1]),
        error=held_out.error,
        label_error=label_error,
        shift=None if shift is None else to_b @ shift,
        constant=constant,
        notes=tuple(notes),
    )


def _disagreement(gap: Array, f: Array, g: Array) -> float:
    """‖G (A_g⁻¹A_f − I) Fᵀ‖ / ‖G Fᵀ‖: the difference of two maps by its effect on the logits."""
    of_f, of_g = triangle(f), triangle(g)
    spread = float(np.linalg.norm(of_g @ of_f.T))
    return float(np.linalg.norm(of_g @ gap @ of_f.T)) / spread if spread > 0 else 0.0


def _fit(moments: Moments, group: str) -> Array:
    """Weights of the least-squares map from view 0 to view 1: y ≈ x W (+ b)."""
    stats, _ = whitened_stats(moments, 0, 1)
    weights, shift = RUNGS[group].fit(stats)
    assert stats.white is not None
    weights = stats.white @ weights
    if group == "linear" and stats.constant is not None:
        weights = weights + np.outer(stats.constant, shift)
    return weights


def _from_tuples(
    ga: Array, gb: Array, labels: Moments, width: int, pivots: Ints | None
) -> Array | None:
    """A = L'⁻ᵀ Lᵀ from M label differences, which are chosen by the whitened g of model a."""
    if ga.shape[1] != gb.shape[1] or len(ga) <= ga.shape[1]:
        return None
    if pivots is not None and len(pivots) == width + 1 == ga.shape[1] + 1:
        chosen = pivots
    else:
        chosen = choose_tuple(ga @ labels.whitening_map(0))
    left, right = (g[chosen[1:]] - g[chosen[0]] for g in (ga, gb))  # Lᵀ and L'ᵀ
    return np.asarray(np.linalg.pinv(right) @ left)


def _label_error(labels: Moments) -> float | None:
    fewest = min(labels.n(without=fold) for fold in range(labels.folds))
    # An affine map of r dimensions needs at least r + 1 points.
    if fewest < max(labels.widths) + 1:
        return None
    return max(side.error for side in ladder(labels, 0, 1, ("affine",))["affine"])


@dataclass(frozen=True)
class NormalForm:
    """f and g in coordinates that are determined by the distribution.

    `singular_values` are those of the label-centred logits F G_cᵀ (n × K); `rank` is the number of
    those that are not rounding errors, the effective complexity. ``f @ g.T`` are the centred
    logits.
    """

    f: Array
    g: Array
    singular_values: Array
    rank: int


def normal_form(model: SoftmaxModel) -> NormalForm:
    """Coordinates in which two models with equal distributions are equal, even at other widths.

    With F = Q_F R_F, G_c = Q_G R_G and R_F R_Gᵀ = U Σ Vᵀ, they are f = Q_F U Σ^½ and g = Q_G V Σ^½.
    The cost is O((n + K) M²), without the n × K table. The sign of each axis makes its largest
    entry in g positive; equal singular values leave a rotation undetermined.

    Parameters
    ----------
    model : SoftmaxModel
    """
    f, g = model.lifted_f, model.lifted_g
    (qf, rf), (qg, rg) = np.linalg.qr(f), np.linalg.qr(g)
    left, values, right = svd(rf @ rg.T)
    eps = max(model.eps_f, model.eps_g)
    # These are singular values of a product of two factors that were both rounded.
    least = max(rank_tolerance(max(f.shape), max(g.shape), eps), 1e-12) * max(values[0], 1e-300)
    rank = int(np.count_nonzero(values > least))
    root = np.sqrt(values[:rank])
    f, g = qf @ left[:, :rank] * root, qg @ right[:rank].T * root
    largest = g[np.abs(g).argmax(axis=0), np.arange(rank)]
    sign = np.where(largest < 0, -1.0, 1.0)
    return NormalForm(f * sign, g * sign, values, rank)
