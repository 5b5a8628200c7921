"""Languages with their out-of-support prompts, and what a small KL divergence leaves free."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import close
from identikit.errors import InputError
from identikit.family import BernoulliMixture, prefix_kl
from identikit.worlds import Language
from identikit.worlds._languages import KINDS

ANBN = Language("anbn", 16)
EVERY = [ANBN, Language("brackets", 5), Language("copy", 4)]
A, B, SOS, EOS, PAD = range(5)


def name_of(language: Language) -> str:
    return language.kind


# The fixtures of aⁿbⁿ


def test_prompts_of_length_8_are_5_inside_and_251_outside() -> None:
    prompts = ANBN.prompts(8)
    assert len(prompts.strings) == 256
    assert prompts.inside == tuple("a" * (8 - k) + "b" * k for k in range(5))
    assert len(prompts.outside) == 251
    balanced = [s for s in prompts.outside if s.count("a") == s.count("b")]
    assert len(balanced) == 69


def test_eos_at_once_keeps_r1_after_69_of_251_prompts() -> None:
    kept = [ANBN.rules(prompt) for prompt in ANBN.prompts(8).outside]
    assert sum(rules["R1"] for rules in kept) == 69
    assert sum(rules["R2"] for rules in kept) == 4
    assert not any(rules["R1"] and rules["R2"] for rules in kept)
    close(69 / 251, 0.2749, 5e-5)
    close(4 / 251, 0.0159, 5e-5)


def test_shares_of_stopping_at_once_and_of_not_stopping() -> None:
    off = ANBN.prompts(8).outside
    stops = ANBN.shares(off, [""] * 251, np.ones(251, dtype=bool))
    assert stops["R1"] == stops["R1 finished"] == 69 / 251
    assert stops["grammatical"] == 0
    assert stops["R2 completion"] == stops["finished"] == 1
    # Half of the prompts are finished, by the oracle: all of those, half of all.
    half = np.arange(251) % 2 == 0
    oracle = ANBN.shares(off, [ANBN.completion(prompt) for prompt in off], half)
    assert oracle["R1 finished"] == 1
    assert oracle["R1"] == oracle["finished"] == 126 / 251
    assert ANBN.shares(["aab"], ["b"], [True])["grammatical"] == 1
    assert ANBN.shares(["aab"], ["ba"], [True])["R2 completion"] == 0
    assert ANBN.shares(["aab"], ["b"], [False])["R1 finished"] == 0


@pytest.mark.parametrize("language", EVERY, ids=name_of)
def test_prefixes_are_the_beginnings_of_strings(language: Language) -> None:
    every = {string[:i] for string in language.strings for i in range(len(string) + 1)}
    assert len(language.prefixes) == len(every)
    assert set(language.prefixes) == every


@pytest.mark.parametrize(
    ("prompt", "oracle", "adversarial"),
    [("b" * 8, "a" * 8, "a" * 9), ("abababab", "", "b"), ("aab", "b", "bb")],
)
def test_targets_of_a_prompt(prompt: str, oracle: str, adversarial: str) -> None:
    assert ANBN.completion(prompt, "oracle") == oracle
    assert ANBN.completion(prompt, "adversarial") == adversarial


@pytest.mark.parametrize(
    ("string", "r1", "r2"),
    [
        ("aabb", True, True),
        ("abab", True, False),
        ("aab", False, True),
        ("bbb", False, True),
        ("", True, True),
    ],
)
def test_rules_of_anbn(string: str, r1: bool, r2: bool) -> None:
    assert ANBN.rules(string) == {"R1": r1, "R2": r2}


@pytest.mark.parametrize("longest", [1, 3, 16])
def test_the_table_of_anbn_is_its_formula(longest: int) -> None:
    language = Language("anbn", longest)
    close(language.next_token(""), np.eye(5)[A], 0)
    for k in range(1, longest + 1):
        expected = np.zeros(5)
        expected[A] = (longest - k) / (longest - k + 1)
        expected[B] = 1 / (longest - k + 1)
        close(language.next_token("a" * k), expected, 1e-15)
        close(language.next_token("a" * k + "b" * k), np.eye(5)[EOS], 0)


def test_floors() -> None:
    assert ANBN.floor().value == pytest.approx(math.log(16))
    close(ANBN.floor().value, 2.773, 5e-4)
    paper = Language("anbn", 128)
    assert sum(len(string) + 1 for string in paper.strings) == 16640
    assert paper.floor("token").value == pytest.approx(math.log(128) * 128 / 16640)
    close(paper.floor("token").value, 0.0373, 5e-5)
    assert paper.floor("padded token").value == pytest.approx(math.log(128) / 257)
    close(paper.floor("padded token").value, 0.01888, 5e-6)


# Every language


@pytest.mark.parametrize("language", EVERY, ids=name_of)
def test_the_table_has_the_entropy_of_the_language(language: Language) -> None:
    """The loss of the exact conditionals, by the chain rule, is ln(strings) of every string."""
    losses = []
    for string in language.strings:
        tokens = [*language.encode([string])[0][1:]]
        losses.append(
            -sum(math.log(language.table[tuple(tokens[:i])][t]) for i, t in enumerate(tokens))
        )
    close(losses, np.full(len(losses), language.floor().value), 1e-12)


@pytest.mark.parametrize("language", EVERY, ids=name_of)
def test_both_rules_are_the_language(language: Language) -> None:
    """Of all short strings, those that keep both rules are those of the language."""
    assert len(set(language.strings)) == len(language.strings)
    short = [s for n in range(1, 8) for s in map("".join, product(language.alphabet, repeat=n))]
    kept = {s for s in short if all(language.rules(s).values())}
    # w = "" of w#w is n = 0.
    assert kept - {"#"} == {s for s in language.strings if len(s) <= 7}


def test_sizes_of_the_languages() -> None:
    assert len(Language("brackets", 4).strings) == 1 + 2 + 5 + 14
    assert len(Language("copy", 4).strings) == 2 + 4 + 8 + 16
    assert Language("brackets", 2).strings == ("()", "()()", "(())")
    assert Language("copy", 1).strings == ("a#a", "b#b")


@pytest.mark.parametrize(
    ("kind", "string", "r1", "r2"),
    [
        ("brackets", "))((", True, False),
        ("brackets", "(()", False, True),
        ("copy", "ab#b#ab", True, False),
        ("copy", "ab#b", False, True),
        ("copy", "ab", False, False),
    ],
)
def test_rules_of_the_others(kind: str, string: str, r1: bool, r2: bool) -> None:
    assert Language(kind, 3).rules(string) == {"R1": r1, "R2": r2}


@given(kind=st.sampled_from(sorted(KINDS)), data=st.data())
def test_the_oracle_keeps_r1_and_one_letter_more_breaks_it(kind: str, data: st.DataObject) -> None:
    language = Language(kind, 3)
    prompt = data.draw(st.text(language.alphabet, max_size=12))
    oracle, other = (language.completion(prompt, by) for by in ("oracle", "adversarial"))
    assert language.rules(prompt + oracle)["R1"]
    assert not language.rules(prompt + other)["R1"]
    assert len(other) == len(oracle) + 1
    # No shorter completion would do.
    for length in range(min(len(oracle), 4)):
        for shorter in map("".join, product(language.alphabet, repeat=length)):
            assert not language.rules(prompt + shorter)["R1"]


@pytest.mark.parametrize("language", EVERY, ids=name_of)
def test_prompts_inside_are_prefixes_and_the_oracle_ends_them_in_the_language(
    language: Language,
) -> None:
    prompts = language.prompts(4)
    prefixes = {s[:4] for s in language.strings if len(s) >= 4}
    assert set(prompts.inside) == prefixes
    assert set(prompts.inside) | set(prompts.outside) == set(prompts.strings)
    for prompt in prompts.inside:
        whole = prompt + language.completion(prompt)
        assert all(language.rules(whole).values())
    assert language.prompts(0).inside == ("",)


@pytest.mark.parametrize("language", EVERY, ids=name_of)
def test_tokens_and_back(language: Language) -> None:
    rows = language.encode(language.strings)
    assert rows.shape == (len(language.strings), max(map(len, language.strings)) + 2)
    assert tuple(map(language.decode, rows)) == language.strings
    assert (rows[:, 0] == language.tokens["SOS"]).all()
    assert ((rows == language.tokens["EOS"]).sum(1) == 1).all()
    prompt = language.encode([language.strings[0]], end=False)[0]
    assert prompt.tolist() == rows[0, : len(prompt)].tolist()


def test_tokens_of_anbn_are_the_authors() -> None:
    assert ANBN.tokens == {"a": A, "b": B, "SOS": SOS, "EOS": EOS, "PAD": PAD}
    assert ANBN.encode(["ab", ""]).tolist() == [[SOS, A, B, EOS], [SOS, EOS, PAD, PAD]]
    assert ANBN.decode([A, PAD, B, SOS, EOS, B]) == "ab"


@pytest.mark.parametrize("language", EVERY, ids=name_of)
def test_samples_are_uniform_over_the_strings(language: Language, seed: int) -> None:
    sample = language.sample(4000, seed)
    places = sample.latents[:, 0].astype(int)
    assert sample.latents.shape == (4000, 1)
    drawn = [language.decode(row) for row in sample.observations[:50]]
    assert drawn == [language.strings[place] for place in places[:50]]
    counts = np.bincount(places, minlength=len(language.strings))
    expected = 4000 / len(counts)
    # χ² with strings − 1 degrees of freedom: mean k, standard deviation √(2k).
    k = len(counts) - 1
    assert abs(((counts - expected) ** 2 / expected).sum() - k) < 5 * (2 * k) ** 0.5
    again = language.sample(4000, np.random.default_rng(seed))
    assert (again.observations == sample.observations).all()


def test_what_a_language_promises_and_assumes() -> None:
    on, narrow, wide, off = ANBN.identified
    assert (on.rung, narrow.rung, wide.rung, off.rung) == ("identity", "linear", None, None)
    assert "width 2 or less" in narrow.learner
    assert ANBN.check().ok
    assert ANBN.check(rows=5).failed == ("coverage",)
    assert Language("brackets", 8).check(rows=300)["coverage"].says.startswith("2")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Language("anbncn", 3), "language is 'anbncn'; choose one of anbn, brackets, copy"),
        (lambda: Language("anbn", 0), "longest is 0; give a whole number, 1 or more"),
        (lambda: Language("anbn", 2.5), "longest is 2.5"),
        (lambda: Language("copy", 40), "more than 1,000,000 tokens.*longest below 15"),
        (lambda: ANBN.rules("abc"), "'abc' contains 'c'.*use only a and b"),
        (lambda: ANBN.completion("a b"), "contains ' '"),
        (lambda: ANBN.completion("a", "random"), "is 'random'; choose one of oracle, adversarial"),
        (lambda: ANBN.next_token("ba"), "begins with 'ba', so it says nothing"),
        (lambda: ANBN.encode(["ab", "x"]), "contains 'x'"),
        (lambda: ANBN.prompts(40), r"2\^40 prompts"),
        (lambda: ANBN.prompts(-1), "0 or more"),
        (lambda: ANBN.floor("word"), "is 'word'; choose one of sequence, token, padded token"),
    ],
)
def test_wrong_languages(call, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


# KL of sequences


def written(table: dict, prompt: tuple[int, ...], longest: int = 40) -> list[int]:
    """The likeliest continuation by a table."""
    out = list(prompt)
    while len(out) < longest and (not out or out[-1] != EOS):
        out.append(int(np.argmax(table[tuple(out)])))
    return out[len(prompt) :]


def test_two_models_that_differ_off_the_support_have_kl_0_and_other_completions() -> None:
    p = dict(Language("anbn", 4).table)
    tables = []
    for by in ("oracle", "adversarial"):
        q = dict(p)
        for prompt in Language("anbn", 4).prompts(4).outside:
            tokens = ["ab".index(letter) for letter in prompt]
            new = [*("ab".index(x) for x in Language("anbn", 4).completion(prompt, by)), EOS]
            for i, token in enumerate(new):
                q[(*tokens, *new[:i])] = np.eye(5)[token]
        assert prefix_kl(p, q).kl == prefix_kl(p, q, [(B,)]).kl == 0.0
        tables.append(q)
    assert written(tables[0], (B, B, B, A)) == [A, A, EOS]
    assert written(tables[1], (B, B, B, A)) == [A, A, A, EOS]
    # On the support they agree, of course.
    assert written(tables[0], (A, A, A, B)) == written(tables[1], (A, A, A, B))


def every_prefix(length: int) -> list[tuple[int, ...]]:
    return [prefix for n in range(length) for prefix in product(range(3), repeat=n)]


def test_kl_lies_after_the_prefixes_where_the_models_differ(rng: np.random.Generator) -> None:
    """Σ p(s) KL(p(·|s)‖q(·|s)), beside Σ_x p(x) log p(x)/q(x) over all 3⁵ sequences."""
    p = {prefix: rng.dirichlet(np.ones(3)) for prefix in every_prefix(5)}
    chosen = [(0, 1), (2,), (1, 1, 1)]
    q = {
        prefix: rng.dirichlet(np.ones(3)) if any(prefix[: len(s)] == s for s in chosen) else row
        for prefix, row in p.items()
    }

    def of(table: dict, x: tuple[int, ...]) -> float:
        return float(np.prod([table[x[:i]][token] for i, token in enumerate(x)]))

    whole = list(product(range(3), repeat=5))
    expected = sum(of(p, x) * math.log(of(p, x) / of(q, x)) for x in whole)
    found = prefix_kl(p, q, chosen)
    assert found.kl == pytest.approx(expected, rel=1e-12)
    assert sum(found.terms.values()) == pytest.approx(expected, rel=1e-12)
    for s in chosen:
        after = [x for x in whole if x[: len(s)] == s]
        own = sum(of(p, x) * math.log(of(p, x) / of(q, x)) for x in after)
        assert found.terms[s] == pytest.approx(own, rel=1e-10)
    assert found.mass == pytest.approx(sum(of(p, s) for s in chosen), rel=1e-12)
    assert found.kl < found.bound
    assert prefix_kl(p, q, [(2,)]).bound == pytest.approx(found.terms[(2,)], rel=1e-12)


def test_kl_is_infinite_where_q_forbids_what_occurs() -> None:
    assert prefix_kl({(): [0.5, 0.5]}, {(): [1.0, 0.0]}).kl == math.inf
    assert prefix_kl({(): [1.0, 0.0]}, {(): [0.5, 0.5]}).kl == pytest.approx(math.log(2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: prefix_kl({(): [1.0]}, {(): [1.0]}, [(0,), (0, 0)]), r"\(0, 0\) begins with"),
        (lambda: prefix_kl({(): [1.0]}, {}), r"q has no entry for the prefix \(\)"),
        (lambda: prefix_kl({(): [0.5, 0.4]}, {(): [0.5, 0.5]}), "p after the prefix .* expected"),
        (lambda: BernoulliMixture((0.1, 1.0)), "rates must be numbers between 0 and 1"),
        (lambda: BernoulliMixture((0.1, 0.6), (0.5, 0.6)), "a probability for each of the 2"),
    ],
)
def test_wrong_tables(call, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


# Answers to rare prompts

COINS = BernoulliMixture((0.1, 0.6))


@pytest.mark.parametrize(
    ("ones", "mass", "digits", "bound", "within"),
    [(10, 0.00302, 5e-6, 0.0227, 5e-5), (20, 1.8e-5, 5e-7, 1.4e-4, 5e-6)],
)
def test_a_rare_prompt_is_answered_otherwise_for_almost_nothing(
    ones: int, mass: float, digits: float, bound: float, within: float
) -> None:
    close(COINS.mass(ones, ones), mass, digits)
    apart = 0.6 * math.log(0.6 / 0.1) + 0.4 * math.log(0.4 / 0.9)
    close(apart, 0.7507, 5e-5)
    largest = COINS.mass(ones, ones) * 10 * apart
    close(largest, bound, within)
    exact = COINS.answered(ones, ones, 0.1, 10)
    assert 0.99 * largest < exact <= largest
    # What is likeliest next changes: a one before, a zero after.
    close(COINS.predict(ones, ones), 0.6, 1e-6)


def test_the_cost_of_an_answer_is_the_kl_of_the_tables() -> None:
    """With 3 ones before and 4 tokens after, all 2⁷ sequences can be listed."""
    prefixes = [x for n in range(7) for x in product(range(2), repeat=n)]
    rate = {x: COINS.predict(sum(x), len(x)) for x in prefixes}
    p = {x: np.array([1 - rate[x], rate[x]]) for x in prefixes}
    q = {x: np.array([0.9, 0.1]) if x[:3] == (1, 1, 1) else row for x, row in p.items()}
    found = prefix_kl(p, q, [(1, 1, 1)])
    assert found.kl == pytest.approx(COINS.answered(3, 3, 0.1, 4), rel=1e-12)
    assert found.mass == pytest.approx(COINS.mass(3, 3), rel=1e-12)
    # One prefix: the bound is the cost itself.
    assert found.bound == pytest.approx(found.kl, rel=1e-12)


def test_unequal_weights_are_bayes_rule() -> None:
    coins = BernoulliMixture((0.2, 0.7), (0.75, 0.25))
    likelihoods = np.array([0.75 * 0.2 * 0.8**2, 0.25 * 0.7 * 0.3**2])
    close(coins.mass(1, 3), likelihoods.sum(), 1e-15)
    close(coins.predict(1, 3), likelihoods @ [0.2, 0.7] / likelihoods.sum(), 1e-15)
