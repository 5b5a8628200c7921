"""PyTorch tensors, and arrays that other libraries keep, on a graphics card mostly.

What its own library sums up comes in by the array API standard: PyTorch and CuPy through
array_api_compat, any other library through its arrays' own ``__array_namespace__``. Tested with
PyTorch on the CPU and with array_api_strict, which refuses whatever the standard does not promise;
never run with CuPy or on a graphics card.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError, require
from identikit.sources._source import RowSource, Source
from identikit.sources.checks import BFLOAT16_EPS, is_bfloat16, numeric_eps


def is_tensor(view: object) -> bool:
    """Whether this is a torch.Tensor, which can only come once torch is loaded."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return tensor is not None and isinstance(view, tensor)


def lives_elsewhere(view: Any) -> bool:
    """Whether this is an array that its own library shall sum up, where it is.

    Not a tensor in this process's memory: NumPy reads that as it lies, and BLAS's symmetric
    product takes half the operations of the general one.
    """
    if is_tensor(view):
        return bool(view.device.type != "cpu")
    own = hasattr(view, "__array_namespace__") and not isinstance(view, np.ndarray | np.generic)
    return own or _is_cupy(view)


def to_numpy(array: Any) -> NDArray[Any]:
    """An array from any device, with or without gradient, as NumPy's; bfloat16 as float32."""
    if is_tensor(array):
        half = str(array.dtype) == "torch.bfloat16"
        tensor: NDArray[Any] = (array.detach().float() if half else array).numpy(force=True)
        return tensor
    if _is_cupy(array):
        copy: NDArray[Any] = array.get()
        return copy
    try:
        host = np.asarray(array)
    except (TypeError, RuntimeError):
        host = np.from_dlpack(array)
    return host.astype(np.float32) if is_bfloat16(host.dtype) else host


class TensorSource(RowSource):
    """Rows of an array of another library, brought to the host a block at a time.

    Parameters
    ----------
    array : torch.Tensor, cupy.ndarray or any array of the standard
        Two-dimensional, dense, of a real dtype.
    name : str
        What reports call the view.
    label : str, optional
        What errors call it; "view" and its name by default.
    """

    def __init__(self, array: Any, name: str, label: str | None = None) -> None:
        label = f"view {name!r}" if label is None else label
        super().__init__(name, label, tuple(array.shape), 0.0, array)
        # Sums of a tensor that is being trained would keep every block for the gradient.
        self._array = array.detach() if is_tensor(array) else array
        try:
            first = self.read(0, 1)
        except (TypeError, RuntimeError, ValueError, BufferError) as error:
            layout = getattr(array, "layout", "its own")
            raise InputError(
                f"{label} is a {type(array).__name__} of dtype {array.dtype} on {array.device}, of "
                f"layout {layout}, whose rows do not convert to NumPy arrays ({error}); expected a "
                "dense array of real numbers: try .to_dense() or .float()"
            ) from error
        half = str(array.dtype).endswith("bfloat16")
        self.eps = BFLOAT16_EPS if half else numeric_eps(np.dtype(first.dtype), label)

    def block(self, start: int, stop: int) -> Any:
        """Rows `start` to `stop`, where they are."""
        return self._array[start:stop, :]

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop`, on the host."""
        block = to_numpy(self.block(start, stop))
        block.flags.writeable = False
        return block


class DeviceSource(TensorSource):
    """Rows of an array that its own library can sum up, where it is.

    Parameters
    ----------
    array, name
        As of `TensorSource`.

    Attributes
    ----------
    xp : module
        The functions of the standard for this array.
    device : object
        Where the array is, as its library says.
    """

    def __init__(self, array: Any, name: str) -> None:
        self.xp, self.device = _namespace(array), array.device
        super().__init__(array, name)

    @property
    def has_float64(self) -> bool:
        """Whether the device computes in float64, in which everything is summed."""
        return "float64" in self.xp.__array_namespace_info__().dtypes(device=self.device)


def on_one_device(sources: Sequence[Source]) -> list[DeviceSource]:
    """All the views, if they lie on one device that can sum them up; otherwise none."""
    found = [source for source in sources if isinstance(source, DeviceSource)]
    together = len(found) == len(sources) and all(
        source.xp is found[0].xp and source.device == found[0].device for source in found
    )
    return found if together and found[0].has_float64 else []


def _is_cupy(view: object) -> bool:
    array = getattr(sys.modules.get("cupy"), "ndarray", None)
    return array is not None and isinstance(view, array)


def _namespace(array: Any) -> Any:
    if is_tensor(array) or _is_cupy(array):
        compat = require("array_api_compat", "gpu", f"a {type(array).__name__} on {array.device}")
        return compat.array_namespace(array)
    return array.__array_namespace__()
