"""Which documents are fitted on, and with which map each of them is searched; blocks of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit._progress import Progress
from identikit.alignment import PairStats
from identikit.retrieval._inputs import Inputs, checked
from identikit.retrieval._kinds import FITS, Fit
from identikit.retrieval._kinds import Rows as Paired
from identikit.retrieval._maps import fit_space_map
from identikit.retrieval._search import Rows, block_rows
from identikit.retrieval._space_map import SpaceMap, normal

#: The kinds of maps to choose from by default, and the documents that they are compared on.
KINDS, CHOICE_ROWS = ("rigid", "affine"), 5000
#: Those that are fitted from means and scatters alone.
_FROM_STATS = ("rigid", "affine")
#: Folds of documents; two if half of the documents are as many as a map is fitted on.
FOLDS = 5
#: Documents that a map is fitted on: so many, or this many a column if that is more.
FIT_ROWS, ROWS_A_COLUMN = 10_000, 20
#: The shares of the index that are new, on the way from none to all.
SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
#: Documents whose scores calibrate thresholds.
SAMPLE_DOCUMENTS = 2000


@dataclass(eq=False)
class Plan:
    """Which documents are in which fold and band, and which are fitted on or sampled."""

    folds: int
    fold: NDArray[np.uint8]
    query_fold: NDArray[np.uint8]
    band: NDArray[np.uint8]
    pool: Rows
    sample: Rows
    fitted_on: int


def drawn_plan(inputs: Inputs, fit_rows: int | None, fit_on_queries: bool, seed: int) -> Plan:
    """Draw folds, bands and samples; each has its own stream of random numbers."""
    n, count = inputs.old.rows, len(inputs.old_queries)
    draw = [np.random.default_rng([seed, 2, part]) for part in range(5)]
    most = max(FIT_ROWS, ROWS_A_COLUMN * max(inputs.old.width, inputs.new.width))
    most = most if fit_rows is None else fit_rows
    candidates = np.setdiff1d(np.arange(n), [] if inputs.own is None else inputs.own)
    folds = 2 if len(candidates) // 2 >= most else FOLDS
    pooled = min(len(candidates), -(-most * folds // (folds - 1)))
    pool = np.sort(draw[0].choice(candidates, pooled, replace=False)).astype(np.int64)
    fold = np.empty(n, dtype=np.uint8)
    fold[draw[1].permutation(n)] = np.arange(n) % folds
    # Those fitted on are split evenly too, so that every map has as many.
    fold[pool[draw[1].permutation(pooled)]] = np.arange(pooled) % folds
    query_fold = np.zeros(count, dtype=np.uint8)
    if fit_on_queries:
        query_fold[draw[2].permutation(count)] = np.arange(count) % folds
    rank = np.empty(n)
    rank[draw[3].permutation(n)] = (np.arange(n) + 0.5) / n
    band = (np.searchsorted(SHARES, rank) - 1).astype(np.uint8)
    sample = np.sort(draw[4].choice(n, min(n, SAMPLE_DOCUMENTS), replace=False)).astype(np.int64)
    return Plan(folds, fold, query_fold, band, pool, sample, pooled - -(-pooled // folds))


def blocks(inputs: Inputs, metric: str) -> Iterator[tuple[Rows, Array, Array]]:
    """Blocks of documents: their rows, and both models' vectors, of length one for cosine."""
    size = min(block_rows(inputs.old.width), block_rows(inputs.new.width))
    for start in range(0, inputs.old.rows, size):
        stop = min(start + size, inputs.old.rows)
        pair = [
            normal(checked(source.read(start, stop), source.name, metric, start), metric)
            for source in (inputs.old, inputs.new)
        ]
        yield np.arange(start, stop), pair[0], pair[1]


def survey(
    inputs: Inputs, metric: str, plan: Plan, progress: Progress
) -> tuple[list[Array], list[Array], list[Array]]:
    """The mean documents, those to fit on and those of the sample, of both models."""
    widths = inputs.old.width, inputs.new.width
    centres = [np.zeros(width) for width in widths]
    pools = [np.empty((len(plan.pool), width)) for width in widths]
    samples = [np.empty((len(plan.sample), width)) for width in widths]
    for numbers, *pair in blocks(inputs, metric):
        for side, rows in enumerate(pair):
            centres[side] += rows.sum(axis=0)
            for wanted, kept in ((plan.pool, pools[side]), (plan.sample, samples[side])):
                first, last = np.searchsorted(wanted, [numbers[0], numbers[-1] + 1])
                kept[first:last] = rows[wanted[first:last] - numbers[0]]
        progress("reading", int(numbers[-1]) + 1, inputs.old.rows)
    return [centre / inputs.old.rows for centre in centres], pools, samples


