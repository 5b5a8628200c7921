"""The files of a training: the state of each unit, and the weights at its snapshots.

``run.json`` records the settings of the training. A unit (a stack of seeds, or one seed) has a file
``NAME.safetensors`` with everything that is needed to resume, and a ``NAME.step_N.safetensors`` for
every snapshot.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from identikit import _store
from identikit.errors import InputError

REMEDY = "give another folder, or delete this one"


def fingerprint(tensors: Iterable[Tensor]) -> str:
    """A short digest of the tensors' types, shapes and numbers."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def open_folder(folder: Path, asked: dict[str, Any], stacked: bool) -> bool:
    """Create the folder of a training, or accept that of the same training; refuse any other.

    Returns whether the seeds are stacked. A training that resumes keeps the choice with which it
    began, so that it ends with the same numbers.
    """
    _store.open_folder(folder, "run.json", asked, "a training", REMEDY)
    if any(folder.glob("seed_*.safetensors")):
        return False
    return stacked or any(folder.glob("stack.*"))


def write(path: Path, digest: str, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write tensors and a header; `digest` identifies the settings of the training."""
    # NumPy has no bfloat16, so its bits are stored as integers.
    short = [name for name, tensor in tensors.items() if tensor.dtype is torch.bfloat16]
    arrays = {
        name: (tensor.contiguous().view(torch.int16) if name in short else tensor).numpy()
        for name, tensor in tensors.items()
    }
    _store.write(path, {"digest": digest, "bfloat16": short, **header}, arrays)


def read(path: Path, digest: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The header and the tensors of a file that `write` wrote."""
    header, arrays = _store.read(path)
    if header.get("digest") != digest:
        raise InputError(f"{path} belongs to a training with other settings; {REMEDY}")
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    tensors |= {name: tensors[name].view(torch.bfloat16) for name in header["bfloat16"]}
    return header, tensors


def snapshot_path(file: Path, step: int) -> Path:
    """The file with the weights of a unit at a step."""
    return file.with_name(f"{file.stem}.step_{step}.safetensors")


def discard_damaged(file: Path | None, digest: str, snapshots: Iterable[int]) -> None:
    """Let a unit start again, with a warning, if one of its files is missing or unreadable."""
    if file is None or not file.exists():
        return
    try:
        header, _ = read(file, digest)
        for step in snapshots:
            if step < header["step"] or header["done"]:
                read(snapshot_path(file, step), digest)
    except (_store.DamagedError, FileNotFoundError) as error:
        why = str(error)
        if isinstance(error, FileNotFoundError):
            why = f"{error.filename} is missing"
        warnings.warn(f"{why}; the training of {file.stem} starts again", stacklevel=3)
        file.unlink()
