"""Moments as files: safetensors with a header, and nothing in them believed unchecked.

The header (`Header`) says which arrays there must be and where; the file's own list of arrays must
be exactly that. Last comes a digest of all that precedes it, so that no flipped bit is taken for a
statistic. Scatters are kept as their lower triangles.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from identikit import _files
from identikit._linalg import Array
from identikit.errors import InputError
from identikit.moments._distinct import Distinct
from identikit.moments._extremes import Extremes
from identikit.moments._header import DIGEST_BYTES, Header, Partial, parse_header
from identikit.moments._moments import Moments
from identikit.moments._part import Layout, Part
from identikit.moments._sound import impossible, unsound
from identikit.moments.memory import check_memory, default_memory
from identikit.moments.sample import RowSample
from identikit.sources import read_safetensors_header
from identikit.sources.files import open_binary, size_of

SUFFIX = ".moments"


def save_moments(moments: Moments, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
    """Write moments as one file, atomically.

    Parameters
    ----------
    moments : Moments
        What to write: the statistics, the row sample if there is one, and which shards they are of.
    path : path
        Ends in ``.moments``.
    overwrite : bool
        If false, an existing file is an error and not touched.
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
            f"{path} is what was kept of a reading that did not finish: {header.partial}; "
            "run the command that made it again, with --resume"
        )
    return moments


def check_suffix(path: str | os.PathLike[str]) -> None:
    """Raise unless a file has the name of a moments file."""
    if Path(path).suffix != SUFFIX:
        raise InputError(f"moments are kept in a file that ends in {SUFFIX}, not in {path}")


def write(
    moments: Moments,
    path: str | os.PathLike[str],
    partial: Partial | None = None,
    *,
    overwrite: bool = True,
) -> None:
    """`save_moments`, also of what is `partial`, under any name."""
    reason = unsound(moments)
    if reason:
        raise InputError(f"these moments cannot be saved: {reason}")
    header = Header.of(moments, partial)
    text = header.to_json()
    whole = json.dumps({"__metadata__": {"identikit": text}, **header.tensors()}).encode()
    whole += b" " * (-len(whole) % 8)  # the format aligns the first array
    digest = _digest(text)
    with _files.replacing(path, overwrite=overwrite) as temporary, temporary.open("wb") as file:
        file.write(len(whole).to_bytes(8, "little"))
        file.write(whole)
        for array in _arrays(moments):
            data = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            numbers = data.reshape(-1).view(np.uint8).data
            digest.update(numbers)
            file.write(numbers)
        file.write(digest.digest())


def _digest(text: str) -> blake2b:
    # A hostile header may hold what UTF-8 cannot.
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES)


def _arrays(moments: Moments) -> Iterator[NDArray[Any]]:
    """What the file holds, in the order of `Header.tensors`."""
    parts = moments.parts
    yield np.stack([part.mean for part in parts])
    yield np.stack([part.cubic for part in parts])
    yield np.stack([part.quartic for part in parts])
    for part in parts:
        for row in range(moments.layout.width):
            yield part.scatter[row, : row + 1]
    yield moments.sample.keys
    yield moments.sample.rows
    for both in zip(moments.layout.roots or (), moments.layout.inverses):
        yield from both
    if moments.extremes is not None:
        yield moments.extremes.numbers.astype(np.uint64)
        yield moments.extremes.folds.astype(np.uint64)
        yield moments.extremes.rows
    if moments.distinct is not None:
        yield np.concatenate([hashes for hashes, _ in moments.distinct.smallest])
        yield np.concatenate([counts for _, counts in moments.distinct.smallest]).astype(np.uint64)


def read_header(path: str | os.PathLike[str]) -> Header:
    """What a file says of itself; its arrays are there, but nobody has looked at them."""
    with _opened(path) as (_, header, _):
        return header


