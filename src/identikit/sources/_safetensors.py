"""The .safetensors format: a length, a JSON header of dtypes, shapes and offsets, then the bytes.

The safetensors package is not used: it maps the whole file, and cannot give bfloat16 to NumPy.
https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._stored import FileRows, StoredArray, StoredVector, vector_ids
from identikit.sources.checks import choose
from identikit.sources.files import file_label, open_binary, size_of
from identikit.sources.registry import register, register_ids

_DTYPES = {
    "F16": "<f2",
    "BF16": "<u2",
    "F32": "<f4",
    "F64": "<f8",
    "I8": "|i1",
    "I16": "<i2",
    "I32": "<i4",
    "I64": "<i8",
    "U8": "|u1",
    "U16": "<u2",
    "U32": "<u4",
    "U64": "<u8",
    "BOOL": "|b1",
}
_PREFIX = 8
# The format's own limit, so that a corrupted length does not become a huge allocation.
_LONGEST_HEADER = 100_000_000


@register(".safetensors")
def open_safetensors(path: Path, member: str | None, name: str) -> FileRows:
    label = file_label(name, path)
    with ExitStack() as stack:
        file = stack.enter_context(open_binary(path, label))
        return FileRows(file, _find(file, member, label), name, label, stack)


@register_ids(".safetensors")
def read_tensor_ids(path: Path, column: str, label: str) -> Iterator[NDArray[Any]]:
    """Yield the ids in a tensor, which can only be integers."""
    with open_binary(path, label) as file:
        stored = _find(file, column, label)
        if stored.bfloat16:
            raise InputError(f"{label} has dtype bfloat16; expected integers")
        yield from vector_ids(StoredVector(file, stored, label), label)


def _find(file: IO[bytes], member: str | None, label: str) -> StoredArray:
    """Find the position and the layout of a tensor, and check them against the file."""
    size = size_of(file)
    header, start = read_header(file, size, label)
    tensor = choose(header.keys() - {"__metadata__"}, member, label)
    entry = header[tensor]
    try:
        kind, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        sound = isinstance(kind, str) and all(
            type(number) is int and number >= 0 for number in (*shape, begin, end)
        )
    except (TypeError, KeyError, ValueError):
        sound = False
    if not sound:
        raise InputError(
            f"{label} is damaged: the header's entry for {tensor!r} is {str(entry)[:200]}; "
            "expected a dtype, a shape and two data_offsets"
        )
    if kind not in _DTYPES:
        raise InputError(
            f"{label}: the tensor {tensor!r} has dtype {kind!r}; expected real numbers, one of "
            f"{', '.join(_DTYPES)}: convert it before saving"
        )
    stored = StoredArray(
        start + begin, tuple(shape), np.dtype(_DTYPES[kind]), bfloat16=kind == "BF16"
    )
    if stored.end != start + end:
        raise InputError(
            f"{label} is damaged: the tensor {tensor!r} of shape {stored.shape} and dtype {kind} "
            f"needs {stored.end - stored.offset} bytes, but its offsets span {end - begin}"
        )
    stored.check_fits(size, label)
    _check_all_used(header, size - start, label)
    return stored


def _check_all_used(header: dict[str, Any], size: int, label: str) -> None:
    """Refuse bytes after the last tensor: the format forbids them, so the file was damaged."""
    try:
        end = max(header[name]["data_offsets"][1] for name in header.keys() - {"__metadata__"})
    except (TypeError, LookupError):
        end = None
    if end != size:
        raise InputError(
            f"{label} is damaged: its tensors end at byte {end} of the {size} that follow its "
            "header; write or copy the file again"
        )


def read_header(file: IO[bytes], size: int, label: str) -> tuple[dict[str, Any], int]:
    """Read the header, checking only that it is a JSON object, and find where the data begins."""
    if size < _PREFIX:
        raise InputError(f"{label} is truncated: expected at least {_PREFIX} bytes, found {size}")
    length = int.from_bytes(file.read(_PREFIX), "little")
    if length > min(size - _PREFIX, _LONGEST_HEADER):
        raise InputError(
            f"{label} is truncated or not a .safetensors file: its first bytes announce a header "
            f"of {length} bytes, but {size - _PREFIX} bytes follow"
        )
    try:
        header = json.loads(file.read(length))
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{label} is not a .safetensors file: its header is not JSON ({error})"
        ) from error
    if not isinstance(header, dict):
        raise InputError(
            f"{label} is not a .safetensors file: its header is a JSON "
            f"{type(header).__name__}, expected an object"
        )
    return header, _PREFIX + length
