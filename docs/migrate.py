"""Write the figures of docs/migrate.md: how often intervals hold, and how often verdicts are right.

    python docs/migrate.py [--data FOLDER] [--to PAGE]

FOLDER has cranfield.npz and cacm.npz (by default ../shared/data/retrieval beside the repository).
Takes about a quarter of an hour on one core.
"""

from __future__ import annotations

import argparse
import os
import re
from itertools import permutations
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from planted_collections import KINDS, UNRELATED, planted

import identikit as ik
from identikit._linalg import Array
from identikit.retrieval._intervals import drawn_counts, means
from identikit.retrieval._verdict import judged_verdict
from identikit.retrieval.migration_result import CHECK_PAIRING

PAGE = Path(__file__).with_name("migrate.md")
COLLECTIONS = {"cranfield": "Cranfield", "cacm": "CACM"}
#: Queries that are drawn at a time, and how often; resamples for an interval.
DRAWN, TRIALS, RESAMPLES = (25, 52, 112, 225), 500, 300
#: How often the queries of a pair of models are halved, and how many planted collections there are.
SPLITS, SEEDS = 20, 20
#: The change that the sections on half an index and on thresholds describe.
EXAMPLE = "minilm_l6", "gte_small"

#: For each option, nDCG or overlap of every judged query.
Columns = dict[str, Array]


def migrated(path: Path, old: str, new: str) -> ik.Migration:
    """The change from one model of a collection to another."""
    return ik.migrate(
        f"{path}::doc_{old}",
        f"{path}::doc_{new}",
        queries=(f"{path}::query_{old}", f"{path}::query_{new}"),
        qrels=f"{path}::qrels",
        drop_zeros=True,
        resamples=RESAMPLES,
    )


def of_queries(found: ik.Migration, measure: str) -> Columns:
    """A measure of every judged query."""
    there = ~np.isnan(found.per_query["stay"]["ndcg"])
    return {name: each[measure][there] for name, each in found.per_query.items()}


def differences(values: Columns) -> Array:
    """Differences to staying of every query, a column for each option."""
    return np.column_stack(
        [each - values["stay"] for name, each in values.items() if name != "stay"]
    )


def coverage(populations: list[Array], queries: int) -> list[Array]:
    """How often intervals of queries drawn from populations hold their means, column by column.

    The same queries are drawn from all of them.
    """
    rng = np.random.default_rng(queries)
    held = [np.zeros(each.shape[1]) for each in populations]
    for trial in range(TRIALS):
        drawn = rng.integers(0, len(populations[0]), queries)
        counts = drawn_counts(queries, RESAMPLES, [1, trial])
        for number, population in enumerate(populations):
            found, truth = means(population[drawn], counts, alike=True), population.mean(axis=0)
            held[number] += (found.low <= truth + 1e-12) & (truth - 1e-12 <= found.high)
    return [each / TRIALS for each in held]


def interval_rows(title: str, populations: list[Array]) -> list[str]:
    """Rows of the table of intervals: all differences, and those that few queries show."""
    rows, most = [], len(populations[0])
    differ = np.concatenate([(each != 0).mean(axis=0) for each in populations])
    for queries in (count for count in DRAWN if count <= most):
        held = np.concatenate(coverage(populations, queries))
        parts = []
        for chosen in (differ >= 0.5, (differ > 0) & (differ < 0.5)):
            some = held[chosen]
            within = np.mean((some >= 0.93) & (some <= 0.97))
            parts.append(f"{some.mean():.1%} | {within:.0%} of {len(some)} | {some.min():.1%}")
        rows.append(f"| {title} | {queries} | {' | '.join(parts)} |")
        print(rows[-1], flush=True)
    return rows


def is_right(values: Columns, choice: str) -> bool:
    """Whether no option, staying among them, is clearly better on these queries."""
    gaps = np.column_stack([each - values[choice] for each in values.values()])
    found = means(gaps, drawn_counts(len(gaps), RESAMPLES, [2]), alike=True)
    return not (found.low > 0).any()


def halved(values: Columns, seed: int) -> list[tuple[bool, float, float]]:
    """Verdicts from one half of the queries, on the other half.

    Whether each is right, its gain on staying, and that of re-embedding.
    """
    rng, found = np.random.default_rng(seed), []
    for _ in range(SPLITS):
        mine, others = np.array_split(rng.permutation(len(values["stay"])), 2)
        choice = judged_verdict({n: each[mine] for n, each in values.items()}, RESAMPLES, 0).choice
        rest = {name: each[others] for name, each in values.items()}
        found.append((is_right(rest, choice), *gains(rest, choice)))
    return found


def gains(values: Columns, choice: str) -> tuple[float, float]:
    """The gains of an option and of re-embedding on staying."""
    stay = values["stay"].mean()
    return float(values[choice].mean() - stay), float(values["re-embed"].mean() - stay)


