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


def add_gram(rows: Array, gram: Array, keep: float) -> None:
    """``gram = keep · gram + rowsᵀ rows``, in the lower triangle.

    Parameters
    ----------
    rows : array (n, d)
        In C order.
    gram : array (d, d)
        In C order; written in place, and not read if `keep` is 0.
    keep : float
        What the old values are multiplied by.
    """
    assert rows.flags.c_contiguous
    assert gram.flags.c_contiguous
    n, d = rows.shape
    whole = [ctypes.byref(ctypes.c_int(number)) for number in (d, n, d, d)]
    one, factor = (ctypes.byref(ctypes.c_double(number)) for number in (1.0, keep))
    # To BLAS, which thinks in columns, the arrays are their transposes, and lower is upper.
    _dsyrk()(
        b"U",
        b"N",
        whole[0],
        whole[1],
        one,
        rows.ctypes.data,
        whole[2],
        factor,
        gram.ctypes.data,
        whole[3],
    )
