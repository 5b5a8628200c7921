"""Scores from binned information do not drift with the number of rows: truth by integration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from identikit.errors import InputError
from identikit.factors import Trial, infomec, information, mig, modularity, prepare

CLASSES, BINS = 5, 20
#: Code = scale · factor + noise: what the two codes of each population have.
WEAK, CLOSE, FAR = [(1.0, 1.5), (0.5, 2.0)], [(1.0, 0.5), (1.0, 0.6)], [(1.0, 0.7), (0.0, 1.0)]
#: Correlations of codes with a Gaussian factor.
GAUSSIAN = [1 / np.sqrt(1.25), 1 / np.sqrt(2.0)]


def nats(p: np.ndarray) -> float:
    """Information in a table of probabilities."""
    independent = p.sum(1, keepdims=True) * p.sum(0, keepdims=True)
    return float((p[p > 0] * np.log(p[p > 0] / independent[p > 0])).sum())


def classes_truth(scale: float, noise: float) -> float:
    """I of uniform classes 0 … 4 and the quantile bins of scale · class + noise · N(0, 1)."""
    centres = scale * np.arange(CLASSES)

    def below(x: float) -> np.ndarray:
        return norm.cdf((x - centres) / noise) / CLASSES

    inner = [brentq(lambda x, q=q: below(x).sum() - q, -50, 50) for q in np.arange(1, BINS) / BINS]
    cumulative = np.array([below(x) for x in (-np.inf, *inner, np.inf)])
    return nats(np.diff(cumulative, axis=0))


def gaussian_truth(correlation: float, points: int = 400) -> float:
    """I of the quantile bins of two Gaussian variables; one of them by quadrature."""
    edges = norm.ppf(np.arange(BINS + 1) / BINS)
    u = (np.arange(BINS * points) + 0.5) / (BINS * points)
    centre = correlation * norm.ppf(u)
    inside = np.diff(norm.cdf((edges[:, None] - centre) / np.sqrt(1 - correlation**2)), axis=0)
    return nats(inside.reshape(BINS, BINS, points).mean(2) / BINS)


def drawn(name: str, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    if name == "gaussian":
        s = rng.normal(size=(rows, 1))
        pairs = [(r, np.sqrt(1 - r**2)) for r in GAUSSIAN]
    else:
        s = rng.integers(CLASSES, size=(rows, 1)).astype(float)
        pairs = {"weak": WEAK, "close": CLOSE, "far": FAR}[name]
    return np.hstack([scale * s + noise * rng.normal(size=(rows, 1)) for scale, noise in pairs]), s


def truth(name: str) -> float:
    if name == "gaussian":
        return (gaussian_truth(GAUSSIAN[0]) - gaussian_truth(GAUSSIAN[1])) / np.log(BINS)
    pairs = {"weak": WEAK, "close": CLOSE, "far": FAR}[name]
    known = [classes_truth(*pair) if pair[0] else 0.0 for pair in pairs]
    return (known[0] - known[1]) / np.log(CLASSES)


def scores(name: str, rows: int, seeds: range) -> np.ndarray:
    """Value and interval of MIG, (seeds, 3)."""
    found = [mig(*drawn(name, rows, seed), kinds=KIND[name], permutations=0) for seed in seeds]
    return np.array([[score.value, *score.interval] for score in found])


KIND = {"gaussian": ["continuous"], "weak": None, "close": None, "far": None}
NAMES = tuple(KIND)


def test_the_truth_by_integration_is_that_of_many_rows():
    for name in NAMES:
        (score,) = scores(name, 400_000, range(1))
        assert score[0] == pytest.approx(truth(name), abs=0.003)


@pytest.mark.parametrize("name", NAMES)
def test_mig_of_few_rows_is_that_of_many(name):
    found = scores(name, 500, range(12))
    assert found[:, 0].mean() == pytest.approx(truth(name), abs=0.025)
    inside = (found[:, 1] <= truth(name)) & (truth(name) <= found[:, 2])
    assert inside.mean() >= 0.75


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("rows", "seeds"), [(500, 40), (2000, 30), (10_000, 15), (50_000, 8)])
def test_mig_does_not_drift(name, rows, seeds):
    found = scores(name, rows, range(seeds))
    half = np.mean(found[:, 2] - found[:, 1]) / 2
    assert abs(found[:, 0].mean() - truth(name)) < half / 2
    inside = (found[:, 1] <= truth(name)) & (truth(name) <= found[:, 2])
    assert inside.mean() >= 0.8


def test_pseudo_values_take_off_the_bias_of_any_table(rng):
    """Over many draws of few rows: the mean pseudo-value is I, where the plug-in is not."""
    plain, corrected = [], []
    for seed in range(60):
        z, s = drawn("weak", 300, seed)
        data = prepare(z, s)
        found = information(Trial("mig", "MIG", data, data.factors, (), False, 0), 10)
        plain.append(found.whole[0, 0, 0])
        weights = found.n[:, 0] / found.n[:, 0].sum()
        corrected.append(weights @ found.held_out[:, 0, 0, 0])
    inner = np.sort(drawn("weak", 400_000, 0)[0][:, 0])
    z, s = drawn("weak", 400_000, 1)
    bins = np.searchsorted(inner[40_000::40_000], z[:, 0])
    table = np.zeros((10, CLASSES))
    np.add.at(table, (bins, s[:, 0].astype(int)), 1 / len(s))
    assert np.mean(plain) - nats(table) > 0.04
    assert abs(np.mean(corrected) - nats(table)) < 0.012


def test_a_perfect_code_loses_nothing_to_few_rows(rng):
    for s in (rng.integers(4, size=(300, 2)), rng.normal(size=(60, 2)), rng.normal(size=(300, 2))):
        assert mig(s, s, permutations=0).value == pytest.approx(1.0, abs=0.05)


def test_mig_without_permutations_has_no_chance_level(rng):
    assert (
        mig(rng.normal(size=(50, 2)), rng.integers(2, size=(50, 1)), permutations=0).chance is None
    )


def test_modularity_of_codes_that_know_something_does_not_drift():
    """Two codes that mix two factors: each knows both, more of its own."""

    def mixed(rows: int, seed: int) -> tuple[float, tuple[float, float]]:
        rng = np.random.default_rng(seed)
        s = rng.integers(5, size=(rows, 2)).astype(float)
        z = s + 0.6 * s[:, ::-1] * [1, -1] + 0.3 * rng.normal(size=s.shape)
        score = modularity(z, s, permutations=0)
        return score.value, score.interval

    limit = mixed(50_000, 0)[0]
    few = [mixed(500, seed) for seed in range(8)]
    assert np.mean([value for value, _ in few]) == pytest.approx(limit, abs=0.03)
    assert sum(low <= limit <= high for _, (low, high) in few) >= 5


def test_five_rows_have_no_interval_and_say_why():
    """Without a row a factor may have one value: that is no NaN."""
    z, s = np.arange(5.0)[:, None], np.array([0, 0, 0, 0, 1.0])
    score = mig(z, s, preset="reference", permutations=0, kinds=["discrete"])
    assert score.interval is None
    assert "without some of the rows a factor has one value only" in score.warnings[0]
    assert np.isfinite(score.value)
    enough = mig(np.tile(z, (4, 1)), np.tile(s, 4), preset="reference", permutations=0)
    assert enough.interval is not None
    assert enough.warnings == ()
    with pytest.raises(InputError, match="needs 10 rows; there are 5"):
        mig(z, s, kinds=["discrete"])
    with pytest.raises(InputError, match="at least one permutation"):
        infomec(
            np.tile(z, (9, 2)), np.random.default_rng(0).integers(2, size=(45, 2)), permutations=0
        )
