"""An old and a new embedding model: what a change costs the search."""

from identikit.retrieval._maps import SpaceMap, fit_space_map, load_space_map

__all__ = ["SpaceMap", "fit_space_map", "load_space_map"]
