"""Models in, a verdict out: each kind of pair gets the sentence it deserves."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from typer.testing import CliRunner, Result

from identikit._text import brief
from identikit.auditing import ModelPair, audit_models
from identikit.auditing.models_result import BLOCKS, CLOSE, DIFFERENT, SAME, TWO_MAPS
from identikit.cli import app
from identikit.errors import InputError
from identikit.family import SoftmaxModel

Models = tuple[SoftmaxModel, SoftmaxModel]


def equal_up_to_gauge(rng: np.random.Generator) -> Models:
    """Fixture F1, with fewer inputs and labels: f' = A f, g' = A⁻ᵀ g + c."""
    f = rng.normal(size=(500, 16)) * np.logspace(0, -1.5, 16) + 0.3
    g, A = rng.normal(size=(60, 16)), rng.normal(size=(16, 16))
    other = SoftmaxModel(f @ A.T, g @ np.linalg.inv(A) + 3 * rng.normal(size=16), name="b")
    return SoftmaxModel(f, g, name="a"), other


def counter_rotated(rng: np.random.Generator) -> Models:
    """Fixture F10: f turned by +45°, g by −45°."""
    angles = np.pi * np.array([0, 0.5, 1, 1.25, 1.75])
    g = 8 * np.column_stack([np.cos(angles), np.sin(angles)])
    f = np.repeat(5 / 8 * g, 100, axis=0) + 0.5 * rng.normal(size=(500, 2))
    turn = np.array([[1, -1], [1, 1]]) / np.sqrt(2)
    return SoftmaxModel(f, g, name="a"), SoftmaxModel(f @ turn.T, g @ turn, name="b")


def few_labels(rng: np.random.Generator) -> Models:
    """Fixture F7: K = 6 labels in 16 dimensions, non-linear junk where no label reaches."""
    f, g, A = rng.normal(size=(600, 16)), rng.normal(size=(6, 16)), rng.normal(size=(16, 16))
    seen = np.linalg.svd(g - g.mean(axis=0))[2][:5]
    project = seen.T @ seen
    junk = np.tanh(f @ rng.normal(size=(16, 16))) @ (np.eye(16) - project)
    other = SoftmaxModel((f @ project + junk) @ A.T, g @ np.linalg.inv(A) + 1, name="b")
    return SoftmaxModel(f, g, name="a"), other


def small_kl(rng: np.random.Generator, shared: float = 0.0) -> Models:
    """Nielsen et al. (2025), Theorem 3.1, ρ = 18; `shared` is the spread of a third axis."""
    K, rho, per = 7, 18, 80
    order, angles = (2 * np.arange(K) - 2) % K, 2 * np.pi * np.arange(K) / K
    radius = 2 + np.abs(0.01 * rng.normal(size=(K, per)))
    noise = rng.uniform(-np.pi / 64, np.pi / 64, size=(K, per))
    extra = shared * rng.normal(size=(K * per, 1))
    label = 0.5 * rng.normal(size=(K, 1))

    def circle(r: Any, angle: Any, third: np.ndarray) -> np.ndarray:
        flat = np.stack([r * np.cos(angle), r * np.sin(angle)], axis=-1).reshape(-1, 2)
        return np.hstack([flat, third]) if shared else flat

    first, second = angles[:, None] + noise, angles[order][:, None] + noise[order]
    return (
        SoftmaxModel(circle(radius, first, extra), circle(rho, angles, label), name="a"),
        SoftmaxModel(circle(radius, second, extra), circle(rho, angles[order], label), name="b"),
    )


def biased(rng: np.random.Generator) -> Models:
    """Fixture F6: a bias lets f shift."""
    f, g, bias = rng.normal(size=(400, 8)), rng.normal(size=(60, 8)), rng.normal(size=60)
    A, shift = rng.normal(size=(8, 8)), rng.normal(size=8)
    g2 = g @ np.linalg.inv(A)
    other = SoftmaxModel(f @ A.T + shift, g2 + 2, bias - g2 @ shift + 1.7, name="b")
    return SoftmaxModel(f, g, bias, name="a"), other


def unrelated(rng: np.random.Generator) -> Models:
    sizes = ((300, 3), (12, 3))
    a, b = ([rng.normal(size=size) for size in sizes] for _ in range(2))
    return SoftmaxModel(*a, name="a"), SoftmaxModel(*b, name="b")


def relabelled(rng: np.random.Generator) -> Models:
    """Label k of a is label k + 1 of b, and the last is its first."""
    a, b = equal_up_to_gauge(rng)
    return a, SoftmaxModel(b.f, np.roll(b.g, 1, axis=0), name="b")


def warmer(rng: np.random.Generator) -> Models:
    """The logits of b are half of a's."""
    a, b = equal_up_to_gauge(rng)
    return a, SoftmaxModel(b.f, b.g / 2, name="b")


