"""The hidden states of a language model or a sentence encoder on the lines of a text."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from identikit._progress import Progress, silent
from identikit.errors import InputError
from identikit.extract._folder import check_folder, filling, read_manifest
from identikit.extract._lines import Lines
from identikit.extract._load import load, load_tokenizer
from identikit.extract._rows import Rows, check_numbers, choose_pooling
from identikit.extract._states import States
from identikit.extract._tokens import Encoder


def text(
    model: str | os.PathLike[str],
    texts: str | os.PathLike[str] | Sequence[str],
    folder: str | os.PathLike[str],
    *,
    layers: str | Sequence[int] = "all",
    pooling: str | None = None,
    batch_size: int = 32,
    max_length: int | None = None,
    dtype: str = "float32",
    limit: int | None = None,
    special_tokens: bool = True,
    tokenizer: str | os.PathLike[str] | None = None,
    device: str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run a Hugging Face model over sentences and store its states; returns the manifest.

    For a language model the folder also holds f (the input of the head: for GPT-2 the state after
    the final norm, for BERT the output of the head's transform), g (the head's weights) and, if
    there is one, the bias: log p = log softmax(f gᵀ + bias), which is verified on the first
    sentence.

    Parameters
    ----------
    model : path or str
        A folder with config.json and .safetensors weights; or a name on the hub.
    texts : path or sequence of str
        A text file with one sentence per line (UTF-8, optionally .gz or .xz), or the sentences.
    folder : path
        Where the result is written: ``layer_00.npy`` …, ``f.npy``, ``g.npy``, ``bias.npy``,
        ``groups.npy`` (the line number of each row), ``tokens.npy``, ``positions.npy``, and
        ``manifest.json``.
    layers : "all", "last" or sequence of int
        Hidden states: 0 is the input of the first block, the last one is the model's output.
    pooling : str, optional
        none (one row per token), mean, first or last (one row per sentence); by default none for a
        language model, and for an encoder the pooling that its folder specifies, or mean.
    batch_size : int
        The largest number of sentences in a batch.
    max_length : int, optional
        Longer lines are truncated to this many tokens; by default the most that the model accepts.
    dtype : str
        The type of the stored rows: float32 or float16. The model itself runs in float32.
    limit : int, optional
        Read only this many lines.
    special_tokens : bool
        Whether the tokenizer adds its special tokens; their rows are stored like any others.
    tokenizer : path, optional
        The folder of the tokenizer, if it is not the model's.
    device : str, optional
        cpu, cuda, …; by default the first GPU, if there is one.
    overwrite : bool
        Replace a folder that an earlier extraction wrote.
    progress : callable, optional
        Called with (what is being done, done, of how many).
    """
    check_folder(folder, overwrite=overwrite)
    check_numbers(dtype, batch_size=batch_size, max_length=max_length, limit=limit)
    tell = progress or silent
    lines = Lines(texts, limit)
    tell("loading the model", 0, lines.sentences)
    loaded = load(model, "text", device)
    pooling = choose_pooling(loaded, pooling, "mean" if loaded.kind == "encoder" else "none")
    own = load_tokenizer(loaded.folder if tokenizer is None else Path(tokenizer))
    encoder = Encoder(own, loaded.model, max_length, special_tokens)
    windows = encoder.windows(lines)
    first = next(windows, None)
    if first is None:
        raise InputError(
            f"no line of the text gave a token with the tokenizer of {loaded.name}; its files may "
            "be incomplete"
        )
    states = States(loaded, encoder.inputs(first.ids[:1]), layers)
    with filling(folder, overwrite=overwrite) as out:
        rows = Rows(out, states, pooling, dtype)
        groups = out.rows("groups.npy", None, np.int64)
        sentences = tokens = 0
        for window in chain([first], windows):
            lengths = np.array([len(ids) for ids in window.ids], dtype=np.int64)
            if pooling == "none":
                starts = tokens + np.cumsum(lengths) - lengths
                groups.append(np.repeat(window.lines, lengths))
                ids = np.concatenate([np.array(ids, np.int64) for ids in window.ids])
                out.rows("tokens.npy", None, np.int64).append(ids)
                places = np.concatenate([np.arange(length) for length in lengths])
                out.rows("positions.npy", None, np.int64).append(places)
            else:
                starts = sentences + np.arange(len(lengths))
                groups.append(np.array(window.lines))
            for batch in window.batches(batch_size):
                given = states(encoder.inputs([window.ids[place] for place in batch]))
                rows.put(given, starts[batch].tolist(), lengths[batch].tolist())
                sentences += len(batch)
                tell("extracting", sentences, lines.sentences)
            tokens += int(lengths.sum())
        out.manifest = {
            "kind": loaded.kind,
            "model": {"name": loaded.name, "class": type(loaded.model).__name__},
            "pooling": pooling,
            "left_out": loaded.left_out,
            "rows": groups.rows,
            "sentences": sentences,
            "tokens": tokens,
            "dtype": dtype,
            "text": lines.describe(),
            "tokenizer": encoder.describe(),
            "groups": {"file": "groups.npy", "what": "number of the line, from 0, of each row"},
            **rows.finish(),
        }
    return read_manifest(folder)
