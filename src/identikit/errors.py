"""What identikit raises: one class for wrong input, one for a missing extra."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from identikit._text import plain

__all__ = ["InputError", "MissingExtraError", "require"]


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
        raise MissingExtraError(
            f"{purpose} needs {module}, which is not installed: pip install 'identikit[{extra}]'"
        ) from error
