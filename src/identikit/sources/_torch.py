"""PyTorch tensors, without importing PyTorch: a tensor can only come once torch is loaded."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources.checks import BFLOAT16_EPS, check_matrix, numeric_eps


def is_tensor(view: object) -> bool:
    """Whether this is a torch.Tensor."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return tensor is not None and isinstance(view, tensor)


def to_numpy(tensor: Any) -> NDArray[Any]:
    """A tensor on any device, with or without gradient, as an array; bfloat16 as float32."""
    if str(tensor.dtype) == "torch.bfloat16":
        tensor = tensor.detach().float()
    array: NDArray[Any] = tensor.numpy(force=True)
    return array


class TorchSource:
    """Rows of a tensor, brought to the host a block at a time.

    Parameters
    ----------
    tensor : torch.Tensor
        Two-dimensional, dense, of a real dtype.
    name : str
        What reports call the view.
    """

    def __init__(self, tensor: Any, name: str) -> None:
        label = f"view {name!r}"
        self.name = name
        self.rows, self.width = check_matrix(tuple(tensor.shape), label)
        self._tensor = tensor
        self.origin: object = tensor
        self.files: tuple[Path, ...] = ()
        try:
            first = self.read(0, 1)
        except (TypeError, RuntimeError) as error:
            raise InputError(
                f"{label} is a tensor of dtype {tensor.dtype} and layout {tensor.layout} on "
                f"{tensor.device}, which does not convert to a NumPy array ({error}); "
                "expected a dense tensor of real numbers: try .to_dense() or .float()"
            ) from error
        half = str(tensor.dtype) == "torch.bfloat16"
        self.eps = BFLOAT16_EPS if half else numeric_eps(np.dtype(first.dtype), label)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop`."""
        block = to_numpy(self._tensor[start:stop])
        block.flags.writeable = False
        return block

    def close(self) -> None:
        """Nothing to let go of."""