def planted_pair(kind: str, seed: int) -> tuple[bool, float, float]:
    """The verdict on one half of the queries of a planted collection, on the other half."""
    made = planted(kind, seed)
    mine = len(made.old_queries) // 2
    half = ik.migrate(
        made.old,
        made.new,
        queries=(made.old_queries[:mine], made.new_queries[:mine]),
        qrels=[each for each in made.qrels if each[0] < mine],
    )
    whole = ik.migrate(
        made.old, made.new, queries=(made.old_queries, made.new_queries), qrels=made.qrels
    )
    rest = {name: each["ndcg"][mine:] for name, each in whole.per_query.items()}
    choice = half.verdict.choice
    if choice == CHECK_PAIRING:  # nothing is to be changed before that is done
        if kind != UNRELATED:
            return False, 0.0, gains(rest, "stay")[1]
        choice = "stay"
    return is_right(rest, choice), *gains(rest, choice)


def verdict_row(
    title: str, pairs: str, queries: int, found: list[tuple[bool, float, float]]
) -> str:
    """A row of the table of verdicts."""
    right, gain, again = np.array(found, dtype=float).mean(axis=0)
    row = f"| {title} | {pairs} | {queries} | {right:.1%} | {gain:+.3f} | {again:+.3f} |"
    print(row, flush=True)
    return row


def measured(folder: Path) -> tuple[list[str], list[str]]:
    """The rows of both tables, from the collections and from planted ones."""
    intervals, verdicts = [], []
    for name, title in COLLECTIONS.items():
        path, populations, found, count = folder / f"{name}.npz", [], [], 0
        with np.load(path) as held:
            models = [key[4:] for key in held.files if key.startswith("doc_") and key != "doc_ids"]
        pairs = list(permutations(models, 2))
        for number, pair in enumerate(pairs):
            result = migrated(path, *pair)
            populations += [differences(of_queries(result, each)) for each in ("ndcg", "overlap")]
            found += halved(of_queries(result, "ndcg"), number)
            count = result.judged
        verdicts.append(verdict_row(title, f"{len(pairs)} pairs", count // 2, found))
        intervals += interval_rows(title, populations)
    every = []
    for kind in KINDS:
        some = [planted_pair(kind, seed) for seed in range(SEEDS)]
        every += some
        verdicts.append(verdict_row(f"planted: {kind}", f"{SEEDS} collections", 100, some))
    verdicts.append(verdict_row("planted, all", f"{len(every)} collections", 100, every))
    return intervals, verdicts


def table(titles: list[str], rows: list[str]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles), *rows]
    return "\n".join(lines) + "\n"


def example(folder: Path) -> tuple[str, str]:
    """What happens to one index on the way, and to thresholds."""
    found = migrated(folder / "cranfield.npz", *EXAMPLE)
    half = found.half_table
    ways = {"map": "the rest mapped", "no map": "the rest as it was"}
    rows = [
        f"| {text} | " + " | ".join(f"{v:.3f}" for v in half[half.way == way]["ndcg"]) + " |"
        for way, text in ways.items()
    ]
    shares = [f"{share:.0%} new" for share in half[half.way == "map"]["share"]]
    thresholds = []
    for cosine in (0.5, 0.6, 0.7):
        after = found.calibration.at(cosine)
        thresholds.append(
            f"| {cosine} | " + " | ".join(f"{value:.2f}" for value in after.values()) + " |"
        )
    return (
        table(["nDCG@10", *shares], rows),
        table(["a cosine of", *found.calibration.at(0.7)], thresholds),
    )


def put(page: str, name: str, text: str) -> str:
    """The page with this text between its markers."""
    start, end = f"<!-- figures: {name} -->\n", f"<!-- end: {name} -->"
    pattern = re.escape(start) + ".*?" + re.escape(end)
    written, count = re.subn(pattern, lambda _: f"{start}\n{text}\n{end}", page, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"{PAGE.name} has no markers of {name}")
    return written


def main() -> None:
    """Write the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    beside = Path(__file__).parents[2] / "shared/data/retrieval"
    parser.add_argument("--data", type=Path, default=beside)
    parser.add_argument("--to", type=Path, default=PAGE)
    given = parser.parse_args()
    half, thresholds = example(given.data)
    intervals, verdicts = measured(given.data)
    page = PAGE.read_text(encoding="utf-8")
    page = put(
        page,
        "intervals",
        table(
            ["collection", "queries", "at least half of the queries differ: intervals that hold",
             "93 to 97 %", "the fewest", "less than half differ: intervals that hold",
             "93 to 97 %", "the fewest"],
            intervals,
        ),
    )  # fmt: skip
    page = put(
        page,
        "verdicts",
        table(
            ["collection", "models", "queries in a half", "verdicts that are right",
             "nDCG gained on staying", "gained by always re-embedding"],
            verdicts,
        ),
    )  # fmt: skip
    page = put(put(page, "half", half), "thresholds", thresholds)
    given.to.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
