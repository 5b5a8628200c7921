"""Sources: whatever comes in is read back equal, block by block, or refused with a reason."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
import warnings
import zipfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from identikit.errors import InputError
from identikit.sources import NpyWriter, open_source, open_sources, read_labels, registry

DTYPES = ["f2", "f4", "f8", ">f4", ">f8", "i1", "i8", ">i2", "u1", "u4", "?"]


def matrix(dtype="f4", rows=17, width=5):
    values = np.random.default_rng(0).normal(size=(rows, width)) * 50
    return (
        values.astype(np.int64).astype(dtype)
        if np.dtype(dtype).kind in "biu"
        else (values.astype(dtype))
    )


def assert_reads_back(source, expected):
    """Compare in blocks of 1, of 7 and in one, each from row 0 again."""
    try:
        assert (source.rows, source.width) == expected.shape
        for size in (1, 7, source.rows):
            starts = range(0, source.rows, size)
            blocks = [source.read(k, min(k + size, source.rows)) for k in starts]
            assert all(block.ndim == 2 for block in blocks)
            np.testing.assert_array_equal(np.concatenate(blocks), expected)
        np.testing.assert_array_equal(source.read(9, 11), expected[9:11])
        np.testing.assert_array_equal(source.read(15, 99), expected[15:99])
        assert source.read(4, 4).shape == (0, source.width)
    finally:
        source.close()
        source.close()


def refuses(view, *parts, **kwargs):
    """Assert an InputError whose message holds every part; return the message."""
    with pytest.raises(InputError) as caught:
        open_source(view, **kwargs).close()
    for part in parts:
        assert str(part) in str(caught.value), caught.value
    return str(caught.value)


def write_safetensors(path, entries, data, metadata=True):
    header = {name: dict(zip(("dtype", "shape", "data_offsets"), e)) for name, e in entries.items()}
    if metadata:
        header["__metadata__"] = {"format": "pt"}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def test_the_comparison_itself_notices_a_wrong_number():
    X = matrix()
    Y = X.copy()
    Y[16, 4] += 1
    with pytest.raises(AssertionError):
        assert_reads_back(open_source(X), Y)


# Arrays and objects


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_any_dtype(dtype):
    X = matrix(dtype)
    source = open_source(X)
    assert source.read(0, 1).dtype == X.dtype
    assert_reads_back(source, X)


@pytest.mark.parametrize(
    "view",
    [
        matrix()[::-1],
        matrix(rows=51, width=15)[::3, ::-3],
        np.asfortranarray(matrix()),
        np.broadcast_to(np.float32(3), (17, 5)),
        np.ma.masked_array(matrix(), mask=False),
        pd.DataFrame(matrix()),
        matrix().tolist(),
    ],
    ids=["reversed", "strided", "fortran", "broadcast", "unmasked", "frame", "lists"],
)
def test_arrays_of_any_kind(view):
    assert_reads_back(open_source(view), np.asarray(view))


def test_memmap(tmp_path):
    np.save(tmp_path / "x.npy", matrix())
    assert_reads_back(open_source(np.load(tmp_path / "x.npy", mmap_mode="r")), matrix())


def test_blocks_do_not_let_the_callers_array_be_changed():
    X = matrix()
    block = open_source(X).read(0, 3)
    with pytest.raises(ValueError, match="read-only"):
        block += 1
    X[0, 0] = 7  # the caller's own array stays writable
    assert X[0, 0] == 7


@pytest.mark.parametrize(
    ("dtype", "power"),
    [("f2", -10), ("f4", -23), (">f4", -23), ("f8", -52), ("g", -52), ("i1", -52), ("?", -52)],
)
def test_eps_is_that_of_the_stored_type(dtype, power, tmp_path):
    assert open_source(matrix(dtype)).eps == 2.0**power
    np.save(tmp_path / "x.npy", matrix(dtype))
    source = open_source(tmp_path / "x.npy")
    source.close()
    assert source.eps == 2.0**power


def test_bfloat16_of_numpy_by_its_name():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    X = matrix().astype(ml_dtypes.bfloat16)
    source = open_source(X)
    assert source.eps == 2.0**-8
    assert source.read(0, 2).dtype == np.float32
    assert_reads_back(source, X.astype(np.float32))


def test_bfloat16_that_np_save_stripped_of_its_type(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((3, 2), "V2"))
    refuses(tmp_path / "x.npy", "V2", "bfloat16")


# Torch


@pytest.mark.parametrize(
    ("dtype", "power"),
    [("float16", -10), ("bfloat16", -8), ("float32", -23), ("float64", -52), ("int32", -52)],
)
def test_tensors(dtype, power):
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(matrix()).to(getattr(torch, dtype))
    source = open_source(tensor, position=3)
    assert source.name == "view3"
    assert source.eps == 2.0**power
    assert source.read(0, 1).dtype == ("float32" if dtype == "bfloat16" else dtype)
    assert_reads_back(source, tensor.double().numpy())


def test_tensor_with_gradient_and_strides_and_a_lazy_sign():
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(matrix(width=17)).requires_grad_().T
    assert_reads_back(open_source(tensor), matrix(width=17).T)
    half = torch.nn.Parameter(torch.from_numpy(matrix()).bfloat16())
    assert_reads_back(open_source(half), half.detach().float().numpy())
    negated = torch.from_numpy(matrix() * 1j).conj().imag
    assert negated.is_neg()
    assert_reads_back(open_source(negated), -matrix())


def test_refused_tensors():
    torch = pytest.importorskip("torch")
    refuses(torch.ones(3), "'view0'", "1-D", "reshape(-1, 1)")
    refuses(torch.ones(3, 2).to_sparse(), "sparse", ".to_dense()")
    refuses(torch.ones(3, 2, device="meta"), "meta", name="far")
    refuses(torch.ones(3, 2).to(torch.float8_e4m3fn), "float8_e4m3fn")
    refuses(torch.ones(3, 2, dtype=torch.complex64), "complex64", "imaginary")


def test_arrays_and_files_do_not_import_torch(tmp_path):
    np.save(tmp_path / "x.npy", matrix())
    code = (
        "import sys, numpy as np; from identikit.sources import open_sources;"
        "[s.close() for s in open_sources([np.ones((17, 2)), sys.argv[1]])];"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "x.npy")], check=True)


# Files


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_npy(tmp_path, dtype, order):
    X = np.array(matrix(dtype), order=order)
    np.save(tmp_path / "x.npy", X)
    source = open_source(str(tmp_path / "x.npy"))
    assert source.read(0, 1).dtype == X.dtype
    assert_reads_back(source, X)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_versions(tmp_path, version):
    with (tmp_path / "x.NPY").open("wb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy advises against the newer versions
        np.lib.format.write_array(file, matrix(), version=version)
    assert_reads_back(open_source(tmp_path / "x.NPY"), matrix())


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", ["f2", "f4", ">f8", "i4"])
def test_npz(tmp_path, save, order, dtype):
    X = np.array(matrix(dtype), order=order)
    save(tmp_path / "x.npz", first=np.zeros(3), second=X, third=np.ones((2, 2)))
    source = open_source(f"{tmp_path}/x.npz::second")
    assert source.name == "x::second"
    assert_reads_back(source, X)


def test_npz_with_one_array_needs_no_name(tmp_path):
    np.savez(tmp_path / "x.npz", emb=matrix())
    with zipfile.ZipFile(tmp_path / "x.npz", "a") as archive:
        archive.writestr("notes.txt", "not an array")
    source = open_source(tmp_path / "x.npz")
    assert source.name == "x"
    assert_reads_back(source, matrix())
    assert_reads_back(open_source(tmp_path / "x.npz::emb"), matrix())


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "?"])
def test_safetensors(tmp_path, dtype):
    path = tmp_path / "x.safetensors"
    save_file({"before": np.ones(3, "u1"), "emb": matrix(dtype), "z": np.ones((2, 2))}, path)
    source = open_source(f"{path}::emb", name="mine")
    assert source.name == "mine"
    assert source.read(0, 1).dtype == np.dtype(dtype)
    assert_reads_back(source, matrix(dtype))


def test_safetensors_bfloat16(tmp_path):
    words = (matrix().view(np.uint32) >> 16).astype("<u2")
    path = write_safetensors(
        tmp_path / "x.safetensors", {"e": ("BF16", [17, 5], [0, 170])}, words.tobytes()
    )
    source = open_source(path)
    assert source.eps == 2.0**-8
    assert source.read(0, 1).dtype == np.float32
    assert_reads_back(source, (words.astype(np.uint32) << 16).view(np.float32))


def test_safetensors_bfloat16_as_torch_writes_it(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file as save_torch

    tensor = torch.from_numpy(matrix()).bfloat16()
    save_torch({"e": tensor}, tmp_path / "x.safetensors")
    assert_reads_back(open_source(tmp_path / "x.safetensors"), tensor.float().numpy())


def test_a_file_whose_name_holds_two_colons_wins(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 2)))
    np.save(tmp_path / "a.npy::b.npy", matrix())
    np.savez(tmp_path / "c::d.npz", **{"e::f": matrix()})
    assert_reads_back(open_source(tmp_path / "a.npy::b.npy"), matrix())
    assert_reads_back(open_source(tmp_path / "c::d.npz::e::f"), matrix())


def test_a_new_format_is_one_new_file(tmp_path):
    (tmp_path / "_toy.py").write_text(
        "import numpy as np\n"
        "from identikit.sources.array import ArraySource\n"
        "from identikit.sources.registry import register\n"
        "@register('.toy')\n"
        "def open_toy(path, member, name):\n"
        "    return ArraySource(np.loadtxt(path, ndmin=2), name)\n"
    )
    (tmp_path / "x.toy").write_text("1 2\n3 4\n5 6\n")
    code = (
        "import sys; import identikit.sources as s; s.__path__.append(sys.argv[1]);"
        "print(s.open_source(sys.argv[1] + '/x.toy').read(1, 3).tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[[3.0, 4.0], [5.0, 6.0]]"
    assert ".toy" not in registry.openers()


# Memory. VmHWM and not ru_maxrss, which a child inherits from the process that started it.

PEAK = """
import sys
import numpy as np
from identikit.sources import open_source

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

