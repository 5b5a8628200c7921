"""`identikit apply`: send the rows of a file through a fitted map, block by block."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from identikit._progress import Progress
from identikit._text import plain
from identikit.cli import _shared as shared
from identikit.errors import InputError

if TYPE_CHECKING:
    from identikit._linalg import Array
    from identikit.alignment import AlignmentMap
    from identikit.sources import Source

EXAMPLE = "identikit apply map.safetensors old.npy -o mapped.npy"

#: Bytes of a block and its image, as float64.
BLOCK_BYTES = 32 * 2**20


def command(
    map_file: Path,
    view: str,
    output: Path,
    inverse: bool = False,
    force: bool = False,
    quiet: bool = False,
) -> None:
    """Map the rows of A with a fitted map. The result is float32, or float64 if A is.

    MAP : A map that `identikit align` has written.
    A : The view whose rows are mapped.
    --output, -o FILE : Where to write the mapped rows: a file that ends in .npy, .parquet, .csv or
        .tsv. If A is a table, its ids and other columns are kept beside them.
    --inverse : Map back, from the space of the target to that of the source.
    """
    from identikit.alignment import load_map
    from identikit.cli._tables import suffix_of
    from identikit.sources import open_source

    suffix_of(output)
    shared.check_target(output, [str(map_file), view], overwrite=force)
    fitted = load_map(map_file)
    with closing(open_source(view)) as source, shared.progress_bar(quiet) as progress:
        mapping = _mapping(fitted, source, inverse)
        blank = _write(mapping, source, output, view, force, progress)
    if not quiet:
        if blank:
            typer.echo(f"{blank} rows with NaN or infinity came out as NaN", err=True)
        typer.echo(plain(f"wrote {output}: {source.rows} rows"), err=True)


def _mapping(fitted: AlignmentMap, source: Source, inverse: bool) -> Callable[[Array], Array]:
    """The map, or its inverse; rows of another width are an error."""
    import numpy as np

    widths, names = fitted.weights_.shape, (fitted.source_, fitted.target_)
    here, there = (1, 0) if inverse else (0, 1)
    if source.width != widths[here]:
        turn = "without --inverse" if inverse else "with --inverse"
        fits = f"; it would fit {turn}" if source.width == widths[there] else ""
        raise InputError(
            f"this map takes rows of {names[here]!r} with {widths[here]} columns, but view "
            f"{source.name!r} has {source.width}{fits}"
        )
    if not inverse:
        return fitted.transform
    # As `inverse_transform`, but with the pseudo-inverse taken once and not for every block.
    back = np.linalg.pinv(fitted.weights_)
    return lambda rows: (rows - fitted.shift_) @ back


def _write(
    mapping: Callable[[Array], Array],
    source: Source,
    output: Path,
    view: str,
    force: bool,
    progress: Progress,
) -> int:
    """Write the image of every row; return how many rows held NaN or infinity."""
    import numpy as np

    from identikit.cli._tables import writing_rows

    stored = source.read(0, 1).dtype
    dtype = np.dtype("<f8" if stored.kind == "f" and stored.itemsize >= 8 else "<f4")
    width = mapping(np.zeros((1, source.width))).shape[1]
    step = max(1, BLOCK_BYTES // (8 * (source.width + width)))
    blank = 0
    with writing_rows(output, width, dtype, view, force=force) as put:
        for start in range(0, source.rows, step):
            rows = source.read(start, start + step).astype(np.float64)
            finite = np.isfinite(rows).all(axis=1)
            rows[~finite] = 0.0
            with np.errstate(over="ignore", invalid="ignore"):
                image = mapping(rows).astype(dtype)
            overflown = ~np.isfinite(image).all(axis=1)
            if overflown.any():
                raise InputError(
                    f"row {start + int(overflown.argmax())} of view {source.name!r} maps to values "
                    f"too large for {dtype.name}; rescale the view, or store it as float64"
                )
            image[~finite] = np.nan
            blank += int(np.count_nonzero(~finite))
            put(image)
            progress("mapping", min(start + step, source.rows), source.rows)
    return blank
