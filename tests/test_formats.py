"""Formats: each is read as its own library reads it, in any order of blocks, or refused."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

import identikit as ik
from identikit.errors import InputError, MissingExtraError
from identikit.sources import columns_beside, memory, open_source, open_sources
from identikit.sources._bands import BandedRows
from identikit.sources.files import split_member
from identikit.sources.registry import frame_readers, id_readers, kind_of

ROWS, WIDTH = 61, 5
NATIVE = ["f2", "f4", "f8", "i1", "i4", "i8", "u1", "u4", "?"]
SWAPPED = [">f4", ">f8", ">i2"]


def matrix(dtype="f4", rows=ROWS, width=WIDTH, seed=0):
    # Never a row of zeros, and whole numbers within the range of every type.
    values = np.random.default_rng(seed).normal(size=(rows, width)) * 30 + 0.5
    return np.abs(values).astype(dtype) if np.dtype(dtype).kind in "bu" else values.astype(dtype)


def pyarrow():
    return pytest.importorskip("pyarrow")


def parquet():
    return pytest.importorskip("pyarrow.parquet")


def refuses(view, *parts, **kwargs):
    """Assert an InputError, at opening or while reading, whose message holds every part."""
    with pytest.raises(InputError) as caught, closing(open_source(view, **kwargs)) as source:
        source.read(0, source.rows)
    for part in parts:
        assert str(part) in str(caught.value), caught.value
    return str(caught.value)


def ids_of(path, column):
    return np.concatenate(list(id_readers()[kind_of(path)](path, column, "the ids")))


def refuses_ids(path, column, *parts):
    with pytest.raises(InputError) as caught:
        ids_of(path, column)
    for part in (*parts, "the ids"):
        assert str(part) in str(caught.value), caught.value


# Writers: each writes a matrix in a new folder, and gives the view and what its own library reads.


def fixed_lists(X):
    pa = pyarrow()
    return pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])


def table(X):
    """Ids, a category and lists, as data sets come."""
    pa = pyarrow()
    category = pa.array(["a", "b"] * len(X))[: len(X)].dictionary_encode()
    return pa.table({"key": [f"r{k}" for k in range(len(X))], "of": category, "e": fixed_lists(X)})


def stacked(frame, column="e"):
    return np.stack(frame[column].to_numpy())


def parquet_lists(folder, X):
    parquet().write_table(table(X), folder / "x.parquet", row_group_size=7)
    return folder / "x.parquet", stacked(parquet().read_table(folder / "x.parquet").to_pandas())


def parquet_plain_lists(folder, X):
    pa = pyarrow()
    lists = pa.array(X.tolist(), pa.list_(pa.from_numpy_dtype(X.dtype)))
    written = pa.table({"e": lists, "f": lists})
    parquet().write_table(written, folder / "x.pq", row_group_size=20)
    frame = parquet().read_table(folder / "x.pq").to_pandas()
    return f"{folder}/x.pq::f", stacked(frame, "f")


def parquet_columns(folder, X):
    pa = pyarrow()
    columns = {f"d{k}": X[:, k] for k in range(X.shape[1])}
    written = pa.table({"id": range(len(X)), "text": ["x"] * len(X), **columns})
    parquet().write_table(written, folder / "x.parquet", row_group_size=30)
    frame = parquet().read_table(folder / "x.parquet").to_pandas()
    return folder / "x.parquet", frame[list(columns)].to_numpy()


def arrow_file(folder, X):
    pa, path = pyarrow(), folder / "x.arrow"
    with pa.ipc.new_file(path, table(X).schema) as writer:
        writer.write_table(table(X), max_chunksize=7)
    return path, stacked(pa.ipc.open_file(path).read_pandas())


def arrow_stream(folder, X):
    pa, path = pyarrow(), folder / "x.ipc"
    with pa.ipc.new_stream(path, table(X).schema) as writer:
        writer.write_table(table(X), max_chunksize=20)
    return path, stacked(pa.ipc.open_stream(path).read_pandas())


def feather_packed(folder, X):
    pyarrow()
    from pyarrow import feather

    feather.write_feather(table(X), folder / "x.feather", "lz4", chunksize=10)
    return folder / "x.feather", stacked(feather.read_feather(folder / "x.feather"))


def hdf5_plain(folder, X):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "x.h5", "w") as file:
        file["deep/e"] = X
    with h5py.File(folder / "x.h5") as file:
        return folder / "x.h5", file["deep/e"][:]


def hdf5_chunks(folder, X):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "x.hdf5", "w") as file:
        file.create_dataset("deep/e", data=X, chunks=(7, 3), compression="gzip", shuffle=True)
        file["ids"] = np.arange(len(X))
    with h5py.File(folder / "x.hdf5") as file:
        return f"{folder}/x.hdf5::deep/e", file["deep/e"][:]


def zarr_store(folder, X, zarr_format, **how):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(folder / "x.zarr", mode="w", zarr_format=zarr_format)
    group.create_array("deep/e", data=X, config={"write_empty_chunks": True}, **how)
    return folder / "x.zarr", zarr.open_array(folder / "x.zarr" / "deep" / "e", mode="r")[:]


def zarr_2(folder, X):
    return zarr_store(folder, X, 2, chunks=(7, 3))


def zarr_3(folder, X):
    return zarr_store(folder, X, 3, chunks=(20, 5))


def zarr_shards(folder, X):
    return zarr_store(folder, X, 3, chunks=(4, 5), shards=(16, 5))


def zarr_array(folder, X):
    zarr = pytest.importorskip("zarr")
    zarr.create_array(folder / "x.zarr", data=X, chunks=(7, 5), config={"write_empty_chunks": True})
    return folder / "x.zarr", zarr.open_array(folder / "x.zarr", mode="r")[:]


def pt_tensor(folder, X):
    torch = pytest.importorskip("torch")
    torch.save(torch.from_numpy(X), folder / "x.pt")
    return folder / "x.pt", torch.load(folder / "x.pt", weights_only=True).numpy()


def pt_dictionary(folder, X):
    torch = pytest.importorskip("torch")
    tensors = {"other": torch.zeros(3), "e": torch.from_numpy(X.T.copy()).T, "epoch": 3}
    torch.save(tensors, folder / "x.pth")
    loaded = torch.load(folder / "x.pth", weights_only=True)
    return f"{folder}/x.pth::e", loaded["e"].numpy()


def in_shards(folder, X, save, read, suffix, member=""):
    shards = folder / "x"
    shards.mkdir()
    for number, start in enumerate(range(0, len(X), 13)):
        save(shards / f"part-{number:02d}{suffix}", X[start : start + 13])
    (shards / "_SUCCESS").touch()
    (shards / ".part-00.crc").touch()
    (shards / "README.md").write_text("notes")
    (shards / "dataset_info.json").write_text('{"splits": []}')
    plain = [read(path) for path in sorted(shards.glob(f"*{suffix}"))]
    return f"{shards}{member}", np.concatenate(plain)


def npy_shards(folder, X):
    return in_shards(folder, X, np.save, np.load, ".npy")


def npz_shards(folder, X):
    def save(path, rows):
        np.savez(path, e=rows, ids=np.arange(len(rows)))

    return in_shards(folder, X, save, lambda path: np.load(path)["e"], ".npz", "::e")


def parquet_shards(folder, X):
    def save(path, rows):
        parquet().write_table(table(rows), path, row_group_size=5)

    def read(path):
        return stacked(parquet().read_table(path).to_pandas())

    return in_shards(folder, X, save, read, ".parquet")


def zarr_folder_shards(folder, X):
    zarr = pytest.importorskip("zarr")

    def save(path, rows):
        zarr.create_array(path, data=rows, config={"write_empty_chunks": True})

    return in_shards(folder, X, save, lambda path: zarr.open_array(path, mode="r")[:], ".zarr")


EVERYWHERE = [
    parquet_lists,
    parquet_plain_lists,
    parquet_columns,
    arrow_file,
    arrow_stream,
    feather_packed,
    hdf5_plain,
    hdf5_chunks,
    zarr_2,
    zarr_3,
    zarr_shards,
    zarr_array,
    pt_tensor,
    pt_dictionary,
    npy_shards,
    npz_shards,
    parquet_shards,
    zarr_folder_shards,
]
BOTH_ORDERS = [hdf5_plain, hdf5_chunks, zarr_2, npy_shards, npz_shards]

formats = pytest.mark.parametrize("write", EVERYWHERE, ids=lambda write: write.__name__)


@pytest.fixture
def small_pieces(monkeypatch):
    """Pieces of a few rows, so that blocks cross their borders."""
    monkeypatch.setattr(memory, "PIECE_BYTES", 64)


def assert_reads(source, expected):
    assert (source.rows, source.width) == expected.shape
    for size in (1, 8, source.rows):
        starts = range(0, source.rows, size)
        blocks = [source.read(start, start + size) for start in starts]
        assert all(block.ndim == 2 and block.dtype == expected.dtype for block in blocks)
        np.testing.assert_array_equal(np.concatenate(blocks), expected)


@pytest.mark.parametrize(
    ("write", "dtype"),
    [(write, dtype) for write in EVERYWHERE for dtype in NATIVE]
    + [(write, dtype) for write in BOTH_ORDERS for dtype in SWAPPED],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_every_dtype(tmp_path, small_pieces, write, dtype):
    X = matrix(dtype)
    view, plain = write(tmp_path, X)
    np.testing.assert_array_equal(plain, X)
    source = open_source(view)
    try:
        assert source.eps == (np.finfo(dtype).eps if np.dtype(dtype).kind == "f" else 2.0**-52)
        assert_reads(source, plain)
    finally:
        source.close()
        source.close()


def test_the_comparison_itself_notices_a_wrong_number():
    X = matrix()
    X[60, 4] += 1
    with pytest.raises(AssertionError):
        assert_reads(open_source(matrix()), X)


places = st.integers(-5, ROWS + 5)


@formats
def test_any_slice_after_any_other(tmp_path, small_pieces, write):
    view, plain = write(tmp_path, matrix())
    source = open_source(view)

    @settings(max_examples=40)
    @given(st.lists(st.tuples(places, places), min_size=1, max_size=6))
    def check(slices):
        for start, stop in slices:
            np.testing.assert_array_equal(source.read(start, stop), plain[start:stop])

    with closing(source):
        check()


@formats
def test_files_and_origin_open_it_again(tmp_path, monkeypatch, write):
    view, plain = write(tmp_path, matrix())
    monkeypatch.chdir(tmp_path)
    with closing(open_source(os.path.relpath(view))) as source:
        assert source.name.split("::")[0] == "x"
        assert source.files
        assert all(path.is_file() for path in source.files)
        origin = pickle.loads(pickle.dumps(source.origin))
    monkeypatch.chdir("/")
    with closing(open_source(origin)) as again:
        np.testing.assert_array_equal(again.read(0, ROWS), plain)


@formats
def test_an_audit_is_that_of_the_arrays(tmp_path, write):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 4)).astype("f4")
    Y = (X @ np.linalg.qr(rng.normal(size=(4, 4)))[0] + 0.1 * rng.normal(size=X.shape)).astype("f4")
    views = []
    for name, rows in (("a", X), ("b", Y)):
        (tmp_path / name).mkdir()
        views.append(write(tmp_path / name, rows)[0])
    ours, theirs = (
        ik.audit(both, names=["a", "b"]).to_dict() for both in (views, [X, np.ascontiguousarray(Y)])
    )
    assert ours["verdict"] == theirs["verdict"]
    assert ours["pairs"] == theirs["pairs"]


# Bands of rows


def banded(counts, promised=None, taken=None):
    X = matrix(rows=sum(counts), dtype="i4")

    def pieces(first):
        for number in range(first, len(counts)):
            if taken is not None:
                taken.append(number)
            yield X[sum(counts[:number]) : sum(counts[: number + 1])]

    label = "the label"
    return X, BandedRows(promised or counts, WIDTH, X.dtype, pieces, "g", label)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any), st.integers(1, 12))
def test_blocks_in_order_read_every_band_once(counts, step):
    taken = []
    X, source = banded(counts, taken=taken)
    blocks = [source.read(start, start + step) for start in range(0, len(X), step)]
    np.testing.assert_array_equal(np.concatenate(blocks), X)
    # Empty groups before the first row and after the last need not be asked for.
    assert taken == list(range(taken[0], taken[0] + len(taken)))
    # A block far ahead starts at its own group, and one behind goes back to its own.
    taken.clear()
    source.close()
    source.read(len(X) - 1, len(X))
    assert sum(counts[number] > 0 for number in taken) == 1


def test_rows_that_were_promised_and_do_not_come():
    _, source = banded([5, 5], promised=[5, 9])
    np.testing.assert_array_equal(source.read(0, 10), banded([5, 5])[0])
    with pytest.raises(InputError, match="the label ends after row 9, but 14 rows were promised"):
        source.read(8, 12)


# Parquet and Arrow


def write_table(folder, columns, **how):
    pa = pyarrow()
    parquet().write_table(pa.table(columns), folder / "x.parquet", **how)
    return folder / "x.parquet"


def test_columns_by_pattern_and_by_name(tmp_path):
    pa, X = pyarrow(), matrix()
    columns = {f"emb_{k}": X[:, k] for k in (3, 1, 0)} | {"label": np.arange(ROWS), "of*": X[:, 2]}
    path = write_table(tmp_path, columns)
    for member, expected in (
        ("emb_*", X[:, [3, 1, 0]]),
        ("*", np.column_stack([X[:, [3, 1, 0]], np.arange(ROWS), X[:, 2]])),
        ("emb_1", X[:, [1]]),
        ("of*", X[:, [2]]),
    ):
        with closing(open_source(f"{path}::{member}")) as source:
            assert source.name == f"x::{member}"
            np.testing.assert_array_equal(source.read(0, ROWS), expected)
    refuses(path, "'emb_3' is float", "'label' is int64", "path::emb_*")
    refuses(f"{path}::none_*", "no columns of numbers like 'none_*'", "'emb_3', 'emb_1'")
    refuses(f"{path}::absent", "no array named 'absent'", "'label'")
    written = pa.Table.from_arrays([X[:, 0], X[:, 1]], names=["d", "d"])
    parquet().write_table(written, path)
    refuses(path, "two columns named 'd'")


@pytest.mark.parametrize("name", ["id", "ID", "doc_id", "index", "row_idx", "__index_level_0__"])
def test_ids_and_the_index_are_no_dimensions(tmp_path, name):
    X = matrix("i8")
    path = write_table(tmp_path, {name: np.arange(ROWS), "a": X[:, 0], "b": X[:, 1]})
    with closing(open_source(path)) as source:
        np.testing.assert_array_equal(source.read(0, ROWS), X[:, :2])
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"], index=pd.Index(np.arange(ROWS), name="at"))
    frame.to_parquet(path)
    with closing(open_source(path)) as source:
        np.testing.assert_array_equal(source.read(0, ROWS), X[:, :2])


def test_pandas_metadata_that_makes_no_sense_is_passed_over(tmp_path):
    pa, X = pyarrow(), matrix()
    for words in (b"[]", b"{", b'{"index_columns": 3}'):
        written = pa.table({"a": X[:, 0], "b": X[:, 1]}).replace_schema_metadata({"pandas": words})
        parquet().write_table(written, tmp_path / "x.parquet")
        with closing(open_source(tmp_path / "x.parquet")) as source:
            assert source.width == 2


def test_lists_of_several_columns_must_be_chosen(tmp_path):
    path = write_table(tmp_path, {"e": fixed_lists(matrix()), "f": fixed_lists(matrix())})
    refuses(path, "2 columns of lists, 'e' and 'f'", "path::e")
    path = write_table(tmp_path, {"text": ["a"], "when": pd.to_datetime(["2020-01-01"])})
    refuses(path, "no columns of numbers", "'text', 'when'")
    refuses(f"{path}::text", "'text' has type string", "real numbers")
    pa = pyarrow()
    path = write_table(tmp_path, {"e": pa.array([[[1.0]], [[2.0]]])})
    refuses(f"{path}::e", "list<element: list<element: double>>")
    path = write_table(tmp_path, {"e": pa.array([], pa.list_(pa.float32()))})
    refuses(path, "no rows")
    path = write_table(tmp_path, {"e": pa.array([[], []], pa.list_(pa.float32()))})
    refuses(path, "no columns")


@pytest.mark.parametrize("large", [False, True])
def test_lists_of_unequal_length(tmp_path, small_pieces, large):
    pa = pyarrow()
    lists = [[1.0, 2.0]] * 9 + [[3.0]] + [[4.0, 5.0]]
    kind = (pa.large_list if large else pa.list_)(pa.float32())
    path = write_table(tmp_path, {"e": pa.array(lists, kind)}, row_group_size=4)
    refuses(path, "'e' holds a list of 2 numbers in its first row and one of 1 in row 9")
    with closing(open_source(path)) as source:
        np.testing.assert_array_equal(source.read(0, 8), [[1, 2]] * 8)


@pytest.mark.parametrize("kind", ["fixed", "list", "columns"])
def test_nulls(tmp_path, kind, small_pieces):
    pa = pyarrow()
    if kind == "columns":
        gaps = {11: None, 40: None}
        columns = {"a": np.ones(ROWS), "b": pa.array([gaps.get(k, 1.0) for k in range(ROWS)])}
        words = "columns 'a' to 'b' have nulls in 2 of 61 rows, the first is row 11"
    else:
        rows = [[1.0, 2.0]] * ROWS
        rows[11], rows[30], rows[40] = None, [None, 3.0], [None, None]
        columns = {"e": pa.array(rows, pa.list_(pa.float32(), 2 if kind == "fixed" else -1))}
        words = "column 'e' has nulls in 3 of 61 rows, the first is row 11"
    path = write_table(tmp_path, columns, row_group_size=9)
    assert words in refuses(path)
    with closing(open_source(path)) as source:
        assert (source.read(0, 4) > 0).all()
        for _ in range(2):  # and it says the same again
            with pytest.raises(InputError, match="nulls in"):
                source.read(0, ROWS)
        assert (source.read(0, 4) > 0).all()


def test_a_null_in_the_first_row_has_no_length(tmp_path):
    pa = pyarrow()
    path = write_table(tmp_path, {"e": pa.array([None, [1.0], [2.0]])})
    refuses(path, "'e' has nulls in 1 of 3 rows, the first is row 0")


def test_tensors_of_fixed_shape(tmp_path):
    pa, X = pyarrow(), matrix()
    for shape in ([5], [5, 1]):
        kind = pa.fixed_shape_tensor(pa.float32(), shape)
        tensors = pa.ExtensionArray.from_storage(kind, fixed_lists(X))
        path = write_table(tmp_path, {"e": tensors})
        if shape == [5]:
            with closing(open_source(path)) as source:
                np.testing.assert_array_equal(source.read(3, 50), X[3:50])
    refuses(path, "'e' holds tensors of shape (5, 1)", "flatten")


def test_parquet_row_groups_that_do_not_add_up(tmp_path):
    """The footer has a byte 0x16 before a count of rows, and the count as a zigzag number."""
    path = tmp_path / "x.parquet"
    parquet().write_table(pyarrow().table({"a": np.arange(8.0)}), path, row_group_size=4)
    data, whole, group = path.read_bytes(), b"\x16\x10\x19", b"\x16\x08"
    assert (data.count(whole), data.count(group)) == (1, 4)
    for promised, number in ((10, b"\x14"), (-8, b"\x0f")):
        forged = data.replace(whole, b"\x16" + number + b"\x19")
        if promised < 0:
            # In each group, the number of values comes before the number of rows.
            a, b, c, d, rest = forged.split(group)
            forged = group.join((a, b)) + b"\x16\x07" + group.join((c, d)) + b"\x16\x07" + rest
        path.write_bytes(forged)
        refuses(path, f"its 2 row groups do not hold the {promised} rows")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".h5"])
def test_files_of_another_kind(tmp_path, suffix):
    pytest.importorskip("h5py" if suffix == ".h5" else "pyarrow")
    path = tmp_path / f"x{suffix}"
    for content in (b"", b"garbage", b"\0" * 4000, b"ARROW1\0\0" + b"\xff" * 90, b"PAR1" * 3):
        path.write_bytes(content)
        refuses(path, path)
    path.unlink()
    refuses(path, "no such file")
    os.mkfifo(path)
    refuses(path, "a pipe or a device")


@pytest.mark.parametrize("write", [arrow_file, arrow_stream], ids=["file", "stream"])
def test_an_arrow_file_that_is_cut_short(tmp_path, write):
    path, _ = write(tmp_path, matrix())
    whole = path.read_bytes()
    for cut in (3, 9, 30, 400, len(whole) // 2, len(whole) - 8, len(whole) - 1):
        path.write_bytes(whole[:cut])
        refuses(path, "truncated", path)


def test_feather_version_1(tmp_path):
    pyarrow()
    (tmp_path / "x.feather").write_bytes(b"FEA1" + b"\0" * 50)
    refuses(tmp_path / "x.feather", "version 1 of the Feather format", "version 2")


def test_arrow_headers_are_not_followed_out_of_the_file(tmp_path):
    """Bytes of the headers, changed: never a crash, and never a block of another shape."""
    path, _ = arrow_stream(tmp_path, matrix(rows=6))
    whole = path.read_bytes()
    refused = 0
    for place in range(0, len(whole), 3):
        for value in (0, 255):
            path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
            try:
                with closing(open_source(path)) as source:
                    block = source.read(0, source.rows)
            except InputError:
                refused += 1
            else:
                assert block.shape == (source.rows, source.width)
    assert refused > 100


def test_an_arrow_file_that_shrinks_while_it_is_read(tmp_path):
    path, _ = arrow_file(tmp_path, matrix())
    with closing(open_source(path)) as source:
        source.read(0, 3)
        os.truncate(path, 1500)
        with pytest.raises(InputError, match="became shorter while it was read"):
            source.read(50, 60)


@pytest.mark.parametrize(
    ("write", "batch"), [(arrow_file, 7), (arrow_stream, 20), (feather_packed, 10)]
)
@pytest.mark.parametrize(
    ("rows", "words"), [(8, "cannot be read"), (-1, "promises -1 rows"), (10**15, "would unpack")]
)
def test_arrow_batches_that_promise_other_rows(tmp_path, write, batch, rows, words):
    path, plain = write(tmp_path, matrix())
    whole, said = path.read_bytes(), []
    for found in re.finditer(re.escape(batch.to_bytes(8, "little")), whole):
        number = rows.to_bytes(8, "little", signed=True)
        path.write_bytes(whole[: found.start()] + number + whole[found.end() :])
        try:
            with closing(open_source(path)) as source:
                np.testing.assert_array_equal(source.read(0, source.rows), plain)
        except InputError as error:
            said.append(str(error))
    assert any(words in each for each in said), said


def test_arrow_messages_that_are_no_part_of_a_table(tmp_path):
    pa = pyarrow()
    path, _ = arrow_stream(tmp_path, matrix())
    whole, tensor = path.read_bytes(), io.BytesIO()
    pa.ipc.write_tensor(pa.Tensor.from_numpy(matrix()), pa.PythonFile(tensor))
    path.write_bytes(whole[:-8] + tensor.getvalue() + whole[-8:])
    refuses(path, f"the message at byte {len(whole) - 8} is a tensor, which is not part of a table")
    path.write_bytes(whole[:-8] + whole)
    refuses(path, f"the message at byte {len(whole) - 8} is a schema, which does not belong there")
    path.write_bytes(whole[:-8])
    refuses(path, "truncated: the marker at its end is missing")


def test_a_dictionary_that_changes_within_the_file(tmp_path):
    pa = pyarrow()
    schema = pa.schema(
        [("id", pa.dictionary(pa.int8(), pa.string())), ("e", pa.list_(pa.float32(), 1))]
    )
    with pa.ipc.new_stream(tmp_path / "x.arrow", schema) as writer:
        for letters in ("ab", "cd"):
            ids = pa.array(list(letters)).dictionary_encode().cast(schema.field("id").type)
            writer.write_batch(pa.record_batch([ids, fixed_lists(matrix(rows=2, width=1))], schema))
    with closing(open_source(tmp_path / "x.arrow")) as source:
        assert source.rows == 4
        np.testing.assert_array_equal(source.read(2, 4), matrix(rows=2, width=1))
    assert ids_of(tmp_path / "x.arrow", "id").tolist() == list("abcd")
    frame = frame_readers()[".arrow"](tmp_path / "x.arrow", "x")
    assert frame["id"].tolist() == list("abcd")
    beside = columns_beside(tmp_path / "x.arrow")
    assert [each for some in beside.frames() for each in some["id"]] == list("abcd")


def test_other_columns_of_shards_with_an_index(tmp_path):
    parquet()
    for number in range(2):
        frame = pd.DataFrame({"a": [1.0, 2.0], "note": ["x", "y"]}, index=["r", "s"])
        frame.to_parquet(tmp_path / f"{number}.parquet")
    beside = columns_beside(tmp_path)
    assert beside.names == ["note"]
    assert pd.concat(beside.frames())["note"].tolist() == ["x", "y", "x", "y"]


# HDF5


def test_hdf5_links_within_the_file(tmp_path):
    h5py = pytest.importorskip("h5py")
    path, plain = hdf5_plain(tmp_path, matrix())
    with h5py.File(path, "a") as file:
        file["deep/soft"] = h5py.SoftLink("e")
        file["soft"] = h5py.SoftLink("/deep/soft")
        file["hard"] = file["deep/e"]
        file["lost"] = h5py.SoftLink("/nowhere")
        file["round"] = h5py.SoftLink("/round")
    for member in ("deep/e", "/deep/e", "deep/soft", "soft", "hard"):
        with closing(open_source(f"{path}::{member}")) as source:
            np.testing.assert_array_equal(source.read(0, ROWS), plain)
    for member in ("lost", "deep", "deep/e/f", "nothing"):
        refuses(f"{path}::{member}", f"no array named {member!r}", "'deep/e'")
    refuses(f"{path}::round", "lead in a circle")


def test_hdf5_with_nothing_that_will_do(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "x.h5"
    with h5py.File(path, "w"):
        pass
    refuses(path, "holds no arrays")
    with h5py.File(path, "w") as file:
        file["vector"], file["words"], file["none"] = np.ones(3), ["a", "b"], h5py.Empty("f4")
    refuses(path, "holds 3 arrays", "path::name")
    refuses(f"{path}::vector", "1-D", "reshape")
    refuses(f"{path}::words", "not numbers")
    refuses(f"{path}::none", "0-D")


def test_rows_that_were_never_written(tmp_path):
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("half", (ROWS, WIDTH), "f4", chunks=(10, 5))[:30] = 1
        file.create_dataset("none", (ROWS, WIDTH), "f4", fillvalue=7)
    refuses(f"{tmp_path}/x.h5::half", "incomplete: 3 of its 7 chunks", "read as 0.0")
    refuses(f"{tmp_path}/x.h5::none", "incomplete: 0 of its 1220 bytes", "read as 7.0")
    for version in (2, 3):
        store = tmp_path / f"x{version}.zarr"
        array = zarr.create_array(
            store, shape=(ROWS, WIDTH), chunks=(10, 5), dtype="f4", zarr_format=version
        )
        array[:30] = 1
        refuses(store, "incomplete: 3 of its 7 chunks", "read as 0.0", "write_empty_chunks")
        array[:] = 1
        (store / ("2.0" if version == 2 else "c/2/0")).rename(store / "stray")
        refuses(store, "incomplete: 6 of its 7 chunks")


# Zarr


def test_zarr_names(tmp_path):
    zarr = pytest.importorskip("zarr")
    store, plain = zarr_3(tmp_path, matrix())
    zarr.open_group(store, mode="a").create_array("ids", data=np.arange(ROWS))
    refuses(store, "holds 2 arrays", "'deep/e', 'ids'")
    refuses(f"{store}::e", "no array named 'e'")
    refuses(f"{store}::ids", "1-D")
    with closing(open_source(f"{store}::deep/e")) as source:
        assert source.name == "x::deep/e"
        np.testing.assert_array_equal(source.read(0, ROWS), plain)
    one = tmp_path / "one"
    zarr.create_array(one, data=plain)
    refuses(f"{one}::e", "a single array without a name", "::e")
    with closing(open_source(one)) as source:  # a store by what it holds, not by its name
        np.testing.assert_array_equal(source.read(0, ROWS), plain)


def test_zarr_that_is_none(tmp_path):
    pytest.importorskip("zarr")
    (tmp_path / "x.zarr").mkdir()
    refuses(tmp_path / "x.zarr", "cannot be read", tmp_path / "x.zarr")
    (tmp_path / "x.zarr" / "zarr.json").write_text("{")
    refuses(tmp_path / "x.zarr", "cannot be read")
    (tmp_path / "y.zarr").touch()
    refuses(tmp_path / "y.zarr", "is a file; expected the folder of a Zarr store")
    refuses(tmp_path / "z.zarr", "does not exist")


def test_zarr_chunks_that_are_damaged(tmp_path):
    store, _ = zarr_2(tmp_path, matrix())
    (store / "deep" / "e" / "3.0").write_bytes(b"garbage")
    refuses(store, "cannot be read", "damaged")


# PyTorch files


def test_pt_bfloat16_and_parameters(tmp_path):
    torch = pytest.importorskip("torch")
    tensor = torch.nn.Parameter(torch.from_numpy(matrix()).bfloat16())
    torch.save(tensor, tmp_path / "x.pt")
    with closing(open_source(tmp_path / "x.pt")) as source:
        assert source.eps == 2.0**-8
        np.testing.assert_array_equal(source.read(0, ROWS), tensor.detach().float().numpy())


def test_pt_with_nothing_that_will_do(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "x.pt"
    torch.save(torch.ones(3, 2), path)
    refuses(f"{path}::e", "one tensor without a name", "::e")
    torch.save([torch.ones(3, 2)], path)
    refuses(path, "holds a list; expected a tensor or a dictionary of tensors")
    torch.save({"a": torch.ones(3, 2), "b": torch.ones(3, 2)}, path)
    refuses(path, "holds 2 arrays", "'a', 'b'")
    refuses(f"{path}::c", "no array named 'c'")
    torch.save({"epoch": 3}, path)
    refuses(path, "holds no arrays")
    torch.save(torch.ones(3), path)
    refuses(path, "1-D")
    path.write_bytes(b"garbage")
    refuses(path, "damaged, truncated, or older than PyTorch 1.6")
    refuses(tmp_path / "absent.pt", "no such file")


def test_a_pt_file_that_changes_while_it_is_read(tmp_path):
    path, plain = pt_tensor(tmp_path, matrix())
    with closing(open_source(path)) as source:
        np.testing.assert_array_equal(source.read(0, 5), plain[:5])
        os.truncate(path, 600)  # to read on would end the process
        with pytest.raises(InputError, match="changed while it was read"):
            source.read(5, 10)
        path.unlink()
        with pytest.raises(InputError, match="disappeared while it was read"):
            source.read(5, 10)


# Folders of shards


def test_shards_in_the_order_of_names(tmp_path):
    for name, value in (("b", 2), ("a", 1), ("c", 3)):
        np.save(tmp_path / f"{name}.npy", np.full((2, 3), value))
    with closing(open_source(tmp_path)) as source:
        assert source.name == tmp_path.name
        assert [path.name for path in source.files] == ["a.npy", "b.npy", "c.npy"]
        assert source.read(0, 6)[:, 0].tolist() == [1, 1, 2, 2, 3, 3]


def test_numbers_that_do_not_sort(tmp_path):
    for number in (1, 2, 10):
        np.save(tmp_path / f"part-{number}.npy", matrix(rows=2))
    refuses(tmp_path, "part-10.npy comes before part-2.npy", "pad the numbers with zeros")
    (tmp_path / "part-10.npy").rename(tmp_path / "part-3.npy")
    open_source(tmp_path).close()
    # Numbers in names that differ in more than them say nothing about the order.
    for number in (1, 2, 3):
        (tmp_path / f"part-{number}.npy").unlink()
    for name in ("a9-x", "a10-y"):
        np.save(tmp_path / f"{name}.npy", matrix(rows=2))
    open_source(tmp_path).close()


def test_shards_of_several_dtypes_of_one_kind(tmp_path):
    np.save(tmp_path / "0.npy", matrix("f2"))
    np.save(tmp_path / "1.npy", matrix(">f4"))
    with closing(open_source(tmp_path)) as source:
        assert source.eps == 2.0**-10
        block = source.read(60, 62)
    assert block.dtype == "f4"
    np.testing.assert_array_equal(block, [matrix("f2")[60], matrix("f4")[0]])


def test_shards_that_do_not_belong_together(tmp_path):
    np.save(tmp_path / "0.npy", matrix())
    np.save(tmp_path / "1.npy", matrix(width=4))
    refuses(tmp_path, "0.npy has 5 columns and 1.npy has 4")
    np.save(tmp_path / "1.npy", matrix("i4"))
    refuses(tmp_path, "0.npy holds float32 and 1.npy holds int32")
    (tmp_path / "1.npy").write_bytes(b"garbage")
    refuses(tmp_path, tmp_path / "1.npy", "not a readable .npy")
    (tmp_path / "1.npy").unlink()
    save_file({"e": matrix()}, tmp_path / "1.safetensors")
    refuses(tmp_path, "also holds .npy and .safetensors")
    (tmp_path / "1.safetensors").rename(tmp_path / "rows.bin")
    refuses(tmp_path, "a folder of .npy files and also holds 'rows.bin', not shards")
    (tmp_path / "rows.bin").unlink()
    (tmp_path / "below").mkdir()
    refuses(tmp_path, "also holds 'below'")


def test_folders_without_shards(tmp_path):
    refuses(tmp_path, "is a directory without shards: it is empty", ".npy", tmp_path)
    (tmp_path / "README").touch()
    refuses(tmp_path, "it is empty")
    (tmp_path / "x.xlsx").touch()
    refuses(tmp_path, "it holds 'x.xlsx'")


def test_the_layers_of_an_extraction_are_no_shards(tmp_path):
    for name in ("layer_00", "layer_01"):
        np.save(tmp_path / f"{name}.npy", matrix())
    (tmp_path / "manifest.json").write_text(json.dumps({"identikit": "0.1", "files": {}}))
    refuses(tmp_path, "a folder of extracted layers", "layer_00.npy")
    for other in ("{}", "no JSON", "[" * 10**5, " " * (2**24 + 1)):
        (tmp_path / "manifest.json").write_text(other)
        open_source(tmp_path).close()


def test_few_shards_are_open_at_a_time(tmp_path, monkeypatch):
    for number in range(20):
        np.save(tmp_path / f"{number:02d}.npy", matrix(rows=3))
    opened, path_open = [], Path.open

    def counted(*args, **kwargs):
        opened.append(path_open(*args, **kwargs))
        assert sum(not file.closed for file in opened) <= 4
        return opened[-1]

    monkeypatch.setattr(Path, "open", counted)
    source = open_source(tmp_path)
    for start in range(0, 60, 2):
        source.read(start, start + 2)
    assert len(opened) == 40  # each once to learn its shape, and once to read it
    source.close()
    assert all(file.closed for file in opened)
    np.save(tmp_path / "20.npy", matrix(width=2))
    refuses(tmp_path, "20.npy has 2")
    assert all(file.closed for file in opened)


def test_members_of_folders(tmp_path, monkeypatch):
    _, plain = npz_shards(tmp_path, matrix())
    monkeypatch.chdir(tmp_path)
    assert split_member("x::e") == (Path("x"), "e")
    assert split_member("x/::e::f") == (Path("x"), "e::f")
    with closing(open_source("x/::e")) as source:
        assert source.name == "x::e"
        np.testing.assert_array_equal(source.read(0, ROWS), plain)
    monkeypatch.chdir(tmp_path / "x")
    with closing(open_source(".::e")) as source:
        assert source.name == "x::e"
    monkeypatch.chdir(tmp_path)
    refuses("x::f", "no array named 'f'", "part-00.npz")
    # A file wins over a folder, and a folder of that whole name over a shorter one.
    np.savez("x::y.npz", e=matrix())
    assert split_member("x::y.npz::e") == (Path("x::y.npz"), "e")
    Path("x::e").mkdir()
    assert split_member("x::e") == (Path("x::e"), None)


# Ids


def test_ids_of_every_format(tmp_path):
    pa, h5py, zarr = pyarrow(), pytest.importorskip("h5py"), pytest.importorskip("zarr")
    numbers, words = np.arange(ROWS) * 3, np.array([f"wörd-{k}" for k in range(ROWS)])
    columns = {"n": numbers, "w": words, "d": pa.array(words).dictionary_encode()}
    columns["v"] = pa.array(words.tolist(), pa.large_string())
    for name in ("x.parquet", "x.pq"):
        parquet().write_table(pa.table(columns), tmp_path / name, row_group_size=9)
    for name in ("x.arrow", "x.feather", "x.ipc"):
        with pa.ipc.new_file(tmp_path / name, pa.table(columns).schema) as writer:
            writer.write_table(pa.table(columns), max_chunksize=9)
    for name in ("x.h5", "x.hdf5"):
        with h5py.File(tmp_path / name, "w") as file:
            file["n"], file["w"] = numbers, words.tolist()
            file["d"], file["v"] = np.char.encode(words, "utf-8"), words.tolist()
    group = zarr.open_group(tmp_path / "x.zarr", mode="w", zarr_format=2)
    for name, values in (("n", numbers), ("v", words), ("d", np.char.encode(words, "utf-8"))):
        group.create_array(name, data=values, chunks=(9,), config={"write_empty_chunks": True})
    text = group.create_array("w", shape=(ROWS,), dtype=str, chunks=(9,))
    text[:] = words.astype(object)
    (tmp_path / "x").mkdir()
    for number in range(2):
        shard = {key: values[number * 30 :][:31] for key, values in columns.items()}
        parquet().write_table(pa.table(shard), tmp_path / "x" / f"{number}.parquet")
    for path in sorted(tmp_path.iterdir()):
        both = (numbers, words)
        if path.name == "x":
            both = tuple(np.concatenate([values[:31], values[30:]]) for values in both)
        assert ids_of(path, "n").dtype.kind == "i"
        np.testing.assert_array_equal(ids_of(path, "n"), both[0])
        for column in "wdv":
            found = ids_of(path, column)
            assert found.dtype.kind == "U"
            np.testing.assert_array_equal(found, both[1])


def test_ids_that_are_none(tmp_path):
    pa, h5py, zarr = pyarrow(), pytest.importorskip("h5py"), pytest.importorskip("zarr")
    gaps = pa.array([None if k == 40 else k for k in range(ROWS)])
    path = write_table(tmp_path, {"gaps": gaps, "x": np.ones(ROWS)}, row_group_size=9)
    refuses_ids(path, "gaps", "'gaps' is null in row 40", "every row needs an id")
    refuses_ids(path, "x", "'x' has type double; expected integers or strings")
    refuses_ids(path, "absent", "no array named 'absent'")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["matrix"], file["x"] = np.ones((3, 2), int), np.ones(3)
    refuses_ids(tmp_path / "x.h5", "matrix", "shape (3, 2)", "1-D")
    refuses_ids(tmp_path / "x.h5", "x", "dtype float64; expected integers or strings")
    zarr.open_group(tmp_path / "x.zarr", mode="w").create_array("x", data=np.ones(3))
    refuses_ids(tmp_path / "x.zarr", "x", "dtype float64")
    (tmp_path / "f").mkdir()
    pytest.importorskip("torch").save([], tmp_path / "f" / "0.pt")
    refuses_ids(tmp_path / "f", "x", "a folder of .pt files, which hold no ids")


# Data frames and tables in memory


@pytest.mark.parametrize("of", [list, tuple, np.asarray])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
def test_frames_with_a_column_of_lists(of, dtype):
    X = matrix(dtype)
    frame = pd.DataFrame({"id": np.arange(ROWS), "e": [of(row) for row in X], "text": "word"})
    with closing(open_source(frame.sample(frac=1, random_state=0))) as source:
        np.testing.assert_array_equal(
            source.read(0, ROWS), X[frame.sample(frac=1, random_state=0).index]
        )
    assert open_source(frame).eps == (2.0**-23 if dtype == "f4" else 2.0**-52)


def test_frames_whose_lists_are_of_pyarrow():
    pa, X = pyarrow(), matrix()
    for kind in (pa.list_(pa.float32()), pa.list_(pa.float32(), WIDTH)):
        column = pd.Series(list(X), dtype=pd.ArrowDtype(kind))
        np.testing.assert_array_equal(open_source(pd.DataFrame({"e": column})).read(0, ROWS), X)


def test_frames_with_lists_that_will_not_do():
    two = pd.DataFrame({"e": [[1.0], [2.0]], "f": [[1.0], [2.0]]})
    refuses(two, "2 columns of lists, 'e' and 'f'", "frame[['e']]")
    refuses(pd.DataFrame({"e": [[1.0, 2.0], [2.0]]}), "'e'", "2 numbers", "of 1 in row 1")
    refuses(pd.DataFrame({"e": [[1.0], None]}), "'e' has None in row 1")
    refuses(pd.DataFrame({"e": [None, [1.0]]}), "'e' has None in row 0")
    refuses(pd.DataFrame({"e": [[1.0], [None]]}), "not numbers")
    refuses(pd.DataFrame({"e": [[[1], [2, 3]], [[1], [2]]]}), "does not convert to an array")
    refuses(pd.DataFrame({"e": [None, None]}), "no columns of numbers")


def test_tables_in_memory():
    pa, X = pyarrow(), matrix()
    pieces = pa.concat_tables([table(X[:20]), table(X[20:])])
    np.testing.assert_array_equal(open_source(pieces).read(0, ROWS), X)
    batch = table(X).to_batches()[0]
    np.testing.assert_array_equal(open_source(batch).read(5, 9), X[5:9])
    columns = pa.table({"id": np.arange(ROWS)} | {f"d{k}": X[:, k] for k in range(WIDTH)})
    np.testing.assert_array_equal(open_source(columns).read(0, ROWS), X)
    two = pa.table({"e": fixed_lists(X), "f": fixed_lists(X)})
    refuses(two, "view 'view0' has 2 columns of lists", "table.select")
    refuses(table(X)[:0], "view 'view0' has no rows")
    refuses(pa.table({"e": [[1.0], None]}), "'view0'", "nulls in 1 of 2 rows, the first is row 1")
    with pytest.raises(InputError, match="expected a list of views"):
        open_sources(columns)


# What is not installed


@pytest.mark.parametrize(
    ("suffix", "module", "extra"),
    [
        (".parquet", "pyarrow", "io"),
        (".feather", "pyarrow", "io"),
        (".h5", "h5py", "io"),
        (".zarr", "zarr", "io"),
        (".pt", "torch", "torch"),
    ],
)
def test_a_missing_extra_is_named(tmp_path, monkeypatch, suffix, module, extra):
    path = tmp_path / f"x{suffix}"
    if suffix == ".zarr":
        path.mkdir()
    elif suffix == ".pt":
        np.savez(tmp_path / "x.npz", e=matrix())
        (tmp_path / "x.npz").rename(path)
    else:
        path.touch()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"{module}.*pip install 'identikit\[{extra}\]'"):
        open_source(path)


def test_no_reader_is_loaded_before_it_is_needed(tmp_path):
    np.save(tmp_path / "0.npy", matrix())
    code = (
        "import sys; from identikit.sources import open_sources;"
        "[s.close() for s in open_sources([sys.argv[1], sys.argv[1] + '/0.npy'])];"
        "sys.exit(bool({'torch', 'pyarrow', 'zarr', 'h5py', 'pandas'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


# Memory

PEAK = """
import sys
from identikit.sources import open_source

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

