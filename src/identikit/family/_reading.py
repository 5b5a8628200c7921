"""Reading the arrays of a model from one file or from the folder of an extraction."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.sources import open_source
from identikit.sources.whole import array_names, read_array, read_whole

MATRICES = {"f", "g", "candidates", "log_prob"}


class Stored(NamedTuple):
    """Numbers, and the machine epsilon of the type in which they were stored."""

    array: NDArray[Any]
    eps: float


def stored(value: object) -> Stored:
    """An array with its machine epsilon; bfloat16, which NumPy lacks, becomes float32."""
    if isinstance(value, Stored):
        return value
    if str(getattr(value, "dtype", "")).endswith("bfloat16"):
        return _read(value)
    array = np.asarray(value)
    return Stored(array, float(np.finfo(array.dtype if array.dtype.kind == "f" else float).eps))


def matrix(value: object, what: str, expected: str, *, finite: bool = True) -> Stored:
    """A matrix of real numbers from an array of any library, in its original type.

    Error messages call it `what` and say that it should be `expected`; `finite` refuses NaN and
    infinity.
    """
    array, eps = stored(value)
    if array.dtype.kind not in "fiub" or array.ndim != 2 or 0 in array.shape:
        raise InputError(
            f"{what} has shape {array.shape} and dtype {array.dtype}; expected real numbers, "
            f"{expected}"
        )
    if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
        rows = np.flatnonzero(~np.isfinite(array).all(axis=1))
        raise InputError(
            f"{what} has NaN or infinity in {len(rows)} rows, the first is row {rows[0]}; leave "
            "them out"
        )
    return Stored(array, eps)


def _read(view: object, memory: int | None = None) -> Stored:
    with closing(open_source(view)) as source:
        return Stored(read_whole(source, memory), source.eps)


def read_arrays(path: Path, memory: int | None = None) -> dict[str, Stored]:
    """The arrays of a model by name, from a file or a folder.

    `memory` is the number of bytes that each array and the work on it may take, by default half of
    the machine's memory.
    """
    if path.is_dir():
        return _read_folder(path, memory)
    if path.suffix.lower() not in (".npz", ".safetensors"):
        raise InputError(
            f"{path} is not a model: expected a .npz or .safetensors file with f and g"
        )
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; check the path")
    names, bias = _names_and_bias(path)
    arrays = {}
    for name in sorted(names & MATRICES):
        arrays[name] = _read(f"{path}::{name}", memory)
    return arrays if bias is None else arrays | {"bias": stored(bias)}


def _read_folder(folder: Path, memory: int | None) -> dict[str, Stored]:
    """The arrays of a model from a folder of .npy files."""
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        raise InputError(
            f"{folder} has no manifest.json, so it is not a finished extraction; "
            "extract the model again, or give a .npz or .safetensors file"
        )
    arrays = {}
    for name in MATRICES:
        if (folder / f"{name}.npy").is_file():
            arrays[name] = _read(folder / f"{name}.npy", memory)
    if "f" not in arrays and "log_prob" not in arrays:
        raise InputError(f"{folder} holds no model: {_why_not(manifest)}")
    bias = folder / "bias.npy"
    if bias.is_file():
        arrays["bias"] = stored(read_array(bias, None, f"the bias ({bias})"))
    return arrays


def _why_not(manifest: Path) -> str:
    """The reason that the manifest of an extraction gives for not writing f."""
    try:
        document = json.loads(manifest.read_text(encoding="utf-8"))
    except ValueError:
        document = None
    why = document.get("no_f") if isinstance(document, dict) else None
    return str(why or "it has no f.npy and g.npy; extract a language model or a classifier")


def _names_and_bias(path: Path) -> tuple[set[str], Array | None]:
    """The names of the arrays in a file, and the bias, a vector, which `sources` cannot read."""
    if path.suffix.lower() == ".npz":
        names = set(array_names(path, f"the model ({path})"))
        return names, read_array(path, "bias", f"the bias ({path})") if "bias" in names else None
    try:
        with safe_open(path, framework="numpy") as file:
            names = set(file.keys())
            return names, file.get_tensor("bias") if "bias" in names else None
    except (OSError, ValueError, TypeError, SafetensorError) as error:
        raise InputError(f"{path} cannot be read as a model: {error}") from error
