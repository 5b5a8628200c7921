"""Far fewer rows than columns: their span gives the same, fast, and a question is asked."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

import identikit as ik
from identikit.alignment import axis_free, ladder
from identikit.auditing._plan import plan
from identikit.cli import app
from identikit.errors import InputError
from identikit.moments import assign_folds, row_span
from identikit.similarity import MEASURES
from identikit.sources import open_source

AXIS_FREE = axis_free()

pytestmark = pytest.mark.long

QUESTION = r"fewer rows \({}\) than columns \({}\): are the views transposed"


def pair(rng, n, d, noise=0.3):
    """Two views with means, the second a noisy rotation, some directions larger than others."""
    x = 3 * rng.normal(size=(n, 4)) @ rng.normal(size=(4, d)) + rng.normal(size=(n, d))
    y = x @ np.linalg.qr(rng.normal(size=(d, d)))[0] + noise * rng.normal(size=(n, d))
    return x + 0.5, y + 1.5


def directly(folder, views, **options):
    """The audit of the views as they are, which is what moments in a file are of."""
    path = folder / f"{len(list(folder.iterdir()))}.moments"
    return ik.audit(views, save_moments=path, **options)


def agree(spanned, direct, rungs, tol=1e-8):
    (a,), (b,) = spanned.comparisons, direct.comparisons
    left, right = ({rung.group: rung for rung in p.ladder} for p in (a, b))
    assert set(left) == set(rungs)
    for name in rungs:
        if name in ("linear", "affine"):
            continue  # of many fits to few rows they take different ones
        for field in ("error", "interval", "forward", "backward"):
            assert getattr(left[name], field) == pytest.approx(
                getattr(right[name], field), abs=tol
            ), (name, field)
    for field in ("mean", "chance", "adjusted_r2", "rank"):
        assert getattr(a.cca, field) == pytest.approx(getattr(b.cca, field), abs=tol), field
    assert a.cka.value == pytest.approx(b.cka.value, abs=tol)
    assert a.cka.debiased == pytest.approx(b.cka.debiased, abs=tol)
    for name, measure in MEASURES.items():
        if name not in ("cca", "cka") and measure.invariant_to in AXIS_FREE:
            one, other = (p.measures[name] for p in (a, b))
            assert (one and one.value) == pytest.approx(other and other.value, abs=tol), name
    for one, other in zip(spanned.views, direct.views):
        assert (one.name, one.dims, one.rank) == (other.name, other.dims, other.rank)
        # Roots of eigenvalues that are rounding, one a column, are in the entropy of the view.
        assert one.effective_rank == pytest.approx(other.effective_rank, rel=1e-5)
        assert one.reduced_to is None


@pytest.mark.parametrize("centred", [False, True])
def test_the_span_of_the_rows_gives_what_the_views_give(rng, tmp_path, centred):
    x, y = pair(rng, 40, 110)
    if centred:
        x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    spanned, direct = ik.audit([x, y]), directly(tmp_path, [x, y])
    assert "in the coordinates of the span of their rows" in spanned.settings.reading
    assert direct.settings.reading == "All views were read in one pass."
    agree(spanned, direct, ladder_names(direct))


def least_squares(x, y, folds=5):
    """Held-out error of the shortest least-squares fit, in the views' own columns."""
    labels, missed, total = assign_folds(len(x), folds).of(), 0.0, 0.0
    for fold in range(folds):
        a, b = labels != fold, labels == fold
        means = x[a].mean(axis=0), y[a].mean(axis=0)
        weights = np.linalg.lstsq(x[a] - means[0], y[a] - means[1], rcond=1e-10)[0]
        missed += np.square(y[b] - means[1] - (x[b] - means[0]) @ weights).sum()
        total += np.square(y[b] - means[1]).sum()
    return np.sqrt(missed / total)


def test_regression_on_few_rows_is_the_shortest_of_its_solutions(rng):
    """Standardised columns are nearly the view's own where all have about the same variance."""
    x, y = pair(rng, 60, 200)
    affine = ik.audit([x, y]).comparisons[0].ladder[-1]
    assert affine.forward == pytest.approx(least_squares(x, y), rel=0.02)
    assert affine.backward == pytest.approx(least_squares(y, x), rel=0.02)


def test_of_a_low_rank_regression_is_exact(rng):
    """Test rows lie in the span of the others, and there is one fit only."""
    x = rng.normal(size=(40, 6)) @ rng.normal(size=(6, 110))
    y = x @ rng.normal(size=(110, 110)) + 0.2 * (x[:, :1] ** 2) @ rng.normal(size=(1, 110))
    for left, right in ((x, y), (x + 2, y - 1)):
        found = ik.audit([left, right])
        assert [view.rank for view in found.views] == [6, 7]
        affine = found.comparisons[0].ladder[-1]
        expected = max(least_squares(left, right), least_squares(right, left))
        plain = affine.error if affine.without_ridge is None else affine.without_ridge
        assert plain == pytest.approx(expected, abs=1e-8)


def ladder_names(audit):
    return [rung.group for rung in audit.comparisons[0].ladder]


