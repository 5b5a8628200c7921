"""The folder of a training: what it is of, where each unit stands, and the weights that are kept.

``run.json`` holds the settings. A unit (a stack of seeds, or one seed) is ``NAME.safetensors``, all
that it needs to go on, and a ``NAME.step_N.safetensors`` for every snapshot.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from identikit import _files
from identikit.errors import InputError

Settings = dict[str, Any]


def fingerprint(tensors: Iterable[Tensor]) -> str:
    """A short digest of some tensors' types, shapes and numbers."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def digest_of(settings: Settings) -> str:
    """A digest of settings, which every file of a training carries."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def write(path: Path, digest: str, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write tensors and a JSON header, atomically."""
    metadata = {"identikit": json.dumps({"digest": digest, **header})}
    data = save({name: tensor.contiguous() for name, tensor in tensors.items()}, metadata)
    with _files.replacing(path) as temporary:
        temporary.write_bytes(data)


def read(path: Path, digest: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The header and the tensors of a file that `write` wrote."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return read_header(path, digest), tensors


def read_header(path: Path, digest: str) -> dict[str, Any]:
    """The header alone; opening a file that was cut short fails all the same."""
    with safe_open(path, framework="pt") as file:
        header: dict[str, Any] = json.loads((file.metadata() or {})["identikit"])
    if header["digest"] != digest:
        raise InputError(
            f"{path} is of a training with other settings; give another folder, or delete it"
        )
    return header


def open_folder(folder: Path, settings: Settings, stacked: bool) -> bool:
    """Enter the settings of a training into its folder, or compare them with those it has.

    Returns whether the seeds are stacked: as they were when the training began, for the numbers to
    end the same.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot keep checkpoints in {folder}: {error.strerror}") from error
    for left in folder.glob(".*.safetensors.*"):
        left.unlink(missing_ok=True)  # half written when the training was killed
    path = folder / "run.json"
    settings = json.loads(json.dumps(settings))
    try:
        begun = json.loads(path.read_text(encoding="utf-8"))
        before, stacked = dict(begun["settings"]), bool(begun["stacked"])
    except FileNotFoundError:
        before = None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is no record of a training ({error}); give another folder, or delete this one"
        ) from error
    if before is None:
        text = json.dumps({"settings": settings, "stacked": stacked}, indent=1)
        _files.write_text(path, text + "\n")
    elif before != settings:
        keys = [key for key in {**before, **settings} if before.get(key) != settings.get(key)]
        differ = "; ".join(f"{key} was {before.get(key)}, is {settings.get(key)}" for key in keys)
        raise InputError(
            f"{folder} holds a training with other settings ({differ}); give another folder, or "
            "delete this one"
        )
    return stacked


def snapshot_path(file: Path, step: int) -> Path:
    """Where the weights of a unit at a step are kept."""
    return file.with_name(f"{file.stem}.step_{step}.safetensors")


def discard_damaged(file: Path | None, digest: str, snapshots: Iterable[int]) -> None:
    """Let a unit start again, and say so, if one of its files cannot be read."""
    if file is None or not file.exists():
        return
    needed = file
    try:
        header = read_header(file, digest)
        for step in snapshots:
            if step < header["step"] or header["done"]:
                needed = snapshot_path(file, step)
                read_header(needed, digest)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        warnings.warn(
            f"{needed} is damaged ({error}); the training of {file.stem} starts again",
            stacklevel=3,
        )
        file.unlink()