source = open_source(sys.argv[1])
source.read(0, 1)
before = peak()
step = 4096 if sys.argv[2] == "blocks" else source.rows
for start in range(0, source.rows, step):
    source.read(start, start + step).sum()
print((peak() - before) / 1024)
"""


def peak_growth(view, how="blocks"):
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(view), how], check=True, capture_output=True, text=True
    )
    return float(done.stdout)


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """100 MB in one row group, in a few chunks, in one tensor, in four shards."""
    pa, h5py, zarr = pyarrow(), pytest.importorskip("h5py"), pytest.importorskip("zarr")
    torch, folder = pytest.importorskip("torch"), tmp_path_factory.mktemp("big")
    X = np.ones((200_000, 128), "f4")
    lists = pa.table({"e": fixed_lists(X)})
    parquet().write_table(
        lists, folder / "x.parquet", row_group_size=len(X), use_dictionary=False, compression="none"
    )
    with pa.ipc.new_file(folder / "x.arrow", lists.schema) as writer:
        writer.write_table(lists, max_chunksize=10_000)
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("e", data=X, chunks=(10_000, 128))
    zarr.create_array(folder / "x.zarr", data=X, chunks=(10_000, 128))
    torch.save(torch.from_numpy(X), folder / "x.pt")
    (folder / "shards").mkdir()
    for number in range(4):
        np.save(folder / "shards" / f"{number}.npy", X[::4])
    return folder


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the peak is read from /proc"
)


@needs_proc
@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.h5", "x.zarr", "x.pt", "shards"])
def test_memory_does_not_grow_with_the_rows(big, name):
    assert peak_growth(big / name) < 80


@needs_proc
def test_the_memory_measurement_notices_a_whole_file(big):
    assert peak_growth(big / "shards", "whole") > 90
