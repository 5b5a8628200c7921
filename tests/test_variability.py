"""Variability: the rank and condition number of environments, classes and labels, in one place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import identikit as ik
from conftest import close
from identikit import family, recover
from identikit.errors import InputError
from identikit.recover import variability


def precisions_of_maximum_variability(d: int) -> np.ndarray:
    variances = np.full((d + 1, d), 1e-4)
    variances[1:] += 0.9999 * np.eye(d)
    return 1 / variances


def test_there_is_one_function():
    assert recover.variability is family.variability


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 10])
def test_maximum_variability_is_perfectly_conditioned(d):
    table = precisions_of_maximum_variability(d)
    close(table[1:] - table[0], -9999 * np.eye(d), 1e-9, 9999)
    found = variability(table)
    assert found.ok
    assert bool(found) is True
    assert (found.rank, found.needed) == (d, d)
    assert found.condition == pytest.approx(1, abs=1e-9)
    close(found.singular_values, np.full(d, 9999.0), 1e-9, 9999)
    assert found.missing.shape == (d, 0)
    # The condition number is that of differences from one row: from the mean it is another.
    assert variability(table, reference=None).condition == pytest.approx(
        np.sqrt(d + 1) if d > 1 else 1
    )


def test_equal_columns_and_few_rows_lack_rank_and_say_so(rng):
    table = rng.normal(size=(7, 4))
    table[:, 2] = table[:, 0]
    found = variability(table)
    assert not found.ok
    assert (found.rank, found.condition) == (3, np.inf)
    assert "span 3 of 4 dimensions, 1 is missing" in found.sentence
    assert "do not vary on their own" in found.sentence
    close(np.abs(found.missing[:, 0]), [0.5**0.5, 0, 0.5**0.5, 0], 1e-9)
    few = variability(rng.normal(size=(4, 4)))
    assert (few.rank, few.missing.shape) == (3, (4, 1))
    assert few.sentence.endswith("1 is missing: it takes 5 rows or more")
    one = variability([[1.0, 2.0]])
    assert (one.rank, one.ok) == (0, False)
    assert "1 row span 0 of 2 dimensions, 2 are missing" in one.sentence


def test_a_condition_number_has_a_bound(rng):
    table = rng.normal(size=(9, 3)) * [1, 1, 1e-7]
    found = variability(table)
    assert found.rank == found.needed
    assert not found.ok
    assert "which is above 1e+06" in found.sentence
    assert variability(table, largest_condition=1e9).ok


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 9), st.integers(0, 6)
)  # fmt: skip
def test_rank_and_missing_directions_of_planted_tables(seed, d, rows, rank):
    rng = np.random.default_rng(seed)
    rank = min(rank, d)
    table = rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, d)) + 5 * rng.normal(size=d)
    found = variability(table)
    assert found.rank == min(rank, rows - 1)
    assert found.missing.shape == (d, d - found.rank)
    close(found.missing.T @ found.missing, np.eye(d - found.rank), 1e-9)
    close((table - table[0]) @ found.missing, np.zeros((rows, d - found.rank)), 1e-8)
    # The rank does not depend on the reference, on the order of rows, or on units.
    last = variability(table[::-1] * 2.0 ** rng.integers(-9, 9, size=d), reference=rows - 1)
    assert last.rank == found.rank


def test_diversity_is_the_variability_of_label_embeddings(rng):
    for labels, width, rank in ((20, 4, 4), (20, 4, 2), (3, 4, 2)):
        g = rng.normal(size=(labels, rank)) @ rng.normal(size=(rank, width))
        model = ik.SoftmaxModel(f=rng.normal(size=(50, width)), g=g)
        found, own = ik.diversity(model), variability(g, reference=None)
        assert (found.rank, found.needed) == (own.rank, own.needed)
        close(found.singular_values[:rank], own.singular_values[:rank], 1e-9)
        assert found.ok == own.ok


def test_precisions_are_the_class_vectors_of_the_environment_classifier(rng):
    """log p(e|z)/p(0|z) = −½ Σ Δ_ei u_i² + const: softmax regression on squares has Δ for its g."""
    variances = np.abs(rng.normal(size=(4, 3))) / 2 + 0.1
    u = rng.normal(size=(6, 3))
    log_density = -0.5 * (u**2 @ (1 / variances).T) - 0.5 * np.log(variances).sum(axis=1)
    model = ik.SoftmaxModel(f=u**2, g=-0.5 / variances, bias=-0.5 * np.log(variances).sum(axis=1))
    expected = log_density - np.logaddexp.reduce(log_density, axis=1)[:, None]
    close(model.log_prob(), expected, 1e-12)
    assert ik.diversity(model).rank == variability(1 / variances).rank == 3


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ([1.0, 2.0], r"shape \(2,\)"),
        (np.empty((0, 3)), r"shape \(0, 3\)"),
        ([["a", "b"]], "real numbers"),
        (
            [[1.0, np.inf], [0.0, 0.0]],
            "NaN or infinity in 1 rows, the first is row 0",
        ),
    ],
)
def test_bad_tables(table, says):
    with pytest.raises(InputError, match=says):
        variability(table)


def test_a_reference_that_is_not_there(rng):
    with pytest.raises(InputError, match="the reference is row 5, but there are 3 rows"):
        variability(rng.normal(size=(3, 2)), reference=5)


def test_moments_of_several_views_are_refused(rng):
    X = rng.normal(size=(9, 2))
    assert variability(ik.accumulate([X], folds=1)).rank == 2
    with pytest.raises(InputError, match="moments of 2 views"):
        variability(ik.accumulate([X, X], folds=1))
