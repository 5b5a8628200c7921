"""Formal languages as worlds: all strings are known, and so are prompts outside the support."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
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

#: The largest total number of tokens in all strings of a language, or all prompts of a length.
MOST = 10**6
SPECIAL = ("SOS", "EOS", "PAD")
COMPLETIONS = ("oracle", "adversarial")
FLOORS = ("sequence", "token", "padded token")


@dataclass(frozen=True)
class _Kind:
    """The definition of a language; n is the number of pairs, or of letters that are copied."""

    alphabet: str
    count: Callable[[int], int]
    strings: Callable[[int], Iterator[str]]
    rules: Callable[[str], tuple[bool, bool]]
    # The fewest letters that make a string obey R1, and `more` letters that break it.
    completion: Callable[[str, int], str]


def _balanced(alphabet: str, string: str, more: int) -> str:
    """The letters that are missing for equal numbers of both letters, and `more` of the same."""
    gap = string.count(alphabet[0]) - string.count(alphabet[1])
    return alphabet[gap >= 0] * (abs(gap) + more)


def _dyck(pairs: int) -> Iterator[str]:
    """All balanced strings of the given number of pairs, built as (inside) rest."""
    if not pairs:
        yield ""
    for within in range(pairs):
        for inside in _dyck(within):
            for rest in _dyck(pairs - 1 - within):
                yield f"({inside}){rest}"


def _stays_open(string: str) -> bool:
    depths = np.cumsum([1 if letter == "(" else -1 for letter in string])
    return not len(depths) or bool(depths.min() >= 0)


def _repeat(string: str, more: int) -> str:
    """The completion that makes the string end with # and what precedes the first #."""
    word, mark, rest = string.partition("#")
    last = rest.rpartition("#")[2]
    end = word[len(last) :] if mark and word.startswith(last) else f"#{word}"
    return end + "a" * more


KINDS = {
    "anbn": _Kind(
        "ab",
        lambda _n: 1,
        lambda n: iter(["a" * n + "b" * n]),
        lambda s: (s.count("a") == s.count("b"), "ba" not in s),
        partial(_balanced, "ab"),
    ),
    "brackets": _Kind(
        "()",
        lambda n: comb(2 * n, n) // (n + 1),
        _dyck,
        lambda s: (s.count("(") == s.count(")"), _stays_open(s)),
        partial(_balanced, "()"),
    ),
    "copy": _Kind(
        "ab#",
        lambda n: 2**n,
        lambda n: (f"{w}#{w}" for w in map("".join, product("ab", repeat=n))),
        lambda s: ("#" in s and s.partition("#")[0] == s.rpartition("#")[2], s.count("#") == 1),
        _repeat,
    ),
}


@dataclass(frozen=True)
class Prompts:
    """All strings of a given length, and whether a string of the language begins with them."""

    strings: tuple[str, ...]
    supported: NDArray[np.bool_]

    @property
    def inside(self) -> tuple[str, ...]:
        """Those that begin a string of the language."""
        return tuple(s for s, known in zip(self.strings, self.supported) if known)

    @property
    def outside(self) -> tuple[str, ...]:
        """Those of probability zero: the language does not determine what follows them."""
        return tuple(s for s, known in zip(self.strings, self.supported) if not known)


