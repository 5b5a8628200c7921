"""Formal languages as worlds: every string is known, and so is every prompt outside the support."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.family import Floor, language_floor
from identikit.worlds._mixing import whole
from identikit.worlds._world import Assumption, Promise, Sample, World, one_of

Ints = NDArray[np.int64]

#: The most tokens that all strings of a language, or all prompts of a length, may have together.
MOST = 10**6
SPECIAL = ("SOS", "EOS", "PAD")
COMPLETIONS = ("oracle", "adversarial")
FLOORS = ("sequence", "token", "padded token")


@dataclass(frozen=True)
class _Kind:
    """What tells one language from another; n is the number of pairs, or of letters copied."""

    alphabet: str
    count: Callable[[int], int]
    strings: Callable[[int], Iterator[str]]
    rules: Callable[[str], tuple[bool, bool]]
    oracle: Callable[[str], str]
    # The letter that, after the oracle's completion, breaks R1.
    one_more: Callable[[str], str]


def _balanced(alphabet: str, string: str) -> str:
    """The letters that are missing to as many of the one as of the other."""
    gap = string.count(alphabet[0]) - string.count(alphabet[1])
    return alphabet[gap > 0] * abs(gap)


def _rarer(alphabet: str, string: str) -> str:
    return alphabet[string.count(alphabet[0]) >= string.count(alphabet[1])]


def _dyck(pairs: int) -> Iterator[str]:
    """Balanced strings of so many pairs: (inside) rest."""
    if not pairs:
        yield ""
    for within in range(pairs):
        for inside in _dyck(within):
            for rest in _dyck(pairs - 1 - within):
                yield f"({inside}){rest}"


def _stays_open(string: str) -> bool:
    depths = np.cumsum([1 if letter == "(" else -1 for letter in string])
    return not len(depths) or bool(depths.min() >= 0)


def _repeat(string: str) -> str:
    """What is missing to end with # and what stands before the first #."""
    word, mark, rest = string.partition("#")
    last = rest.rpartition("#")[2]
    if mark and word.startswith(last):
        return word[len(last) :]
    return f"#{word}"


KINDS = {
    "anbn": _Kind(
        "ab",
        lambda _n: 1,
        lambda n: iter(["a" * n + "b" * n]),
        lambda s: (s.count("a") == s.count("b"), "ba" not in s),
        lambda s: _balanced("ab", s),
        lambda s: _rarer("ab", s),
    ),
    "brackets": _Kind(
        "()",
        lambda n: comb(2 * n, n) // (n + 1),
        _dyck,
        lambda s: (s.count("(") == s.count(")"), _stays_open(s)),
        lambda s: _balanced("()", s),
        lambda s: _rarer("()", s),
    ),
    "copy": _Kind(
        "ab#",
        lambda n: 2**n,
        lambda n: (f"{w}#{w}" for w in map("".join, product("ab", repeat=n))),
        lambda s: ("#" in s and s.partition("#")[0] == s.rpartition("#")[2], s.count("#") == 1),
        _repeat,
        lambda _s: "a",
    ),
}


@dataclass(frozen=True)
class Prompts:
    """All strings of a length, and which of them the language can begin with."""

    strings: tuple[str, ...]
    supported: NDArray[np.bool_]

    @property
    def inside(self) -> tuple[str, ...]:
        """Those that begin a string of the language."""
        return tuple(s for s, known in zip(self.strings, self.supported) if known)

    @property
    def outside(self) -> tuple[str, ...]:
        """Those of probability zero: the language says nothing of what follows them."""
        return tuple(s for s, known in zip(self.strings, self.supported) if not known)


