"""What a source is: a named matrix that hands out its rows in blocks."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from identikit.sources.checks import check_matrix


class Source(Protocol):
    """One view: `rows` × `width` numbers, read a block of rows at a time.

    Attributes
    ----------
    name : str
        What reports call the view.
    rows, width : int
        The shape; both are at least 1.
    eps : float
        Machine epsilon of the stored numbers, which bounds how well a rank can be told.
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


class RowSource:
    """What most sources have in common: a checked shape, and what is closed with them.

    Parameters
    ----------
    name, label : str
        What reports call the view, and what errors call it.
    shape : tuple of int
        Rows and columns; anything else is an error.
    eps : float
        Machine epsilon of the stored numbers.
    origin : object, optional
        What lies in memory; `open_source` sets it to the whole path for what lies in a file.
    resources : ExitStack, optional
        What `close` closes, taken over if the shape is right; the opener's own `with` closes
        it otherwise.
    """

    def __init__(
        self,
        name: str,
        label: str,
        shape: tuple[int, ...],
        eps: float,
        origin: object = None,
        resources: ExitStack | None = None,
    ) -> None:
        self.rows, self.width = check_matrix(shape, label)
        self.name, self.eps, self.origin = name, eps, origin
        self.files: tuple[Path, ...] = ()
        self._label = label
        self._resources = ExitStack() if resources is None else resources.pop_all()

    def close(self) -> None:
        """Let go of the file, if there is one."""
        self._resources.close()


class DerivedSource:
    """What sources have in common that make their rows from those of another.

    Parameters
    ----------
    source : Source
        Open; closed with this.
    origin : object
        What this is opened from again.
    """

    def __init__(self, source: Source, origin: object) -> None:
        self.name, self.rows, self.width = source.name, source.rows, source.width
        self.eps, self.files, self.origin = source.eps, source.files, origin
        self._source = source

    def close(self) -> None:
        """Close the source."""
        self._source.close()