def table(logits: np.ndarray, name: str) -> SoftmaxModel:
    """A model by its log-probabilities; logits of −inf are impossible labels."""
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return SoftmaxModel.from_log_prob(logs, name)


def only(models: Models, **options: Any) -> ModelPair:
    (pair,) = audit_models(models, **options).pairs
    return pair


# What is found


def test_f1_equal_up_to_gauge(rng):
    pair = only(equal_up_to_gauge(rng))
    assert pair.finding == SAME
    assert pair.same
    assert pair.sentence == (
        "The same distribution up to relative logit gap <1e-06 (total variation <1e-06), so the "
        "same embedding up to a linear map: κ < 1e-06."
    )
    assert pair.embedding.group == "linear"
    assert pair.gauge.label_error < 1e-6


def test_the_sentence_has_the_numbers_and_the_tolerance_decides(rng):
    a, b = equal_up_to_gauge(rng)
    noise = 0.002 * rng.normal(size=b.f.shape) @ np.diag(b.f.std(axis=0))
    models = a, SoftmaxModel(b.f + noise, b.g, name="b")
    pair = only(models)
    assert pair.finding == SAME
    assert 0 < pair.gauge.logit_gap < 0.1
    assert f"relative logit gap {pair.gauge.logit_gap:.2g} (" in pair.sentence
    assert f"κ = {pair.gauge.kappa:.2g}." in pair.sentence
    strict = only(models, tolerance=pair.gauge.logit_gap / 2)
    assert strict.finding == DIFFERENT
    assert strict.sentence.startswith("Not the same within ")
    assert "the embeddings agree best up to the rung linear" in strict.sentence


def test_f10_counter_rotation(rng):
    pair = only(counter_rotated(rng))
    assert pair.finding == TWO_MAPS
    assert pair.sentence.startswith("Each side is related (held-out error <1e-06 for f, <1e-06")
    assert "not by one map (κ = 1.4)" in pair.sentence
    assert "the distributions differ" in pair.sentence
    assert pair.distances.tv > 0.99


def test_f7_fewer_labels_than_dimensions(rng):
    pair = only(few_labels(rng))
    assert pair.sentence.startswith("In both models K = 6 labels leave 11 of 16 dimensions of f")
    assert "The same distribution up to relative logit gap <1e-06" in pair.sentence
    assert "a linear map on the 5 identified dimensions" in pair.sentence
    assert pair.embedding.error < 1e-6
    assert pair.gauge.label_error is None  # five labels cannot fix an affine map of five dimensions
    assert not any("rank 5" in note for note in pair.notes)


def test_only_the_model_that_is_not_diverse_is_named(rng):
    a, _ = few_labels(rng)
    narrow = SoftmaxModel(a.f[:, :3], a.g[:, :3], name="narrow")
    pair = only((narrow, a))
    assert pair.sentence.startswith("In the second model K = 6 labels leave 11 of 16")
    assert "first model" not in pair.sentence


def test_small_kl_and_yet_unrelated(rng):
    pair = only(small_kl(rng))
    assert pair.finding == CLOSE
    assert re.match(r"Close in KL \(0\.0001\d?\) and yet unrelated embeddings", pair.sentence)
    assert pair.embedding.group == "unrelated"


def test_small_kl_and_yet_dissimilar(rng):
    pair = only(small_kl(rng, shared=2.0))
    assert pair.finding == CLOSE
    assert "and yet dissimilar embeddings" in pair.sentence
    assert 0.5 < pair.embedding.error < 1


def test_a_bias_makes_the_map_affine(rng):
    pair = only(biased(rng))
    assert pair.finding == SAME
    assert "up to an affine map: κ < 1e-06" in pair.sentence
    assert pair.embedding.group == "affine"


