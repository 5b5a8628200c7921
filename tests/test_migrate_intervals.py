"""Intervals over queries: they hold as often as they say, also of the worst slice."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from identikit.retrieval import _intervals as intervals


def population(seed: int = 0, queries: int = 4000) -> np.ndarray:
    """Differences as nDCG has them: many zeros, heavy tails to one side, bounded."""
    rng = np.random.default_rng(seed)
    skewed = rng.beta(0.6, 3.0, size=(queries, 4)) * rng.choice([1, 1, 1, -1], size=(queries, 4))
    return np.where(rng.random((queries, 4)) < [0.1, 0.3, 0.5, 0.6], 0.0, skewed)


def sparse(differ: float, seed: int = 0, queries: int = 4000) -> np.ndarray:
    """Differences to a copy in int8: nearly all zero, the others of unlike sizes and one sign."""
    rng = np.random.default_rng(seed)
    sizes = rng.beta(0.6, 3.0, size=(queries, 4))
    return np.where(rng.random((queries, 4)) < differ, sizes, 0.0)


def coverage(values: np.ndarray, queries: int, trials: int, resamples: int = 300) -> np.ndarray:
    rng, truth = np.random.default_rng(1), values.mean(axis=0)
    held = []
    for trial in range(trials):
        sample = values[rng.integers(0, len(values), queries)]
        counts = intervals.drawn_counts(queries, resamples, [trial])
        found = intervals.means(sample, counts, alike=True)
        held.append((found.low <= truth) & (truth <= found.high))
    return np.mean(held, axis=0)


def test_intervals_hold_of_skewed_differences():
    assert 0.9 < coverage(population(), 52, 150).mean() < 0.99


@pytest.mark.parametrize("differ", [0.04, 0.1])
def test_intervals_hold_where_few_queries_differ(differ):
    values, rng = sparse(differ), np.random.default_rng(1)
    held = coverage(values, 52, 150, 200)
    assert held.mean() >= 0.95, held
    plain = []
    for _ in range(150):
        sample = values[rng.integers(0, len(values), 52)]
        reach = stats.t.ppf(0.975, 51) * sample.std(axis=0, ddof=1) / np.sqrt(52)
        plain.append(np.abs(sample.mean(axis=0) - values.mean(axis=0)) <= reach)
    assert np.mean(plain) < held.mean() - 0.02


@pytest.mark.slow
@pytest.mark.parametrize("queries", [52, 112, 225])
def test_intervals_hold_in_93_to_97_percent(queries):
    held = coverage(population(), queries, 1000)
    assert 0.93 <= held.mean() <= 0.97, held
    assert held.min() >= 0.92, held


@pytest.mark.slow
@pytest.mark.parametrize("queries", [25, 52, 112, 225])
@pytest.mark.parametrize("differ", [0.1, 0.2])
def test_intervals_hold_in_at_least_93_percent_where_few_queries_differ(queries, differ):
    held = coverage(sparse(differ), queries, 1000)
    assert held.min() >= 0.93, held


@pytest.mark.slow
def test_the_worst_of_eight_slices_has_an_interval_that_holds():
    """All slices are alike, so that the worst is one by chance, and its own interval would fail."""
    values, rng = population(2)[:, :1], np.random.default_rng(2)
    truth, jointly, alone = values.mean(), [], []
    for trial in range(250):
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
    size = np.maximum(np.quantile(sizes, 0.95, axis=0), stats.t.ppf(0.975, 29))
    reach = size * columns.std(axis=0, ddof=1) / np.sqrt(30)
    found = intervals.means(columns, counts)
    np.testing.assert_allclose(found.value - found.low, reach, rtol=1e-9)
    np.testing.assert_allclose(found.high - found.value, reach, rtol=1e-9)


@pytest.mark.parametrize("common", [0.0, 1.0])
def test_queries_that_may_be_missing_widen_the_interval_by_what_is_stated(common):
    """Loops over resamples; with one of 52 queries apart, 37 % of the resamples have no spread."""
    n, columns = 52, np.full((52, 3), common)
    columns[7, 0] += 0.3
    columns[:5, 1] -= [0.1, 0.2, 0.1, 0.4, 0.1]
    columns[:30, 2] += np.linspace(0.1, 0.9, 30)
    counts = intervals.drawn_counts(n, 300, [5])
    for alike in (False, True):
        found = intervals.means(columns, counts, alike=alike)
        far = np.abs(columns - np.median(columns, axis=0)).max(axis=0)
        assert far[:2] == pytest.approx([0.3, 0.4])
        for place, differ in enumerate([1, 5, 52]):
            size = far.max() if alike else far[place]
            added = 2 * max(1 - 2 * differ / n, 0) * size**2
            column = columns[:, place]

            def error(values, added=added):
                squares = ((values - values.mean()) ** 2).sum() + added
                return np.sqrt(squares / (n * (n - 1)))

            draws = [np.repeat(column, row) for row in counts.astype(int)]
            sizes = [abs(drawn.mean() - column.mean()) / error(drawn) for drawn in draws]
            most = max(np.quantile(sizes, 0.95), stats.t.ppf(0.975, n - 1))
            reach = most * error(column)
            assert found.high[place] - found.value[place] == pytest.approx(reach, rel=1e-9)
            assert reach < 0.2


def test_equal_values_have_an_interval_of_no_width_and_few_none():
    counts = intervals.drawn_counts(10, 200, [0])
    found = intervals.means(np.full((10, 1), 0.1), counts)
    assert found.low[0] == found.value[0] == found.high[0]
    few = intervals.means(np.ones((4, 1)), intervals.drawn_counts(4, 200, [0]))
    assert np.isnan(few.low[0])
    assert intervals.simultaneous([], []) == []
