"""The log-likelihood variance distance d_LLV: its terms, and the sets of labels and inputs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.family import _model
from identikit.family._pair import Ints, Pair

#: Up to this many labels, every label is tried as the pivot, at the cost of K × K matrices.
ALL_PIVOTS = 2000


class Side(NamedTuple):
    """One side of d_LLV: the labels over all inputs, or the inputs over all labels.

    `items` has the pivot first, and `loss` is 1 − corr(z_i, w_i) for every item after it; `term` is
    t1 (for inputs t2), and `spread` is t3 (t4). Items in `left_out` were dropped by choice, those
    in `skipped` because their ψ is zero. `one_pivot` is whether no other pivot was tried.
    """

    items: Ints
    term: float
    spread: float
    loss: Array
    left_out: Ints
    skipped: Ints
    one_pivot: bool = False


def _nearest_to_centre(pair: Pair) -> int:
    """The label that is nearest to the mean of all, by shares of the squares of both models."""
    squares = np.concatenate([pair.deviations(labels) for labels in pair.label_blocks()], axis=1)
    total = squares.sum(axis=1, keepdims=True)
    shares = np.divide(squares, total, out=np.zeros_like(squares), where=total > 0)
    return int(shares.sum(axis=0).argmin())


def label_side(pair: Pair, M: int, fixed: Ints | None) -> Side:
    """t1 and t3 of the labels, which are chosen as in Nielsen et al. unless they are fixed.

    For every pivot the worst label is left out, and the pivot with the smallest remaining maximum
    is chosen. Above `ALL_PIVOTS` labels the pivot is the label nearest to the mean of all labels.
    """
    one_pivot = fixed is None and pair.K > ALL_PIVOTS
    if fixed is not None:
        pivot = int(fixed[0])
    else:
        pivot = _nearest_to_centre(pair) if one_pivot else _best_pivot(pair, M)
    values, loss, spread, varies = _label_terms(pair, pivot)
    others = np.delete(np.arange(pair.K), pivot)
    skipped, left_out = others[~varies[others]], np.empty(0, dtype=np.intp)
    if fixed is not None:
        kept = fixed[1:]
        if not varies[kept].all():
            raise InputError(
                f"the log-odds of label {pair.labels[kept[~varies[kept]][0]]} against the pivot, "
                f"label {pair.labels[pivot]}, are the same for every input (ψ = 0), so d_LLV is "
                "not defined on these labels; choose others"
            )
        skipped, left_out = skipped[:0], np.setdiff1d(others, kept)
    else:
        kept = others[varies[others]]
        if len(kept) < M:
            raise _constant("labels", M)
        if len(kept) > M:
            left_out = kept[[values[kept].argmax()]]
            kept = kept[kept != left_out[0]]
    return Side(
        np.append(pivot, kept),
        float(values[kept].max()),
        float(spread[kept].max()),
        loss[kept],
        left_out,
        skipped,
        one_pivot,
    )


def _label_terms(pair: Pair, pivot: int) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
    """For every label with this pivot: t1, 1 − corr, |ψ − ψ'|, and whether both ψ are positive."""
    at = pair.columns(np.array([pivot]))
    terms, spread = np.zeros((3, pair.K)), np.zeros(pair.K)
    varies = np.zeros(pair.K, dtype=bool)
    for labels in pair.label_blocks():
        both = pair.columns(labels)
        squares = np.stack([np.square(block).sum(axis=1) for block in both])
        own = np.stack([np.square(block).sum() for block in at])[:, None]
        odds = np.stack([np.square(b - p).sum(axis=1) for b, p in zip(both, at, strict=True)])
        varies[labels] = np.all(odds > pair.constant**2 * (squares + own), axis=0)
        psi = np.sqrt(np.where(varies[labels], odds, 1.0) / (pair.n - 1))
        spread[labels] = np.abs(psi[0] - psi[1])
        # Squaring differences, instead of subtracting squares, gives equal models a distance of
        # 1e-15 and not of 1e-8.
        scale = psi[:, :, None]
        label = both[0] / scale[0] - both[1] / scale[1]
        fixed = at[0] / scale[0] - at[1] / scale[1]
        for which, gap in enumerate((label, fixed, label - fixed)):
            terms[which, labels] = np.square(gap).sum(axis=1)
    terms /= pair.n - 1
    return np.sqrt(terms[:2].max(axis=0)), terms[2] / 2, spread, varies


