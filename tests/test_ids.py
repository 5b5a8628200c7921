"""Rows paired by id: the same pairs as a database's inner join, or a reason."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
import tracemalloc
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from identikit.errors import InputError
from identikit.sources import open_sources, paired
from identikit.sources._ids import given_ids


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """All temporary files go here, and none may stay."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert not folder.is_dir() or not list(folder.iterdir())


def numbered(rows, width=3, dtype="f8"):
    """A view whose first column says which row it was."""
    return np.arange(rows)[:, None].astype(dtype) + np.arange(width, dtype=dtype) / 8


def rows_read(views, names=None, block=1000):
    """The first column of every view, read in blocks, as whole numbers."""
    found = []
    for source in open_sources(views, names):
        with closing(source):
            starts = range(0, source.rows, block)
            blocks = [source.read(start, min(start + block, source.rows)) for start in starts]
            found.append(np.floor(np.concatenate(blocks)[:, 0]).astype(int))
    return found


def merged(ids):
    """Row numbers of the inner join of all views, by pandas, in the order of the first."""
    frames = [pd.DataFrame({"id": list(i), f"row{v}": range(len(i))}) for v, i in enumerate(ids)]
    joined = frames[0]
    for frame in frames[1:]:
        joined = joined.merge(frame, on="id")
    return [joined[f"row{v}"].to_numpy() for v in range(len(ids))]


def refuses(*parts, views=None, ids, **options):
    """Assert an InputError whose message holds every part."""
    if views is None:
        views = [numbered(len(column)) for column in ids]
    with pytest.raises(InputError) as caught, paired(views, ids, **options):
        pass
    for part in parts:
        assert part in str(caught.value), caught.value
    return str(caught.value)


# The join

integers = st.lists(st.integers(-20, 20), unique=True, min_size=1, max_size=30)
strings = st.lists(st.text("ab1é", max_size=3), unique=True, min_size=1, max_size=30)


@given(
    ids=st.one_of(
        st.lists(integers, min_size=2, max_size=4), st.lists(strings, min_size=2, max_size=3)
    ),
    width=st.sampled_from([1, 3, 500]),
    block=st.integers(1, 7),
)
@settings(max_examples=150)
def test_the_pairs_are_those_of_an_inner_join(ids, width, block):
    """In a memory that takes the ids, and few of the rows if these are wide."""
    memory = 20_000
    expected = merged(ids)
    views = [numbered(len(column), width) for column in ids]
    if not len(expected[0]):
        refuses("only 0 of the", ids=ids, share=0.0, memory=memory)
        return
    with paired(views, ids, share=0.0, memory=memory) as (joined, names, matched):
        assert matched.rows == len(expected[0])
        assert matched.of == tuple(len(column) for column in ids)
        for actual, rows in zip(rows_read(joined, names, block), expected, strict=True):
            np.testing.assert_array_equal(actual, rows)


@pytest.mark.parametrize("width", [3, 300])
@pytest.mark.parametrize("kind", [int, str])
def test_files_of_many_rows_with_gaps_and_out_of_order(tmp_path, rng, width, kind):
    """The first view's rows rise with gaps, the second's do not, the third's are all there."""
    every = rng.permutation(5000) * 1_000_003
    ids = [every[rng.random(5000) < 0.9], rng.permutation(every)[:4800], every]
    ids = [column.astype(kind) for column in ids]
    paths = [tmp_path / f"{v}.npy" for v in range(3)]
    for path, column in zip(paths, ids):
        np.save(path, numbered(len(column), width, dtype="f4"))
    expected = merged(ids)
    with paired(paths, ids, memory=2_500_000) as (joined, names, _):
        for actual, rows in zip(rows_read(joined, names), expected, strict=True):
            np.testing.assert_array_equal(actual, rows)
    assert len(expected[0]) > 4000


def test_views_that_fit_already_are_left_alone():
    views = [numbered(4), numbered(4), numbered(5)]
    with paired(views, [[5, 7, 6, 1], [5, 7, 6, 1], [5, 7, 6, 0, 1]]) as (joined, _, matched):
        assert joined[0] is views[0]
        assert joined[1] is views[1]
        assert joined[2] is not views[2]
        assert str(matched) == (
            "4 rows matched by id; without a partner: 1 of the 5 rows of 'view2'"
        )
    with paired(views[:2], [[1, 2, 3, 4], [1, 2, 3, 4]]) as (_, _, matched):
        assert str(matched) == "4 rows matched by id; without a partner: none"


