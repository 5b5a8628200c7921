"""What a ranking is worth to a query: overlap with re-embedding, recall, nDCG and reciprocal rank.

A ranking is a row of documents' numbers, the best first, -1 where there are no more documents.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.retrieval._search import Rows

#: nDCG and the reciprocal rank look at so many documents.
CUT = 10

#: What is measured, each with what it is.
MEASURES = {
    "ndcg": f"nDCG@{CUT}",
    "mrr": f"MRR@{CUT}",
    "recall": "recall@k",
    "overlap": "overlap@k with re-embedding",
}


@dataclass(frozen=True, eq=False)
class Judgments:
    """Which documents are relevant to which queries: pairs with a grade above 0, none twice.

    Attributes
    ----------
    queries, documents : array of int
        Rows of the query and of the document of each pair.
    grades : array of float
    unknown_queries, unknown_documents : int
        How many judgments were left out since their query or their document is not there.
    """

    queries: Rows
    documents: Rows
    grades: Array
    unknown_queries: int = 0
    unknown_documents: int = 0

    def judged(self, count: int) -> NDArray[np.bool_]:
        """Which of so many queries have a relevant document."""
        there = np.zeros(count, dtype=bool)
        there[self.queries] = True
        return there

    def within(self, inside: NDArray[np.bool_]) -> Judgments:
        """The judgments of documents that lie inside."""
        kept = inside[self.documents]
        return replace(
            self,
            queries=self.queries[kept],
            documents=self.documents[kept],
            grades=self.grades[kept],
        )

    def among(self, queries: Rows, documents: Rows) -> Judgments:
        """The judgments of some queries and documents, with their places among these as rows."""
        rows, row = _places(self.queries, queries)
        columns, column = _places(self.documents, documents)
        both = rows & columns
        return replace(self, queries=row[both], documents=column[both], grades=self.grades[both])


def overlap(ranking: Rows, reference: Rows, k: int) -> Array:
    """|A ∩ B| / k of the first k documents of two rankings, for each query."""
    span = int(max(ranking.max(), reference.max())) + 1
    start = np.arange(len(ranking))[:, None] * span
    both = np.isin(start + ranking[:, :k], start + reference[:, :k])
    return np.asarray(both.sum(axis=1) / k)


def judged_measures(ranking: Rows, judgments: Judgments, k: int) -> dict[str, Array]:
    """nDCG@10, MRR@10 and recall@k of each query; NaN for those without a relevant document.

    DCG@10 = Σ grade_i / log₂(i + 1) over the first ten documents, and nDCG@10 its share of the
    largest possible; MRR@10 is 1/i of the first relevant document among the first ten, or 0;
    recall@k is the share of the relevant documents that is among the first k.

    References
    ----------
    Järvelin and Kekäläinen 2002 (nDCG, with the grade as the gain, as trec_eval has it).
    """
    count = len(ranking)
    grades = _grades(ranking, judgments)
    top = grades[:, :CUT]
    discount = 1 / np.log2(np.arange(2, CUT + 2))
    relevant = top > 0
    first = np.where(relevant.any(axis=1), 1 / (relevant.argmax(axis=1) + 1.0), 0.0)
    of = np.bincount(judgments.queries, minlength=count).astype(float)
    best = _best_dcg(judgments, count, discount)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = {
            "ndcg": top @ discount[: top.shape[1]] / best,
            "mrr": np.where(of > 0, first, np.nan),
            "recall": (grades[:, :k] > 0).sum(axis=1) / of,
        }
    return found


def overlap_within(ranking: Rows, reference: Rows, k: int, inside: NDArray[np.bool_]) -> Array:
    """The share of the reference's first k documents that lie inside which a ranking has too.

    Parameters
    ----------
    inside : array of bool
        One for each document.

    Returns
    -------
    array
        For each query; NaN if none of the reference's first k documents lies inside.
    """
    span = len(inside)
    start = np.arange(len(ranking))[:, None] * span
    top = reference[:, :k]
    counted = (top >= 0) & inside[top]
    found = counted & np.isin(start + top, start + ranking[:, :k])
    with np.errstate(invalid="ignore"):
        return np.asarray(found.sum(axis=1) / counted.sum(axis=1))


def _places(rows: Rows, some: Rows) -> tuple[NDArray[np.bool_], Rows]:
    """Which rows are among some, which are in order, and at which place."""
    place = np.minimum(np.searchsorted(some, rows), len(some) - 1)
    return some[place] == rows, place


def _grades(ranking: Rows, judgments: Judgments) -> Array:
    """The grade of each document of a ranking; 0 if it was not judged."""
    span = int(max(ranking.max(initial=0), judgments.documents.max(initial=0))) + 1
    known = judgments.queries * span + judgments.documents
    order = np.argsort(known)
    known, grades = known[order], judgments.grades[order]
    asked = np.arange(len(ranking))[:, None] * span + ranking
    place = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return np.where((known[place] == asked) & (ranking >= 0), grades[place], 0.0)


def _best_dcg(judgments: Judgments, count: int, discount: Array) -> Array:
    order = np.lexsort((-judgments.grades, judgments.queries))
    queries, grades = judgments.queries[order], judgments.grades[order]
    first = np.searchsorted(queries, np.arange(count))
    place = np.arange(len(queries)) - first[queries]
    within = place < len(discount)
    worth = grades[within] * discount[place[within]]
    return np.asarray(np.bincount(queries[within], weights=worth, minlength=count), dtype=float)
