"""The ladder of rungs, its held-out errors, and fitted maps."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from identikit.alignment._ladder import HeldOut, applicable, ladder, totals
from identikit.alignment._map_fit import best_map
from identikit.alignment._noise import Denoised
from identikit.alignment._ridge import choose_strength, ridge
from identikit.alignment._rungs import RUNGS, Rung, axis_free, counts_as, join
from identikit.alignment._stats import PairStats, matching, pair_stats, whitened_stats

if TYPE_CHECKING:
    from identikit.alignment._map import AlignmentMap, align, made_map
    from identikit.alignment._map_file import damaged, load_map, read_map, write_map

# scikit-learn's base classes are slow to import, and an audit does not need them.
_LATER = {
    "AlignmentMap": "_map",
    "align": "_map",
    "damaged": "_map_file",
    "load_map": "_map_file",
    "made_map": "_map",
    "read_map": "_map_file",
    "write_map": "_map_file",
}

__all__ = [
    "RUNGS",
    "AlignmentMap",
    "Denoised",
    "HeldOut",
    "PairStats",
    "Rung",
    "align",
    "applicable",
    "axis_free",
    "best_map",
    "choose_strength",
    "counts_as",
    "damaged",
    "join",
    "ladder",
    "load_map",
    "made_map",
    "matching",
    "pair_stats",
    "read_map",
    "ridge",
    "totals",
    "whitened_stats",
    "write_map",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
