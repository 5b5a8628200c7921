"""Embeddings in: arrays, tensors and files become named sources of row blocks."""

from identikit.sources._join import BY_POSITION, Matched, paired
from identikit.sources._labels import read_labels
from identikit.sources._names import tell_apart, unpack
from identikit.sources._open import open_source, open_sources
from identikit.sources._source import Source

__all__ = [
    "BY_POSITION",
    "Matched",
    "Source",
    "open_source",
    "open_sources",
    "paired",
    "read_labels",
    "tell_apart",
    "unpack",
]
