"""Components across runs: which atoms or axes come back, how well, and against what chance."""

from identikit.components._match import match_components
from identikit.components._result import Components, RunReport
from identikit.components._strictest import NullReport
from identikit.components._subspace import Subspace

__all__ = [
    "Components",
    "NullReport",
    "RunReport",
    "Subspace",
    "match_components",
]
