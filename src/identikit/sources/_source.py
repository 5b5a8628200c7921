"""What a source is: a named matrix that hands out its rows in blocks."""

from __future__ import annotations

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
    """

    name: str
    rows: int
    width: int
    eps: float

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop` as a slice would give them, 2-D, to be read and not written.

        The dtype is the stored one, in any byte order; bfloat16 comes as float32.
        """
        ...

    def close(self) -> None:
        """Let go of the file; closing twice is harmless."""
        ...
