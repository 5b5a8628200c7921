"""Causes of change are planted and told apart, in synthetic vectors and in real ones."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import identikit as ik
from identikit.retrieval import CAUSES
from planted_changes import (
    embeddings,
    int8_columns,
    noise,
    planted,
    rotation,
    spread,
    tokens,
    unit,
)

ROOT = Path(__file__).parents[1]


def confusion(x: np.ndarray, rng: np.random.Generator, ids: bool = False) -> Counter:
    """How often each planted cause was given each name."""
    names = [f"row {number}" for number in range(len(x))] if ids else None
    reference, table = ik.pin(x, ids=names), Counter()
    for (cause, variant), y in planted(x, rng).items():
        if ids and len(y) != len(x):
            continue  # rows that were added have no id
        found = ik.check(y, reference, ids=names)
        table[cause, found.cause.name] += 1
        assert found.cause.name == cause, (cause, variant, found.layers[0].causes)
    return table


def wrong(table: Counter) -> dict:
    return {key: count for key, count in table.items() if key[0] != key[1]}


@pytest.mark.parametrize(("width", "number"), [(24, 0), (24, 1), (24, 2), (96, 0)])
def test_every_planted_cause_is_named(width, number):
    rng = np.random.default_rng([width, number])
    table = confusion(embeddings(rng, 1000, width), rng)
    assert not wrong(table)
    assert {cause for cause, _ in table} == set(CAUSES) - {"pooling"}


def test_with_ids_as_well(rng):
    assert not wrong(confusion(embeddings(rng, 600, 32), rng, ids=True))


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("width", [24, 96])
def test_another_pooling_of_the_same_tokens(width, number):
    mean, first = tokens(np.random.default_rng([width, number]), 1000, width)
    for old, new in ((mean, first), (first, mean)):
        found = ik.check(new, ik.pin(old))
        assert found.cause.name == "pooling"
        assert not found
        assert "not tell for certain" in found.cause.look


@pytest.mark.parametrize("width", [24, 300])
def test_few_rows_suffice_for_what_shows_row_by_row(width, rng):
    x = embeddings(rng, 60, width)
    reference = ik.pin(x)
    for (cause, variant), y in planted(x, rng).items():
        if cause in ("linear map", "prefix", "another model", "column permutation", "quantised"):
            continue  # these need more rows than there are columns, or many of them
        if (cause, variant) in (("noise", "30 %"), ("rotation", "and noise")):
            continue
        assert ik.check(y, reference).cause.name == cause, (cause, variant)


def cause_of(new: np.ndarray, old: np.ndarray) -> str:
    return ik.check(new, ik.pin(old)).cause.name


@pytest.mark.parametrize("width", [16, 64])
def test_60_rows_show_the_grid_of_int8_vectors(width, rng):
    x = rng.normal(size=(60, width))
    assert cause_of(int8_columns(x), x) == "quantised"
    assert cause_of(int8_columns(x).astype(np.float16), x) == "quantised"
    assert cause_of(int8_columns(x, codes=True), x) == "quantised"
    # Numbers of float16 lie on a grid too, but on a fine one.
    assert cause_of((x + noise(rng, x, 0.02)).astype(np.float16), x) == "noise"


@pytest.mark.parametrize("width", [16, 64])
def test_columns_with_most_of_the_variance_decide(width, rng):
    x = rng.normal(size=(400, width)) * np.where(np.arange(width) < 2, 10, 1)
    assert cause_of(x + noise(rng, x, 0.3), x) == "noise"
    shift = 0.6 * spread(x) / np.sqrt(width)
    assert cause_of(x + shift + noise(rng, x, 0.4), x) == "prefix"


def test_in_dense_rows_a_neighbour_is_not_the_row_itself(rng):
    """Rows in tight clusters: those that have changed have others nearby, and have not moved."""
    centres = 5 * rng.normal(size=(8, 6))
    x = centres[rng.integers(8, size=900)] + 0.1 * rng.normal(size=(900, 6))
    changed = rng.random((900, 1)) < 0.1
    assert cause_of(np.where(changed, x @ rotation(rng, 6), x), x) == "some rows"
    assert cause_of(x[rng.permutation(900)], x) == "row permutation"
    twice = np.concatenate([x[:450], x[:450]])
    assert cause_of(twice[rng.permutation(900)], twice) == "row permutation"


def test_noise_in_long_rows_is_not_another_normalisation(rng):
    x = rng.normal(size=(500, 3)) + 4
    assert cause_of(x + noise(rng, x, 0.08), x) == "noise"
    assert cause_of(1.01 * x, x) == "normalisation"


def test_a_few_exchanged_columns_are_an_order_of_columns(rng):
    x = rng.normal(size=(500, 12)) + 1
    assert cause_of(x[:, [1, 0, *range(2, 12)]], x) == "column permutation"
    assert cause_of(x - x.mean(axis=0), x) == "normalisation"


def test_what_was_pinned_may_be_the_coarser_one(rng):
    x = embeddings(rng, 500, 32)
    for coarse in (x.astype(np.float16), x.astype(np.float32)):
        found = ik.check(x, ik.pin(coarse))
        assert found
        assert found.cause.name == "rounding"


def test_a_mixture_says_what_happened_to_the_rows_that_changed(rng):
    x = embeddings(rng, 800, 48)
    y = x + noise(rng, x, 0.02)
    y[:200] = 3 * x[:200]
    found = ik.check(y, ik.pin(x))
    assert found.cause.name == "some rows"
    assert "likeliest cause is 'normalisation' (all rows were multiplied by 3)" in found.cause.says
    changed = set(map(int, found.layers[0].changed))
    assert changed == set(range(200))


def test_every_sentence_of_a_cause_fits_into_the_message(rng):
    x = embeddings(rng, 300, 16)
    reference = ik.pin(x, fingerprints={"model": "m"})
    for y in planted(x, rng).values():
        found = ik.check(y, reference)
        for cause in found.layers[0].causes:
            assert 0 < cause.score <= 1
            assert cause.says[0].islower() or cause.says[0].isdigit()
            assert not cause.says.endswith(".")
            assert not cause.look.endswith(".")
        assert re.fullmatch(r"(Passed|Failed)[^\n]*\.", found.summary())


def test_the_documentation_lists_every_cause():
    page = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
    assert set(CAUSES) <= set(re.findall(r"^\| `([a-z ]+)` \|", page, re.M))


def test_the_tables_of_the_documentation_have_their_places():
    """`docs/check.py` writes between marks, and every cause but pooling is in its first table."""
    page = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
    for name in ("causes", "unseen", "copies", "foreign rows"):
        (table,) = re.findall(f"<!-- {name} -->\n(.*?)<!-- end of {name} -->\n", page, re.S)
        assert table.count("\n|") > 3
        if name in ("causes", "unseen"):
            planted_there = set(re.findall(r"^\| `([a-z ]+)` \|", table, re.M))
            assert planted_there == set(CAUSES) - {"pooling"}


MODELS = ("minilm_l6", "minilm_l6_int8", "minilm_l6_sre", "gte_small", "para_l3", "granite_30m")

#: Models that share weights, and what differs.
KIN = {
    frozenset(("minilm_l6", "minilm_l6_int8")): "noise",
    frozenset(("minilm_l6", "minilm_l6_sre")): "pooling",
    frozenset(("minilm_l6_int8", "minilm_l6_sre")): "pooling",
}


@pytest.mark.parametrize("old", MODELS[:1])
def test_models_of_a_real_collection(data_dir, old):
    with np.load(data_dir / "retrieval" / "cranfield.npz") as data:
        vectors = {name: data[f"doc_{name}"] for name in MODELS}
        ids = data["doc_ids"]
    reference = ik.pin(vectors[old], ids=ids)
    for new in MODELS:
        found = ik.check(vectors[new], reference, ids=ids)
        expected = "same" if new == old else KIN.get(frozenset((old, new)), "another model")
        assert found.cause.name == expected, new
        assert bool(found) == (expected in ("same", "noise"))


@pytest.mark.slow
@pytest.mark.parametrize("model", ["minilm_l6", "gte_small", "para_l3", "granite_30m"])
@pytest.mark.parametrize("collection", ["cranfield", "cacm"])
def test_planted_causes_in_real_vectors(data_dir, collection, model):
    with np.load(data_dir / "retrieval" / f"{collection}.npz") as data:
        x = unit(data[f"doc_{model}"].astype(float))
    # All rows are in the sample, so that those of "three" are.
    assert not wrong(confusion(x[:1000], np.random.default_rng(0)))


def test_planted_causes_in_one_real_model(data_dir):
    with np.load(data_dir / "retrieval" / "cranfield.npz") as data:
        x = unit(data["doc_glove_50"].astype(float))
    assert not wrong(confusion(x[:700], np.random.default_rng(1)))


def test_another_release_of_a_pipeline_and_vectors_that_were_not_normalised(data_dir):
    folder = data_dir / "embedding_versions"
    with np.load(folder / "spacy_en_core_web_sm_36_vs_38.npz") as data:
        found = ik.check(data["v38"], ik.pin(data["v36"]))
    assert not found
    assert found.cause.name == "pooling"
    with np.load(folder / "gutenberg.npz") as data:
        x, int8 = data["minilm_l6_v2"].astype(float), data["minilm_l6_int8"]
    assert ik.check(int8, ik.pin(x)).cause.name == "noise"
    found = ik.check(unit(x), ik.pin(x))
    assert found.cause.name == "normalisation"
    assert "length 1" in found.cause.says


def test_the_example_of_the_documentation_prints_what_it_says(capsys):
    page = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
    ((code, printed),) = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", page, re.S)
    exec(compile(code, "check.md", "exec"), {})
    assert capsys.readouterr().out == printed
