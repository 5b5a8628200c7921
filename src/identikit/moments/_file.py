"""Moments files: safetensors with a header, all of which is checked when a file is read.

The header (`Header`) determines which arrays the file must hold, with their types and shapes, and
the file must hold exactly these. A digest of the whole content detects flipped bits. Scatter
matrices are stored as their lower triangles.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit import _store
from identikit._linalg import Array
from identikit.errors import InputError
from identikit.moments._distinct import Distinct
from identikit.moments._extremes import Extremes
from identikit.moments._header import FOLD_RULES, Header, Partial, parse_header
from identikit.moments._moments import Moments, Shard
from identikit.moments._part import Part, StackLayout
from identikit.moments._sound import impossible, unsound
from identikit.moments.memory import check_memory, default_memory
from identikit.moments.sample import RowSample

__all__ = [
    "SUFFIX",
    "check_suffix",
    "load_moments",
    "merge_moments",
    "moments_from",
    "moments_to",
    "save_moments",
]

SUFFIX = ".moments"


def save_moments(moments: Moments, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
    """Write moments as one file, atomically.

    Parameters
    ----------
    moments : Moments
        What to write: the statistics, the row sample if there is one, and the list of shards.
    path : path
        A path that ends in ``.moments``.
    overwrite : bool
        If false, raise an error if the file exists already, and leave it unchanged.
    """
    check_suffix(path)
    write(moments, path, overwrite=overwrite)


def load_moments(path: str | os.PathLike[str]) -> Moments:
    """Read moments that `save_moments` wrote.

    Parameters
    ----------
    path : path
        A ``.moments`` file.
    """
    header, moments = read(path)
    if header.partial is not None:
        raise InputError(
            f"{path} is from a reading that did not finish: {header.partial}; "
            "run the command that made it again, with --resume"
        )
    return moments


def merge_moments(
    paths: Sequence[str | os.PathLike[str]], names: Sequence[str] | None = None
) -> Moments:
    """Merge moments files of different rows; at most two files are in memory at a time.

    Parameters
    ----------
    paths : sequence of paths
        ``.moments`` files of the same views of different rows.
    names : sequence of str, optional
        New names for the views. By default the names in all files must be the same.

    Returns
    -------
    Moments
    """
    if not paths:
        raise InputError("expected at least one moments file to merge, got none")
    files = [Path(path) for path in paths]
    headers = [read_header(path) for path in files]
    _check_names(names, headers[0])
    for path, header in zip(files[1:], headers[1:]):
        differ = _differences(header, headers[0], names is not None)
        if differ:
            raise InputError(
                f"{path} does not fit {files[0]}: {'; '.join(differ)}. Only moments of the same "
                "views, read with the same folds, can be merged"
            )
    _check_shards(files, headers)
    merged = load_moments(files[0])
    for path in files[1:]:
        merged += load_moments(path)
    return merged if names is None else replace(merged, names=tuple(names))


def _check_names(names: Sequence[str] | None, header: Header) -> None:
    if names is None:
        return
    if len(names) != len(header.names) or len(set(names)) < len(names):
        raise InputError(
            f"expected {len(header.names)} different names, one per view, got {', '.join(names)}"
        )


def _differences(header: Header, first: Header, renamed: bool) -> list[str]:
    """How a file differs from the first one, as phrases for an error message."""
    words = []
    if not renamed and header.names != first.names:
        words.append(
            f"its views are called {_listed(header.names)}, not {_listed(first.names)} (name them "
            "with --names when they are read, or all now)"
        )
    if header.widths != first.widths:
        words.append(f"they have {_listed(header.widths)} columns, not {_listed(first.widths)}")
    if len(header.counts) != len(first.counts):
        words.append(f"it has {len(header.counts)} folds, not {len(first.counts)}")
    rules = header.rule, first.rule
    if None not in rules and rules[0] != rules[1]:
        words.append(f"its folds are {FOLD_RULES[rules[0]]}, not {FOLD_RULES[rules[1]]}")
    return words


def _check_shards(files: Sequence[Path], headers: Sequence[Header]) -> None:
    """Raise an error if the same file or the same shard is given twice."""
    held: dict[Shard, Path] = {}
    given: set[tuple[int, int]] = set()
    for path, header in zip(files, headers):
        found = path.stat()
        if (found.st_dev, found.st_ino) in given:
            raise InputError(f"{path} is given twice; its rows would be counted twice")
        given.add((found.st_dev, found.st_ino))
        for shard in header.shards:
            if shard in held:
                raise InputError(
                    f"{held[shard]} and {path} both hold the shard of {shard.rows} rows with "
                    f"digest {shard.digests[0]}, which would be counted twice; merge it once"
                )
            held[shard] = path


def _listed(values: Sequence[object]) -> str:
    return ", ".join(str(value) for value in values)


def check_suffix(path: str | os.PathLike[str]) -> None:
    """Raise an error unless a path has the suffix of a moments file."""
    if Path(path).suffix != SUFFIX:
        raise InputError(f"the name of a moments file must end in {SUFFIX}; got {path}")


def write(
    moments: Moments,
    path: str | os.PathLike[str],
    partial: Partial | None = None,
    *,
    overwrite: bool = True,
) -> None:
    """`save_moments` to a file of any name, also for an unfinished reading (`partial`)."""
    document, arrays = moments_to(moments, partial)
    _store.write(path, document, arrays, overwrite=overwrite)


def moments_to(
    moments: Moments, partial: Partial | None = None
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What a file holds of moments: a document and arrays, also for files that hold more."""
    reason = unsound(moments)
    if reason:
        raise InputError(f"these moments cannot be saved: {reason}")
    return Header.of(moments, partial).to_dict(), _arrays(moments)


