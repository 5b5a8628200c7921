"""Moments as files: exact, merged from any shards, never half believed, resumed where killed."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save

from conftest import close
from identikit.alignment import align
from identikit.errors import InputError
from identikit.moments import (
    Moments,
    accumulate,
    assign_folds,
    load_moments,
    merge_moments,
    read_and_save,
    read_moments,
    save_moments,
)
from identikit.similarity import cca
from identikit.sources import open_sources
from identikit.sources.array import ArraySource
from test_moments import ODD, assert_equals_batch, ill_conditioned, make_views


def arrays_of(moments: Moments) -> list[np.ndarray]:
    """Every number that moments hold."""
    arrays = [moments.sample.keys, moments.sample.rows]
    for part in moments.parts:
        arrays += [part.mean, part.scatter, part.cubic, part.quartic]
    return [*arrays, *(moments.layout.roots or ()), *moments.layout.inverses]


def assert_same_bits(a: Moments, b: Moments) -> None:
    for name in ("names", "widths", "eps", "dropped", "shards", "rule", "seed"):
        assert getattr(a, name) == getattr(b, name), name
    assert [part.count for part in a.parts] == [part.count for part in b.parts]
    assert a.sample.size == b.sample.size
    pairs = list(zip(arrays_of(a), arrays_of(b), strict=True))
    assert all(x.shape == y.shape and x.tobytes() == y.tobytes() for x, y in pairs)


def there_and_back(moments: Moments) -> Moments:
    with tempfile.TemporaryDirectory() as folder:
        moments.save(Path(folder) / "x.moments")
        return Moments.load(Path(folder) / "x.moments")


def digested(views, folds=1, groups=None, **options) -> Moments:
    """As `identikit moments` reads, but without the file."""
    sources = open_sources(views)
    dealt = assign_folds(sources[0].rows, folds, groups)
    return read_moments(sources, dealt, digest=True, **options)


@pytest.fixture
def saved(tmp_path, rng) -> Path:
    """A file of two views with an empty fold, a sample, a shard."""
    views = [rng.normal(size=(4, 3)), rng.normal(size=(4, 2))]
    path = tmp_path / "part.moments"
    replace(digested(views, folds=5, sample=3), seed=0).save(path)
    return path


# Exact.


@given(
    st.integers(0, 999),
    st.integers(1, 60),
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.sampled_from(ODD),
    st.sampled_from([1, 4]),
    st.sampled_from([0, 7]),
    st.sampled_from([None, "groups", "runs", "blocks"]),
)
@settings(max_examples=60)
def test_a_file_gives_back_every_bit(seed, rows, widths, odd, folds, sample, rule):
    moments = digested(make_views(seed, rows, widths, odd), folds, sample=sample, seed=seed)
    moments = replace(moments, rule=rule, seed=seed if seed % 2 else None, dropped=seed % 3)
    assert_same_bits(there_and_back(moments), moments)


def test_ill_conditioned_and_merged_moments_keep_every_bit(rng):
    """Coordinates of their own, and a scatter turned from one set of coordinates into another."""
    shards = [
        [ill_conditioned(rng, 300, condition=10.0**e), rng.normal(size=(300, 2))] for e in (6, 7)
    ]
    a, b = (accumulate(views) for views in shards)
    assert a.layout.roots is not None
    for moments in (a, b, a + b, a + accumulate([v + 1 for v in shards[1]])):
        assert all(np.array_equal(part.scatter, part.scatter.T) for part in moments.parts)
        assert_same_bits(there_and_back(moments), moments)


def test_float16_and_strange_names_survive(rng):
    views = [rng.normal(size=(20, 2)).astype(np.float16), rng.normal(size=(20, 3))]
    moments = accumulate(views, names=["ε::<b>\n", "\udcff"])
    assert_same_bits(there_and_back(moments), moments)


def test_the_file_is_plain_safetensors(saved):
    """So that anybody can read it: the lower triangle of a fold's scatter, row by row."""
    moments, arrays = load_moments(saved), load_file(saved)
    lower = moments.parts[0].scatter[np.tril_indices(5)]
    assert np.array_equal(arrays["scatters"][0], lower)
    assert np.array_equal(arrays["means"], [part.mean for part in moments.parts])


