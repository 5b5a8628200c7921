"""Intervals over queries: they hold as often as they say, also of the worst slice."""

from __future__ import annotations

import numpy as np
import pytest

from identikit.retrieval import _intervals as intervals


def population(seed: int = 0, queries: int = 4000) -> np.ndarray:
    """Differences as nDCG has them: many zeros, heavy tails to one side, bounded."""
    rng = np.random.default_rng(seed)
    skewed = rng.beta(0.6, 3.0, size=(queries, 4)) * rng.choice([1, 1, 1, -1], size=(queries, 4))
    return np.where(rng.random((queries, 4)) < [0.1, 0.3, 0.5, 0.6], 0.0, skewed)


def coverage(values: np.ndarray, queries: int, trials: int) -> np.ndarray:
    rng, truth = np.random.default_rng(1), values.mean(axis=0)
    held = []
    for trial in range(trials):
        sample = values[rng.integers(0, len(values), queries)]
        found = intervals.means(sample, intervals.drawn_counts(queries, 1000, [trial]))
        held.append((found.low <= truth) & (truth <= found.high))
    return np.mean(held, axis=0)


def test_intervals_hold_of_skewed_differences():
    assert 0.9 < coverage(population(), 52, 150).mean() < 0.99


@pytest.mark.slow
@pytest.mark.parametrize("queries", [52, 112, 225])
def test_intervals_hold_in_93_to_97_percent(queries):
    held = coverage(population(), queries, 1000)
    assert 0.93 <= held.mean() <= 0.97, held
    assert held.min() >= 0.91, held


@pytest.mark.slow
def test_the_worst_of_eight_slices_has_an_interval_that_holds():
    """All slices are alike, so that the worst is one by chance, and its own interval would fail."""
    values, rng = population(2)[:, :1], np.random.default_rng(2)
    truth, jointly, alone = values.mean(), [], []
    for trial in range(300):
        parts = [values[rng.integers(0, len(values), 40)] for _ in range(8)]
        counts = [intervals.drawn_counts(40, 500, [trial, part]) for part in range(8)]
        worst = int(np.argmin([part.mean() for part in parts]))
        for held, found in (
            (jointly, intervals.simultaneous(parts, counts)[worst]),
            (alone, intervals.means(parts[worst], counts[worst])),
        ):
            held.append(found.low[0] <= truth <= found.high[0])
    assert np.mean(jointly) >= 0.93
    assert np.mean(alone) < np.mean(jointly)


def test_matrix_products_are_what_loops_over_resamples_give():
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(30, 2)) ** 3
    counts = intervals.drawn_counts(30, 300, [5])
    assert (counts.sum(axis=1) == 30).all()
    sizes = []
    for row in counts.astype(int):
        drawn = np.repeat(columns, row, axis=0)
        error = drawn.std(axis=0, ddof=1) / np.sqrt(30)
        sizes.append(np.abs(drawn.mean(axis=0) - columns.mean(axis=0)) / error)
    reach = np.quantile(sizes, 0.95, axis=0) * columns.std(axis=0, ddof=1) / np.sqrt(30)
    found = intervals.means(columns, counts)
    np.testing.assert_allclose(found.value - found.low, reach, rtol=1e-9)
    np.testing.assert_allclose(found.high - found.value, reach, rtol=1e-9)


def test_equal_values_have_an_interval_of_no_width_and_few_none():
    counts = intervals.drawn_counts(10, 200, [0])
    found = intervals.means(np.full((10, 1), 0.1), counts)
    assert found.low[0] == found.value[0] == found.high[0]
    few = intervals.means(np.ones((4, 1)), intervals.drawn_counts(4, 200, [0]))
    assert np.isnan(few.low[0])
    assert intervals.simultaneous([], []) == []
