"""Components across runs: which atoms or axes come back, how well, and against what chance."""

from identikit.axes.components._match import match_components
from identikit.axes.components._result import Components, RunReport
from identikit.axes.components._strictest import NullReport
from identikit.axes.components._subspace import Subspace

__all__ = [
    "Components",
    "NullReport",
    "RunReport",
    "Subspace",
    "match_components",
]
