"""A shift of the rows is found where there is one, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from scipy.signal import lfilter

from conftest import close
from identikit import accumulate
from identikit.auditing import _windows
from identikit.auditing._windows import AXES, ROWS, Window, orthonormal, prepared, read_windows
from identikit.auditing.checks import Context, Evidence
from identikit.auditing.checks.row_shift import REACH, _all_shifts, check
from identikit.sources import open_sources
from identikit.sources.array import ArraySource


def ask(X, Y, **options):
    """What the check says of two views."""
    moments = accumulate([X, Y], names=["a", "b"], drop_nonfinite=True)
    return check(evidence(moments, read_windows(open_sources([X, Y]), moments)), **options)


def evidence(moments, windows):
    return Evidence(moments, 0, 1, Context(windows=windows), (), "affine", 0.0, None, 0.0)


def rows_of(kind, rng, n, d):
    """Rows that are independent, heavy-tailed, slow, repeated, sorted or sparse."""
    white = rng.normal(size=(n, d))
    if kind == "cauchy":
        return white / np.abs(rng.normal(size=(n, 1)))
    if kind == "heavy entries":
        return rng.standard_t(2, size=(n, d))
    if kind == "slow":
        return lfilter([1], [1, -0.9], white, axis=0)
    if kind == "walk":
        return white.cumsum(axis=0)
    if kind == "period":
        return np.tile(white[:64], (n // 64 + 1, 1))[:n] + 0.3 * rng.normal(size=(n, d))
    if kind == "runs":
        return np.repeat(white[: n // 20 + 1], 20, axis=0)[:n] + 0.3 * rng.normal(size=(n, d))
    if kind == "pairs":
        return np.repeat(white[: n // 2 + 1], 2, axis=0)[:n] + 0.01 * white
    if kind == "classes":
        return np.eye(d)[rng.integers(0, d, n)]
    if kind == "sparse":
        return (rng.random((n, d)) < 0.02).astype(float)
    return white


KINDS = [
    "white",
    "cauchy",
    "heavy entries",
    "slow",
    "walk",
    "period",
    "runs",
    "pairs",
    "classes",
    "sparse",
]


def related(kind, rng, n, d, r2=0.3):
    """Two views with a linear relation; noise of the same kind of tails."""
    X = rows_of(kind, rng, n, d)
    signal = X @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    noise = rows_of(kind if kind in ("cauchy", "heavy entries") else "white", rng, n, d)
    # By medians, because some of these have no variance.
    ratio = np.median(np.abs(signal)) / np.median(np.abs(noise))
    return X, signal + np.sqrt((1 - r2) / r2) * ratio * noise


@pytest.mark.parametrize("d", [2, 20, pytest.param(512, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["white", "cauchy", "heavy entries", "slow", "runs"])
def test_a_shift_of_a_weak_linear_relation_is_found(rng, kind, d):
    X, Y = related(kind, rng, 2003, d)
    found = ask(X[3:], Y[:-3])  # row t of X is row t + 3 of Y
    assert not found.ok
    assert 0.5 < found.value <= 1
    assert "row t of view 'a' fits row t + 3 of view 'b'" in found.message
    assert ask(X, Y).ok


@pytest.mark.parametrize("shift", [-REACH, -1, 1, REACH])
def test_the_shift_is_named_with_its_sign(rng, shift):
    X, Y = related("white", rng, 2000, 8)
    message = ask(X, np.roll(Y, shift, axis=0)).message
    assert f"row t {'−' if shift < 0 else '+'} {abs(shift)} of view 'b'" in message
    assert "changes on the way" not in message


def test_shifts_that_are_not_small_are_left_alone(rng):
    X, Y = related("white", rng, 2000, 8)
    assert ask(X, np.roll(Y, 2 * REACH, axis=0)).ok


def test_a_row_that_is_missing_in_the_middle(rng):
    X, Y = related("white", rng, 30_000, 8)
    found = ask(X[:-1], np.delete(Y, 20_000, axis=0))
    assert not found.ok
    assert "row t of view 'a' fits row t − 1 of view 'b'" in found.message
    assert "the shift changes on the way, + 0 at row 1023, + 0 at row 14998, − 1" in found.message
    assert "--id" in found.message
    drifts = ask(X[:-3], np.delete(Y, [4000, 20_000, 20_001], axis=0))
    assert "+ 0 at row 1023, − 1 at row 14997, − 3 at row 28972" in drifts.message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("relation", ["none", "weak", "same", "nonlinear"])
def test_no_false_alarm(kind, relation):
    """None in 20 of each; the slow test below takes 1000."""
    assert_no_alarm(kind, relation, range(20))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("relation", ["none", "weak", "same"])
def test_no_false_alarm_in_a_thousand(kind, relation):
    assert_no_alarm(kind, relation, range(1000, 2000))


def assert_no_alarm(kind, relation, seeds):
    for seed in seeds:
        rng = np.random.default_rng(seed)
        n, d = [(61, 1), (150, 3), (700, 8)][seed % 3]
        X, Y = related(kind, rng, n, d) if kind not in ("classes", "sparse") else (0, 0)
        if relation != "weak" or kind in ("classes", "sparse"):
            X, Y = rows_of(kind, rng, n, d), rows_of(kind, rng, n, d)
        if relation == "same":
            Y = X
        if relation == "nonlinear":
            Y = np.sin(2 * X) + X**2
        found = ask(X, Y)
        assert found is None or (found.ok and found.value < 0.5), f"seed {seed}: {found}"


def test_alarms_of_other_thresholds(rng):
    X, Y = related("white", rng, 2000, 8)
    assert ask(X[1:], Y[:-1], threshold=1.0).ok
    assert not ask(X[1:], Y[:-1], threshold=0.9).ok
    assert ask(X, Y, threshold=0.0).ok
    assert ask(X, Y).value == 0.0


def test_real_tokens_in_a_row(data_dir):
    """Each token's vector depends on its neighbours', and a shift by one is still found."""
    data = np.load(data_dir / "embedding_versions" / "spacy_en_core_web_sm_36_vs_38.npz")
    X, Y = data["v36"], data["v38"]
    assert ask(X, Y).ok
    assert "row t + 1 of view 'b'" in ask(X[1:], Y[:-1]).message
    assert not ask(X[1:], Y[:-1]).ok


# Rows that say nothing


def test_rows_that_are_not_finite_count_for_nothing(rng):
    X, Y = related("white", rng, 2000, 8)
    X[::7, 3], Y[5] = np.nan, [np.inf, -np.inf, *Y[5, 2:]]
    assert ask(X, Y).ok
    assert not ask(X[1:], Y[:-1]).ok
    scores = prepared(X)
    assert np.isfinite(scores).all()
    assert not scores[::7].any()
    close(scores.T @ scores, np.eye(8), 1e-10)


def test_where_the_question_does_not_arise(rng):
    X, Y = related("white", rng, 300, 2)
    moments = accumulate([X, Y])
    assert read_windows(open_sources([X[:59], Y[:59]]), moments) == ()
    assert check(evidence(moments, ())) is None  # as of moments from a file
    assert ask(X, np.ones((300, 1))) is None
    events = np.zeros((300, 1))
    events[[10, 100, 101]] = 1  # three rows that differ
    assert ask(X, events) is None
    gone = X.copy()
    gone[rng.random(300) < 0.95] = np.nan
    assert ask(gone, Y) is None


# The parts


def test_every_shift_has_the_canonical_correlations_of_the_rows_it_pairs(rng):
    """A second route: the angles between column spaces."""
    whole = np.ones(50, dtype=bool)
    x, y = (orthonormal(rng.normal(size=(50, k)), whole) for k in (3, 2))
    found = _all_shifts(Window(0, 49, (x, y)), 0, 1)
    for shift in range(50):
        angles = subspace_angles(x, np.roll(y, -shift, axis=0))
        close(found[shift], np.mean(np.cos(angles) ** 2), 1e-12)


def test_prepared_scores_are_orthonormal_white_in_time_and_without_outliers(rng):
    slow = rows_of("slow", rng, 2000, 5)
    slow[100] *= 1000
    scores = prepared(slow)
    close(scores.T @ scores, np.eye(5), 1e-10)
    close(scores.mean(axis=0), np.zeros(5), 1e-12)
    assert np.abs(np.einsum("ij,ij->j", scores[1:], scores[:-1])).max() < 0.1
    norms = np.linalg.norm(scores, axis=1)
    assert norms.max() < 3 * np.median(norms)


def test_dependent_columns_are_left_out(rng):
    X, whole = rng.normal(size=(400, 3)), np.ones(400, dtype=bool)
    assert orthonormal(np.c_[X, X[:, 0] + X[:, 1]], whole).shape == (400, 3)
    assert orthonormal(np.zeros((400, 2)), whole).shape == (400, 0)
    assert prepared(rng.normal(size=(100, 5))).shape == (100, 2)  # 40 rows an axis


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (60, [(0, 59)]),
        (179, [(0, 178)]),
        (180, [(0, 179), (0, 59), (60, 119), (120, 179)]),
        (10_000, [(0, 9999), (0, 2047), (3976, 6023), (7952, 9999)]),
    ],
)
def test_windows_lie_at_the_start_the_middle_and_the_end(rng, rows, expected):
    X = rng.normal(size=(rows, 2))
    moments = accumulate([X, X])
    windows = read_windows(open_sources([X, X]), moments)
    assert [(window.first, window.last) for window in windows] == expected
    for window in windows[1:]:
        assert window.scores[0].shape[0] == window.last - window.first + 1
        # The rows that it says it has, along the axes of all rows; the signs are free.
        axes = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2].T
        again = prepared((X[window.first : window.last + 1] - X.mean(axis=0)) @ axes)
        angles = subspace_angles(window.scores[1], again)
        close(np.cos(angles), np.ones(again.shape[1]), 1e-9)


def test_rows_are_read_a_few_at_a_time(rng, monkeypatch):
    class Spy(ArraySource):
        longest = total = 0

        def read(self, start, stop):
            self.longest, self.total = max(self.longest, stop - start), self.total + stop - start
            return super().read(start, stop)

    X = rng.normal(size=(9000, 3))
    moments = accumulate([X])
    (whole, *_) = read_windows([ArraySource(X, "a")], moments)
    monkeypatch.setattr(_windows, "CHUNK_BYTES", 1000 * 24)
    source = Spy(X, "a")
    (again, *_) = read_windows([source], moments)
    assert source.longest == 1000
    assert source.total == 3 * ROWS
    close(again.scores[0], whole.scores[0], 1e-12)


def test_no_more_axes_than_there_are_rows_for(rng):
    X = rng.normal(size=(9000, 40))
    moments = accumulate([X, X])
    windows = read_windows(open_sources([X, X]), moments)
    assert {scores.shape[1] for window in windows for scores in window.scores} == {AXES}


def test_views_kept_in_well_conditioned_coordinates(rng):
    """Nearly dependent columns of very different size: the scatter is stored in other axes."""
    X, Y = related("white", rng, 2000, 4)
    X = np.c_[X, X[:, 0] + 1e-7 * X[:, 1]] * [1e6, 1, 1, 1, 1e6] + 1e7
    assert accumulate([X, Y]).layout.roots is not None
    assert ask(X, Y).ok
    assert "row t + 1" in ask(X[1:], Y[:-1]).message
    assert not ask(X[1:], Y[:-1]).ok
