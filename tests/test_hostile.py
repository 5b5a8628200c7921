"""Hostile but legal numbers: canonical correlations against a float64 SVD of the rows."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import close
from identikit.auditing import audit
from identikit.errors import InputError
from identikit.moments import accumulate
from identikit.similarity import cca, cka

N, D = 2000, 8


def stored_eps(view):
    kind = np.asarray(view).dtype
    return float(np.finfo(kind).eps) if kind.kind == "f" else 2.0**-52


def basis(view):
    """Orthonormal basis of the centred view: the standardised columns' SVD, at the stated rank.

    A column is constant if its standard deviation is within 4 ε of its mean; a direction counts
    if its singular value exceeds min(max(n, d) ε, √ε) times the largest, ε of the stored type, or
    1/32 (columns have norm 1) if that is less.
    """
    X, eps = np.asarray(view).astype(np.float64), stored_eps(view)
    mean = X.mean(axis=0)
    X = X - mean
    X = X - X.mean(axis=0)
    scale = np.sqrt((X**2).sum(axis=0))
    varies = scale > 4 * eps * np.abs(mean) * np.sqrt(len(X))
    U, s, _ = np.linalg.svd(X[:, varies] / scale[varies], full_matrices=False)
    tolerance = min(max(X.shape) * eps, np.sqrt(eps))
    return U[:, s > min(tolerance * s[0], 2.0**-5)]


def reference(X, Y):
    """Canonical correlations and the two ranks, from the rows."""
    left, right = basis(X), basis(Y)
    r = np.linalg.svd(left.T @ right, compute_uv=False)
    return np.clip(r, 0, 1), (left.shape[1], right.shape[1])


def related(rng, n=N, d=D):
    """Two views that share their signal to a different degree along each axis."""
    signal, other = rng.normal(size=(n, d)), rng.normal(size=(n, d))
    share = np.linspace(0.1, 1, d)
    mixed = signal * share + other * np.sqrt(1 - share**2)
    return signal, mixed @ turn(rng, d) * np.linspace(1, 3, d) @ turn(rng, d)


def turn(rng, d):
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def conditioned(rng, d, condition, how, n=N):
    """`related` views with a condition number, by column scaling or along rotated axes."""
    X, Y = related(rng, n, d)
    scaling = np.logspace(0, -np.log10(condition), d)
    if how == "scaled":
        return X * scaling, Y * scaling[::-1]
    return X * scaling @ turn(rng, d), Y @ turn(rng, d) * scaling @ turn(rng, d)


def strided(array):
    """The same numbers as every second row and third column of a larger array."""
    large = np.zeros((2 * len(array), 3 * array.shape[1]), dtype=array.dtype)
    large[::2, ::3] = array
    return large[::2, ::3]


def constant_column(rng):
    X, Y = related(rng)
    X[:, 3], Y[:, 0] = 0.1, -1e6
    return X, Y


def duplicated_in_one(rng):
    X, Y = related(rng)
    return np.hstack([X, X[:, :3]]), Y


def duplicated_in_both(rng):
    X, Y = related(rng)
    return np.hstack([X, X[:, :3], -2 * X[:, :1]]), np.hstack([Y[:, 5:], Y])


def unequal_widths(rng):
    X, Y = related(rng)
    return X[:, :2], np.hstack([Y, rng.normal(size=(N, 30))])


def integers(rng):
    X, Y = related(rng)
    return np.round(20 * X).astype(np.int8), np.round(1e9 * Y).astype(np.int64)


def booleans(rng):
    X, Y = related(rng)
    return X > 0, (Y > 0.5).astype(np.uint8)


def identical(rng):
    X, _ = related(rng)
    return X, X


def casted(kind, scale=1.0, offset=0.0):
    def make(rng):
        return tuple((view * scale + offset).astype(kind) for view in related(rng))

    return make


def conditioned_as(how, kind):
    def make(rng):
        return tuple(view.astype(kind) for view in conditioned(rng, D, 1e8, how))

    return make


def laid_out(layout):
    return lambda rng: tuple(layout(view.astype(np.float32)) for view in related(rng))


CASTS = {
    "float16": casted("f2"),
    "float16 at scale 300": casted("f2", 300),
    "offset 1e2, float32": casted("f4", offset=1e2),
    "offset 1e3, float32": casted("f4", offset=1e3),
    "offset 1e4, float32": casted("f4", offset=1e4),
    "offset 1e8, float64": casted("f8", offset=1e8),
    "scale 1e-12": casted("f8", 1e-12),
    "scale 1e12": casted("f8", 1e12),
    "scale 1e-12, float32": casted("f4", 1e-12),
    "scale 1e12, float32": casted("f4", 1e12),
    "scale 1e-100": casted("f8", 1e-100),
    "big-endian float32": casted(">f4"),
    "big-endian float64": casted(">f8"),
    "big-endian float16": casted(">f2"),
    "longdouble": casted(np.longdouble),
}

CASES = CASTS | {
    "constant column": constant_column,
    "duplicated columns in one view": duplicated_in_one,
    "duplicated columns in both views": duplicated_in_both,
    "unequal widths": unequal_widths,
    "Fortran order": laid_out(np.asfortranarray),
    "strided rows": laid_out(strided),
    "reversed rows and columns": laid_out(lambda view: view[::-1, ::-1]),
    "condition 1e8 rotated, float64": conditioned_as("rotated", "f8"),
    "condition 1e8 rotated, float32": conditioned_as("rotated", "f4"),
    "condition 1e8 scaled, float64": conditioned_as("scaled", "f8"),
    "condition 1e8 scaled, float32": conditioned_as("scaled", "f4"),
    "integers": integers,
    "booleans": booleans,
    "identical views": identical,
}


@pytest.mark.parametrize("block_rows", [None, 97])
@pytest.mark.parametrize("case", CASES)
def test_hostile_numbers_give_the_right_mean_correlation(rng, case, block_rows):
    X, Y = CASES[case](rng)
    expected, ranks = reference(X, Y)
    result = cca(accumulate([X, Y], block_rows=block_rows))
    assert result.ranks == ranks
    assert np.all((result.correlations >= 0) & (result.correlations <= 1))
    close(result.mean, expected.mean(), 1e-3)
    close(result.correlations, expected, 1e-3)


@pytest.mark.parametrize("case", CASTS)
def test_types_offsets_and_scales_leave_the_correlations_of_the_exact_numbers(seed, case):
    expected, _ = reference(*related(np.random.default_rng(seed)))
    result = cca(accumulate(CASTS[case](np.random.default_rng(seed))))
    assert result.ranks == (D, D)
    close(result.mean, expected.mean(), 1e-3)


def test_identical_views_correlate_at_one_in_every_type(rng):
    X, _ = related(rng)
    for kind in ("f2", "f4", "f8", "i1"):
        view = np.round(20 * X).astype(kind)
        close(cca(accumulate([view, view])).correlations, np.ones(D), 1e-9)


@pytest.mark.parametrize("how", ["rotated", "scaled"])
@pytest.mark.parametrize("condition", [1e1, 1e2, 1e3, 1e4, 1e5, 1e6])
@pytest.mark.parametrize("d", [8, 20, 64])
def test_correlations_are_exact_up_to_condition_1e6(rng, d, condition, how):
    X, Y = conditioned(rng, d, condition, how)
    Q, P = (np.linalg.qr(view - view.mean(axis=0))[0] for view in (X, Y))
    expected = np.linalg.svd(Q.T @ P, compute_uv=False)
    result = cca(accumulate([X, Y]))
    assert result.ranks == (d, d)
    close(result.correlations, expected, 1e-8)


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("condition", [1e7, 1e8, 1e10, 1e12, 1e14])
@pytest.mark.parametrize("d", [8, 20, 64])
def test_beyond_that_the_rank_is_told_and_nothing_is_garbage(rng, d, condition, kind):
    X, Y = (view.astype(kind) for view in conditioned(rng, d, condition, "rotated"))
    expected, ranks = reference(X, Y)
    result = cca(accumulate([X, Y]))
    assert result.ranks == ranks
    assert len(result.correlations) == result.rank == min(ranks)
    assert np.all((result.correlations >= 0) & (result.correlations <= 1))
    assert np.all(np.diff(result.correlations) <= 0)
    close(result.mean, expected.mean(), 1e-3)


def test_the_rank_of_an_ill_conditioned_view_follows_its_type(rng):
    X, Y = conditioned(rng, 20, 1e8, "rotated")
    ranks = {kind: cca(accumulate([X.astype(kind), Y])).ranks[0] for kind in ("f2", "f4", "f8")}
    assert ranks["f8"] == 20
    assert ranks["f2"] < ranks["f4"] < 20


# Few rows.


@pytest.mark.parametrize(("n", "d"), [(5, 5), (10, 30), (20, 20), (21, 20), (2, 1)])
def test_with_no_more_rows_than_columns_there_is_no_mean(rng, n, d):
    result = cca(accumulate([rng.normal(size=(n, d)), rng.normal(size=(n, 1))], folds=1))
    assert result.saturated
    assert result.mean is None
    assert result.mean_square is None
    assert result.value is None


def test_one_row_more_has_a_mean(rng):
    result = cca(accumulate([rng.normal(size=(22, 20)), rng.normal(size=(22, 1))]))
    assert not result.saturated
    assert 0 < result.mean < 1


def test_a_constant_view_has_no_correlations(rng):
    result = cca(accumulate([np.full((50, 3), 0.1), rng.normal(size=(50, 2))]))
    assert result.ranks == (0, 2)
    assert result.correlations.shape == (0,)
    assert result.mean is None


@pytest.mark.parametrize(
    ("p", "q", "n", "ones"), [(60, 60, 101, 20), (70, 50, 101, 20), (300, 300, 500, 101)]
)
def test_more_columns_than_rows_force_correlations_of_one(rng, p, q, n, ones):
    """Fixture F24: p + q > N = n − 1 independent columns share p + q − N directions exactly."""
    result = cca(accumulate([rng.normal(size=(n, p)), rng.normal(size=(n, q))]))
    assert ones == p + q - (n - 1)
    assert np.count_nonzero(result.correlations > 1 - 1e-9) == ones


def layer_norm(rng, kind, centre=True):
    raw = rng.normal(size=(3000, 8)) * np.linspace(0.5, 3, 8)
    if centre:
        raw = raw - raw.mean(axis=1, keepdims=True)
    gain, shift = rng.uniform(0.5, 2, size=8), rng.normal(size=8)
    if not centre:
        shift = 0.0
    return (raw / np.sqrt((raw**2).mean(axis=1, keepdims=True)) * gain + shift).astype(kind)


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_layer_norm_costs_one_direction_and_rms_norm_none(rng, kind):
    """Fixture F9: LayerNorm of width 8 has rank 7 once centred; RMSNorm has rank 8."""
    X = layer_norm(rng, kind)
    Y = X @ rng.normal(size=(8, 8)).astype(kind)
    moments = accumulate([X, Y, layer_norm(rng, kind, centre=False)])
    assert [moments.whiten(view).rank for view in range(3)] == [7, 7, 8]
    result = cca(moments)
    assert len(result.correlations) == 7
    close(result.mean, 1.0, 1e-6)
    white = moments.whiten(0)
    assert white.dropped < (1e-6 if kind == "f4" else 1e-13)
    assert np.linalg.matrix_rank(X.astype(np.float64), tol=1e-3) == 8


# Scales at which squares of squares leave the range of float64.


def exotic(rng, scale):
    return [view[:200] * scale for view in related(rng)]


def audit_or_refuse(views):
    """The verdict's group and error, or None where the views are refused with a reason."""
    try:
        verdict = audit(views).verdict
    except InputError:
        return None
    return verdict.group, verdict.error


