"""What identikit raises: one class for wrong input, one for a missing extra."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from identikit._text import plain

__all__ = ["InputError", "MissingExtraError", "naming_extras", "require"]

#: Modules that code imports as it runs, and the extra that installs each.
EXTRAS = {"torch": "torch", "transformers": "hf", "tokenizers": "hf", "pyarrow": "io"}


class InputError(ValueError):
    """The input or the call is wrong; the message says what, where and what to do about it."""

    def __init__(self, message: object = "") -> None:
        super().__init__(plain(message))


class MissingExtraError(ImportError):
    """An optional dependency is not installed; the message is the pip line that installs it."""


def require(module: str, extra: str, purpose: str) -> Any:
    """Import an optional module, or say which pip line brings it.

    Parameters
    ----------
    module : str
        The module to import.
    extra : str
        identikit's extra that installs it.
    purpose : str
        What it is needed for; the start of the error's sentence.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise _missing(module, extra, purpose) from error


@contextmanager
def naming_extras(purpose: str) -> Iterator[None]:
    """Say which pip line brings a module that code within imports plainly, if it is not there.

    Parameters
    ----------
    purpose : str
        What it is needed for; the start of the error's sentence.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        raise _missing(module, EXTRAS[module], purpose) from error


def _missing(module: str, extra: str, purpose: str) -> MissingExtraError:
    return MissingExtraError(
        f"{purpose} needs {module}, which is not installed: pip install 'identikit[{extra}]'"
    )
