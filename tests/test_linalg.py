"""The rank rule, the whitening and the second coordinates, each against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import close, parse_seeds
from identikit._linalg import (
    eigh,
    inverse_or_zero,
    polar,
    random_rotation,
    rank_tolerance,
    singular_values,
    spacings,
    standard_deviations,
    svd,
    thin_svd,
    thin_svds,
    well_conditioned_root,
    whitening,
)
from identikit.auditing import audit
from identikit.moments import accumulate
from identikit.similarity import cca


def rotated(rng, rows, width, condition):
    """Centred rows whose standard deviations along rotated axes span the condition number."""
    turn = np.linalg.qr(rng.normal(size=(width, width)))[0]
    X = rng.normal(size=(rows, width)) * np.logspace(0, -np.log10(condition), width) @ turn
    return X - X.mean(axis=0)


def spread(X):
    """Scatter and root of its diagonal, of centred rows."""
    return X.T @ X, np.linalg.norm(X, axis=0)


def in_second_coordinates(X):
    """What a second pass would find: the scatter of X F, R, F and the scale."""
    F, R = well_conditioned_root(*spread(X))
    return (X @ F).T @ (X @ F), R, F, spread(X)[1]


# The helpers of the suite itself.


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (1 + 1e-6, 1.0),
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.1]),
        (np.nan, 1.0),
        (1.0, np.nan),
        (np.inf, 1.0),
        ([1.0, 1.0], 1.0),
        (np.ones((3, 1)), np.ones((1, 3))),
    ],
    ids=["off", "one entry off", "nan", "nan expected", "inf", "broadcast", "transposed"],
)
def test_close_raises_on_a_planted_fault(actual, expected):
    with pytest.raises(AssertionError):
        close(actual, expected, 1e-7)


def test_close_accepts_what_is_within_the_tolerance():
    close([1.0, 2.0 + 1e-9], [1.0, 2.0], 1e-8)
    close(1000.01, 1000.0, 1e-4, scale=1000.0)


def test_seeds_are_read_as_a_range_or_a_list():
    assert parse_seeds("0-3") == [0, 1, 2, 3]
    assert parse_seeds("4,1") == [4, 1]
    assert parse_seeds("0") == [0]


# The rank rule.


@pytest.mark.parametrize("eps", [2.0**-10, 2.0**-23, 2.0**-52])
@pytest.mark.parametrize(("rows", "width"), [(10, 3), (3, 10), (10**4, 64), (10**9, 64)])
def test_rank_tolerance_is_the_usual_rule_up_to_the_root_of_eps(rows, width, eps):
    assert rank_tolerance(rows, width, eps) == min(max(rows, width) * eps, np.sqrt(eps))


def test_rank_tolerance_never_reaches_one_in_float16():
    assert rank_tolerance(10**12, 10**4, 2.0**-10) < 0.04


def test_a_column_whose_spread_is_rounding_of_its_mean_is_constant():
    n, eps = 1000, 2.0**-23
    X = np.full((n, 2), 1000.0, dtype=np.float32)
    X[::2, 0] = np.nextafter(np.float32(1000), np.float32(2000))
    X[::2, 1] = 1001
    wide = X.astype(np.float64)
    deviations = standard_deviations(n * wide.var(axis=0), wide.mean(axis=0), n, eps)
    assert deviations[0] == 0.0
    close(deviations[1], np.sqrt(n * 0.25), 1e-10)


def test_spacings_are_those_of_the_stored_type():
    mean = np.array([0.0, 1.0, 1000.0, -1000.0, 1023.0, 1024.0, 3e-3])
    for kind in (np.float16, np.float32):
        expected = np.abs(np.spacing(mean.astype(kind))).astype(np.float64)
        expected[0] = 0.0
        close(spacings(mean, float(np.finfo(kind).eps)), expected, 0)


@pytest.mark.parametrize(
    ("kind", "offset", "spread"), [(np.float16, 1000, 2.2), (np.float32, 1e6, 0.5)]
)
def test_a_spread_of_a_few_spacings_is_no_constant(rng, kind, offset, spread):
    X = (offset + spread * rng.normal(size=(500, 3))).astype(kind)
    moments = accumulate([X])
    assert moments.varies(0)
    assert moments.whiten(0).rank == 3


def low_rank(rng, rows, rank, width=12):
    """Rows of some rank whose directions are all strong, and columns of unit spread."""
    turn = np.linalg.qr(rng.normal(size=(width, width)))[0][:rank]
    X = rng.normal(size=(rows, rank)) @ turn
    return (X - X.mean(axis=0)) / X.std(axis=0)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("rows", [40, 100, 5000])
@pytest.mark.parametrize("rank", [1, 3, 6, 11, 12])
@pytest.mark.parametrize("offset", [0.0, 1.0, 30.0, 1e3, 1e4])
def test_the_rank_is_that_of_the_data_wherever_they_lie(rng, kind, rows, rank, offset):
    """Offset × type × rank × n, with the spread 16 spacings wide where the offset is coarse."""
    X = low_rank(rng, rows, rank)
    exact = np.linalg.svd(X / np.sqrt(rows), compute_uv=False)
    assert np.linalg.matrix_rank(X) == rank
    coarse = float(spacings(np.array([offset]), float(np.finfo(kind).eps))[0])
    X = offset + max(1.0, 16 * coarse) * X
    white = accumulate([X.astype(kind)]).whiten(0)
    share = coarse / max(1.0, 16 * coarse) * (1 + np.sqrt(12 / rows))
    clear = exact[rank - 1] > 1.5 * share + 0.04
    assert clear or rank > 6  # strong directions are always above what rounding may look like
    if clear:
        assert white.rank == rank
    else:
        assert white.rank <= rank


def test_a_finely_stored_direction_counts_beside_coarse_columns(rng):
    """Rounding is judged direction by direction: the coarse column does not hide a fine one."""
    fine = rng.normal(size=(2000, 2))
    fine[:, 1] = fine[:, 0] + 0.02 * fine[:, 1]
    coarse = 1e5 + 0.1 * rng.normal(size=(2000, 2))
    white = accumulate([np.hstack([fine, coarse]).astype(np.float32)]).whiten(0)
    assert white.rank == 4
    coarse[:, 1] = coarse[:, 0]
    coarse[:, 1] += 0.001 * rng.normal(size=2000)  # an eighth of a spacing
    white = accumulate([np.hstack([fine, coarse]).astype(np.float32)]).whiten(0)
    assert white.rank == 3


def test_a_low_rank_far_from_zero_is_reported(rng):
    """Rank 6 of 12 columns, offset 1e4, n = 100: as many directions, and a warning."""
    X = (low_rank(rng, 100, 6) + 1e4).astype(np.float32)
    found = audit([X, X @ np.diag(np.arange(1, 13))]).comparisons[0]
    rank = next(check for check in found.checks if check.name == "rank")
    assert not rank.ok
    assert "rank 6 of 12" in rank.message


def test_inverse_or_zero():
    close(inverse_or_zero(np.array([2.0, 0.0, 0.25])), [0.5, 0.0, 4.0], 0)


def test_eigh_sorts_and_never_goes_negative(rng):
    half = rng.normal(size=(6, 3))
    values, vectors = eigh(half @ half.T)
    assert np.all(np.diff(values) <= 0)
    assert np.all(values >= 0)
    close((vectors * values) @ vectors.T, half @ half.T, 1e-12)
    close(vectors.T @ vectors, np.eye(6), 1e-12)


@pytest.mark.parametrize("size", [3, 80])
def test_decompositions_are_those_of_numpy_at_any_number_of_threads(rng, size):
    matrix = rng.normal(size=(size + 2, size))
    left, values, right = svd(matrix)
    close((left * values) @ right, matrix, 1e-11)
    close(singular_values(matrix), values, 1e-11)
    assert np.all(np.diff(values) <= 0)


# Whitening.


@pytest.mark.parametrize("condition", [1, 1e2, 1e3])
def test_whitening_makes_columns_orthonormal(rng, condition):
    X = rotated(rng, 300, 7, condition) * np.logspace(-9, 9, 7)
    scatter, scale = spread(X)
    white = whitening(scatter, None, scale, 1e-9)
    assert white.rank == 7
    assert white.dropped == 0.0
    U = X @ white.map
    close(U.T @ U, np.eye(7), 1e-9)
    assert white.settled


def test_whitening_says_how_small_its_smallest_direction_is(rng):
    X = rotated(rng, 300, 7, 3e3)
    scatter, scale = spread(X)
    white = whitening(scatter, None, scale, 1e-9)
    smallest = np.linalg.svd(X / scale, compute_uv=False)[-1]
    close(white.smallest / smallest, 1.0, 1e-6)


@pytest.mark.parametrize("condition", [1, 1e4, 1e7, 1e10])
def test_whitening_in_second_coordinates_keeps_small_directions(rng, condition):
    X = rotated(rng, 300, 7, condition)
    scatter, R, F, scale = in_second_coordinates(X)
    white = whitening(scatter, R, scale, 1e-13)
    assert white.rank == 7
    U = X @ F @ white.map
    # Below the floor of the first scatter X F is itself conditioned, up to 3e3 here.
    close(U.T @ U, np.eye(7), 1e-8)
    smallest = np.linalg.svd(X / scale, compute_uv=False)[-1]
    close(white.smallest / smallest, 1.0, 1e-12 * condition + 1e-9)


#: An orthogonal matrix whose rows spread evenly: what it turns has columns of equal norm, so that
#: standardising leaves the shares of the singular values as they are.
EVEN = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2


def test_whitening_counts_directions_above_the_tolerance_and_reports_the_next(rng):
    U = np.linalg.qr(rng.normal(size=(200, 4)))[0]
    X = U * [1.0, 1e-1, 1e-2, 1e-3] @ EVEN
    scatter, scale = spread(X)
    largest = np.linalg.svd(X / scale, compute_uv=False)[0]
    for tolerance, rank, dropped in [(1e-4, 4, 0), (5e-3, 3, 1e-3), (0.015, 2, 1e-2)]:
        white = whitening(scatter, None, scale, tolerance)
        assert white.rank == rank
        close(white.dropped / largest, dropped, 1e-6)
        close(white.tolerance / largest, tolerance, 1e-9)


def test_a_direction_with_a_fair_share_of_a_column_is_never_dropped(rng):
    """However large the largest singular value: 100 columns that share one strong direction."""
    X = rng.normal(size=(2000, 1)) + 0.1 * rng.normal(size=(2000, 100))
    white = whitening(*_plain(X), tolerance=2.0**-5)
    assert np.linalg.svd(X / np.linalg.norm(X, axis=0), compute_uv=False)[0] > 9
    assert white.tolerance == 2.0**-5
    assert white.rank == 100


def _plain(X):
    scatter, scale = spread(X - X.mean(axis=0))
    return scatter, None, scale


def test_the_rank_does_not_depend_on_units(rng):
    X = rotated(rng, 300, 5, 10.0)
    X[:, 4] = X[:, 0]
    ranks = set()
    for units in (np.ones(5), np.logspace(-10, 10, 5), np.logspace(12, -12, 5)):
        scatter, scale = spread(X * units)
        ranks.add(whitening(scatter, None, scale, 1e-6).rank)
    assert ranks == {4}


@pytest.mark.parametrize("root", [None, np.eye(3)])
def test_a_constant_view_has_rank_zero(root):
    white = whitening(np.zeros((3, 3)), root, np.zeros(3), 1e-9)
    assert white.rank == 0
    assert white.map.shape == (3, 0)
    assert white.dropped == 0.0


# The second coordinates.


@pytest.mark.parametrize("condition", [1, 1e4, 1e6])
def test_second_coordinates_are_nearly_orthonormal_and_invert(rng, condition):
    X = rotated(rng, 300, 6, condition)
    F, R = well_conditioned_root(*spread(X))
    close(F @ R, np.eye(6), 1e-9)
    close(X @ F @ R, X, 1e-9)
    assert np.linalg.cond(X @ F) < 2


def test_second_coordinates_take_constant_and_duplicated_columns(rng):
    X = rotated(rng, 300, 4, 10.0)
    X[:, 1], X[:, 3] = 0.0, X[:, 2]
    F, R = well_conditioned_root(*spread(X))
    assert np.isfinite(F).all()
    assert np.isfinite(R).all()
    close(X @ F @ R, X, 1e-8)


def test_a_second_pass_is_asked_for_only_where_digits_are_missing(rng):
    easy, hard = spread(rotated(rng, 500, 5, 1e2)), spread(rotated(rng, 500, 5, 1e6))
    assert whitening(easy[0], None, easy[1], 1e-13).settled
    assert not whitening(hard[0], None, hard[1], 1e-13).settled
    # Directions that do not count need no digits, and neither do constant columns.
    assert whitening(hard[0], None, hard[1], 1e-2).settled
    assert whitening(np.zeros((3, 3)), None, np.zeros(3), 1e-13).settled
    X = rotated(rng, 500, 5, 1e2)
    X[:, 2] = 0.0
    white = whitening(spread(X)[0], None, spread(X)[1], 1e-13)
    assert (white.settled, white.rank) == (True, 4)


@pytest.mark.parametrize("condition", [1.0, 30.0, 1e3, 1e6])
def test_cholesky_and_eigenvectors_whiten_alike(rng, condition):
    """Both span the same space: the canonical correlations with anything are the same."""
    X, Y = rotated(rng, 400, 6, condition), rng.normal(size=(400, 3))
    X[:, 0] += Y[:, 0]
    X, Y = X - X.mean(axis=0), np.linalg.qr(Y - Y.mean(axis=0))[0]
    scatter, scale = spread(X)
    quick = X @ whitening(scatter, None, scale, 1e-13).map
    Q = np.linalg.qr(X)[0]
    for basis in (quick, Q):
        close(
            np.linalg.norm(basis.T @ Y), np.linalg.norm(Q.T @ Y), 1e-4 if condition > 1e4 else 1e-9
        )


# F18: directions of rounding noise pull the mean correlation down if they are whitened.


def near_copies(rng):
    signal = rng.normal(size=(3000, 20))
    return [
        np.hstack([signal, signal[:, :12] + 1e-7 * rng.normal(size=(3000, 12))]).astype(np.float32)
        for _ in range(2)
    ]


def test_copies_with_rounding_noise_do_not_pull_the_mean(rng):
    """Fixture F18: 20 dimensions and 12 copies, float32, 1e-7 noise, n = 3000: 1.000."""
    result = cca(accumulate(near_copies(rng)))
    assert result.ranks == (20, 20)
    close(result.mean, 1.0, 1e-3)


def test_whitened_rounding_noise_would_pull_the_mean():
    """Fixture F18 at a relative tolerance of 1e-9: .66 ± .01 (a range, so the seed is fixed)."""
    rng = np.random.default_rng(0)
    bases = []
    for view in near_copies(rng):
        X = view.astype(np.float64)
        X -= X.mean(axis=0)
        scatter, R, F, scale = in_second_coordinates(X)
        white = whitening(scatter, R, scale, 1e-9)
        assert white.rank == 32
        bases.append(X @ F @ white.map)
    r = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)
    close(r.mean(), 0.66, 0.01)
    # The same numbers said to be float64: their noise counts then.
    wide = [view.astype(np.float64) for view in near_copies(rng)]
    close(cca(accumulate(wide)).mean, 0.66, 0.01)


@pytest.mark.parametrize("shape", [(9, 9), (12, 5), (5, 12), (1, 4)])
@pytest.mark.parametrize("spread", [0.0, 3.0, 9.0])
def test_thin_decompositions_are_those_of_lapack(
    shape: tuple[int, int], spread: float, seed: int
) -> None:
    """From well conditioned to so badly that the Gram matrix loses all digits of some values."""
    rng = np.random.default_rng(seed)
    U, _, V = np.linalg.svd(rng.normal(size=(3, *shape)), full_matrices=False)
    stack = U * np.logspace(0, -spread, min(shape)) @ V
    for each, left, values, right in zip(stack, *thin_svds(stack)):
        for found in ((left, values, right), thin_svd(each)):
            close(found[1], np.linalg.svd(each, compute_uv=False), 1e-11, 1.0)
            close(found[0] * found[1] @ found[2], each, 1e-11, 1.0)
    close(singular_values(stack), np.linalg.svd(stack, compute_uv=False), 1e-11, 1.0)


def test_thin_decomposition_of_nothing_varies() -> None:
    left, values, right = thin_svd(np.zeros((3, 3)))
    assert not values.any()
    close(left @ right @ right.T @ left.T, np.eye(3), 1e-12, 1.0)


@pytest.mark.parametrize("shape", [(30, 30), (30, 12), (12, 30)])
@pytest.mark.parametrize("spread", [0.0, 4.0, 12.0])
def test_polar_is_a_rotation_and_the_nearest(
    shape: tuple[int, int], spread: float, seed: int
) -> None:
    """Orthonormal to rounding, and the rest of the matrix is symmetric and positive."""
    rng = np.random.default_rng(seed)
    U, _, V = np.linalg.svd(rng.normal(size=shape), full_matrices=False)
    matrix = 1e200 * U * np.logspace(0, -spread, min(shape)) @ V
    factor = polar(matrix)
    small = factor if shape[0] >= shape[1] else factor.T
    close(small.T @ small, np.eye(min(shape)), 1e-13, 1.0)
    rest = small.T @ (matrix if shape[0] >= shape[1] else matrix.T) / 1e200
    close(rest, rest.T, 1e-12, 1.0)
    assert np.linalg.eigvalsh(rest)[0] > -1e-12


def test_a_random_rotation_is_one_and_has_no_preferred_sign(seed: int) -> None:
    rotations = np.array(
        [random_rotation(3, np.random.default_rng(seed + 1000 * place)) for place in range(400)]
    )
    close(rotations @ rotations.transpose(0, 2, 1), np.broadcast_to(np.eye(3), (400, 3, 3)), 1e-12)
    # An entry has mean 0 and variance 1/d.
    close(rotations.mean(axis=0), np.zeros((3, 3)), 5 / (3 * 400) ** 0.5)
