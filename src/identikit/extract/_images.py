"""The hidden states of a vision model on the images of a folder."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from identikit._progress import Progress, silent
from identikit.errors import InputError, require
from identikit.extract._folder import check_folder, filling, read_manifest
from identikit.extract._load import PURPOSE, load, load_processor
from identikit.extract._rows import Rows, check_numbers, choose_pooling
from identikit.extract._states import States, layer_name

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm")


def images(
    model: str | os.PathLike[str],
    pictures: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    layers: str | Sequence[int] = "all",
    pooling: str | None = None,
    batch_size: int = 32,
    dtype: str = "float32",
    limit: int | None = None,
    device: str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run a Hugging Face vision model over images and store its states; returns the manifest.

    For a classifier, the folder also holds f (the input of its last layer), g and the bias.

    Parameters
    ----------
    model : path or str
        A folder with config.json, preprocessor_config.json and .safetensors weights; or a name on
        the hub.
    pictures : path
        A folder of images, with or without subfolders. The images are processed in the order of
        their names, which ``images.txt`` lists.
    folder : path
        Where the result is written, as for `text`; ``groups.npy`` holds the number of the image of
        each row.
    layers : "all", "last" or sequence of int
        Hidden states: 0 is the input of the first block, the last one is the model's output.
    pooling : str, optional
        none (one row per position of each image), mean (the default), first (in a vision
        transformer, the class token) or last.
    batch_size, dtype, limit, device, overwrite, progress
        As for `text`; `limit` is a number of images.
    """
    check_folder(folder, overwrite=overwrite)
    check_numbers(dtype, batch_size=batch_size, limit=limit)
    tell = progress or silent
    album = Album(Path(pictures), limit)
    tell("loading the model", 0, len(album.names))
    loaded = load(model, "images", device)
    pooling = choose_pooling(loaded, pooling, "mean")
    processor = load_processor(loaded.folder)
    states = States(loaded, _inputs(processor, album.read(0, 1)), layers)
    album.digest = hashlib.sha256()
    with filling(folder, overwrite=overwrite) as out:
        rows = Rows(out, states, pooling, dtype)
        groups = out.rows("groups.npy", None, np.int64)
        for start in range(0, len(album.names), batch_size):
            given = states(_inputs(processor, album.read(start, start + batch_size)))
            state = given[layer_name(states.layers[0])]
            numbers = np.arange(start, start + len(state))
            each = state.shape[1] if pooling == "none" else 1
            groups.append(np.repeat(numbers, each))
            lengths = [each] * len(state) if pooling == "none" else None
            rows.put(given, (each * numbers).tolist(), lengths)
            tell("extracting", start + len(state), len(album.names))
        names = "".join(f"{name}\n" for name in album.names)
        (out.path / "images.txt").write_text(names, encoding="utf-8")
        out.manifest = {
            "kind": loaded.kind,
            "model": {"name": loaded.name, "class": type(loaded.model).__name__},
            "pooling": pooling,
            "rows": groups.rows,
            "dtype": dtype,
            "images": {
                "folder": Path(pictures).resolve().name,
                "files": len(album.names),
                "sha256": album.digest.hexdigest(),
                "names": "images.txt",
            },
            "processor": type(processor).__name__,
            "groups": {"file": "groups.npy", "what": "number of the image, from 0, of each row"},
            **rows.finish(),
        }
    return read_manifest(folder)


class Album:
    """The images of a folder and its subfolders, in the order of their names, up to `limit`."""

    def __init__(self, folder: Path, limit: int | None) -> None:
        if not folder.is_dir():
            raise InputError(f"{folder}: there is no such folder; give one that holds images")
        found = [path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES]
        self.names = sorted(path.relative_to(folder).as_posix() for path in found)[:limit]
        if not self.names:
            raise InputError(f"{folder} holds no images ({', '.join(SUFFIXES)})")
        self._folder = folder
        #: Digest of the names and contents of the images that were read.
        self.digest = hashlib.sha256()

    def read(self, start: int, stop: int) -> list[Any]:
        """Images `start` to `stop`, the latter excluded, in RGB."""
        return [self._image(name) for name in self.names[start:stop]]

    def _image(self, name: str) -> Any:
        pillow = require("PIL.Image", "hf", PURPOSE)
        path = self._folder / name
        try:
            data = path.read_bytes()
            image = pillow.open(io.BytesIO(data)).convert("RGB")
        except (OSError, SyntaxError, ValueError, pillow.DecompressionBombError) as error:
            raise InputError(f"{path} cannot be read as an image: {error}") from error
        self.digest.update(name.encode() + b"\0" + hashlib.sha256(data).digest())
        return image


def _inputs(processor: Any, pictures: list[Any]) -> dict[str, Any]:
    return {"pixel_values": processor(images=pictures, return_tensors="pt")["pixel_values"]}
