"""Maps as files: safetensors with a JSON header and a digest, all checked when it is loaded."""

from __future__ import annotations

import json
import os
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from identikit import _files
from identikit._linalg import Array
from identikit._version import __version__
from identikit.alignment._rungs import RUNGS
from identikit.errors import InputError

if TYPE_CHECKING:
    from identikit.alignment._map import AlignmentMap

FORMAT = "identikit-map-2"

_ARRAYS = ("weights", "shift")


def save_map(fitted: AlignmentMap, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Write a fitted map atomically."""
    arrays = {"weights": fitted.weights_, "shift": fitted.shift_}
    ends = fitted.interval
    header: dict[str, Any] = {
        "group": fitted.group,
        "error": fitted.error,
        "interval": None if ends is None else list(ends),
        "held_out": fitted.held_out,
        "ridge": fitted.strength_,
    }
    names = fitted.source_names, fitted.target_names
    for side, name, width, columns in zip(
        ("source", "target"), (fitted.source_, fitted.target_), fitted.weights_.shape, names
    ):
        known = None if columns is None else list(columns)
        header[side] = {"name": name, "width": width, "columns": known}
    write_map(header, arrays, path, overwrite=overwrite)


def write_map(
    header: dict[str, Any],
    arrays: dict[str, Array],
    path: str | os.PathLike[str],
    *,
    overwrite: bool,
) -> None:
    """Write the header and the arrays of a map atomically: "weights", "shift", and any others."""
    from safetensors.numpy import save

    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise InputError("this map cannot be saved: it has numbers that are not finite")
    text = json.dumps({"format": FORMAT, "identikit": __version__, **header})
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    data = save(arrays, metadata={"identikit": text, "digest": _digest(text, arrays)})
    with _files.replacing(path, overwrite=overwrite) as temporary:
        temporary.write_bytes(data)


def load_map(path: str | os.PathLike[str]) -> AlignmentMap:
    """Read a map that `AlignmentMap.save` wrote; a damaged file is refused.

    Parameters
    ----------
    path : path
        A ``.safetensors`` file.
    """
    from identikit.alignment._map import made_map

    header, arrays = read_map(path)
    if header.get("map") == "space":
        raise InputError(
            f"{path} holds a map between embedding models; `identikit apply` sends rows through "
            "it, and `identikit.retrieval.load_space_map` reads it"
        )
    weights, shift = (arrays[name] for name in _ARRAYS)
    try:
        group, error, ends = header["group"], header["error"], header["interval"]
        source, target = header["source"], header["target"]
        interval = None if ends is None else (float(ends[0]), float(ends[1]))
        made = made_map(group, weights, shift, source["name"], target["name"])
        made.error_, made.interval_ = error, interval
        made.held_out_, made.strength_ = header["held_out"], header["ridge"]
        made.remember(source["columns"], target["columns"])
        whole = group in RUNGS and weights.ndim == 2 and shift.shape == weights.shape[1:]
        whole &= (source["width"], target["width"]) == weights.shape
    except (KeyError, TypeError, ValueError, IndexError):
        whole = False
    if not whole or not all(np.isfinite(array).all() for array in arrays.values()):
        raise damaged(path)
    return made


def damaged(path: str | os.PathLike[str]) -> InputError:
    """What to say of a file whose digest is right and whose content is not."""
    return InputError(
        f"{path} is damaged: its arrays do not fit its header, or are not finite; copy or "
        "write it again"
    )


def read_map(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """The header and the arrays of a map's file, if the digest agrees with them.

    In the header of a map between embedding models, "map" is "space".
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            text = metadata.get("identikit", "{}")
            header = json.loads(text)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, TypeError, OSError, RecursionError) as error:
        raise InputError(f"{path} is not a readable safetensors file: {error}") from error
    form = header.get("format") if isinstance(header, dict) else None
    if form != FORMAT or not set(_ARRAYS) <= set(arrays):
        raise InputError(
            f"{path} is not a map written by this version of identikit (its header says "
            f"{str(form)[:100]!r}, expected {FORMAT!r}); fit and save it again"
        )
    if metadata.get("digest") != _digest(text, arrays):
        raise InputError(
            f"{path} is damaged: its bytes are not those that were written; copy or write it again"
        )
    return header, arrays


def _digest(text: str, arrays: dict[str, Array]) -> str:
    """A digest of the header, and of the type, shape and bytes of each array."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
    for name in (*_ARRAYS, *sorted(set(arrays) - set(_ARRAYS))):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
