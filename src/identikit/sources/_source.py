"""What a source is: a named matrix that hands out its rows in blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray


class Source(Protocol):
    """One view: `rows` × `width` numbers, read a block of rows at a time.

    Attributes
    ----------
    name : str
        What reports call the view.
    rows, width : int
        The shape; both are at least 1.
    eps : float
        Spacing of the stored numbers at 1, which bounds how well a rank can be told.
    origin : object
        What `open_source` opens this view from again, in another process too: a whole path as
        text, the array itself, or a `Recipe`.
    files : tuple of Path
        The files it is read from; none for what lies in memory.
    """

    name: str
    rows: int
    width: int
    eps: float
    origin: object
    files: tuple[Path, ...]

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop` as a slice would give them, 2-D, to be read and not written.

        The dtype is the stored one, in any byte order; bfloat16 comes as float32.
        """
        ...

    def close(self) -> None:
        """Let go of the file; closing twice is harmless."""
        ...


class Recipe(Protocol):
    """A view that is made from others as it is read: small, and sent to workers as it is."""

    def open_source(self, name: str) -> Source:
        """Open what it is made from."""
        ...
