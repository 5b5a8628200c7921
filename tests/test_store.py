"""What long work keeps on disk: whole or not at all, and never mixed with other work."""

import json

import numpy as np
import pytest
from safetensors.numpy import save

from identikit import InputError
from identikit._store import (
    DamagedError,
    Pace,
    check_same,
    describe,
    differences,
    open_folder,
    read,
    write,
)


def test_a_file_holds_a_document_and_arrays(tmp_path):
    arrays = {"b": np.array([True]), "c": np.float32(2), "a": np.arange(6.0).reshape(2, 3).T}
    write(tmp_path / "x.safetensors", {"step": 3, "names": ["é"]}, arrays)
    document, back = read(tmp_path / "x.safetensors")
    assert document == {"step": 3, "names": ["é"]}
    assert list(back) == ["a", "b", "c"]
    for name, array in arrays.items():
        assert np.array_equal(back[name], array)
        assert back[name].dtype == np.asarray(array).dtype


def test_what_is_not_a_number_is_refused(tmp_path):
    with pytest.raises(InputError, match="'a' is object"):
        write(tmp_path / "x.safetensors", {}, {"a": np.array([None])})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda _: b"", lambda _: b"\xff" * 99])
def test_a_damaged_file_is_said_to_be_one(tmp_path, damage):
    path = tmp_path / "x.safetensors"
    write(path, {}, {"a": np.arange(9.0)})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DamagedError, match="damaged"):
        read(path)


def test_a_flipped_bit_anywhere_is_found(tmp_path):
    path = tmp_path / "x.safetensors"
    write(path, {"rate": 1e-5, "name": "é"}, {"a": np.arange(9.0), "b": np.arange(3)})
    data = path.read_bytes()
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        with pytest.raises(DamagedError):
            read(path)


@pytest.mark.parametrize("look", [read, describe])
def test_no_file_is_no_damage(tmp_path, look):
    with pytest.raises(FileNotFoundError):
        look(tmp_path / "x.safetensors")
    with pytest.raises(InputError, match="is a directory"):
        look(tmp_path)


def test_a_file_can_be_described_and_spared(tmp_path):
    path = tmp_path / "x.safetensors"
    write(path, {"step": 3}, {"a": np.zeros((2, 3)), "b": np.zeros(4, np.int64)})
    assert describe(path) == ({"step": 3}, {"a": ("float64", (2, 3)), "b": ("int64", (4,))})
    with pytest.raises(InputError, match="exists already"):
        write(path, {}, {}, overwrite=False)
    assert describe(path)[0] == {"step": 3}


@pytest.mark.parametrize("text", ["[]", "{", "[" * 100_000, '{"a":' * 100_000])
@pytest.mark.parametrize("look", [read, describe])
def test_a_document_that_is_none_is_damage(tmp_path, text, look):
    path = tmp_path / "x.safetensors"
    path.write_bytes(save({"a": np.zeros(2)}, {"identikit": text}))
    with pytest.raises(DamagedError):
        look(path)


def test_a_folder_belongs_to_one_task(tmp_path):
    folder, asked = tmp_path / "run", {"settings": {"steps": 10, "rate": 0.1}}
    assert open_folder(folder, "run.json", asked, "a training", "delete it") == asked
    half = folder / ".seed0.safetensors.abc"
    half.touch()
    header = json.loads((folder / "run.json").read_text()) | {"stacked": True}
    (folder / "run.json").write_text(json.dumps(header))
    assert open_folder(folder, "run.json", asked, "a training", "delete it") == header
    assert not half.exists()
    other = {"settings": {"steps": 20, "rate": 0.1}}
    with pytest.raises(InputError, match=r"a training .*: steps was 10 and is now 20.*delete it"):
        open_folder(folder, "run.json", other, "a training", "delete it")
    (folder / "run.json").write_text("{")
    with pytest.raises(DamagedError, match="damaged"):
        open_folder(folder, "run.json", asked, "a training", "delete it")
    with pytest.raises(InputError, match="is a file"):
        open_folder(folder / "run.json", "run.json", asked, "a training", "delete it")


def test_many_differences_are_counted():
    before, now = {str(key): key for key in range(9)}, {str(key): -key for key in range(9)}
    assert len(differences(before, now)) == 8
    with pytest.raises(InputError, match="and 4 more"):
        check_same("x", before, now, "work", "stop")


def test_writing_takes_a_small_share_of_the_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    pace = Pace(5.0)
    assert not pace.due()
    now[0] = 5.0
    assert pace.due()
    now[0] = 6.0
    pace.written(began=5.0)
    now[0] = 25.0
    assert not pace.due()
    now[0] = 26.0
    assert pace.due()
    always = Pace(0.0)
    now[0] = 27.0
    always.written(began=26.0)
    assert always.due()
