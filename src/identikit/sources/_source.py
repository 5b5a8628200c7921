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
        Machine epsilon of the stored numbers, which limits how precisely a rank can be determined.
    origin : object
        What `open_source` can open this view from again, also in another process: an absolute
        path as text, the array itself, or a `Recipe`.
    files : tuple of Path
        The files that it is read from; empty for a view in memory.
    """

    name: str
    rows: int
    width: int
    eps: float
    origin: object
    files: tuple[Path, ...]

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop`, as a slice would give them: a 2-D array that must not be changed.

        Its dtype is the stored one, in any byte order; bfloat16 is converted to float32.
        """
        ...

    def close(self) -> None:
        """Close the file; closing it twice is harmless."""
        ...


class Recipe(Protocol):
    """A view that is computed from others while it is read; it is small and is sent to workers."""

    def open_source(self, name: str) -> Source:
        """Open the view under the given name."""
        ...


class RowSource:
    """Base class of most sources: it checks the shape, and `close` releases the resources.

    `label` is what error messages call the view. `origin` is the object in memory; for a file,
    `open_source` sets it. `resources` are taken over from the caller only if the shape is right;
    otherwise the caller's own `with` block closes them.
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
        """Close the file, if there is one."""
        self._resources.close()


class DerivedSource:
    """Base class of sources that compute their rows from another, which `close` closes."""

    def __init__(self, source: Source, origin: object) -> None:
        self.name, self.rows, self.width = source.name, source.rows, source.width
        self.eps, self.files, self.origin = source.eps, source.files, origin
        self._source = source

    def close(self) -> None:
        """Close the source."""
        self._source.close()
