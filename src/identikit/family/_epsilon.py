"""What a small KL divergence leaves free: answers to prompts that are rare, or never occur."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array
from identikit.errors import InputError

Prefix = tuple[int, ...]
#: p(next token | prefix) by the prefix's tokens; a prefix without an entry is a whole sequence.
SequenceTable = Mapping[Prefix, ArrayLike]


@dataclass(frozen=True)
class PrefixKL:
    """KL(p‖q) of whole sequences, and what comes of a prefix-free set S of prefixes.

    `kl` is of the whole; `terms` are p(s) KL(p(·|s)‖q(·|s)) of every s in S, over all that follows
    s. Where p and q differ only after S, `kl` is the sum of the terms, and at most `bound` =
    `mass` P(S) times `largest`, the largest KL(p(·|s)‖q(·|s)) of an s that p reaches.
    """

    kl: float
    terms: dict[Prefix, float]
    mass: float
    largest: float

    @property
    def bound(self) -> float:
        """P(S) · max_s KL(p(·|s)‖q(·|s)): answers after rare prompts cost at most this."""
        return self.mass * self.largest if self.mass else 0.0


def prefix_kl(p: SequenceTable, q: SequenceTable, prefixes: Iterable[Prefix] = ()) -> PrefixKL:
    """KL(p‖q) of two tabular sequence models, and how much of it lies after some prefixes.

    By the chain rule KL(p‖q) = Σ_x p(x) KL(p(·|x)‖q(·|x)) over the prefixes x that p reaches: where
    p(x) = 0, q may be anything. If q is p but after a prefix-free set S,
    KL(p‖q) = Σ_{s∈S} p(s) KL(p(·|s)‖q(·|s)) ≤ P(S) max_s KL(p(·|s)‖q(·|s)) (Reizinger et al. 2024,
    arXiv 2405.01964: a rare prompt can be answered in any way at cost ε).

    Parameters
    ----------
    p, q : mapping from a prefix, a tuple of tokens, to probabilities of the next token
        From () on. A prefix that is not in p is a whole sequence.
    prefixes : iterable of tuple of int
        S; none of them the beginning of another.

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
    # A prefix, its probability, and the one of S that it begins with.
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
    """Σ p log(p/q): nothing where p is 0, infinite where only q is."""
    p, q = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    some = p > 0
    with np.errstate(divide="ignore"):
        return float(np.maximum(p[some] @ (np.log(p[some]) - np.log(q[some])), 0.0))


@dataclass(frozen=True)
class BernoulliMixture:
    """Sequences of 0 and 1, independent at a rate that is drawn once a sequence.

    Parameters
    ----------
    rates, weights : sequence of float
        The rates that may be drawn, and their probabilities; equal ones by default.

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
            raise InputError(f"rates are numbers between 0 and 1, not {self.rates!r}")
        if weights.shape != rates.shape or weights.min() < 0 or abs(weights.sum() - 1) > 1e-9:
            raise InputError(
                f"weights are a probability for each of the {len(rates)} rates, not "
                f"{self.weights!r}"
            )

    @property
    def _weights(self) -> Array:
        given = self.weights
        return np.full(len(self.rates), 1 / len(self.rates)) if given is None else np.array(given)

    def mass(self, ones: int, tokens: int) -> float:
        """p of one sequence of so many tokens with so many ones, whatever their order."""
        return float(self._joint(ones, tokens).sum())

    def predict(self, ones: int, tokens: int) -> float:
        """p(1 | ones of tokens) = Σ_j w_j θ_j with w_j ∝ weight_j θ_jᵏ (1 − θ_j)ᵗ⁻ᵏ."""
        joint = self._joint(ones, tokens)
        return float(joint @ np.asarray(self.rates) / joint.sum())

    def answered(self, ones: int, tokens: int, rate: float, more: int) -> float:
        """KL(p‖q) if q goes on at `rate` for `more` tokens after one prefix, and is p elsewhere.

        Exactly: mass of the prefix times the KL of what follows, summed over its number of ones.

        Parameters
        ----------
        ones, tokens : int
            Of the prefix.
        rate : float
            Of the other answer.
        more : int
            Tokens of the answer.
        """
        from scipy.special import comb  # of many numbers at once

        k = np.arange(more + 1)
        prefix = self._joint(ones, tokens)
        theta = np.asarray(self.rates)[:, None]
        each = (prefix / prefix.sum()) @ (theta**k * (1 - theta) ** (more - k))
        other = rate**k * (1 - rate) ** (more - k)
        return float(prefix.sum() * (comb(more, k) * each) @ (np.log(each) - np.log(other)))

    def _joint(self, ones: int, tokens: int) -> Array:
        rates = np.asarray(self.rates, dtype=np.float64)
        joint: Array = self._weights * rates**ones * (1 - rates) ** (tokens - ones)
        return joint


def _row(table: SequenceTable, prefix: Prefix, name: str) -> Array:
    if prefix not in table:
        raise InputError(
            f"{name} has no entry for the prefix {prefix}, which p reaches; give its probabilities "
            "of the next token"
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
                f"the prefix {second} begins with {first}, so what follows it would count twice; "
                "give prefixes of which none begins another"
            )
