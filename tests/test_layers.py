"""Layers of two models: the matrix, the best matches, and what chance gives to who looks at all."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

import identikit as ik
from identikit.cli import app
from identikit.errors import InputError
from identikit.inference import Null, largest_by_chance
from identikit.similarity import MEASURES, calibrate, score_measures

Array = NDArray[np.float64]


def chain(rng: np.random.Generator, first: Array, steps: int) -> list[Array]:
    """Layers each of which is much like the one before."""
    found = [first]
    for _ in range(steps - 1):
        found.append(0.9 * found[-1] + 0.45 * rng.normal(size=first.shape))
    return found


def example() -> dict[str, list[Array]]:
    """The views of the reference values below."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(100, 64)), rng.normal(size=(100, 64))
    Z = X @ rng.normal(size=(64, 64)) / 8 + rng.normal(size=(100, 64))
    A = [rng.normal(size=(100, 64)) for _ in range(5)]
    B = [rng.normal(size=(100, 64)) for _ in range(3)]
    P, Q = chain(rng, X[:, :8], 5), chain(rng, Y[:, :8], 5)
    R = chain(rng, X[:, :8] + rng.normal(size=(100, 8)), 5)
    return {"X": [X], "Y": [Y], "Z": [Z], "A": A, "B": B, "P": P, "Q": Q, "R": R}


# Views: value, calibrated value, p and threshold.
REFERENCE = {
    "XY": (0.386978, 0.0, 0.6205, 0.40419),
    "XZ": (0.659358, 0.45621, 0.0002, 0.37358),
    "AB": (0.397591, 0.0, 0.9090, 0.41248),
    "PQ": (0.085738, 0.0, 0.7026, 0.11315),
    "PR": (0.546770, 0.48988, 0.0005, 0.11153),
}


@pytest.mark.parametrize("pair", REFERENCE)
def test_agrees_with_the_reference_implementation(pair: str) -> None:
    """calibrated-similarity 0.1.1 (Gröger, Wen and Brbić 2026), on views of its README's shape.

    With the views of `example` as float64 tensors, linear CKA as in its README and
    ``g = torch.Generator().manual_seed(0)``, in this order:
    ``calibrate(X, Y, cka, K=5000, generator=g)``, the same for Z;
    ``calibrate_layers(A, B, cka, K=2000, generator=g)``, then P with Q, and P with R. A and B are
    independent layers, P, Q and R layers that are much alike within their model. p has a standard
    error of 0.01 there, the threshold one of 0.001.
    """
    value, calibrated, p, threshold = REFERENCE[pair]
    views = example()
    found = ik.layers(views[pair[0]], views[pair[1]])
    assert found.best.value == pytest.approx(value, abs=1e-6)
    assert found.threshold == pytest.approx(threshold, abs=0.004)
    assert found.best.calibrated == pytest.approx(calibrated, abs=0.004)
    if p > 0.01:
        assert found.best.p == pytest.approx(p, abs=0.05)
    else:
        assert found.best.p < 1e-3  # theirs is the least that so many draws can say
    if len(found.a) == len(found.b) == 1:
        scored = found.scores[0][0]
        assert scored.calibrated == pytest.approx(calibrated, abs=0.002)
        assert scored.band[1] == pytest.approx(threshold, abs=0.002)


# The largest of many.


def test_the_largest_of_one_cell_is_its_law_and_of_equal_ones_too() -> None:
    law = Null(0.1, 0.02, 0.5)
    one, equal = np.ones((1, 1)), np.ones((4, 4))
    alone = largest_by_chance([[law]], one, one)
    together = largest_by_chance([[law] * 4] * 4, equal, equal)
    apart = largest_by_chance([[law] * 4] * 4, np.eye(4), np.eye(4))
    for found in (alone, together):
        assert np.quantile(found, 0.95) == pytest.approx(law.quantile(0.95), abs=0.003)
    # The largest of 16 that have nothing to do with each other.
    assert np.quantile(apart, 0.95) == pytest.approx(law.quantile(0.95 ** (1 / 16)), abs=0.003)
    without = largest_by_chance([[law, None]], one, np.eye(2))
    assert np.quantile(without, 0.95) == pytest.approx(law.quantile(0.95), abs=0.003)


