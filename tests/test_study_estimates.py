"""Estimates from seeds: means, jackknives within strata, differences and shares cover 19 of 20."""

from __future__ import annotations

from itertools import combinations, product
from math import nan

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, ttest_ind

from conftest import close
from identikit.studies import INCONCLUSIVE, NOT, REPRODUCED, UNMEASURED, judge, per_seed
from identikit.studies._estimates import Estimate, Share, estimate, jackknife

WIDTHS = (16, 32, 64, 128)


def pairs_of(values: np.ndarray, width: int = 16, noise: np.ndarray | None = None) -> pd.DataFrame:
    """All pairs of seeds: each has the mean of what its two seeds have, and a noise of its own."""
    a, b = np.transpose(list(combinations(range(len(values)), 2)))
    own = 0 if noise is None else noise[: len(a)]
    both = (values[a] + values[b]) / 2 + own
    return pd.DataFrame({"width": width, "a": a, "b": b, "d": both})


def mean(pairs: pd.DataFrame) -> float:
    return pairs["d"].to_numpy().mean()


def slope(pairs: pd.DataFrame) -> float:
    """Of log₂ of the mean by width, per doubling."""
    width, d = pairs["width"].to_numpy(), pairs["d"].to_numpy()
    y = np.log2([d[width == each].mean() for each in WIDTHS])
    return np.polyfit(np.log2(WIDTHS), y, 1)[0]


def difference(pairs: pd.DataFrame) -> float:
    wide = (pairs["width"] == 32).to_numpy()
    d = pairs["d"].to_numpy()
    return d[wide].mean() - d[~wide].mean()


def test_the_jackknife_of_a_mean_is_that_of_the_pseudo_values(rng: np.random.Generator):
    pairs = pairs_of(rng.normal(size=6), noise=rng.normal(size=15))
    found, expected = jackknife(pairs, mean), estimate(per_seed(pairs, "d"))
    close([found.value, found.error], [expected.value, expected.error], 1e-12)
    assert (found.freedom, found.seeds) == (expected.freedom, expected.seeds) == (5, 6)
    close(found.interval, expected.interval, 1e-12)


def test_a_difference_of_other_seeds_is_welch_s_and_one_of_the_same_seeds_is_paired(
    rng: np.random.Generator,
):
    """A pair has the mean of its seeds, so the jackknife of its mean is exact."""
    narrow, wide = rng.normal(1, 0.2, size=6), rng.normal(0.8, 0.1, size=9)
    both = pd.concat([pairs_of(narrow), pairs_of(wide, 32)])
    test = ttest_ind(wide, narrow, equal_var=False)
    expected = test.confidence_interval(0.95)
    for found in (jackknife(both, difference, "width"), estimate(wide) - estimate(narrow)):
        close(found.interval, [expected.low, expected.high], 1e-9)
        close(found.p(0.0), test.pvalue, 1e-9)
    same = rng.normal(size=6)
    shared = pd.concat([pairs_of(same), pairs_of(same + 0.5 + 0.01 * narrow, 32)])
    paired = jackknife(shared, difference)
    close(paired.value, 0.5 + 0.01 * narrow.mean(), 1e-12)
    close(paired.error, 0.01 * narrow.std(ddof=1) / 6**0.5, 1e-12)


def test_pairs_across_strata_leave_seeds_of_both_out(rng: np.random.Generator):
    """The mean of u_a + v_b over all a and b has the variance of both means."""
    u, v = rng.normal(size=5), 3 * rng.normal(size=7)
    cross = pd.DataFrame(
        [{"of_a": 16, "of_b": 32, "a": a, "b": b, "d": u[a] + v[b]}
         for a, b in product(range(5), range(7))]
    )  # fmt: skip
    found = jackknife(cross, mean, ("of_a", "of_b"))
    close(found.error**2, u.var(ddof=1) / 5 + v.var(ddof=1) / 7, 1e-12)
    assert found.seeds == 7


def test_what_cannot_be_estimated_is_inconclusive():
    two = pd.DataFrame({"a": [0], "b": [1], "d": [0.5]})
    assert jackknife(two, mean).interval is None
    assert judge(jackknife(two, mean), 0).verdict == INCONCLUSIVE
    assert estimate([1.0]).interval is None
    assert judge(Estimate(nan, nan, 3, 4), 0).value is None
    assert judge(jackknife(two[:0], mean), 0).verdict == UNMEASURED
    # Without any spread nothing is left to chance.
    sure = jackknife(pairs_of(np.ones(4)), mean)
    assert (judge(sure, 0.5).verdict, judge(sure, 1.5).verdict) == (REPRODUCED, NOT)


