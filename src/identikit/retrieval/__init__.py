"""An old and a new embedding model: what a change costs the search, and what has changed."""

from identikit.retrieval._bound import RotationBound, rotation_bound
from identikit.retrieval._causes import CAUSES, Cause
from identikit.retrieval._check import check
from identikit.retrieval._looks import Look
from identikit.retrieval._maps import fit_space_map
from identikit.retrieval._migrate import migrate
from identikit.retrieval._pin import Pin, PinnedView, load_pin, pin
from identikit.retrieval._space_map import SpaceMap, load_space_map
from identikit.retrieval.check_result import CheckResult, LayerCheck
from identikit.retrieval.migration_result import Migration

__all__ = [
    "CAUSES",
    "Cause",
    "CheckResult",
    "LayerCheck",
    "Look",
    "Migration",
    "Pin",
    "PinnedView",
    "RotationBound",
    "SpaceMap",
    "check",
    "fit_space_map",
    "load_pin",
    "load_space_map",
    "migrate",
    "pin",
    "rotation_bound",
]
