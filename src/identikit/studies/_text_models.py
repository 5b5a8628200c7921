"""Small GPT-2s, of transformers' own class: tokens, training, states. Needs PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from identikit.errors import InputError, require
from identikit.learn import Lookup, Run, SoftmaxNet, autoregressive, shuffled, train
from identikit.studies._data import Data
from identikit.studies._study import Record, Settings

PURPOSE = "training GPT-2"
# Entries of an attention head.
HEAD = 16
# The end of the text that nothing is trained on, as a share of its lines.
HELD_OUT = 0.05
# Windows that a test needs at least.
FEWEST = 10
# Windows that go through a model at a time.
PIECE = 64


class Body(nn.Module):
    """f of a language model: of (n, T) tokens the states after the final norm, (n, T, width)."""

    def __init__(self, transformer: Any) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(self, tokens: Tensor) -> Tensor:
        return self.states(tokens, 0)

    def states(self, tokens: Tensor, back: int) -> Tensor:
        """The states `back` layers before the last, as they enter the next block."""
        found = self.transformer(input_ids=tokens, output_hidden_states=back > 0)
        state: Tensor = found.hidden_states[-1 - back] if back else found.last_hidden_state
        return state


def gpt2(vocabulary: int, width: int, blocks: int, context: int) -> SoftmaxNet:
    """A new GPT-2 without dropout: f is the state after the final norm, g the token embedding."""
    if width % HEAD:
        raise InputError(f"a width is {width}; expected a multiple of {HEAD}, the size of a head")
    transformers = require("transformers", "hf", PURPOSE)
    config = transformers.GPT2Config(
        vocab_size=vocabulary, n_positions=context, n_embd=width, n_layer=blocks,
        n_head=width // HEAD, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config)
    g = Lookup(vocabulary, width)
    # One tensor for the head and the token embedding, as in every GPT-2.
    g.weight = model.lm_head.weight
    return SoftmaxNet(Body(model.transformer), g)


def tokens(settings: Settings, data: Data) -> Record:
    """The text as rows of `context` + 1 tokens, by byte-level BPE as GPT-2's: a unit of work."""
    s, lines = settings, data.text(settings.corpus, settings.max_words)
    tokenizer = require("tokenizers", "hf", PURPOSE).ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(
        lines, s.vocabulary, special_tokens=["<|endoftext|>"], show_progress=False
    )
    coded = [[0, *line.ids] for line in tokenizer.encode_batch(lines)]
    cut = round((1 - HELD_OUT) * len(coded))
    rows = {
        "train": _rows([token for line in coded[:cut] for token in line], s.context),
        "test": _rows([token for line in coded[cut:] for token in line], s.context)[: s.windows],
    }
    if len(rows["train"]) < s.batch or len(rows["test"]) < FEWEST:
        raise InputError(
            f"the text has {sum(map(len, coded))} tokens, too few for a batch of {s.batch} windows "
            f"of {s.context} and {FEWEST} held-out ones; give a longer text with --data"
        )
    return Record([{"vocabulary": tokenizer.get_vocab_size()}], rows)


def _rows(stream: list[int], context: int) -> NDArray[np.int64]:
    """Windows of one token more than the context: the last is the next window's first."""
    starts = np.arange(0, len(stream) - context, context)
    windows: NDArray[np.int64] = np.array(stream)[starts[:, None] + np.arange(context + 1)]
    return windows


def learn(
    width: int, seed: int, folder: Path, text: Mapping[str, NDArray[Any]], vocabulary: int,
    settings: Settings,
) -> Record:  # fmt: skip
    """Train one GPT-2; the record has its history and its weights before and after training."""
    s, rows, test = settings, *(torch.from_numpy(text[name]) for name in ("train", "test"))
    run = train(
        partial(gpt2, vocabulary, width, s.blocks, s.context), autoregressive,
        shuffled((rows,), s.batch), s.steps, seeds=[seed], lr=s.lr, snapshots=[0],
        validation=(test,), validate_every=max(1, s.steps // 10), folder=folder,
    )  # fmt: skip
    history = run.history.dropna()[["step", "loss", "validation"]]
    arrays = {
        f"{step}/{name}": tensor[0].numpy()
        for step, weights in run.weights.items()
        for name, tensor in weights.items()
    }
    rows_of: Any = history.assign(width=width, seed=seed).to_dict("records")
    return Record(rows_of, arrays)


def restored(run: tuple[int, int, Record], vocabulary: int, settings: Settings) -> Run:
    """The training result behind (width, seed, Record of `learn`)."""
    width, seed, record = run
    weights: dict[int, dict[str, Tensor]] = {}
    for key, array in record.arrays.items():
        step, name = key.split("/", 1)
        weights.setdefault(int(step), {})[name] = torch.from_numpy(array)[None]
    build = partial(gpt2, vocabulary, width, settings.blocks, settings.context)
    return Run((seed,), settings.steps, pd.DataFrame(record.rows), build, weights)


@torch.no_grad()
def states(run: Run, step: int, back: int, windows: NDArray[Any]) -> NDArray[np.float32]:
    """The states of every token of some windows at one layer, (tokens, width)."""
    body: Any = run.net(run.seeds[0], step).f
    given = torch.from_numpy(windows)
    pieces = [given[at : at + PIECE] for at in range(0, len(given), PIECE)]
    found = torch.cat([body.states(piece, back).flatten(0, 1) for piece in pieces])
    return np.asarray(found.numpy(), np.float32)
