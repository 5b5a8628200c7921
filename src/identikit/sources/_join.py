"""Rows paired by id instead of by position: an inner join of the ids of all views.

The ids of all views are in memory at once. An id takes 56 bytes if it is an integer, and 105 bytes
plus its characters if it is a string. So 1 GB is enough for 17 million integers, or for 8 million
strings of 20 characters, counting the ids of all views together.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources import _ids
from identikit.sources._joined import joined_view
from identikit.sources._open import name_apart, open_source
from identikit.sources._source import Source
from identikit.sources.array import is_anndata
from identikit.sources.files import writing_temporary
from identikit.sources.memory import default_memory

if TYPE_CHECKING:
    import pandas as pd

Places = NDArray[np.int64]

#: How reports describe rows that were not paired by id.
BY_POSITION = "paired by position"

# Bytes that an id needs in addition to its value: its place in an index, in the hash table of that
# index, and in the list of rows that match.
_BESIDE_VALUE = 48
_EXAMPLES = 3


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

    Without ids, data frames are paired by their indexes if these hold ids (see `_match_frames`),
    and any other views are returned unchanged.

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
    places = _match_frames(views, share) if ids is None else []
    if places is None:
        yield Paired(views, names, None)
        return
    for what, given in (("names", names), ("ids", ids)):
        if not isinstance(given, str | None) and len(given) != len(views):
            raise InputError(f"expected {what} for {len(views)} views, one each, got {len(given)}")
    budget = default_memory() if memory is None else memory
    with ExitStack() as stack:
        named = _ids.named_columns(ids, len(views)) if isinstance(ids, str) else None
        joined = list(views) if named is None else list(map(_ids.without_columns, views, named))
        sources = []
        for number, view in enumerate(joined):
            source = open_source(view, None if names is None else names[number], number)
            sources.append(stack.enter_context(closing(source)))
        name_apart(sources, names)
        if ids is not None:
            columns = [
                _ids.given_ids(ids[number], source.name)
                if named is None
                else _ids.column_ids(views[number], named[number], source.name)
                for number, source in enumerate(sources)
            ]
            places = _match_ids(sources, columns, share, budget)
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


def _match_frames(views: Sequence[object], share: float) -> list[Places] | None:
    """For each data frame, the numbers of the rows whose index labels occur in every frame.

    The result is None if rows should be paired by position: if a view is not a data frame, has the
    default index (the row's number, which is not an id) or has a label twice, if no label is in all
    of them, or if all frames have the same labels in the same order. If fewer than `share` of the
    shortest frame's labels are in all, neither labels nor positions can be trusted: that is an
    error.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(views, list | tuple) or len(views) < 2:
        return None
    frames = [getattr(view, "obs", None) if is_anndata(view) else view for view in views]
    if not all(isinstance(frame, pandas.DataFrame) for frame in frames):
        return None
    indexes = [frame.index for frame in frames if frame is not None]
    for index in indexes:
        ranges = isinstance(index, pandas.RangeIndex)
        if (ranges and index.start == 0 and index.step == 1) or not index.is_unique:
            return None
    if all(indexes[0].equals(index) for index in indexes[1:]):
        return None
    places, least = _match(indexes), min(map(len, indexes))
    matched = len(places[0])
    if 0 < matched < share * least:
        raise InputError(
            f"the indexes of the data frames share only {matched} labels of {least} "
            f"({', '.join(map(repr, indexes[0][places[0][:_EXAMPLES]].tolist()))} among them), "
            "too few to pair rows by label, and too many to ignore: pass the ids (ids=), or call "
            "reset_index(drop=True) on every frame to pair rows by position"
        )
    return places if matched else None


def _match_ids(
    sources: Sequence[Source], columns: Sequence[_ids.Ids], share: float, memory: int
) -> list[Places]:
    """For each view, the numbers of the rows whose ids are in all views, in the first one's order.

    An id that a view has twice is an error, and so is it if less than `share` of the smallest
    view's rows match. `memory` is how many bytes the ids may take.
    """
    indexes: list[pd.Index[Any]] = []
    for source, column in zip(sources, columns):
        index, taken = _index(column, source.rows, memory)
        memory -= taken
        if not index.is_unique:
            again = int(index.duplicated().argmax())
            before = int((index == index[again]).argmax())
            raise InputError(
                f"{column.label}: rows {before} and {again} (counting from 0) both have the id "
                f"{_shown(index[again])}; expected every id only once in a view"
            )
        indexes.append(index)
    for column, index in zip(columns, indexes):
        _check_same_kind(columns[0].label, indexes[0], column.label, index)
    places = _match(indexes)
    least = min(sources, key=lambda source: source.rows)
    if len(places[0]) and len(places[0]) >= share * least.rows:
        return places
    examples = []
    for source, index, rows in zip(sources, indexes, places):
        if alone := [_shown(value) for value in index.delete(rows)[:_EXAMPLES].tolist()]:
            examples.append(f"{', '.join(alone)} in {source.name!r}")
    raise InputError(
        f"only {len(places[0])} of the {least.rows} rows of view {least.name!r} have an id that "
        f"every view has, and at least {share:.0%} must; rows without a partner are, for example, "
        f"{'; '.join(examples)}: check that the ids are written in the same way, or lower the "
        "share of rows that must match"
    )


def _match(indexes: Sequence[pd.Index[Any]]) -> list[Places]:
    """The numbers of the rows whose label is in every index; no index may have duplicates."""
    first = indexes[0]
    found = [np.asarray(index.get_indexer(first), dtype=np.int64) for index in indexes[1:]]
    everywhere = np.ones(len(first), dtype=bool)
    for rows in found:
        everywhere &= rows >= 0
    return [np.flatnonzero(everywhere), *(rows[everywhere] for rows in found)]


def _index(ids: _ids.Ids, rows: int, memory: int) -> tuple[pd.Index[Any], int]:
    """All ids and the bytes they take: there must be `rows` ids, in at most `memory` bytes."""
    import pandas as pd

    blocks: list[NDArray[Any]] = []
    found = needed = 0
    for raw in ids.blocks:
        block = _ids.plain_ids(raw, ids.label, found)
        blocks.append(block)
        found += len(block)
        needed += _BESIDE_VALUE * len(block) + block.nbytes
        if block.dtype == object:
            needed += sum(map(sys.getsizeof, block))
        if needed > memory:
            raise InputError(
                f"{ids.label}: the ids of {found:,} of {rows:,} rows fill the "
                f"{memory / 1e6:,.1f} MB of memory that are left for ids, and all ids are "
                "needed at once; give a larger memory budget (--memory) or shorter ids "
                "(integers take the least), or sort every view by id and pair rows by position"
            )
        _check_same_kind(ids.label, blocks[0], ids.label, block)
    if found != rows:
        raise InputError(
            f"{ids.label}: there are {found} ids for {rows} rows; expected one per row"
        )
    if len({block.dtype for block in blocks}) > 1:  # signed and unsigned would give floats
        if any(block.min() < 0 for block in blocks if len(block)):
            raise _ids.too_wide(ids.label)
        blocks = [block.astype(np.uint64) for block in blocks]
    whole = np.concatenate(blocks)
    if whole.dtype == np.uint64 and whole.max() <= np.iinfo(np.int64).max:
        whole = whole.astype(np.int64)
    return pd.Index(whole, dtype=whole.dtype), needed


def _check_same_kind(first: str, ids: Any, label: str, others: Any) -> None:
    kinds = ["strings" if each.dtype == object else "integers" for each in (ids, others)]
    if kinds[0] != kinds[1]:
        raise InputError(
            f"{first} are {kinds[0]}, {label} are {kinds[1]}, and '1' is not 1; store all ids "
            "with the same type"
        )


def _shown(value: Any) -> str:
    return repr(", ".join(value.split(_ids.BETWEEN))) if isinstance(value, str) else str(value)
