"""roeder-words: windows, the map and its direction, the objectives, and the whole study."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from conftest import close
from identikit.errors import InputError
from identikit.family import SoftmaxModel
from identikit.studies import NOT, REPRODUCED, UNMEASURED, Data, Result, Settings, run
from identikit.studies._word_models import (
    OBJECTIVES,
    Corpus,
    build,
    compare,
    fit,
    log_unigram,
    read,
    task,
    windows,
)
from identikit.studies.roeder_words import STUDY, apart, placed

pytest.importorskip("torch")

# Small enough for a few seconds, and every objective.
TINY = {"seeds": 3, "widths": [2, 4], "steps": 150, "max_words": 20_000, "rows": 300}


def sentences(count: int = 40) -> list[list[str]]:
    return [list("abcdef"), list("abc"), *[list("ababxb")] * (count - 2)]


def test_windows_lie_within_a_sentence_and_have_a_known_word_in_the_middle() -> None:
    text = windows(sentences(), vocabulary=3, side=2, rows=100)
    assert text.words == ["b", "a", "x"]
    number = {"a": 1, "b": 0, "x": 2, "other": 3}
    # abcdef has two windows, abcde and bcdef, but neither c nor d is in the vocabulary; ababxb has
    # two, and abc is too short for one.
    expected = [[number[w] for w in window] for window in ("ababx", "babxb")]
    assert text.train[:2].tolist() == expected
    assert len(text.train) == 2 * (40 - 2 - 2)
    assert text.counts.tolist() == [36, 36, 0]
    # One sentence in twenty is for testing.
    assert sorted(set(text.sentences.tolist())) == [19, 39]
    assert sorted(text.test.tolist()) == sorted(expected * 2)


def test_a_sample_of_the_held_out_windows_is_taken_with_their_sentences() -> None:
    every = windows(sentences(400), 3, 2, 1000)
    some = windows(sentences(400), 3, 2, 7)
    assert some.test.shape == (7, 5)
    assert some.test.tolist() == every.test[:7].tolist()
    assert some.sentences.tolist() == every.sentences[:7].tolist()


def test_a_text_shorter_than_a_window_is_refused() -> None:
    with pytest.raises(InputError, match="5 words of a window"):
        windows([list("abcd")] * 100, 3, 2, 10)
    with pytest.raises(InputError, match="give a longer text"):
        windows([list("ababa")] * 10, 3, 2, 10)  # nothing is left to hold out


def test_the_map_goes_from_the_first_to_the_second(rng: np.random.Generator) -> None:
    first = rng.normal(size=(300, 2))
    A = np.array([[2.0, 1.0], [-1.0, 0.5]])
    found = fit(first, first @ A + 3.0)
    close(found["r2"], 1.0, 1e-9)
    close(found["r2_back"], 1.0, 1e-9)
    # The notebook's direction is another matter.
    assert found["r2_notebook"] < 0.5


def test_the_notebooks_direction_is_right_for_an_involution(rng: np.random.Generator) -> None:
    first = rng.normal(size=(300, 2))
    close(fit(first, first[:, ::-1])["r2_notebook"], 1.0, 1e-9)


def test_r2_is_that_of_least_squares_on_words_left_out(rng: np.random.Generator) -> None:
    first = rng.normal(size=(203, 3))
    second = first @ rng.normal(size=(3, 3)) + rng.normal(size=(203, 3)) + 5.0
    fold = np.arange(203) % 5
    residual, total = np.empty_like(second), 0.0
    for held in range(5):
        x, y = first[fold != held], second[fold != held]
        W = np.linalg.lstsq(x - x.mean(0), y - y.mean(0), rcond=None)[0]
        residual[fold == held] = (
            second[fold == held] - y.mean(0) - (first[fold == held] - x.mean(0)) @ W
        )
        total += ((second[fold == held] - y.mean(0)) ** 2).sum()
    close(fit(first, second)["r2"], 1 - (residual**2).sum() / total, 1e-9)


def test_words_are_drawn_where_the_map_puts_them(rng: np.random.Generator) -> None:
    first = rng.normal(size=(60, 2))
    second = first @ np.array([[0.0, 2.0], [-1.0, 1.0]]) - 4.0
    table = placed([f"w{i}" for i in range(60)], first, second)
    columns = ["mapped_x", "mapped_y"]
    close(table[columns].to_numpy(), second - second.mean(axis=0), 1e-9)
    close(table[["first_x", "first_y"]].to_numpy(), first - first.mean(axis=0), 1e-12)
    assert table["named"].sum() == 20


def test_named_words_lie_apart() -> None:
    corners = [[0.0, 0.0], [4.0, 4.0], [4.0, 0.0], [0.0, 4.1]]
    points = np.array([[2.0, 2.0], *corners, [2.1, 2.0], [1.9, 2.0]])
    assert sorted(apart(points, 5)[1:]) == [1, 2, 3, 4]
    assert len(apart(points, 50)) == 7


def planted(rng: np.random.Generator) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Two models of one distribution: f' = A f, g' = A⁻ᵀ g + c."""
    f, g, A = rng.normal(size=(200, 3)), rng.normal(size=(50, 3)), rng.normal(size=(3, 3))
    bias = rng.normal(size=50)
    c, shift = rng.normal(size=3), rng.normal(size=3)
    other_g = g @ np.linalg.inv(A)
    noise = {f"{side}_before": rng.normal(size=each.shape) for side, each in (("f", f), ("g", g))}
    first = {"f": f, "g": g, "bias": bias} | noise
    other = {"f_before": rng.normal(size=f.shape), "g_before": rng.normal(size=g.shape)}
    other |= {"f": f @ A.T + shift, "g": other_g + c, "bias": bias - other_g @ shift}
    return first, other


