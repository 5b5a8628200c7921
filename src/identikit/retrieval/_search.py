"""Exact search in blocks: the best documents of every query, with no more than a block in memory.

Every metric is an inner product of a query's side and a document's side. With any vector c,

    cosine, dot   q̃ = q              x̃ = x − c
    l2            q̃ = (q − c, 1)     x̃ = (x − c, −‖x − c‖²/2)

order documents as the metric does: q·x and q̃·x̃ differ by q·c, and −‖q − x‖²/2 and q̃·x̃ by
‖q − c‖²/2, which are the same for all documents. The mean of the documents as c leaves only what
differs between them, so that products in single precision lose little. Such a product says which
documents may be among the best, and only these are scored in double precision: the result is that
of a search in double precision. Equal keys are in the order of the documents' rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.retrieval._space_map import normal

Rows = NDArray[np.int64]

#: Queries whose products with a block are in memory at a time, and pairs scored at a time.
QUERIES, PAIRS = 2048, 4096
# What a product in single precision may be off by, over the lengths: this for every column.
_ROUNDING = 2.0**-23


def block_rows(width: int) -> int:
    """The number of documents in a block: about 25 MB in double precision."""
    return int(np.clip(2**22 * 3 // (4 * width), 256, 8192))


def query_side(queries: Array, metric: str, centre: Array) -> Array:
    """What inner products with `document_side` order documents by, for each query."""
    queries = normal(queries, metric)
    if metric != "l2":
        return queries
    return np.column_stack([queries - centre, np.ones(len(queries))])


def document_side(rows: Array, metric: str, centre: Array) -> Array:
    """The other side of these inner products; rows are of length one if the metric is cosine."""
    rows = rows - centre
    if metric != "l2":
        return rows
    return np.column_stack([rows, -0.5 * np.einsum("ij,ij->i", rows, rows)])


def beyond_centre(queries: Array, metric: str, centre: Array) -> Array:
    """What to add to a key so that it is the metric's own: q·x, or −‖q − x‖²/2."""
    queries = normal(queries, metric)
    if metric != "l2":
        return np.asarray(queries @ centre)
    return np.asarray(-0.5 * np.square(queries - centre).sum(axis=1))


class Side:
    """Rows of one side of the products, in double precision and, of length one or less, in single.

    `lengths` are those of the rows; with `together`, all rows are divided by the same number, the
    largest.
    """

    def __init__(self, rows: Array, *, together: bool = False) -> None:
        self.rows = rows
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        if together:
            lengths = np.full(len(rows), lengths.max(initial=0.0))
        self.lengths = np.where(lengths > 0, lengths, 1.0)
        self.single = (rows / self.lengths[:, None]).astype(np.float32)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: Any) -> Side:
        some = Side.__new__(Side)
        some.rows, some.lengths, some.single = (
            self.rows[part],
            self.lengths[part],
            self.single[part],
        )
        return some


class Best:
    """The `depth` best documents of every query among those offered, for each band of documents.

    Parameters
    ----------
    queries, depth, bands : int
    own : array (queries,), optional
        The row of the document that each query is; it is left out of the query's own results.

    Attributes
    ----------
    keys : array (bands, queries, depth)
        From the largest to the smallest; -inf where there are fewer documents.
    rows : array (bands, queries, depth)
        The documents' rows; -1 where there are fewer.
    """

    def __init__(self, queries: int, depth: int, bands: int = 1, own: Rows | None = None) -> None:
        self.keys = np.full((bands, queries, depth), -np.inf)
        self.rows = np.full((bands, queries, depth), -1, dtype=np.int64)
        self.own = own

    def offer(
        self,
        queries: Side,
        documents: Side,
        numbers: Rows,
        band: int = 0,
        some: Rows | None = None,
    ) -> None:
        """Look for better documents in a block.

        Parameters
        ----------
        queries, documents : Side
        numbers : array of int
            The documents' rows.
        band : int
            The band that the documents belong to.
        some : array of int, optional
            The queries that the documents are offered to; all by default.
        """
        if not len(documents):
            return
        asked = np.arange(len(queries)) if some is None else some
        for start in range(0, len(asked), QUERIES):
            part = asked[start : start + QUERIES]
            whole = len(part) == len(queries)
            self._offer(queries if whole else queries[part], documents, numbers, band, part)

    def _offer(self, queries: Side, documents: Side, numbers: Rows, band: int, asked: Rows) -> None:
        near = queries.single @ documents.single.T
        width = documents.rows.shape[1]
        slack = np.float32((width + 8) * _ROUNDING)
        depth = self.keys.shape[2]
        # Keys of this block are at most as long as both rows; in these units they are below 1.
        unit = queries.lengths * documents.lengths[0]
        with np.errstate(over="ignore"):
            floor = (self.keys[band, asked, -1] / unit).astype(np.float32)
        needed = depth + (self.own is not None)
        if near.shape[1] > needed and np.isneginf(floor).any():
            place = near.shape[1] - needed
            seeds = np.partition(near, place, axis=1)[:, place] - slack
            floor = np.maximum(floor, seeds)
        places = np.flatnonzero(near >= (floor - slack)[:, None])
        if not len(places):
            return
        found, columns = np.divmod(places, near.shape[1])
        keys = np.empty(len(found))
        for first in range(0, len(found), PAIRS):
            some = slice(first, first + PAIRS)
            keys[some] = pair_keys(queries.rows[found[some]], documents.rows[columns[some]])
        rows = numbers[columns]
        found = asked[found]
        # Most of these are within rounding of the last place; only the better ones are sorted in.
        better = keys >= self.keys[band, found, -1]
        if self.own is not None:
            better &= rows != self.own[found]
        self._insert(band, found[better], keys[better], rows[better])

    def _insert(self, band: int, found: Rows, keys: Array, rows: Rows) -> None:
        if not len(found):
            return
        depth = self.keys.shape[2]
        these = np.unique(found)
        held = np.repeat(these, depth)
        query = np.concatenate([held, found])
        key = np.concatenate([self.keys[band, these].ravel(), keys])
        row = np.concatenate([self.rows[band, these].ravel(), rows])
        order = np.lexsort((row, -key, query))
        query, key, row = query[order], key[order], row[order]
        first = np.searchsorted(query, these)
        places = (first[:, None] + np.arange(depth)).ravel()
        self.keys[band, these] = key[places].reshape(-1, depth)
        self.rows[band, these] = row[places].reshape(-1, depth)

    def best(self, bands: Sequence[int] | None = None) -> tuple[Rows, Array]:
        """The best documents of all these bands together, and their keys."""
        chosen = range(len(self.keys)) if bands is None else bands
        return merged([(self.rows[band], self.keys[band]) for band in chosen])


def merged(parts: Sequence[tuple[Rows, Array]]) -> tuple[Rows, Array]:
    """The best documents of several lists of different documents, each as long as the first."""
    rows = np.concatenate([part[0] for part in parts], axis=1)
    keys = np.concatenate([part[1] for part in parts], axis=1)
    order = np.lexsort((rows, -keys), axis=1)[:, : parts[0][0].shape[1]]
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(keys, order, axis=1)


def pair_keys(queries: Array, documents: Array) -> Array:
    """The inner product of each row with its partner: equal rows have equal keys, wherever."""
    return np.asarray(np.einsum("ij,ij->i", queries, documents))
