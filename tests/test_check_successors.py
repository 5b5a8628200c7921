"""Rows of a close relative of the pinned model: a population of their own, and compared rows."""

from __future__ import annotations

import numpy as np
import pytest

import identikit as ik
from conftest import close
from identikit.retrieval._foreign_rows import APART, REMARKABLE, RIDGE, Space
from planted_changes import embeddings, noise, rotation, spread

#: Successors of one model on three collections: the file, the pinned model, its successor.
PAIRS = (
    ("retrieval/cranfield.npz", "doc_minilm_l6", "doc_minilm_l6_sre"),
    ("retrieval/cacm.npz", "doc_minilm_l6", "doc_minilm_l6_sre"),
    ("embedding_versions/gutenberg.npz", "minilm_l6_v2", "sre_finetuned"),
)


def rows_of(rng: np.random.Generator, n: int, width: int = 24, apart: float = 0.0) -> np.ndarray:
    """Gaussian rows whose mean is so far out as a row is, in all directions alike."""
    scales = np.arange(1, width + 1) ** -0.5
    return (rng.normal(size=(n, width)) + apart) * scales


def flags(found: ik.CheckResult) -> np.ndarray:
    out = np.zeros(found.foreign.rows, dtype=bool)
    out[list(found.foreign.flagged)] = True
    return out


def test_scores_equal_brute_force_without_the_row_itself(rng):
    """The score of x is (x − μ)ᵀ(Σ + r I)⁻¹(m − μ), with μ and Σ of the other rows."""
    x = rng.normal(size=(60, 5)) * [1, 2, 3, 4, 5] + 7
    space, m = Space.of(ik.pin(x).layers[0].moments), rng.normal(size=5) + 9
    ridge = RIDGE * np.trace(np.cov(x.T, bias=True)) / 5 * 60 / 59
    expected = []
    for number, row in enumerate(x):
        others = np.delete(x, number, axis=0)
        mean = others.mean(axis=0)
        covariance = np.cov(others.T, bias=True) + ridge * np.eye(5)
        expected.append((row - mean) @ np.linalg.solve(covariance, m - mean))
    turned = space.turned(m[None])[0]
    close(space.scores_without_itself(x, turned), expected, 1e-8, 100)


@pytest.mark.parametrize("share", [0.03, 0.5, 1.0])
def test_a_population_that_is_moved_is_found_and_its_share_too(share):
    rng = np.random.default_rng(0)
    index = rows_of(rng, 2999)
    foreign = rng.random(2999) < share
    index[foreign] = rows_of(rng, int(foreign.sum()), apart=1.2)
    found = ik.check(index, ik.pin(rows_of(rng, 3000)), rows=True)
    assert not found
    assert found.foreign.population.told
    close(found.foreign.population.apart, 1.2, 0.1)
    assert flags(found)[foreign].mean() > 0.98
    low, high = found.foreign.interval
    assert low - 0.02 <= foreign.mean() <= high + 0.01
    assert "as those of another model are" in found.summary()


def test_every_second_row_may_be_foreign(rng):
    index = rows_of(rng, 1999)
    index[::2] = rows_of(rng, 1000, apart=1.2)
    found = flags(ik.check(index, ik.pin(rows_of(rng, 3000)), rows=True))
    assert found[::2].mean() > 0.95
    assert found[1::2].mean() < 0.03


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_false_alarms_are_as_stated_beside_a_second_population(share):
    """Mean over many pins of heavy-tailed rows, so that calibration averages out."""
    rng, wrong = np.random.default_rng(1), []

    def drawn(n: int, apart: float = 0.0) -> np.ndarray:
        return (rng.standard_t(6, size=(n, 20)) + apart) * np.arange(1, 21) ** -0.5

    for _ in range(30):
        index, foreign = drawn(1199), rng.random(1199) < share
        index[foreign] = drawn(int(foreign.sum()), 2.0)
        found = ik.check(index, ik.pin(drawn(500), rows=500), rows=True, false_alarms=0.02)
        wrong.append(flags(found)[~foreign].mean())
        assert (found.foreign.population is not None) == (share > 0)
    assert np.mean(wrong) < 0.02 + 3 * np.std(wrong) / np.sqrt(30)
    assert np.mean(wrong) > 0.01


