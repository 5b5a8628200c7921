"""Checks of every view: it must hold real numbers, in at least one row and one column."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from identikit.errors import InputError

# The unit roundoff of bfloat16: half of what NumPy would call its eps.
BFLOAT16_EPS = 2.0**-8
FLOAT64_EPS = 2.0**-52
_LISTED = 20
_HINTS = {
    "c": "; split it into real and imaginary columns",
    "V2": "; if it was bfloat16, np.save lost its type: save it as float32 or as .safetensors",
}


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Whether this is the bfloat16 that other packages add to NumPy; only its name is checked."""
    return dtype.name == "bfloat16"


def numeric_eps(dtype: np.dtype[Any], label: str) -> float:
    """Machine epsilon of a real dtype; never below float64's, in which everything is computed.

    Any other dtype is an error, in which `label` is the view's name.
    """
    if is_bfloat16(dtype):
        return BFLOAT16_EPS
    if dtype.hasobject:
        raise InputError(
            f"{label} holds Python objects (dtype object), not numbers; convert it to a plain "
            "numeric array first, for example np.asarray(x, dtype=np.float32)"
        )
    if dtype.kind not in "biuf":
        raise InputError(
            f"{label} has dtype {dtype}; expected real numbers: floating point, integer or bool"
            f"{_HINTS.get(dtype.str[1:], _HINTS.get(dtype.kind, ''))}"
        )
    return max(float(np.finfo(dtype).eps), FLOAT64_EPS) if dtype.kind == "f" else FLOAT64_EPS


def check_matrix(shape: tuple[int, ...], label: str) -> tuple[int, int]:
    """The shape as (rows, columns), or an error that says how to reshape the array."""
    if len(shape) == 1:
        raise InputError(
            f"{label} is 1-D, of shape {shape}; expected rows × columns: "
            "use x.reshape(-1, 1) if it is one column"
        )
    if len(shape) != 2:
        raise InputError(
            f"{label} is {len(shape)}-D, of shape {shape}; expected rows × columns: flatten it "
            "to two axes, for example x.reshape(x.shape[0], -1)"
        )
    rows, width = shape
    if rows == 0 or width == 0:
        raise InputError(
            f"{label} has no {'rows' if rows == 0 else 'columns'}, its shape is {shape}; "
            "expected at least one row and one column"
        )
    return rows, width


def choose(names: Collection[str], member: str | None, label: str) -> str:
    """Choose one of the arrays of a file; `member` may be None if there is only one."""
    if not names:
        raise InputError(f"{label} holds no arrays; expected at least one")
    listed = ", ".join(repr(name) for name in sorted(names)[:_LISTED])
    if len(names) > _LISTED:
        listed += f", and {len(names) - _LISTED} more"
    if member is None:
        if len(names) > 1:
            raise InputError(
                f"{label} holds {len(names)} arrays; choose one with path::name: {listed}"
            )
        return next(iter(names))
    if member not in names:
        raise InputError(f"{label} holds no array named {member!r}; it holds: {listed}")
    return member
