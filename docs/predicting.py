"""Write the tables of docs/predicting.md: what foretells how much of a search a map keeps.

    python docs/predicting.py [--data FOLDER] [--to PAGE]

FOLDER has cranfield.npz and cacm.npz (by default ../shared/data/retrieval beside the repository).
Takes about two minutes on one core.
"""

from __future__ import annotations

import argparse
import os
from itertools import combinations
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

import identikit as ik
from identikit.retrieval import SpaceMap, fit_space_map, rotation_bound

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).with_name("predicting.md")
START, END = "<!-- tables -->\n", "<!-- end of the tables -->\n"
DRAWS, TOP = 2000, 10

Array = NDArray[np.float64]
#: What is known of an ordered pair of models: predictions, and what the map kept.
Row = dict[str, Any]

#: How each prediction is called, and its sign: a smaller error should keep more.
PREDICTIONS = {
    "rigid": ("held-out error of a rigid map", -1),
    "affine": ("held-out error of an affine map", -1),
    "cka": ("CKA, debiased", 1),
    "knn": ("mutual nearest neighbours", 1),
    "cca": ("CCA, mean correlation held out", 1),
    "bound": ("Maystre's bound, centred", -1),
    "distance": ("what the bound bounds", -1),
    "documents": ("documents as queries", 1),
}
SIDES = {"queries": "new queries mapped", "documents": "old index mapped"}
#: The kind of map that `fit_space_map` takes for nearly all of these pairs.
KINDS = {"queries": "rigid", "documents": "affine"}


def unit(rows: Array) -> Array:
    """Rows of length one."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def top(queries: Array, index: Array) -> NDArray[np.intp]:
    """The ten nearest rows of the index by cosine."""
    return np.argpartition(-(queries @ index.T), TOP - 1, axis=1)[:, :TOP]


def shared(found: NDArray[np.intp], right: NDArray[np.intp]) -> float:
    """The mean share of the ten that two searches have in common."""
    return float((found[:, :, None] == right[:, None, :]).any(axis=2).mean())


class Collection:
    """Documents and queries of a collection in all models: a half to fit on, a half to search."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as held:
            names = [key[4:] for key in held.files if key[:4] == "doc_" and key != "doc_ids"]
            documents = {name: held[f"doc_{name}"].astype(float) for name in names}
            asked = {name: held[f"query_{name}"].astype(float) for name in names}
            judged = held["qrels"]
        # A text without a known word is a row of zeros in a model of words.
        here = np.all([rows.any(axis=1) for rows in documents.values()], axis=0)
        assert all(rows.any(axis=1).all() for rows in asked.values())
        self.names, self.left_out = names, int((~here).sum())
        half = np.random.default_rng(0).permutation(len(here)) % 2
        fitted, searched = np.flatnonzero(here & (half == 0)), np.flatnonzero(here & (half == 1))
        self.fit = {name: unit(rows[fitted]) for name, rows in documents.items()}
        self.index = {name: unit(rows[searched]) for name, rows in documents.items()}
        self.queries = {name: unit(rows) for name, rows in asked.items()}
        place = np.full(len(here), -1)
        place[searched] = np.arange(len(searched))
        self.relevant: dict[int, set[int]] = {}
        for query, document, grade in judged.tolist():
            if grade > 0 and place[document] >= 0:
                self.relevant.setdefault(query, set()).add(int(place[document]))

    def recall(self, found: NDArray[np.intp]) -> float:
        """The mean share of a query's relevant documents among the ten found."""
        return float(
            np.mean(
                [
                    len(right & set(found[q].tolist())) / len(right)
                    for q, right in self.relevant.items()
                ]
            )
        )


def kept(data: Collection, source: str, target: str, side: str) -> Row:
    """Fit a map on one half, and search the other half with the real queries."""
    fit = fit_space_map(data.fit[source], data.fit[target], side=side, kinds=[KINDS[side]])
    new = source if side == "queries" else target
    right = top(data.queries[new], data.index[new])
    found = searched(fit, data.queries[source], data.queries[target], data.index, source, target)
    # The same with documents of that half, at most 500, in the place of queries.
    some = {name: rows[:500] for name, rows in data.index.items()}
    own = top_of_others(some[new], data.index[new])
    stood = searched(fit, some[source], some[target], data.index, source, target, others=True)
    return {
        "share": data.recall(found) / data.recall(right),
        "overlap": shared(found, right),
        "error": fit.held_out[fit.kind],
        "documents": shared(stood, own),
    }


def top_of_others(rows: Array, index: Array) -> NDArray[np.intp]:
    """The ten nearest rows of the index, of which the rows are the first, without themselves."""
    scores = rows @ index.T
    scores[np.arange(len(rows)), np.arange(len(rows))] = -np.inf
    return np.argpartition(-scores, TOP - 1, axis=1)[:, :TOP]


def searched(
    fit: SpaceMap,
    by_source: Array,
    by_target: Array,
    index: dict[str, Array],
    source: str,
    target: str,
    others: bool = False,
) -> NDArray[np.intp]:
    """Search through the map: with mapped queries, or in the mapped index."""
    look = top_of_others if others else top
    if fit.side == "queries":
        return look(fit.transform(by_source), index[target])
    return look(by_target, fit.transform(index[source]))


def measured(data: Collection) -> list[Row]:
    """Predictions and truth of every ordered pair of models."""
    rows: list[Row] = []
    for a, b in combinations(data.names, 2):
        moments = ik.accumulate([data.fit[a], data.fit[b]], folds=1)
        bound = rotation_bound(moments, centred=True)
        both = {
            "cka": ik.cka(moments, 0, 1, debiased=True).value,
            "knn": ik.mutual_knn(data.fit[a], data.fit[b]).value,
            "cca": held_out_cca(data.fit[a], data.fit[b]),
            "bound": bound.bound / bound.trivial,
            "distance": bound.distance / bound.trivial,
        }
        for source, target in ((a, b), (b, a)):
            row: Row = {"pair": (a, b), "source": source, "target": target, **both}
            for side, kind in KINDS.items():
                row[side] = kept(data, source, target, side)
                row[kind] = row[side]["error"]
            rows.append(row)
    return rows