def read(path: str | os.PathLike[str]) -> tuple[Header, Moments]:
    """The header and the moments of a file, `partial` or not."""
    with _opened(path) as (file, header, text):
        d, k, folds = sum(header.widths), len(header.widths), len(header.counts)
        check_memory(header.widths, folds, 2 * default_memory())  # all of it
        reader = _Reader(file, text, path)
        means, cubics = reader.array(folds, d), reader.array(folds, k, d)
        quartics = reader.array(folds, k, k)
        scatters = [reader.symmetric(d) for _ in range(folds)]
        keys = reader.array(header.sample_rows, dtype="<u8")
        sample = RowSample(header.sample_size, keys, reader.array(header.sample_rows, d))
        turned = header.widths if header.turned else ()
        turns = [(reader.array(w, w), reader.array(w, w)) for w in turned]
        extremes = None if header.extremes is None else reader.extremes(*header.extremes, d)
        distinct = None if header.distinct is None else reader.distinct(*header.distinct)
        found, expected = reader.digest.digest(), reader.array(DIGEST_BYTES, dtype="|u1").tobytes()
    if found != expected:
        raise InputError(
            f"{path} is damaged: its bytes are not those that were written; copy or write it again"
        )
    layout = Layout(header.widths)
    if turns:
        layout = Layout(header.widths, tuple(r for r, _ in turns), tuple(f for _, f in turns))
    parts = tuple(Part(*part) for part in zip(header.counts, means, scatters, cubics, quartics))
    moments = Moments(
        header.names,
        header.eps,
        layout,
        parts,
        sample,
        header.dropped,
        header.shards,
        header.rule,
        header.seed,
        extremes,
        distinct,
        header.exponents if any(header.exponents) else (),
    )
    reason = unsound(moments) or impossible(moments)
    if reason:
        raise InputError(f"{path} is damaged: {reason}")
    return header, moments


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[tuple[IO[bytes], Header, str]]:
    """A file at its first array, its header and the text of that, before anything is allocated."""
    with open_binary(Path(path), str(path)) as file:
        size = size_of(file)
        entries, start = read_safetensors_header(file, size, str(path))
        metadata = entries.pop("__metadata__", None)
        text = metadata.get("identikit") if isinstance(metadata, dict) else None
        header = parse_header(text, str(path))
        expected = header.tensors()
        if entries != expected:
            raise InputError(f"{path} is damaged: its arrays are not those that its header tells")
        end = start + expected["digest"]["data_offsets"][1]
        if size != end:
            raise InputError(
                f"{path} is {'truncated' if size < end else 'damaged'}: expected {end} bytes, "
                f"found {size}; copy or write it again"
            )
        assert isinstance(text, str)
        yield file, header, text


class _Reader:
    """Reads one array after the other, and digests what it reads."""

    def __init__(self, file: IO[bytes], text: str, path: str | os.PathLike[str]) -> None:
        self.file, self.path = file, path
        self.digest = _digest(text)

    def array(self, *shape: int, dtype: str = "<f8") -> NDArray[Any]:
        """The next array."""
        array = np.empty(shape, dtype)
        data, done = array.reshape(-1).view(np.uint8), 0
        while done < data.size:
            got = self.file.readinto(data[done:].data)  # type: ignore[attr-defined]
            if not got:
                raise InputError(f"{self.path} became shorter while it was read; read it again")
            done += got
        self.digest.update(data.data)
        return array

    def extremes(self, size: int, rows: int, width: int) -> Extremes:
        """The next arrays, as the largest rows."""
        numbers, folds = (self.array(rows, dtype="<u8").astype(np.int64) for _ in range(2))
        return Extremes(size, numbers, folds, self.array(rows, width))

    def distinct(self, size: int, *counts: int) -> Distinct:
        """The next arrays, as the smallest hashes of the stacked rows and of each view's."""
        hashes = self.array(sum(counts), dtype="<u8")
        often = self.array(sum(counts), dtype="<u8").astype(np.int64)
        cuts = np.cumsum(counts)[:-1]
        return Distinct(size, tuple(zip(np.split(hashes, cuts), np.split(often, cuts))))

    def symmetric(self, size: int) -> Array:
        """The next matrix, from its lower triangle."""
        packed, matrix, begin = self.array(size * (size + 1) // 2), np.empty((size, size)), 0
        for row in range(size):
            numbers = packed[begin : begin + row + 1]
            matrix[row, : row + 1] = matrix[: row + 1, row] = numbers
            begin += row + 1
        return matrix
