"""Models slice by slice: the same where the data are, and elsewhere?"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from scipy.stats import t as student
from typer.testing import CliRunner, Result

from identikit.auditing import ModelPair, ModelsAudit, Slice, audit_models
from identikit.auditing._models_slices import by_slice, read_slices
from identikit.auditing.models_result import CLOSE, DIFFERENT, SAME
from identikit.cli import app
from identikit.errors import InputError
from identikit.family import Pair, SoftmaxModel
from identikit.report import html
from identikit.report.plots import plot_slices
from identikit.report.words.models import by_slice as words_of
from test_models_report import printed
from test_report import HOSTILE, Page

Models = tuple[SoftmaxModel, SoftmaxModel]
IN, OUT = "in support", "out of support"


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def by_embeddings(rng: np.random.Generator, rows: int = 120) -> Models:
    f, g = rng.normal(size=(rows, 3)), rng.normal(size=(7, 3))
    return SoftmaxModel(f, g, name="a"), SoftmaxModel(f + rng.normal(size=f.shape), g, name="b")


def with_bias(rng: np.random.Generator) -> Models:
    a, b = by_embeddings(rng)
    return a, SoftmaxModel(b.f, b.g, rng.normal(size=7), name="b")


def with_candidates(rng: np.random.Generator) -> Models:
    a, b = by_embeddings(rng)
    sets = np.argsort(rng.random((120, 7)), axis=1)[:, :4]
    a, b = (SoftmaxModel(m.f, m.g, candidates=sets, name=m.name) for m in (a, b))
    return a, b


def by_table(rng: np.random.Generator) -> Models:
    a, b = (SoftmaxModel.from_log_prob(m.log_prob(), m.name) for m in by_embeddings(rng))
    return a, b


def with_impossible(rng: np.random.Generator) -> Models:
    """Label 6 is impossible for the first ten inputs of both, so it has no logits."""
    tables = [m.log_prob() for m in by_embeddings(rng)]
    for table in tables:
        table[:10, 6] = -np.inf
    a, b = (SoftmaxModel.from_log_prob(log_softmax(t), n) for t, n in zip(tables, "ab"))
    return a, b


MAKERS = [by_embeddings, with_bias, with_candidates, by_table, with_impossible]


def only(models: Models, labels: object, **options: object) -> ModelPair:
    (pair,) = audit_models(models, slices=labels, **options).pairs
    return pair


def sliced(models: Models, labels: object, *, groups: object = None) -> dict[str, Slice]:
    """The slices without the rest of an audit."""
    pair = Pair(*models)
    found = by_slice(pair, read_slices(labels, pair.n), 0.1, groups)
    return {each.name: each for each in found}


def prompts() -> tuple[np.ndarray, np.ndarray]:
    """All strings of eight a and b, and which of them begin a word of the language aⁿbⁿ."""
    strings = ["".join(letters) for letters in product("ab", repeat=8)]
    held = ["ba" not in s and s.count("a") >= s.count("b") for s in strings]
    return np.array(strings), np.array([IN if each else OUT for each in held])


def two_tables(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Next-token probabilities of aⁿbⁿ, n ≤ 16; the second differs only where no word begins."""
    strings, where = prompts()
    p = np.full((256, 4), 1e-3)
    for row, (string, place) in enumerate(zip(strings, where)):
        ours, theirs = string.count("a"), string.count("b")
        if place == OUT:
            p[row] += rng.random(4)
        elif theirs:  # the rest of the word is known: b until there are as many, then the end
            p[row, 1 if theirs < ours else 2] += 1
        else:
            p[row, :2] += [(16 - ours) / (17 - ours), 1 / (17 - ours)]
    p /= p.sum(axis=1, keepdims=True)
    q = p.copy()
    q[where == OUT] = q[where == OUT][:, [1, 2, 3, 0]]
    return p, q, where


# The numbers