def test_groups_and_dropped_rows_are_those_of_the_views(rng, tmp_path):
    x, y = pair(rng, 60, 150)
    x[7, 3], y[20, 1] = np.nan, np.inf
    options = {"groups": np.arange(60) // 3, "drop_nonfinite": True}
    spanned = ik.audit([x, y], **options)
    assert (spanned.rows, spanned.settings.dropped) == (58, 2)
    direct = directly(tmp_path, [x, y], **options)
    agree(spanned, direct, ladder_names(direct))
    with pytest.raises(InputError, match="row 7"):
        ik.audit([x, y])


def test_views_of_other_widths_and_one_that_is_narrow(rng, tmp_path):
    x, y = pair(rng, 50, 120)
    for other in (y[:, :105], y[:, :30]):
        spanned, direct = ik.audit([x, other]), directly(tmp_path, [x, other])
        agree(spanned, direct, AXIS_FREE)


def test_a_permutation_is_found_and_above_some_columns_it_is_left_out(rng):
    x = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 1281)) + 0.1 * rng.normal(size=(40, 1281))
    y = -x[:, rng.permutation(1281)]
    assert ik.audit([x[:, :100], -x[:, rng.permutation(100)]]).verdict.group == "permutation"
    with pytest.warns(UserWarning, match="are the views transposed"):
        found, same = ik.audit([x, y]), ik.audit([x, x]).verdict
    assert ladder_names(found) == ["identity", *AXIS_FREE]
    assert (same.group, same.error) == ("identity", 0)


def test_a_rotation_is_not_fitted_where_training_rows_do_not_vary(rng):
    """Directions that the training rows know nothing of are left at their mean."""
    x, y = rng.normal(size=(2, 20, 60))
    m = ik.accumulate([x, y], folds=5)
    both = ladder(m, names=("rigid",))["rigid"]
    expected = []
    for fold in range(5):
        test = assign_folds(20, 5).of() == fold
        means = x[~test].mean(axis=0), y[~test].mean(axis=0)
        left, _, right = np.linalg.svd((x[~test] - means[0]).T @ (y[~test] - means[1]))
        a, b = x[test] - means[0], y[test] - means[1]
        known = left[:, :15] @ right[:15]
        expected.append(np.square(b - a @ known).sum())
    np.testing.assert_allclose(both[0].residual, expected, rtol=1e-9)


def test_the_span_keeps_all_of_the_rows(rng):
    x = rng.normal(size=(12, 40)) + 3
    found = row_span(open_source(x), assign_folds(12, 3))
    assert found.basis.shape == (40, 11)
    np.testing.assert_allclose(found.basis.T @ found.basis, np.eye(11), atol=1e-12)
    centred = x - x.mean(axis=0)
    np.testing.assert_allclose(centred @ found.basis @ found.basis.T, centred, atol=1e-12)
    assert found.lost < 1e-12
    with pytest.raises(InputError, match="squares overflow"):
        row_span(open_source(x * 1e200), assign_folds(12, 3))


def test_it_is_chosen_for_few_rows_that_fit_the_memory():
    assert plan([100, 30], 5, 49, spans=True).choice == "in the span of the rows"
    assert plan([100, 30], 5, 49, spans=True).widths == (49, 30)
    assert plan([100, 30], 5, 50, spans=True).choice == "one pass"
    assert plan([100, 30], 5, 49).choice == "one pass"
    little = plan([4000, 4000], 5, 1900, 150_000_000, spans=True)
    assert little.choice.startswith("reduced to")


@pytest.mark.parametrize(("n", "d"), [(10, 10_000), (12, 2_000)])
def test_transposed_views_take_no_time_and_are_asked_about_at_once(rng, n, d):
    views = [rng.normal(size=(n, d)) for _ in range(2)]
    started = time.process_time()
    with pytest.warns(UserWarning, match=QUESTION.format(n, f"{d:,}")):
        found = ik.audit(views)
    assert time.process_time() - started < 20  # it was minutes; seconds are left for a busy machine
    (check,) = [c for c in found.comparisons[0].checks if c.name == "transposed"]
    assert not check.ok
    assert "are the views transposed" in check.message
    assert found.verdict.group == "unrelated"


def test_the_question_comes_before_the_work(rng):
    said = []
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: said.append(str(message))
        warnings.simplefilter("always")
        ik.audit([*rng.normal(size=(2, 10, 41))], progress=lambda stage, *_: said.append(stage))
    assert "are the views transposed" in said[0]


def test_it_is_asked_of_pairs_with_few_rows_only(rng):
    x = rng.normal(size=(40, 150))
    checks = {c.name: c for c in ik.audit([x, x]).comparisons[0].checks}
    assert checks["transposed"].ok
    for audit in (ik.audit([x, x[:, :5]]), ik.audit([x[:, :5], x[:, :5]])):
        assert "transposed" not in {c.name for c in audit.comparisons[0].checks}


def test_the_command_line_asks_in_one_line_on_standard_error(rng, tmp_path):
    paths = [str(tmp_path / f"{k}.npy") for k in range(2)]
    for path in paths:
        np.save(path, rng.normal(size=(10, 50)))
    result = CliRunner().invoke(app, ["audit", *paths, "--json"])
    assert result.exit_code == 0
    assert result.stdout.startswith("{")
    assert "identikit: there are fewer rows (10) than columns (50)" in result.stderr
    quiet = CliRunner().invoke(app, ["audit", *paths, "--json", "--quiet"])
    assert "transposed" not in quiet.stderr