class HeldOut(NamedTuple):
    """A map that was fitted without some of the rows; `error` is what its kind leaves held out."""

    kind: str
    fit: Fit
    metric: str
    error: float

    def transform(self, rows: Array) -> Array:
        """The image of rows, which have to be of length one if the metric is cosine."""
        return self.fit(rows, self.metric)


@dataclass(eq=False)
class Maps:
    """The maps of each fold of documents (and of queries, if these are fitted on), by direction."""

    to_old: dict[tuple[int, int], HeldOut]
    to_new: dict[tuple[int, int], HeldOut]


def fitted(
    inputs: Inputs,
    metric: str,
    plan: Plan,
    pools: list[Array],
    kinds: Sequence[str],
    progress: Progress,
    seed: int,
) -> Maps:
    """For each fold of documents (and of queries) maps that have seen none of either.

    The kind is chosen once, so that no ranking mixes maps of different kinds.
    """
    old, new = pools
    fold = plan.fold[plan.pool]
    first = np.flatnonzero(fold != 0)[:CHOICE_ROWS]
    chosen = {}
    for done, (side, (source, target)) in enumerate(
        {"queries": (new, old), "documents": (old, new)}.items()
    ):
        chosen[side] = fit_space_map(
            source[first], target[first], kinds=kinds, metric=metric, side=side, seed=seed
        )
        progress("choosing maps", done + 1, 2)
    # About one point for all folds, so that their scatters can be added.
    centre = old.mean(axis=0), new.mean(axis=0)
    parts = [_sums(old[fold == f], new[fold == f], centre) for f in range(plan.folds)]
    asked = normal(inputs.old_queries, metric), normal(inputs.new_queries, metric)
    apart = np.unique(plan.query_fold).tolist()
    more = [
        _sums(asked[0][plan.query_fold == g], asked[1][plan.query_fold == g], centre)
        for g in (apart if len(apart) > 1 else [])
    ]
    maps = Maps({}, {})
    for f in range(plan.folds):
        for g in apart:
            kept = [part for other, part in enumerate(parts) if other != f]
            kept += [part for other, part in enumerate(more) if other != g]
            stats = _stats(kept, centre)
            others = (plan.query_fold != g) & (len(apart) > 1)
            for side, of, into in (
                ("queries", stats.reversed(), maps.to_old),
                ("documents", stats, maps.to_new),
            ):
                kind = chosen[side].kind
                rows = Paired(old, new, metric, side, seed)
                if kind not in _FROM_STATS:
                    pair = [
                        np.concatenate([documents[fold != f], queries[others]])
                        for documents, queries in zip(pools, asked)
                    ]
                    source, target = pair if side == "documents" else pair[::-1]
                    rows = Paired(source, target, metric, side, seed)
                error = chosen[side].held_out[kind]
                into[f, g] = HeldOut(kind, FITS[kind](rows, of), metric, error)
        progress("fitting maps", f + 1, plan.folds)
    return maps


def whole_maps(
    inputs: Inputs, metric: str, plan: Plan, pools: list[Array], kinds: dict[str, str], seed: int
) -> dict[str, SpaceMap]:
    """Maps to keep, each of the kind that was chosen, fitted on all documents to fit on."""
    old, new = pools
    if len(np.unique(plan.query_fold)) > 1:
        old = np.concatenate([old, normal(inputs.old_queries, metric)])
        new = np.concatenate([new, normal(inputs.new_queries, metric)])
    asked = inputs.new_queries if inputs.own is None else None
    return {
        "queries": fit_space_map(
            new,
            old,
            kinds=[kinds["queries"]],
            metric=metric,
            side="queries",
            seed=seed,
            queries=asked,
            source_model=inputs.new.name,
            target_model=inputs.old.name,
        ),
        "index": fit_space_map(
            old,
            new,
            kinds=[kinds["index"]],
            metric=metric,
            side="documents",
            seed=seed,
            source_model=inputs.old.name,
            target_model=inputs.new.name,
        ),
    }


def _sums(old: Array, new: Array, centre: tuple[Array, Array]) -> tuple[Any, ...]:
    """Count, sums and scatters of some rows about a point."""
    x, y = old - centre[0], new - centre[1]
    return len(x), x.sum(axis=0), y.sum(axis=0), x.T @ x, x.T @ y, y.T @ y


def _stats(parts: Sequence[tuple[Any, ...]], centre: tuple[Array, Array]) -> PairStats:
    """Statistics of all these rows about their own means."""
    n, x, y, xx, xy, yy = (sum(each) for each in zip(*parts))
    x, y = x / n, y / n
    return PairStats(
        n,
        centre[0] + x,
        centre[1] + y,
        xx - n * np.outer(x, x),
        xy - n * np.outer(x, y),
        yy - n * np.outer(y, y),
    )
