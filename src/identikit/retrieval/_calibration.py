"""What a threshold on old scores becomes: scores of the same pairs, matched by rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array
from identikit.retrieval._inputs import Inputs
from identikit.retrieval._plan import Maps, Plan
from identikit.retrieval._space_map import normal

#: Queries whose scores of the sampled documents are used.
SAMPLE_QUERIES = 1000
#: Fewer pairs than this above a threshold say nothing about it.
LEAST_PAIRS = 20
#: Points of the curve of matched scores.
POINTS = 400
#: Thresholds that are listed: those that so many documents a query pass, and cosines.
PASSING = (1, 3, 10, 30, 100)
COSINES = (0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, eq=False)
class Calibration:
    """How a score of the old model reads afterwards.

    As many of the same pairs of a query and a document pass the threshold afterwards as passed it
    before: if c pairs score at least t with the old model, the c-th largest score of an option
    takes the place of t (c-th smallest, for distances).

    Attributes
    ----------
    metric : str
    pairs, documents : int
        Pairs that the scores are of, and documents in the index.
    curves : dict
        For "stay" and every other option scores of equal rank, from the best to the worst.
    counts : array
        How many pairs pass at each of them.
    """

    metric: str
    pairs: int
    documents: int
    counts: Array
    curves: dict[str, Array]

    def at(self, threshold: float) -> dict[str, float] | None:
        """What takes the place of a threshold, for each option; None if too few pairs pass it."""
        sign = 1.0 if self.metric == "l2" else -1.0
        before = sign * self.curves["stay"]
        if not before[0] <= sign * threshold <= before[-1]:
            return None
        return {
            name: float(sign * np.interp(sign * threshold, before, sign * curve))
            for name, curve in self.curves.items()
            if name != "stay"
        }

    def passing(self, threshold: float) -> float:
        """Documents a query that pass a threshold with the old model, in the whole index."""
        sign = 1.0 if self.metric == "l2" else -1.0
        count = np.interp(sign * threshold, sign * self.curves["stay"], self.counts)
        return float(count / self.pairs * self.documents)

    @property
    def rows(self) -> list[dict[str, float]]:
        """Some thresholds: what they become, and how many documents a query pass."""
        shares = [passed / self.documents * self.pairs for passed in PASSING]
        at = [
            float(np.interp(share, self.counts, self.curves["stay"]))
            for share in shares
            if self.counts[0] <= share <= self.counts[-1]
        ]
        at += list(COSINES) if self.metric == "cosine" else []
        rows = []
        for threshold in sorted(at, reverse=self.metric != "l2"):
            after = self.at(threshold)
            if after is not None:
                passed = self.passing(threshold)
                rows.append({"threshold": threshold, "passing": passed, **after})
        return rows


def calibrated(scores: dict[str, Array], metric: str, documents: int) -> Calibration:
    """Match the scores of the same pairs by rank; NaN are no pairs."""
    there = ~np.isnan(scores["stay"])
    pairs = int(there.sum())
    counts = np.unique(np.geomspace(min(LEAST_PAIRS, pairs), pairs, POINTS).astype(np.int64))
    curves = {}
    for name, values in scores.items():
        ranked = np.sort(values[there])
        ranked = ranked if metric == "l2" else ranked[::-1]
        curves[name] = ranked[counts - 1]
    return Calibration(metric, pairs, documents, counts.astype(float), curves)


def sample_scores(
    inputs: Inputs, metric: str, plan: Plan, maps: Maps, samples: list[Array]
) -> dict[str, Array]:
    """The metric's own scores of the sampled documents: inner products, or distances.

    Each document meets the maps of its fold, which have not seen it. A document that stands in for
    a query is not its own result: that score is NaN.
    """
    count = len(inputs.old_queries)
    chosen = np.unique(np.linspace(0, count - 1, min(count, SAMPLE_QUERIES)).astype(np.int64))
    old_queries, new_queries = (
        normal(rows[chosen], metric) for rows in (inputs.old_queries, inputs.new_queries)
    )
    old, new = samples
    by_query, by_index = np.empty((2, len(chosen), len(plan.sample)))
    fold, query_fold = plan.fold[plan.sample], plan.query_fold[chosen]
    for f, g in maps.to_old:
        places = np.ix_(query_fold == g, fold == f)
        asked, documents = new_queries[query_fold == g], old[fold == f]
        by_query[places] = _natural(maps.to_old[f, g].transform(asked), documents, metric)
        by_index[places] = _natural(asked, maps.to_new[f, g].transform(documents), metric)
    scores = {
        "stay": _natural(old_queries, old, metric),
        "map-queries": by_query,
        "map-index": by_index,
        "re-embed": _natural(new_queries, new, metric),
    }
    if inputs.own is not None:
        itself = plan.sample == inputs.own[chosen][:, None]
        for values in scores.values():
            values[itself] = np.nan
    return scores


def _natural(queries: Array, documents: Array, metric: str) -> Array:
    products = queries @ documents.T
    if metric != "l2":
        return products
    first, second = (np.square(side).sum(axis=1) for side in (queries, documents))
    return np.asarray(np.sqrt(np.maximum(first[:, None] + second - 2 * products, 0.0)))
