"""The ladder of rungs, its held-out errors, and fitted maps."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from identikit.alignment._ladder import HeldOut, ladder
from identikit.alignment._noise import Denoised
from identikit.alignment._rungs import RUNGS, Rung, axis_free, counts_as

if TYPE_CHECKING:
    from identikit.alignment._map import AlignmentMap, align
    from identikit.alignment._map_file import load_map

# scikit-learn's base classes are slow to import, and an audit does not need them.
_LATER = {
    "AlignmentMap": "_map",
    "align": "_map",
    "load_map": "_map_file",
}

__all__ = [
    "RUNGS",
    "AlignmentMap",
    "Denoised",
    "HeldOut",
    "Rung",
    "align",
    "axis_free",
    "counts_as",
    "ladder",
    "load_map",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
