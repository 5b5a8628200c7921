"""The ladder of groups, its held-out errors, fitted maps, ICA, and ε up to a group."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from identikit.alignment._groups import GROUPS, Group, axis_free, counts_as
from identikit.alignment._ladder import HeldOut, ladder
from identikit.alignment._noise import Denoised

if TYPE_CHECKING:
    from identikit.alignment._ica import ICA
    from identikit.alignment._ica_rung import ica_rung, view_axes
    from identikit.alignment._map import AlignmentMap, align
    from identikit.alignment._map_file import load_map
    from identikit.alignment._near import near_identifiability
    from identikit.alignment._near_result import NearIdentifiability

# scikit-learn's base classes are slow to import, and an audit does not need them.
_LATER = {
    "AlignmentMap": "_map",
    "ICA": "_ica",
    "NearIdentifiability": "_near_result",
    "align": "_map",
    "ica_rung": "_ica_rung",
    "load_map": "_map_file",
    "near_identifiability": "_near",
    "view_axes": "_ica_rung",
}

__all__ = [
    "GROUPS",
    "ICA",
    "AlignmentMap",
    "Denoised",
    "Group",
    "HeldOut",
    "NearIdentifiability",
    "align",
    "axis_free",
    "counts_as",
    "ica_rung",
    "ladder",
    "load_map",
    "near_identifiability",
    "view_axes",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
