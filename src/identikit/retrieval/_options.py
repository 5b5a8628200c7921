"""What can be done when the model changes, searched on one index: six options, six rankings.

Documents that a map was fitted on would flatter it: with as many columns as documents, a map finds
exactly the documents that it was fitted on. So documents are split into folds at random, the map of
a fold is fitted on documents of the others, and each document meets only the map of its own fold.
Where an old document is mapped into the new space, that is all. Where a query is mapped into the
old space, each fold has its own image of the query, m_f(q), and keys m_f(q)·x of different folds
are compared. The images differ by the noise of the fits, which moves all documents of a fold
together, by (m_f(q) − m(q))·c with c the mean document. Of one map, m(q)·c is the same for all
documents and decides nothing. So keys are m_f(q)·(x − c): the order within a fold stays, and the
shift is gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from identikit._linalg import Array
from identikit._progress import Progress
from identikit._threads import in_threads
from identikit.retrieval._calibration import sample_scores
from identikit.retrieval._inputs import Inputs
from identikit.retrieval._plan import SHARES, Maps, Plan, blocks, fitted, survey, whole_maps
from identikit.retrieval._search import (
    Best,
    Rows,
    Side,
    beyond_centre,
    block_rows,
    document_side,
    merged,
    pair_keys,
    query_side,
)
from identikit.retrieval._space_map import SpaceMap, normal

#: The options, in the order of what they cost.
OPTIONS = ("stay", "swap", "map-queries", "map-index", "map-rescore", "re-embed")


@dataclass(eq=False)
class Found:
    """Rankings, and what else one pass over the documents gives.

    Attributes
    ----------
    rankings : dict
        For each option that applies, the rows of the best documents of every query.
    mixed : dict
        For "map" and "no map", the rankings at each of `SHARES`.
    scores : dict
        The metric's own scores of sampled documents (columns) for some queries.
    errors : dict
        The held-out error of the maps, "queries" (new to old) and "index" (old to new).
    kinds : dict
        The kind of map that was chosen, of each.
    space_maps : dict
        Maps of these kinds to keep, fitted on all documents to fit on; empty if not asked for.
    """

    plan: Plan
    rankings: dict[str, Rows] = field(default_factory=dict)
    mixed: dict[str, list[Rows]] = field(default_factory=dict)
    scores: dict[str, Array] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    space_maps: dict[str, SpaceMap] = field(default_factory=dict)


def search_all(
    inputs: Inputs,
    metric: str,
    k: int,
    n: int,
    plan: Plan,
    kinds: Sequence[str],
    keep_maps: bool,
    progress: Progress,
    seed: int,
) -> Found:
    """Search with all options; `k` documents, and `n` in the first stage of map-rescore."""
    centres, pools, samples = survey(inputs, metric, plan, progress)
    maps = fitted(inputs, metric, plan, pools, kinds, progress, seed)
    found = Found(plan)
    for name, by_fold in (("queries", maps.to_old), ("index", maps.to_new)):
        each = list(by_fold.values())
        found.errors[name] = float(np.mean([one.error for one in each]))
        found.kinds[name] = each[0].kind
    if keep_maps:
        found.space_maps = whole_maps(inputs, metric, plan, pools, found.kinds, seed)
    _Search(inputs, metric, k, n, plan, centres, maps).run(found, progress)
    found.scores = sample_scores(inputs, metric, plan, maps, samples)
    return found


def _done(job: Callable[[], None]) -> None:
    job()


class _Search:
    """One pass over the documents for all first stages, and a second one to rescore."""

    def __init__(
        self,
        inputs: Inputs,
        metric: str,
        k: int,
        n: int,
        plan: Plan,
        centres: list[Array],
        maps: Maps,
    ) -> None:
        self.inputs, self.metric, self.plan, self.maps = inputs, metric, plan, maps
        self.old_centre, self.new_centre = centres
        self.equal = inputs.old.width == inputs.new.width
        self.parts = [np.flatnonzero(plan.query_fold == g) for g in np.unique(plan.query_fold)]
        count, bands, own = len(inputs.old_queries), len(SHARES) - 1, inputs.own
        self.best = {
            "stay": Best(count, k, 1, own),
            "map-queries": Best(count, max(k, n), 1, own),
            "map-index": Best(count, k, bands, own),
            "re-embed": Best(count, k, bands, own),
        }
        if self.equal:
            self.best["swap"] = Best(count, k, bands, own)
        self.k, self.n = k, n

    def _side(self, queries: Array, centre: Array) -> Side:
        return Side(query_side(queries, self.metric, centre))

    def run(self, found: Found, progress: Progress) -> None:
        """Fill in the rankings."""
        queries = self.inputs.new_queries
        stay = self._side(self.inputs.old_queries, self.old_centre)
        new = self._side(queries, self.new_centre)
        swap = self._side(queries, self.old_centre) if self.equal else None
        images = {
            (f, g): self._side(
                self.maps.to_old[f, g].transform(normal(queries, self.metric)), self.old_centre
            )
            for f, g in self.maps.to_old
        }
        for numbers, old_rows, new_rows in blocks(self.inputs, self.metric):
            self._block(numbers, old_rows, new_rows, stay, new, swap, images)
            progress("searching", int(numbers[-1]) + 1, self.inputs.old.rows)
        for name in ("stay", "map-queries", "map-index", "re-embed"):
            found.rankings[name] = self.best[name].best()[0][:, : self.k]
        if self.equal:
            found.rankings["swap"] = self.best["swap"].best()[0]
        found.rankings["map-rescore"] = self._rescored(new)
        found.mixed = {"map": self._mixed("map-index", self.new_centre)}
        if self.equal:
            found.mixed["no map"] = self._mixed("swap", self.old_centre)

    def _block(
        self,
        numbers: Rows,
        old_rows: Array,
        new_rows: Array,
        stay: Side,
        new: Side,
        swap: Side | None,
        images: dict[tuple[int, int], Side],
    ) -> None:
        # In the order of the bands, so that each is a slice.
        order = np.argsort(self.plan.band[numbers], kind="stable")
        numbers, old_rows, new_rows = numbers[order], old_rows[order], new_rows[order]
        ends = np.searchsorted(self.plan.band[numbers], np.arange(len(SHARES)))
        bands = [slice(first, last) for first, last in pairwise(ends)]
        fold = self.plan.fold[numbers]
        old = Side(document_side(old_rows, self.metric, self.old_centre), together=True)

        def in_bands(name: str, asked: Side, documents: Side, part: Rows | None = None) -> None:
            for band, rows in enumerate(bands):
                self.best[name].offer(asked, documents[rows], numbers[rows], band, some=part)

        def mapped_queries() -> None:
            for f in range(self.plan.folds):
                mine = np.flatnonzero(fold == f)
                for g, part in enumerate(self.parts):
                    side = images[f, g]
                    self.best["map-queries"].offer(side, old[mine], numbers[mine], some=part)

        def mapped_index() -> None:
            for g, part in enumerate(self.parts):
                mapped = np.empty_like(new_rows)
                for f in range(self.plan.folds):
                    mine = fold == f
                    mapped[mine] = self.maps.to_new[f, g].transform(old_rows[mine])
                moved = document_side(mapped, self.metric, self.new_centre)
                in_bands("map-index", new, Side(moved, together=True), part)

        def embedded_again() -> None:
            fresh = document_side(new_rows, self.metric, self.new_centre)
            in_bands("re-embed", new, Side(fresh, together=True))

        jobs: list[Callable[[], None]] = [
            mapped_queries,
            mapped_index,
            embedded_again,
            lambda: self.best["stay"].offer(stay, old, numbers),
        ]
        if swap is not None:
            jobs.append(lambda: in_bands("swap", swap, old))
        # Each option has its own lists, so that several can be searched at a time.
        deque(in_threads(_done, jobs), maxlen=0)

    def _rescored(self, new: Side) -> Rows:
        """The n best of the first stage in the order of the new model's own keys."""
        rows = self.best["map-queries"].best()[0][:, : self.n]
        keys = np.empty(rows.shape)
        flat = np.argsort(rows, axis=None, kind="stable")
        documents, asked = rows.ravel()[flat], np.repeat(np.arange(len(rows)), rows.shape[1])[flat]
        source, size = self.inputs.new, block_rows(self.inputs.new.width)
        for start in range(0, source.rows, size):
            first, last = np.searchsorted(documents, [start, start + size])
            if first == last:
                continue
            wanted, place = np.unique(documents[first:last], return_inverse=True)
            block = source.read(start, min(start + size, source.rows))
            side = normal(np.asarray(block[wanted - start], dtype=np.float64), self.metric)
            side = document_side(side, self.metric, self.new_centre)
            values = pair_keys(new.rows[asked[first:last]], side[place.ravel()])
            keys.ravel()[flat[first:last]] = values
        order = np.lexsort((rows, -keys), axis=1)
        return np.take_along_axis(rows, order, axis=1)[:, : self.k]

    def _mixed(self, rest: str, centre: Array) -> list[Rows]:
        """Rankings of indexes whose first bands are new, and the others what `rest` says."""
        queries, last = self.inputs.new_queries, len(SHARES) - 1
        beyond = {
            "re-embed": beyond_centre(queries, self.metric, self.new_centre)[:, None],
            rest: beyond_centre(queries, self.metric, centre)[:, None],
        }
        rankings = []
        for stop in range(last + 1):
            parts = []
            for band in range(last):
                name = "re-embed" if band < stop else rest
                best = self.best[name]
                parts.append((best.rows[band], best.keys[band] + beyond[name]))
            rankings.append(merged(parts)[0])
        return rankings
