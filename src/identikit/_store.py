"""Files for long-running work, so that it can be stopped at any time and resumed later.

Each file holds a JSON document and arrays, and is written either completely or not at all. A folder
of such files belongs to one task. It records the settings of that task, and work with other
settings is never mixed in.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._files import replacing, write_text
from identikit._text import shorten
from identikit.errors import InputError

#: At most one part in this many of the running time is spent on writing.
SHARE = 20

#: How many differences between settings an error message lists.
NAMED = 4


#: NumPy's names for the number types of safetensors that are used here.
_KINDS = {"F64": "float64", "F32": "float32", "I64": "int64", "U64": "uint64"}


class DamagedError(InputError):
    """A file is truncated, corrupted, or was not written by identikit."""


def digest_of(document: Mapping[str, Any]) -> str:
    """A short digest of a JSON document, such as the settings of a task."""
    text = json.dumps(document, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write(
    path: str | os.PathLike[str],
    document: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    *,
    overwrite: bool = True,
) -> None:
    """Write a JSON document and arrays of numbers as one safetensors file, atomically.

    Parameters
    ----------
    path : path
        Where to write the file.
    document : mapping
        Anything that can be written as JSON.
    arrays : mapping
        Arrays of numbers by name.
    overwrite : bool
        If false, raise an error if the file exists already, and leave it unchanged.
    """
    from safetensors.numpy import save

    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    for name, array in plain.items():
        if array.dtype.kind not in "biuf":
            raise InputError(f"the array {name!r} is {array.dtype}; expected numbers")
    text = json.dumps(document)
    metadata = {"identikit": text, "digest": digest_of_file(text, plain)}
    with replacing(path, overwrite=overwrite) as temporary:
        # The library's own file writer reports a full disk by an exception that is no OSError.
        temporary.write_bytes(save(plain, metadata))


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read the document and the arrays of a file that `write` wrote.

    Raises FileNotFoundError if there is no such file, and DamagedError if it cannot be read.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    _check_is_file(path)
    try:
        # Read all bytes at once, so that they come from one file even if it is replaced meanwhile.
        # A memory map would crash the process if the file were truncated while it is read.
        data = Path(path).read_bytes()
        arrays = dict(sorted(load(data).items()))  # the library's order is random
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = header.get("__metadata__") or {}
        text, digest = metadata.get("identikit", "{}"), metadata.get("digest")
        document = _parsed(text, path)
    except FileNotFoundError:
        raise
    except (SafetensorError, OSError, ValueError, KeyError, RecursionError) as error:
        raise _damaged(path, error) from error
    if digest != digest_of_file(text, arrays):
        raise DamagedError(
            f"{path} is damaged: its contents do not match its digest; copy or write it again"
        )
    return document, arrays


def describe(
    path: str | os.PathLike[str],
) -> tuple[dict[str, Any], dict[str, tuple[str, tuple[int, ...]]]]:
    """Read the document of a file, and the type and shape of each array, but not the arrays.

    Raises what `read` raises.
    """
    from safetensors import SafetensorError, safe_open

    _check_is_file(path)
    shapes = {}
    try:
        with safe_open(path, "numpy") as file:
            text = (file.metadata() or {}).get("identikit", "{}")
            for name in file.keys():  # noqa: SIM118
                array = file.get_slice(name)
                kind = array.get_dtype()
                shapes[name] = _KINDS.get(kind, kind), tuple(array.get_shape())
        return _parsed(text, path), shapes
    except FileNotFoundError:
        raise
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise _damaged(path, error) from error


def _check_is_file(path: str | os.PathLike[str]) -> None:
    if Path(path).is_dir():
        raise InputError(f"{path} is a directory; give the name of a file")


def _parsed(text: str, path: str | os.PathLike[str]) -> dict[str, Any]:
    document = json.loads(text)
    if not isinstance(document, dict):
        raise DamagedError(f"{path} is damaged: its document is not a JSON object")
    return document


def _damaged(path: str | os.PathLike[str], error: Exception) -> DamagedError:
    return DamagedError(
        f"{path} is damaged or cut short ({shorten(str(error), 200)}); copy or write it again"
    )


def digest_of_file(text: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    """A digest of a file's whole content: the document's text and every array's name and bytes."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
    for name, array in sorted(arrays.items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """List the entries in which two documents differ, as phrases for an error message."""
    found: list[str] = []
    for key in {**now, **before}:
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            found += differences(old, new)
        elif old != new:
            was, is_now = (shorten(json.dumps(value), 60) for value in (old, new))
            found.append(f"{key} was {was} and is now {is_now}")
    return found


def check_same(
    where: object, before: Mapping[str, Any], now: Mapping[str, Any], what: str, remedy: str
) -> None:
    """Raise an error if earlier work was done with other settings than those of now.

    Parameters
    ----------
    where : path
        The file or folder of the earlier work.
    before, now : mapping
        The settings of the earlier work, and those of now.
    what : str
        What kind of work it is, such as "a training".
    remedy : str
        What the user can do, such as "give another folder, or delete this one".
    """
    apart = differences(before, now)
    if apart:
        more = f"; and {len(apart) - NAMED} more" if len(apart) > NAMED else ""
        raise InputError(
            f"{where} holds {what} with different settings: {'; '.join(apart[:NAMED])}"
            f"{more}. The two cannot be mixed: {remedy}"
        )


def open_folder(
    folder: Path, header: str, asked: Mapping[str, Any], what: str, remedy: str
) -> dict[str, Any]:
    """Create the folder of a task, or reopen it; raise an error if it belongs to another task.

    Parameters
    ----------
    folder : Path
        The folder.
    header : str
        The name of the JSON file in it that records the settings.
    asked : mapping
        The settings of now. Further entries of a header that exists already are not compared.
    what, remedy : str
        As in `check_same`.

    Returns
    -------
    dict
        The header of an earlier run if there is one, otherwise `asked`.
    """
    if folder.is_file():
        raise InputError(f"{folder} is a file; {remedy}")
    path, now = folder / header, json.loads(json.dumps(asked))
    if path.exists():
        before: dict[str, Any] = read_json(path)
        check_same(folder, {key: before.get(key) for key in now}, now, what, remedy)
        for left in folder.rglob(".*.safetensors.*"):
            left.unlink(missing_ok=True)  # a temporary file of a run that was killed
        return before
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror}; {remedy}") from error
    write_text(path, json.dumps(now, indent=2, ensure_ascii=False) + "\n")
    return dict(now)


def read_json(path: Path, kind: type = dict) -> Any:
    """Read a JSON object, or a list, from a file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DamagedError(f"{path} is damaged ({error})") from error
    if not isinstance(found, kind):
        raise DamagedError(f"{path} is damaged: expected a JSON {kind.__name__}")
    return found


class Pace:
    """Decides when to write again, so that writing takes only a small share of the time.

    Parameters
    ----------
    every : float
        Least number of seconds between two writes; 0 to write every time, whatever that costs.
    """

    def __init__(self, every: float) -> None:
        self.every, self._next = every, time.monotonic() + every

    def due(self) -> bool:
        """Whether to write now."""
        return time.monotonic() >= self._next

    def written(self, began: float) -> None:
        """Record the end of a write that began at this time (`time.monotonic`)."""
        end = time.monotonic()
        self._next = end + (max(self.every, SHARE * (end - began)) if self.every else 0.0)
