"""What a small KL divergence does not determine: answers to prompts that rarely or never occur."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array
from identikit.errors import InputError

Prefix = tuple[int, ...]
#: p(next token | prefix) for each prefix; a prefix without an entry is a complete sequence.
SequenceTable = Mapping[Prefix, ArrayLike]


@dataclass(frozen=True)
class PrefixKL:
    """KL(p‖q) of complete sequences, and the part of it after a prefix-free set S of prefixes.

    `kl` is the total; `terms` are p(s) KL(p(·|s)‖q(·|s)) for every s in S, over all continuations
    of s. If p and q differ only after prefixes in S, `kl` is the sum of the terms, and is at most
    `bound`: the product of `mass`, which is P(S), and `largest`, the largest KL(p(·|s)‖q(·|s)) over
    all s with p(s) > 0.
    """

    kl: float
    terms: dict[Prefix, float]
    mass: float
    largest: float

    @property
    def bound(self) -> float:
        """P(S) · max_s KL(p(·|s)‖q(·|s)): the most that other answers after S add to the KL."""
        return self.mass * self.largest if self.mass else 0.0


def prefix_kl(p: SequenceTable, q: SequenceTable, prefixes: Iterable[Prefix] = ()) -> PrefixKL:
    """KL(p‖q) of two tabular sequence models, and how much of it comes after some prefixes.

    By the chain rule, KL(p‖q) = Σ_x p(x) KL(p(·|x)‖q(·|x)) over the prefixes x with p(x) > 0; where
    p(x) = 0, q may be anything. If q equals p except after a prefix-free set S, then
    KL(p‖q) = Σ_{s∈S} p(s) KL(p(·|s)‖q(·|s)) ≤ P(S) max_s KL(p(·|s)‖q(·|s)) (Reizinger et al. 2024,
    arXiv 2405.01964: a rare prompt can be answered in any way at cost ε).

    Parameters
    ----------
    p, q : mapping from a prefix, a tuple of tokens, to probabilities of the next token
        The first prefix is (). A prefix that is not in p is a complete sequence.
    prefixes : iterable of tuple of int
        The set S; no prefix may be the beginning of another.

    Examples
    --------
    >>> p = {(): [0.9, 0.1], (1,): [0.5, 0.5]}
    >>> q = {(): [0.9, 0.1], (1,): [0.1, 0.9]}
    >>> found = prefix_kl(p, q, [(1,)])
    >>> round(found.kl, 4), round(found.bound, 4), prefix_kl(p, p).kl
    (0.0511, 0.0511, 0.0)
    """
    chosen = [tuple(prefix) for prefix in prefixes]
    _check_prefix_free(chosen)
    total, mass = 0.0, dict.fromkeys(chosen, 0.0)
    terms = dict(mass)
    # A prefix, its probability, and the element of S that it begins with.
    waiting: list[tuple[Prefix, float, Prefix | None]] = [((), 1.0, None)]
    while waiting:
        prefix, reached, owner = waiting.pop()
        if prefix in mass:
            owner, mass[prefix] = prefix, reached
        if prefix not in p:
            continue
        ours, theirs = _row(p, prefix, "p"), _row(q, prefix, "q")
        step = reached * kl_divergence(ours, theirs)
        total += step
        if owner is not None:
            terms[owner] += step
        for token in np.flatnonzero(ours):
            waiting.append(((*prefix, int(token)), reached * float(ours[token]), owner))
    after = [terms[s] / mass[s] for s in chosen if mass[s]]
    return PrefixKL(total, terms, sum(mass.values()), max(after, default=0.0))


def kl_divergence(p: ArrayLike, q: ArrayLike) -> float:
    """Σ p log(p/q): terms with p = 0 are 0, and it is infinite if q = 0 where p > 0."""
    p, q = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    some = p > 0
    with np.errstate(divide="ignore"):
        return float(np.maximum(p[some] @ (np.log(p[some]) - np.log(q[some])), 0.0))


@dataclass(frozen=True)
class BernoulliMixture:
    """Sequences of independent zeros and ones, with a rate of ones that is drawn per sequence.

    Parameters
    ----------
    rates, weights : sequence of float
        The possible rates, and their probabilities; by default all are equally likely.

    Examples
    --------
    >>> coins = BernoulliMixture((0.1, 0.6))
    >>> round(coins.predict(10, 10), 4), round(coins.mass(10, 10), 5)
    (0.6, 0.00302)
    """

    rates: Sequence[float]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        rates, weights = np.asarray(self.rates, float), self._weights
        if not (rates.ndim == 1 and len(rates) and ((rates > 0) & (rates < 1)).all()):
            raise InputError(f"rates must be numbers between 0 and 1, not {self.rates!r}")
        if weights.shape != rates.shape or weights.min() < 0 or abs(weights.sum() - 1) > 1e-9:
            raise InputError(
                f"weights must be a probability for each of the {len(rates)} rates, not "
                f"{self.weights!r}"
            )

    @property
    def _weights(self) -> Array:
        given = self.weights
        return np.full(len(self.rates), 1 / len(self.rates)) if given is None else np.array(given)

    def mass(self, ones: int, tokens: int) -> float:
        """Probability of one sequence with this number of ones and tokens, in any fixed order."""
        return float(self._joint(ones, tokens).sum())

    def predict(self, ones: int, tokens: int) -> float:
        """p(1 | ones of tokens) = Σ_j w_j θ_j with w_j ∝ weight_j θ_jᵏ (1 − θ_j)ᵗ⁻ᵏ."""
        joint = self._joint(ones, tokens)
        return float(joint @ np.asarray(self.rates) / joint.sum())

    def answered(self, ones: int, tokens: int, rate: float, more: int) -> float:
        """KL(p‖q) if q continues one prefix at `rate` for `more` tokens and equals p elsewhere.

        The value is exact: the mass of the prefix times the KL of the continuation, as a sum over
        its number of ones.

        Parameters
        ----------
        ones, tokens : int
            Number of ones and of tokens of the prefix.
        rate : float
            Rate of ones in the other answer.
        more : int
            Number of tokens of the answer.
        """
        from scipy.special import comb  # vectorised

        k = np.arange(more + 1)
        prefix = self._joint(ones, tokens)
        theta = np.asarray(self.rates)[:, None]
        each = (prefix / prefix.sum()) @ (theta**k * (1 - theta) ** (more - k))
        other = rate**k * (1 - rate) ** (more - k)
        return float(prefix.sum() * (comb(more, k) * each) @ (np.log(each) - np.log(other)))

    def _joint(self, ones: int, tokens: int) -> Array:
        rates = np.asarray(self.rates, dtype=np.float64)
        return np.asarray(self._weights * rates**ones * (1 - rates) ** (tokens - ones))


def _row(table: SequenceTable, prefix: Prefix, name: str) -> Array:
    if prefix not in table:
        raise InputError(
            f"{name} has no entry for the prefix {prefix}, which has positive probability under p; "
            "give its probabilities of the next token"
        )
    row = np.asarray(table[prefix], dtype=np.float64)
    if row.ndim != 1 or not (row >= 0).all() or abs(row.sum() - 1) > 1e-9:
        raise InputError(f"{name} after the prefix {prefix} is {row}; expected probabilities")
    return row


def _check_prefix_free(chosen: Sequence[Prefix]) -> None:
    ordered = sorted(chosen)
    for first, second in pairwise(ordered):
        if second[: len(first)] == first:
            raise InputError(
                f"the prefix {second} begins with {first}, so its continuations would count twice; "
                "no prefix may be the beginning of another"
            )