@pytest.mark.parametrize("make", MAKERS)
def test_slices_average_to_the_pair(make: Callable[..., Models], rng):
    """KL, total variation and the square of the logit gap: means over inputs of the slices'."""
    pair = only(make(rng), rng.integers(4, size=120))
    share = np.array([each.inputs for each in pair.slices]) / 120
    assert share.sum() == pytest.approx(1, abs=1e-15)

    def mean(of: str) -> float:
        return share @ [getattr(each, of) for each in pair.slices]

    for name in ("kl", "kl_reverse", "tv"):
        assert mean(name) == pytest.approx(getattr(pair.distances, name), rel=1e-12)
    squares = share @ [each.logit_gap**2 for each in pair.slices]
    assert squares == pytest.approx(pair.gauge.logit_gap**2, rel=1e-10)
    assert pair.gauge.logit_gap > 0.1


def test_a_slice_against_plain_arithmetic(rng):
    a, b = with_bias(rng)
    labels = rng.integers(3, size=120)
    p, q = a.log_prob(), b.log_prob()
    found = sliced((a, b), labels)
    z = [table - table.mean(axis=1, keepdims=True) for table in (p, q)]
    for label in range(3):
        rows, each = labels == label, found[str(label)]
        assert each.inputs == rows.sum()
        gap = np.linalg.norm(z[0][rows] - z[1][rows]) / np.sqrt(rows.sum())
        spread = np.linalg.norm(z[0]) / np.sqrt(120)
        assert each.logit_gap == pytest.approx(gap / spread, rel=1e-12)
        kl = (np.exp(p) * (p - q)).sum(axis=1)[rows].mean()
        assert each.kl == pytest.approx(kl, rel=1e-12)
        back = (np.exp(q) * (q - p)).sum(axis=1)[rows].mean()
        assert each.kl_reverse == pytest.approx(back, rel=1e-12)
        tv = np.abs(np.exp(p) - np.exp(q)).sum(axis=1)[rows].mean() / 2
        assert each.tv == pytest.approx(tv, rel=1e-12)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(2, 6))