def _best_pivot(pair: Pair, M: int) -> int:
    """The pivot that the search of Nielsen et al. finds, from second moments of log-likelihoods.

    For nearly equal models, moments lose half of the digits, so they are used only for this choice
    and not for the distance itself.
    """
    ours, theirs = pair.columns(slice(None))
    scatter = np.stack([ours @ ours.T, theirs @ theirs.T])
    cross = np.einsum("ij,ij->i", ours, theirs)
    diagonal = np.diagonal(scatter, axis1=1, axis2=2)
    sums = diagonal[:, :, None] + diagonal[:, None, :]
    odds = sums - 2 * scatter
    varies = np.all(odds > pair.constant**2 * sums, axis=0)
    np.fill_diagonal(varies, False)
    psi = np.sqrt(np.where(varies, odds, 1.0))
    # Rows are labels and columns pivots. Both log-likelihoods are divided by the ψ of the pair.
    label = (
        diagonal[0][:, None] / psi[0] ** 2
        + diagonal[1][:, None] / psi[1] ** 2
        - 2 * cross[:, None] / (psi[0] * psi[1])
    )
    worst = np.where(varies, np.maximum(label, label.T), -np.inf)
    count = np.count_nonzero(varies, axis=0)
    if count.max() < M:
        raise _constant("labels", M)
    ranked = np.sort(worst, axis=0)
    left = np.where(count > M, ranked[-2], ranked[-1])
    # Only pivots for which the fewest labels have to be skipped are considered.
    return int(np.where(count == count.max(), left, np.inf).argmin())


def input_side(
    pair: Pair, M: int, candidates: int, seed: int, fixed: Ints | None
) -> tuple[Side, Array]:
    """t2 and t4 of the inputs, fixed or the best of some random sets, and E[z̃ w̃ᵀ]."""
    sets = _draw(pair.n, M, candidates, seed) if fixed is None else fixed[None]
    step = max(1, _model.BLOCK // (8 * (M + 1) * pair.K))
    values = np.concatenate(
        [_input_terms(pair, sets[at : at + step])[0] for at in range(0, len(sets), step)]
    )
    best = int(values.argmin())
    if not np.isfinite(values[best]):
        if fixed is None:
            raise _constant("inputs", M)
        raise InputError(
            f"one of the inputs {fixed.tolist()} has the same log-likelihoods as the pivot up to a "
            "constant (ψ = 0), so d_LLV is not defined on these inputs; choose others"
        )
    _, (psi, ours, theirs) = _input_terms(pair, sets[best : best + 1])
    ours, theirs = ours[0] / psi[0, 0][:, None], theirs[0] / psi[1, 0][:, None]
    loss = np.square(ours - theirs).sum(axis=1) / (pair.K - 1) / 2
    none = np.empty(0, dtype=np.intp)
    spread = float(np.abs(psi[0] - psi[1]).max())
    side = Side(sets[best], float(values[best]), spread, loss, none, none)
    return side, ours @ theirs.T / (pair.K - 1)


def _draw(n: int, M: int, candidates: int, seed: int) -> Ints:
    """Random sets of M + 1 inputs: disjoint if there are enough inputs, otherwise independent."""
    rng = np.random.default_rng(seed)
    size = candidates * (M + 1)
    if size <= n:
        return rng.permutation(n)[:size].reshape(candidates, M + 1)
    return np.stack([rng.choice(n, M + 1, replace=False) for _ in range(candidates)])


def _input_terms(pair: Pair, sets: Ints) -> tuple[Array, tuple[Array, Array, Array]]:
    """t2 of every set (infinite if a ψ is zero), then both ψ and log-likelihood differences."""
    both = np.stack(pair.rows(sets))
    odds = both[:, :, 1:] - both[:, :, :1]
    squares, spread = np.square(both).sum(axis=-1), np.square(odds).sum(axis=-1)
    varies = spread > pair.constant**2 * (squares[:, :, 1:] + squares[:, :, :1])
    psi = np.sqrt(np.where(varies, spread, 1.0) / (pair.K - 1))
    scale = psi[..., None]
    own = both[0, :, 1:] / scale[0] - both[1, :, 1:] / scale[1]
    pivot = both[0, :, :1] / scale[0] - both[1, :, :1] / scale[1]
    squared = np.maximum(np.square(own).sum(axis=-1), np.square(pivot).sum(axis=-1)).max(axis=-1)
    usable = varies.all(axis=(0, 2))
    values = np.where(usable, np.sqrt(squared / (pair.K - 1)), np.inf)
    return values, (psi, odds[0], odds[1])


def _constant(what: str, M: int) -> InputError:
    other = "input" if what == "labels" else "label"
    return InputError(
        f"no {M + 1} {what} were found whose log-likelihood differences vary from {other} to "
        f"{other} in both models (ψ = 0), so d_LLV is not defined; try a smaller M, or other or "
        f"more {what}"
    )
