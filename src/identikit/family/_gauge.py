"""The map between two models, from f and from g alone, and whether the two agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array, eigh
from identikit.alignment import GROUPS, ladder
from identikit.alignment._stats import whitened_stats
from identikit.errors import InputError
from identikit.family._diversity import choose_tuple
from identikit.family._model import SoftmaxModel
from identikit.family._normal_form import lifted, span
from identikit.moments import Moments, accumulate

#: A squared gap below this share of the squares it is the difference of is rounding.
ROUNDING = 1e-13


@dataclass(frozen=True)
class Gauge:
    """What two models share: f_b = A f_a (+ shift), g_b = A⁻ᵀ g_a + c.

    `A_from_f` and `A_from_g` (M_b, M_a) are estimated from one side each, on column vectors; under
    equal distributions they are one matrix. `A_from_tuples` uses no more of g than M differences of
    labels, A = L'⁻ᵀ Lᵀ (Roeder et al., Equation 7): a certificate, noisier than all labels together
    (None if the models identify unequal dimensions).

    `kappa` = ‖A_g⁻¹ A_f − I‖_F / √r says how far A_f and A_g are from being one, in coordinates in
    which f_a is white (`kappa_raw`: in its own). `logit_gap` is √E‖Z_c − Z'_c‖² of the
    label-centred logits over the spread of a's, `logit_gap_absolute` not.

    Where a distribution leaves directions free (fewer labels than dimensions, say), both sides are
    projected on what it identifies first: `identified` is that dimension, `free` how many are left
    in a and in b. `error` is the held-out error of f_b from f_a there, `shift` the constant that
    only a bias allows.
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
    shift: Array | None
    constant: Array
    notes: tuple[str, ...]