def test_without_ids_nothing_is_done():
    views = [numbered(4), numbered(5)]
    with paired(views) as (same, names, matched):
        assert same is views
        assert names is None
        assert matched is None


def test_names_are_the_files_and_equal_ones_are_told_apart(tmp_path):
    (tmp_path / "other").mkdir()
    paths = [tmp_path / "run.npy", tmp_path / "other" / "run.npy"]
    for path in paths:
        np.save(path, numbered(3))
    with paired(paths, [[1, 2, 3], [3, 2, 1]]) as (joined, names, _):
        assert names == ("run", "other/run")
        rows = rows_read(joined, names)
        assert [list(column) for column in rows] == [[0, 1, 2], [2, 1, 0]]
    with paired(paths, [[1, 2, 3], [3, 2, 1]], ["a", "b"]) as (_, names, _):
        assert names == ("a", "b")


def test_labels_of_the_first_view_follow_its_rows():
    views = [numbered(4), numbered(3)]
    with paired(views, [["a", "b", "c", "d"], ["d", "x", "b"]]) as (_, _, matched):
        assert matched.pick(np.array([10, 11, 12, 13])).tolist() == [11, 13]
        with pytest.raises(InputError, match=r"3 group labels.*each of the 4 rows.*'view0'"):
            matched.pick(np.array([10, 11, 12]))


def test_the_storage_type_is_kept_through_a_copy(tmp_path):
    """bfloat16 is read as float32, but its rank tolerance stays that of bfloat16."""
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file as save_tensors

    path = tmp_path / "half.safetensors"
    save_tensors({"x": torch.tensor(numbered(4)).bfloat16()}, path)
    for ids in ([4, 3, 2, 1], [1, 2, 3, 9]):  # copied; picked while reading
        with paired([numbered(4), path], [[1, 2, 3, 4], ids]) as (joined, names, _):
            sources = open_sources(joined, names)
            assert sources[1].eps == 2.0**-8
            assert sources[1].read(0, 1).dtype == np.float32
            for source in sources:
                source.close()


def test_a_joined_view_opens_in_another_process(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, numbered(100_000, 2))
    order = np.arange(100_000)
    for ids in (np.where(order == 7, -1, order), order[::-1]):
        with paired([path, path], [order, ids]) as (joined, _, _):
            sent = pickle.dumps(joined[1])
            assert len(sent) < 2000
            code = (
                "import pickle, sys\n"
                "s = pickle.load(sys.stdin.buffer).open_source('b')\n"
                "print(s.read(7, 8)[0, 0], s.rows, s.files[0].name)\n"
            )
            done = subprocess.run(
                [sys.executable, "-c", code], input=sent, capture_output=True, check=True
            )
            first = "8.0 99999" if ids[-1] else "99992.0 100000"
            assert done.stdout.decode().split() == [*first.split(), "a.npy"]


def test_the_same_rows_of_the_same_file_have_the_same_identity(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, numbered(4))
    identities = []
    for ids in ([1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 4, 3], [4, 3, 2, 1], [4, 3, 2, 1]):
        with paired([path, path], [[1, 2, 3, 9], ids]) as (joined, _, _):
            identities.append(joined[1].identity)
    assert identities[0] == identities[1]
    assert identities[3] == identities[4]
    assert len(set(identities)) == 3


def test_rows_with_gaps_are_read_in_runs_no_longer_than_a_block(tmp_path, monkeypatch):
    path = tmp_path / "a.npy"
    np.save(path, numbered(10_000))
    wanted = np.concatenate([np.arange(0, 3000, 3), [9000, 9999]])
    with paired([path, numbered(len(wanted))], [np.arange(10_000), wanted]) as (joined, _, _):
        source = joined[0].open_source("a")
        with closing(source):
            inner, read = source._source, []
            real = inner.read
            monkeypatch.setattr(inner, "read", lambda a, b: read.append((a, b)) or real(a, b))
            got = [source.read(start, start + 100)[:, 0] for start in range(0, len(wanted), 100)]
            assert source.read(5, 5).shape == (0, 3)
        np.testing.assert_array_equal(np.concatenate(got), wanted)
        assert max(b - a for a, b in read) <= 100
        assert sum(b - a for a, b in read) < 3200
        assert all(a <= b for (_, a), (b, _) in pairwise(read[:-1]))


