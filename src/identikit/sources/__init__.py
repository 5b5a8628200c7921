"""Embeddings in: arrays, tensors and files become named sources of row blocks."""

from identikit.sources._labels import read_labels
from identikit.sources._open import open_source, open_sources
from identikit.sources._source import Source

__all__ = ["Source", "open_source", "open_sources", "read_labels"]
