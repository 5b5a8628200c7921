"""How much storing every layer of a small GPT-2 costs, against the forward passes alone.

python benchmarks/extract.py [--quick] [--check]

4 layers, width 256, vocabulary 5,000, 2,000 sentences of 5 to 60 tokens. The floor is the passes
over the very same batches, tokenised and padded beforehand: through the whole model, logits
included, and through its trunk alone, which is all that the extraction cannot avoid. Extraction is
the whole call: loading the model, reading and tokenising the text, all layers, f and g on the disk.
Floor and call take turns, and the ratio is the median over the turns.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

from identikit import extract
from identikit.extract._lines import Lines
from identikit.extract._load import load, load_tokenizer
from identikit.extract._tokens import Encoder

VOCABULARY, BATCH, BAR = 5_000, 32, 1.2


def make(folder: Path, sentences: int, text: Path) -> None:
    """A random GPT-2 with a tokenizer of whole words, and sentences of those words."""
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=128, n_embd=256, n_layer=4, n_head=4
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    words = [f"w{number}" for number in range(VOCABULARY)]
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, "w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(words, rng.integers(5, 60))) for _ in range(sentences)]
    text.write_text("\n".join(lines), encoding="utf-8")


def batches_of(folder: Path, text: Path) -> tuple[Any, list[dict[str, Any]]]:
    """The model, and the inputs of every batch that `extract.text` makes of the text."""
    loaded = load(folder, "text", "cpu")
    encoder = Encoder(load_tokenizer(folder), loaded.model, None, True)
    inputs = [
        encoder.inputs([window.ids[place] for place in batch])
        for window in encoder.windows(Lines(text, None))
        for batch in window.batches(BATCH)
    ]
    return loaded.model, inputs


def seconds(function: Callable[[], object]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main() -> None:
    """Print each ratio beside its bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the sentences")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bar is missed")
    parser.add_argument("--turns", type=int, default=5, help="how often each is measured")
    options = parser.parse_args()
    torch.set_num_threads(1)  # Two would measure who else is on the machine.
    with tempfile.TemporaryDirectory() as name:
        folder, text = Path(name) / "model", Path(name) / "text.txt"
        make(folder, 500 if options.quick else 2_000, text)
        model, inputs = batches_of(folder, text)

        def forward(part: Any) -> None:
            with torch.inference_mode():
                for given in inputs:
                    part(**given)

        def extraction() -> None:
            extract.text(folder, text, Path(name) / "states", batch_size=BATCH, overwrite=True)

        forward(model)
        extraction()
        times = [
            (
                seconds(lambda: forward(model)),
                seconds(lambda: forward(model.base_model)),
                seconds(extraction),
            )
            for _ in range(options.turns)
        ]
    missed = False
    for floor, what in ((0, "the model's forward passes"), (1, "those of its trunk alone")):
        ratio = statistics.median(turn[2] / turn[floor] for turn in times)
        took, least = (statistics.median(turn[at] for turn in times) for at in (2, floor))
        missed |= floor == 0 and ratio > BAR
        bar = f"bar ≤ {BAR:g}" if floor == 0 else ""
        print(
            f"extraction over {what:<27} {ratio:5.2f}   {bar:<9}   ({took:.2f} over {least:.2f} s)"
        )
    if options.check and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
