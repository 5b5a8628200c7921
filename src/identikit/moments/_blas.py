"""SciPy's symmetric rank-k product, called so that other threads go on meanwhile."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from scipy.linalg import cython_blas

from identikit._linalg import Array


@cache
def _dsyrk() -> Callable[..., None]:
    """BLAS's dsyrk. SciPy's own wrapper holds Python's lock all the while; a foreign call does not.

    ``__pyx_capi__`` is how SciPy offers its BLAS to other languages.
    """
    capsule = cython_blas.__pyx_capi__["dsyrk"]
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address: Any = pointer(capsule, name(capsule))
    kinds = [ctypes.c_char_p] * 2 + [ctypes.c_void_p] * 8
    function: Callable[..., None] = ctypes.CFUNCTYPE(None, *kinds)(address)
    return function


@cache
def _int(number: int) -> Any:
    return ctypes.byref(ctypes.c_int(number))


@cache
def _double(number: float) -> Any:
    return ctypes.byref(ctypes.c_double(number))


def add_gram(rows: Array, gram: Array, keep: bool) -> None:
    """``gram += rowsᵀ rows``, or ``=`` unless `keep`, in the lower triangle.

    Parameters
    ----------
    rows : array (n, d)
        In C order.
    gram : array (d, d)
        In C order; written in place, and not read unless `keep`.
    keep : bool
        Add to the old values.
    """
    assert rows.flags.c_contiguous
    assert gram.flags.c_contiguous
    n, d = rows.shape
    # To BLAS, which thinks in columns, the arrays are their transposes, and lower is upper.
    _dsyrk()(
        b"U",
        b"N",
        _int(d),
        _int(n),
        _double(1.0),
        rows.ctypes.data,
        _int(d),
        _double(float(keep)),
        gram.ctypes.data,
        _int(d),
    )