def moments_from(
    document: dict[str, Any], arrays: dict[str, NDArray[Any]], path: str | os.PathLike[str]
) -> Moments:
    """The moments that `moments_to` gave, all of which is checked; `path` is for errors."""
    return _read_moments(document, arrays, path)[1]


def read_header(path: str | os.PathLike[str]) -> Header:
    """Read the header of a file; names, types and shapes of the arrays are checked, not values."""
    try:
        return _checked(*_store.describe(path), path)
    except FileNotFoundError as error:
        raise InputError(f"there is no such file: {path}") from error


def read(path: str | os.PathLike[str]) -> tuple[Header, Moments]:
    """Read the header and the moments of a file, from a finished or unfinished reading."""
    header = read_header(path)
    check_memory(header.widths, len(header.counts), 2 * default_memory())  # the whole memory
    try:
        document, arrays = _store.read(path)
    except FileNotFoundError as error:
        raise InputError(f"{path} disappeared while it was read") from error
    return _read_moments(document, arrays, path)  # checks again: it may have been replaced


def _read_moments(
    document: dict[str, Any], arrays: dict[str, NDArray[Any]], path: str | os.PathLike[str]
) -> tuple[Header, Moments]:
    found = {name: (array.dtype.name, array.shape) for name, array in arrays.items()}
    header = _checked(document, found, path)
    moments = _moments(header, arrays)
    reason = unsound(moments) or impossible(moments)
    if reason:
        raise InputError(f"{path} is damaged: {reason}")
    return header, moments


def _checked(
    document: dict[str, Any],
    arrays: dict[str, tuple[str, tuple[int, ...]]],
    path: str | os.PathLike[str],
) -> Header:
    header = parse_header(document, str(path))
    if arrays != header.arrays():
        raise InputError(f"{path} is damaged: its arrays do not match its header")
    return header


def _arrays(moments: Moments) -> dict[str, NDArray[Any]]:
    """The arrays of a file, as in `Header.arrays`."""
    parts, sample, largest = moments.parts, moments.sample, moments.extremes
    arrays: dict[str, NDArray[Any]] = {
        "means": np.stack([part.mean for part in parts]),
        "cubics": np.stack([part.cubic for part in parts]),
        "quartics": np.stack([part.quartic for part in parts]),
        "scatters": np.stack([_packed(part.scatter) for part in parts]),
        "sample_keys": sample.keys,
        "sample_rows": sample.rows,
    }
    for view, both in enumerate(zip(moments.layout.roots or (), moments.layout.inverses)):
        arrays[f"root_{view}"], arrays[f"inverse_{view}"] = both
    if largest is not None:
        arrays["extreme_numbers"] = largest.numbers.astype(np.uint64)
        arrays["extreme_folds"] = largest.folds.astype(np.uint64)
        arrays["extreme_rows"] = largest.rows
    if moments.distinct is not None:
        hashes, counts = (np.concatenate(each) for each in zip(*moments.distinct.smallest))
        arrays["distinct_hashes"] = hashes
        arrays["distinct_counts"] = counts.astype(np.uint64)
    return arrays


def _moments(header: Header, arrays: dict[str, NDArray[Any]]) -> Moments:
    """The moments made of these arrays; the mapping is changed, to save memory."""
    widths, extremes, distinct, layout = header.widths, None, None, StackLayout(header.widths)
    if header.turned:
        roots, inverses = (
            tuple(arrays[f"{name}_{view}"] for view in range(len(widths)))
            for name in ("root", "inverse")
        )
        layout = StackLayout(widths, roots, inverses)
    if header.extremes is not None:
        numbers, folds = (
            arrays[f"extreme_{name}"].astype(np.int64) for name in ("numbers", "folds")
        )
        extremes = Extremes(header.extremes[0], numbers, folds, arrays["extreme_rows"])
    if header.distinct is not None:
        size, *counts = header.distinct
        cuts, often = np.cumsum(counts)[:-1], arrays["distinct_counts"].astype(np.int64)
        both = zip(np.split(arrays["distinct_hashes"], cuts), np.split(often, cuts))
        distinct = Distinct(size, tuple(both))
    scatters = [_unpacked(packed, layout.width) for packed in arrays.pop("scatters")]
    statistics = zip(header.counts, arrays["means"], scatters, arrays["cubics"], arrays["quartics"])
    return Moments(
        header.names,
        header.eps,
        layout,
        tuple(Part(*part) for part in statistics),
        RowSample(header.sample_size, arrays["sample_keys"], arrays["sample_rows"]),
        header.dropped,
        header.shards,
        header.rule,
        header.seed,
        extremes,
        distinct,
        header.exponents if any(header.exponents) else (),
    )


def _packed(scatter: Array) -> Array:
    """The lower triangle of a symmetric matrix, row by row."""
    return np.concatenate([row[: number + 1] for number, row in enumerate(scatter)])


def _unpacked(packed: Array, size: int) -> Array:
    """The symmetric matrix of a lower triangle."""
    matrix, begin = np.empty((size, size)), 0
    for row in range(size):
        numbers = packed[begin : begin + row + 1]
        matrix[row, : row + 1] = matrix[: row + 1, row] = numbers
        begin += row + 1
    return matrix
