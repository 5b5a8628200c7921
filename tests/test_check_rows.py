"""Rows of another model in an index: distances by brute force, false alarms, power, shares."""

from __future__ import annotations

import numpy as np
import pytest

import identikit as ik
from conftest import close
from identikit.retrieval._foreign_rows import RIDGE, Space, foreign_share
from planted_changes import embeddings, unit

#: All models of the collections.
MODELS = (
    "glove_50", "wordllama_256", "para_l3", "minilm_l6", "minilm_l6_int8", "minilm_l6_sre",
    "gte_small", "granite_30m", "use_ml",
)  # fmt: skip

#: Models of one width.
WIDE = ("para_l3", "minilm_l6", "gte_small", "granite_30m")


def distance(row: np.ndarray, rows: np.ndarray, ridge: float) -> float:
    gap = row - rows.mean(axis=0)
    covariance = np.cov(rows.T, bias=True) + ridge * np.eye(rows.shape[1])
    return float(gap @ np.linalg.solve(covariance, gap))


def test_distances_equal_brute_force_with_and_without_the_row_itself(rng):
    x = rng.normal(size=(60, 5)) * [1, 2, 3, 4, 5] + 7
    space = Space.of(ik.pin(x).layers[0].moments)
    ridge = RIDGE * np.trace(np.cov(x.T, bias=True)) / 5
    new = rng.normal(size=(4, 5)) + 7
    close(space.distances(new), [distance(row, x, ridge) for row in new], 1e-8, 100)
    # The ridge is that of all rows, in units of the scatter.
    others = [distance(x[row], np.delete(x, row, axis=0), ridge * 60 / 59) for row in range(len(x))]
    close(space.without_itself(x), others, 1e-8, 100)


def test_shares_at_the_ends():
    assert foreign_share(0, 500, 0.01, 1000)[0] == 0
    share, (low, high) = foreign_share(500, 500, 0.01, 1000)
    assert share == 1
    assert low > 0.98
    assert high == 1
    share, (low, high) = foreign_share(5, 500, 0.01, 1000)
    assert low == 0
    assert share < 0.005 < high


@pytest.mark.slow(sample=True)
@pytest.mark.parametrize("truth", [0.0, 0.03, 0.3])
def test_intervals_of_the_share_cover_it(truth):
    """Foreign rows that are all flagged, an index of 2,000 rows, a pin of 500."""
    rng, inside = np.random.default_rng(0), 0
    for _ in range(400):
        rate = rng.beta(500 + 1 - 496, 496)  # of the 496th of 500 calibration rows
        foreign = round(truth * 2000)
        flagged = foreign + rng.binomial(2000 - foreign, rate)
        low, high = foreign_share(int(flagged), 2000, 0.01, 500)[1]
        inside += low <= truth <= high
    assert inside / 400 >= 0.93


def test_false_alarms_are_as_stated_on_gaussian_rows():
    """Mean over many pins, so that calibration averages out: within binomial error of 2 %."""
    rng, flagged = np.random.default_rng(0), []
    mix = rng.normal(size=(40, 40))
    for _ in range(30):
        x = rng.normal(size=(900, 40)) @ mix
        found = ik.check(x[300:], ik.pin(x[:300], rows=300), rows=True, false_alarms=0.02).foreign
        flagged.append(len(found.flagged) / 600)
    assert abs(np.mean(flagged) - 0.02) < 3.5 * np.std(flagged) / np.sqrt(30)


@pytest.mark.parametrize("collection", ["cranfield", "cacm"])
def test_false_alarms_are_as_stated_on_new_rows_of_real_models(data_dir, collection):
    rng, rate = np.random.default_rng(1), 0.01
    gaps = []
    with np.load(data_dir / "retrieval" / f"{collection}.npz") as data:
        for model in MODELS:
            x = data[f"doc_{model}"].astype(float)
            order = rng.permutation(len(x))
            old, new = x[order[: len(x) // 2]], x[order[len(x) // 2 + 1 :]]
            found = ik.check(new, ik.pin(old), rows=True).foreign
            spread = np.sqrt(rate * (1 - rate) * (1 / len(new) + 1 / found.calibrated_on))
            gaps.append((len(found.flagged) / len(new) - rate) / spread)
    assert np.abs(gaps).max() < 3.5, dict(zip(MODELS, gaps))
    assert abs(np.mean(gaps)) < 2.5


@pytest.mark.parametrize("old", WIDE)
def test_rows_of_another_model_of_the_same_width_are_found(data_dir, old):
    """10 % of an index come from another model: nearly all of these are flagged, few others."""
    rng = np.random.default_rng(2)
    with np.load(data_dir / "retrieval" / "cacm.npz") as data:
        vectors = {name: data[f"doc_{name}"].astype(float) for name in WIDE}
    rows = len(vectors[old])
    order, foreign = rng.permutation(rows), rng.random(rows - rows // 2 - 1) < 0.1
    reference = ik.pin(vectors[old][order[: rows // 2]])
    for other in set(WIDE) - {old}:
        index = order[rows // 2 + 1 :]  # one fewer than pinned: no pairs are looked for
        mixed = np.where(foreign[:, None], vectors[other][index], vectors[old][index])
        found = ik.check(mixed, reference, rows=True)
        flagged = np.zeros(len(mixed), dtype=bool)
        flagged[list(found.foreign.flagged)] = True
        assert flagged[foreign].mean() > 0.99, (old, other)
        assert flagged[~foreign].mean() < 0.025
        low, high = found.foreign.interval
        assert low <= foreign.mean() <= high
        assert not found
        assert "do not come from the pinned model" in found.failures[-1]


def test_an_index_of_other_things_needs_no_pairs(rng):
    x = embeddings(rng, 900, 16)
    found = ik.check(x[500:], ik.pin(x[:500], ids=range(500)), ids=range(500, 900), rows=True)
    assert found
    assert found.layers[0].compared == 0
    assert found.cause is None
    assert "only 0 of the 500" in found.layers[0].pairing
    assert found.foreign.ids is not None
    assert found.foreign.rows == 400
    assert "ForeignRows(" in repr(found.foreign)
    assert "not compared" in found.summary()
    assert "No more rows look foreign" in found.summary()


def test_pinned_rows_that_are_all_the_same_tell_nothing():
    """No such pin is made, but a file may hold one."""
    with pytest.raises(ik.InputError, match="all pinned rows are the same"):
        Space.of(ik.accumulate([np.ones((50, 3))], folds=1))


def test_slices_have_shares_of_their_own(rng):
    x, other = embeddings(rng, 1000, 32), unit(embeddings(rng, 1000, 32) + 0.4)
    slices = np.repeat(["a", "b", "c", "d"], 250)
    mixed = np.where((slices == "b")[:, None], other, x)
    found = ik.check(mixed, ik.pin(x), rows=True, slices=slices).foreign
    by_name = {each.name: each for each in found.slices}
    assert list(by_name) == ["a", "b", "c", "d"]
    assert by_name["b"].share > 0.9
    assert by_name["b"].flagged <= by_name["b"].rows == 250
    assert all(by_name[name].interval[0] == 0 for name in "acd")