def test_memory_does_not_grow_with_the_bytes_of_the_rows(tmp_path):
    """64 MB of rows out of order, in a budget of 8 MB, two arrays of row numbers, and a block."""
    rows, budget = 40_000, 8 * 2**20
    order = np.random.default_rng(0).permutation(rows)
    paths = [tmp_path / "a.npy", tmp_path / "b.npy", tmp_path / "ids_a.npy", tmp_path / "ids_b.npy"]
    np.save(paths[0], np.zeros((rows, 1), "f4"))
    np.save(paths[1], np.repeat(order[:, None], 400, axis=1).astype("f4"))
    np.save(paths[2], np.arange(rows))
    np.save(paths[3], order)
    with paired(paths[:2], paths[2:]):  # what is loaded once and stays
        pass
    tracemalloc.start()
    try:
        with paired(paths[:2], paths[2:], memory=budget) as (joined, _, matched):
            peak = tracemalloc.get_traced_memory()[1]
            assert matched.rows == rows
            with closing(joined[1].open_source("b")) as source:
                np.testing.assert_array_equal(source.read(1000, 1003)[:, 5], [1000, 1001, 1002])
    finally:
        tracemalloc.stop()
    assert peak < 3 * budget


@pytest.mark.parametrize("kind", [int, str])
def test_ids_take_the_memory_that_is_said_of_them(tmp_path, kind):
    """Ids that fit by a hair are joined within the budget; a tenth less is refused beforehand."""
    rows = 100_000
    ids = [np.random.default_rng(seed).permutation(rows).astype(kind) for seed in range(2)]
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    for path, column in zip(paths, ids):
        np.save(path, column)
    view = np.zeros((rows, 1), "f4")
    value = 8 if kind is int else 8 + 49 + 5
    budget = 2 * rows * (48 + value)
    with paired([view, view], ids):
        pass
    tracemalloc.start()
    try:
        with paired([view, view], paths, memory=budget) as (_, _, matched):
            assert matched.rows == rows
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.2 * budget
    words = ("ids of view 'view1'", "MB of memory that are left for ids", "of 100,000 rows")
    refuses(*words, views=[view, view], ids=paths, memory=int(0.9 * budget))


# What goes wrong


def test_too_few_matches_give_examples_of_both_sides():
    message = refuses(
        "only 1 of the 4 rows of view 'view0'", "at least 50%", ids=[[1, 2, 3, 4], [4, 5, 6, 7, 8]]
    )
    assert "1, 2, 3 in 'view0'; 5, 6, 7 in 'view1'" in message
    refuses("'doc-1'", "'doc_1'", ids=[["doc-1"], ["doc_1"]], share=0.0)
    with paired([numbered(4)] * 2, [[1, 2, 3, 4], [4, 5, 6, 7]], share=0.25) as (_, _, matched):
        assert matched.rows == 1


def test_an_id_that_a_view_has_twice_is_named_with_its_rows():
    ids = [[f"r{n}" for n in range(300)], [f"r{n}" for n in range(300)]]
    ids[1][250] = "r17"
    refuses("view 'view1': rows 17 and 250", "'r17'", ids=ids)
    classes = np.arange(50_000) % 3  # a column of classes taken for ids
    refuses("rows 0 and 3", "the id 0", ids=[classes, np.arange(50_000)])


def test_strings_are_not_integers():
    refuses("are strings", "are integers", "'1' is not 1", ids=[["1", "2"], [1, 2]])
    refuses("row 1 is '1' of type str", "integers only or strings only", ids=[[1, "1"], [1, 2]])
    late = [*range(2**16), "a"]  # the text is in a block of its own
    refuses("are integers", "are strings", ids=[late, late])


@pytest.mark.parametrize(
    ("ids", "parts"),
    [
        ([1.0, 2.0], ["float"]),
        (np.array([1.0, 2.0]), ["dtype float64", "integers or strings"]),
        ([1, None], ["row 1 is None", "none missing"]),
        ([True, False], ["row 0 is True"]),
        (np.array([True, False]), ["dtype bool"]),
        (["a", float("nan")], ["row 1 is nan"]),
        ([1, 2**70], ["more than 64 bits"]),
        ([-1, 2**63], ["more than 64 bits"]),
        (np.array(["2020", "2021"], "M8[Y]"), ["dtype datetime64"]),
        (np.array([[1], [2]]), ["shape (2, 1)", "1-D"]),
        (np.array([b"\xff", b"a"]), ["not UTF-8"]),
        (["a", "\ud800"], ["invalid text"]),
        ([1, 2, 3], ["3 ids for 2 rows"]),
        ([1], ["1 ids for 2 rows"]),
        ([], ["0 ids for 2 rows"]),
    ],
)
def test_ids_that_cannot_be(ids, parts):
    message = refuses(*parts, views=[numbered(2), numbered(2)], ids=[ids, ids])
    assert "view 'view0'" in message


