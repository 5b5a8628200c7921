"""Rows that lie in groups: row groups, record batches, bands of chunks.

A group may only be readable from its start, so the place where the last block ended is kept: blocks
that follow one another read every group once, and what is held is one piece and the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources.checks import check_matrix, numeric_eps

#: Bytes of a piece that is read at once where the format leaves the choice.
PIECE_BYTES = 4 * 2**20

Pieces = Callable[[int], Iterator[NDArray[Any]]]


class GroupedRows:
    """A source of rows that lie in groups one after another.

    Parameters
    ----------
    counts : sequence of int
        Rows of each group.
    width : int
        Numbers in a row.
    dtype : dtype
        Of the numbers.
    pieces : callable
        Called with the number of a group, gives the rows from that group's first on to the last of
        all, in pieces of any length.
    name, label : str
        What reports call the view, and what errors call it.
    resources : ExitStack
        What `close` shall close; taken over from the opener if all is well.
    """

    def __init__(
        self,
        counts: Sequence[int],
        width: int,
        dtype: np.dtype[Any],
        pieces: Pieces,
        name: str,
        label: str,
        resources: ExitStack,
    ) -> None:
        self.name = name
        self.eps = numeric_eps(dtype, label)
        self.rows, self.width = check_matrix((sum(counts), width), label)
        self.origin: object = label  # which the one door for views makes a whole path
        self.files: tuple[Path, ...] = ()
        self._dtype = dtype
        self._label = label
        self._pieces = pieces
        self._ends = np.cumsum(counts)
        # The piece at hand and its first row; `_ahead` goes on after it.
        self._piece = np.empty((0, width), dtype)
        self._forget()
        # Only now: if a check above fails, the opener's own `with` still closes the file.
        self._resources = resources.pop_all()

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop`."""
        start, stop, _ = slice(start, stop).indices(self.rows)
        block = np.empty((max(stop - start, 0), self.width), self._dtype)
        done = 0
        while done < len(block):
            self._find(start + done)
            part = self._piece[start + done - self._first :][: len(block) - done]
            block[done : done + len(part)] = part
            done += len(part)
        return block

    def close(self) -> None:
        """Let go of the file and of what was read ahead."""
        self._forget()
        self._resources.close()

    def _forget(self) -> None:
        """Hold nothing, so that the next block starts at its own group."""
        self._ahead: Iterator[NDArray[Any]] = iter(())
        self._piece, self._first = self._piece[:0], self.rows

    def _find(self, row: int) -> None:
        """Make the piece at hand the one that holds this row."""
        after = self._first + len(self._piece)
        group = int(np.searchsorted(self._ends, row, side="right"))
        begins = int(self._ends[group - 1]) if group else 0
        if row < self._first or begins > after:
            self._ahead, self._piece, self._first = self._pieces(group), self._piece[:0], begins
            after = begins
        while row >= after:
            try:
                piece = next(self._ahead, None)
            except BaseException:
                self._forget()
                raise
            if piece is None:
                raise InputError(
                    f"{self._label} ends after row {after - 1}, but {self.rows} rows were promised;"
                    " it is damaged or changed while it was read"
                )
            self._piece, self._first = piece, after
            after += len(piece)


@contextmanager
def explained(label: str, *errors: type[BaseException]) -> Iterator[None]:
    """Turn what a library raises about a file into one sentence.

    Parameters
    ----------
    label : str
        What the error shall call the file.
    *errors : type
        What the library raises.
    """
    try:
        yield
    except InputError:
        raise
    except errors as error:
        words = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"{label} cannot be read: {words[:500]}; it is damaged, truncated or of another kind"
        ) from error
