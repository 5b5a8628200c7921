"""Moments files with a good digest and numbers that no rows can have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from identikit.cli import app
from identikit.moments import Moments, Shard, accumulate, assign_folds, read_moments
from identikit.moments._sound import impossible
from identikit.sources import open_sources


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def moments_of(rng, n=200, ill=False):
    X = rng.normal(size=(n, 3))
    if ill:
        X = X * [1, 1e-4, 1e-8] @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return accumulate([X, X @ rng.normal(size=(3, 2)) + rng.normal(size=(n, 2))])


def with_part(moments, fold=2, **changes):
    parts = list(moments.parts)
    parts[fold] = replace(parts[fold], **changes)
    return replace(moments, parts=tuple(parts), _cache={})


def scatter(moments, change, fold=2):
    """With a change to the blocks of a fold's scatter: (of a, of b, across)."""
    matrix = moments.parts[fold].scatter.copy()
    change(matrix)
    return with_part(moments, fold, scatter=matrix)


def cross_times(factor):
    def change(matrix):
        matrix[:3, 3:] *= factor
        matrix[3:, :3] *= factor

    return change


def negative(matrix):
    matrix[0, 0] *= -1


def one_column_larger(matrix):
    matrix[1, 3] = matrix[3, 1] = 2 * np.sqrt(matrix[1, 1] * matrix[3, 3])


@pytest.mark.parametrize("ill", [False, True])
@pytest.mark.parametrize(
    "change", [cross_times(100), cross_times(-30), negative, one_column_larger]
)
def test_a_scatter_that_is_none_is_refused(rng, change, ill):
    """As a user meets it: the file is whole, and `audit` says what is wrong with it."""
    moments = moments_of(rng, ill=ill)
    assert (moments.layout.roots is not None) == ill
    scatter(moments, change).save("forged.moments")
    result = CliRunner().invoke(app, ["audit", "forged.moments"])
    assert result.exit_code == 2
    assert result.stderr == (
        "identikit: forged.moments is damaged: the statistics of fold 2 are impossible: it "
        "has a scatter matrix that is not positive semi-definite\n"
    )
    merged = CliRunner().invoke(app, ["merge", "forged.moments", "-o", "all.moments"])
    assert merged.exit_code == 2
    assert not Path("all.moments").exists()


def test_a_small_forgery_is_seen_and_rounding_is_not(rng):
    X = rng.normal(size=(300, 3))
    moments = accumulate([X, X[:, :2]])  # equal columns: the scatter has eigenvalues of zero
    assert impossible(moments) is None
    forged = scatter(moments, cross_times(1 + 1e-5))
    assert "not positive semi-definite" in impossible(forged)
    assert impossible(scatter(moments, cross_times(1 + 1e-12))) is None


@pytest.mark.parametrize("name", ["cubic", "quartic"])
def test_higher_moments_are_bounded_by_the_second(rng, name):
    moments = moments_of(rng)
    if name == "quartic":  # too small: Σ‖x‖⁴ is at least (Σ‖x‖²)²/n
        forged = with_part(moments, quartic=moments.parts[2].quartic / 100)
    else:
        forged = with_part(moments, cubic=moments.parts[2].cubic + 1e4)
    assert "third or fourth moments" in impossible(forged)


def test_counts_must_fit(rng):
    moments = moments_of(rng)
    alone = with_part(moments, count=1)
    assert "fold 2 are impossible: it has only one row, but a scatter that" in impossible(alone)
    sources = open_sources([rng.normal(size=(50, 2))])
    known = read_moments(sources, assign_folds(50, 5), digest=True)
    assert impossible(known) is None
    more = replace(known, shards=(Shard(51, known.shards[0].digests),))
    assert "its shards have more rows than the 50 that it counts" in impossible(more)


def test_rows_must_fit_the_statistics(rng):
    moments = moments_of(rng)
    far = replace(moments.extremes, rows=moments.extremes.rows * 100)
    assert "has largest rows that its scatter does not allow" in impossible(
        replace(moments, extremes=far)
    )
    sample = replace(moments.sample, rows=moments.sample.rows * 100)
    assert "its sample has rows" in impossible(replace(moments, sample=sample))


@pytest.mark.parametrize(
    "odd",
    [
        lambda X: X * np.logspace(-30, 30, 4),
        lambda X: X + 1e12,
        lambda X: np.where(np.arange(4) == 0, 0.1, X),
        lambda X: (X + 1e4).astype(np.float32),
        lambda X: X[:, :1] * [1, 2, 3, 4] + 1e3,
        lambda X: X * np.logspace(0, -12, 4) @ np.linalg.qr(np.vander([1, 2, 3, 4.0]))[0],
        lambda X: np.where(np.arange(len(X))[:, None] == 7, 1e60, X),
        lambda X: np.full_like(X, -1.4),
        lambda X: np.cumsum(X, axis=0) * 1e5,
        lambda X: X * 1e200,
        lambda X: X * 1e-200,
        lambda X: X[:3],
    ],
)
def test_what_rows_do_have_is_taken(rng, odd):
    """Hostile but legal rows, alone, merged, and beside each other."""
    X, Y = odd(rng.normal(size=(200, 4))), odd(rng.normal(size=(200, 4)))
    for moments in (accumulate([X, Y]), accumulate([X]) + accumulate([Y]), accumulate([X, X])):
        moments.save("fine.moments")
        assert Moments.load("fine.moments").rows == moments.rows
