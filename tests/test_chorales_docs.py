"""docs/chorales.py: what it makes of notes, without the corpus that it reads them from."""

from __future__ import annotations

import importlib.util
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat

from conftest import close

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def script(monkeypatch):
    spec = importlib.util.spec_from_file_location("docs_chorales", DOCS / "chorales.py")
    module = importlib.util.module_from_spec(spec)
    # Its named tuples have annotations as strings, which are looked up in the module.
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def sounding(frames: np.ndarray) -> list[list[int]]:
    return [(np.flatnonzero(frame) + 21).tolist() for frame in frames]


def test_frames_have_what_sounds_at_every_quarter_note(script):
    notes = [
        (0.0, 1.0, 60),
        (0.0, 3.5, 48),
        (1.0, 0.5, 62),
        # Neither an eighth note after the beat nor a grace note sounds at a sample.
        (1.5, 0.5, 64),
        (2.0, 0.0, 66),
        # Triplets end exactly where the next note begins.
        (Fraction(7, 3), Fraction(2, 3), 65),
        (3.0, 1.0, 67),
    ]
    assert sounding(script.frames(notes)) == [[48, 60], [48, 62], [48], [48, 67]]
    assert sounding(script.frames(notes, 7))[1] == [55, 69]
    assert script.frames(notes).dtype == np.uint8
    assert sounding(script.frames([(0.0, 1.0, 21), (0.0, 1.0, 108)])) == [[21, 108]]


def test_chorales_move_up_to_c(script):
    for tonic in range(12):
        assert (tonic + script.semitones(tonic)) % 12 == 0
    # What they are moved by in the original, from C, D, E, F, G, A, B flat and B.
    tonics = (0, 2, 4, 5, 7, 9, 10, 11)
    assert [script.semitones(tonic) for tonic in tonics] == [12, 10, 8, 7, 17, 15, 14, 13]


def test_most_votes_decide_on_the_tonic_and_then_the_first(script):
    assert script.most_named([4, 9, 9]) == 9
    assert script.most_named([11, 6, 4]) == 11


def test_duplicates_are_found_in_another_octave_and_with_other_repeats(script):
    chords = [[60, 64], [62, 65], [59, 67], [60, 64]]
    once = [(float(t), 1.0, pitch) for t, chord in enumerate(chords) for pitch in chord]
    twice = once + [(t + 4, held, pitch) for t, held, pitch in once]
    third = [(t, held, pitch - (t == 2)) for t, held, pitch in once]
    # G is moved by 17 and F by 7, so that these are an octave apart.
    lower = [(t, held, pitch - 2) for t, held, pitch in once]
    scores = [
        script.Score("first", [*once, (4.0, 1.0, 60), (4.0, 1.0, 64)], 7),
        script.Score("repeated", twice, 7),
        script.Score("lower", [*lower, (4.0, 1.0, 58), (4.0, 1.0, 62)], 5),
        script.Score("other", third, 7),
    ]
    left_out = script.LeftOut([], [], [])
    kept = script.distinct(scores, left_out)
    assert left_out == ([], [], ["repeated", "lower"])
    assert [len(piece) for piece in kept] == [5, 4]
    assert sounding(kept[0])[0] == [77, 81]


@pytest.mark.parametrize("count", [7, 358, 382])
def test_the_split_has_every_chorale_once_in_the_proportions_of_the_original(script, count):
    parts = script.split(count)
    assert list(parts) == ["traindata", "validdata", "testdata"]
    assert sorted(np.concatenate(list(parts.values()))) == list(range(count))
    for name, wanted in script.PARTS.items():
        assert abs(len(parts[name]) - count * wanted / 382) <= 1
        assert (parts[name] == script.split(count)[name]).all()


