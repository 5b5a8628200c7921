"""Damaged files, odd arrays and senseless calls: the right answer or one sentence, nothing else.

A file without checksums (.npy, .safetensors, most of Parquet, Arrow, HDF5, Zarr) can be changed
into another sound file. Such a file must be read as its own library reads it; anything else must be
read as it was, or refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import subprocess
import sys
import tempfile
import warnings
from contextlib import closing, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
import typer
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.lib import format as npy
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors
from typer.testing import CliRunner

from conftest import HANGS, close
from identikit.alignment import align
from identikit.cli import app
from identikit.errors import InputError, MissingExtraError
from identikit.moments import accumulate, load_moments, save_moments
from identikit.moments._header import Header, parse_header
from identikit.sources import open_source

pytestmark = pytest.mark.long

ROWS, WIDTH = 23, 3
X = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)


def examples(count: int):
    """So many examples, of which each may take its time."""
    return settings(max_examples=count, suppress_health_check=[HealthCheck.too_slow])


@contextmanager
def folder():
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def one_sentence(error: Exception) -> None:
    text = str(error)
    assert text.strip()
    assert "\n" not in text, text
    assert "Traceback" not in text


def read_all(path: Path | str) -> np.ndarray | None:
    """All rows in blocks as `accumulate` takes them; None if the file is refused."""
    try:
        with closing(open_source(path)) as source:
            blocks, start = [], 0
            while start < source.rows:
                blocks.append(np.array(source.read(start, start + 7)))
                assert blocks[-1].shape == (min(7, source.rows - start), source.width)
                start += 7
            return np.concatenate(blocks)
    except (InputError, MissingExtraError) as error:
        one_sentence(error)
        return None


def equal(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None or one.shape != other.shape:
        return False
    return np.array_equal(one, other, equal_nan=one.dtype.kind == other.dtype.kind == "f")


# Whole files


def npy_file(version: tuple[int, int] = (1, 0), array: np.ndarray = X) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that older readers do not know version 2
        npy.write_array(stream, array, version)
    return stream.getvalue()


def npz_file(save=np.savez) -> bytes:
    stream = io.BytesIO()
    save(stream, e=X)
    return stream.getvalue()


def moments_file() -> bytes:
    with folder() as there:
        save_moments(accumulate([X, X[:, ::-1]], folds=3), there / "x.moments")
        return (there / "x.moments").read_bytes()


def table(lists: bool = True):
    pa = pytest.importorskip("pyarrow")
    if not lists:
        return pa.table({f"e{column}": X[:, column] for column in range(WIDTH)})
    return pa.table({"e": pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), WIDTH)})


def parquet_file(lists: bool = True, **options) -> bytes:
    stream = io.BytesIO()
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(table(lists), stream, row_group_size=10, **options)
    return stream.getvalue()


def arrow_file(kind: str, compression: str | None) -> bytes:
    ipc, stream = pytest.importorskip("pyarrow").ipc, io.BytesIO()
    options = ipc.IpcWriteOptions(compression=compression)
    with getattr(ipc, f"new_{kind}")(stream, table().schema, options=options) as writer:
        writer.write_table(table(), max_chunksize=10)
    return stream.getvalue()


def hdf5_file(**options) -> bytes:
    h5py = pytest.importorskip("h5py")
    with folder() as there:
        with h5py.File(there / "x.h5", "w") as file:
            file.create_dataset("e", data=X, **options)
        return (there / "x.h5").read_bytes()


def pt_file() -> bytes:
    torch, stream = pytest.importorskip("torch"), io.BytesIO()
    torch.save(torch.from_numpy(X), stream)
    return stream.getvalue()


# How each format's own library reads a file


def numpy_reads(data: bytes) -> np.ndarray:
    array = np.load(io.BytesIO(data), allow_pickle=False)
    return array if isinstance(array, np.ndarray) else array["e"]


def safetensors_reads(data: bytes) -> np.ndarray:
    (array,) = load_safetensors(data).values()
    return array


def from_table(found) -> np.ndarray:
    if found.num_columns > 1:
        return np.column_stack([column.to_numpy() for column in found.columns])
    column = found.column(0).combine_chunks()
    column = getattr(column, "storage", column)
    values = column.flatten() if hasattr(column, "flatten") and column.type.num_fields else column
    return values.to_numpy(zero_copy_only=False).reshape(len(column), -1)


def parquet_reads(data: bytes) -> np.ndarray:
    import pyarrow as pa
    import pyarrow.parquet as pq

    return from_table(pq.read_table(pa.BufferReader(data)))


def arrow_reads(data: bytes) -> np.ndarray:
    import pyarrow as pa

    opened = pa.ipc.open_file if data.startswith(b"ARROW1") else pa.ipc.open_stream
    return from_table(opened(pa.py_buffer(data)).read_all())


def hdf5_reads(data: bytes) -> np.ndarray:
    import h5py

    with h5py.File(io.BytesIO(data)) as file:
        (name,) = file
        return file[name][:]


def nobody_reads(data: bytes) -> np.ndarray:
    raise ValueError("there are checksums: a damaged file is not another file")


#: A file of each kind: how it is made, and who else reads it.
FILES = {
    "1.npy": (npy_file, numpy_reads),
    "2.npy": (lambda: npy_file((2, 0)), numpy_reads),
    "3.npy": (lambda: npy_file((3, 0)), numpy_reads),
    "f.npy": (lambda: npy_file(array=np.asfortranarray(X)), numpy_reads),
    "stored.npz": (npz_file, nobody_reads),
    "packed.npz": (lambda: npz_file(np.savez_compressed), nobody_reads),
    "x.safetensors": (lambda: save_safetensors({"e": X}, {"note": "x"}), safetensors_reads),
    "lists.parquet": (parquet_file, parquet_reads),
    "plain.parquet": (
        lambda: parquet_file(False, compression="NONE", use_dictionary=False),
        parquet_reads,
    ),
    "file.arrow": (lambda: arrow_file("file", None), arrow_reads),
    "packed.arrow": (lambda: arrow_file("file", "lz4"), arrow_reads),
    "stream.arrow": (lambda: arrow_file("stream", None), arrow_reads),
    "stream.feather": (lambda: arrow_file("stream", "zstd"), arrow_reads),
    "x.pt": (pt_file, nobody_reads),
}
# By themselves, for HDF5 may take the process with it.
HDF5_FILES = {
    "plain.h5": (hdf5_file, hdf5_reads),
    "chunks.h5": (
        lambda: hdf5_file(chunks=(8, 3), compression="gzip", fletcher32=True),
        hdf5_reads,
    ),
}


@cache
def good(name: str) -> bytes:
    return (FILES | HDF5_FILES)[name][0]()


#: What becomes of bytes: where, as a share of the file, and what.
damages = st.lists(
    st.tuples(
        st.sampled_from(["set", "flip", "cut", "number", "remove", "insert", "append"]),
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 255),
        st.sampled_from([1, 2, 4, 8]),
    ),
    min_size=1,
    max_size=1,  # of two, one may be in the numbers, and then nothing can be told
)


def damaged(data: bytes, what: list) -> bytes:
    for how, share, value, size in what:
        place = int(share * len(data))
        before, after = data[:place], data[place:]
        number = [0, -1, 1, 2 ** (8 * size - 1) - 1, -(2 ** (8 * size - 1))][value % 5]
        data = {
            "set": before + bytes([value]) + after[1:],
            "flip": before + bytes(byte ^ 1 << value % 8 for byte in after[:1]) + after[1:],
            "cut": before,
            "number": before
            + number.to_bytes(size, "little", signed=True)[: len(after)]
            + after[size:],
            "remove": before + after[size:],
            "insert": before + bytes([value]) * size + after,
            "append": data + bytes([value]) * size,
        }[how]
    return data


def within_numbers(data: bytes, original: bytes) -> bool:
    """Whether the only difference lies in the numbers, where they lie in one piece."""
    numbers = X.tobytes("A")
    first = original.find(numbers)
    return (
        first >= 0
        and len(data) == len(original)
        and data[:first] == original[:first]
        and data[first + len(numbers) :] == original[first + len(numbers) :]
    )


def check_damaged(name: str, data: bytes) -> None:
    """The file is read as it was, or as its own library reads it, or refused."""
    original = good(name)
    with folder() as there:
        path = there / name
        path.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # NumPy's, of headers by Python 2
            found = read_all(path)
    if found is None or equal(found, X) or within_numbers(data, original):
        return
    assert data != original
    try:
        expected = (FILES | HDF5_FILES)[name][1](data)
    except Exception as error:  # whatever the library says of it
        raise AssertionError(f"read {found.shape} from a file that is damaged: {error}") from error
    assert equal(found, expected), "another answer than that of the format's own library"


@pytest.mark.parametrize("name", FILES)
@examples(40)
@given(what=damages)
def test_damaged_files(name, what):
    check_damaged(name, damaged(good(name), what))


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@examples(1500)
@given(what=damages)
def test_many_damaged_files(name, what):
    check_damaged(name, damaged(good(name), what))


def test_lists_of_a_negative_length():
    check_damaged("stream.arrow", damaged(good("stream.arrow"), [("number", 0.10546875, 1, 4)]))


def apart(call: str) -> None:
    """Call a function of this file in a process of its own, which a library may bring down."""
    script = f"import conftest, test_fuzz; test_fuzz.{call}"
    command = [sys.executable, "-W", "error", "-X", "faulthandler", "-c", script]
    here = Path(__file__).parent
    ended = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=HANGS)
    assert ended.returncode == 0, ended.stderr[-3000:]


def fuzz_hdf5(name: str, count: int) -> None:
    @examples(count)
    @given(what=damages)
    def check(what):
        check_damaged(name, damaged(good(name), what))

    check()


@pytest.mark.parametrize("name", HDF5_FILES)
@pytest.mark.parametrize("count", [50, pytest.param(1500, marks=pytest.mark.slow)])
def test_damaged_hdf5_files(name, count):
    pytest.importorskip("h5py")
    apart(f"fuzz_hdf5({name!r}, {count})")


@pytest.mark.parametrize("name", FILES | HDF5_FILES)
def test_the_files_are_sound_until_they_are_damaged(name, tmp_path):
    (tmp_path / name).write_bytes(good(name))
    assert equal(read_all(tmp_path / name), X)


def test_a_wrong_answer_would_be_noticed(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "read_all", lambda _path: X[:5])
    for name in ("1.npy", "stored.npz"):
        with pytest.raises(AssertionError):
            check_damaged(name, good(name) + b"x")


# Headers with sound lengths and senseless contents

#: What no header should hold, and some of what it may.
hostile = st.sampled_from(
    [
        *(-1, 0, 1, 2, 69, 2**31, 2**63, 2**64, 10**30, 1.5, 1e999, True, False, None),
        *("", "x", "F64", "I32", "BF16", "float32", "int8", "<f8", "..", "é", "x" * 2000),
        *([], {}, [[]], [3, 23], [69, 1], [23, 3, 1], [0, 3], [-23, -3], [23.0, 3]),
        *({"e": 1}, [[[[[[[[1]]]]]]]], [0, 276], [276, 0], [10**20, 3]),
    ]
)


def places(document, at=()):
    """The keys that lead to every value of a JSON document."""
    if at:
        yield at
    if isinstance(document, dict):
        for key in document:
            yield from places(document[key], (*at, key))
    elif isinstance(document, list):
        for number in range(len(document)):
            yield from places(document[number], (*at, number))


def changed(document, share, value, gone):
    """A document with one of its values replaced or left out."""
    document = json.loads(json.dumps(document))
    where = list(places(document))
    *path, last = where[int(share * len(where))]
    inner = document
    for key in path:
        inner = inner[key]
    if gone:
        del inner[last]
    else:
        inner[last] = value
    return document


shares = st.floats(0, 1, exclude_max=True)

NPY_SHAPES = st.one_of(
    st.tuples(st.integers(-2, 70), st.integers(-2, 70)),
    st.sampled_from(
        [
            *("()", "(69,)", "(23, 3, 1)", "(10**30, 3)", "(2.5, 3)", "(True, 69)", "[23, 3]"),
            *("None", "(3, 23)", "(69, 1)"),
            *("'x'", "((23, 3),)", "(23, None)", "(-23, -3)", "(0, 10**30)", "(" * 200 + ")" * 200),
            *("(23L, 3L)", "(0x17, 3)", "(23, 3) and (1, 69)", "{}", "(10**30, 10**30, 0)"),
        ]
    ),
)
NPY_TYPES = st.sampled_from(
    [
        *("<f4", ">f4", "<f2", "<i4", "|b1", "<f8", "<f16", "<c8", "|O", "O", "|V4", "|S4", "<U1"),
        *("|S0", "<M8[ns]", "<m8", "<f3", "f4", "", "é", "<f4,<f4", "=f4", "<f4" * 500, "|V0"),
        "<U99999999",
    ]
)
NPY_ORDERS = st.sampled_from(["True", "False", "1", "None", "'no'", "[]"])


def check_npy_header(shape, kind, order, version):
    text = f"{{'descr': {kind!r}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    data = b"\x93NUMPY" + bytes([version, 0]) + length + text + X.tobytes()
    with folder() as there:
        (there / "x.npy").write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # NumPy's, of headers by Python 2
            found = read_all(there / "x.npy")
            if found is not None:
                assert equal(found, np.load(io.BytesIO(data), allow_pickle=False))
                assert found.nbytes == X.nbytes


@examples(250)
@given(shape=NPY_SHAPES, kind=NPY_TYPES, order=NPY_ORDERS, version=st.sampled_from([1, 2, 3, 4]))
@example(shape=(23, 3), kind="<f4", order="False", version=1)
def test_npy_headers(shape, kind, order, version):
    check_npy_header(shape, kind, order, version)


@pytest.mark.slow
@examples(5000)
@given(shape=NPY_SHAPES, kind=NPY_TYPES, order=NPY_ORDERS, version=st.sampled_from([1, 2, 3, 4]))
def test_many_npy_headers(shape, kind, order, version):
    check_npy_header(shape, kind, order, version)


def with_header(document, data: bytes) -> bytes:
    text = json.dumps(document).encode()
    return len(text).to_bytes(8, "little") + text + data


SAFETENSORS = {
    "__metadata__": {"note": "x"},
    "e": {"dtype": "F32", "shape": [ROWS, WIDTH], "data_offsets": [0, X.nbytes]},
}


@examples(120)
@given(share=shares, value=hostile, gone=st.booleans())
def test_safetensors_headers(share, value, gone):
    data = with_header(changed(SAFETENSORS, share, value, gone), X.tobytes())
    with folder() as there:
        (there / "x.safetensors").write_bytes(data)
        found = read_all(there / "x.safetensors")
    if found is not None and not equal(found, X):
        assert equal(found, safetensors_reads(data))


def forged(document, original: bytes) -> bytes:
    """A moments file whose header was changed by someone who knows how its digest is made."""
    text, arrays = json.dumps(document), load_safetensors(original)
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name, array in sorted(arrays.items()):
        digest.update(name.encode() + array.tobytes())
    return save_safetensors(arrays, {"identikit": text, "digest": digest.hexdigest()})


moments = cache(moments_file)


def moments_document():
    length = int.from_bytes(moments()[:8], "little")
    return json.loads(json.loads(moments()[8 : 8 + length])["__metadata__"]["identikit"])


@examples(120)
@given(share=shares, value=hostile, gone=st.booleans())
def test_moments_headers(share, value, gone):
    document = changed(moments_document(), share, value, gone)
    with folder() as there:
        (there / "x.moments").write_bytes(forged(document, moments()))
        try:
            loaded = load_moments(there / "x.moments")
        except InputError as error:
            one_sentence(error)
            return
    # What is believed is what the header says.
    assert Header.of(loaded) == parse_header(document, "x") or (
        document["identikit"] != moments_document()["identikit"]
    )


def test_the_forged_file_is_sound_until_it_is_changed(tmp_path):
    (tmp_path / "x.moments").write_bytes(forged(moments_document(), moments()))
    assert load_moments(tmp_path / "x.moments").rows == ROWS


@examples(100)
@given(what=damages)
def test_damaged_moments_files(what):
    data = damaged(moments(), what)
    with folder() as there:
        (there / "x.moments").write_bytes(data)
        try:
            load_moments(there / "x.moments")
        except InputError as error:
            one_sentence(error)
        else:
            assert data == moments()


@cache
def zarr_store(version: int) -> dict[str, bytes]:
    """The files of a store, by their paths in it."""
    zarr = pytest.importorskip("zarr")
    with folder() as there:
        zarr.create_array(there / "x.zarr", data=X, chunks=(8, WIDTH), zarr_format=version)
        paths = [path for path in (there / "x.zarr").rglob("*") if path.is_file()]
        return {str(path.relative_to(there / "x.zarr")): path.read_bytes() for path in paths}


def check_zarr(files: dict[str, bytes]) -> None:
    import zarr

    with folder() as there:
        for name, data in files.items():
            path = there / "x.zarr" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        found = read_all(there / "x.zarr")
        if found is not None and not equal(found, X):
            assert equal(found, zarr.open_array(there / "x.zarr", mode="r")[:])


@pytest.mark.parametrize("version", [2, 3])
@examples(40)
@given(share=shares, value=hostile, gone=st.booleans())
def test_zarr_metadata(version, share, value, gone):
    files = dict(zarr_store(version))
    name = "zarr.json" if version == 3 else ".zarray"
    document = changed(json.loads(files[name]), share, value, gone)
    check_zarr(files | {name: json.dumps(document).encode()})


@pytest.mark.parametrize("version", [2, 3])
@examples(25)
@given(which=st.integers(0, 10), what=damages)
def test_damaged_zarr_stores(version, which, what):
    files = dict(zarr_store(version))
    name = sorted(files)[which % len(files)]
    check_zarr(files | {name: damaged(files[name], what)})


# Arrays

REAL = ["?", "i1", "u1", "<i2", ">i2", "<i4", ">i4", "<u4", "<i8", ">i8", "<u8", ">u8"]
REAL += ["<f2", ">f2", "<f4", ">f4", "<f8", ">f8", np.dtype(np.longdouble).str]
OTHER = ["<c8", ">c16", "O", "S3", "<U2", "<M8[s]", "<m8[ms]", "V4", [("a", "<f4"), ("b", "<i2")]]
LAYOUTS = [
    "C",
    "F",
    "backwards",
    "broadcast",
    "unaligned",
    "every other",
    "read-only",
    "one by one",
]


@st.composite
def arrays(draw):
    shape = draw(
        st.one_of(
            st.tuples(st.integers(1, 30), st.integers(1, 5)),
            st.sampled_from([(), (0,), (4,), (0, 3), (3, 0), (0, 0), (3, 2, 2), (1, 1), (2, 0, 3)]),
        )
    )
    kind = np.dtype(draw(st.one_of(st.sampled_from(REAL), st.sampled_from(OTHER + REAL))))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([1.0, 1e-3, 100.0, 1e4]))
    offset = draw(st.sampled_from([0.0, 1.0, -1e3]))
    numbers = rng.normal(size=shape) * scale + offset
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        numbers = np.clip(numbers, limits.min / 2, limits.max / 2)
    if kind.kind == "f" and draw(st.integers(0, 9)) == 0 and numbers.size:
        numbers.flat[-1] = draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    array = np.zeros(shape, kind) if kind.kind in "SUVO" else np.asarray(numbers).astype(kind)
    return laid_out(array, draw(st.sampled_from(LAYOUTS)))


def laid_out(array: np.ndarray, layout: str) -> np.ndarray:
    """The same shape and dtype, and but for "broadcast" the same numbers."""
    if layout == "F":
        return np.asfortranarray(array)
    if layout == "backwards":
        turned = (slice(None, None, -1),) * array.ndim
        return np.ascontiguousarray(array[turned])[turned] if array.ndim else array
    if layout == "broadcast" and array.ndim and len(array):
        return np.broadcast_to(array[:1], array.shape)
    if layout == "unaligned" and array.dtype.kind != "O":
        memory = np.zeros(array.nbytes + 1, np.uint8)
        odd = np.ndarray(array.shape, array.dtype, memory, offset=1)
        odd[...] = array
        return odd
    if layout == "every other" and array.ndim:
        large = np.zeros(tuple(2 * n for n in array.shape), array.dtype)
        large[(slice(None, None, 2),) * array.ndim] = array
        return large[(slice(None, None, 2),) * array.ndim]
    if layout == "read-only":
        array = array.copy()
        array.flags.writeable = False
    return array


def check_view(view: object, array: np.ndarray) -> None:
    """Rows and moments are those of the array, or there is a reason why it cannot be a view."""
    usable = array.dtype.kind in "biuf" and array.ndim == 2 and array.size > 0
    found = read_all(view)
    assert (found is not None) == usable
    if not usable:
        return
    assert found.dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
    assert equal(found, array)
    numbers = array.astype(np.float64)
    if not np.isfinite(numbers).all():
        with pytest.raises(InputError, match="has NaN or infinity in") as caught:
            accumulate([view, view], folds=1)
        one_sentence(caught.value)
        return
    moments = accumulate([view, view], folds=1)
    precise = numbers.astype(np.longdouble)
    centred = precise - precise.mean(axis=0)
    scatter = (centred.T @ centred).astype(np.float64)
    size = np.abs(numbers).max()
    close(moments.centre(1), precise.mean(axis=0).astype(np.float64), 1e-9, size)
    for i, j in ((0, 0), (0, 1)):
        close(moments.block(i, j), scatter, 1e-9, max(np.diag(scatter).max(), 1e-12 * size**2))


@examples(200)
@given(array=arrays())
def test_arrays(array):
    check_view(array, array)


@examples(100)
@given(array=arrays(), version=st.sampled_from([(1, 0), (2, 0), (3, 0)]))
def test_arrays_in_files(array, version):
    if array.dtype.hasobject:
        array = np.zeros(array.shape)
    with folder() as there:
        (there / "x.npy").write_bytes(npy_file(version, array))
        check_view(there / "x.npy", array)


@pytest.mark.slow
@examples(5000)
@given(array=arrays())
def test_many_arrays(array):
    check_view(array, array)


# Calls

VERBS = ["audit", "align", "apply", "moments", "merge", "models", "family"]
PATHS = ["a.npy", "b.npy", "short.npy", "nan.npy", "text.npy", "line.npy", "x.npz::f", "x.npz"]
PATHS += ["m.moments", "map.safetensors", "groups.npy", "groups.txt", "empty.npy", "folder", "."]
PATHS += ["missing.npy", "", "-", "::", "a.npy::x", "/dev/null", "é\u202e.npy", "x" * 300, "/", "~"]
PATHS += ["notes.txt", "[red]a.npy", "model.safetensors"]
NUMBERS = ["-1", "0", "1", "2", "3", "5", "7", "61", str(10**9), str(2**64), str(10**30), "1e400"]
NUMBERS += ["0.1", "1.5", "nan", "inf", "-inf", "", "five", "0x10", "１", "--", "1_0"]
SIZES = [
    "1GB",
    "1KB",
    "0",
    "-1",
    "1e9",
    "9" * 400,
    "9" * 400 + ".5GB",
    "٣GB",
    "TB",
    "0.0001",
    "1TB",
]
WORDS = [
    "affine",
    "rigid",
    "identity",
    "single",
    "nope",
    "a,b",
    ",",
    "x",
    "[/red]",
    "\x1b[31m",
    "f",
]
TARGETS = ["out.json", "out.html", "out.moments", "out.npy", "out.safetensors", "a.npy", "folder"]
TARGETS += ["missing/out", "", "/", "x" * 300, "m.moments", "/dev/null"]
POOLS = {"int": NUMBERS, "float": NUMBERS, "size": SIZES, "Path": TARGETS}


@cache
def options_of(verb: str) -> list[tuple[str, str]]:
    """Every option of a verb, and of what kind its value is."""
    command = next(each.callback for each in app.registered_commands if each.name == verb)
    found = []
    for name, hint in get_type_hints(command, include_extras=True).items():
        # Those would start processes, or look for some elsewhere.
        if name in ("return", "scheduler", "workers"):
            continue
        kind, option = hint.__origin__, hint.__metadata__[0]
        if isinstance(option, typer.models.OptionInfo):
            # The first of several names is where Typer keeps a default.
            names = [*(option.param_decls or ()), option.default]
            names = [one for one in names if str(one).startswith("-")]
            kinds = [one for one in (bool, int, float, Path) if one in (kind, *get_args(kind))]
            word = "size" if name == "memory" else (kinds or [str])[0].__name__
            found += [(name, word) for name in names]
    return found


@st.composite
def calls(draw):
    verb = draw(st.sampled_from(VERBS))
    usual = st.sampled_from(PATHS[:2]) if verb != "merge" else st.just("m.moments")
    words = draw(st.lists(st.one_of(usual, st.sampled_from(PATHS)), max_size=3))
    options = st.sampled_from(options_of(verb))
    for name, kind in draw(st.lists(options, max_size=4)):
        pool = POOLS.get(kind, [*WORDS, *PATHS])
        given = [name] if kind == "bool" else [name, draw(st.sampled_from(pool))]
        at = draw(st.integers(0, len(words)))
        words = [*words[:at], *given, *words[at:]]
    if draw(st.booleans()) and verb in ("align", "apply", "moments", "merge"):
        suffix = {"align": "safetensors", "apply": "npy"}.get(verb, "moments")
        words += ["-o", f"out.{suffix}"]
    return [verb, *words]


class Desk:
    """A folder, and what its files held at first; nothing that takes long to print."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        paths = (path for path in folder.iterdir() if path.is_file())
        self.files = {path.name: path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with files of every kind, and what they hold."""
    there = tmp_path_factory.mktemp("desk")
    rng = np.random.default_rng(0)
    A = rng.normal(size=(60, 3))
    np.save(there / "a.npy", A)
    np.save(there / "b.npy", A @ rng.normal(size=(3, 3)) + 1)
    np.save(there / "short.npy", A[:50])
    np.save(there / "nan.npy", np.where(A > 2, np.nan, A))
    np.save(there / "text.npy", np.full((60, 3), "x"))
    np.save(there / "line.npy", A[:, 0])
    np.savez(there / "x.npz", f=A, g=A[:20])
    np.save(there / "groups.npy", np.arange(60) // 4)
    (there / "groups.txt").write_text("\n".join(map(str, np.arange(60) // 4)))
    (there / "notes.txt").write_text("one\n\ntwo\n")
    (there / "empty.npy").write_bytes(b"")
    (there / "folder").mkdir()
    (there / "model.safetensors").write_bytes(save_safetensors({"f": A, "g": A[:20]}))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(there)
        accumulate(["a.npy", "b.npy"]).save("m.moments")
        align("a.npy", "b.npy").save("map.safetensors")
    return Desk(there)


def check_call(desk: Desk, words: list[str]) -> None:
    there, files = desk.folder, desk.files
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(there)
        result = CliRunner().invoke(app, words)
        left = {path.name for path in there.iterdir()}
        for name in left - set(files) - {"folder"}:
            assert name in TARGETS, f"{name} was left behind"
            (there / name).unlink()
        overwritten = {name for name in files if (there / name).read_bytes() != files[name]}
        for name in overwritten:
            (there / name).write_bytes(files[name])
    if not isinstance(result.exception, SystemExit | None):
        raise AssertionError(f"{words}: {result.exception!r}") from result.exception
    assert result.exit_code in (0, 1, 2), result.output
    # A .moments file that is there may be replaced, if nothing is read from it.
    assert overwritten <= ({"m.moments"} & set(words) if result.exit_code < 2 else set())
    if result.exit_code == 2:
        assert result.stdout == ""
        if not result.stderr.startswith("Usage: "):
            assert result.stderr.startswith("identikit: "), result.stderr
            assert result.stderr.count("\n") == 1, result.stderr
    elif "--json" in words and "--help" not in words:
        json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


@examples(120)
@given(words=calls())
def test_calls(desk, words):
    check_call(desk, words)


@pytest.mark.slow
@examples(4000)
@given(words=calls())
def test_many_calls(desk, words):
    check_call(desk, words)


# What was found so


def refused(name: str, data: bytes, tmp_path: Path) -> str:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError) as caught, closing(open_source(tmp_path / name)) as source:
        source.read(0, source.rows)
    return str(caught.value)


@pytest.mark.parametrize("name", ["1.npy", "2.npy", "f.npy"])
def test_bytes_after_the_array_of_a_npy_file(name, tmp_path):
    """A header with fewer rows was read as fewer rows, one cut short as shifted numbers."""
    data = good(name)
    assert "is damaged" in refused(name, data + b"x", tmp_path)
    assert "is damaged" in refused(name, data.replace(b"(23, 3)", b"(22, 3)"), tmp_path)
    shorter = data.replace(b"\x76\0", b"\x66\0", 1)
    assert shorter != data or name == "2.npy"
    if shorter != data:
        assert "is damaged" in refused(name, shorter, tmp_path)


def test_a_truth_value_is_no_length(tmp_path):
    data = npy_file(array=X.reshape(1, 69))
    changed = data.replace(b"(1, 69), }   ", b"(True, 69), }")
    assert "gives the shape (True, 69)" in refused("x.npy", changed, tmp_path)


def test_bytes_after_the_tensors_of_a_safetensors_file(tmp_path):
    name = "x.safetensors"
    assert "tensors end at byte 276 of the 277" in refused(name, good(name) + b"x", tmp_path)
    entry = {"dtype": "F32", "shape": [23, 3], "data_offsets": [0, 276]}
    other = with_header({"e": entry, "f": {"data_offsets": 3}}, X.tobytes())
    (tmp_path / name).write_bytes(other)
    with pytest.raises(InputError, match="tensors end at byte None"):
        open_source(f"{tmp_path / name}::e")


def fuzz_parquet_footer() -> None:
    data = good("lists.parquet")
    length = int.from_bytes(data[-8:-4], "little")
    for place in range(len(data) - 8 - length, len(data)):
        check_damaged("lists.parquet", data[:place] + bytes([data[place] ^ 2]) + data[place + 1 :])


def test_no_byte_of_a_parquet_footer_ends_the_process():
    """pyarrow ended it when it was asked how long a column was that contradicts itself."""
    pytest.importorskip("pyarrow")
    apart("fuzz_parquet_footer()")


def messages(data: bytes) -> list[tuple[int, int]]:
    """Of every record batch, where its header says its kind and its number of rows."""
    pa = import_module("pyarrow")
    found, place = [], 8 if data.startswith(b"ARROW1") else 0
    while length := int.from_bytes(data[place + 4 : place + 8], "little"):
        message, start = pa.ipc.read_message(data[place:]), place + 8
        if message.type == "record batch":
            table = start + struct.unpack_from("<I", data, start)[0]
            batch = field(data, table, 2)
            batch += struct.unpack_from("<I", data, batch)[0]
            found.append((field(data, table, 1), field(data, batch, 0)))
        place += 8 + length + len(message.body)
    return found


def field(data: bytes, table: int, number: int) -> int:
    """Where a field of a table of FlatBuffers lies."""
    offsets = table - struct.unpack_from("<i", data, table)[0]
    return table + struct.unpack_from("<H", data, offsets + 4 + 2 * number)[0]


@pytest.mark.parametrize("name", ["file.arrow", "stream.arrow", "stream.feather"])
def test_no_batch_of_an_arrow_file_is_lost(name, tmp_path):
    """One that was said to be something else, or to have no rows, was passed over in silence."""
    pytest.importorskip("pyarrow")
    assert len(messages(good(name))) == 3
    for kind, rows in messages(good(name)):
        for place, value in ((kind, 1), (kind, 2), (kind, 4), (rows, 0)):
            data = bytearray(good(name))
            data[place] = value
            assert refused(name, bytes(data), tmp_path)


def test_arrow_streams_that_end_before_the_file_does(tmp_path):
    pytest.importorskip("pyarrow")
    data = good("stream.arrow")
    assert "does not agree with its end" in refused("stream.arrow", data + data, tmp_path)


def test_arrow_files_that_say_two_things_of_themselves(tmp_path):
    pytest.importorskip("pyarrow")
    pa, data = import_module("pyarrow"), good("file.arrow")
    stream = io.BytesIO()
    with pa.ipc.new_file(stream, table().rename_columns(["f"]).schema) as writer:
        writer.write_table(table().rename_columns(["f"]), max_chunksize=10)
    end = stream.getvalue()[-int.from_bytes(data[-10:-6], "little") - 10 :]
    assert "does not agree with its end" in refused("x.arrow", data[: -len(end)] + end, tmp_path)


def test_arrow_messages_that_begin_in_two_ways(tmp_path):
    """Without four bytes of a batch, what follows looked like a message of before version 0.15."""
    pytest.importorskip("pyarrow")
    data = good("stream.arrow")
    numbers = data.index(X[:10].tobytes())
    assert "does not begin like" in refused(
        "x.arrow", data[:numbers] + data[numbers + 4 :], tmp_path
    )


@pytest.mark.parametrize(
    ("size", "place", "words"), [(0, 8, "has no checksum"), (None, 24, "incomplete: 2 of its 3")]
)
def test_chunks_of_an_hdf5_file(size, place, words, tmp_path):
    """HDF5 took four bytes off none and ended the process; and it reads zeros for what it lacks."""
    h5py = pytest.importorskip("h5py")
    data = good("chunks.h5")
    with h5py.File(io.BytesIO(data)) as file:
        stored = file["e"].id.get_chunk_info(1).size
    entry = struct.pack("<IIQQQ", stored, 0, 8, 0, 0)
    assert data.count(entry) == 1
    other = struct.pack("<IIQQQ", stored if size is None else size, 0, place, 0, 0)
    assert words in refused("x.h5", data.replace(entry, other), tmp_path)


def test_zarr_chunks_of_no_rows(tmp_path):
    document = json.loads(zarr_store(2)[".zarray"]) | {"chunks": [0, 3]}
    for name, data in (zarr_store(2) | {".zarray": json.dumps(document).encode()}).items():
        (tmp_path / "x.zarr").mkdir(exist_ok=True)
        (tmp_path / "x.zarr" / name).write_bytes(data)
    with pytest.raises(InputError, match="in chunks of"):
        open_source(tmp_path / "x.zarr")


def test_the_shape_in_a_pt_file(tmp_path):
    """PyTorch does not look at checksums, and three columns were read as one."""
    data = good("x.pt")
    shape = b"K\x17K\x03\x86"
    assert data.count(shape) == 1
    assert "CRC" in refused("x.pt", data.replace(shape, b"K\x17K\x01\x86"), tmp_path)


@pytest.mark.parametrize("size", ["9" * 400, "9" * 5000 + "GB", "1." + "9" * 400])
def test_a_size_with_too_many_digits(size):
    result = CliRunner().invoke(app, ["audit", "a.npy", "b.npy", "--memory", size])
    assert result.exit_code == 2
    assert "expected a size such as" in result.stderr