def test_unrelated_models_get_plain_numbers(rng):
    pair = only(unrelated(rng))
    assert pair.finding == DIFFERENT
    assert "the embeddings are unrelated" in pair.sentence
    assert pair.gauge.label_error > 0.5


def test_names_never_enter_the_sentence(rng):
    a, b = few_labels(rng)
    a.name = "<b>\x1b"
    assert "<b>" not in only((a, b)).sentence


def test_one_impossible_label_more_is_not_the_same(rng):
    """Two tables that agree on the labels that are always possible, and nowhere else."""
    logits = rng.normal(size=(50, 2)) @ rng.normal(size=(2, 5))
    models = []
    for last in (-np.inf, 3.0):
        both = np.column_stack([logits, np.full(50, last), np.zeros(50)])
        both[0, 6] = -np.inf
        models.append(table(both, f"{last}"))
    pair = only((models[0], models[1]))
    assert pair.finding != SAME
    assert pair.to_dict()["distances"]["kl_reverse"] is None
    assert only((models[0], SoftmaxModel.from_log_prob(models[0].table, "c"))).finding == SAME


def test_the_same_possible_labels_are_not_enough(rng):
    """The label that is impossible for the first input has another weight for all others."""
    logits = rng.normal(size=(50, 2)) @ rng.normal(size=(2, 5))
    models = []
    for weight in (-4.0, 4.0):
        both = np.column_stack([logits, np.full(50, weight)])
        both[0, 5] = -np.inf
        models.append(table(both, f"{weight}"))
    pair = only((models[0], models[1]))
    assert pair.gauge.logit_gap < 1e-6
    assert pair.distances.tv > 0.5
    assert pair.finding == DIFFERENT


def test_no_label_is_possible_in_both(rng):
    logits = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 6))
    models = []
    for closed in ((0, 1, 2), (3, 4)):
        both = logits.copy()
        both[np.ix_([0], closed)] = -np.inf
        models.append(table(both, str(closed)))
    with pytest.raises(InputError, match="fewer than two labels are possible"):
        audit_models(models)


def test_candidates_have_divergences_only(rng):
    f, g, A = rng.normal(size=(200, 3)), rng.normal(size=(20, 3)), rng.normal(size=(3, 3))
    chosen = np.argsort(rng.random((200, 20)), axis=1)[:, :6]
    a = SoftmaxModel(f, g, candidates=chosen, name="a")
    b = SoftmaxModel(f @ A.T, g @ np.linalg.inv(A), candidates=chosen, name="b")
    pair = only((a, b))
    assert pair.finding == SAME
    document = pair.to_dict()
    assert set(document["distances"]) == {"kl", "kl_reverse", "js", "tv", "kinds"}


def test_blocks_of_candidates_have_a_map_each(rng):
    """Fixture F11: p is the same, and no single map lies between the embeddings."""
    f, g = rng.normal(size=(400, 4)), rng.normal(size=(40, 4))
    chosen = np.argsort(rng.random((400, 20)), axis=1)[:, :8]
    chosen[200:] += 20
    moved, labels = f.copy(), g.copy()
    for x, y in ((slice(200), slice(20)), (slice(200, None), slice(20, None))):
        A = rng.normal(size=(4, 4))
        moved[x], labels[y] = f[x] @ A.T, g[y] @ np.linalg.inv(A) + rng.normal(size=4)
    pair = only(tuple(SoftmaxModel(*m, candidates=chosen) for m in ((f, g), (moved, labels))))
    assert pair.finding == BLOCKS
    assert pair.gauge.logit_gap < 1e-12
    assert pair.gauge.kappa > 0.1
    assert "2 blocks" in pair.sentence
    assert "no one map" in pair.sentence
    # Log-odds of labels that meet agree; of others nothing is known.
    np.testing.assert_allclose(pair.log_odds[:, 0], pair.log_odds[:, 1], atol=1e-9)


def test_the_gap_of_candidates_is_that_of_their_logits(rng):
    f, g, other = rng.normal(size=(200, 3)), rng.normal(size=(20, 3)), rng.normal(size=(20, 3))
    chosen = np.argsort(rng.random((200, 20)), axis=1)[:, :6]
    pair = only(tuple(SoftmaxModel(f, each, candidates=chosen) for each in (g, other)))
    ours, theirs = (np.take_along_axis(f @ each.T, chosen, axis=1) for each in (g, other))
    ours, theirs = (z - z.mean(axis=1, keepdims=True) for z in (ours, theirs))
    expected = np.linalg.norm(ours - theirs) / np.linalg.norm(ours)
    np.testing.assert_allclose(pair.gauge.logit_gap, expected, rtol=1e-12)


