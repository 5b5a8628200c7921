"""What measuring a migration costs, against the score products that it cannot avoid.

python benchmarks/migrate.py [--quick] [--check]

100,000 documents of 384 columns in two models, 1,000 queries with judgments, all six options with
1,000 resamples. The floor is the products of all queries with all documents, in single precision
and in blocks: one for each of stay, swap, map-queries, map-index and re-embed. Memory is that of
this process above what the documents take, with as many documents and with a quarter of them.
--quick takes 10,000 documents and 100 queries.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from identikit.retrieval import migrate
from table import arguments, cpu, finish, record

WIDTH, TOPICS, PRODUCTS, BLOCK = 384, 64, 5, 8192

MEMORY = """
import re, sys
import pandas, scipy.linalg
from identikit.retrieval import migrate
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
before = peak()
old, new, old_queries, new_queries = sys.argv[1:]
migrate(old, new, queries=(old_queries, new_queries))
print(peak() - before)
"""


def collection(documents: int, queries: int) -> tuple[list[np.ndarray], list[np.ndarray], object]:
    """Two models of the same topics, each with noise of its own, and judgments by topic."""
    rng = np.random.default_rng(0)
    topics = rng.standard_normal((documents, TOPICS), np.float32)
    asked = topics[:queries] + 0.5 * rng.standard_normal((queries, TOPICS), np.float32)
    rows, questions = [], []
    for _ in range(2):
        turn = rng.standard_normal((TOPICS, WIDTH), np.float32)
        for given, out in ((topics, rows), (asked, questions)):
            noise = rng.standard_normal((len(given), WIDTH), np.float32)
            out.append(given @ turn + 3 * noise)
    qrels = np.column_stack([np.arange(queries), np.arange(queries), np.ones(queries, int)])
    return rows, questions, qrels


def products(rows: list[np.ndarray], questions: list[np.ndarray]) -> None:
    """The scores of all queries with all documents, as often as options need them."""
    for number in range(PRODUCTS):
        for start in range(0, len(rows[0]), BLOCK):
            questions[number % 2] @ rows[number % 2][start : start + BLOCK].T


def grown(folder: Path, rows: list[np.ndarray], questions: list[np.ndarray]) -> float:
    """MB that a process takes to migrate from files, above what it took before."""
    paths = []
    for name, array in zip(("old", "new", "old_q", "new_q"), (*rows, *questions)):
        np.save(folder / f"{name}.npy", array)
        paths.append(str(folder / f"{name}.npy"))
    command = [sys.executable, "-c", MEMORY, *paths]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(re.split(r"\s+", done.stdout.strip())[-1])


def main() -> None:
    """Run everything and print a table in Markdown at the end."""
    options = arguments(__doc__, "10,000 documents, 100 queries")
    documents, queries = (10_000, 100) if options.quick else (100_000, 1000)
    rows, questions, qrels = collection(documents, queries)
    what = f"{documents:,} × {WIDTH}, {queries:,} queries"
    # Processor time: threads count, and a busy machine does not.
    floor = cpu(lambda: products(rows, questions), 2)
    found = []
    took = cpu(
        lambda: found.append(migrate(*rows, queries=questions, qrels=qrels)), 1, warm_up=False
    )
    print(f"  products {floor:.2f} s, migrate {took:.2f} s: {found[-1].verdict.choice}")
    # With few queries, fitting the maps takes the most time.
    record(what, "six options over the products", took / floor, "≤", 60.0 if options.quick else 4.0)
    if not options.quick:  # so few documents are all fitted on
        with tempfile.TemporaryDirectory() as folder:
            few = grown(Path(folder), [each[: documents // 4] for each in rows], questions)
            many = grown(Path(folder), rows, questions)
        record(what, "memory, over that of a quarter", many / few, "≤", 1.2)
    finish(options.check)


if __name__ == "__main__":
    main()
