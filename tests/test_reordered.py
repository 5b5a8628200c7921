"""The same rows in another order are found out; independent rows are not taken for such."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import identikit as ik
from identikit.auditing.checks.reordered import PARTNERS, TWINS, _cells, partners, profiles, twins


def scores(x):
    """Along principal axes."""
    x = x - x.mean(axis=0)
    left, values, _ = np.linalg.svd(x, full_matrices=False)
    kept = values > 1e-6 * values[0]
    return left[:, kept] * values[kept]


def gaussian(rng, n, d):
    return rng.normal(size=(n, d))


def sloping(rng, n, d):
    return rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -0.7


def heavy(rng, n, d):
    return rng.standard_t(2, size=(n, d))


def uniform(rng, n, d):
    return rng.random((n, d))


def classes(rng, n, d):
    """The same classes for both views, or a view would differ by these."""
    return 3 * np.random.default_rng(5).normal(size=(6, d))[rng.integers(0, 6, n)] + rng.normal(
        size=(n, d)
    )


def sparse(rng, n, d):
    return np.maximum(rng.normal(size=(n, d)) - 0.5, 0) * np.arange(1, d + 1) ** -0.5


def curved(rng, n, d, noise=0.0):
    """A surface: three axes say nearly all of the others."""
    own = np.random.default_rng(7)
    return np.sin(rng.random((n, 2)) @ own.normal(size=(2, d)) * 4 + own.random(d) * 6)


FAMILIES = [gaussian, sloping, heavy, uniform, classes, sparse, curved]


def level(x, y, seed=0):
    """What the check says, without an audit."""
    x, y = scores(x), scores(y)
    return max(twins(x, y) / TWINS, partners(x, y, seed) / PARTNERS)


def found(audit):
    checks = {check.name: check for check in audit.comparisons[0].checks}
    return checks.get("reordered")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("d", [2, 20])
def test_independent_rows_have_no_partners(rng, family, d):
    for _ in range(3):
        assert level(family(rng, 150, d), family(rng, 150, d)) < 1


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_no_false_alarm_in_many_independent_pairs(family):
    rng, worst = np.random.default_rng(11), []
    for n, d, times in ((100, 2, 50), (100, 20, 50), (250, 6, 40), (400, 100, 20), (600, 30, 12)):
        worst += [level(family(rng, n, d), family(rng, n, d), k) for k in range(times)]
    assert max(worst) < 1


@pytest.mark.parametrize("family", FAMILIES)
def test_a_rotation_or_an_affine_map_in_another_order_is_found(rng, family):
    x = family(rng, 200, 8)
    order = rng.permutation(200)
    for y in (x @ np.linalg.qr(rng.normal(size=(8, 8)))[0], x @ rng.normal(size=(8, 8)) + 2):
        assert twins(scores(x), scores(y[order])) > TWINS


@pytest.mark.parametrize("family", [sloping, sparse])
def test_a_noisy_rotation_in_another_order_is_found(rng, family):
    x = family(rng, 600, 30)
    y = x @ np.linalg.qr(rng.normal(size=(30, 30)))[0]
    y = y + 0.3 * np.sqrt(y.var(axis=0).mean()) * rng.normal(size=y.shape)
    assert partners(scores(x), scores(y[rng.permutation(600)])) > PARTNERS


def test_the_audit_says_it_and_how_to_mend_it(rng):
    x = sloping(rng, 1500, 10)  # more rows than the sample holds
    y = x @ np.linalg.qr(rng.normal(size=(10, 10)))[0] + 0.01 * rng.normal(size=x.shape)
    order = rng.permutation(1500)
    lost = ik.audit([x, y[order]])
    assert lost.verdict.group == "unrelated"
    assert not found(lost).ok
    (warning,) = [w for w in lost.comparisons[0].warnings if "another order" in w]
    assert "pair them by id with --id (ids=)" in warning
    mended = ik.audit([x, y[order]], ids=[np.arange(1500), order])
    assert mended.verdict.group == "rigid"
    assert found(mended) is None
    unrelated = ik.audit([x, sloping(rng, 1500, 10)])
    assert unrelated.verdict.group == "unrelated"
    assert found(unrelated).ok


def test_it_speaks_of_moments_whose_sample_is_all_rows(rng):
    x = sloping(rng, 400, 6)
    m = ik.accumulate([x, x[rng.permutation(400)]], folds=5)
    assert not found(ik.audit(m)).ok
    many = sloping(rng, 1200, 6)
    assert found(ik.audit(ik.accumulate([many, many[::-1]], folds=5))) is None


def test_rows_that_are_not_finite_are_left_out(rng):
    x = sloping(rng, 1200, 6)
    y = x[rng.permutation(1200)].copy()
    y[5, 2] = np.nan
    assert not found(ik.audit([x, y], drop_nonfinite=True)).ok


@pytest.mark.parametrize(("n", "d"), [(2001, 4), (59, 4), (500, 1)])
def test_no_answer_for_many_rows_or_few_or_one_column(rng, n, d):
    x = rng.normal(size=(n, d))
    assert found(ik.audit([x, x[rng.permutation(n)]])) is None


def test_a_data_frame_out_of_order_is_paired_instead(rng):
    x = pd.DataFrame(sloping(rng, 300, 5), index=[f"w{k}" for k in range(300)])
    assert ik.audit([x, x.sample(frac=1, random_state=0)]).verdict.group == "identity"


def test_profiles_do_not_depend_on_order_or_rotation(rng):
    x = rng.normal(size=(80, 5))
    order = rng.permutation(80)
    turned = x[order] @ np.linalg.qr(rng.normal(size=(5, 5)))[0]
    np.testing.assert_allclose(profiles(turned), profiles(x)[order], atol=1e-3)


def test_cells_hold_a_few_neighbours(rng):
    points = rng.normal(size=(500, 3))
    cells = _cells(points)
    sizes = np.bincount(cells)
    assert sizes.min() >= 7
    assert sizes.max() <= 15
    spread = [points[cells == cell].var(axis=0).sum() for cell in range(len(sizes))]
    assert np.mean(spread) < 0.4 * points.var(axis=0).sum()


def test_what_leading_axes_determine_is_no_evidence(rng):
    assert partners(scores(curved(rng, 300, 20)), scores(curved(rng, 300, 20))) == -np.inf
