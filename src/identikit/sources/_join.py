"""Rows paired by id instead of by position: an inner join in bounded memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._frames import index_ids
from identikit.sources._id_columns import column_ids, named_columns, without_columns
from identikit.sources._ids import Ids, given_ids, id_keys
from identikit.sources._joined import Places, joined_view
from identikit.sources._open import name_apart, open_source
from identikit.sources._source import Source
from identikit.sources._spill import SHARE, Buckets, Records, Sorter, write_header, writing

#: Bytes that a join may take, whatever the number of rows.
MEMORY = 2**28

_ID = np.dtype([("high", np.uint64), ("low", np.uint64), ("row", np.int64), ("view", np.int64)])
_EXAMPLES = 3

#: What is said of rows that were not paired by id.
BY_POSITION = "paired by position"


@dataclass(frozen=True)
class Matched:
    """How many rows have an id that is in every view.

    Parameters
    ----------
    names : tuple of str
        The views.
    of : tuple of int
        Number of rows of each.
    rows : int
        Number of rows that matched.
    first : Path
        A temporary file of the numbers of these rows in the first view.
    by_index : bool
        Whether the ids are the labels of data frames.
    """

    names: tuple[str, ...]
    of: tuple[int, ...]
    rows: int
    first: Path
    by_index: bool = False

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
        """The labels of the matched rows, given a label for every row of the first view."""
        if len(labels) != self.of[0]:
            raise InputError(
                f"there are {len(labels)} group labels; when rows are paired by id, expected one "
                f"for each of the {self.of[0]} rows of the first view, {self.names[0]!r}"
            )
        picked: NDArray[Any] = labels[np.load(self.first)[:, 0]]
        return picked


class Paired(NamedTuple):
    """Views that belong together row by row, their names, and what matched if that was by id."""

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
    memory: int = MEMORY,
) -> Iterator[Paired]:
    """Views whose t-th rows have the same id; without ids, the views as they are.

    Data frames bring ids with them, unless other ids are given: see `index_ids`.

    The rows come in the order of the first view. A view that has them in another order is copied
    to a temporary file, in order. All temporary files lie in one folder in TMPDIR, which is gone
    when the block ends.

    Parameters
    ----------
    views : sequence
        Each as `open_source` takes it; their numbers of rows may differ.
    ids : str or sequence, optional
        The column (or array) of each view's own file that holds its ids, or several, as
        `named_columns` takes them; or, one a view, arrays of ids or files as `given_ids` does.
    names : sequence of str, optional
        What reports call the views.
    share : float
        The least share of the smallest view's rows that must match.
    memory : int
        Bytes that the join may take.
    """
    if not 0 <= share <= 1:
        raise InputError(f"the share of rows that must match is {share}; expected 0 to 1")
    by_index = ids is None
    if ids is None:
        ids = index_ids(views, share)
    if ids is None:
        yield Paired(views, names, None)
        return
    for what, given in (("names", names), ("ids", ids)):
        if not isinstance(given, str | None) and len(given) != len(views):
            raise InputError(f"expected {what} for {len(views)} views, one each, got {len(given)}")
    with ExitStack() as stack:
        named = named_columns(ids, len(views)) if isinstance(ids, str) else None
        joined = list(views) if named is None else list(map(without_columns, views, named))
        sources = []
        for number, view in enumerate(joined):
            source = open_source(view, None if names is None else names[number], number)
            sources.append(stack.enter_context(closing(source)))
        name_apart(sources, names)
        columns = [
            given_ids(ids[number], source.name)
            if named is None
            else column_ids(views[number], named[number], source.name)
            for number, source in enumerate(sources)
        ]
        with writing(Path(tempfile.gettempdir())):
            temporary = tempfile.TemporaryDirectory(prefix="identikit-join-")
        folder = Path(stack.enter_context(temporary))
        matched, places = _join(sources, columns, folder, share, memory)
        matched = replace(matched, by_index=by_index)
        for number, (source, place) in enumerate(zip(sources, places)):
            if not place.rising or matched.rows < source.rows:
                joined[number] = joined_view(source, place, memory)
        yield Paired(joined, matched.names, matched)


def _join(
    sources: Sequence[Source], ids: Sequence[Ids], folder: Path, share: float, memory: int
) -> tuple[Matched, list[Places]]:
    """Find the rows that match, and write down their places in each view."""
    rows, views = [source.rows for source in sources], len(sources)
    count = -(-sum(rows) * _ID.itemsize * SHARE // memory)
    most = 2 * sum(rows) // count + 1000
    alone = [np.empty(0, np.int64) for _ in sources]
    total = 0
    with (
        Buckets(_ID, count, folder, memory // 2) as hashed,
        Sorter(np.int64, (views,), rows[0], folder, memory // 2) as matches,
    ):
        _deal_out(sources, ids, hashed)
        for bucket in range(count):
            if hashed.size(bucket) > most:
                # Hashes deal out evenly what differs: so an id is there again and again, and
                # is found among the first without taking up all.
                _grouped(hashed.take(bucket, most), ids)
            records, starts = _grouped(hashed.take(bucket), ids)
            sizes = np.diff(starts)
            found = records["row"][starts[:-1][sizes == views, None] + np.arange(views)]
            matches.add(found[:, 0], found)
            total += len(found)
            left = records[np.repeat(sizes < views, sizes)]
            for v, known in enumerate(alone):
                more = left["row"][left["view"] == v]
                alone[v] = np.sort(np.concatenate([known, more]))[:_EXAMPLES]
        if total == 0 or total < share * min(rows):
            raise InputError(_too_few(sources, total, share, ids, alone))
        places = _write_places(matches, total, views, folder)
    names = tuple(source.name for source in sources)
    return Matched(names, tuple(rows), total, places[0].path), places


def _deal_out(sources: Sequence[Source], ids: Sequence[Ids], buckets: Buckets) -> None:
    """Read all ids, and put each with its view and row where equal ones of other views go."""
    first = None
    for number, (source, column) in enumerate(zip(sources, ids)):
        row = 0
        for block in column.blocks():
            kind, keys = id_keys(block, column.label, row)
            first = first or kind
            if kind != first:
                raise InputError(
                    f"{ids[0].label} are {first}, {column.label} are {kind}, and '1' is not 1; "
                    "store all ids as the same type"
                )
            records = np.empty(len(keys), _ID)
            records["high"], records["low"] = keys.T
            records["row"] = np.arange(row, row + len(keys))
            records["view"] = number
            # By the upper 24 bits, because a product with all 64 would overflow.
            where = (keys[:, 1] >> np.uint64(40)) * np.uint64(buckets.count) >> np.uint64(24)
            buckets.add(records, where.astype(np.intp))
            row += len(keys)
        if row != source.rows:
            raise InputError(
                f"{column.label}: there are {row} ids for {source.rows} rows; expected one a row"
            )


def _grouped(records: Records, ids: Sequence[Ids]) -> tuple[Records, NDArray[np.intp]]:
    """Records with equal ids side by side, in order of views; where groups start, and the end.

    An id that a view has twice is an error.
    """
    records = records[np.lexsort((records["low"], records["high"]))]
    before, after = records[:-1], records[1:]
    same = (before["high"] == after["high"]) & (before["low"] == after["low"])
    twice = np.flatnonzero(same & (before["view"] == after["view"]))
    if len(twice):
        place = twice[np.argmin(after["row"][twice])]
        column, row = ids[after["view"][place]], int(before["row"][place])
        raise InputError(
            f"{column.label}: rows {row} and {after['row'][place]} (counting from 0) both have the "
            f"id {column.at(row)!r}; expected ids that occur once in a view"
        )
    starts = np.flatnonzero(np.concatenate([[True], ~same]))
    return records, np.append(starts, len(records))


def _too_few(
    sources: Sequence[Source],
    total: int,
    share: float,
    ids: Sequence[Ids],
    alone: Sequence[NDArray[np.int64]],
) -> str:
    least = min(sources, key=lambda source: source.rows)
    examples = "; ".join(
        f"{', '.join(repr(column.at(int(row))) for row in rows)} in {source.name!r}"
        for source, column, rows in zip(sources, ids, alone)
        if len(rows)
    )
    return (
        f"only {total} of the {least.rows} rows of view {least.name!r} have an id that every view "
        f"has, and at least {share:.0%} must; without a partner are, for example, {examples}: "
        "check that the ids are written alike, or lower the share of rows that must match"
    )


def _write_places(matches: Sorter, total: int, views: int, folder: Path) -> list[Places]:
    rising, last = np.ones(views, dtype=bool), np.full((1, views), -1)
    paths = [folder / f"{view}.npy" for view in range(views)]
    digests = [blake2b(digest_size=16) for _ in paths]
    with ExitStack() as stack, writing(folder):
        files = [stack.enter_context(path.open("xb")) for path in paths]
        for file in files:
            write_header(file, (total, 1), np.dtype(np.int64))
        for block in matches:
            rows = np.concatenate([last, block["value"]])
            rising &= (np.diff(rows, axis=0) > 0).all(axis=0)
            last = rows[-1:]
            for file, digest, column in zip(files, digests, rows[1:].T):
                data = np.ascontiguousarray(column).data
                file.write(data)
                digest.update(data)
    return [
        Places(path, bool(rises), digest.hexdigest())
        for path, rises, digest in zip(paths, rising, digests)
    ]
