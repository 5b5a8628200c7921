"""From maps to axes: ICA, near-identifiability up to a rung, components that recur across runs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from identikit.axes._components import match_components
    from identikit.axes._components_result import Components
    from identikit.axes._components_subspace import Subspace
    from identikit.axes._ica import ICA
    from identikit.axes._ica_core import IndependentAxes
    from identikit.axes._ica_rung import axes_apart, corrected_rung, ica_rung, turned, view_axes
    from identikit.axes._near import near_identifiability
    from identikit.axes._near_result import LARGEST, Direction, Efficiency, NearIdentifiability
    from identikit.axes._transformer import AxesTransformer

# scikit-learn's base classes are slow to import, and an audit does not need them.
_LATER = {
    "AxesTransformer": "_transformer",
    "Components": "_components_result",
    "Direction": "_near_result",
    "Efficiency": "_near_result",
    "ICA": "_ica",
    "IndependentAxes": "_ica_core",
    "LARGEST": "_near_result",
    "NearIdentifiability": "_near_result",
    "Subspace": "_components_subspace",
    "axes_apart": "_ica_rung",
    "corrected_rung": "_ica_rung",
    "ica_rung": "_ica_rung",
    "match_components": "_components",
    "near_identifiability": "_near",
    "turned": "_ica_rung",
    "view_axes": "_ica_rung",
}

__all__ = [
    "ICA",
    "LARGEST",
    "AxesTransformer",
    "Components",
    "Direction",
    "Efficiency",
    "IndependentAxes",
    "NearIdentifiability",
    "Subspace",
    "axes_apart",
    "corrected_rung",
    "ica_rung",
    "match_components",
    "near_identifiability",
    "turned",
    "view_axes",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
