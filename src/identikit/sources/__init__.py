"""Reading embeddings: arrays, tensors and files become named sources of blocks of rows."""

from identikit.sources._beside import Beside, columns_beside
from identikit.sources._dask import DaskBlocks
from identikit.sources._join import BY_POSITION, Matched, paired
from identikit.sources._labels import read_labels
from identikit.sources._names import tell_apart, unpack
from identikit.sources._open import is_in_memory, name_apart, open_source, open_sources
from identikit.sources._safetensors import read_header as read_safetensors_header
from identikit.sources._source import Source
from identikit.sources._tags import view_and_tags
from identikit.sources.npy import NpyWriter

__all__ = [
    "BY_POSITION",
    "Beside",
    "DaskBlocks",
    "Matched",
    "NpyWriter",
    "Source",
    "columns_beside",
    "is_in_memory",
    "name_apart",
    "open_source",
    "open_sources",
    "paired",
    "read_labels",
    "read_safetensors_header",
    "tell_apart",
    "unpack",
    "view_and_tags",
]
