"""Rows paired by id instead of by position: an inner join of the ids of all views."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._ids import column_ids, given_ids, named_columns, without_columns
from identikit.sources._joined import joined_view
from identikit.sources._match import Places, match_frames, match_ids
from identikit.sources._open import name_apart, open_source
from identikit.sources.files import writing_temporary
from identikit.sources.memory import default_memory

#: How reports describe rows that were not paired by id.
BY_POSITION = "paired by position"


@dataclass(frozen=True, eq=False)
class Matched:
    """The rows whose id is in every view.

    `names` and `of` are the names of the views and their numbers of rows, `first` the numbers of
    the matched rows in the first view, and `by_index` says whether ids are the index of data
    frames.
    """

    names: tuple[str, ...]
    of: tuple[int, ...]
    first: Places
    by_index: bool = False

    @property
    def rows(self) -> int:
        """Number of rows that matched."""
        return len(self.first)

    def __str__(self) -> str:
        alone = [
            f"{rows - self.rows:,} of the {rows:,} rows of {name!r}"
            for name, rows in zip(self.names, self.of)
            if rows > self.rows
        ]
        how = "paired by the index of the data frames: " if self.by_index else ""
        by, left = "label" if self.by_index else "id", ", ".join(alone) or "none"
        return f"{how}{self.rows:,} rows matched by {by}; without a partner: {left}"

    def pick(self, labels: NDArray[Any]) -> NDArray[Any]:
        """The labels of the matched rows, given one label for every row of the first view."""
        if len(labels) != self.of[0]:
            raise InputError(
                f"there are {len(labels)} group labels; when rows are paired by id, expected one "
                f"for each of the {self.of[0]} rows of the first view, {self.names[0]!r}"
            )
        picked: NDArray[Any] = labels[self.first]
        return picked


class Paired(NamedTuple):
    """Views whose rows are paired, their names, and the matched rows if they were paired by id."""

    views: Sequence[object]
    names: Sequence[str] | None
    matched: Matched | None


@contextmanager
def paired(
    views: Sequence[object],
    ids: str | Sequence[object] | None = None,
    names: Sequence[str] | None = None,
    *,
    share: float = 0.5,
    memory: int | None = None,
) -> Iterator[Paired]:
    """Pair the rows of views by id, so that the t-th rows of all views have the same id.

    Without ids, data frames are paired by their indexes if these hold ids (see `match_frames`), and
    any other views are returned unchanged.

    Rows are in the order of the first view. A view that has them in another order is copied to a
    temporary file in that order. All temporary files are in one folder in TMPDIR, which is deleted
    when the `with` block ends.

    Parameters
    ----------
    views : sequence
        Views that `open_source` accepts; their numbers of rows may differ.
    ids : str or sequence, optional
        The column (or array) of each view that holds its ids, or several columns, written as
        `named_columns` expects; or a list with one array or file of ids per view, as `given_ids`
        expects.
    names : sequence of str, optional
        What reports call the views.
    share : float
        The smallest share of the smallest view's rows that must match.
    memory : int, optional
        Bytes that the ids of all views may take, and later the rows that are put in order; half
        of the machine's memory by default.
    """
    if not 0 <= share <= 1:
        raise InputError(f"the share of rows that must match is {share}; expected 0 to 1")
    places = match_frames(views, share) if ids is None else []
    if places is None:
        yield Paired(views, names, None)
        return
    for what, given in (("names", names), ("ids", ids)):
        if not isinstance(given, str | None) and len(given) != len(views):
            raise InputError(f"expected {what} for {len(views)} views, one each, got {len(given)}")
    budget = default_memory() if memory is None else memory
    with ExitStack() as stack:
        named = named_columns(ids, len(views)) if isinstance(ids, str) else None
        joined = list(views) if named is None else list(map(without_columns, views, named))
        sources = []
        for number, view in enumerate(joined):
            source = open_source(view, None if names is None else names[number], number)
            sources.append(stack.enter_context(closing(source)))
        name_apart(sources, names)
        if ids is not None:
            columns = [
                given_ids(ids[number], source.name)
                if named is None
                else column_ids(views[number], named[number], source.name)
                for number, source in enumerate(sources)
            ]
            places = match_ids(sources, columns, share, budget)
        with writing_temporary(Path(tempfile.gettempdir())):
            temporary = tempfile.TemporaryDirectory(prefix="identikit-join-")
        folder = Path(stack.enter_context(temporary))
        for number, (source, rows) in enumerate(zip(sources, places)):
            rising = bool((np.diff(rows) > 0).all())
            if not rising or len(rows) < source.rows:
                path = folder / f"{number}.npy"
                joined[number] = joined_view(source, rows, path, budget, rising=rising)
        every = tuple(source.name for source in sources)
        of = tuple(source.rows for source in sources)
        yield Paired(joined, every, Matched(every, of, places[0], ids is None))
