"""Safety of what is read: no lie costs memory, no file runs code, nothing leads elsewhere."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import tracemalloc
import zipfile
import zlib
from contextlib import closing, contextmanager, suppress
from functools import reduce

import numpy as np
import pytest

from identikit.errors import InputError
from identikit.sources import memory, open_source, read_labels
from identikit.sources.registry import id_readers, openers


@contextmanager
def little_memory(megabytes=4):
    """Fail if the block takes more memory at any moment."""
    openers()  # which loads their modules
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes * 2**20
    finally:
        tracemalloc.stop()


def refuses(view, *parts):
    """Assert an InputError, at opening or while reading, whose message holds every part."""
    with pytest.raises(InputError) as caught, closing(open_source(view)) as source:
        source.read(0, source.rows)
    for part in parts:
        assert str(part) in str(caught.value), caught.value


def test_the_memory_measurement_notices_an_allocation():
    with pytest.raises(AssertionError), little_memory():
        np.ones(10**6)


# Lengths and shapes that are not true


def npy_header(shape, dtype="<f4", fortran=False):
    stream = io.BytesIO()
    header = {"descr": dtype, "fortran_order": fortran, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue()


@pytest.mark.parametrize("fortran", [False, True])
def test_npy_shapes_are_checked_before_memory_is_taken(tmp_path, fortran):
    path = tmp_path / "x.npy"
    for shape in ((10**15, 4), (10**9, 10**9), (3, 10**12)):
        path.write_bytes(npy_header(shape, fortran=fortran) + b"\0" * 1000)
        with little_memory():
            refuses(path, "truncated", str(shape))


def test_npy_headers_are_checked_before_memory_is_taken(tmp_path):
    path = tmp_path / "x.npy"
    for version, length in ((1, 2**16 - 1), (2, 10**9), (3, 2**32 - 1)):
        start = (
            b"\x93NUMPY" + bytes([version, 0]) + length.to_bytes(2 if version == 1 else 4, "little")
        )
        path.write_bytes(start)
        os.truncate(path, 10**9)  # a hole: the header would fit
        with little_memory():
            refuses(path, f"announces a header of {length} bytes")


def test_npz_headers_are_checked_before_they_are_unpacked(tmp_path):
    length = 64 * 2**20
    start = b"\x93NUMPY\x02\x00" + length.to_bytes(4, "little")
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("e.npy", start + b" " * length)
    with little_memory():
        refuses(tmp_path / "x.npz", f"announces a header of {length} bytes")


@pytest.mark.parametrize("length", [10**9 - 8, 10**8 + 1, 2**63])
def test_safetensors_headers_are_checked_before_memory_is_taken(tmp_path, length):
    path = tmp_path / "x.safetensors"
    path.write_bytes(length.to_bytes(8, "little"))
    os.truncate(path, 10**9)
    with little_memory():
        refuses(path, f"a header of {length} bytes")


def test_safetensors_shapes_are_checked_before_memory_is_taken(tmp_path):
    for shape, end in (([10**15, 4], 16 * 10**15), ([10**15, 4], 16), ([2, 2], 10**15)):
        entry = {"e": {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}}
        text = json.dumps(entry).encode()
        (tmp_path / "x.safetensors").write_bytes(
            len(text).to_bytes(8, "little") + text + b"\0" * 16
        )
        with little_memory():
            refuses(tmp_path / "x.safetensors")


def test_shapes_without_rows_behind_them(tmp_path):
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("plain", (10**15, 4), "f4")
        file.create_dataset("chunks", (10**15, 4), "f4", chunks=(10**6, 4))[:3] = 1
    for version in (2, 3):
        array = zarr.create_array(
            tmp_path / f"{version}.zarr",
            shape=(10**15, 4),
            chunks=(10**3, 4),
            dtype="f4",
            zarr_format=version,
        )
        array[:3] = 1
    with little_memory():
        refuses(f"{tmp_path}/x.h5::plain", "incomplete")
        refuses(f"{tmp_path}/x.h5::chunks", "incomplete: 1 of its 1000000000 chunks")
        refuses(tmp_path / "2.zarr", "incomplete: 1 of its 1000000000000 chunks")
        refuses(tmp_path / "3.zarr", "incomplete: 1 of its 1000000000000 chunks")


# Archives that are not what they say


def packed(path, content, declared=None, checksum=None, method=zipfile.ZIP_DEFLATED):
    """An archive of one member, whose size or checksum is then written over in the directory."""
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("e.npy", content)
    data = bytearray(path.read_bytes())
    place = data.rindex(b"PK\x01\x02")
    if declared is not None:
        struct.pack_into("<I", data, place + 24, declared)
    if checksum is not None:
        struct.pack_into("<I", data, place + 16, checksum)
    path.write_bytes(data)
    return path


def rows(shape, value=0, fortran=False):
    return npy_header(shape, "|u1", fortran) + bytes([value]) * (shape[0] * shape[1])


@pytest.mark.parametrize("fortran", [False, True])
def test_a_size_that_no_deflated_member_can_have(tmp_path, fortran):
    content = npy_header((10**6, 4000), "|u1", fortran)
    path = packed(tmp_path / "x.npz", content, declared=len(content) + 4 * 10**9)
    with little_memory():
        refuses(path, "truncated, damaged or malicious", "'e.npy'", f"{len(content) + 4 * 10**9}")
        with pytest.raises(InputError, match="malicious"):
            read_labels(path)


def test_the_largest_ratio_that_deflate_reaches_is_believed(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", e=np.zeros((10**6, 8), "u1"))
    with zipfile.ZipFile(tmp_path / "x.npz") as archive:
        (info,) = archive.infolist()
    assert 1000 < info.file_size / info.compress_size < 1032
    with closing(open_source(tmp_path / "x.npz")) as source:
        assert not source.read(999_990, 10**6).any()


@pytest.mark.parametrize("fortran", [False, True])
def test_a_member_that_unpacks_to_more_than_declared(tmp_path, fortran):
    # The header is believed, so the array ends where the declared size does.
    short, long = rows((50, 20), 1, fortran), rows((50, 20), 1, fortran) + b"\1" * 5000
    refuses(packed(tmp_path / "x.npz", long, declared=len(short)), tmp_path / "x.npz", "CRC")
    # With a checksum to match it is a whole member, and what comes after is never unpacked.
    path = packed(tmp_path / "x.npz", long, len(short), zlib.crc32(short))
    with closing(open_source(path)) as source:
        assert source.read(0, 99).shape == (50, 20)


def test_a_member_that_unpacks_to_less_than_declared(tmp_path):
    content = npy_header((100, 20), "|u1") + np.random.default_rng(0).bytes(1000)
    refuses(packed(tmp_path / "x.npz", content, declared=len(content) + 1000), tmp_path / "x.npz")


def test_a_stored_member_with_two_sizes(tmp_path):
    content = rows((50, 20))
    path = packed(tmp_path / "x.npz", content, len(content) - 100, method=zipfile.ZIP_STORED)
    refuses(path, "truncated, damaged or malicious")


def test_what_is_unpacked_in_memory_is_bounded(tmp_path, monkeypatch):
    """A member in Fortran order, a chunk: refused if large and much larger than its bytes."""
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    monkeypatch.setattr(memory, "LARGEST_UNPACKED", 10**5)
    noise = np.random.default_rng(0).integers(0, 255, (10**4, 20), "u1")
    arrays = {
        "noise": noise,
        "small": np.ones((10**3, 20), "u1"),
        "trap": np.ones((10**4, 20), "u1"),
    }
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, chunks=array.shape, compression="gzip")
    group = zarr.open_group(tmp_path / "x.zarr", mode="w")
    for name, array in arrays.items():
        group.create_array(name, data=array, chunks=array.shape)
    np.savez_compressed(tmp_path / "x.npz", **{k: np.asfortranarray(v) for k, v in arrays.items()})
    for file in ("x.h5", "x.zarr", "x.npz"):
        for name in ("noise", "small"):
            with closing(open_source(f"{tmp_path}/{file}::{name}")) as source:
                np.testing.assert_array_equal(source.read(0, source.rows), arrays[name])
        refuses(f"{tmp_path}/{file}::trap", "would unpack", "in memory", "without compression")
    # In C order nothing is unpacked whole, and so nothing is refused.
    np.savez_compressed(tmp_path / "c.npz", e=arrays["trap"])
    with closing(open_source(tmp_path / "c.npz")) as source:
        assert source.read(0, 10**4).all()


# Pickles


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_the_trap_snaps_if_it_is_unpickled(tmp_path):
    pickle.loads(pickle.dumps(Trap(tmp_path / "sprung")))
    assert (tmp_path / "sprung").is_dir()


@pytest.mark.parametrize("how", ["archive", "in a dictionary", "beside a tensor", "bare"])
def test_pt_files_run_no_code(tmp_path, how):
    torch = pytest.importorskip("torch")
    path, trap = tmp_path / "x.pt", Trap(tmp_path / "sprung")
    if how == "bare":
        path.write_bytes(pickle.dumps(trap))
    else:
        what = {
            "archive": trap,
            "in a dictionary": {"e": trap},
            "beside a tensor": {"a": torch.ones(3, 2), "e": trap},
        }[how]
        torch.save(what, path)
    refuses(path, "never loaded")
    assert not (tmp_path / "sprung").exists()


def test_npy_files_run_no_code(tmp_path):
    array = np.array([[Trap(tmp_path / "sprung")]], dtype=object)
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    refuses(tmp_path / "x.npy", "never loaded")
    np.savez(tmp_path / "x.npz", e=array)
    refuses(tmp_path / "x.npz", "never loaded")
    assert not (tmp_path / "sprung").exists()


def test_zarr_stores_run_no_code(tmp_path, monkeypatch):
    zarr = pytest.importorskip("zarr")
    # Recent versions of its codecs refuse by themselves, older ones do not.
    monkeypatch.setattr("numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    store = tmp_path / "x.zarr"
    store.mkdir()
    metadata = {
        "zarr_format": 2,
        "shape": [3],
        "chunks": [3],
        "dtype": "|O",
        "compressor": None,
        "fill_value": "",
        "order": "C",
        "filters": [{"id": "vlen-utf8"}, {"id": "pickle", "protocol": 5}],
    }
    (store / ".zarray").write_text(json.dumps(metadata))
    (store / "0").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    refuses(store, "pickle", "never loaded")
    group = tmp_path / "g.zarr"
    group.mkdir()
    (group / ".zgroup").write_text('{"zarr_format": 2}')
    store.rename(group / "ids")
    with pytest.raises(InputError, match="encoded with pickle"):
        list(id_readers()[".zarr"](group, "ids", "the ids"))
    assert not (tmp_path / "sprung").exists()
    with suppress(Exception):  # a folder's name is no array, and it says so in many ways
        zarr.open_array(group / "ids", mode="r")[:]
    assert (tmp_path / "sprung").exists()  # so the trap was a real one


def test_pt_files_whose_tensors_are_larger_than_they(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "x.pt"
    torch.save(torch.ones(300, 301), path)
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    (name,) = (name for name in members if name.endswith("data.pkl"))
    size, number = b"M" + struct.pack("<H", 300), b"J" + struct.pack("<i", 300 * 301)
    pickled = members[name]
    assert pickled.count(size) == pickled.count(number) == 1

    def save(changed, method=zipfile.ZIP_STORED):
        with zipfile.ZipFile(path, "w", method) as archive:
            for member, content in (members | changed).items():
                archive.writestr(member, content)

    larger, longer = b"M" + struct.pack("<H", 60000), b"J" + struct.pack("<i", 2 * 10**9)
    negative = b"J" + struct.pack("<i", -5)
    for changes in ({size: larger}, {size: larger, number: longer}, {size: negative}):
        save({name: reduce(lambda data, change: data.replace(*change), changes.items(), pickled)})
        refuses(path, "cannot be read as plain tensors")
    # A storage that is said to be longer ends with the file, and the tensor is there.
    save({name: pickled.replace(number, longer)})
    with closing(open_source(path)) as source:
        assert (source.read(0, 301) == np.ones((300, 301))).all()
    save({}, zipfile.ZIP_DEFLATED)
    refuses(path, "is compressed, which PyTorch never does")


# What leads elsewhere


@pytest.fixture
def secret(tmp_path):
    """A folder beside the one that is read."""
    folder = tmp_path / "secret"
    folder.mkdir()
    np.save(folder / "part-1.npy", np.full((3, 2), 7.0))
    return folder


def test_links_out_of_a_folder_of_shards(tmp_path, secret):
    folder = tmp_path / "x"
    folder.mkdir()
    np.save(folder / "part-0.npy", np.ones((3, 2)))
    (folder / "part-1.npy").symlink_to(secret / "part-1.npy")
    refuses(folder, "'part-1.npy' is a link to", "not followed", folder)
    (folder / "part-1.npy").unlink()
    (folder / "part-1.npy").symlink_to("../secret/part-1.npy")
    refuses(folder, "'part-1.npy' is a link to")
    (folder / "part-1.npy").unlink()
    (folder / "part-1.npy").symlink_to(folder / "part-1.npy")
    refuses(folder, folder)
    (folder / "part-1.npy").unlink()
    (folder / "manifest.json").symlink_to(secret / "part-1.npy")
    refuses(folder, "'manifest.json' is a link to")
    (folder / "manifest.json").unlink()
    # A link that stays, and a link to the folder as a whole, are the user's own affair.
    (folder / "part-1.npy").symlink_to("part-0.npy")
    (tmp_path / "y").symlink_to(folder)
    with closing(open_source(tmp_path / "y")) as source:
        assert source.rows == 6


@pytest.mark.parametrize("what", ["chunk", "folder", "array"])
def test_links_out_of_a_zarr_store(tmp_path, what):
    zarr = pytest.importorskip("zarr")
    for name, value in (("x.zarr", 1), ("y.zarr", 7)):
        zarr.open_group(tmp_path / name, mode="w").create_array(
            "e", data=np.full((4, 2), value), chunks=(2, 2)
        )
    inside = {"chunk": "e/c/0/0", "folder": "e/c", "array": "e"}[what]
    (tmp_path / "x.zarr" / inside).rename(tmp_path / "away")
    (tmp_path / "x.zarr" / inside).symlink_to(tmp_path / "y.zarr" / inside)
    refuses(f"{tmp_path}/x.zarr::e", "is a link to", "not followed")


def test_names_inside_a_zarr_store_are_not_paths(tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.create_array(tmp_path / "secret", data=np.full((3, 2), 7.0), zarr_format=2)
    store = tmp_path / "x.zarr"
    store.mkdir()
    (store / ".zgroup").write_text('{"zarr_format": 2}')
    array = json.loads((tmp_path / "secret" / ".zarray").read_text())
    listed = {".zgroup": {"zarr_format": 2}, "../secret/.zarray": array, "../secret/.zattrs": {}}
    (store / ".zmetadata").write_text(
        json.dumps({"zarr_consolidated_format": 1, "metadata": listed})
    )
    refuses(store, "holds no arrays")
    refuses(f"{store}::../secret", "holds no arrays")
    zarr.create_array(store / "e", data=np.ones((3, 2)), zarr_format=2)
    refuses(f"{store}::../secret", "no array named '../secret'", "'e'")


def test_hdf5_files_lead_nowhere_else(tmp_path):
    h5py = pytest.importorskip("h5py")
    X = np.full((3, 2), 7.0)
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["e"] = X
    X.tofile(tmp_path / "secret.bin")
    layout = h5py.VirtualLayout((3, 2), "f8")
    layout[:] = h5py.VirtualSource("secret.h5", "e", (3, 2))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["link"] = h5py.ExternalLink("secret.h5", "/e")
        file["group"] = h5py.ExternalLink("secret.h5", "/")
        file["soft"] = h5py.SoftLink("/group/e")
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset(
            "stored", (3, 2), "f8", external=[(str(tmp_path / "secret.bin"), 0, 48)]
        )
    with h5py.File(tmp_path / "x.h5") as file:  # so all of them do lead there
        for name in ("link", "group/e", "soft", "virtual", "stored"):
            np.testing.assert_array_equal(file[name][:], X)
    for name in ("link", "group/e", "soft"):
        refuses(f"{tmp_path}/x.h5::{name}", "leads into another file ('secret.h5')")
    for name in ("virtual", "stored"):
        refuses(f"{tmp_path}/x.h5::{name}", "keeps its rows in other files")
    refuses(tmp_path / "x.h5", "holds 2 arrays", "'stored', 'virtual'")
    with pytest.raises(InputError, match="leads into another file"):
        list(id_readers()[".h5"](tmp_path / "x.h5", "link", "the ids"))
