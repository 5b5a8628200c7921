"""What long work keeps on disk, so that it can be stopped at any time and go on later.

One file holds arrays and a JSON document, and is either there as a whole or not at all. A folder of
such files belongs to one task, whose settings it knows: work of other settings is never mixed in.
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

#: The largest share of the time that goes into writing: one part in this many.
SHARE = 20

#: How many differences of settings a message names.
NAMED = 4


#: NumPy's names of the types of numbers that most arrays have.
_KINDS = {"F64": "float64", "F32": "float32", "I64": "int64", "U64": "uint64"}


class DamagedError(InputError):
    """A file that is cut short, or that nobody here has written."""


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
        Where the file shall be.
    document : mapping
        What JSON can hold.
    arrays : mapping
        Arrays of numbers by name.
    overwrite : bool
        If false, an existing file is an error and not touched.
    """
    from safetensors.numpy import save

    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    for name, array in plain.items():
        if array.dtype.kind not in "biuf":
            raise InputError(f"the array {name!r} is {array.dtype}; expected numbers")
    text = json.dumps(document)
    metadata = {"identikit": text, "digest": digest_of_file(text, plain)}
    with replacing(path, overwrite=overwrite) as temporary:
        # The library's own file writer reports a full disk as something that is not an OSError.
        temporary.write_bytes(save(plain, metadata))


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The document and the arrays of a file that `write` wrote.

    Raises FileNotFoundError if there is no such file, and DamagedError if it cannot be read.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    _check_is_file(path)
    try:
        # All at once: not two files, if another is moved here meanwhile, and not through a memory
        # map, which ends the process if the file becomes shorter.
        data = Path(path).read_bytes()
        arrays = load(data)
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
            f"{path} is damaged: its bytes are not those that were written; copy or write it again"
        )
    return document, arrays


def describe(
    path: str | os.PathLike[str],
) -> tuple[dict[str, Any], dict[str, tuple[str, tuple[int, ...]]]]:
    """The document of a file, and type and shape of each of its arrays, which are not read.

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
        raise DamagedError(f"{path} is damaged: it holds no JSON object")
    return document


def _damaged(path: str | os.PathLike[str], error: Exception) -> DamagedError:
    return DamagedError(
        f"{path} is damaged or cut short ({shorten(str(error), 200)}); copy or write it again"
    )


def digest_of_file(text: str, arrays: Mapping[str, NDArray[Any]]) -> str:
    """A digest of all that a file holds: the document's text, and name and bytes of each array."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
    for name, array in sorted(arrays.items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """In which entries two documents differ, in words."""
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
    """Refuse to go on with work that was asked for differently.

    Parameters
    ----------
    where : path
        What holds the earlier work.
    before, now : mapping
        What was asked for then, and what is now.
    what : str
        What it holds, such as "a training".
    remedy : str
        What the user can do, such as "give another folder, or delete this one".
    """
    apart = differences(before, now)
    if apart:
        more = f"; and {len(apart) - NAMED} more" if len(apart) > NAMED else ""
        raise InputError(
            f"{where} holds {what} that was asked for differently: {'; '.join(apart[:NAMED])}"
            f"{more}. The two are not mixed: {remedy}"
        )


def open_folder(
    folder: Path, header: str, asked: Mapping[str, Any], what: str, remedy: str
) -> dict[str, Any]:
    """Make the folder of a task, or find one of the very same task; refuse any other.

    Parameters
    ----------
    folder : Path
        Where files go.
    header : str
        The name of the JSON file in it that says what was asked for.
    asked : mapping
        What is asked for now; entries that the folder's header has beyond these do not count.
    what, remedy : str
        As in `check_same`.

    Returns
    -------
    dict
        The header that is there: that of an earlier run, or `asked`.
    """
    if folder.is_file():
        raise InputError(f"{folder} is a file; {remedy}")
    path, now = folder / header, json.loads(json.dumps(asked))
    if path.exists():
        before = read_json(path)
        check_same(folder, {key: before.get(key) for key in now}, now, what, remedy)
        for left in folder.rglob(".*.safetensors.*"):
            left.unlink(missing_ok=True)  # half written when the work was killed
        return before
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror}; {remedy}") from error
    write_text(path, json.dumps(now, indent=2, ensure_ascii=False) + "\n")
    return dict(now)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DamagedError(f"{path} is damaged ({error})") from error
    if not isinstance(found, dict):
        raise DamagedError(f"{path} is damaged: expected a JSON object")
    return found


class Pace:
    """Says when it is time to write again: every so often, and never for most of the time.

    Parameters
    ----------
    every : float
        Seconds between two writings, at least; 0 to write every time, whatever that costs.
    """

    def __init__(self, every: float) -> None:
        self.every, self._next = every, time.monotonic() + every

    def due(self) -> bool:
        """Whether to write now."""
        return time.monotonic() >= self._next

    def written(self, began: float) -> None:
        """Note that a writing that began at this time (`time.monotonic`) is done."""
        end = time.monotonic()
        self._next = end + (max(self.every, SHARE * (end - began)) if self.every else 0.0)
