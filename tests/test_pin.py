"""Pins: what they keep, that they come back as they were, and that what is no pin is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

import identikit as ik
from conftest import close
from identikit import _store
from planted_changes import embeddings

SOME = {"model": "m", "revision": "r1", "tokenizer": "t", "pooling": "mean", "prefix": "query: "}


def test_a_pin_keeps_moments_rows_ids_and_what_was_said(rng, tmp_path):
    x = rng.normal(size=(1500, 12)).astype(np.float32) + 3
    ids = np.array([f"doc {number}" for number in range(1500)])
    made = ik.pin(x, ids=ids, fingerprints=SOME)
    made.save(tmp_path / "ref.pin")
    found = ik.load_pin(tmp_path / "ref.pin")
    assert dict(found.fingerprints) == SOME
    (layer,) = found.layers
    assert (layer.rows, layer.width, len(layer.sample)) == (1500, 12, 1000)
    assert layer.sample.dtype == np.float32
    assert (layer.sample == x[layer.numbers]).all()
    assert layer.ids.tolist() == ids[layer.numbers].tolist()
    wide = x.astype(float)
    close(layer.moments.centre(0), wide.mean(axis=0), 1e-12, 3)
    close(layer.moments.block(0, 0) / 1500, np.cov(wide.T, bias=True), 1e-12, 10)
    assert repr(found) == "Pin(PinnedView('view0': 1,500 × 12, 1,000 rows kept))"


def test_the_sample_is_random_and_its_seed_decides(rng):
    x = rng.normal(size=(3000, 3))
    first, again, other = (ik.pin(x, rows=100, seed=seed).layers[0].numbers for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()
    # A uniform sample: the mean of 100 numbers below 3000 is near 1500.
    assert abs(first.mean() - 1500) < 4 * 3000 / np.sqrt(12 * 100)


@given(
    rows=st.integers(10, 60),
    width=st.integers(1, 6),
    kind=st.sampled_from(["float16", "float32", "float64", "int8", ">f4"]),
    keep=st.integers(10, 80),
    with_ids=st.booleans(),
)
def test_what_is_pinned_is_the_same(tmp_path_factory, rows, width, kind, keep, with_ids):
    drawn = np.random.default_rng(rows * width).normal(size=(rows, width))
    x = (20 * drawn).round().astype(kind) if kind == "int8" else drawn.astype(kind)
    if not np.ptp(x.astype(float), axis=0).any():
        return
    ids = list(range(rows)) if with_ids else None
    path = tmp_path_factory.mktemp("pin") / "ref.pin"
    ik.pin(x, ids=ids, rows=keep).save(path)
    found = ik.check(x, path, ids=ids)
    assert found
    assert found.cause.name == "same"
    assert found.layers[0].error == 0
    assert found.layers[0].compared == min(rows, keep)


def test_without_rows_only_moments_are_kept(rng, tmp_path):
    x = rng.normal(size=(500, 6))
    ik.pin(x, rows=0).save(tmp_path / "ref.pin")
    layer = ik.load_pin(tmp_path / "ref.pin").layers[0]
    assert layer.sample is None
    assert layer.numbers is None
    assert layer.ids is None
    same = ik.check(x, tmp_path / "ref.pin")
    assert same
    assert same.cause is None
    assert same.layers[0].group is None
    assert "no rows were pinned" in same.layers[0].notes[0]
    changed = ik.check(x @ np.linalg.qr(rng.normal(size=(6, 6)))[0] * 2, tmp_path / "ref.pin")
    assert not changed
    assert "covariance" in changed.failures[0]
    for options in ({"require": "rigid"}, {"strict": True}, {"rows": True}):
        with pytest.raises(ik.InputError, match=r"without rows|--no-rows"):
            ik.check(x, tmp_path / "ref.pin", **options)


def test_a_pin_of_10_000_vectors_is_a_few_megabytes(rng, tmp_path):
    x = rng.normal(size=(2000, 384)).astype(np.float32)
    ik.pin(x, ids=np.arange(2000)).save(tmp_path / "ref.pin")
    assert (tmp_path / "ref.pin").stat().st_size < 3e6


def test_layers_of_a_folder_or_a_mapping(rng, tmp_path):
    x, y = rng.normal(size=(2, 60, 5))
    folder = tmp_path / "states"
    folder.mkdir()
    np.save(folder / "layer_00.npy", x)
    np.save(folder / "layer_01.npy", y[:, :3])
    np.save(folder / "tokens.npy", np.arange(60))
    (folder / "manifest.json").write_text("{}")
    made = ik.pin(folder)
    assert [(layer.name, layer.width) for layer in made.layers] == [
        ("layer_00", 5),
        ("layer_01", 3),
    ]
    made.save(tmp_path / "ref.pin")
    found = ik.check({"layer_01": y[:, :3], "layer_00": x[:, ::-1]}, tmp_path / "ref.pin")
    assert [layer.name for layer in found.layers] == ["layer_00", "layer_01"]
    assert not found
    assert found.worst.name == "layer_00"
    assert found.cause.name == "column permutation"
    assert found.failures[0].startswith("layer 'layer_00': ")
    assert found.layers[1].cause.name == "same"
    assert ik.check(folder, tmp_path / "ref.pin")
    with pytest.raises(ik.InputError, match="not there, 'layer_01'"):
        ik.check({"layer_00": x, "b": y}, tmp_path / "ref.pin")
    with pytest.raises(ik.InputError, match="the same kind of view"):
        ik.check(x, tmp_path / "ref.pin")
    with pytest.raises(ik.InputError, match="several layers"):
        ik.check(folder, tmp_path / "ref.pin", rows=True)
    with pytest.raises(ik.InputError, match="mapping of layers is empty"):
        ik.pin({})


def test_bad_pins_are_refused(rng, tmp_path):
    x = rng.normal(size=(50, 4))
    for options, words in (
        ({"rows": -1}, "number of rows to keep"),
        ({"rows": 3}, "at least 10"),
        ({"fingerprints": {"weights": "w"}}, "no fingerprint 'weights'"),
        ({"ids": ["a"] * 50}, "occur more than once"),
        ({"ids": ["a", *[""] * 49]}, "has none"),
        ({"ids": list("abc")}, "3 ids for the 50 rows"),
    ):
        with pytest.raises(ik.InputError, match=words):
            ik.pin(x, **options)
    with pytest.raises(ik.InputError, match="has 5 rows"):
        ik.pin(x[:5])
    for options in ({}, {"rows": 0}):
        with pytest.raises(ik.InputError, match="all 50 rows of 'view0' are the same"):
            ik.pin(np.full((50, 4), 0.1), **options)
    bad = x.copy()
    bad[7, 1] = np.nan
    with pytest.raises(ik.InputError, match=r"first is row 7 .*; compute these rows again$"):
        ik.pin(bad)
    path = tmp_path / "ref.pin"
    ik.pin(x).save(path)
    with pytest.raises(ik.InputError, match="exists already"):
        ik.pin(x).save(path)
    ik.pin(x).save(path, overwrite=True)


def test_what_is_no_pin_is_refused(rng, tmp_path):
    x = rng.normal(size=(50, 4))
    with pytest.raises(ik.InputError, match="there is no pin"):
        ik.load_pin(tmp_path / "none.pin")
    with pytest.raises(ik.InputError, match="directory"):
        ik.load_pin(tmp_path)
    (tmp_path / "text.pin").write_text("not a pin at all")
    np.save(tmp_path / "x.npy", x)
    ik.pin(x).save(tmp_path / "whole.pin")
    whole = (tmp_path / "whole.pin").read_bytes()
    for size in (0, 6, len(whole) // 2, len(whole) - 1):
        (tmp_path / f"{size}.pin").write_bytes(whole[:size])
    cut = [f"{size}.pin" for size in (0, 6, len(whole) // 2, len(whole) - 1)]
    for name in ("text.pin", "x.npy", *cut):
        with pytest.raises(ik.InputError, match="no pin, or damaged"):
            ik.load_pin(tmp_path / name)
    ik.accumulate([x]).save(tmp_path / "x.moments")
    with pytest.raises(ik.InputError, match="no pin: it holds identikit-moments"):
        ik.load_pin(tmp_path / "x.moments")
    with pytest.raises(ik.InputError, match="expected a pin, or the path"):
        ik.check(x, 3)


def rewrite(path: Path, change) -> None:
    """Write a pin again with another document or other arrays, and the digest of these."""
    document, arrays = _store.read(path)
    change(document, arrays)
    path.unlink()
    _store.write(path, document, arrays)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d, _: d.update(number=2), "format 2 of pins"),
        (lambda d, _: d.update(layers=[]), "no layers"),
        (lambda d, _: d.update(layers=3), "damaged"),
        (lambda d, _: d.pop("fingerprints"), "fingerprints"),
        (lambda d, _: d["fingerprints"].update(model=3), "fingerprints that are no texts"),
        (lambda d, _: d["layers"][0]["ids"].pop(), "ids do not match"),
        (lambda _, a: a.pop("0/numbers"), "arrays do not match"),
        (lambda _, a: a.pop("0/means"), "arrays do not match"),
        (lambda _, a: a.update({"0/rows": a["0/rows"][:, :2]}), "rows do not match"),
        (lambda _, a: a.update({"0/rows": np.inf * a["0/rows"]}), "NaN or infinity"),
        (lambda _, a: a.update({"0/numbers": a["0/numbers"][::-1].copy()}), "numbers of its rows"),
        (lambda _, a: a.update({"0/numbers": a["0/numbers"] + 40}), "numbers of its rows"),
    ],
)
def test_a_forged_pin_is_refused(tmp_path, change, words):
    x = np.random.default_rng(0).normal(size=(50, 4)) + 1
    ik.pin(x, ids=range(50), rows=20, fingerprints=SOME).save(tmp_path / "ref.pin")
    rewrite(tmp_path / "ref.pin", change)
    with pytest.raises(ik.InputError, match=words):
        ik.load_pin(tmp_path / "ref.pin")


def test_a_flipped_bit_is_found(rng, tmp_path):
    path = tmp_path / "ref.pin"
    ik.pin(rng.normal(size=(50, 4))).save(path)
    arrays = load_file(path)
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    arrays["0/rows"][3, 1] += 1
    save_file(arrays, path, header["__metadata__"])
    with pytest.raises(ik.InputError, match="digest"):
        ik.load_pin(path)


def test_ids_come_from_columns_files_and_sequences(rng, tmp_path):
    import pandas as pd

    x = embeddings(rng, 80, 4)
    frame = pd.DataFrame(x, columns=list("abcd")).assign(doc=[f"d{n}" for n in range(80)])
    frame.to_csv(tmp_path / "old.csv", index=False)
    frame.sample(frac=1, random_state=0).to_csv(tmp_path / "new.csv", index=False)
    (tmp_path / "ids.txt").write_text("\n".join(frame["doc"]) + "\n")
    np.save(tmp_path / "x.npy", x)
    ik.pin(str(tmp_path / "old.csv"), ids="doc").save(tmp_path / "ref.pin")
    for view, ids in (
        (str(tmp_path / "new.csv"), "doc"),
        (frame, "doc"),
        (str(tmp_path / "x.npy"), tmp_path / "ids.txt"),
        (x[::-1], frame["doc"].tolist()[::-1]),
    ):
        found = ik.check(view, tmp_path / "ref.pin", ids=ids)
        assert found
        assert found.layers[0].error < 1e-9
        assert found.layers[0].pairing == "paired by id: 80 of 80 pinned rows are there"
