"""nelson-pairs: errors and efficiency, folders; that every check can fail."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conftest import close
from identikit.axes import near_identifiability
from identikit.errors import InputError
from identikit.studies import (
    CIFAR10,
    CORPORA,
    INCONCLUSIVE,
    NOT,
    REPRODUCED,
    UNMEASURED,
    Data,
    Result,
    Settings,
    Tables,
    run,
)
from identikit.studies import _near_pairs as near
from identikit.studies import nelson_pairs as study

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

from identikit import extract  # noqa: E402

#: In this process: starting others takes longer than all that they would do.
run_here = partial(run, engine="single")

CHECKS = {claim.key: claim.check for claim in study.STUDY.claims}
# With four channels the backward pass of torch 2.13 corrupts memory on machines without AVX-512
# (oneDNN's strided 1×1 convolution); with eight, as in the smallest run of the study, it does not.
TINY: dict[str, Any] = {
    "seeds": 2, "autoencoder_steps": 20, "classifier_steps": 3, "gpt2_steps": 5, "side": 8,
    "widths": [16, 4], "channels": 8, "gpt2_windows": 30, "gpt2_max_words": 10_000,
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def _without_data() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("IDENTIKIT_DATA", raising=False)
        yield


def test_the_efficiencies_of_table_1_follow_from_its_errors() -> None:
    for of in near.TABLE_1:
        expected = (of.permutation - of.ica) / (of.permutation - of.rigid)
        close(of.efficiency, expected, 0.005)


def test_what_the_folder_lacks_has_a_stand_in(tmp_path: Path) -> None:
    assert study.source(Data(tmp_path), CIFAR10).stand_in == "digits"
    assert study.source(Data(tmp_path), CORPORA["enwik8"]).stand_in == "grammar"
    (tmp_path / CIFAR10.file).touch()
    assert study.source(Data(tmp_path), CIFAR10) == Data(tmp_path)
    assert study.source(Data("grammar"), CIFAR10).stand_in == "digits"


def rotated(rng: np.random.Generator, rows: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    x = rng.laplace(size=(rows, 4))
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    return x, x @ turn + 0.02 * rng.normal(size=x.shape)


def test_ica_finds_the_axes_of_a_rotated_view(rng: np.random.Generator) -> None:
    record = near.compare("m", 0, 1, rotated(rng), None, 20_000)
    raw, white = record.rows
    assert (raw["coordinates"], white["coordinates"]) == ("raw", "whitened")
    for row in record.rows:
        assert row["rigid"] < 0.01 < row["permutation"] < row["shuffled"]
        assert row["efficiency_value"] > 0.9
        assert row["efficiency_random_rotation"] < 0.4
        assert row["efficiency_shuffled"] < 0
        assert row["efficiency_low"] <= row["efficiency_value"] <= row["efficiency_high"]
    assert (raw["dims"], raw["components"], raw["identified"]) == (4, 4, 4)


def test_a_row_is_the_mean_of_both_directions(rng: np.random.Generator) -> None:
    views = rotated(rng, 400)
    row = near.compare("m", 0, 1, views, None, 20_000).rows[0]
    ways = near_identifiability(*views).directions[:2]
    for group in ("permutation", "ica", "rigid", "linear"):
        close(row[group], np.mean([way.error(group).mean for way in ways]), 1e-12)
    gains = [way.efficiency for way in ways]
    close(row["efficiency_value"], np.mean([gain.value for gain in gains]), 1e-12)
    close(row["efficiency_low"], min(gain.interval[0] for gain in gains), 1e-12)


def test_between_different_widths_there_is_no_efficiency(rng: np.random.Generator) -> None:
    x, y = rotated(rng, 400)
    row = near.compare("m", 0, 1, (x, y[:, :3]), None, 20_000).rows[0]
    assert (row["permutation"], row["efficiency_value"], row["efficiency_low"]) == (None,) * 3
    assert row["rigid"] > 0


def planted(rng: np.random.Generator, seeds: int = 4, **errors: float) -> Tables:
    """Tables as Table 1 has them, or with other errors."""
    of = {
        "permutation": 0.22, "random rotation": 0.22, "ica": 0.17, "rigid": 0.11,
        "similarity": 0.11, "linear": 0.05, "affine": 0.05, "shuffled": 0.4, **errors,
    }  # fmt: skip
    rows = []
    for model in study.MODELS:
        for coordinates in (study.RAW, study.WHITENED):
            for a, b in combinations(range(seeds), 2):
                row: dict[str, Any] = {"model": model, "a": a, "b": b, "coordinates": coordinates}
                row |= {"components": 4, "identified": 4, "dims": 4}
                row |= {name: e * (1 + 0.01 * rng.normal()) for name, e in of.items()}
                # GPT-2 gains more from a linear map than an autoencoder does.
                row["linear"] *= 1.0 if model == study.GPT2 else 1.5
                gap = row["permutation"] - row["rigid"]
                for column, group in (
                    ("value", "ica"), ("shuffled", "shuffled"), ("different_rows", "ica"),
                    ("random_rotation", "random rotation"),
                ):  # fmt: skip
                    row[f"efficiency_{column}"] = (row["permutation"] - row[group]) / gap
                rows.append(row | {"efficiency_low": 0.1, "efficiency_high": 0.9})
    models = [
        {"model": model, "seed": seed, "loss": 1.0} for model in study.MODELS
        for seed in range(seeds)
    ]  # fmt: skip
    pairs = pd.DataFrame(rows)
    tables = {
        name: near.summary(pairs[pairs["coordinates"] == name]) for name in ("raw", "whitened")
    }
    return tables | {"pairs": pairs, "models": pd.DataFrame(models)}


def test_what_table_1_says_is_reproduced_by_its_numbers(rng: np.random.Generator) -> None:
    tables = planted(rng)
    found = {key: check(tables).verdict for key, check in CHECKS.items()}
    assert found.pop("folders") == UNMEASURED
    assert found == dict.fromkeys(found, REPRODUCED)


@pytest.mark.parametrize(
    ("claim", "errors"),
    [
        ("efficiency", {"ica": 0.3}),
        ("own-rows", {"ica": 0.3}),
        ("random", {"random rotation": 0.12}),
        ("rigid", {"rigid": 0.3}),
        ("linear", {"linear": 0.2}),
    ],
)
@pytest.mark.parametrize("model", study.MODELS)
def test_every_check_can_fail(
    claim: str, errors: dict[str, float], model: str, rng: np.random.Generator
) -> None:
    assert CHECKS[f"{claim}-{model}"](planted(rng, **errors)).verdict == NOT


def test_an_efficiency_above_1_is_not_a_failure(rng: np.random.Generator) -> None:
    found = CHECKS["efficiency-gpt2"](planted(rng, ica=0.05))
    assert found.verdict == REPRODUCED
    assert found.value > 1


def test_seeds_in_a_worse_optimum_are_not_judged(rng: np.random.Generator) -> None:
    tables = planted(rng, seeds=5)
    pairs, models = tables["pairs"], tables["models"]
    bad = (pairs["a"] == 2) | (pairs["b"] == 2)
    pairs.loc[bad, "efficiency_value"] = -9.0
    assert CHECKS["efficiency-gpt2"](tables).verdict != REPRODUCED
    models.loc[models["seed"] == 2, "loss"] += 1
    found = CHECKS["efficiency-gpt2"](tables)
    assert found.verdict == REPRODUCED
    assert "6 pairs of the 80% of seeds" in found.comment
    models.loc[models["seed"] > 0, "loss"] += 1
    assert CHECKS["efficiency-gpt2"](tables).verdict == INCONCLUSIVE


def test_the_theory_fails_where_the_autoencoder_gains_more(rng: np.random.Generator) -> None:
    tables = planted(rng)
    pairs = tables["pairs"]
    pairs.loc[pairs["model"] == near.AUTOENCODER, "linear"] *= 0.2
    assert CHECKS["theory"](tables).verdict == NOT
    only = {"pairs": pairs[pairs["model"] != study.GPT2]}
    assert CHECKS["theory"](tables | only).verdict == UNMEASURED


def test_a_pair_without_a_gap_leaves_the_efficiency_open(rng: np.random.Generator) -> None:
    tables = planted(rng)
    tables["pairs"].loc[tables["pairs"]["a"] == 0, "efficiency_value"] = None
    found = CHECKS["efficiency-gpt2"](tables)
    assert (found.value, found.verdict) == (None, INCONCLUSIVE)
    assert "3 of 6 pairs have none" in found.comment


def test_two_seeds_conclude_nothing(rng: np.random.Generator) -> None:
    tables = planted(rng, seeds=2)
    found = {key: check(tables) for key, check in CHECKS.items()}
    assert {finding.verdict for finding in found.values()} == {INCONCLUSIVE, UNMEASURED}
    assert found["rigid-gpt2"].value is not None


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run_here(
        "nelson-pairs",
        preset="smoke",
        folder=tmp_path_factory.mktemp("study") / "out",
        settings=TINY,
    )


@pytest.mark.slow
def test_a_run_without_data_has_the_promised_tables(small: Result) -> None:
    tables = small.tables
    assert len(tables["pairs"]) == 3 * 2
    measures = {"loss (nats)", "share of errors", "variance unexplained"}
    assert set(tables["models"]["measure"]) == measures
    for name in (study.RAW, study.WHITENED):
        table = tables[name]
        assert set(table["model"]) == set(study.MODELS)
        for column in ("permutation", "ica", "rigid", "linear", "random rotation", "shuffled"):
            assert (table[column] > 0).all(), column
    assert list(tables["published"]["efficiency"]) == [0.25, 0.59, 0.38, 0.4]
    assert set(small.findings) == set(CHECKS)
    figure = study.figure(tables, Settings(study.STUDY.presets["smoke"]))
    ticks = [text.get_text() for text in figure.axes[2].get_xticklabels()]
    assert ticks == list(study.MODELS)


@pytest.mark.slow
def test_a_resumed_run_equals_a_whole_one(small: Result) -> None:
    units = small.folder / "units"
    gone = ["autoencoder,digits,seed=1", "pairs,digits,autoencoder,0-1"]
    for name in gone:
        (units / f"{name}.safetensors").unlink()
    again = run_here("nelson-pairs", preset="smoke", folder=small.folder, settings=TINY)
    assert again.resumed == small.document["units"]["count"] - len(gone)
    for name in ("raw", "whitened", "pairs"):
        numbers = [
            result.tables[name].select_dtypes("number").astype(float).fillna(-9.0)
            for result in (small, again)
        ]
        close(numbers[1].to_numpy(), numbers[0].to_numpy(), 1e-12)


@pytest.fixture
def folders(tmp_path: Path, rng: np.random.Generator) -> list[Path]:
    """Two extracts of a layer whose outputs are a rotation apart, and of one of its own each."""
    x, y = rotated(rng, 600)
    names = [tmp_path / "first", tmp_path / "second"]
    for folder, view, own in zip(names, (x, y), ("left", "right")):
        model = torch.nn.ModuleDict({"shared": torch.nn.Identity(), own: torch.nn.Identity()})
        model.forward = lambda given, parts=model: [part(given) for part in parts.values()]
        batches = [torch.from_numpy(view[at : at + 200]) for at in (0, 200, 400)]
        extract.module(model, batches, ["shared", own], folder)
    return names


def with_file(folder: Path, name: str, array: np.ndarray) -> None:
    np.save(folder / name, array)


def test_two_extracted_folders_are_compared_at_their_common_layers(
    folders: list[Path], tmp_path: Path
) -> None:
    for folder in folders:
        with_file(folder, "groups.npy", np.repeat(np.arange(100), 6))
    result = run_here(
        "nelson-pairs",
        preset="smoke",
        folder=tmp_path / "out",
        settings=dict(zip("ab", map(str, folders))),
    )
    assert list(result.tables["raw"]["model"]) == ["layer=shared"]
    found = result.findings
    # A rotation of Laplace axes: ICA does as well as the rigid map that sees the pairing.
    close(found["folders"].value, 1.0, 0.1)
    assert found["folders"].interval is not None
    assert (found["rigid-gpt2"].value, found["rigid-gpt2"].verdict) == (None, UNMEASURED)
    assert list(result.tables["models"]["rows"]) == [600, 600]


def test_folders_of_different_widths_have_errors_and_no_efficiency(tmp_path: Path) -> None:
    names = [tmp_path / "first", tmp_path / "second"]
    for folder, width in zip(names, (4, 3)):
        model = torch.nn.Sequential(torch.nn.Identity())
        extract.module(model, [torch.randn(200, 4)[:, :width]], ["0"], folder)
    result = run_here(
        "nelson-pairs",
        preset="smoke",
        folder=tmp_path / "out",
        settings=dict(zip("ab", map(str, names))),
    )
    row = result.tables["raw"].iloc[0]
    assert np.isfinite([row["rigid"], row["linear"], row["ica"]]).all()
    assert result.findings["folders"].value is None
    assert (tmp_path / "out" / "figure.png").is_file()


def test_verdicts_of_folders() -> None:
    row = {"model": "layer=1", study.EFFICIENCY: 0.5, near.CONTROL: 0.0, near.OWN_ROWS: 0.4}
    table = pd.DataFrame([row])
    for low, high, verdict in (
        (0.3, 0.7, REPRODUCED), (-0.5, 0.7, INCONCLUSIVE), (-0.5, -0.1, NOT),
        (1.1, 1.3, REPRODUCED),
    ):  # fmt: skip
        ends = {f"{study.EFFICIENCY}_low": low, f"{study.EFFICIENCY}_high": high}
        assert CHECKS["folders"]({"raw": table.assign(**ends)}).verdict == verdict


@pytest.mark.parametrize("name", ["groups.npy", "tokens.npy"])
def test_folders_of_other_inputs_are_refused(
    name: str, folders: list[Path], tmp_path: Path
) -> None:
    for number, folder in enumerate(folders):
        with_file(folder, name, np.arange(600) // (2 + number))
    with pytest.raises(InputError, match=f"{name} differs"):
        run_here(
            "nelson-pairs",
            preset="smoke",
            folder=tmp_path / "out",
            settings=dict(zip("ab", map(str, folders))),
        )


def test_folders_without_a_common_layer_are_refused(tmp_path: Path) -> None:
    names = [tmp_path / "first", tmp_path / "second"]
    for folder, layer in zip(names, ("left", "right")):
        model = torch.nn.Sequential()
        model.add_module(layer, torch.nn.Identity())
        extract.module(model, [torch.randn(50, 3)], [layer], folder)
    with pytest.raises(InputError, match="no layer in common: left and right"):
        run_here(
            "nelson-pairs",
            preset="smoke",
            folder=tmp_path / "out",
            settings=dict(zip("ab", map(str, names))),
        )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"a": "somewhere"}, "or neither"),
        ({"seeds": 1}, "two seeds or more"),
        ({"models": "gpt3"}, "models out of gpt2"),
        ({"gpt2_corpus": "none"}, "a text out of enwik8"),
    ],
)
def test_settings_that_will_not_do(settings: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        run_here("nelson-pairs", preset="smoke", folder=tmp_path / "out", settings=settings)


@pytest.mark.slow
def test_the_smoke_preset(tmp_path: Path) -> None:
    result = run_here("nelson-pairs", preset="smoke", folder=tmp_path / "out")
    # So short a training may end at a different loss for every seed, and then no pair is judged.
    found, pairs = result.findings, result.tables["pairs"]
    assert set(pairs["model"]) == {"gpt2", "classifier", "autoencoder"}
    assert (pairs["linear"] < pairs["rigid"]).all()
    assert (pairs["rigid"] < pairs["shuffled"]).all()
    assert found["folders"].verdict == UNMEASURED
