"""Write the figures of docs/migrate.md: how often intervals hold, and how often verdicts are right.

    python docs/migrate.py [--data FOLDER] [--pairs N]

FOLDER has cranfield.npz and cacm.npz (by default ../shared/data/retrieval beside the repository).
Takes about ten minutes on one core.
"""

from __future__ import annotations

import argparse
from itertools import permutations
from pathlib import Path

import numpy as np

import identikit as ik
from identikit._linalg import Array
from identikit.retrieval._intervals import drawn_counts, means
from identikit.retrieval._verdict import judged_verdict

PAGE = Path(__file__).with_name("migrate.md")
START, END = "<!-- figures -->\n", "<!-- end of the figures -->\n"
#: Models of both collections without rows of zeros.
MODELS = ("wordllama_256", "para_l3", "minilm_l6", "minilm_l6_int8", "minilm_l6_sre", "gte_small",
          "granite_30m", "use_ml")  # fmt: skip
TRIALS, RESAMPLES, SPLITS = 400, 400, 24

Columns = dict[str, Array]


def measured(path: Path, old: str, new: str) -> dict[str, Columns]:
    """For each measure and option, its value for every judged query."""
    found = ik.migrate(
        f"{path}::doc_{old}",
        f"{path}::doc_{new}",
        queries=(f"{path}::query_{old}", f"{path}::query_{new}"),
        qrels=f"{path}::qrels",
    )
    there = ~np.isnan(found.per_query["stay"]["ndcg"])
    return {
        measure: {name: each[measure][there] for name, each in found.per_query.items()}
        for measure in ("ndcg", "overlap")
    }


def differences(values: dict[str, Columns]) -> Array:
    """Differences to staying of every query, a column for each option and measure."""
    columns = [
        each - options["stay"]
        for options in values.values()
        for name, each in options.items()
        if name != "stay" and (each != options["stay"]).any()
    ]
    return np.column_stack(columns)


def coverage(population: Array, queries: int) -> Array:
    """How often intervals of queries drawn from a population hold its mean, for each column."""
    rng, held = np.random.default_rng(0), np.zeros(population.shape[1])
    for trial in range(TRIALS):
        drawn = population[rng.integers(0, len(population), queries)]
        found = means(drawn, drawn_counts(queries, RESAMPLES, [1, trial]))
        truth = population.mean(axis=0)
        held += (found.low <= truth) & (truth <= found.high)
    return held / TRIALS


def right(values: Columns, seed: int) -> list[bool]:
    """Whether verdicts from one half of the queries are right on the other half.

    The choice is right if no option, staying among them, is clearly better on that half.
    """
    rng, count, good = np.random.default_rng(seed), len(values["stay"]), []
    for _ in range(SPLITS):
        mine, others = np.array_split(rng.permutation(count), 2)
        choice = judged_verdict(
            {name: each[mine] for name, each in values.items()}, RESAMPLES, 0
        ).choice
        gaps = np.column_stack([each[others] - values[choice][others] for each in values.values()])
        found = means(gaps, drawn_counts(len(others), RESAMPLES, [2]))
        good.append(not (found.low > 0).any())
    return good


def row(path: Path, pairs: int) -> str:
    """The figures of a collection, as a row of the table."""
    every = list(permutations(MODELS, 2))
    order = np.random.default_rng(0).permutation(len(every))[:pairs]
    held, good, judged = [], [], 0
    for place in order:
        values = measured(path, *every[place])
        judged = len(values["ndcg"]["stay"])
        held.append(coverage(differences(values), judged))
        good += right(values["ndcg"], int(place))
        print(path.stem, *every[place], held[-1].round(3), flush=True)
    shares = np.concatenate(held)
    within = np.mean((shares >= 0.93) & (shares <= 0.97))
    return (
        f"| {path.stem} | {judged} | {shares.mean():.1%} | {within:.0%} of {len(shares)} | "
        f"{shares.min():.0%} | {np.mean(good):.1%} |"
    )


def main() -> None:
    """Write the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    beside = Path(__file__).parents[2] / "shared/data/retrieval"
    parser.add_argument("--data", type=Path, default=beside)
    parser.add_argument("--pairs", type=int, default=20)
    given = parser.parse_args()
    titles = (
        "| collection | queries | intervals that hold the true difference | differences for which "
        "93 to 97 % do | the fewest | verdicts that are right on the other half |\n"
        "|---|---|---|---|---|---|\n"
    )
    rows = [row(given.data / f"{name}.npz", given.pairs) for name in ("cranfield", "cacm")]
    before, rest = PAGE.read_text(encoding="utf-8").split(START)
    after = rest.split(END)[1]
    table = START + "\n" + titles + "\n".join(rows) + "\n\n" + END
    PAGE.write_text(before + table + after, encoding="utf-8")


if __name__ == "__main__":
    main()