def test_what_is_less_apart_is_remarked_and_passes(rng):
    index = rows_of(rng, 1999)
    # As far out as the others are, on average: 0.8² + 0.6² = 1.
    index[:600] = 0.8 * rows_of(rng, 600, apart=0.75)
    found = ik.check(index, ik.pin(rows_of(rng, 3000)), rows=True)
    population = found.foreign.population
    assert REMARKABLE < population.apart < APART
    assert not population.told
    assert found
    assert 0.1 < population.share < 0.4
    assert "other contents, or a close relative" in found.summary()


def test_compared_rows_give_a_share_however_little_they_changed(rng):
    """An index by id, a fifth of which comes from an int8 export: no row is foreign by itself."""
    x = embeddings(rng, 1500, 32)
    y = np.where(rng.random((1500, 1)) < 0.2, x + noise(rng, x, 0.03), x)
    found = ik.check(y, ik.pin(x, ids=range(1500)), ids=range(1500), rows=True)
    low, high = found.foreign.compared.interval
    assert low <= (y != x).any(axis=1).mean() <= high
    assert found.foreign.compared.rows == 1000
    assert found
    assert "have changed" in found.summary()
    same = ik.check(x, ik.pin(x), rows=True)
    assert same.foreign.compared.flagged == 0
    assert "have changed" not in same.summary()
    other = ik.check(x @ rotation(rng, 32), ik.pin(x), rows=True)
    assert other.foreign.compared.share == 1
    apart = ik.check(x[:-1], ik.pin(x), rows=True)
    assert apart.foreign.compared is None


def test_the_page_and_the_summary_say_it(rng, tmp_path):
    index = rows_of(rng, 1500)
    index[:300] += 2 * spread(index) / np.sqrt(24)
    found = ik.check(index, ik.pin(rows_of(rng, 1500)), rows=True)
    found.report(tmp_path / "check.html")
    page = (tmp_path / "check.html").read_text(encoding="utf-8")
    assert "form a population of their own" in page
    assert "compared one by one" in page
    assert found.to_dict()["foreign_rows"]["population"]["apart"] > REMARKABLE


@pytest.mark.parametrize(("file", "old", "new"), PAIRS)
@pytest.mark.parametrize("share", [0.03, 0.3])
def test_rows_of_a_fine_tuned_successor_are_found(data_dir, file, old, new, share):
    rng = np.random.default_rng(3)
    with np.load(data_dir / file) as data:
        before, after = data[old].astype(float), data[new].astype(float)
    order = rng.permutation(len(before))
    pinned, index = order[: len(order) // 2], order[len(order) // 2 + 1 :]
    foreign = rng.random(len(index)) < share
    mixed = np.where(foreign[:, None], after[index], before[index])
    found = ik.check(mixed, ik.pin(before[pinned]), rows=True)
    assert not found
    assert flags(found)[foreign].mean() > 0.97
    assert flags(found)[~foreign].mean() < 0.025
    low, high = found.foreign.interval
    assert low <= foreign.mean() <= high


@pytest.mark.parametrize("model", ["minilm_l6_v2", "gte_small", "glove6b_50"])
def test_other_books_are_not_taken_for_another_model(data_dir, model):
    with np.load(data_dir / "embedding_versions" / "gutenberg.npz") as data:
        x, books = data[model].astype(float), data["label"]
    for number in range(5):
        some = np.random.default_rng(number).permutation(np.unique(books))[:9]
        there = np.isin(books, some)
        found = ik.check(x[~there][:-1], ik.pin(x[there]), rows=True)
        assert found.foreign.population is None or not found.foreign.population.told
