"""Moments, the sufficient statistics of views, and the one loop over rows that computes them."""

from identikit.moments._accumulate import accumulate
from identikit.moments._distinct import DUPLICATES, Distinct, duplicate_groups
from identikit.moments._extremes import Extremes
from identikit.moments._file import SUFFIX, check_suffix, load_moments, save_moments
from identikit.moments._folds import FOLDS, LEAST_GROUPS, Folds, assign_folds
from identikit.moments._header import FOLD_RULES
from identikit.moments._less import less_extremes
from identikit.moments._merge import merge_moments
from identikit.moments._moments import Moments, Shard
from identikit.moments._part import Part, StackLayout
from identikit.moments._passes import finite_rows, read_moments
from identikit.moments._pca import Subspace, leading, reduction_bytes
from identikit.moments._resume import read_and_save
from identikit.moments._row_span import in_few_rows, row_span, span_bytes
from identikit.moments._sizes import in_range, in_units
from identikit.moments._tiles import Tile, tiles
from identikit.moments.memory import SAMPLE, check_memory, default_memory, scatter_bytes

__all__ = [
    "DUPLICATES",
    "FOLDS",
    "FOLD_RULES",
    "LEAST_GROUPS",
    "SAMPLE",
    "SUFFIX",
    "Distinct",
    "Extremes",
    "Folds",
    "Moments",
    "Part",
    "Shard",
    "StackLayout",
    "Subspace",
    "Tile",
    "accumulate",
    "assign_folds",
    "check_memory",
    "check_suffix",
    "default_memory",
    "duplicate_groups",
    "finite_rows",
    "in_few_rows",
    "in_range",
    "in_units",
    "leading",
    "less_extremes",
    "load_moments",
    "merge_moments",
    "read_and_save",
    "read_moments",
    "reduction_bytes",
    "row_span",
    "save_moments",
    "scatter_bytes",
    "span_bytes",
    "tiles",
]