# Shards.


@st.composite
def cut_views(draw):
    rows = draw(st.integers(4, 80))
    views = make_views(
        draw(st.integers(0, 999)),
        rows,
        draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)),
        draw(st.sampled_from(ODD)),
    )
    cuts = sorted(draw(st.sets(st.integers(1, rows - 1), max_size=5)))
    return views, draw(st.permutations(list(pairwise([0, *cuts, rows]))))


@given(cut_views(), st.sampled_from([1, 5]))
@settings(max_examples=60)
def test_shards_cut_anywhere_saved_and_merged_in_any_order_equal_the_batch(case, folds):
    views, spans = case
    # Shards with the same rows are refused, and rightly so.
    assume(len({view[a:b].tobytes() for a, b in spans for view in views[:1]}) == len(spans))
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{i}.moments" for i in range(len(spans))]
        for path, (a, b) in zip(paths, spans):
            digested([view[a:b] for view in views], folds).save(path)
        merged = merge_moments(paths)
        # And in another order: files that are merged already.
        (merge_moments(paths[1:]) if paths[1:] else merged).save(Path(folder) / "rest.moments")
        rest = [Path(folder) / "rest.moments", *([paths[0]] if paths[1:] else [])]
        again = merge_moments(rest)
    assert_equals_batch(merged, views)
    assert_equals_batch(again, views)
    assert set(merged.shards) == set(again.shards)
    assert len(merged.shards) == len(spans)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_ill_conditioned_shards_from_files_merge_to_the_correlations_of_the_rows(
    rng, tmp_path, order
):
    X = ill_conditioned(rng, 900)
    Y = X @ rng.normal(size=(6, 6)) + 1e-3 * rng.normal(size=(900, 6))
    cuts, paths = [(0, 100), (100, 500), (500, 900)], []
    for number in order:
        a, b = cuts[number]
        moments = digested([X[a:b], Y[a:b]], 5)
        assert moments.layout.roots is not None
        paths.append(tmp_path / f"{number}.moments")
        moments.save(paths[-1])
    merged = merge_moments(paths)
    assert_equals_batch(merged, [X, Y])
    bases = [np.linalg.qr(view - view.mean(axis=0))[0] for view in (X, Y)]
    expected = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)
    close(cca(merged).correlations, expected, 1e-8)


@pytest.fixture
def parts(tmp_path, rng) -> list[Path]:
    """Three shards of 20 rows."""
    paths = [tmp_path / f"part{i}.moments" for i in range(3)]
    for path in paths:
        views = [rng.normal(size=(20, 3)), rng.normal(size=(20, 2))]
        replace(digested(views, 5), names=("a", "b"), seed=0).save(path)
    return paths


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"names": ("a", "c")},
            "part1.moments does not fit .*part0.moments: its views are called a, c, not a, b",
        ),
        ({"rule": "groups"}, "its folds are whole groups of rows, not scattered blocks of rows"),
        ({"rule": "runs"}, "its folds are runs of consecutive rows, not scattered blocks of rows"),
        ("folds", "it has 4 folds, not 5"),
        ("widths", "they have 3, 4 columns, not 3, 2"),
    ],
)
def test_what_does_not_fit_is_not_merged(parts, rng, change, words):
    if change == "folds":
        other = replace(digested([rng.normal(size=(20, w)) for w in (3, 2)], 4), names=("a", "b"))
    elif change == "widths":
        other = replace(digested([rng.normal(size=(20, w)) for w in (3, 4)], 5), names=("a", "b"))
    else:
        other = replace(load_moments(parts[1]), **change)
    other.save(parts[1])
    with pytest.raises(InputError, match=words):
        merge_moments(parts)


def test_names_may_be_given_to_all_parts(parts):
    replace(load_moments(parts[1]), names=("x", "y")).save(parts[1])
    assert merge_moments(parts, ["p", "q"]).names == ("p", "q")
    for names in (["p"], ["p", "p"]):
        with pytest.raises(InputError, match="expected 2 different names, one per view, got p"):
            merge_moments(parts, names)