@dataclass(frozen=True)
class Language(World):
    """A formal language in which all strings up to a size have the same probability.

    =========  ====================  ==============================  =========================
    kind       strings               rule R1                         rule R2
    =========  ====================  ==============================  =========================
    anbn       aⁿbⁿ                  as many a as b                  every a before every b
    brackets   n pairs, balanced     as many ( as )                  no ) without its (
    copy       w#w, n letters in w   ends with # and what is before  exactly one #
                                     the first #
    =========  ====================  ==============================  =========================

    A string that obeys both rules is in the language (or is the empty string, n = 0). After any
    prompt R1 can still be obeyed, but R2 not always. So one can ask for every prompt that breaks R2
    whether a model that was trained on the language continues according to R1; the language does
    not determine the answer ("rule extrapolation", Reizinger et al. 2024, arXiv 2405.01964).

    The observations of a sample are rows of tokens, and the latent is the index of the string in
    `strings`.

    Parameters
    ----------
    kind : {"anbn", "brackets", "copy"}
    longest : int
        The largest n; the language has strings for each n from 1 to this.

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
        """The letters of the language."""
        return KINDS[self.kind].alphabet

    @cached_property
    def tokens(self) -> dict[str, int]:
        """The token of every letter, and of SOS, EOS and PAD."""
        return {name: place for place, name in enumerate((*self.alphabet, *SPECIAL))}

    @cached_property
    def strings(self) -> tuple[str, ...]:
        """The support, ordered by n; all strings have the same probability."""
        make = KINDS[self.kind].strings
        return tuple(s for n in range(1, self.longest + 1) for s in make(n))

    def encode(self, strings: Sequence[str], end: bool = True) -> Ints:
        """Tokens, (n, most letters + 2): SOS, the letters, EOS, then PAD.

        Parameters
        ----------
        strings : sequence of str
            Strings over the alphabet.
        end : bool
            Whether to add EOS; a prompt has none.
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
        """The letters of a row up to its first EOS; other tokens are skipped."""
        row = [int(token) for token in tokens]
        eos = self.tokens["EOS"]
        before = row[: row.index(eos)] if eos in row else row
        return "".join(self.alphabet[token] for token in before if token < len(self.alphabet))

    def _draw(self, rows: int, rng: np.random.Generator) -> Sample:
        drawn = rng.integers(len(self.strings), size=rows)
        return Sample(drawn[:, None].astype(np.float64), self.encode(self.strings)[drawn])

    @property
    def identified(self) -> tuple[Promise, ...]:
        """What theory promises for a next-token model with minimal loss, on and off the support."""
        targets = len(self.alphabet) + 1
        return (
            Promise(
                "probabilities after a prefix in the support",
                "identity",
                "a KL divergence of 0 determines p(token | prefix) wherever p(prefix) > 0",
            ),
            Promise(
                f"state of width {targets - 1} or less, prefixes in the support",
                "linear",
                f"{targets} different tokens are predicted (the letters and EOS), so that "
                f"differences of g can span {targets - 1} dimensions, if prefixes are diverse",
            ),
            Promise(
                f"state of width {targets} or more",
                None,
                f"differences of {targets} vectors g cannot span this many dimensions, so that "
                "diversity fails; compare probabilities, or centred logits",
            ),
            Promise(
                "probabilities after a prompt off the support",
                None,
                "where p(prompt) = 0 the language does not determine what follows",
            ),
        )

    def _assumptions(self, rows: int, seed: int) -> list[Assumption]:
        """The strings obey the rules, have different tokens, and all occur in a sample."""
        count = len(self.strings)
        kept = sum(all(self.rules(string).values()) for string in self.strings)
        different = len(np.unique(self.encode(self.strings), axis=0))
        seen = len(np.unique(self.sample(rows, seed).latents))
        covered = f"occur in a sample of {rows:,} rows (else its floor differs)"
        facts = {
            "rules": (kept, "obey both rules"),
            "injective": (different, "differ as rows of tokens"),
            "coverage": (seen, covered),
        }
        return [
            Assumption(name, number == count, number, f"{count}", f"{number} of {count} {what}")
            for name, (number, what) in facts.items()
        ]

    def rules(self, string: str) -> dict[str, bool]:
        """Whether a string obeys R1 and R2."""
        self._numbers(string)
        return dict(zip(("R1", "R2"), KINDS[self.kind].rules(string)))

    def prompts(self, length: int) -> Prompts:
        """All prompts of a length, and whether a string of the language begins with them.

        Parameters
        ----------
        length : int
            The number of letters of a prompt, without SOS.
        """
        letters = len(self.alphabet)
        if length < 0 or letters**length * (length + 1) > MOST:
            raise InputError(
                f"there are {letters}^{length} prompts of length {length}; choose a length of 0 or "
                f"more at which all prompts together have at most {MOST:,} tokens"
            )
        strings = tuple(map("".join, product(self.alphabet, repeat=length)))
        known = np.array([tuple(self._numbers(s)) in self.table for s in strings])
        return Prompts(strings, known)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The support of prompts: every prefix that occurs, without repetition."""
        return tuple("".join(self.alphabet[token] for token in prefix) for prefix in self.table)

    def shares(
        self, prompts: Sequence[str], completions: Sequence[str], finished: ArrayLike
    ) -> dict[str, float]:
        """The share of completions that obey the rules, among all and among finished ones.

        `R1` and `grammatical` (R1 and R2) apply to the prompt with its completion, as shares of all
        prompts; unfinished ones count as breaking both rules. `R1 finished` and `R2 completion` are
        shares of the finished ones only. `R2 completion` applies to the new letters alone, since
        after most prompts outside the support the whole string can no longer obey R2.

        Parameters
        ----------
        prompts, completions : sequence of str
            The letters that were given, and the letters that were generated.
        finished : array (n,) of bool
            Whether an EOS was generated.
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
        """The letters between a prompt and EOS that a teacher who knows R1 would give.

        Parameters
        ----------
        prompt : str
            A string over the alphabet.
        kind : {"oracle", "adversarial"}
            The fewest letters that obey R1; or those plus one more letter, which breaks it.
        """
        one_of(kind, COMPLETIONS, "the kind of completion")
        self._numbers(prompt)
        return KINDS[self.kind].completion(prompt, COMPLETIONS.index(kind))

    @cached_property
    def table(self) -> Mapping[tuple[int, ...], Array]:
        """p(next token | prefix) for every prefix in the support; keys are the prefix's tokens."""
        counts: dict[tuple[int, ...], Array] = {}
        eos = self.tokens["EOS"]
        for string in self.strings:
            numbers = (*self._numbers(string), eos)
            for place, token in enumerate(numbers):
                row = counts.setdefault(numbers[:place], np.zeros(len(self.tokens)))
                row[token] += 1
        return {prefix: row / row.sum() for prefix, row in counts.items()}

    def next_token(self, prefix: str) -> Array:
        """The exact p(token | prefix) of a prefix in the support.

        For aⁿbⁿ with n up to N: p(a | aᵏ) = (N − k)/(N − k + 1) and p(b | aᵏ) = 1/(N − k + 1).

        Parameters
        ----------
        prefix : str
            Letters, without SOS.
        """
        numbers = tuple(self._numbers(prefix))
        if numbers not in self.table:
            raise InputError(
                f"no string of this language begins with {prefix!r}, so it says nothing about what "
                "follows; prompts(length).inside lists prefixes that have a next token"
            )
        return self.table[numbers]

    def floor(self, per: str = "sequence") -> Floor:
        """The smallest possible loss in nats: the entropy ln(number of strings).

        Parameters
        ----------
        per : {"sequence", "token", "padded token"}
            Whether the loss is averaged over sequences, over predicted tokens (letters and EOS), or
            over those and the PAD that follows up to the length of the longest string.
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
                f"{string!r} contains {wrong!r}, which is not a letter of {self.kind}; use only "
                f"{' and '.join(self.alphabet)}"
            ) from None