@dataclass(frozen=True)
class Language(World):
    """A formal language, every string up to a size with the same probability.

    =========  ====================  ==============================  =========================
    kind       strings               rule R1                         rule R2
    =========  ====================  ==============================  =========================
    anbn       aⁿbⁿ                  as many a as b                  every a before every b
    brackets   n pairs, balanced     as many ( as )                  no ) without its (
    copy       w#w, n letters in w   ends with # and what is before  exactly one #
                                     the first #
    =========  ====================  ==============================  =========================

    A string that keeps both rules is in the language (or is the empty one, of n = 0). After any
    prompt R1 can still be kept, R2 not always: so "does a model that was trained on the language go
    on by R1 after a prompt that breaks R2?" has an answer for every prompt, which the language does
    not determine (Reizinger et al. 2024, arXiv 2405.01964; "rule extrapolation").

    The observations of a sample are rows of tokens, and the latent is the string's place in
    `strings`.

    Parameters
    ----------
    kind : {"anbn", "brackets", "copy"}
    longest : int
        The largest n; there is a string of each n from 1 on.

    Examples
    --------
    >>> language = Language("anbn", 16)
    >>> language.strings[:3], language.rules("abab")
    (('ab', 'aabb', 'aaabbb'), {'R1': True, 'R2': False})
    >>> prompts = language.prompts(8)
    >>> prompts.inside, len(prompts.outside)
    (('aaaaaaaa', 'aaaaaaab', 'aaaaaabb', 'aaaaabbb', 'aaaabbbb'), 251)
    >>> language.completion("bbb", "oracle"), language.completion("bbb", "adversarial")
    ('aaa', 'aaaa')
    """

    kind: str
    longest: int

    def __post_init__(self) -> None:
        one_of(self.kind, KINDS, "the kind of language")
        whole(self.longest, "longest")
        total = 0
        for n in range(1, self.longest + 1):
            total += KINDS[self.kind].count(n) * (2 * n + 2)
            if total > MOST:
                raise InputError(
                    f"all strings of {self.kind} with n up to {self.longest} have more than "
                    f"{MOST:,} tokens together; choose longest below {n}"
                )

    @property
    def alphabet(self) -> str:
        """The letters."""
        return KINDS[self.kind].alphabet

    @cached_property
    def tokens(self) -> dict[str, int]:
        """The number of every letter, and of SOS, EOS and PAD."""
        return {name: place for place, name in enumerate((*self.alphabet, *SPECIAL))}

    @cached_property
    def strings(self) -> tuple[str, ...]:
        """The support, each string with the same probability; by n."""
        make = KINDS[self.kind].strings
        return tuple(s for n in range(1, self.longest + 1) for s in make(n))

    def encode(self, strings: Sequence[str], end: bool = True) -> Ints:
        """Tokens, (n, most letters + 2): SOS, the letters, EOS, then PAD.

        Parameters
        ----------
        strings : sequence of str
            Over the alphabet.
        end : bool
            With EOS; a prompt has none.
        """
        sos, eos, pad = (self.tokens[name] for name in SPECIAL)
        width = 1 + end + max(map(len, strings), default=0)
        out = np.full((len(strings), width), pad, dtype=np.int64)
        out[:, 0] = sos
        for row, string in zip(out, strings):
            row[1 : 1 + len(string)] = self._numbers(string)
            if end:
                row[1 + len(string)] = eos
        return out

    def decode(self, tokens: Sequence[int] | Ints) -> str:
        """The letters of a row up to its first EOS; other tokens leave no letter."""
        row = [int(token) for token in tokens]
        eos = self.tokens["EOS"]
        before = row[: row.index(eos)] if eos in row else row
        return "".join(self.alphabet[token] for token in before if token < len(self.alphabet))

    def _draw(self, rows: int, rng: np.random.Generator) -> Sample:
        drawn = rng.integers(len(self.strings), size=rows)
        return Sample(drawn[:, None].astype(np.float64), self.encode(self.strings)[drawn])

    @property
    def identified(self) -> tuple[Promise, ...]:
        """What theory promises a next-token model at the floor, on and off the support."""
        targets = len(self.alphabet) + 1
        return (
            Promise(
                "probabilities after a prefix in the support",
                "identity",
                "a KL divergence of 0 leaves p(token | prefix) no freedom where p(prefix) > 0",
            ),
            Promise(
                f"state of width {targets - 1} or less, prefixes in the support",
                "linear",
                f"{targets} tokens are ever predicted (the letters and EOS), so that differences "
                f"of g can span {targets - 1} dimensions, if prefixes are as diverse",
            ),
            Promise(
                f"state of width {targets} or more",
                None,
                f"differences of {targets} vectors g cannot span so many dimensions: diversity "
                "fails; compare probabilities, or centred logits",
            ),
            Promise(
                "probabilities after a prompt off the support",
                None,
                "where p(prompt) = 0 the language does not determine what follows",
            ),
        )

    def _assumptions(self, rows: int, seed: int) -> list[Assumption]:
        """The strings keep the rules, differ as tokens, and all occur in a sample."""
        count = len(self.strings)
        kept = sum(all(self.rules(string).values()) for string in self.strings)
        different = len(np.unique(self.encode(self.strings), axis=0))
        seen = len(np.unique(self.sample(rows, seed).latents))
        facts = {
            "rules": (kept, "keep both rules"),
            "injective": (different, "differ as rows of tokens"),
            "coverage": (seen, f"occur in a sample of {rows:,} rows, whose floor is else another"),
        }
        return [
            Assumption(name, number == count, number, f"{count}", f"{number} of {count} {what}")
            for name, (number, what) in facts.items()
        ]

    def rules(self, string: str) -> dict[str, bool]:
        """Whether a string keeps R1 and R2."""
        self._numbers(string)
        return dict(zip(("R1", "R2"), KINDS[self.kind].rules(string)))

    def prompts(self, length: int) -> Prompts:
        """All prompts of a length over the alphabet, with what the language can begin with.

        Parameters
        ----------
        length : int
            Letters of a prompt, without SOS.
        """
        letters = len(self.alphabet)
        if length < 0 or letters**length * (length + 1) > MOST:
            raise InputError(
                f"there are {letters}^{length} prompts of length {length}; choose one from 0 on "
                f"at which all prompts together have at most {MOST:,} tokens"
            )
        strings = tuple(map("".join, product(self.alphabet, repeat=length)))
        known = np.array([tuple(self._numbers(s)) in self.table for s in strings])
        return Prompts(strings, known)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The support of prompts: every prefix that occurs, each once."""
        return tuple("".join(self.alphabet[token] for token in prefix) for prefix in self.table)

    def shares(
        self, prompts: Sequence[str], completions: Sequence[str], finished: ArrayLike
    ) -> dict[str, float]:
        """How many completions keep the rules: of all, and of those that were finished.

        `R1` and `grammatical` (R1 and R2) are of prompt and completion, as shares of all prompts;
        an unfinished one keeps neither. `R1 finished` is the share of the finished only, and so is
        `R2 completion`, of the new letters alone: after most prompts off the support the whole
        can no longer keep R2.

        Parameters
        ----------
        prompts, completions : sequence of str
            Letters that were given, and letters that were written.
        finished : array (n,) of bool
            Whether an EOS was written.
        """
        ended = np.asarray(finished, dtype=bool)
        whole = [self.rules(prompt + end) for prompt, end in zip(prompts, completions)]
        r1, r2 = (np.array([rules[name] for rules in whole]) & ended for name in ("R1", "R2"))
        own = np.array([self.rules(end)["R2"] for end in completions]) & ended
        count = max(1, int(ended.sum()))
        return {
            "R1": float(r1.mean()),
            "R1 finished": float(r1.sum() / count),
            "R2 completion": float(own.sum() / count),
            "grammatical": float((r1 & r2).mean()),
            "finished": float(ended.mean()),
        }

    def completion(self, prompt: str, kind: str = "oracle") -> str:
        """The letters that follow a prompt before EOS, by a teacher that knows R1.

        Parameters
        ----------
        prompt : str
            Over the alphabet.
        kind : {"oracle", "adversarial"}
            The fewest letters that keep R1; or those and one more, which breaks it.
        """
        one_of(kind, COMPLETIONS, "the kind of completion")
        self._numbers(prompt)
        language = KINDS[self.kind]
        right = language.oracle(prompt)
        return right if kind == "oracle" else right + language.one_more(prompt)

    @cached_property
    def table(self) -> Mapping[tuple[int, ...], Array]:
        """p(next token | prefix) of every prefix in the support, by the prefix's tokens."""
        counts: dict[tuple[int, ...], Array] = {}
        eos = self.tokens["EOS"]
        for string in self.strings:
            numbers = (*self._numbers(string), eos)
            for place, token in enumerate(numbers):
                row = counts.setdefault(numbers[:place], np.zeros(len(self.tokens)))
                row[token] += 1
        return {prefix: row / row.sum() for prefix, row in counts.items()}

    def next_token(self, prefix: str) -> Array:
        """p(token | prefix), exactly, of a prefix in the support.

        For aⁿbⁿ with n up to N: p(a | aᵏ) = (N − k)/(N − k + 1) and p(b | aᵏ) = 1/(N − k + 1).

        Parameters
        ----------
        prefix : str
            Letters, without SOS.
        """
        numbers = tuple(self._numbers(prefix))
        if numbers not in self.table:
            raise InputError(
                f"no string of this language begins with {prefix!r}, so it says nothing of what "
                "follows; prompts(length).inside lists prefixes that have a next token"
            )
        return self.table[numbers]

    def floor(self, per: str = "sequence") -> Floor:
        """The loss that no model is below, in nats: the entropy ln(number of strings).

        Parameters
        ----------
        per : {"sequence", "token", "padded token"}
            A mean over sequences, over tokens to predict (letters and EOS), or over those and the
            PAD that follows up to the longest string.
        """
        one_of(per, FLOORS, "the unit of the floor")
        lengths = np.array([len(string) + 1 for string in self.strings])
        tokens = {"sequence": None, "token": lengths, "padded token": lengths.max()}
        return language_floor(np.full(len(lengths), 1 / len(lengths)), tokens[per])

    def _numbers(self, string: str) -> list[int]:
        try:
            return [self.alphabet.index(letter) for letter in string]
        except ValueError:
            wrong = next(letter for letter in string if letter not in self.alphabet)
            raise InputError(
                f"{string!r} has {wrong!r} in it, which is no letter of {self.kind}; use only "
                f"{' and '.join(self.alphabet)}"
            ) from None