def gauge(a: SoftmaxModel, b: SoftmaxModel) -> Gauge:
    """Estimate the map from model a to model b from f, and from g alone (Roeder et al. 2021).

    High CCA of f and of g shows that some A and some B exist; equal distributions need B = A⁻ᵀ as
    well (Theorem 1, and the missing constant of Appendix C): that is what `kappa` tests.

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
    check_pair(a, b)
    notes = []
    bases = [_identified(model) for model in (a, b)]
    ranks = [basis.shape[1] for basis in bases]
    for model, rank in zip((a, b), ranks):
        if rank == 0:
            raise InputError(
                f"model {model.name!r} gives every label the same logit, so its distribution "
                "identifies nothing and there is no map to estimate"
            )
    if ranks[0] != ranks[1]:
        notes.append(
            f"the distributions identify {ranks[0]} and {ranks[1]} dimensions, so they differ; the "
            "maps are least-squares fits between these"
        )
    free = a.M - ranks[0], b.M - ranks[1]
    for model, left in zip((a, b), free):
        if left:
            notes.append(
                f"model {model.name!r}: {model.K} labels and its inputs identify "
                f"{model.M - left} of {model.M} dimensions, {left} are free"
            )
    fa, fb = (model.f.astype(np.float64) @ basis for model, basis in zip((a, b), bases))
    ga, gb = (model.centred_g @ basis for model, basis in zip((a, b), bases))
    biased = a.bias is not None or b.bias is not None
    xa = fa - fa.mean(axis=0) if biased else fa
    inputs, labels = accumulate([fa, fb], sample=0), accumulate([ga, gb], folds=1, sample=0)
    group = "affine" if biased else "linear"
    A_f = _fit(inputs, group).T
    B = _fit(labels, "affine")  # of rows: G_b = G_a B, so B estimates A⁻¹
    A_g = np.linalg.pinv(B)
    gap = B @ A_f - np.eye(ranks[0])
    values, vectors = eigh(xa.T @ xa)
    root = np.sqrt(np.maximum(values, 1e-300))
    white = (vectors / root).T @ gap @ (vectors * root)
    scale = np.sqrt(ranks[0])
    absolute, spread = _logit_gap(a, b)
    held_out, _ = ladder(inputs, 0, 1, (group,))[group]
    constant = b.g.astype(np.float64).mean(axis=0) - bases[1] @ (
        np.linalg.pinv(A_f).T @ (bases[0].T @ a.g.astype(np.float64).mean(axis=0))
    )
    shift = fb.mean(axis=0) - A_f @ fa.mean(axis=0) if biased else None
    return Gauge(
        A_from_f=bases[1] @ A_f @ bases[0].T,
        A_from_g=bases[1] @ A_g @ bases[0].T,
        A_from_tuples=_from_tuples(ga, gb, labels, bases),
        kappa=float(np.linalg.norm(white) / scale),
        kappa_raw=float(np.linalg.norm(gap) / scale),
        logit_gap=absolute / spread if spread > 0 else float(absolute > 0),
        logit_gap_absolute=absolute,
        identified=min(ranks),
        free=free,
        error=held_out.error,
        shift=None if shift is None else bases[1] @ shift,
        constant=constant,
        notes=tuple(notes),
    )


def _fit(moments: Moments, group: str) -> Array:
    """Weights of the least-squares map from view 0 to view 1: y ≈ x W (+ b)."""
    stats, _ = whitened_stats(moments, 0, 1)
    weights, shift = GROUPS[group].fit(stats)
    assert stats.white is not None
    weights = stats.white @ weights
    if group == "linear" and stats.constant is not None:
        weights = weights + np.outer(stats.constant, shift)
    return weights


def _from_tuples(ga: Array, gb: Array, labels: Moments, bases: list[Array]) -> Array | None:
    """A = L'⁻ᵀ Lᵀ from M differences, chosen on a's whitened g."""
    if ga.shape[1] != gb.shape[1] or len(ga) <= ga.shape[1]:
        return None
    chosen = choose_tuple(ga @ labels.whitening_map(0))
    left, right = (g[chosen[1:]] - g[chosen[0]] for g in (ga, gb))  # Lᵀ and L'ᵀ, by rows
    A: Array = bases[1] @ np.linalg.pinv(right) @ left @ bases[0].T
    return A


def check_pair(a: SoftmaxModel, b: SoftmaxModel) -> None:
    """Raise unless two models are over the same inputs and labels."""
    if a.n != b.n:
        raise InputError(
            f"model {a.name!r} has {a.n} inputs and model {b.name!r} has {b.n}; compare them on "
            "the same inputs in the same order"
        )
    if a.K != b.K:
        raise InputError(
            f"model {a.name!r} has {a.K} labels and model {b.name!r} has {b.K}; compare them over "
            "the same labels in the same order"
        )


def _identified(model: SoftmaxModel) -> Array:
    """Basis (M, r) of the part of f-space that the distribution sees.

    p sees f only through its products with differences of g, so the part outside their span is
    free; and g only through f, so of that span the part that f reaches counts.
    """
    f, g = model.f.astype(np.float64), model.centred_g
    eps = float(max(np.finfo(model.f.dtype).eps, np.finfo(model.g.dtype).eps))
    of_g = span(g, eps)
    reached = span(f @ of_g, eps)
    basis: Array = of_g @ reached
    return basis


def _logit_gap(a: SoftmaxModel, b: SoftmaxModel) -> tuple[float, float]:
    """√E‖Z_c − Z'_c‖² and √E‖Z_c‖², from products of second moments; no n × K table."""
    (fa, ga), (fb, gb) = lifted(a), lifted(b)
    same = float(np.vdot(fa.T @ fa, ga.T @ ga))
    other = float(np.vdot(fb.T @ fb, gb.T @ gb))
    cross = float(np.vdot(fa.T @ fb, ga.T @ gb))
    square = same + other - 2 * cross
    square = square if square > ROUNDING * (same + other) else 0.0
    return float(np.sqrt(square / a.n)), float(np.sqrt(same / a.n))
