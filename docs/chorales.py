"""Make a file with the layout of JSB_Chorales.mat from the chorales in music21's corpus.

python docs/chorales.py FOLDER

This needs music21 (pip install music21) and a minute on an idle machine. As in JSB Chorales
(Boulanger-Lewandowski, Bengio and Vincent 2012), chorales are in C major or C minor, repeats are
written out, and the 88 keys are sampled at every quarter note. The split is another one, and the
variable `source` of the file says so.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.io import savemat

from identikit._files import replacing
from identikit.errors import InputError

Notes = Sequence[tuple[float | Fraction, float | Fraction, int]]
Frames = NDArray[np.uint8]

NAME = "JSB_Chorales.mat"
#: The keys of a piano, and the MIDI pitch of the lowest.
KEYS, LOWEST = 88, 21
#: The parts of the original and how many chorales they have.
PARTS = {"traindata": 229, "validdata": 76, "testdata": 77}
#: Accuracies on the original's test data.
SILENCE, COPY = 0.9558, 0.9436


class Score(NamedTuple):
    """The notes of a chorale, as (onset, duration, pitch) in quarter notes, and its tonic."""

    name: str
    notes: Notes
    tonic: int


class LeftOut(NamedTuple):
    """Names of scores that are not used, by the reason."""

    parts: list[str]
    unreadable: list[str]
    duplicates: list[str]


def frames(notes: Notes, up: int = 0) -> Frames:
    """Which keys sound at every quarter note (T, 88), with all notes higher by some semitones."""
    found = np.zeros((max(ceil(on + held) for on, held, _ in notes), KEYS), np.uint8)
    for on, held, pitch in notes:
        found[ceil(on) : ceil(on + held), pitch + up - LOWEST] = 1
    return found


def semitones(tonic: int) -> int:
    """How far up a chorale moves to C: as in the original, 7 semitones from F and 17 from G."""
    return (-tonic - 7) % 12 + 7


def most_named(tonics: Sequence[int]) -> int:
    """The tonic that is named most often, and the first of those named equally often."""
    return Counter(tonics).most_common(1)[0][0]


def changes(piece: Frames) -> frozenset[tuple[bytes, bytes]]:
    """All steps from one chord to the next, whatever the octave of its notes."""
    by_octave = np.pad(piece, ((0, 0), (0, -KEYS % 12))).reshape(len(piece), -1, 12)
    chords = [chord.tobytes() for chord in by_octave.max(axis=1)]
    return frozenset(pairwise(chords))


def split(count: int) -> dict[str, NDArray[np.int64]]:
    """The places of so many chorales in the three parts: at random, but always the same."""
    ends = np.cumsum(list(PARTS.values())) * count / sum(PARTS.values())
    order = np.random.default_rng(0).permutation(count)
    return dict(zip(PARTS, np.split(order, np.rint(ends[:-1]).astype(int))))


def accuracies(pieces: Sequence[Frames]) -> tuple[float, float]:
    """Accuracy over keys, from the third frame on, of silence and of the frame before."""
    y, before = (np.concatenate([piece[a:b] for piece in pieces]) for a, b in ((2, None), (1, -1)))
    return float((y == 0).mean()), float((y == before).mean())


def write(path: Path, parts: dict[str, list[Frames]], source: str) -> None:
    """Write all parts, or nothing."""
    cells: dict[str, Any] = {"source": source}
    for name, pieces in parts.items():
        cells[name] = np.empty((1, len(pieces)), dtype=object)
        cells[name][0, :] = pieces
    with replacing(path, overwrite=False) as temporary:
        savemat(temporary, cells, appendmat=False, do_compression=True)


def tonic_of(score: Any, notes: Notes) -> int:
    """The tonic of a score.

    An analysis takes some keys for their neighbours, some chorales end on the dominant, and old
    key signatures lack an accidental. Of 36 chorales of the original's test data, these three have
    the tonic of 31, 33 and 27, and a vote of the three that of 35. To vote was decided on 24 of
    them, all right; of the other 12, 11 are.
    """
    last = max(on + held for on, held, _ in notes)
    bass = min(pitch for on, held, pitch in notes if on + held == last)
    written = score.parts[0].recurse().getElementsByClass("Key").first()
    tonics = [score.analyze("key").tonic.pitchClass, bass % 12]
    return most_named(tonics if written is None else [*tonics, written.tonic.pitchClass])


def read_scores() -> tuple[list[Score], LeftOut]:
    """The four-part scores of Bach in the corpus, in the order of their names."""
    from music21.corpus import parse
    from music21.corpus.corpora import CoreCorpus
    from music21.exceptions21 import Music21Exception

    # The other files are analyses without notes, and Humdrum copies of three of these chorales.
    paths = [p for p in CoreCorpus().getComposer("bach") if p.suffix in (".mxl", ".xml")]
    found, left_out = [], LeftOut([], [], [])
    for place, path in enumerate(sorted(paths, key=lambda path: path.name)):
        if place % 50 == 0:
            print(f"{place} of {len(paths)} scores read", file=sys.stderr, flush=True)
        try:
            score = parse(path)
            if len(score.parts) != 4:
                left_out.parts.append(path.stem)
                continue
            notes = [
                (note.offset, note.quarterLength, pitch.midi)
                for part in score.expandRepeats().parts
                for note in part.flatten().notes
                for pitch in note.pitches
            ]
            found.append(Score(path.stem, notes, tonic_of(score, notes)))
        except Music21Exception:
            left_out.unreadable.append(path.stem)
    return found, left_out


def distinct(scores: Sequence[Score], left_out: LeftOut) -> list[Frames]:
    """The frames of all scores but duplicates of earlier ones."""
    # Two files of a chorale may differ in key and octave, and in whether a repeat is marked. Other
    # harmonisations of a melody share nine tenths of their changes at most.
    kept: dict[frozenset[tuple[bytes, bytes]], Frames] = {}
    for score in scores:
        own = frames(score.notes, semitones(score.tonic))
        if changes(own) in kept:
            left_out.duplicates.append(score.name)
        else:
            kept[changes(own)] = own
    return list(kept.values())


def summary(parts: dict[str, list[Frames]], left_out: LeftOut) -> str:
    """What the file has, beside what is known of the original."""
    lines = [
        f"Left out: {len(left_out.parts)} scores of more or fewer than four parts, "
        f"{len(left_out.unreadable)} that could not be read, and {len(left_out.duplicates)} "
        f"duplicates ({', '.join(left_out.duplicates) or 'none'})."
    ]
    for name, pieces in parts.items():
        silence, copy = accuracies(pieces)
        lines.append(
            f"{name}: {len(pieces)} chorales, {sum(map(len, pieces))} frames; silence scores "
            f"{silence:.4f} and the frame before {copy:.4f}"
        )
    lines.append(
        f"testdata of the original: {PARTS['testdata']} chorales, 4725 frames; silence scores "
        f"{SILENCE} and the frame before {COPY}"
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help=f"the data folder, in which {NAME} is written")
    path = parser.parse_args(arguments).folder / NAME
    if path.exists():
        parser.error(f"{path} exists, and is not overwritten")
    try:
        from music21 import __version__
    except ImportError:
        parser.error("this needs music21; install it with: pip install music21")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"{path.parent} cannot be made ({error.strerror})")
    scores, left_out = read_scores()
    pieces = distinct(scores, left_out)
    parts = {name: [pieces[i] for i in places] for name, places in split(len(pieces)).items()}
    source = (
        f"{len(pieces)} chorales from the corpus of music21 {__version__}, by docs/chorales.py; "
        "this is not the original split of JSB Chorales"
    )
    try:
        write(path, parts, source)
    except InputError as error:
        parser.error(str(error))
    print(f"{summary(parts, left_out)}\nwritten to {path}")


if __name__ == "__main__":
    main()
