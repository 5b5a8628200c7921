"""Sufficient statistics: Moments, and the one loop over rows that makes them."""

from identikit.moments._accumulate import (
    accumulate,
    accumulate_sources,
    check_memory,
    default_memory,
    finite_rows,
    scatter_bytes,
)
from identikit.moments._folds import assign_folds
from identikit.moments._moments import Moments
from identikit.moments._tiles import Tile, tiles

__all__ = [
    "Moments",
    "Tile",
    "accumulate",
    "accumulate_sources",
    "assign_folds",
    "check_memory",
    "default_memory",
    "finite_rows",
    "scatter_bytes",
    "tiles",
]
