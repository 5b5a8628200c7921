"""Reading embeddings: arrays, tensors and files become named sources of blocks of rows."""

from identikit.sources._dask import DaskBlocks
from identikit.sources._join import BY_POSITION, paired
from identikit.sources._joined import picked_rows
from identikit.sources._labels import Beside, columns_beside, read_labels, view_and_tags
from identikit.sources._open import (
    is_in_memory,
    name_apart,
    open_source,
    open_sources,
    tell_apart,
    unpack,
)
from identikit.sources._source import Source
from identikit.sources.npy import NpyWriter

__all__ = [
    "BY_POSITION",
    "Beside",
    "DaskBlocks",
    "NpyWriter",
    "Source",
    "columns_beside",
    "is_in_memory",
    "name_apart",
    "open_source",
    "open_sources",
    "paired",
    "picked_rows",
    "read_labels",
    "tell_apart",
    "unpack",
    "view_and_tags",
]
