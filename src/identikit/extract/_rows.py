"""Turn the states of a batch into rows of files: pooling, and writing each row to its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from identikit.errors import InputError, require
from identikit.extract._folder import Filling
from identikit.extract._load import PURPOSE, Loaded
from identikit.extract._states import States, layer_name

POOLINGS = ("none", "mean", "first", "last")
DTYPES = ("float32", "float16")


class Rows:
    """The rows of an extraction: one per position of each item (token, patch), or one per item."""

    def __init__(self, out: Filling, states: States, pooling: str, dtype: str) -> None:
        self._out, self._states = out, states
        self._pooling, self._dtype = pooling, dtype
        self.widths: dict[str, int] = {}
        self.no_f = states.no_head
        if self.no_f is None and pooling == "mean" and not states.head_takes_items:
            self.no_f = "a mean over tokens is not an input of the head"
        if self.no_f is None and pooling == "none" and states.head_takes_items:
            self.no_f = "the head takes one vector per image, but these rows are its positions"

    def put(
        self, states: Mapping[str, Any], firsts: Sequence[int], lengths: Sequence[int] | None
    ) -> None:
        """Write the rows of a batch.

        `firsts` has the row at which each item begins, `lengths` the number of positions of each
        item without padding; None if all positions count.
        """
        for name, state in states.items():
            if name == "f" and self.no_f is not None:
                continue
            if state.ndim == 3 and lengths is not None and state.shape[1] != max(lengths):
                raise InputError(
                    f"{name} has {state.shape[1]} positions where {max(lengths)} were expected, so "
                    "its rows do not match those of the other layers; leave it out of --layers, "
                    "or for images choose a --pooling"
                )
            if state.ndim == 3 and self._pooling != "none":
                state = pool(state, lengths, self._pooling)
            array = state.float().cpu().numpy()
            self.widths[name] = array.shape[-1]
            file = self._out.rows(f"{name}.npy", array.shape[-1], self._dtype)
            for item, first in enumerate(firsts):
                if array.ndim == 2:
                    rows = array[item : item + 1]
                else:
                    rows = array[item] if lengths is None else array[item, : lengths[item]]
                file.put(first, self._stored(rows, name))

    def _stored(self, rows: Any, name: str) -> Any:
        if self._dtype == "float32":
            return rows
        with np.errstate(over="ignore"):
            half = rows.astype(np.float16)
        if np.isinf(half).any():
            raise InputError(
                f"{name} has values up to {np.abs(rows).max():.3g}, too large for float16, whose "
                "largest value is 65504; store float32"
            )
        return half

    def finish(self) -> dict[str, Any]:
        """Write g and the bias, and describe layers, f and g for the manifest."""
        layers = [
            {
                "layer": layer,
                "file": f"{layer_name(layer)}.npy",
                "width": self.widths[layer_name(layer)],
                **self._norm(layer_name(layer)),
            }
            for layer in self._states.layers
        ]
        found: dict[str, Any] = {"layers": layers, "of_layers": self._states.count}
        head = self._states.head
        if head is None or self.no_f is not None:
            return found | {"f": None, "g": None, "no_f": self.no_f}
        np.save(self._out.path / "g.npy", head.g)
        if head.bias is not None:
            np.save(self._out.path / "bias.npy", head.bias)
        found["f"] = {
            "file": "f.npy",
            "width": self.widths["f"],
            "what": f"input of {head.name}",
            **self._norm("f"),
        }
        found["g"] = {
            "file": "g.npy",
            "labels": len(head.g),
            "what": f"weight of {head.name}",
            "bias": None if head.bias is None else "bias.npy",
        }
        return found

    def _norm(self, name: str) -> dict[str, Any]:
        norm = self._states.norm_of[name]
        return {"norm": "pre norm" if norm is None else "post norm", "norm_module": norm}


def pool(state: Any, lengths: Sequence[int] | None, pooling: str) -> Any:
    """Pool (items, positions, width) to (items, width), without the padding after each item."""
    torch = require("torch", "hf", PURPOSE)
    if pooling == "first":
        return state[:, 0]
    items, positions, _ = state.shape
    counts = torch.tensor([positions] * items if lengths is None else lengths, device=state.device)
    if pooling == "last":
        return state[torch.arange(items, device=state.device), counts - 1]
    counted = torch.arange(positions, device=state.device) < counts[:, None]
    return (state * counted[:, :, None]).sum(dim=1) / counts[:, None]


def choose_pooling(loaded: Loaded, pooling: str | None, default: str) -> str:
    """The pooling that was asked for, or else the model's own, or else the default of its kind."""
    chosen = pooling or loaded.pooling or default
    if chosen not in POOLINGS:
        asks = "" if pooling else f", as the folder of {loaded.name} asks"
        raise InputError(f"the pooling is {chosen!r}{asks}; choose one of {', '.join(POOLINGS)}")
    return chosen


def check_numbers(dtype: str, **numbers: int | None) -> None:
    """Refuse an unknown storage type, and counts below one."""
    if dtype not in DTYPES:
        raise InputError(f"dtype is {dtype!r}; expected {' or '.join(DTYPES)}")
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise InputError(f"{name.replace('_', '-')} is {value}; expected 1 or more")