def test_the_call_is_checked():
    views = [numbered(2), numbered(2)]
    refuses("expected ids for 2 views", "got 3", views=views, ids=[[1, 2]] * 3)
    refuses("expected names for 2 views", "got 1", views=views, ids=[[1, 2]] * 2, names=["a"])
    refuses("must match is 1.5", views=views, ids=[[1, 2]] * 2, share=1.5)
    refuses("must match is nan", views=views, ids=[[1, 2]] * 2, share=float("nan"))


@pytest.mark.parametrize("error", [KeyboardInterrupt, InputError])
def test_no_temporary_files_stay(temporary, error):
    views = [numbered(3), numbered(3)]

    def stopped():
        with paired(views, [[1, 2, 3], [3, 2, 1]]):
            assert list(temporary.rglob("*.npy"))
            raise error

    with pytest.raises(error):
        stopped()
    assert not list(temporary.iterdir())


def test_a_full_disk_is_one_sentence(monkeypatch, temporary):
    def full(**_):
        raise OSError(28, "No space left on device")

    views, ids = [numbered(1000, 200)] * 2, [np.arange(1000), np.arange(1000)[::-1]]
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    words = (f"in {temporary}", "No space left on device; set TMPDIR")
    refuses(*words, views=views, ids=ids, memory=200_000)


def test_a_folder_for_temporary_files_that_is_not_there(temporary):
    temporary.rmdir()
    refuses(f"temporary files in {temporary}", "set TMPDIR", ids=[[1, 2], [2, 1]])


# Where ids come from


def write_views(folder, write, suffix):
    """Two views of seven rows and their ids, the second backwards, and what a join must give."""
    ids = np.array([3, 1, 4, 15, 9, 2, 6])
    paths = [folder / f"a{suffix}", folder / f"b{suffix}"]
    write(paths[0], numbered(7), ids)
    write(paths[1], numbered(7)[::-1].copy(), ids[::-1].copy())
    return paths


def assert_pairs(paths, ids="key"):
    with paired(paths, ids) as (joined, names, matched):
        assert matched.rows == 7
        for rows in rows_read(joined, names):
            np.testing.assert_array_equal(rows, np.arange(7))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("kind", [int, str, ">i4", "S2"])
def test_ids_in_an_npz_archive(tmp_path, save, kind):
    paths = write_views(tmp_path, lambda p, x, i: save(p, x=x, key=i.astype(kind)), ".npz")
    assert_pairs([f"{path}::x" for path in paths])
    refuses("holds no array named 'no'", "'key', 'x'", views=[f"{p}::x" for p in paths], ids="no")


def test_ids_in_a_safetensors_file(tmp_path):
    paths = write_views(tmp_path, lambda p, x, i: save_file({"x": x, "key": i}, p), ".safetensors")
    assert_pairs([f"{path}::x" for path in paths])
    views = [f"{path}::x" for path in paths]
    refuses("shape (7, 3)", "1-D", views=views, ids="x")