def test_slices_do_not_see_the_order_of_inputs_or_the_gauge(seed, count):
    rng = np.random.default_rng(seed)
    a, b = by_embeddings(rng, 40)
    labels = np.append(np.arange(count), rng.integers(count, size=40 - count))
    order, A = rng.permutation(40), rng.normal(size=(3, 3)) + 3 * np.eye(3)
    moved = SoftmaxModel(b.f[order] @ A.T, b.g @ np.linalg.inv(A) + rng.normal(size=3))
    first = by_slice(Pair(a, b), read_slices(labels, 40), 0.1)
    again = by_slice(
        Pair(SoftmaxModel(a.f[order], a.g), moved), read_slices(labels[order], 40), 0.1
    )
    for ours, theirs in zip(first, again, strict=True):
        assert (ours.name, ours.inputs) == (theirs.name, theirs.inputs)
        for of in ("logit_gap", "kl", "kl_reverse", "tv"):
            assert getattr(ours, of) == pytest.approx(getattr(theirs, of), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("make", MAKERS)
def test_blocks_of_logits_make_no_difference(make: Callable[..., Models], rng, monkeypatch):
    models, labels = make(rng), rng.integers(3, size=120)
    whole = by_slice(Pair(*models), read_slices(labels, 120), 0.1)
    monkeypatch.setattr(
        SoftmaxModel, "slices", lambda _: (slice(at, at + 7) for at in range(0, 120, 7))
    )
    streamed = by_slice(Pair(*models), read_slices(labels, 120), 0.1)
    for ours, theirs in zip(whole, streamed, strict=True):
        assert ours.logit_gap == pytest.approx(theirs.logit_gap, rel=1e-9)
        assert ours.kl == pytest.approx(theirs.kl, rel=1e-12)
        assert ours.kl_interval == pytest.approx(theirs.kl_interval, rel=1e-9)


def test_kl_is_exactly_zero_where_only_other_rows_differ(rng):
    """A tabular q that differs from p only off the support: 5 prompts equal, 251 not."""
    p, q, where = two_tables(rng)
    models = [SoftmaxModel.from_log_prob(np.log(t), n) for t, n in ((p, "p"), (q, "q"))]
    pair = only((models[0], models[1]), where)
    inside, outside = pair.slices
    assert (inside.name, inside.inputs, outside.name, outside.inputs) == (IN, 5, OUT, 251)
    assert inside.kl == inside.kl_reverse == inside.tv == inside.logit_gap == 0.0
    assert inside.kl_interval == inside.logit_gap_interval == (0.0, 0.0)
    assert inside.same
    assert not outside.same
    assert outside.kl_interval[0] > 0
    assert (p.argmax(axis=1) != q.argmax(axis=1)).sum() == 251
    assert pair.finding != SAME
    says = (
        f"On the slice 'in support' (5 inputs) they are the same distribution (relative logit {''}"
    )
    assert says in pair.sentence
    assert "; on 'out of support' (251 inputs) they differ (relative logit gap " in pair.sentence


def test_a_label_that_only_one_model_thinks_impossible(rng):
    """Off the support KL is infinite, on it all is equal; no interval then, and JSON has null."""
    p, q, where = two_tables(rng)
    q[where == OUT, 3] = 0
    q /= q.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        models = [SoftmaxModel.from_log_prob(np.log(t), n) for t, n in ((p, "p"), (q, "q"))]
    inside, outside = sliced((models[0], models[1]), where).values()
    assert inside.kl < 1e-15
    assert (outside.kl, outside.kl_interval, outside.finding) == (np.inf, None, DIFFERENT)
    assert np.isfinite(outside.kl_reverse)
    assert outside.to_dict()["kl"] is outside.to_dict()["kl_interval"] is None
    assert "KL infinite" in words_of((inside, outside))


# The intervals


def test_intervals_are_students(rng):
    """Of log KL, mean ± t s/√m over the mean; of the gap, the root of those of its square."""
    a, b = by_embeddings(rng)
    labels = np.repeat(["few", "many"], [4, 116])
    found = sliced((a, b), labels)
    p, q = a.log_prob(), b.log_prob()
    kl = (np.exp(p) * (p - q)).sum(axis=1)
    difference = (p - q) - (p - q).mean(axis=1, keepdims=True)
    spread = np.square(p - p.mean(axis=1, keepdims=True)).sum() / 120
    squares = np.square(difference).sum(axis=1) / spread
    for name, rows in (("few", slice(4)), ("many", slice(4, None))):
        each = found[name]
        assert each.kl_interval == pytest.approx(ends(kl[rows]), rel=1e-9)
        assert each.logit_gap_interval == pytest.approx(np.sqrt(ends(squares[rows])), rel=1e-9)


def ends(values: np.ndarray) -> np.ndarray:
    m, mean = len(values), values.mean()
    half = student.ppf(0.975, m - 1) * values.std(ddof=1) / np.sqrt(m)
    return np.exp(np.log(mean) + np.array([-half, half]) / mean)


def test_inputs_of_a_group_count_as_one(rng):
    """Groups of one size: the interval is that of their means, as if each were one input."""
    a, b = by_embeddings(rng)
    labels, groups = np.arange(120) % 2, np.arange(120) // 12
    found = sliced((a, b), labels, groups=groups)
    p, q = a.log_prob(), b.log_prob()
    kl = (np.exp(p) * (p - q)).sum(axis=1)
    means = kl[labels == 0].reshape(10, 6).mean(axis=1)
    assert found["0"].kl_interval == pytest.approx(ends(means), rel=1e-9)


@pytest.mark.parametrize(("inputs", "least"), [(10, 0.8), (100, 0.88)])
def test_intervals_cover_what_they_estimate(inputs, least, rng):
    """400 slices of one law, against the mean of all: within chance of 95 %, less by the skew."""
    n = 400 * inputs
    f, g = rng.normal(size=(n, 3)), rng.normal(size=(7, 3))
    other = f + 0.3 * rng.normal(size=f.shape)
    pair = Pair(SoftmaxModel(f, g), SoftmaxModel(other, g))
    found = by_slice(pair, read_slices(np.arange(n) // inputs, n), 0.1)
    kl = np.mean([each.kl for each in found])
    gap = np.sqrt(np.mean([each.logit_gap**2 for each in found]))
    for value, of in ((kl, "kl_interval"), (gap, "logit_gap_interval")):
        low, high = np.array([getattr(each, of) for each in found]).T
        covered = np.mean((low <= value) & (value <= high))
        assert least < covered < 0.98


def test_equal_inputs_may_be_the_groups(rng):
    """Every input twice: the interval is that of one copy of each."""
    a, b = by_embeddings(rng, 60)
    labels = np.arange(60) % 2
    twice = [SoftmaxModel(np.tile(m.f, (2, 1)), m.g, name=m.name) for m in (a, b)]
    once = sliced((a, b), labels)
    both = only((twice[0], twice[1]), np.tile(labels, 2), groups="duplicates")
    for ours, theirs in zip(once.values(), both.slices, strict=True):
        assert ours.kl_interval == pytest.approx(theirs.kl_interval, rel=1e-9)


def test_few_inputs_have_no_interval_and_that_is_said(rng):
    pair = only(by_embeddings(rng), ["alone"] + ["others"] * 116 + ["three"] * 3)
    alone, others, three = pair.slices
    assert (alone.inputs, alone.kl_interval, alone.logit_gap_interval) == (1, None, None)
    assert None not in (others.kl_interval, three.kl_interval, three.logit_gap_interval)
    note = "1 of 3 slices has fewer than 3 inputs, or groups of them, and so no intervals"
    assert note in pair.notes
    assert "On the slice 'alone' (1 input) they" in pair.sentence


def test_two_groups_have_no_interval(rng):
    groups = np.append(np.arange(20) % 2, np.arange(2, 102))
    found = sliced(by_embeddings(rng), np.arange(120) >= 20, groups=groups)
    assert [each.kl_interval is None for each in found.values()] == [True, False]


# What is found


def test_close_in_kl_only(rng):
    """Labels that nobody expects: their logits differ by far, and no prediction does."""
    rows, K = 80, 8
    logits = np.zeros((rows, K))
    logits[:, 4:] = -30
    logits[:, :4] += rng.normal(size=(rows, 4))
    other = logits.copy()
    other[:40, 4:] += rng.uniform(-15, 15, size=(40, 4))
    models = [SoftmaxModel.from_log_prob(log_softmax(t), n) for t, n in zip((logits, other), "ab")]
    near, same = sliced((models[0], models[1]), np.arange(rows) // 40).values()
    assert (near.finding, same.finding) == (CLOSE, SAME)
    assert near.logit_gap > 0.1
    assert max(near.kl, near.kl_reverse) < 1e-2
    says = words_of((near, same))
    assert says.startswith(" On the slice '0' (40 inputs) they are close in KL only (KL ")


def test_small_logits_beside_large_ones_must_agree_in_probability(rng):
    """Within the tolerance of a yardstick that other inputs have set, and yet not the same."""
    logits = rng.normal(size=(100, 6))
    logits[50:] *= 100
    other = logits.copy()
    other[:50] = rng.normal(size=(50, 6))
    models = [SoftmaxModel.from_log_prob(log_softmax(t), n) for t, n in zip((logits, other), "ab")]
    small, large = sliced((models[0], models[1]), np.arange(100) // 50).values()
    assert small.logit_gap < 0.1 < small.tv
    assert (small.finding, large.finding) == (DIFFERENT, SAME)


def test_the_tolerance_decides(rng):
    a, _ = by_embeddings(rng)
    models = a, SoftmaxModel(a.f + 0.02 * rng.normal(size=a.f.shape), a.g, name="b")
    labels = np.arange(120) % 2
    assert all(each.same for each in only(models, labels).slices)
    assert not any(each.same for each in only(models, labels, tolerance=1e-3).slices)


def test_without_slices_nothing_changes(rng):
    models = by_embeddings(rng)
    (plain,) = audit_models(models).pairs
    pair = only(models, np.arange(120) % 2)
    assert plain.slices == ()
    assert plain.to_dict()["slices"] == []
    assert pair.sentence.startswith(plain.sentence + " On the slice '0' (60 inputs) they differ (")
    assert pair.gauge.logit_gap == plain.gauge.logit_gap
    assert pair.finding == plain.finding


def test_slices_are_in_the_order_of_their_labels(rng):
    models = by_embeddings(rng)
    assert list(sliced(models, np.arange(120) % 12)) == [str(k) for k in range(12)]
    assert list(sliced(models, ["b", "a", "c"] * 40)) == ["a", "b", "c"]


# The words


def a_slice(name: str, gap: float, finding: str = DIFFERENT, inputs: int = 1200) -> Slice:
    return Slice(name, inputs, gap, (gap / 2, 2 * gap), gap, (0.0, 2 * gap), gap, gap / 2, finding)


def test_the_sentence_of_a_few_slices():
    slices = a_slice("in", 0.004, SAME), a_slice("near", 0.3, CLOSE), a_slice("out", 0.9)
    assert words_of(slices) == (
        " On the slice 'in' (1,200 inputs) they are the same distribution (relative logit gap "
        "0.004); on 'near' (1,200 inputs) they are close in KL only (KL 0.3, relative logit gap "
        "0.3); on 'out' (1,200 inputs) they differ (relative logit gap 0.9, KL 0.9, total "
        "variation 0.45)."
    )
    assert words_of(()) == ""


def test_the_sentence_of_many_slices():
    slices = [a_slice(f"{k}", 0.2 + k) for k in range(8)]
    slices += [a_slice("x", 0.01, SAME), a_slice("y", 0.15, CLOSE)]
    assert words_of(slices) == (
        " Of 10 slices, 1 is the same distribution, 1 is close in KL only and 8 differ; on the "
        "nearest, 'x' (1,200 inputs), they are the same distribution (relative logit gap 0.01), "
        "and on the farthest, '7' (1,200 inputs), they differ (relative logit gap 7.2, KL 7.2, "
        "total variation 3.6)."
    )


def test_names_of_slices_are_plain_and_short_in_the_sentence(rng):
    long = ["part_of_the_data_" + "x" * 200 + end for end in ("_one", "_two")]
    pair = only(by_embeddings(rng), ["\x1b[31mred\n", "<b>", *long] * 30)
    assert {each.name for each in pair.slices} == {"\x1b[31mred\n", "<b>", *long}
    assert "' [31mred '" in pair.sentence
    assert pair.sentence.isprintable()
    assert "x" * 50 not in pair.sentence
    assert "one' (30" in pair.sentence
    assert "two' (30" in pair.sentence


# Bad input


BAD = [
    (np.zeros(119, int), "slices has 119 labels, but the models have 120 inputs"),
    (["all"] * 120, "all 120 inputs are in the same slice 'all'; a comparison by slices needs two"),
    ([1.0] * 119 + [np.nan], "slices: 1 labels are NaN or infinite, the first in row 119"),
    (["a"] * 119 + [None], "slices: row 119 is None of type NoneType"),
    (["a"] * 118 + [" ", ""], "slices: 2 labels are empty, the first in row 118"),
    (np.zeros((120, 1), int), r"slices has shape \(120, 1\); expected 1-D"),
    (np.linspace(0, 1, 120), "slices: row 1 is .*; expected integers or strings"),
]


@pytest.mark.parametrize(("labels", "words"), BAD)
def test_labels_that_do_not_fit(labels, words, rng):
    with pytest.raises(InputError, match=words):
        audit_models(by_embeddings(rng), slices=labels)


def test_too_many_slices(rng):
    with pytest.raises(InputError, match="there are 1001 slices, but at most 1000 are compared"):
        audit_models(by_embeddings(rng, 1001), slices=np.arange(1001))
    assert len(read_slices(np.arange(1000), 1000)) == 1000


# The command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    p, q, where = two_tables(np.random.default_rng(0))
    np.savez("p.npz", log_prob=np.log(p))
    np.savez("q.npz", log_prob=np.log(q))
    np.save("labels.npy", where)
    lines = "".join(f"{row},{label}\n" for row, label in enumerate(where))
    Path("labels.csv").write_text("row,where\n" + lines)
    return tmp_path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["models", *map(str, arguments)])


def test_command_says_where_the_models_are_the_same(folder):
    result = run("p.npz", "q.npz", "--slice", "labels.npy")
    assert result.exit_code == 0, result.output
    says = " ".join(result.stdout.split())
    assert "On the slice 'in support' (5 inputs) they are the same distribution (relative" in says
    assert "on 'out of support' (251 inputs) they differ (relative logit gap" in says
    table = result.stdout.split("Slice by slice\n")[1].splitlines()
    assert table[2].split()[:6] == ["in", "support", "same", "distribution", "5", "<1e-06"]
    assert table[3].split()[:5] == ["out", "of", "support", "different", "251"]


def test_command_reads_labels_as_groups_are_read(folder):
    documents = [
        run("p.npz", "q.npz", "--json", "--slice", file).stdout
        for file in ("labels.npy", "labels.csv::where")
    ]
    assert documents[0] == documents[1]
    (pair,) = json.loads(documents[0])["pairs"]
    inside, outside = pair["slices"]
    assert (inside["name"], inside["inputs"], inside["kl"]) == (IN, 5, 0.0)
    assert inside["finding"] == SAME
    assert inside["kl_interval"] == [0.0, 0.0]
    assert outside["finding"] == DIFFERENT
    assert set(outside) == {
        *("name", "inputs", "finding", "logit_gap", "logit_gap_interval"),
        *("kl", "kl_interval", "kl_reverse", "tv"),
    }


def test_fail_above_is_about_the_pair(folder):
    """A slice whose gap is above the limit does not fail where the pair's is not."""
    f, g = np.random.default_rng(0).normal(size=(2, 200, 3))
    moved = f.copy()
    moved[:4] += 0.5
    for name, each in (("a", f), ("b", moved)):
        np.savez(f"{name}.npz", f=each, g=g[:9])
    np.save("few.npy", np.arange(200) < 4)
    result = run("a.npz", "b.npz", "--slice", "few.npy", "--fail-above", "0.15", "--json")
    assert result.exit_code == 0, result.output
    (pair,) = json.loads(result.stdout)["pairs"]
    assert pair["logit_gap"] < 0.15 < pair["slices"][1]["logit_gap"]
    assert run("a.npz", "b.npz", "--slice", "few.npy", "--fail-above", "0.01").exit_code == 1


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("short.npy", "slices has 255 labels, but the models have 256 inputs"),
        ("nan.npy", "slices (nan.npy): 1 labels are NaN or infinite, the first in row 0"),
        ("gaps.csv::where", "slices (gaps.csv): column 'where' is empty in row 1"),
        ("nowhere.npy", "slices (nowhere.npy): there is no such file"),
        ("labels.csv", "slices (labels.csv) holds several columns; choose one with path::column"),
    ],
)
def test_bad_labels_are_one_sentence_and_exit_code_2(file, words, folder):
    np.save("short.npy", np.arange(255) % 2)
    np.save("nan.npy", np.append(np.nan, np.arange(255) % 2))
    Path("gaps.csv").write_text("row,where\n0,a\n1,\n2,b\n")
    result = run("p.npz", "q.npz", "--slice", file)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


def test_labels_are_not_overwritten(folder):
    result = run("p.npz", "q.npz", "--slice", "labels.npy", "-o", "labels.npy")
    assert result.exit_code == 2
    assert "labels.npy is one of the inputs" in result.stderr


# The report


@pytest.fixture(scope="module")
def audited() -> ModelsAudit:
    """Two models, three slices: one equal, one alone, one with a hostile name."""
    rng = np.random.default_rng(0)
    f, g = rng.normal(size=(120, 3)), rng.normal(size=(7, 3))
    moved = f.copy()
    moved[40:] += rng.normal(size=(80, 3))
    labels = ["equal"] * 40 + ["alone"] + [HOSTILE[0]] * 79
    models = [SoftmaxModel(each, g, name=name) for each, name in ((f, "a"), (moved, "b"))]
    return audit_models(models, slices=labels)


def with_slices(audit: ModelsAudit, count: int) -> ModelsAudit:
    slices = tuple(a_slice(f"part {k:03}", 0.001 * (k + 1)) for k in range(count))
    return replace(audit, pairs=tuple(replace(pair, slices=slices) for pair in audit.pairs))


@pytest.mark.parametrize("width", [90, 100])
def test_terminal_has_a_table_of_slices_that_fits(audited, width):
    text = printed(audited, width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    table = text.split("Slice by slice\n")[1].split("\n\n")[0]
    assert len(table.splitlines()) == 5
    gap = audited.worst.slices[1].logit_gap
    assert f"{gap:.3g}" in next(line for line in table.splitlines() if line.startswith("alone"))


def test_terminal_shows_the_nearest_and_the_farthest_of_many(audited):
    text = printed(with_slices(audited, 30))
    assert "The 6 nearest and the 6 farthest of 30 slices" in text
    assert "part 005" in text
    assert "part 006" not in text
    assert "part 024" in text


def test_terminal_has_slices_of_the_worst_pairs_only(audited):
    names = [f"model {k}" for k in range(7)]
    models = (*(replace(audited.models[0], name=name) for name in names), audited.models[1])
    pairs = tuple(replace(audited.worst, a=name) for name in names)
    text = printed(replace(audited, models=models, pairs=pairs))
    assert text.count("slice by slice") == 5
    assert "model 0 and b, slice by slice" in text
    assert "Slices of 2 more pairs are in the JSON document and the report." in text


def test_page_has_the_slices_and_their_names_as_text(audited):
    text = html(audited)
    page = Page(text)
    assert page.tags["svg"] == 2
    assert page.tags["script"] == 0
    assert HOSTILE[0] in page.text
    assert "3 slices" in page.text
    assert "Slice by slice" in page.text
    assert "nan" not in text
    assert "None" not in text
    assert any("have no interval" in title for title in page.values("title"))
    ids = page.values("id")
    assert len(ids) == len(set(ids))


def test_page_of_many_slices_stays_a_page(audited):
    page = Page(html(with_slices(audited, 300)))
    rows = [text for text in page.text if text.startswith("part ")]
    assert len(rows) == 40
    assert "The 20 nearest and the 20 farthest of 300 slices" in " ".join(page.text)


def test_a_page_without_slices_does_not_speak_of_them(audited):
    pairs = tuple(replace(p, slices=(), notes=()) for p in audited.pairs)
    bare = replace(audited, pairs=pairs)
    assert "lice" not in "".join(Page(html(bare)).text)
    assert "lice" not in printed(bare)


def test_figure_draws_every_value_where_it_is(audited):
    slices = (*audited.worst.slices, replace(a_slice("inf", 0.5), kl=np.inf, kl_interval=None))
    gap, kl = plot_slices(replace(audited.worst, slices=slices)).axes
    points = {
        (float(x), int(y))
        for line in gap.lines
        if line.get_marker() != "None"
        for x, y in zip(line.get_xdata(), line.get_ydata())
    }
    assert points == {(max(each.logit_gap, 1e-6), row) for row, each in enumerate(slices)}
    assert [label.get_text() for label in gap.get_yticklabels()] == ["1", "2", "3", "4"]
    (edge,) = (line for line in kl.lines if line.get_marker() == ">")
    assert list(edge.get_xdata()) == [kl.get_xlim()[1]]
    assert [text.get_text() for text in kl.texts] == ["● same", "■ different"]
    bars = [segment for lines in gap.collections for segment in lines.get_segments()]
    widest = max(segment[1, 0] for segment in bars)
    assert widest == pytest.approx(max((each.logit_gap_interval or (0, 0))[1] for each in slices))


def test_slices_of_many_keep_their_numbers(audited):
    gaps = np.random.default_rng(0).permutation(60) + 0.5
    slices = tuple(a_slice(f"part {k}", gap) for k, gap in enumerate(gaps, 1))
    page = Page(html(replace(audited, pairs=(replace(audited.worst, slices=slices),))))
    shown = [int(text.removeprefix("part ")) for text in page.text if text.startswith("part ")]
    kept = [k for k, gap in enumerate(gaps, 1) if gap < 20 or gap > 40]
    assert shown == kept


def test_notebook_and_summary_say_the_sentence(audited):
    assert "On the slice" in audited.summary()
    assert "they are the same distribution" in audited._repr_html_()