def test_no_shard_is_counted_twice(parts, tmp_path):
    merge_moments(parts[:2]).save(tmp_path / "both.moments")
    with pytest.raises(InputError, match=r"both.moments and .*part1.moments both hold the shard"):
        merge_moments([tmp_path / "both.moments", parts[1]])
    with pytest.raises(InputError, match="share 1 shard"):
        Moments.load(tmp_path / "both.moments") + Moments.load(parts[1])
    (tmp_path / "link.moments").symlink_to(parts[0])
    with pytest.raises(InputError, match=r"link.moments is given twice"):
        merge_moments([parts[0], tmp_path / "link.moments"])


def test_merging_nothing_is_an_error_and_one_file_is_that_file(parts):
    with pytest.raises(InputError, match="at least one"):
        merge_moments([])
    assert_same_bits(merge_moments(parts[:1]), load_moments(parts[0]))


def test_a_fold_rule_that_differs_does_not_merge_and_one_that_nobody_told_is_not_told(rng):
    a, b = (accumulate([rng.normal(size=(20, 2))]) for _ in range(2))
    groups, runs = replace(b, rule="groups"), replace(b, rule="runs")
    for other in (groups, runs):
        with pytest.raises(
            InputError, match="the folds of one are scattered blocks of rows, those"
        ):
            a + other
    assert (a.rule, a.grouped, groups.grouped) == ("blocks", False, True)
    assert (a + b).rule == "blocks"
    assert (runs + replace(a, rule="runs")).grouped is False
    assert (replace(a, rule=None) + groups).grouped is None


def test_seeds_that_differ_merge_to_a_sample_of_no_one_seed(rng):
    a, b = (accumulate([rng.normal(size=(50, 2))], sample=10, seed=s) for s in range(2))
    merged = replace(a, seed=0) + replace(b, seed=1)
    assert merged.seed is None
    assert (replace(a, seed=4) + replace(b, seed=4)).seed == 4
    assert list(merged.sample.keys) == sorted([*a.sample.keys, *b.sample.keys])[:10]


def test_a_part_without_a_sample_leaves_the_whole_without(rng, tmp_path):
    views = [[rng.normal(size=(50, 2))] for _ in range(2)]
    merged = accumulate(views[0], sample=0) + accumulate(views[1])
    assert there_and_back(merged).sample.rows.shape == (0, 2)


# Files that are not what they should be.


def test_what_is_no_moments_file_is_refused_with_one_sentence(tmp_path, rng, saved):
    X = rng.normal(size=(20, 2))
    align(X, X).save(tmp_path / "map.moments")
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "x.npy").rename(tmp_path / "npy.moments")
    (tmp_path / "empty.moments").touch()
    (tmp_path / "folder.moments").mkdir()
    for name, words in (
        ("map", "holds no moments: its header says 'identikit-map-2'"),
        ("npy", "damaged or cut short"),
        ("empty", "damaged or cut short"),
        ("folder", "is a directory"),
        ("nope", "there is no such file"),
    ):
        with pytest.raises(InputError, match=words) as error:
            load_moments(tmp_path / f"{name}.moments")
        assert f"{name}.moments" in str(error.value)


def test_a_file_that_is_cut_anywhere_or_too_long_is_refused(saved):
    data = saved.read_bytes()
    for end in [*range(0, len(data), 37), len(data) - 1]:
        saved.write_bytes(data[:end])
        with pytest.raises(InputError, match="damaged or cut short"):
            load_moments(saved)
    saved.write_bytes(data + b"\0")
    with pytest.raises(InputError, match="damaged or cut short"):
        load_moments(saved)


def test_a_flipped_bit_anywhere_is_found(saved):
    data = saved.read_bytes()
    for place in range(0, len(data), 3):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        saved.write_bytes(flipped)
        with pytest.raises(InputError):
            load_moments(saved)


