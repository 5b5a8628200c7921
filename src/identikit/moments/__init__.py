"""Sufficient statistics: Moments, and the one loop over rows that makes them."""

from identikit.moments._accumulate import accumulate
from identikit.moments._folds import assign_folds
from identikit.moments._memory import check_memory, default_memory, scatter_bytes
from identikit.moments._moments import Moments, Shard
from identikit.moments._passes import Keeper, Kept, finite_rows, read_moments
from identikit.moments._tiles import Tile, tiles

__all__ = [
    "Keeper",
    "Kept",
    "Moments",
    "Shard",
    "Tile",
    "accumulate",
    "assign_folds",
    "check_memory",
    "default_memory",
    "finite_rows",
    "read_moments",
    "scatter_bytes",
    "tiles",
]