def test_the_file_is_read_and_has_its_source(script, tmp_path):
    piece = script.frames([(0.0, 2.0, 60), (2.0, 2.0, 62)])
    parts = {"traindata": [piece, piece[:3]], "validdata": [piece], "testdata": [piece[1:]]}
    path = tmp_path / "JSB_Chorales.mat"
    script.write(path, parts, "made by hand")
    assert [each.name for each in tmp_path.iterdir()] == ["JSB_Chorales.mat"]
    assert loadmat(path)["source"].item() == "made by hand"
    pytest.importorskip("torch")
    from identikit.studies._weight_problems import read_chorales

    found = read_chorales(path)
    for name, pieces in parts.items():
        for own, read in zip(pieces, found[name.removesuffix("data")], strict=True):
            assert (own == read).all()


def test_a_failed_write_is_said_and_leaves_nothing(script, tmp_path, monkeypatch, capsys):
    def full(file, *_args, **_options):
        file.write_bytes(b"half")
        raise OSError("No space left on device")

    package = type(sys)("music21")
    package.__version__ = "9.9"
    monkeypatch.setitem(sys.modules, "music21", package)
    scores = [script.Score("one", [(0.0, 4.0, 60)], 0)] * 3
    monkeypatch.setattr(script, "read_scores", lambda: (scores, script.LeftOut([], [], [])))
    monkeypatch.setattr(script, "savemat", full)
    with pytest.raises(SystemExit):
        script.main([str(tmp_path)])
    assert "No space left on device" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_accuracies_and_the_summary(script):
    piece = script.frames([(0.0, 3.0, 60), (3.0, 1.0, 62)])
    # Targets are {60} and {62}, both after {60}.
    silence, copy = script.accuracies([piece])
    close(silence, 1 - 2 / 176, 1e-12)
    close(copy, 1 - 2 / 176, 1e-12)
    shown = script.summary({"testdata": [piece]}, script.LeftOut(["a", "b"], [], ["c"]))
    assert "2 scores of more or fewer than four parts" in shown
    assert "1 duplicates (c)" in shown
    assert "testdata: 1 chorales, 4 frames; silence scores 0.9886" in shown


def test_what_cannot_be_done_is_said_before_scores_are_read(script, tmp_path, capsys, monkeypatch):
    def said(folder: Path) -> str:
        with pytest.raises(SystemExit) as stopped:
            script.main([str(folder)])
        assert stopped.value.code == 2
        return capsys.readouterr().err

    monkeypatch.setitem(sys.modules, "music21", None)
    assert "install it with: pip install music21" in said(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    monkeypatch.setitem(sys.modules, "music21", type(sys)("music21"))
    sys.modules["music21"].__version__ = "0"
    path = tmp_path / "JSB_Chorales.mat"
    path.write_bytes(b"mine")
    assert f"{path} exists, and is not overwritten" in said(tmp_path)
    assert path.read_bytes() == b"mine"
    assert "cannot be made" in said(path / "inside")


def test_chorales_go_all_the_way(script, tmp_path, capsys, monkeypatch):
    """With scores in place of the corpus."""
    rng = np.random.default_rng(0)
    scores = [
        script.Score(str(k), [(float(t), 1.0, int(p)) for t, p in enumerate(tune)], 0)
        for k, tune in enumerate(rng.integers(50, 70, (20, 8)))
    ]
    package = type(sys)("music21")
    package.__version__ = "9.9"
    monkeypatch.setitem(sys.modules, "music21", package)
    monkeypatch.setattr(script, "read_scores", lambda: (scores, script.LeftOut([], [], [])))
    script.main([str(tmp_path / "a" / "folder")])
    found = loadmat(tmp_path / "a" / "folder" / "JSB_Chorales.mat")
    assert [found[name].shape for name in script.PARTS] == [(1, 12), (1, 4), (1, 4)]
    assert found["source"].item() == (
        "20 chorales from the corpus of music21 9.9, by docs/chorales.py; this is not the "
        "original split of JSB Chorales"
    )
    assert "silence scores 0.9886" in capsys.readouterr().out