@given(st.binary(max_size=300), st.integers(0, 3000))
@settings(max_examples=200)
def test_garbage_in_the_middle_is_found(garbage, place):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.moments"
        accumulate([np.arange(24.0).reshape(12, 2) ** 1.5]).save(path)
        data = path.read_bytes()
        spoilt = data[:place] + garbage + data[place + len(garbage) :]
        path.write_bytes(spoilt)
        if spoilt == data:
            return
        with pytest.raises(InputError):
            load_moments(path)


def header_of(path: str | Path) -> Any:
    with safe_open(path, "numpy") as file:
        return json.loads(file.metadata()["identikit"])


def rewrite(path: Path, change=None, arrays=None) -> None:
    """Change a file's header or arrays, and digest it again as a forger would."""
    inner, numbers = header_of(path), load_file(path)
    if change is not None:
        inner = change(inner) or inner
    if arrays is not None:
        arrays(numbers)
    text = inner if isinstance(inner, str) else json.dumps(inner)
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
    for name in sorted(numbers):
        digest.update(name.encode() + numbers[name].tobytes())
    metadata = {"identikit": text, "digest": digest.hexdigest()}
    path.write_bytes(save(numbers, metadata))


def test_the_forger_of_these_tests_forges_well(saved):
    before = load_moments(saved)
    rewrite(saved)
    assert_same_bits(load_moments(saved), before)


def set_at(*path):
    """A change of one place in a header."""
    *way, last, value = path

    def change(header):
        for key in way:
            header = header[key]
        header[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_at("format", "other"), "holds no moments: its header says 'other'"),
        (lambda _: "[]", "damaged: its document is not a JSON object"),
        (lambda _: "{", "damaged or cut short"),
        (lambda _: "[" * 100_000, "damaged or cut short"),
        (lambda _: '{"a":' * 100_000, "damaged or cut short"),
        (set_at("number", 5), "format 5 of moments files, .* reads format 4: install a newer one"),
        (set_at("number", 3), "format 3 of moments files, .* reads format 4: read the rows again"),
        (set_at("number", 0), "'number' cannot be '0'"),
        (set_at("number", "1"), "'number' cannot be '1'"),
        (lambda header: header.pop("views") and None, "'views' is missing"),
        (set_at("views", []), "'views' cannot be"),
        (set_at("views", 7), "'views' cannot be '7'"),
        (set_at("views", 0, "name", 7), "'name' cannot be '7'"),
        (set_at("views", 0, "width", 0), "'width' cannot be '0'"),
        (set_at("views", 0, "width", True), "'width' cannot be 'True'"),
        (set_at("views", 0, "width", 4), "its arrays do not match its header"),
        (set_at("views", 0, "width", 2**62), "its arrays do not match its header"),
        (set_at("views", 0, "eps", float("nan")), "'eps' cannot be 'nan'"),
        (set_at("views", 0, "eps", -1.0), "'eps' cannot be"),
        (set_at("folds", []), "'folds' cannot be"),
        (set_at("folds", 0, -1), "cannot be '-1'"),
        (set_at("folds", [1, 1, 1, 1]), "its arrays do not match its header"),
        (set_at("folds", 0, 2), "'rows' cannot be '4'"),
        (set_at("rows", 5), "'rows' cannot be '5'"),
        (set_at("dropped", -1), "'dropped' cannot be"),
        (set_at("fold_rule", "by luck"), "'fold_rule' cannot be 'by luck'"),
        (set_at("fold_rule", [1]), "'fold_rule' cannot be"),
        (set_at("sample", "seed", "x"), "'seed' cannot be 'x'"),
        (set_at("sample", "size", 2), "'sample' cannot be"),
        (set_at("sample", "rows", 2), "its arrays do not match its header"),
        (set_at("turned", 1), "'turned' cannot be '1'"),
        (set_at("turned", True), "its arrays do not match its header"),
        (set_at("shards", 0, "rows", 0), "'rows' cannot be '0'"),
        (set_at("shards", 0, "digests", ["x", "y"]), "'digests' cannot be"),
        (set_at("shards", 0, "digests", ["0" * 32]), "'digests' cannot be"),
        (set_at("shards", 0, "digests", [1, 2]), "not one of moments"),
        (set_at("partial", {}), "is missing"),
        (set_at("identikit", None), "'identikit' cannot be"),
    ],
)
def test_a_header_that_cannot_be_is_refused(saved, change, words):
    rewrite(saved, change)
    with pytest.raises(InputError, match=words):
        load_moments(saved)


