"""PyTorch tensors, and arrays of other libraries, mostly on a GPU.

Arrays that are summed up by their own library are used through the array API standard: PyTorch and
CuPy through array_api_compat, any other library through its arrays' own ``__array_namespace__``.
This is tested with PyTorch on the CPU and with array_api_strict, which refuses everything that the
standard does not guarantee. It has never been run with CuPy or on a GPU.
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
    """Whether this is a torch.Tensor; torch is not imported to find out."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return tensor is not None and isinstance(view, tensor)


def lives_elsewhere(view: Any) -> bool:
    """Whether this is an array that its own library should sum up, on its own device.

    A tensor in this process's memory is not: NumPy can read it without a copy, and the symmetric
    matrix product of BLAS takes half the operations of the general one.
    """
    if is_tensor(view):
        return bool(view.device.type != "cpu")
    own = hasattr(view, "__array_namespace__") and not isinstance(view, np.ndarray | np.generic)
    return own or _is_cupy(view)


def to_numpy(array: Any) -> NDArray[Any]:
    """Convert an array from any device, with or without gradient, to NumPy; bfloat16 to float32."""
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
    """Rows of another library's dense 2-D array, copied to the host one block at a time.

    `label` is what error messages call it; "view" and its name by default.
    """

    def __init__(self, array: Any, name: str, label: str | None = None) -> None:
        label = f"view {name!r}" if label is None else label
        super().__init__(name, label, tuple(array.shape), 0.0, array)
        # Sums of a tensor that requires gradients would keep every block in memory.
        self._array = array.detach() if is_tensor(array) else array
        try:
            first = self.read(0, 1)
        except (TypeError, RuntimeError, ValueError, BufferError) as error:
            layout = getattr(array, "layout", "unknown")
            raise InputError(
                f"{label} is a {type(array).__name__} of dtype {array.dtype} on {array.device}, of "
                f"layout {layout}, whose rows do not convert to NumPy arrays ({error}); expected a "
                "dense array of real numbers: try .to_dense() or .float()"
            ) from error
        half = str(array.dtype).endswith("bfloat16")
        self.eps = BFLOAT16_EPS if half else numeric_eps(np.dtype(first.dtype), label)

    def block(self, start: int, stop: int) -> Any:
        """Rows `start` to `stop`, on the device."""
        return self._array[start:stop, :]

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop`, on the host."""
        block = to_numpy(self.block(start, stop))
        block.flags.writeable = False
        return block


class DeviceSource(TensorSource):
    """Rows of an array that its own library can sum up, on its own device.

    `xp` is the array API namespace of the array, and `device` its device, as its library names it.
    """

    def __init__(self, array: Any, name: str) -> None:
        self.xp, self.device = _namespace(array), array.device
        super().__init__(array, name)

    @property
    def has_float64(self) -> bool:
        """Whether the device supports float64, in which all sums are computed."""
        return "float64" in self.xp.__array_namespace_info__().dtypes(device=self.device)


def on_one_device(sources: Sequence[Source]) -> list[DeviceSource]:
    """All the views if they are on one device that can sum them up; otherwise an empty list."""
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