def test_bfloat16_is_no_id(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file as save_tensors

    path = tmp_path / "a.safetensors"
    save_tensors({"x": torch.ones(4, 2), "key": torch.ones(4).bfloat16()}, path)
    refuses("dtype bfloat16", views=[f"{path}::x"] * 2, ids="key")


def test_ids_in_a_parquet_file(tmp_path):
    pytest.importorskip("pyarrow")

    def write(path, x, ids):
        frame = pd.DataFrame(x, columns=["e0", "e1", "e2"])
        frame.assign(key=ids.astype(str)).to_parquet(path)

    paths = write_views(tmp_path, write, ".parquet")
    assert_pairs(paths)
    arrays = [numbered(7), numbered(7)[::-1]]
    assert_pairs(arrays, [f"{path}::key" for path in paths])


def test_ids_of_a_folder_of_shards(tmp_path):
    def write(path, x, ids):
        path.mkdir()
        np.savez(path / "part-0.npz", x=x[:3], key=ids[:3])
        np.savez(path / "part-1.npz", x=x[3:], key=ids[3:])

    assert_pairs([f"{path}::x" for path in write_views(tmp_path, write, "")])


@pytest.mark.parametrize("kind", ["i8", "U2"])
def test_ids_in_files_of_their_own(tmp_path, kind):
    views, ids = [], []

    def write(path, x, i):
        views.append(x)
        ids.append(i.astype(kind))

    write_views(tmp_path, write, "")
    for v, column in enumerate(ids):
        np.save(tmp_path / f"{v}.npy", column)
        np.savez(tmp_path / f"{v}.npz", other=x_of(column), ids=column)
        (tmp_path / f"{v}.txt").write_text("\n".join(map(str, column)) + "\n", encoding="utf-8-sig")
    for files in (["0.npy", "1.npy"], ["0.npz::ids", "1.npz::ids"], ["0.txt", "1.txt"]):
        assert_pairs(views, [str(tmp_path / file) for file in files])
    refuses("expected a .npy or .txt file", views=views, ids=[str(tmp_path / "0.npz")] * 2)


def x_of(column):
    return np.zeros((len(column), 2))


def test_files_of_ids_that_do_not_work(tmp_path):
    np.save(tmp_path / "a.npy", numbered(2))
    views = [tmp_path / "a.npy"] * 2
    refuses("holds one array and no column 'id'", ".npz or Parquet", views=views, ids="id")
    refuses("no such file", views=views, ids=[tmp_path / "no.txt"] * 2)
    refuses("no such file", views=views, ids=[tmp_path / "no.csv"] * 2)
    refuses("shape (2, 3)", "1-D", views=views, ids=[tmp_path / "a.npy"] * 2)
    (tmp_path / "a.txt").write_text("a\n\nb\n")
    refuses("line 2 is empty", views=views, ids=[tmp_path / "a.txt"] * 2)
    (tmp_path / "b.txt").write_bytes(b"a\n\xff\n")
    refuses("not UTF-8", views=views, ids=[tmp_path / "b.txt"] * 2)
    (tmp_path / "c.xlsx").write_text("id\n1\n")
    refuses("suffix '.xlsx'", ".npz", views=views, ids=[f"{tmp_path / 'c.xlsx'}::id"] * 2)


def test_a_file_of_ids_that_shrinks_while_it_is_read(tmp_path):
    path = tmp_path / "ids.npy"
    np.save(path, np.arange(200_000))
    blocks = given_ids(path, "a").blocks
    next(blocks)
    path.write_bytes(path.read_bytes()[:600_000])
    with pytest.raises(InputError, match="changed while it was read"):
        list(blocks)


def test_columns_of_data_frames_in_memory():
    frames = []
    write_views(
        Path(), lambda _, x, i: frames.append(pd.DataFrame(x, columns=[*"abc"]).assign(key=i)), ""
    )
    assert_pairs(frames)
    assert [frame.shape for frame in frames] == [(7, 4), (7, 4)]  # the caller's own are untouched
    refuses("holds no array named 'no'", "'key'", views=frames, ids="no")
    refuses("a ndarray in memory has no named columns", views=[numbered(2)] * 2, ids="key")


def test_columns_of_tables_in_memory():
    pyarrow = pytest.importorskip("pyarrow")
    tables = []
    write_views(
        Path(),
        lambda _, x, i: tables.append(
            pyarrow.table({"a": x[:, 0], "b": x[:, 1], "key": i.astype(str)})
        ),
        "",
    )
    assert_pairs(tables)


# Equal or not


def matched_rows(*ids):
    views = [numbered(len(column)) for column in ids]
    with paired(views, ids, share=0.0) as (_, _, matched):
        return matched.first.tolist()


def test_integers_are_told_apart_exactly_whatever_their_type():
    assert matched_rows(np.array([-1, 0, 5], "i1"), np.array([5, -1, 0], ">i8")) == [0, 1, 2]
    top = np.array([2**64 - 1, 0, 2**63], "u8")
    assert matched_rows(top, np.array([-1, 0, 2**63 - 1])) == [1]  # −1 has the same 64 bits
    assert matched_rows(top, np.array([2**63, 2**64 - 1], object)) == [0, 2]
    assert matched_rows(np.array([2**53, 2**53 + 1]), np.array([2**53 + 1], "u8")) == [1]
    large = [*range(70_000), 2**63]  # the last is in a block of its own kind
    assert len(matched_rows(large, np.array(large, "u8"))) == len(large)
    refuses("more than 64 bits", ids=[[*range(-1, 70_000), 2**63]] * 2)


def test_text_is_the_same_however_it_is_stored():
    text = ["a", "é", "", "a" * 40]
    kinds = [np.array(text), np.array(text, object), np.array([t.encode() for t in text])]
    if hasattr(np.dtypes, "StringDType"):
        kinds.append(np.array(text, np.dtypes.StringDType()))
    assert matched_rows(*kinds) == [0, 1, 2, 3]
