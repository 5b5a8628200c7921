"""From maps to axes: ICA, near-identifiability up to a rung, components that recur across runs."""

from typing import TYPE_CHECKING, Any

from identikit.axes._components import match_components as match_components
from identikit.axes._components_result import Components as Components
from identikit.axes._components_subspace import Subspace as Subspace
from identikit.axes._ica_core import IndependentAxes as IndependentAxes
from identikit.axes._ica_rung import axes_apart as axes_apart
from identikit.axes._ica_rung import corrected_rung as corrected_rung
from identikit.axes._ica_rung import ica_rung as ica_rung
from identikit.axes._ica_rung import turned as turned
from identikit.axes._ica_rung import view_axes as view_axes
from identikit.axes._near import near_identifiability as near_identifiability
from identikit.axes._near_result import LARGEST as LARGEST
from identikit.axes._near_result import Direction as Direction
from identikit.axes._near_result import Efficiency as Efficiency
from identikit.axes._near_result import NearIdentifiability as NearIdentifiability

if TYPE_CHECKING:
    from identikit.axes._ica import ICA as ICA
    from identikit.axes._ica import AxesTransformer as AxesTransformer


def __getattr__(name: str) -> Any:
    if name in ("ICA", "AxesTransformer"):  # scikit-learn's base classes are slow to import
        from identikit.axes import _ica

        return getattr(_ica, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