def test_two_models_of_one_distribution_are_the_same_up_to_a_map(rng: np.random.Generator) -> None:
    row = compare("softmax", 3, list(planted(rng)), np.arange(200) // 4).rows[0]
    for column in ("r2", "r2_back", "cca_g", "cca_f", "cca_g_held_out", "cca_f_held_out"):
        close(row[column], 1.0, 1e-8)
    for column in ("kappa", "logit_gap", "kl"):
        close(row[column], 0.0, 1e-7)
    assert row["cca_g_untrained"] < 0.5
    close(row["cca_g_untrained"], row["cca_g_chance"], 0.2)


def test_f_and_g_by_maps_that_do_not_belong_together_have_a_kappa(rng: np.random.Generator) -> None:
    first, second = planted(rng)
    second["g"] = second["g"] @ rng.normal(size=(3, 3))
    row = compare("softmax", 3, [first, second], np.arange(200) // 4).rows[0]
    close(row["cca_g"], 1.0, 1e-8)
    assert row["kappa"] > 0.1
    assert row["logit_gap"] > 0.1


def test_noise_words_are_as_frequent_as_in_the_text(seed: int) -> None:
    s = Settings({"side": 2, "batch": 500, "noise": 25})
    rng = np.random.default_rng(seed)
    train = rng.choice(4, p=[0.5, 0.3, 0.2, 0.0], size=(5000, 5))
    text = Corpus(
        list("abcd"), np.bincount(train[:, 2], minlength=4), train, train[:9], train[:9, 0]
    )
    _, batches = task("negative_sampling", text, s)
    context, word, noise = batches(0, seed)
    assert context.shape == (500, 4)
    assert noise.shape == (500, 25)
    # 12,500 draws: a share is within four standard errors.
    shares = np.bincount(noise.numpy().ravel(), minlength=4) / noise.numel()
    close(shares, text.counts / 5000, 4 * 0.5 / 12_500**0.5)
    # A word and its context are still those of one window.
    rows = {tuple(row) for row in train.tolist()}
    for left, w in zip(context.tolist(), word.tolist()):
        assert (*left[:2], w, *left[2:]) in rows
    close(np.exp(log_unigram(text))[:3], text.counts[:3] / 5001, 1e-9)


def test_the_model_starts_as_in_the_notebook() -> None:
    start = np.linspace(-3, -1, 30)
    net = build(start, 2, 4, True)
    weights = {name: each.detach().numpy() for name, each in net.named_parameters()}
    assert {name: each.shape for name, each in weights.items()} == {
        "bias": (30,),
        "f.words.weight": (31, 2),
        "f.weights": (4, 2),
        "g.weight": (30, 2),
    }
    weights["bias"] = weights["bias"] - start
    for name, value in weights.items():
        reach = 0.001 if name.startswith("f.") else 0.05
        assert 0.1 * reach < np.abs(value).max() <= 1.001 * reach
    assert build(start, 2, 4, False).f.weights.shape == (4, 2, 2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seeds": 1}, "in pairs"),
        ({"widths": [1]}, "two dimensions"),
        ({"objectives": ["hinge"]}, "no objective 'hinge'"),
    ],
)
def test_settings_that_make_no_study_are_refused(
    tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        run(STUDY, preset="smoke", folder=tmp_path / "out", data="grammar", settings=changes)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("words") / "out"
    return run(STUDY, preset="smoke", folder=folder, data="grammar", settings=TINY)


@pytest.mark.slow
def test_the_study_gives_its_tables_claims_and_figure(result: Result) -> None:
    assert set(result.tables) == {"summary", "pairs", "trainings", "words"}
    pairs = result.tables["pairs"]
    # Three objectives, two widths, three pairs of three seeds.
    assert len(pairs) == 18
    assert {"r2", "r2_back", "r2_notebook", "cca_g", "cca_g_held_out", "cca_g_chance"} < set(pairs)
    assert {"cca_g_untrained", "cca_f", "kappa", "logit_gap", "kl"} < set(pairs)
    assert not pairs.isna().any().any()
    assert set(result.findings) == {claim.key for claim in STUDY.claims}
    # All maps were fitted to all words of the stand-in that were asked for.
    assert len(result.tables["words"]) == STUDY.presets["smoke"]["vocabulary"]
    for name in ("figure.svg", "figure.png", "report.html", "claims.json"):
        assert (result.folder / name).stat().st_size > 1000


@pytest.mark.slow
def test_every_objective_learns_the_distribution_of_words(result: Result) -> None:
    s = Settings(STUDY.presets["smoke"] | TINY)
    text = read(Data("grammar"), s)
    unigram = SoftmaxModel(np.zeros((1, 2)), np.zeros((len(text.words), 2)), log_unigram(text))
    of_no_context = -unigram.log_prob()[0, text.test[:, 2]].mean()
    trainings = result.tables["trainings"]
    assert set(trainings["objective"]) == set(OBJECTIVES)
    # Negative sampling too, whose scores are no log-probabilities before its bias is corrected.
    losses = trainings.groupby("objective")["nll"].mean()
    assert (losses < 0.95 * of_no_context).all(), losses


@pytest.mark.slow
def test_a_run_that_lost_units_ends_with_the_same_tables(result: Result) -> None:
    units = sorted((result.folder / "units").iterdir())
    for unit in [units[0], units[-1]]:
        unit.unlink()
    again = run(STUDY, preset="smoke", folder=result.folder, data="grammar", settings=TINY)
    assert again.resumed == len(units) - 2
    assert again.tables.keys() == result.tables.keys()
    for name, table in again.tables.items():
        # Not to the last digit: what BLAS adds first depends on where an array lies in memory.
        pd.testing.assert_frame_equal(table, result.tables[name], check_exact=False, rtol=1e-12)


def test_any_text_file_will_do(tmp_path: Path) -> None:
    file = tmp_path / "own.txt"
    file.write_text("One two, three four FIVE six.\n" * 40)
    text = read(Data(file), Settings(STUDY.presets["smoke"]))
    assert text.words == ["one", "two", "three", "four", "five", "six"]
    assert text.train[:2].tolist() == [[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]


def verdicts(values: dict[str, dict[int, float]], **columns: float) -> dict[str, str]:
    """What the claims say of four seeds whose pairs have these R², by objective and width."""
    rows = []
    for objective, by_width in values.items():
        for width, r2 in by_width.items():
            for place, (a, b) in enumerate(combinations(range(4), 2)):
                row = dict.fromkeys(("cca_g", "cca_g_held_out"), 0.9)
                row |= {"cca_g_untrained": 0.1, "cca_g_chance": 0.1, "r2_notebook": 0.0}
                row |= {"kappa": 0.05, "logit_gap": 0.05} | columns
                row |= {"objective": objective, "width": width, "a": a, "b": b}
                rows.append(row | {"r2": r2 + 0.001 * place})
    tables = {"pairs": pd.DataFrame(rows)}
    return {claim.key: claim.check(tables).verdict for claim in STUDY.claims}


def test_claims_hold_for_trainings_that_overlap() -> None:
    values = {objective: {2: 0.95, 16: 0.93} for objective in OBJECTIVES}
    assert set(verdicts(values).values()) == {REPRODUCED}


def test_claims_fail_for_trainings_that_do_not() -> None:
    values = {objective: {2: 0.5, 16: 0.95, 64: 0.5} for objective in OBJECTIVES}
    found = verdicts(values, kappa=0.5, logit_gap=0.5, cca_g_held_out=0.05)
    assert set(found.values()) == {NOT}


def test_claims_about_what_was_not_trained_are_left_open() -> None:
    found = verdicts({"nce": {2: 0.95}})
    assert {key for key, verdict in found.items() if verdict == REPRODUCED} == {
        "overlap-nce",
        "above-chance",
    }
    assert set(found.values()) == {REPRODUCED, UNMEASURED}


def test_real_text_has_windows(data_dir: Path) -> None:
    changes = {"corpus": "lm1b", "max_words": 20_000, "vocabulary": 300}
    text = read(Data(data_dir), Settings(STUDY.presets["smoke"] | changes))
    assert text.words[0] == "the"
    assert len(text.words) == 300
    assert len(text.train) > 5000
    assert text.train.max() == 300
    assert text.train[:, 2].max() < 300
