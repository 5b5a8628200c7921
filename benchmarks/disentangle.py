"""Seconds of every metric against known factors, with its chance level and its interval.

python benchmarks/disentangle.py [--quick] [--check]

100,000 × 32 codes against 10 factors, eight of them discrete. All but the boosted trees, which are
measured on a tenth of the rows and have no bar, shall take 30 s on two cores. Beside it stands the
nearest-neighbour information of sorted codes against scikit-learn's trees of neighbours.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.feature_selection import mutual_info_classif

from identikit.factors import METRICS, listed
from identikit.factors._neighbours import SortedCodes, neighbour_information
from table import arguments, finish, record, timed

ROWS, CODES, FACTORS, CONTINUOUS = 100_000, 32, 10, 2
BAR = 30.0


def example(rows: int) -> tuple[np.ndarray, pd.DataFrame]:
    """Codes that hold every factor with noise, and as many again that hold none."""
    rng = np.random.default_rng(0)
    discrete = rng.integers(10, size=(rows, FACTORS - CONTINUOUS)).astype(float)
    factors = np.hstack([discrete, rng.normal(size=(rows, CONTINUOUS))])
    held = factors + 0.1 * rng.normal(size=factors.shape)
    codes = np.hstack([held, rng.normal(size=(rows, CODES - FACTORS))])
    return codes, pd.DataFrame(factors, columns=[f"factor {i}" for i in range(FACTORS)])


def metrics(rows: int) -> None:
    """Every metric by itself, from the matrices; nothing is shared between them."""
    codes, factors = example(rows)
    what = f"{rows:,}×{CODES}, {FACTORS} factors"
    for metric in listed():
        if metric.by_name:
            continue
        took = timed(lambda metric=metric: metric(codes, factors), 1, warm_up=False)
        record(f"{metric.name}, {what}", "seconds", took, "≤", BAR)


def boosted(rows: int) -> None:
    """The boosted trees, for the record."""
    codes, factors = example(rows)
    run = lambda: METRICS["dci_boosted"](codes[:, :8], factors.iloc[:, :3])  # noqa: E731
    took = timed(run, 1, warm_up=False)
    print(f"dci_boosted, {rows:,}×8, 3 factors: {took:.1f} s (no bar)")


def neighbours(rows: int) -> None:
    """Information of 32 codes and one factor."""
    codes, factors = example(rows)
    labels = factors["factor 0"].to_numpy().astype(int)
    ours = timed(lambda: neighbour_information(SortedCodes.of(codes), labels), 3)
    theirs = timed(
        lambda: mutual_info_classif(codes, labels, n_neighbors=10, random_state=0),
        1,
        warm_up=False,
    )
    found = neighbour_information(SortedCodes.of(codes), labels)
    expected = mutual_info_classif(codes, labels, n_neighbors=10, random_state=0)
    assert np.allclose(found, expected, atol=1e-6), (found, expected)
    record(
        f"k-NN information, {rows:,}×{CODES}",
        "times faster than scikit-learn",
        theirs / ours,
        "≥",
        3.0,
    )


def main() -> None:
    """Run everything and print a table in Markdown at the end."""
    options = arguments(__doc__, "a fiftieth of the rows")
    rows = ROWS // (50 if options.quick else 1)
    neighbours(ROWS // 10)
    boosted(min(rows, 2_000))
    metrics(rows)
    finish(options.check)


if __name__ == "__main__":
    main()
