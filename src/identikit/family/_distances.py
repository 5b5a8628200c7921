"""Distances between two softmax models, as distributions and as representations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from math import comb, isfinite
from typing import NoReturn

import numpy as np

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.family._llv import Side, input_side, label_side
from identikit.family._model import SoftmaxModel
from identikit.family._pair import Ints, Pair, same_candidates

#: The most sets of M labels for d_fg; if there are more sets, a sample of this size is drawn.
SUBSETS = 5000

#: Upper limit for the number of sets times M³, the cost of their singular values.
SUBSET_WORK = 2e8

#: Number of labels that a sample of sets is drawn from.
POOL = 256


@dataclass(frozen=True)
class Divergences:
    """Divergences between two models over the same labels, with or without candidates.

    `kl` is E_x KL(a‖b), `kl_reverse` is E_x KL(b‖a), and `js` is the Jensen–Shannon divergence, all
    in nats; `tv` is the mean total variation. `kinds` says for every number whether it is "exact",
    "sampled" (it depends on the seed) or a "bound"; `notes` says what else a reader needs to know.
    """

    kl: float
    kl_reverse: float
    js: float
    tv: float
    kinds: dict[str, str]
    notes: tuple[str, ...]

    def __getattr__(self, name: str) -> NoReturn:
        if name in {field.name for field in fields(Distances)}:
            raise InputError(
                f"{name!r} is not defined for models with candidates, because it needs the same "
                "labels for all inputs; build the models without candidates to compare all labels"
            )
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")


@dataclass(frozen=True)
class Distances(Divergences):
    """Distances between two models of the softmax family.

    `logit` is sqrt(E‖u − u'‖²) of label-centred logits u. `llv` is d_LLV, the largest of t1, t2,
    λ t3 and λ t4 (`terms`, without λ), over `labels` and `inputs` (the pivot is first) without the
    labels in `left_out`. `representation` (d_fg) is the larger of `svd_f` and `svd_g`. Three
    numbers bound it from above: `bound` = 2Mε and `sharper_bound` = 2ε² with ε = `llv`, and
    `certificate`, the larger of `certificate_g` and `certificate_f`, the mean of the M largest
    1 − corr of log-odds.
    """

    M: int
    logit: float
    llv: float
    terms: tuple[float, float, float, float]
    labels: tuple[int, ...]
    inputs: tuple[int, ...]
    left_out: tuple[int, ...]
    svd_f: float
    svd_g: float
    representation: float
    bound: float
    sharper_bound: float
    certificate: float
    certificate_f: float
    certificate_g: float


def distances(
    a: SoftmaxModel,
    b: SoftmaxModel,
    *,
    lam: float = 1e-5,
    candidates: int = 100,
    seed: int = 0,
    labels: Sequence[int] | None = None,
    inputs: Sequence[int] | None = None,
    M: int | None = None,
) -> Distances | Divergences:
    """Distances between two models over the same inputs and labels.

    Nielsen, Marconato, Dittadi, Gresele, *When Does Closeness in Distribution Imply
    Representational Similarity?*, NeurIPS 2025: a small KL divergence does not make representations
    similar, but d_LLV ≤ ε implies d_fg ≤ 2Mε. All numbers depend on the log-probabilities only.

    Parameters
    ----------
    a, b : SoftmaxModel
        The models. With candidates (the same in both), only the divergences are defined.
    lam : float
        Weight λ of the terms that compare spreads; if λ > 0, d_LLV = 0 means equal distributions.
    candidates : int
        Number of random sets of M + 1 inputs to choose from.
    seed : int
        Seed of these sets, and of the sample of label sets if there are too many.
    labels, inputs : sequences of int, optional
        Fix the sets (pivot first); d_LLV is then a metric. It is not if they are chosen for each
        pair.
    M : int, optional
        Dimension of the representations; by default the smaller rank of the models' log-odds.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> f, g, A = rng.normal(size=(50, 2)), rng.normal(size=(5, 2)), rng.normal(size=(2, 2))
    >>> a = SoftmaxModel(f=f, g=g)
    >>> b = SoftmaxModel(f=f @ A.T, g=g @ np.linalg.inv(A) + 1.0)
    >>> distances(a, b).llv < 1e-12
    True
    """
    if not (isfinite(lam) and lam >= 0):
        raise InputError(f"lam is {lam}; the weight of the spreads must be 0 or more")
    if candidates < 1:
        raise InputError(f"candidates is {candidates}; at least one set of inputs must be drawn")
    return pair_distances(Pair(a, b), lam, candidates, seed, labels, inputs, M)


def pair_distances(
    pair: Pair,
    lam: float = 1e-5,
    candidates: int = 100,
    seed: int = 0,
    labels: Sequence[int] | None = None,
    inputs: Sequence[int] | None = None,
    M: int | None = None,
) -> Distances | Divergences:
    """`distances` for a Pair, whose cached decompositions other computations can reuse."""
    a, b = pair.models
    if not same_candidates(a, b):
        raise InputError(
            f"models {a.name!r} and {b.name!r} have different candidates; distances compare "
            "distributions over the same labels, so give both the same candidates"
        )
    kl, kl_reverse, js, tv = pair.compared[1:5].mean(axis=1).tolist()
    plain = (kl, kl_reverse, js, tv)
    exact = dict.fromkeys(("kl", "kl_reverse", "js", "tv"), "exact")
    if a.candidates is not None:
        return Divergences(*plain, exact, ("probabilities are those among the candidates",))
    by_rank = M is None
    M = _dimension(pair, M)
    y = label_side(pair, M, None if labels is None else _fixed_labels(labels, pair, M))
    chosen = None if inputs is None else _fixed_inputs(inputs, pair, M)
    x, cross = input_side(pair, M, candidates, seed, chosen)
    llv = max(y.term, x.term, lam * y.spread, lam * x.spread)
    certificates = float(np.sort(y.loss)[-M:].mean()), float(x.loss.mean())
    svd_f, enumerated = _largest_svd(pair, y, M, seed)
    # One minus a mean has rounding errors near 1e-16; its bound, a sum of squares, can be smaller.
    svd_f, svd_g = min(svd_f, certificates[0]), min(float(_d_svd(cross)), certificates[1])
    return Distances(
        *plain,
        exact | _kinds(not y.one_pivot, enumerated, inputs is not None),
        tuple(_notes(pair, y, M, by_rank, enumerated)),
        M=M,
        logit=pair.logit_norms[0] / pair.n**0.5,
        llv=llv,
        terms=(y.term, x.term, y.spread, x.spread),
        labels=tuple(pair.labels[y.items].tolist()),
        inputs=tuple(x.items.tolist()),
        left_out=tuple(pair.labels[np.union1d(y.left_out, y.skipped)].tolist()),
        svd_f=svd_f,
        svd_g=svd_g,
        representation=max(svd_f, svd_g),
        bound=2 * M * llv,
        sharper_bound=2 * llv**2,
        certificate=max(certificates),
        certificate_f=certificates[0],
        certificate_g=certificates[1],
    )


def _d_svd(cross: Array) -> Array:
    """1 − mean singular value of E[z̃ w̃ᵀ], for one matrix or a stack, clipped to [0, 1]."""
    values = np.linalg.svd(cross, compute_uv=False)
    return np.asarray(np.clip(1.0 - values.mean(axis=-1), 0.0, 1.0), dtype=np.float64)


def _largest_svd(pair: Pair, side: Side, M: int, seed: int) -> tuple[float, bool]:
    """The largest d_SVD of log-odds over sets of M labels, and whether all sets were tried."""
    pivot, others = int(side.items[0]), side.items[1:]
    limit = int(max(1, min(SUBSETS, SUBSET_WORK // M**3)))
    enumerated = comb(len(others), M) <= limit
    # Labels with the least correlated log-odds come first: their set has the largest bound.
    others = others[np.argsort(-side.loss, kind="stable")]
    rng = np.random.default_rng([seed, 1])
    if enumerated:
        sets = np.array(list(combinations(range(len(others)), M)))
    else:
        if len(others) > max(POOL, 2 * M):
            rest = rng.choice(np.arange(M, len(others)), max(POOL, 2 * M) - M, replace=False)
            others = others[np.append(np.arange(M), rest)]
        drawn = [rng.choice(len(others), M, replace=False) for _ in range(limit - 1)]
        sets = np.stack([np.arange(M), *drawn])
    correlation = _cross_correlation(pair, pivot, others)
    parts = np.array_split(sets, -(-len(sets) // max(1, 2**20 // M**2)))
    found = (_d_svd(correlation[part[:, :, None], part[:, None, :]]).max() for part in parts)
    return float(max(found)), enumerated


def _cross_correlation(pair: Pair, pivot: int, chosen: Ints) -> Array:
    """Correlation of the log-odds z_i of one model with w_j of the other."""
    z, w = (rows[:-1] - rows[-1] for rows in pair.columns(np.append(chosen, pivot)))
    return np.asarray(z @ w.T / np.linalg.norm(z, axis=1)[:, None] / np.linalg.norm(w, axis=1))


def _dimension(pair: Pair, M: int | None) -> int:
    a, b = pair.models
    names = f"models {a.name!r} and {b.name!r}"
    if pair.K < 2:
        raise InputError(
            f"{names}: fewer than two labels are possible (above −inf) for every input in both "
            "models, so there are no log-odds to compare"
        )
    if min(pair.ranks) == 0:
        raise InputError(
            f"{names}: the log-odds of one of them are the same for every input (all ψ = 0), so "
            "there is no representation to compare"
        )
    M = min(pair.ranks) if M is None else M
    if not 1 <= M <= min(pair.K, pair.n) - 1:
        raise InputError(
            f"M is {M}; expected 1 or more, and at least M + 1 labels and inputs, but {names} have "
            f"{pair.K} labels and {pair.n} inputs"
        )
    return M


def _fixed_labels(labels: Sequence[int], pair: Pair, M: int) -> Ints:
    """The fixed labels as positions among the labels that are possible for every input."""
    chosen = _fixed(labels, "labels", pair.models[0].K)
    if len(chosen) < M + 1:
        raise InputError(f"labels names {len(chosen)}; expected a pivot and at least M = {M} more")
    impossible = np.setdiff1d(chosen, pair.labels)
    if len(impossible):
        raise InputError(
            f"label {impossible[0]} is impossible (−inf) for some input and has no log-odds there; "
            "leave it out of labels"
        )
    return np.searchsorted(pair.labels, chosen)


def _fixed_inputs(inputs: Sequence[int], pair: Pair, M: int) -> Ints:
    chosen = _fixed(inputs, "inputs", pair.n)
    if len(chosen) != M + 1:
        raise InputError(f"inputs names {len(chosen)}; expected a pivot and M = {M} more")
    return chosen


def _fixed(values: Sequence[int], what: str, count: int) -> Ints:
    chosen = np.asarray(values)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or len(np.unique(chosen)) != len(chosen):
        raise InputError(f"{what} must be different integers, the pivot first; got {values!r}")
    if len(chosen) and not (chosen.min() >= 0 and chosen.max() < count):
        raise InputError(f"{what} must be from 0 to {count - 1}; got {values!r}")
    return chosen.astype(np.intp)


def _kinds(all_pivots: bool, enumerated: bool, fixed_inputs: bool) -> dict[str, str]:
    exact = {
        "logit": True,
        "llv": all_pivots and fixed_inputs,
        "svd_f": all_pivots and enumerated,
        "svd_g": fixed_inputs,
        "representation": all_pivots and enumerated and fixed_inputs,
    }
    bounds = ("bound", "sharper_bound", "certificate", "certificate_f", "certificate_g")
    kinds = {name: "exact" if is_exact else "sampled" for name, is_exact in exact.items()}
    return kinds | dict.fromkeys(bounds, "bound")


def _notes(pair: Pair, side: Side, M: int, by_rank: bool, enumerated: bool) -> Iterator[str]:
    a, b = pair.models
    if pair.K < a.K:
        yield (
            f"{a.K - pair.K} labels are impossible (−inf) for some input; only kl, kl_reverse, js "
            "and tv include them"
        )
    if by_rank and max(a.M, b.M) > M:
        yield f"M is {M}, the smaller rank of the log-odds; f has {a.M} and {b.M} columns"
    if min(pair.ranks) < M:
        yield f"M is {M}, but the ranks of the log-odds are {pair.ranks[0]} and {pair.ranks[1]}"
    if len(side.skipped):
        yield (
            f"{len(side.skipped)} labels have the same log-odds against the pivot for every input "
            f"(ψ = 0) and were skipped; the first is label {pair.labels[side.skipped[0]]}"
        )
    if side.one_pivot:
        yield f"of {pair.K} labels only the one nearest to their mean was tried as pivot"
    if not enumerated:
        yield (
            f"svd_f is the largest over a sample of the sets of {M} labels; certificate_f "
            "bounds it over all of them"
        )