@pytest.mark.parametrize("swap", [False, True])
def test_a_bias_in_one_model_only(rng, swap):
    """f' = f + s and a bias −gᵀs: the same p, also where f, after a LayerNorm, is constant."""
    f = rng.normal(size=(300, 6))
    f -= f.mean(axis=1, keepdims=True)
    f = f / f.std(axis=1, keepdims=True) * rng.uniform(0.5, 2, 6) + rng.normal(size=6)
    g, shift = rng.normal(size=(40, 6)), rng.normal(size=6)
    models = SoftmaxModel(f, g), SoftmaxModel(f + shift, g, -g @ shift)
    pair = only(models[::-1] if swap else models)
    assert pair.finding == SAME
    assert pair.gauge.kappa < 1e-9
    assert pair.gauge.free == (1, 1)


def test_groups_decide_the_folds(rng):
    models = small_kl(rng)
    assert any("depend on those nearby (sorted" in note for note in only(models).notes)
    dealt = only(models, groups=np.arange(560) % 80)
    assert not any("depend on" in note or "fold means" in note for note in dealt.notes)


def test_three_models_every_pair_and_the_worst(rng):
    a, b = equal_up_to_gauge(rng)
    c = SoftmaxModel(a.f, 2 * a.g, name="c")
    calls: list[tuple[str, int, int]] = []
    audit = audit_models([a, b, c], progress=lambda *call: calls.append(call))
    assert [(pair.a, pair.b) for pair in audit.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert not audit.same
    assert audit.worst.b == "c"
    assert [pair.same for pair in audit.pairs] == [True, False, False]
    assert calls == [("comparing", done, 3) for done in range(3)]


def test_equal_names_are_told_apart(rng):
    a, b = unrelated(rng)
    a.name = b.name = "run"
    audit = audit_models([a, b])
    assert [model.name for model in audit.models] == ["run", "run (2)"]


def test_log_odds_are_those_of_the_distributions(rng):
    a, b = biased(rng)
    pair = only((a, b))
    assert pair.log_odds.shape == (300, 2)
    np.testing.assert_allclose(pair.log_odds[:, 0], pair.log_odds[:, 1], atol=1e-9)
    logs = a.log_prob()
    gaps = logs[:, :, None] - logs[:, None, :]
    nearest = [np.abs(gaps - odds).min() for odds in pair.log_odds[:5, 0]]
    assert max(nearest) < 1e-9


@pytest.mark.parametrize(
    ("value", "text"), [(0.0321, "0.032"), (35.2, "35"), (0.0, "<1e-06"), (np.inf, "infinite")]
)
def test_short_numbers(value, text):
    assert brief(value) == text


# The document


@pytest.mark.parametrize("make", [equal_up_to_gauge, few_labels, counter_rotated])
def test_json_is_strict_and_complete(make, rng, tmp_path):
    audit = audit_models(make(rng))
    audit.save(tmp_path / "models.json")
    document = strict((tmp_path / "models.json").read_text())
    assert document == audit.to_dict()
    assert set(document) == {
        *("identikit", "inputs", "labels", "models", "pairs", "verdict", "settings")
    }
    (pair,) = document["pairs"]
    assert pair["sentence"] == document["verdict"]["sentence"] == audit.worst.sentence
    assert pair["distances"]["representation"] <= pair["distances"]["certificate"] + 1e-12
    assert {rung["group"] for rung in pair["embedding"]["ladder"]} >= {"linear", "affine"}
    assert document["models"][0]["diversity"]["needed"] == document["models"][0]["dims"]


def strict(text: str) -> dict[str, Any]:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


# Bad input


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a, _: [a], "give at least two, not 1"),
        (lambda a, b: [a, SoftmaxModel(b.f[:-1], b.g, name="b")], "300 inputs and model 'b' has 2"),
        (lambda a, b: [a, SoftmaxModel(b.f, b.g[:-1], name="b")], "12 labels and model 'b' has 11"),
        (
            lambda a, b: [a, SoftmaxModel(b.f, 0 * b.g + 1, name="b")],
            "'b': its logits .* the same for all labels",
        ),
        (
            lambda a, b: [a, SoftmaxModel(0 * b.f, b.g, name="b")],
            "'b': its logits .* the same for all labels",
        ),
        (lambda a, b: [a, SoftmaxModel(0 * b.f + 1, b.g, name="b")], "'b' is constant"),
        (lambda a, b: [SoftmaxModel(m.f[:9], m.g, name="m") for m in (a, b)], "at least 10 inputs"),
    ],
)
def test_models_that_cannot_be_compared(change: Callable[..., Any], words: str, rng):
    with pytest.raises(InputError, match=words):
        audit_models(change(*unrelated(rng)))


