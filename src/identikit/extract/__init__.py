"""Representations out of models: Hugging Face models on text and images, any PyTorch module.

Importing this needs neither PyTorch nor transformers; they are asked for when a model is run.
"""

from identikit.extract._folder import read_manifest
from identikit.extract._images import images
from identikit.extract._module import module
from identikit.extract._text import text

__all__ = ["images", "module", "read_manifest", "text"]
