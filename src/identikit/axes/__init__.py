"""From maps to axes: ICA, near-identifiability up to a rung, components that recur across runs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from identikit.axes._ica import ICA
    from identikit.axes._ica_rung import ica_rung, view_axes
    from identikit.axes._near import near_identifiability
    from identikit.axes._near_result import Direction, NearIdentifiability
    from identikit.axes.components import Components, match_components

# scikit-learn's base classes are slow to import, and an audit does not need them.
_LATER = {
    "Components": "components",
    "Direction": "_near_result",
    "ICA": "_ica",
    "NearIdentifiability": "_near_result",
    "ica_rung": "_ica_rung",
    "match_components": "components",
    "near_identifiability": "_near",
    "view_axes": "_ica_rung",
}

__all__ = [
    "ICA",
    "Components",
    "Direction",
    "NearIdentifiability",
    "ica_rung",
    "match_components",
    "near_identifiability",
    "view_axes",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