def test_a_list_of_arrays_that_differs_from_the_header_is_refused(saved):
    good = saved.read_bytes()
    for arrays in (
        lambda them: them.update(means=them["means"].astype(np.float32)),
        lambda them: them.update(means=them["means"][:3]),
        lambda them: them.update(more=np.zeros(0, np.uint8)),
        lambda them: them.pop("quartics"),
    ):
        saved.write_bytes(good)
        rewrite(saved, arrays=arrays)
        with pytest.raises(InputError, match="its arrays do not match its header"):
            load_moments(saved)
    for metadata in (None, {}, {"identikit": "{}"}):
        saved.write_bytes(save(load_file(saved), metadata))
        with pytest.raises(InputError, match="holds no moments: its header says 'None'"):
            load_moments(saved)
    saved.write_bytes(good)
    with safe_open(saved, "numpy") as file:
        header = file.metadata()["identikit"]
    saved.write_bytes(save(load_file(saved), {"identikit": header}))
    with pytest.raises(InputError, match="its contents do not match its digest"):
        load_moments(saved)


def test_numbers_that_cannot_be_are_refused(saved, rng):
    good = saved.read_bytes()

    def mean(fold, value):
        return lambda arrays: arrays["means"].__setitem__((fold, 0), value)

    near = np.nextafter(load_moments(saved).parts[0].mean[0], 9.0)
    rewrite(saved, arrays=mean(0, near))
    assert load_moments(saved).parts[0].mean[0] == near
    for value in (np.nan, np.inf):
        rewrite(saved, arrays=mean(0, value))
        with pytest.raises(InputError, match="damaged: a statistic is not finite"):
            load_moments(saved)
    empty = [part.count for part in load_good(saved, good).parts].index(0)
    rewrite(saved, arrays=mean(empty, 1.0))
    with pytest.raises(InputError, match=f"fold {empty} has no rows, but its statistics are"):
        load_moments(saved)


def load_good(path: Path, data: bytes) -> Moments:
    path.write_bytes(data)
    return load_moments(path)


def test_text_that_utf8_cannot_hold_is_no_traceback(saved):
    rewrite(saved, lambda header: json.dumps(header).replace("view0", "\\ud800"))
    assert load_moments(saved).names[0] == "\ud800"
    raw = saved.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    outer = json.loads(raw[8 : 8 + length])
    outer["__metadata__"]["identikit"] = "\ud800"
    whole = json.dumps(outer).encode()
    saved.write_bytes(len(whole).to_bytes(8, "little") + whole + raw[8 + length :])
    with pytest.raises(InputError, match="damaged or cut short"):
        load_moments(saved)