@pytest.mark.parametrize("tolerance", [-0.1, float("nan")])
def test_a_tolerance_is_not_negative(tolerance, rng):
    with pytest.raises(InputError, match="the tolerance is"):
        audit_models(unrelated(rng), tolerance=tolerance)


# The command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    a, b = biased(rng)
    np.savez("a.npz", f=a.f, g=a.g, bias=a.bias)
    save_file({"f": b.f, "g": b.g, "bias": b.bias}, "b.safetensors")
    np.savez("c.npz", f=rng.normal(size=a.f.shape), g=rng.normal(size=a.g.shape))
    return tmp_path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["models", *map(str, arguments)])


def test_command_says_the_sentence_and_exits_with_0(folder):
    result = run("a.npz", "b.safetensors", "--fail-above", "0.1")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("a and b: The same distribution up to relative logit gap <1e-")
    assert "same distribution" in result.stdout.split("\n\n")[1]
    assert result.stderr == ""


def test_command_fails_above_the_logit_gap(folder):
    result = run("a.npz", "b.safetensors", "c.npz", "--fail-above", "0.1")
    assert result.exit_code == 1
    assert result.stdout.startswith("1 of 3 pairs are the same within 0.1; the worst, ")
    assert "the largest relative logit gap, " in result.stderr
    assert "and 'c'), is above 0.1" in result.stderr
    quiet = run("a.npz", "c.npz", "--fail-above", "0.1", "--quiet")
    assert (quiet.exit_code, quiet.stderr) == (1, "")
    assert run("a.npz", "c.npz", "--fail-above", "9").exit_code == 0


def test_command_prints_one_json_document(folder):
    result = run("a.npz", "c.npz", "--json", "--names", "one,two", "--tolerance", "0.2")
    document = strict(result.stdout)
    assert [model["name"] for model in document["models"]] == ["one", "two"]
    assert document["settings"]["tolerance"] == 0.2
    assert document["verdict"]["within_tolerance"] is False


def test_command_writes_files(folder):
    np.savetxt("groups.txt", np.arange(400) % 20, fmt="%d")
    result = run(
        *("a.npz", "b.safetensors", "-o", "out.json", "--report", "out.html"),
        *("--groups", "groups.txt"),
    )
    assert result.exit_code == 0, result.output
    assert "wrote out.json\nwrote out.html\n" in result.stderr
    assert strict(Path("out.json").read_text())["verdict"]["within_tolerance"] is True
    assert Path("out.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_table_of_log_probabilities_is_a_model(folder):
    a = SoftmaxModel.load("a.npz")
    np.savez("table.npz", log_prob=a.log_prob())
    document = strict(run("table.npz", "table.npz", "--json").stdout)
    assert document["verdict"]["finding"] == SAME
    assert [model["name"] for model in document["models"]] == ["table", "table (2)"]


def bad_files() -> dict[str, dict[str, np.ndarray]]:
    f, g = np.ones((400, 8)), np.ones((60, 8))
    return {
        "no_f": {"g": g},
        "short": {"f": f[:-1], "g": g},
        "fewer": {"f": f, "g": g[:-1]},
        "flat": {"f": f, "g": g},
        "table": {"log_prob": np.zeros((400, 60))},
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a.npz", "no_f.npz"], "no_f.npz holds no model: expected arrays 'f'"),
        (["a.npz", "short.npz"], "has 400 inputs and model 'short' has 399"),
        (["a.npz", "fewer.npz"], "has 60 labels and model 'fewer' has 59"),
        (["a.npz", "flat.npz"], "model 'flat': its logits"),
        (["a.npz", "table.npz"], "row 0 of the table sums to a probability that is off"),
        (["a.npz", "words.txt"], "words.txt is not a model"),
        (["a.npz", "broken.npz"], "the model (broken.npz) is not a readable .npz archive"),
        (["a.npz", "nowhere.npz"], "there is no such file"),
        (["a.npz"], "give at least two"),
        (["a.npz", "c.npz", "--fail-above", "-1"], "--fail-above is -1.0"),
        (["a.npz", "c.npz", "--tolerance", "-1"], "the tolerance is -1.0"),
        (["a.npz", "c.npz", "--names", "x"], "expected 2 names, one a model"),
        (["a.npz", "c.npz", "--report", "a.npz"], "a.npz is one of the inputs"),
        (["a.npz", "c.npz", "--report", "x", "-o", "x"], "--report and --output are both x"),
    ],
)
def test_bad_calls_and_files_are_one_sentence(arguments, words, folder):
    for name, arrays in bad_files().items():
        np.savez(f"{name}.npz", **arrays)
    Path("words.txt").write_text("no model")
    Path("broken.npz").write_text("no archive")
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("identikit: ")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