def test_so_many_seeds_would_decide(rng: np.random.Generator):
    pairs = pd.concat([pairs_of(rng.normal(size=5)), pairs_of(rng.normal(0.2, size=5), 32)])
    found = jackknife(pairs, difference, "width")
    judged = judge(found, low=found.value + 0.3)
    assert judged.verdict == INCONCLUSIVE
    assert found.with_seeds(judged.seeds).interval[1] < found.value + 0.3
    assert found.with_seeds(judged.seeds - 1).interval[1] >= found.value + 0.3


@pytest.mark.parametrize(("count", "of"), [(0, 5), (3, 8), (32, 32)])
def test_a_share_has_wilson_s_interval(count: int, of: int):
    expected = binomtest(count, of).proportion_ci(0.95, "wilson")
    close(Share(count, of).interval, [expected.low, expected.high], 1e-6)
    # The p-value is 0.05 at the ends of the interval.
    for end in Share(count, of).interval:
        if 0 < end < 1:
            close(Share(count, of).p(end), 0.05, 1e-6)


def test_a_share_is_judged_and_seeds_that_would_tell():
    assert judge(Share(10, 10), low=0.7).verdict == REPRODUCED
    assert judge(Share(2, 10), low=0.7).verdict == NOT
    assert judge(Share(0, 0), low=0.7).verdict == UNMEASURED
    found = judge(Share(10, 10), low=0.9)
    assert (found.verdict, found.seeds) == (INCONCLUSIVE, 35)
    assert judge(Share(35, 35), low=0.9).verdict == REPRODUCED


# What an interval promises


def covers(found: list[Estimate], truth: float) -> float:
    return np.mean([low <= truth <= high for low, high in (each.interval for each in found)])


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [4, 6, 10])
def test_additive_noise_of_seeds_is_covered(rng: np.random.Generator, seeds: int):
    """Noise of seeds and of pairs: 19 of 20, or more, since pairs' own noise counts twice."""
    found = [
        jackknife(pairs_of(rng.normal(size=seeds), noise=0.3 * rng.normal(size=99)), mean)
        for _ in range(800)
    ]
    assert 0.93 < covers(found, 0.0) < 0.98


@pytest.mark.slow
def test_a_slope_over_strata_is_covered(rng: np.random.Generator):
    """Means that halve with each doubling, seeds whose noise grows with them, uneven strata."""
    found = []
    for _ in range(500):
        parts = [
            pairs_of(
                (1 + 0.3 * rng.normal(size=n)) / width, width, 0.1 / width * rng.normal(size=99)
            )
            for width, n in zip(WIDTHS, (6, 8, 10, 10))
        ]
        found.append(jackknife(pd.concat(parts), slope, "width"))
    assert 0.92 < covers(found, -1.0) < 0.98
    # Seeds that are left out of all widths at once would be taken for the same network.
    assert found[0].freedom > 5


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(5, 5), (9, 5)])
def test_both_sides_of_a_difference_are_covered(rng: np.random.Generator, sizes: tuple[int, int]):
    """The spread of one side alone would cover too rarely."""
    both, one = [], []
    for _ in range(800):
        sides = [
            pairs_of(size * rng.normal(size=n), width)
            for n, width, size in zip(sizes, (16, 32), (1, 1.5))
        ]
        found = jackknife(pd.concat(sides), difference, "width")
        both.append(found)
        one.append(Estimate(found.value, jackknife(sides[0], mean).error, sizes[0] - 1, sizes[0]))
    assert 0.93 < covers(both, 0.0) < 0.98
    assert covers(one, 0.0) < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [4, 8])
def test_a_share_of_bad_optima_needs_the_share_and_the_seeds_that_reach_the_good_one(
    rng: np.random.Generator, seeds: int
):
    """A fifth of the seeds ends at 1 instead of 0: the mean's interval misses far too often."""
    alone, reach, whole = [], [], []
    for _ in range(800):
        bad = rng.random(seeds) < 0.2
        values = bad + 0.05 * rng.normal(size=seeds)
        # Pairs with a bad optimum differ by 1: their mean is 0.36 in the limit.
        a, b = np.transpose(list(combinations(range(seeds), 2)))
        pairs = pd.DataFrame({"a": a, "b": b, "d": (bad[a] | bad[b]) + 0.05 * values[a]})
        whole.append(jackknife(pairs, mean))
        reach.append(Share(int((~bad).sum()), seeds))
        if (~bad).sum() > 2:
            alone.append(jackknife(pairs_of(values[~bad]), mean))
    assert covers(whole, 0.36) < 0.9
    assert covers(reach, 0.8) > 0.9
    assert 0.93 < covers(alone, 0.0) < 0.98
