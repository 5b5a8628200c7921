"""The outputs of any layer of any PyTorch module, collected by forward hooks."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._progress import Progress
from identikit.errors import InputError, require
from identikit.extract._folder import filling

_LISTED = 20
Array = NDArray[Any]


def module(
    model: Any,
    loader: Iterable[Any],
    layers: Sequence[str],
    folder: str | os.PathLike[str] | None = None,
    *,
    pool: Callable[[Any], Any] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Array]:
    """Run a PyTorch module over batches and return the outputs of some of its layers.

    The result maps the name of each layer to an array (rows × columns). The model runs in
    evaluation mode and without gradients; afterwards its mode is restored and the hooks are
    removed, also if there was an error.

    Parameters
    ----------
    model : torch.nn.Module
        Any module.
    loader : iterable
        Batches, which are moved to the model's device: each a tensor; a tuple or list, whose first
        entry is the input (the rest, such as labels, is not used); or a dict of arguments.
    layers : sequence of str
        Dotted names, as in ``model.named_modules()``.
    folder : path, optional
        Write the rows there batch by batch, one .npy file per layer and a manifest, and return
        memory-mapped arrays; without it the rows are collected in memory.
    pool : callable, optional
        Applied to each output, for example ``lambda h: h.mean(1)``. An output that then has more
        than two axes is flattened to one row per item.
    overwrite : bool
        Replace a folder that an earlier extraction wrote.
    progress : callable, optional
        Called with (what is being done, done, of how many).
    """
    torch = require("torch", "torch", "extracting from a PyTorch module")
    names = _check_names(model, layers)
    total = len(loader) if isinstance(loader, Sized) else 0
    device = next((part.device for part in model.parameters()), torch.device("cpu"))
    files = _file_names(names)
    kept: dict[str, list[Array]] = {name: [] for name in names}
    widths: dict[str, int] = {}
    rows = 0
    with ExitStack() as stack:
        out = None
        if folder is not None:
            out = stack.enter_context(filling(folder, overwrite=overwrite))
        with _collecting(model, names) as outputs, torch.no_grad():
            for number, batch in enumerate(loader):
                outputs.clear()
                _call(model, batch, device, torch)
                blocks = {
                    name: _rows_of(name, outputs.get(name, []), pool, torch) for name in names
                }
                rows += _check_alike(blocks, number)
                for name, block in blocks.items():
                    width = widths.setdefault(name, block.shape[1])
                    if block.shape[1] != width:
                        raise InputError(
                            f"layer {name!r} gave {width} columns, but in batch {number} "
                            f"{block.shape[1]}; give a pool, such as lambda h: h.mean(1), that "
                            "makes all rows equally wide"
                        )
                    if out is None:
                        kept[name].append(block)
                    else:
                        out.rows(files[name], width, block.dtype).append(block)
                if progress is not None:
                    progress(f"extracting, {rows} rows", number + 1, total)
        if rows == 0:
            raise InputError("the loader gave no batches; an iterator can be used only once")
        if out is not None:
            out.manifest = {
                "kind": "module",
                "model": {"name": type(model).__name__, "class": type(model).__name__},
                "rows": rows,
                "layers": [
                    {"layer": name, "file": files[name], "width": widths[name]} for name in names
                ],
            }
    if folder is None:
        return {name: np.concatenate(blocks) for name, blocks in kept.items()}
    return {name: np.load(Path(folder) / files[name], mmap_mode="r") for name in names}


def _check_names(model: Any, layers: Sequence[str]) -> list[str]:
    known = [name for name, _ in model.named_modules(remove_duplicate=False) if name]
    if isinstance(layers, str) or not layers:
        raise InputError(f"layers is {layers!r}; expected a list of names, such as {known[:1]}")
    for name in layers:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=_LISTED, cutoff=0.3)
            shown = near or known[:_LISTED]
            more = f" and {len(known) - len(shown)} more" if len(known) > len(shown) else ""
            raise InputError(
                f"the model has no layer {name!r}; it has {', '.join(map(repr, shown))}{more}"
            )
    return list(dict.fromkeys(layers))


def _file_names(names: Sequence[str]) -> dict[str, str]:
    """A file name for each layer; a module's name may contain any character except the dot."""
    files: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^\w.-]", "_", name)
        while f"{plain}.npy" in files.values():
            plain += "_"
        files[name] = f"{plain}.npy"
    return files


@contextmanager
def _collecting(model: Any, names: Sequence[str]) -> Iterator[dict[str, list[Any]]]:
    """Put the model into evaluation mode and collect the named layers' outputs in the block."""
    outputs: dict[str, list[Any]] = {}
    modes = [(part, part.training) for part in model.modules()]
    hooks = [
        model.get_submodule(name).register_forward_hook(
            lambda _part, _args, output, name=name: outputs.setdefault(name, []).append(output)
        )
        for name in names
    ]
    try:
        model.eval()
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()
        # One by one, because a frozen part may have been in evaluation mode before.
        for part, training in modes:
            part.training = training


def _call(model: Any, batch: Any, device: Any, torch: Any) -> None:
    if isinstance(batch, Mapping):
        model(**{key: _to(value, device, torch) for key, value in batch.items()})
        return
    first = batch[0] if isinstance(batch, tuple | list) and batch else batch
    if not isinstance(first, torch.Tensor):
        raise InputError(
            f"the loader gave a {type(batch).__name__}; expected a tensor, a tuple that begins "
            "with one, or a dict of arguments"
        )
    model(first.to(device))


def _to(value: Any, device: Any, torch: Any) -> Any:
    return value.to(device) if isinstance(value, torch.Tensor) else value


def _rows_of(
    name: str, outputs: Sequence[Any], pool: Callable[[Any], Any] | None, torch: Any
) -> Array:
    """The output of one layer for one batch, as rows × columns."""
    if len(outputs) != 1:
        raise InputError(
            f"layer {name!r} ran {len(outputs)} times in one pass of the model, so there is no "
            "single output to store; name a layer that runs once"
        )
    output = outputs[0]
    if isinstance(output, Mapping):
        output = next(iter(output.values()), None)
    elif isinstance(output, tuple | list):
        output = output[0] if output else None
    if not isinstance(output, torch.Tensor):
        raise InputError(f"layer {name!r} returns a {type(output).__name__}, not a tensor")
    output = output if pool is None else pool(output)
    if output.ndim == 0:
        raise InputError(f"layer {name!r} gives one number per batch; expected one row per item")
    if output.dtype in (torch.float16, torch.bfloat16):
        output = output.float()
    rows: Array = output.reshape(len(output), -1).cpu().numpy()
    # Copied, because it may share memory with tensors that the model overwrites in the next batch.
    return rows.copy()


def _check_alike(blocks: Mapping[str, Array], number: int) -> int:
    """The number of rows, which must be the same for every layer."""
    counts = {name: len(block) for name, block in blocks.items()}
    if len(set(counts.values())) > 1:
        raise InputError(
            f"in batch {number} the layers gave different numbers of rows: {counts}; name layers "
            "whose first axis is the batch, or move the batch there with pool"
        )
    return next(iter(counts.values()))