source = open_source(sys.argv[1])
before = peak()
if sys.argv[2] == "blocks":
    for start in range(0, source.rows, 4096):
        source.read(start, start + 4096).sum()
else:
    source.read(0, source.rows)
print((peak() - before) / 1024)
"""


def peak_growth(view, how):
    done = subprocess.run(
        [sys.executable, "-c", PEAK, view, how], check=True, capture_output=True, text=True
    )
    return float(done.stdout)


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """200 MB in each format, the uncompressed ones as files with a hole."""
    folder = tmp_path_factory.mktemp("big")
    shape = (400_000, 128)
    for order in (False, True):
        with (folder / f"{'CF'[order]}.npy").open("wb") as file:
            header = {"descr": "<f4", "fortran_order": order, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            file.truncate(file.tell() + 4 * 400_000 * 128)
    entry = {"e": ("F32", list(shape), [0, 4 * 400_000 * 128])}
    write_safetensors(folder / "t.safetensors", entry, b"")
    os.truncate(
        folder / "t.safetensors", 4 * 400_000 * 128 + (folder / "t.safetensors").stat().st_size
    )
    with zipfile.ZipFile(folder / "z.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.write(folder / "C.npy", "C.npy")
    return folder


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the peak is read from /proc"
)


@needs_proc
@pytest.mark.parametrize("file", ["C.npy", "F.npy", "t.safetensors", "z.npz"])
def test_memory_does_not_grow_with_the_rows(big, file):
    assert peak_growth(f"{big}/{file}", "blocks") < 60


@needs_proc
def test_the_memory_measurement_notices_a_whole_file(big):
    assert peak_growth(f"{big}/C.npy", "whole") > 150


# Names and sets of views


def test_names(tmp_path):
    np.save(tmp_path / "a.b.npy", matrix())
    views = [matrix(), tmp_path / "a.b.npy", str(tmp_path / "a.b.npy"), matrix().tolist()]
    sources = open_sources(views)
    for source in sources:
        source.close()
    assert [s.name for s in sources] == ["view0", "a.b", "a.b (2)", "view3"]
    X = [matrix()] * 4
    named = open_sources(X, names=["x", "x", "x (2)", "x"])
    assert [s.name for s in named] == ["x", "x (2)", "x (2) (2)", "x (3)"]


def test_open_sources_refuses_a_wrong_call(tmp_path):
    with pytest.raises(InputError, match="at least one view"):
        open_sources([])
    with pytest.raises(InputError, match=r"expected 2 names.*\['a'\]"):
        open_sources([matrix(), matrix()], names=["a"])
    with pytest.raises(InputError, match=r"expected 2 names.*'ab'"):
        open_sources([matrix(), matrix()], names="ab")
    for one in ("x.npy", tmp_path, matrix(), pd.DataFrame(matrix())):
        with pytest.raises(InputError, match="expected a list of views"):
            open_sources(one)


def test_open_sources_refuses_unequal_rows_and_closes_what_it_opened(tmp_path, monkeypatch):
    np.save(tmp_path / "long.npy", matrix(rows=20))
    np.save(tmp_path / "short.npy", matrix())
    opened = []
    path_open = Path.open
    monkeypatch.setattr(
        Path, "open", lambda *a, **k: opened.append(path_open(*a, **k)) or opened[-1]
    )
    with pytest.raises(InputError, match=r"'long' has 20 rows and view 'short' has 17.*pairs rows"):
        open_sources([tmp_path / "long.npy", tmp_path / "short.npy"])
    with pytest.raises(InputError, match="no such file"):
        open_sources([tmp_path / "long.npy", tmp_path / "absent.npy"])
    assert len(opened) == 3
    assert all(file.closed for file in opened)


# Refusals: objects


@pytest.mark.parametrize(
    ("view", "parts"),
    [
        (np.ones(3), ("1-D", "(3,)", "reshape(-1, 1)")),
        (np.float32(3), ("0-D", "()", "rows × columns")),
        (3.0, ("0-D", "rows × columns")),
        (np.ones((2, 3, 4)), ("3-D", "(2, 3, 4)", "reshape(x.shape[0], -1)")),
        (np.ones((0, 3)), ("no rows", "(0, 3)")),
        (np.ones((3, 0)), ("no columns", "(3, 0)")),
        (np.array([["a", "b"]]), ("<U1", "real numbers")),
        (np.zeros((2, 2), "f4,i4"), ("real numbers",)),
        (np.zeros((2, 2), complex), ("complex128", "imaginary")),
        (np.zeros((2, 2), "M8[s]"), ("datetime64", "real numbers")),
        (np.array([[1, None]]), ("dtype object", "np.asarray")),
        (pd.DataFrame({"a": ["x"], "b": ["y"]}), ("no columns of numbers", "'a', 'b'")),
        (pd.DataFrame({"a": [1.0], "b": [{}]}), ("column 'b' is object",)),
        (None, ("dtype object",)),
        ([[1.0, 2.0], [3.0]], ("list", "does not convert")),
        (np.ma.masked_array(np.ones((2, 2)), [[0, 1], [0, 0]]), ("masked", "drop their rows")),
    ],
)
def test_refused_objects(view, parts):
    refuses(view, "'view2'", *parts, position=2)
    refuses(view, "'mine'", *parts, name="mine")


# Refusals: paths


def test_refused_paths(tmp_path, monkeypatch):
    refuses("", "view 1", "empty path", position=1)
    refuses(tmp_path / "absent.npy", tmp_path / "absent.npy", "'absent'", "no such file")
    refuses(tmp_path / "absent.xyz", "no such file")
    refuses(tmp_path, tmp_path, "directory")
    (tmp_path / "folder.npy").mkdir()
    refuses(tmp_path / "folder.npy", "directory")
    os.mkfifo(tmp_path / "pipe.npy")
    refuses(tmp_path / "pipe.npy", "a pipe or a device")
    refuses("nul\0byte.npy", "cannot be opened")
    refuses("x" * 5000 + ".npy::a", "cannot be opened")
    for name in ("x.xlsx", "plain"):
        (tmp_path / name).touch()
        refuses(tmp_path / name, Path(name).suffix, ".npy, .npz, .parquet")

    def deny(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    np.save(tmp_path / "x.npy", matrix())
    monkeypatch.setattr(Path, "open", deny)
    refuses(tmp_path / "x.npy", tmp_path / "x.npy", "permission denied")


SHAPES = [(np.ones(3), "1-D"), (np.ones((2, 3, 4)), "(2, 3, 4)"), (np.ones((0, 3)), "no rows")]


@pytest.mark.parametrize(("array", "part"), [*SHAPES, (np.ones((1, 2), complex), "complex128")])
def test_refused_shapes_and_dtypes_in_files(tmp_path, array, part):
    np.save(tmp_path / "x.npy", array)
    np.savez(tmp_path / "x.npz", array)
    refuses(tmp_path / "x.npy", tmp_path / "x.npy", part)
    refuses(tmp_path / "x.npz", tmp_path / "x.npz", part)


@pytest.mark.parametrize(("array", "part"), SHAPES)
def test_refused_shapes_in_safetensors(tmp_path, array, part):
    save_file({"e": array}, tmp_path / "x.safetensors")
    refuses(tmp_path / "x.safetensors", tmp_path / "x.safetensors", part)


class Trap:
    def __reduce__(self):
        return (os.abort, ())


def test_pickle_is_never_loaded(tmp_path):
    trap = np.array([[Trap()]], dtype=object)
    np.save(tmp_path / "x.npy", trap, allow_pickle=True)
    np.savez(tmp_path / "x.npz", trap)
    for name in ("x.npy", "x.npz"):
        refuses(tmp_path / name, "pickled files are never loaded", "re-save", "numeric array")
        with pytest.raises(InputError, match="never loaded"):
            read_labels(tmp_path / name)
    (tmp_path / "raw.npy").write_bytes(pickle.dumps(Trap()))
    refuses(tmp_path / "raw.npy", "never loaded")


def npy_with_header(path, header, version=b"\x01\x00"):
    header = header.encode()
    path.write_bytes(b"\x93NUMPY" + version + len(header).to_bytes(2, "little") + header)
    return path


def test_damaged_npy(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, matrix())
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    refuses(path, path, "truncated", f"{len(whole)} bytes", f"{len(whole) - 1} were found")
    for cut in (0, 5, 9, 40):
        path.write_bytes(whole[:cut])
        refuses(path, path, "not a readable .npy", "expected", f"{cut} bytes were found")
    path.write_bytes(b"garbage" * 30)
    refuses(path, "not a readable .npy")
    good = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s)}"
    refuses(npy_with_header(path, good % "-2, -3"), "damaged", "(-2, -3)")
    refuses(npy_with_header(path, good % "10**9, 3"), "not a readable .npy")
    refuses(npy_with_header(path, good % "9999999999999999, 3"), "truncated")
    refuses(npy_with_header(path, "{'descr': '<f4',"), "not a readable .npy")
    refuses(npy_with_header(path, "(" * 9000), "not a readable .npy")
    refuses(npy_with_header(path, good % "1, 1", b"\x09\x00"), "version (9, 0)")


def test_npy_has_no_names(tmp_path):
    np.save(tmp_path / "x.npy", matrix())
    refuses(f"{tmp_path}/x.npy::emb", "x.npy", "without a name", "::emb")
    refuses(f"{tmp_path}/x.npy::", "without a name")


def test_names_inside_files(tmp_path):
    arrays = {f"a{k:02}": matrix() for k in range(25)}
    np.savez(tmp_path / "x.npz", **arrays)
    save_file(arrays, tmp_path / "x.safetensors")
    for path in (tmp_path / "x.npz", tmp_path / "x.safetensors"):
        refuses(path, path, "25 arrays", "path::name", "'a00', 'a01'", "'a19', and 5 more")
        said = refuses(f"{path}::emb", path, "no array named 'emb'", "'a00'", "'a19', and 5 more")
        assert "a20" not in said
    np.savez(tmp_path / "none.npz")
    write_safetensors(tmp_path / "none.safetensors", {}, b"")
    refuses(tmp_path / "none.npz", "no arrays")
    refuses(tmp_path / "none.safetensors", "no arrays")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damaged_npz(tmp_path, save):
    path = tmp_path / "x.npz"
    save(path, emb=matrix())
    whole = path.read_bytes()
    for cut in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        refuses(path, path, "not a readable .npz", "truncated", f"{cut} bytes were found")
    path.write_bytes(b"garbage" * 100)
    refuses(path, path, "not a readable .npz")
    path.write_bytes(whole[:30] + b"\xff" + whole[31:])  # the two names of the member differ
    refuses(path, path, "not a readable .npz")


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_npz_member_that_is_truncated_inside(tmp_path, compression):
    np.save(tmp_path / "e.npy", matrix())
    data = (tmp_path / "e.npy").read_bytes()
    with zipfile.ZipFile(tmp_path / "x.npz", "w", compression) as archive:
        archive.writestr("e.npy", data[:-3])
    said = refuses(tmp_path / "x.npz", "truncated", f"{len(data)} bytes", f"{len(data) - 3} were")
    assert "x.npz" in said


def test_npz_that_promises_more_than_the_archive_holds(tmp_path):
    """A stored member whose header and directory agree on a size beyond the end of the file."""
    path = tmp_path / "x.npz"
    header = str({"descr": "<f4", "fortran_order": False, "shape": (1000, 5)})
    npy_with_header(tmp_path / "e.npy", header)
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(tmp_path / "e.npy", "e.npy")
    size = (tmp_path / "e.npy").stat().st_size
    old, new = size.to_bytes(4, "little"), (size + 20_000).to_bytes(4, "little")
    data = path.read_bytes()
    assert data.count(old * 2) == 2
    path.write_bytes(data.replace(old * 2, new * 2))
    refuses(path, "truncated", "(1000, 5)")


def test_npz_packed_in_another_way(tmp_path):
    np.save(tmp_path / "e.npy", matrix())
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.write(tmp_path / "e.npy", "e.npy")
    refuses(tmp_path / "x.npz", "'e.npy'", "np.savez_compressed")


def test_damaged_safetensors(tmp_path):
    path = tmp_path / "x.safetensors"
    data = matrix().tobytes()

    def entry(*values):
        return write_safetensors(path, {"e": values}, data)

    whole = entry("F32", [17, 5], [0, 340]).read_bytes()
    assert_reads_back(open_source(path), matrix())
    path.write_bytes(whole[:-1])
    refuses(path, path, "truncated", f"{len(whole)} bytes", f"{len(whole) - 1} were found")
    path.write_bytes(whole[:5])
    refuses(path, path, "truncated", "at least 8 bytes, found 5")
    path.write_bytes(whole[:20])
    refuses(path, path, "truncated", "but 12 bytes follow")
    path.write_bytes(b"\xff" * 100)
    refuses(path, path, str(2**64 - 1), "but 92 bytes follow")
    for text in (b"garbage!", b"[" * 100_000, b"\xff\xfe"):
        path.write_bytes(len(text).to_bytes(8, "little") + text)
        refuses(path, path, "not JSON")
    path.write_bytes((2).to_bytes(8, "little") + b"[]")
    refuses(path, path, "JSON list")
    refuses(entry("F32", [17, 5], [0, 339]), path, "'e'", "needs 340 bytes", "span 339")
    refuses(entry("F32", [17, 5], [340, 0]), "needs 340 bytes", "span -340")
    refuses(entry("C64", [17, 5], [0, 680]), path, "'C64'", "BF16")
    for values in (
        ("F32", [17, 5]),
        ("F32", [17, 5], [0]),
        ("F32", [17, 5], [0, "340"]),
        ("F32", [-17, -5], [0, 340]),
        ("F32", 17, [0, 340]),
        (["F32"], [17, 5], [0, 340]),
    ):
        refuses(entry(*values), path, "damaged", "entry for 'e'")


@pytest.mark.parametrize("kind", ["C.npy", "F.npy", "stored.npz", "deflated.npz", "x.safetensors"])
def test_a_file_that_shrinks_after_opening(tmp_path, kind):
    path = tmp_path / kind
    X = np.random.default_rng(0).normal(size=(4000, 5))
    if kind.endswith(".npy"):
        np.save(path, np.array(X, order=kind[0]))
    elif kind.endswith(".npz"):
        (np.savez if kind == "stored.npz" else np.savez_compressed)(path, e=X)
    else:
        save_file({"e": X}, path)
    source = open_source(path)
    np.testing.assert_array_equal(source.read(0, 5), X[:5])
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(InputError, match=re.escape(str(path))) as caught:
        source.read(0, 4000)
    source.close()
    assert "changed while it was read" in str(caught.value)


def test_deflated_bytes_that_rot_are_noticed(tmp_path):
    for order in "CF":
        path = tmp_path / f"{order}.npz"
        np.savez_compressed(path, e=np.array(matrix(rows=4000), order=order))
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)
        # C order is unpacked when it is read, Fortran order when it is opened.
        with pytest.raises(InputError, match="damaged"), closing(open_source(path)) as source:
            source.read(0, 4000)


# Labels


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([3, 1, 3], [3, 1, 3]),
        (("a", "b", "a"), ["a", "b", "a"]),
        (np.array([1, 2], ">i2"), [1, 2]),
        (np.array([2.0, 5.0]), [2, 5]),
        ([True, False], [1, 0]),
        (pd.Series(["a", "b"]), ["a", "b"]),
        (pd.Series([4, 5]), [4, 5]),
        (pd.Categorical(["u", "v"]), ["u", "v"]),
    ],
)
def test_labels_in_memory(labels, expected):
    got = read_labels(labels)
    assert got.dtype.kind in "iuU"
    assert got.tolist() == expected


def test_labels_of_numpy_variable_strings():
    if not hasattr(np.dtypes, "StringDType"):
        pytest.skip("NumPy 1 has no StringDType")
    got = read_labels(np.array(["a", "bc"], dtype=np.dtypes.StringDType()))
    assert got.dtype.kind == "U"
    assert got.tolist() == ["a", "bc"]


def test_labels_from_a_tensor():
    torch = pytest.importorskip("torch")
    assert read_labels(torch.tensor([1, 5, 1])).tolist() == [1, 5, 1]


def test_labels_from_files(tmp_path):
    np.save(tmp_path / "g.npy", np.array([3, 4, 3]))
    assert read_labels(tmp_path / "g.npy").tolist() == [3, 4, 3]
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "g.npz", speaker=np.array(["x", "yz", "x"]), other=np.ones(2))
        assert read_labels(f"{tmp_path}/g.npz::speaker").tolist() == ["x", "yz", "x"]
    (tmp_path / "g.txt").write_bytes("\ufeff01\r\nzwölf \r\n1\r\n".encode())
    assert read_labels(tmp_path / "g.txt").tolist() == ["01", "zwölf", "1"]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1.0, np.nan, np.nan], "2 labels are NaN or infinite, the first in row 1"),
        (np.array([1.0, np.inf]), "1 labels are NaN or infinite, the first in row 1"),
        ([1.0, 2.5], r"row 1 is 2\.5; expected integers or strings"),
        ([2.0**60], "expected integers or strings"),
        ([[1], [2]], r"shape \(2, 1\); expected 1-D"),
        (np.array(3), r"shape \(\); expected 1-D"),
        ([1, "1"], "row 1 is '1' of type str; expected integers only or strings only"),
        (["a", None], "row 1 is None of type NoneType"),
        ([b"a"], "of type bytes"),
        (np.array([b"a"]), r"dtype \|S1; expected integers or strings"),
        (np.array([1j]), "complex128; expected integers or strings"),
        (np.ma.masked_array([1, 2], [0, 1]), "masked"),
    ],
)
def test_refused_labels(labels, message):
    with pytest.raises(InputError, match=f"^groups.*{message}"):
        read_labels(labels)


def test_refused_label_files(tmp_path):
    def refused(name, message, data=None):
        path = name.partition("::")[0]
        if data is not None:
            (tmp_path / path).write_bytes(data)
        with pytest.raises(InputError, match=message) as caught:
            read_labels(f"{tmp_path}/{name}")
        assert str(tmp_path / path) in str(caught.value)

    refused("absent.txt", "no such file")
    refused("x.xlsx", r"expected \.txt or one of .*\.npy, \.npz, \.parquet", b"a\n")
    refused("x.csv", "holds several columns; choose one with path::column", b"a\n")
    refused("x.txt", "line 2 is empty", b"a\n\nb\n")
    refused("empty.txt", "is empty; expected one label per row", b"")
    refused("y.txt", "not UTF-8", b"a\n\xff\xfe\n")
    refused("y.txt::a", "has no names")
    np.savez_compressed(tmp_path / "g.npz", g=np.random.default_rng(0).integers(0, 99, 9000))
    refused("g.npz::h", "no array named 'h'")
    data = bytearray((tmp_path / "g.npz").read_bytes())
    data[len(data) // 2] ^= 0xFF
    refused("g.npz", "damaged", bytes(data))
    refused("g.npy", "not a readable .npy", b"nonsense")


def test_a_file_of_rows_in_any_order(tmp_path, rng):
    array = rng.normal(size=(123_456, 2)).astype(np.float32)
    file = NpyWriter(tmp_path / "a.npy", 2, np.float32)
    for start in rng.permutation(np.arange(0, len(array), 10_000)):
        file.put(int(start), array[start : start + 10_000])
    file.close()
    file.close()
    assert (np.load(tmp_path / "a.npy") == array).all()
    file = NpyWriter(tmp_path / "b.npy", None, np.int64)
    file.append(np.arange(3))
    file.append(np.arange(2))
    file.close()
    assert np.load(tmp_path / "b.npy").tolist() == [0, 1, 2, 0, 1]
    file = NpyWriter(tmp_path / "c.npy", 2, np.float32)
    file.append(np.ones((5, 2)))
    file.abandon()
    refuses(tmp_path / "c.npy", "damaged")  # never a file that looks whole