def test_correlations_that_cannot_be_are_met_by_the_nearest() -> None:
    impossible = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]])
    assert np.linalg.eigvalsh(impossible)[0] < 0
    law = Null(0.1, 0.02)
    largest = largest_by_chance([[law]] * 3, impossible, np.ones((1, 1)))
    assert law.quantile(0.95) < np.quantile(largest, 0.95) < law.quantile(0.95 ** (1 / 3)) + 0.002


@pytest.mark.slow
@pytest.mark.parametrize(
    ("measure", "count"), [("cka", 400), ("cca", 60), ("procrustes", 60), ("mutual_knn", 60)]
)
def test_independent_models_have_no_match(measure: str, count: int) -> None:
    """Of independent models whose layers are alike, no more than 5 % and four deviations match.

    For CKA, whose dependence is known, no fewer than that either.
    """
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(count):
        a, b = (chain(rng, rng.normal(size=(120, 5)), 4) for _ in range(2))
        hits += bool(ik.layers(a, b, measure=measure, folds=2))
    deviation = np.sqrt(0.05 * 0.95 * count)
    assert hits <= 0.05 * count + 4 * deviation
    assert hits >= 0.05 * count - 4 * deviation or measure != "cka", hits


# The result.


def models(n: int = 300) -> tuple[dict[str, Array], dict[str, Array]]:
    rng = np.random.default_rng(0)
    first = chain(rng, rng.normal(size=(n, 6)), 3)
    other = [first[1] + 0.5 * rng.normal(size=(n, 6)), rng.normal(size=(n, 4))]
    return dict(zip(("in", "mid", "out"), first)), dict(zip(("like mid", "noise"), other))


@pytest.mark.parametrize("measure", ["cka", "mcc", "mutual_knn"])
def test_every_pair_is_what_an_audit_says(measure: str) -> None:
    a, b = models()
    found = ik.layers(a, b, measure=measure)
    moments = ik.accumulate([*a.values(), *b.values()])
    for i in range(3):
        for j in range(2):
            alone = score_measures(moments, i, 3 + j, names=[measure])[measure]
            assert found.scores[i][j] == alone
    assert found.values.shape == found.calibrated.shape == (3, 2)


def test_best_matches_and_their_correction() -> None:
    found = ik.layers(*models())
    assert (found.best.a, found.best.b) == ("mid", "like mid")
    assert [match.b for match in found.best_of_a] == ["like mid"] * 3
    assert found.best_of_b[0] == found.best
    assert found
    noise = found.best_of_b[1]
    assert noise.calibrated == 0.0
    assert noise.p > 0.05
    assert found.best.calibrated == calibrate(found.best.value, found.threshold)
    # Looking at six pairs raises the bar above that of any one of them.
    assert found.threshold > max(s.band[1] for row in found.scores for s in row)
    assert found.best.calibrated < found.calibrated.max()


def test_table_document_and_words() -> None:
    a, b = models()
    found = ik.layers(a, b)
    assert list(found.table["a"]) == ["in", "in", "mid", "mid", "out", "out"]
    assert found.table["best_of_a"].sum() == 3
    assert found.table["best_of_b"].sum() == 2
    np.testing.assert_array_equal(found.table["value"].to_numpy().reshape(3, 2), found.values)
    assert list(found.table["corrected"]) == [
        calibrate(value, found.threshold) for value in found.table["value"]
    ]
    document = json.loads(found.to_json())
    assert document["best"]["a"] == "mid"
    assert np.shape(document["scores"]) == (3, 2)
    assert document["best_of"]["b"][1]["b"] == "noise"
    assert "3 of 3 layers have a match beyond chance" in found.summary()
    assert repr(found).startswith("Layers(3 × 2, cka; best 'mid' with 'like mid': 0.")
    assert "<table" in found._repr_html_()


def test_no_match_between_independent_models() -> None:
    rng = np.random.default_rng(3)
    found = ik.layers([rng.normal(size=(200, 4))], [rng.normal(size=(200, 4)) for _ in range(3)])
    assert not found
    assert found.a == ("layer 0",)
    assert "0 of 1 layers" in found.summary()