def test_help_has_an_example():
    assert "Example: identikit models run1.npz run2.npz" in run("--help").stdout


def extracted(folder: Path, **arrays: np.ndarray) -> Path:
    folder.mkdir()
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    (folder / "manifest.json").write_text("{}", encoding="utf-8")
    return folder


def test_a_model_is_read_from_the_folder_of_an_extraction(rng, tmp_path):
    f, g, bias = rng.normal(size=(20, 3)), rng.normal(size=(7, 3)), rng.normal(size=7)
    found = SoftmaxModel.load(extracted(tmp_path / "gpt", f=f, g=g, bias=bias))
    assert found.name == "gpt"
    np.testing.assert_allclose(found.log_prob(), SoftmaxModel(f, g, bias).log_prob(), atol=1e-14)


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        ('{"no_f": "the model has no head"}', "the model has no head"),
        ("{", "no f.npy"),
        ("1", "f.npy"),
    ],
)
def test_a_folder_without_a_model_says_why(tmp_path, manifest, says):
    folder = extracted(tmp_path / "m", layer_00=np.zeros((3, 2)))
    (folder / "manifest.json").write_text(manifest, encoding="utf-8")
    with pytest.raises(InputError, match=says):
        SoftmaxModel.load(folder)


@pytest.mark.parametrize("break_it", ["manifest", "g", "bias"])
def test_a_folder_that_is_not_whole_is_refused(rng, tmp_path, break_it):
    folder = extracted(
        tmp_path / "m", f=rng.normal(size=(20, 3)), g=rng.normal(size=(7, 3)), bias=np.zeros(7)
    )
    says = {"manifest": "no manifest.json", "g": "holds no model", "bias": "is not a readable"}
    if break_it == "bias":
        (folder / "bias.npy").write_bytes((folder / "bias.npy").read_bytes()[:60])
    else:
        (folder / f"{break_it}.{'json' if break_it == 'manifest' else 'npy'}").unlink()
    with pytest.raises(InputError, match=says[break_it]):
        SoftmaxModel.load(folder)


def test_extracted_folders_bring_their_sentences(rng, tmp_path):
    """Groups decide the folds, as if they were given; other sentences are other inputs."""
    f, g = rng.normal(size=(60, 3)), rng.normal(size=(12, 3))
    sentences = np.repeat(np.arange(12), 5)
    other = f + 0.3 * rng.normal(size=f.shape)
    a = extracted(tmp_path / "a", f=f, g=g, groups=sentences)
    b = extracted(tmp_path / "b", f=other, g=g, groups=sentences)
    found = json.loads(run(a, b, "--json").stdout)
    plain = json.loads(run(a, b, "--json", "--groups", a / "groups.npy").stdout)
    assert found == plain
    expected = audit_models(
        [SoftmaxModel(f, g, name="a"), SoftmaxModel(other, g, name="b")], groups=sentences
    )
    assert found["pairs"][0]["embedding"]["error"] == pytest.approx(
        expected.worst.embedding.error, rel=1e-9
    )
    c = extracted(tmp_path / "c", f=other, g=g, groups=sentences[::-1].copy())
    done = run(a, c)
    assert done.exit_code == 2
    assert "other sentences" in done.stderr