def held_out_cca(x: Array, y: Array) -> float:
    """Mean correlation on every other row of the leading 20 canonical axes of the rest."""
    even = [rows[::2] - rows[::2].mean(axis=0) for rows in (x, y)]
    odd = [rows[1::2] - rows[1::2].mean(axis=0) for rows in (x, y)]
    whites = []
    for rows in even:
        _, values, axes = np.linalg.svd(rows, full_matrices=False)
        whites.append(axes[:50].T / values[:50])
    left, _, right = np.linalg.svd((even[0] @ whites[0]).T @ (even[1] @ whites[1]))
    ours, theirs = odd[0] @ whites[0] @ left[:, :20], odd[1] @ whites[1] @ right.T[:, :20]
    return float(np.mean([np.corrcoef(u, v)[0, 1] for u, v in zip(ours.T, theirs.T)]))


def predicted(row: Row, key: str, side: str) -> float:
    """A prediction, with the sign that it should have."""
    value = row[side][key] if key in row[side] else row[key]
    return PREDICTIONS[key][1] * float(value)


def correlation(x: Array, y: Array) -> float:
    """Spearman's rank correlation."""
    return float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])


def spearman(rows: list[Row], key: str, side: str) -> str:
    """The rank correlation with its interval, by drawing pairs of models."""
    x = np.array([predicted(row, key, side) for row in rows])
    y = np.array([row[side]["share"] for row in rows])
    # Both directions of a pair of models are drawn together.
    draws = np.random.default_rng(0).integers(len(rows) // 2, size=(DRAWS, len(rows) // 2))
    chosen = np.concatenate([2 * draws, 2 * draws + 1], axis=1)
    found = [correlation(x[each], y[each]) for each in chosen]
    low, high = np.quantile(found, [0.025, 0.975])
    return f"{correlation(x, y):.2f} [{low:.2f}, {high:.2f}]"


def tables(name: str, data: Collection, rows: list[Row]) -> list[str]:
    """What a collection says."""
    lines = [f"\n### {name}\n\n"]
    size = f"{len(data.fit[data.names[0]])} documents to fit on and as many to search"
    lines.append(f"{len(rows)} ordered pairs of {len(data.names)} models; {size}; ")
    lines.append(f"{len(data.relevant)} queries with a relevant document among these")
    lines.append(f"; left out as rows of zeros: {data.left_out}.\n" if data.left_out else ".\n")
    lines.append("\n| rank correlation with the share of recall@10 kept |")
    lines.append(" " + " | ".join(SIDES.values()) + " |\n|---|---|---|\n")
    for key, (title, _) in PREDICTIONS.items():
        cells = " | ".join(spearman(rows, key, side) for side in SIDES)
        lines.append(f"| {title} | {cells} |\n")
    for side, title in SIDES.items():
        lines.append("\n" + flattery(rows, side, title))
        lines += failures(rows, side)
    informative = sum(row["bound"] < 1 for row in rows[::2])
    lines.append(
        f"\nThe bound says anything at all for {informative} of {len(rows) // 2} pairs of models: "
        "elsewhere it is above what models with nothing in common would keep to.\n"
    )
    return lines


def flattery(rows: list[Row], side: str, title: str) -> str:
    """How much better documents do than the queries they stand in for."""
    means = [float(np.mean([row[side][key] for row in rows])) for key in ("documents", "overlap")]
    better = sum(row[side]["documents"] > row[side]["overlap"] for row in rows)
    share = float(np.mean([row[side]["share"] for row in rows]))
    return (
        f"**{title[0].upper()}{title[1:]}** (maps of the kind {KINDS[side]}). They keep "
        f"{share:.2f} of the recall on average. Through the map, real queries find {means[1]:.2f} "
        f"of what re-embedding finds; documents in their place find {means[0]:.2f}, more than the "
        f"queries for {better} of {len(rows)} pairs.\n"
    )


def failures(rows: list[Row], side: str) -> list[str]:
    """The pairs that the best prediction places worst."""
    y = np.array([row[side]["share"] for row in rows])
    scores = {
        key: correlation(np.array([predicted(row, key, side) for row in rows]), y)
        for key in PREDICTIONS
    }
    best = max(scores, key=lambda key: scores[key])
    x = rankdata([-predicted(row, best, side) for row in rows])
    places = rankdata(-y)
    lines = [f"\nThe best one here is *{PREDICTIONS[best][0]}*. Its worst mistakes:\n\n"]
    lines.append(
        "| from | to | foretold place | true place | recall@10 kept |\n|---|---|---|---|---|\n"
    )
    for at in np.argsort(-np.abs(x - places), kind="stable")[:4]:
        row = rows[int(at)]
        lines.append(
            f"| {row['source']} | {row['target']} | {x[at]:.0f} of {len(rows)} | {places[at]:.0f} "
            f"| {y[at]:.2f} |\n"
        )
    return lines


def main() -> None:
    """Measure, and write the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "retrieval")
    parser.add_argument("--to", type=Path, default=PAGE)
    options = parser.parse_args()
    lines: list[str] = []
    for name in ("Cranfield", "CACM"):
        data = Collection(options.data / f"{name.lower()}.npz")
        lines += tables(name, data, measured(data))
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    after = rest.partition(END)[2]
    text = before + START + "".join(lines) + "\n" + END + after
    options.to.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
