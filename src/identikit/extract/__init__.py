"""Extract representations from Hugging Face models (text, images) and any PyTorch module.

Importing this package needs neither PyTorch nor transformers; running a model does.
"""

from identikit.extract._folder import read_manifest
from identikit.extract._images import images
from identikit.extract._module import module
from identikit.extract._text import text

__all__ = ["images", "module", "read_manifest", "text"]