@pytest.mark.parametrize("scale", [1e30, 1e-30])
def test_the_range_of_float32_changes_nothing(rng, seed, scale):
    plain = accumulate(exotic(np.random.default_rng(seed), 1.0))
    moments = accumulate([view.astype("f4") for view in exotic(rng, scale)])
    for debiased in (False, True):
        expected = cka(plain, 0, 1, debiased=debiased).value
        close(cka(moments, 0, 1, debiased=debiased).value, expected, 1e-6)


@pytest.mark.parametrize("scale", [1e60, 1e100, 1e-60, 1e-100])
def test_an_extreme_scale_is_refused_or_changes_nothing(seed, scale):
    plain = audit_or_refuse(exotic(np.random.default_rng(seed), 1.0))
    scaled = audit_or_refuse(exotic(np.random.default_rng(seed), scale))
    assert plain is not None
    if scaled is not None:
        assert scaled[0] == plain[0]
        close(scaled[1], plain[1], 1e-9)


@pytest.mark.parametrize("scale", [1e60, 1e-60])
def test_cka_does_not_depend_on_units(seed, scale):
    plain, scaled = (
        accumulate(exotic(np.random.default_rng(seed), factor)) for factor in (1.0, scale)
    )
    close(cka(scaled).value, cka(plain).value, 1e-9)
