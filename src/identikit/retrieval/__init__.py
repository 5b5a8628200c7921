"""An old and a new embedding model: what a change costs the search."""

from identikit.retrieval._bound import RotationBound, rotation_bound
from identikit.retrieval._looks import Look
from identikit.retrieval._maps import fit_space_map
from identikit.retrieval._migrate import migrate
from identikit.retrieval._space_map import SpaceMap, load_space_map
from identikit.retrieval.result import Migration

__all__ = [
    "Look",
    "Migration",
    "RotationBound",
    "SpaceMap",
    "fit_space_map",
    "load_space_map",
    "migrate",
    "rotation_bound",
]
