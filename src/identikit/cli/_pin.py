"""`identikit pin`: keep what a later check needs."""

from __future__ import annotations

from pathlib import Path

import typer

from identikit._text import plain
from identikit.cli import _shared as shared
from identikit.errors import InputError

EXAMPLE = "identikit pin vectors.parquet --id doc_id --model all-MiniLM-L6-v2 -o ref.pin"


def command(
    view: str,
    output: Path,
    id_: str | None = None,
    ids: Path | None = None,
    rows: int = 1000,
    no_rows: bool = False,
    model: str | None = None,
    revision: str | None = None,
    tokenizer: str | None = None,
    pooling: str | None = None,
    prefix: str | None = None,
    seed: int = 0,
    force: bool = False,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Pin vectors in a file of a few MB, so that identikit check can tell whether they change.

    VIEW : A file of vectors, as audit takes it, or a folder of layers that identikit extract wrote.
    --output, -o FILE.pin : The file to write.
    --id COLUMN : The column or array that holds an id for each row. With ids, a check finds the
        pinned rows wherever they are; without, by their number.
    --ids FILE : Ids that are in a file of their own.
    --rows : How many rows to keep, a random sample.
    --no-rows : Keep no rows, only the moments of all of them. A check then tells less.
    --model : The name of the model. This and the four options below are repeated where a check
        finds a change.
    --revision : The revision of the model.
    --tokenizer : The name or revision of the tokenizer.
    --pooling : How tokens become one vector, such as mean or cls.
    --prefix : What is put before each text, such as "query: ".
    --seed : The seed of the row sample.
    """
    from identikit.retrieval import pin

    if id_ is not None and ids is not None:
        raise InputError("--id and --ids both say what the ids are; give one of them")
    shared.check_target(output, [view, None if ids is None else str(ids)], overwrite=force)
    said = {"model": model, "revision": revision, "tokenizer": tokenizer}
    said |= {"pooling": pooling, "prefix": prefix}
    with shared.progress_bar(quiet) as progress:
        pinned = pin(
            view,
            ids=id_ if id_ is not None else ids,
            rows=0 if no_rows else rows,
            fingerprints=said,
            seed=seed,
            progress=progress,
        )
        pinned.save(output, overwrite=force)
    layers = [
        {
            "name": layer.name,
            "rows": layer.rows,
            "width": layer.width,
            "kept": 0 if layer.sample is None else len(layer.sample),
            "ids": layer.ids is not None,
        }
        for layer in pinned.layers
    ]
    size = output.stat().st_size
    if json:
        document = {"identikit": pinned.version, "pin": str(output), "bytes": size}
        shared.print_json(document | {"layers": layers, "fingerprints": dict(pinned.fingerprints)})
        return
    for layer in layers:
        ids_too = " with their ids" if layer["ids"] else ""
        typer.echo(
            plain(
                f"pinned {layer['name']}: {layer['rows']:,} rows × {layer['width']}, "
                f"{layer['kept']:,} rows kept{ids_too}"
            )
        )
    if not quiet:
        typer.echo(f"wrote {plain(output)} ({size / 1e6:.1f} MB)", err=True)