def test_a_sparse_file_does_not_fill_the_memory(saved):
    """A terabyte of holes, with a header that fits it."""
    raw = saved.read_bytes()
    outer = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    header = json.loads(outer["__metadata__"]["identikit"])
    header["views"][0]["width"] = 200_000
    outer["__metadata__"]["identikit"], end = json.dumps(header), 0
    wide = {5: 200_002, 15: 200_002 * 200_003 // 2, 3: 200_000}
    for name, entry in outer.items():
        if name != "__metadata__":
            if name not in ("sample_keys", "quartics"):
                entry["shape"][-1] = wide.get(entry["shape"][-1], entry["shape"][-1])
            begin, end = end, end + 8 * prod(entry["shape"])
            entry["data_offsets"] = [begin, end]
    whole = json.dumps(outer).encode()
    with saved.open("wb") as file:
        file.write(len(whole).to_bytes(8, "little") + whole)
        file.truncate(file.tell() + end)
    with pytest.raises(InputError, match="the budget is"):
        load_moments(saved)


def test_a_file_that_shrinks_while_it_is_read_is_refused(saved, monkeypatch):
    def cut(path, read_bytes=Path.read_bytes):
        os.truncate(path, 2000)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", cut)
    with pytest.raises(InputError, match="damaged or cut short"):
        load_moments(saved)


def test_what_cannot_be_loaded_is_not_saved(tmp_path, rng):
    moments = accumulate([rng.normal(size=(20, 2))])
    moments.parts[0].cubic[0, 0] = np.inf
    with pytest.raises(InputError, match="cannot be saved: a statistic is not finite"):
        moments.save(tmp_path / "x.moments")
    assert not list(tmp_path.iterdir())


def test_saving_asks_for_the_suffix_and_spares_what_is_there(tmp_path, rng):
    moments = accumulate([rng.normal(size=(20, 2))])
    with pytest.raises(InputError, match=r"must end in .moments; got x.safetensors"):
        save_moments(moments, "x.safetensors")
    moments.save(tmp_path / "x.moments")
    before = (tmp_path / "x.moments").read_bytes()
    with pytest.raises(InputError, match="exists already"):
        accumulate([rng.normal(size=(20, 2))]).save(tmp_path / "x.moments", overwrite=False)
    assert (tmp_path / "x.moments").read_bytes() == before


# Resuming.

ROWS = 120_000


class Counting:
    """A source that counts the rows read, and breaks after some."""

    def __init__(self, source, most: float = np.inf) -> None:
        self.source, self.most, self.read_rows = source, most, 0
        self.origin, self.files = source.origin, source.files
        self.name, self.rows, self.width, self.eps = (
            source.name,
            source.rows,
            source.width,
            source.eps,
        )

    def read(self, start, stop):
        self.read_rows += stop - start
        if self.read_rows > self.most:
            raise KeyboardInterrupt
        return self.source.read(start, stop)

    def close(self):
        self.source.close()


@pytest.fixture
def files(tmp_path, rng) -> list[str]:
    """Two views; the second is so ill-conditioned that it is read twice."""
    X = rng.normal(size=(ROWS, 3)) + 100
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", ill_conditioned(rng, ROWS, 4))
    np.save(tmp_path / "z.npy", X @ rng.normal(size=(3, 2)))
    return [str(tmp_path / f"{name}.npy") for name in "xyz"]


def counted(paths, most=np.inf) -> list[Counting]:
    return [Counting(source, most) for source in open_sources(paths)]


def reading(sources, path, groups=None, folds=5, **options) -> Moments:
    dealt = assign_folds(ROWS, folds, groups)
    try:
        return read_and_save(sources, dealt, path, **options)
    finally:
        for source in sources:
            source.close()


def assert_equal_moments(a: Moments, b: Moments, tol: float = 1e-12) -> None:
    assert a.shards == b.shards
    assert len(a.shards) == 1
    assert (a.names, a.eps, a.rows, a.dropped, a.rule, a.seed) == (
        (b.names, b.eps, b.rows, b.dropped, b.rule, b.seed)
    )
    assert np.array_equal(a.sample.rows, b.sample.rows)
    for fold in range(a.folds):
        for i in range(len(a.names)):
            close(a.centre(i, only=fold), b.centre(i, only=fold), tol, 100)
            for j in range(len(a.names)):
                sizes = [np.sqrt(np.diagonal(b.block(v, v))) for v in (i, j)]
                close(a.block(i, j, only=fold), b.block(i, j, only=fold), tol, np.outer(*sizes))


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(
    ("views", "most", "passes"),
    [((0, 2), ROWS // 3, 1), ((0, 1), ROWS // 3, 2), ((0, 1), ROWS * 3 // 2, 2)],
)
def test_a_reading_that_breaks_off_goes_on_from_there(
    files, tmp_path, views, most, passes, grouped
):
    paths, groups = [files[v] for v in views], np.arange(ROWS) // 7 if grouped else None
    whole = reading(counted(paths), tmp_path / "whole.moments", groups)
    assert (whole.layout.roots is None) == (passes == 1)
    target, kept = tmp_path / "part.moments", tmp_path / "part.moments.partial"
    with pytest.raises(KeyboardInterrupt):
        reading(counted(paths, most), target, groups, every=0.0)
    assert not target.exists()
    number, part = (2, "second") if most > ROWS else (1, "first")
    with pytest.raises(InputError, match=rf"of {ROWS} rows in the {part} pass; run .* --resume"):
        load_moments(kept)
    done = sum(stop - start for start, stop in header_of(kept)["partial"]["spans"])
    assert most % ROWS - 8192 < done <= most % ROWS  # saved after every 8192 rows
    sources = counted(paths)
    resumed = reading(sources, target, groups, resume=True)
    assert [source.read_rows for source in sources] == [(passes - number + 1) * ROWS - done] * 2
    assert_equal_moments(resumed, whole)
    assert_same_bits(load_moments(target), resumed)
    assert not kept.exists()


def test_dropped_rows_are_counted_once(files, tmp_path):
    X = np.load(files[0])
    X[[3, 5000, 19_999]] = np.nan
    np.save(files[0], X)
    paths, target = [files[0], files[2]], tmp_path / "part.moments"
    whole = reading(counted(paths), tmp_path / "whole.moments", drop_nonfinite=True)
    with pytest.raises(KeyboardInterrupt):
        reading(counted(paths, ROWS // 2), target, drop_nonfinite=True, every=0.0)
    resumed = reading(counted(paths), target, drop_nonfinite=True, resume=True)
    assert (resumed.rows, resumed.dropped) == (ROWS - 3, 3)
    assert_equal_moments(resumed, whole)


@pytest.fixture
def broken(files, tmp_path) -> tuple[list[str], Path]:
    """The paths of a reading that broke off, and the file that it was for."""
    paths, target = [files[0], files[2]], tmp_path / "part.moments"
    with pytest.raises(KeyboardInterrupt):
        reading(counted(paths, ROWS // 2), target, every=0.0)
    return paths, target


def test_hours_of_work_are_not_written_over(broken):
    paths, target = broken
    kept = target.with_name("part.moments.partial")
    before = kept.read_bytes()
    with pytest.raises(
        InputError, match=r"partial holds an unfinished reading; continue .* --resume"
    ):
        reading(counted(paths), target)
    assert kept.read_bytes() == before


def test_a_resumed_reading_may_break_off_again(broken):
    paths, target = broken
    with pytest.raises(KeyboardInterrupt):
        reading(counted(paths, 18_000), target, resume=True, every=0.0)
    done = sum(b - a for a, b in header_of(f"{target}.partial")["partial"]["spans"])
    assert done > ROWS // 2
    whole = reading(counted(paths), target.with_name("whole.moments"))
    assert_equal_moments(reading(counted(paths), target, resume=True), whole)


def test_resuming_nothing_reads_everything(files, tmp_path):
    sources = counted([files[0], files[2]])
    reading(sources, tmp_path / "part.moments", resume=True)
    assert sources[0].read_rows == ROWS


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"seed": 1},
            r"different settings: the seed was 0 and is now 1\. .*: use the same data and settings",
        ),
        ({"sample": 5}, "the size of the row sample was 1000 and is now 5"),
        ({"drop_nonfinite": True}, "leaving out rows that are not finite"),
        ({"groups": np.arange(ROWS)}, "the groups"),
    ],
)
def test_another_way_of_reading_is_not_resumed(broken, options, words):
    paths, target = broken
    with pytest.raises(InputError, match=words):
        reading(counted(paths), target, resume=True, **options)


def test_another_thing_read_is_not_resumed(broken, files):
    paths, target = broken
    with pytest.raises(InputError, match="the names of the views"):
        reading(counted([files[0], files[1]]), target, resume=True)
    with pytest.raises(InputError, match="the number of folds was 5 and is now 4"):
        reading(counted(paths), target, folds=4, resume=True)
    moved = str(Path(paths[1]).with_name("moved.npy"))
    Path(paths[1]).rename(moved)
    sources = [Counting(s) for s in open_sources([paths[0], moved], ["x", "z"])]
    with pytest.raises(
        InputError, match=r"the origin of view 'z' was .*z.npy\" and is now .*moved.npy"
    ):
        reading(sources, target, resume=True)
    Path(moved).rename(paths[1])
    kept = target.with_name("part.moments.partial")
    before = kept.read_bytes()
    rewrite(kept, set_at("partial", "fingerprint", "the version of identikit", "0.0.0"))
    with pytest.raises(InputError, match=r"the version of identikit was \"0.0.0\" and is now"):
        reading(counted(paths), target, resume=True)
    kept.write_bytes(before)
    np.save(paths[0], np.load(paths[0]).astype(np.float32))
    with pytest.raises(InputError, match=r"the precision of view 'x' .* the files of view 'x'"):
        reading(counted(paths), target, resume=True)


def test_what_was_kept_must_be_whole(broken):
    paths, target = broken
    kept = target.with_name("part.moments.partial")
    data = kept.read_bytes()
    for end in (len(data) // 2, 10, 0):
        kept.write_bytes(data[:end])
        with pytest.raises(InputError, match=r"cut short.* or delete it, to read from the start"):
            reading(counted(paths), target, resume=True)
    kept.write_bytes(data[:-100] + bytes(100))
    with pytest.raises(InputError, match=r"damaged.* or delete it, to read from the start"):
        reading(counted(paths), target, resume=True)


@pytest.mark.parametrize("spans", [[[0, 5]], [[0, 1024], [0, 1024]]])
def test_ranges_that_nobody_reads_are_refused(broken, spans):
    paths, target = broken
    rewrite(target.with_name("part.moments.partial"), set_at("partial", "spans", spans))
    with pytest.raises(InputError, match="ranges of rows that cannot be right; delete it"):
        reading(counted(paths), target, resume=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_at("partial", "second", 1), "'second' cannot be '1'"),
        (set_at("partial", "rows", 0), "'rows' cannot be '0'"),
        (set_at("partial", "spans", [[-1, 5]]), "cannot be '-1'"),
        (set_at("partial", "digests", []), "'digests' cannot be"),
        (set_at("partial", "fingerprint", []), "'fingerprint' cannot be"),
    ],
)
def test_what_was_kept_is_checked_like_all_else(broken, change, words):
    paths, target = broken
    rewrite(target.with_name("part.moments.partial"), change)
    with pytest.raises(InputError, match=words):
        reading(counted(paths), target, resume=True)


def test_a_finished_file_is_not_resumed(broken):
    paths, target = broken
    accumulate([np.eye(3)]).save(target)
    target.rename(f"{target}.partial")
    with pytest.raises(InputError, match="is not an unfinished reading"):
        reading(counted(paths), target, resume=True)


def test_a_wrong_name_is_found_before_the_rows_are_read(files):
    sources = counted(files)
    with pytest.raises(InputError, match=r"must end in .moments"):
        reading(sources, "x.safetensors")
    assert sources[0].read_rows == 0


def test_nothing_is_kept_before_its_time(files, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        reading(counted([files[0]], ROWS // 2), tmp_path / "part.moments", every=1e6)
    assert not list(tmp_path.glob("part*"))


@dataclass(frozen=True)
class Doubled:
    """A view made from another."""

    path: str
    times: float = 2.0

    def open_source(self, name):
        source = ArraySource(np.load(self.path) * self.times, name)
        source.origin = self
        return source


def test_arrays_are_known_by_what_they_hold_and_recipes_by_what_they_are(files, tmp_path):
    def stop(_what, done, _total):
        if done > ROWS // 2:
            raise KeyboardInterrupt

    def known(view):
        with pytest.raises(KeyboardInterrupt):
            reading(open_sources([view]), tmp_path / "x.moments", progress=stop, every=0.0)
        kept = tmp_path / "x.moments.partial"
        found = header_of(kept)["partial"]["fingerprint"]
        kept.unlink()
        return found["the origin of view 'view0'"]

    X = np.load(files[0])
    assert known(X) == known(np.asfortranarray(X)) == known(X.copy())
    other = X.copy()
    other[-1, -1] += 1e-9
    assert known(other) != known(X)
    assert known(Doubled(files[0])) == known(Doubled(files[0]))
    assert known(Doubled(files[0])) != known(Doubled(files[0], 3.0))
