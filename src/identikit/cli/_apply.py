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
    from identikit.retrieval import SpaceMap
    from identikit.sources import Source

EXAMPLE = "identikit apply map.safetensors old.npy -o mapped.npy"

#: Rows that are compared with what a map between embedding models was fitted on, read in so many
#: places.
LOOKED, PLACES = 1000, 20

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

    A map between embedding models knows what rows of its two models look like. It refuses rows
    that look like those it leads to, and warns of rows that look like neither, such as those of
    another model or queries without their prefix.

    MAP : A map that `identikit align` or `identikit migrate` has written.
    A : The view whose rows are mapped.
    --output, -o FILE : Where to write the mapped rows: a file that ends in .npy, .parquet, .csv or
        .tsv. If A is a table, its ids and other columns are kept beside them.
    --inverse : Map back, from the space of the target to that of the source.
    """
    from identikit.cli._tables import suffix_of
    from identikit.sources import open_source

    suffix_of(output)
    shared.check_target(output, [str(map_file), view], overwrite=force)
    fitted = _loaded(map_file)
    with closing(open_source(view)) as source, shared.progress_bar(quiet) as progress:
        mapping, warning = _mapping(fitted, source, inverse)
        blank = _write(mapping, source, output, view, force, progress)
    if warning:
        typer.echo(plain(f"warning: {warning}"), err=True)
    if not quiet:
        if blank:
            typer.echo(f"{blank} rows with NaN or infinity came out as NaN", err=True)
        typer.echo(plain(f"wrote {output}: {source.rows} rows"), err=True)


def _loaded(path: Path) -> AlignmentMap | SpaceMap:
    """The map of `align` or that between embedding models, whichever the file holds."""
    from identikit.alignment import load_map, read_map
    from identikit.retrieval import load_space_map

    return load_space_map(path) if read_map(path)[0].get("map") == "space" else load_map(path)


def _mapping(
    fitted: AlignmentMap | SpaceMap, source: Source, inverse: bool
) -> tuple[Callable[[Array], Array], str]:
    """What to do with a block of rows, and a warning if rows look like none that a map knows."""
    from identikit.retrieval import SpaceMap

    if isinstance(fitted, SpaceMap):
        return _space_mapping(fitted, source, inverse)
    return _align_mapping(fitted, source, inverse), ""


def _space_mapping(
    fitted: SpaceMap, source: Source, inverse: bool
) -> tuple[Callable[[Array], Array], str]:
    """A map between embedding models, which knows what its rows look like."""
    import numpy as np

    names = fitted.source.name, fitted.target.name
    if inverse:
        raise InputError(
            f"a map between embedding models leads one way, here from {names[0]} to {names[1]}, "
            "and --inverse does not turn it; fit a map in the other direction"
        )
    p, q = fitted.widths
    if source.width != p:
        turned = (
            f"; it leads to {names[1]}, whose rows have {q}: is this the wrong direction?"
            if source.width == q
            else ""
        )
        raise InputError(
            f"this map takes rows of {names[0]} with {p} columns, but view {source.name!r} has "
            f"{source.width}{turned}"
        )
    starts = np.linspace(0, max(source.rows - LOOKED // PLACES, 0), PLACES, dtype=int)
    blocks = [source.read(at, at + LOOKED // PLACES) for at in np.unique(starts).tolist()]
    rows = np.concatenate(blocks).astype(np.float64)
    rows = rows[np.isfinite(rows).all(axis=1)]
    found = fitted.look(rows, f"view {source.name!r}") if len(rows) else None
    if found is not None and found.error:
        raise InputError(found.error)
    return fitted.transform, "" if found is None else found.warning


def _align_mapping(fitted: AlignmentMap, source: Source, inverse: bool) -> Callable[[Array], Array]:
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