def test_passes_within_a_small_memory_say_the_same() -> None:
    from identikit.moments import tiles
    from identikit.moments.memory import audit_bytes

    a, b = models()
    memory = audit_bytes([6, 6], 5, 300) + 1
    assert len(tiles([6, 6, 6, 6, 4], 5, memory, 300)) > 1
    Y = b["noise"].copy()
    Y[17, 2] = np.nan
    for other in (b, b | {"noise": Y}):
        one = ik.layers(a, other, drop_nonfinite=True)
        many = ik.layers(a, other, drop_nonfinite=True, memory=memory)
        assert one.rows == many.rows == 300 - (other is not b)
        np.testing.assert_allclose(one.values, many.values, atol=1e-12)
        assert one.threshold == pytest.approx(many.threshold, abs=1e-9)


def test_a_layer_without_a_value_has_no_match() -> None:
    rng = np.random.default_rng(0)
    a = {"narrow": rng.normal(size=(20, 3)), "wide": rng.normal(size=(20, 30))}
    found = ik.layers(a, {"other": rng.normal(size=(20, 3))}, measure="cca", folds=2)
    assert found.best_of_a[1] is None
    assert np.isnan(found.values[1, 0])
    assert len(found.table) == 1
    assert found.to_dict()["scores"][1] == [None]
    with pytest.raises(InputError, match="cca has no value for any of these pairs of layers"):
        ik.layers([a["wide"]], [a["wide"]], measure="cca", folds=2)


def test_wrong_calls_are_refused(tmp_path) -> None:
    X = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(InputError, match=f"no measure 'ccc'; choose one of {', '.join(MEASURES)}"):
        ik.layers([X], [X], measure="ccc")
    with pytest.raises(InputError, match="the second model has no layers"):
        ik.layers([X], {})
    with pytest.raises(InputError, match="is not a folder; give a folder with one file per layer"):
        ik.layers(tmp_path / "nothing", [X])
    with pytest.raises(InputError, match="holds no file that can be read as a layer"):
        ik.layers(tmp_path, [X])
    np.save(tmp_path / "x.npy", X)
    twice = [tmp_path / "x.npy", tmp_path / "x.npy"]
    with pytest.raises(InputError, match="the first model has two layers called 'x'"):
        ik.layers(twice, [X])


# Folders and the command line.


@pytest.fixture
def folders(tmp_path):
    a, b = models()
    for side, views in (("a", list(a.values())), ("b", list(b.values()))):
        (tmp_path / side).mkdir()
        for number, rows in enumerate(views):
            np.save(tmp_path / side / f"layer_{number:02}.npy", rows)
    # What else an extraction leaves behind is no layer.
    np.save(tmp_path / "a" / "groups.npy", np.arange(300))
    (tmp_path / "a" / "manifest.json").write_text("{}")
    return tmp_path


def test_a_folder_is_a_model(folders) -> None:
    found = ik.layers(folders / "a", str(folders / "b"))
    assert found.a == ("layer_00", "layer_01", "layer_02")
    assert found.b == ("layer_00", "layer_01")
    np.testing.assert_array_equal(found.values, ik.layers(*models()).values)


def test_command_line(folders) -> None:
    sides = [str(folders / "a"), str(folders / "b")]
    done = CliRunner().invoke(app, ["layers", *sides, "--measure", "procrustes", "--quiet"])
    assert done.exit_code == 0
    assert "3 of 3 layers have a match beyond chance (procrustes" in done.stdout
    assert re.search(r"layer_01\s+layer_00\s+0\.\d+ \(0\.\d+–0\.\d+\)", done.stdout)
    page = folders / "page.html"
    done = CliRunner().invoke(app, ["layers", *sides, "--json", "-q", "--report", str(page)])
    document = json.loads(done.stdout)
    assert document == ik.layers(*sides).to_dict()
    text = page.read_text(encoding="utf-8")
    assert "A match beyond chance, by cka" in text
    for row in ik.layers(*sides).values:
        assert all(f"{value:.3f}" in text for value in row)
    done = CliRunner().invoke(app, ["layers", sides[0], "nowhere"])
    assert done.exit_code == 2
    assert "is not a folder" in done.stderr


def test_names_on_the_page_stay_text(tmp_path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    found = ik.layers({"<script>alert(1)</script>": X}, {"b&b": X})
    found.report(tmp_path / "page.html")
    found.save(tmp_path / "page.json")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in text
    assert "b&amp;b" in text
    assert json.loads((tmp_path / "page.json").read_text()) == found.to_dict()
