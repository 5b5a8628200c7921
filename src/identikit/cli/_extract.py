"""`identikit extract`: representations out of a Hugging Face model."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import typer

from identikit._text import plain
from identikit.cli import _shared as shared
from identikit.errors import InputError

EXAMPLE = "identikit extract ./gpt2 --text sentences.txt --layers 0,4,8,12 -o gpt2-states"


def command(
    model: str,
    output: Path,
    text: Path | None = None,
    images: Path | None = None,
    layers: str = "all",
    pooling: str | None = None,
    batch_size: int = 32,
    max_length: int | None = None,
    dtype: str = "float32",
    limit: int | None = None,
    special_tokens: bool = True,
    tokenizer: Path | None = None,
    device: str | None = None,
    force: bool = False,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Store the hidden states of a Hugging Face model, and f and g if it is a softmax model.

    MODEL : A folder with config.json and weights in .safetensors, or a name on the hub.
    --output, -o DIR : The folder to write to.
    --text FILE : A file with a sentence on each line: .txt, .gz or .xz.
    --images DIR : A folder of images, instead of --text.
    --layers : The layers to keep: all, last, or numbers such as 0,4,8. Layer 0 is what enters the
        first block.
    --pooling : How the tokens of a sentence become rows: none (each token is a row), mean, first or
        last. By default it is none for a language model and mean for others, unless the model's
        folder says otherwise.
    --batch-size : How many sentences or images are read at a time, at most.
    --max-length : How many tokens of a line are kept. By default as many as the model takes.
    --dtype : The type of the stored numbers: float32 or float16.
    --limit : Take only this many lines or images, the first ones.
    --special-tokens/--no-special-tokens : Whether the tokenizer adds tokens of its own, such as
        [CLS] and [SEP].
    --tokenizer DIR : The folder of the tokenizer, if it is not that of the model.
    --device : Where to compute: cpu, cuda, ... By default on a GPU if there is one.
    --force : Replace a folder that an earlier extraction has written.
    """
    from identikit import extract

    if (text is None) == (images is None):
        raise InputError("give either --text FILE or --images DIR")
    if images is not None and (max_length is not None or tokenizer is not None):
        raise InputError("--max-length and --tokenizer are for --text; images have no tokens")
    common: dict[str, Any] = {
        "layers": parse_layers(layers),
        "pooling": pooling,
        "batch_size": batch_size,
        "dtype": dtype,
        "limit": limit,
        "device": device,
        "overwrite": force,
    }
    with shared.progress_bar(quiet) as progress:
        if text is not None:
            manifest = extract.text(
                model,
                text,
                output,
                max_length=max_length,
                special_tokens=special_tokens,
                tokenizer=tokenizer,
                progress=progress,
                **common,
            )
        elif images is not None:
            manifest = extract.images(model, images, output, progress=progress, **common)
    if json:
        shared.print_json(manifest)
    if not quiet:
        typer.echo(_summary(manifest, output), err=True)


def parse_layers(text: str) -> str | list[int]:
    """The value of --layers.

    >>> parse_layers("last"), parse_layers("0, 4,-1")
    ('last', [0, 4, -1])
    """
    if text in ("all", "last"):
        return text
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--layers is {text!r}; expected all, last or numbers: 0,4,8") from None


def _summary(manifest: dict[str, Any], output: Path) -> str:
    """What was written, and what to type next."""
    layers = manifest["layers"]
    size = sum(manifest["files"].values())
    lines = [
        f"wrote {output}: {manifest['rows']:,} rows ({_origin(manifest)}), {len(layers)} of "
        f"{manifest['of_layers']} layers, {size / 1e6:,.1f} MB"
    ]
    cut = manifest.get("tokenizer", {}).get("truncated_lines", 0)
    if cut:
        lines.append(f"lines cut to {manifest['tokenizer']['max_length']} tokens: {cut:,}")
    if manifest.get("left_out"):
        lines.append(
            f"what the encoder does after pooling is left out: {', '.join(manifest['left_out'])}"
        )
    if manifest["f"] is None:
        lines.append(f"no f and g: {manifest['no_f']}")
    else:
        lines.append(
            f"f is the {manifest['f']['what']} ({manifest['f']['norm']}), g its "
            f"{manifest['g']['labels']:,} rows"
        )
    lines.append("extract another model on the same input, then:")
    file = layers[-1]["file"]
    audit = ["identikit", "audit", f"{output}/{file}", f"OTHER/{file}"]
    lines.append("  " + shlex.join([*audit, "--groups", f"{output}/groups.npy"]))
    if manifest["f"] is not None:
        lines.append("  " + shlex.join(["identikit", "models", str(output), "OTHER"]))
    return "\n".join(map(plain, lines))


def _origin(manifest: dict[str, Any]) -> str:
    if "images" in manifest:
        return f"{manifest['images']['files']:,} images"
    sentences = f"{manifest['sentences']:,} sentences"
    return f"tokens of {sentences}" if manifest["pooling"] == "none" else sentences
