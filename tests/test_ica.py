"""ICA: optimality, the canonical basis, which axes are identified, maps, and bad input."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import identikit as ik
from conftest import close
from identikit.alignment import ladder
from identikit.axes import ICA, ica_rung, view_axes
from identikit.axes._ica_core import (
    Rotation,
    first_copies,
    independent_components,
    judge,
    refit,
    solve,
)
from identikit.errors import InputError, MissingExtraError
from identikit.moments import assign_folds

Array = NDArray[np.float64]


def log_cosh(x: Array) -> Array:
    return np.logaddexp(x, -x) - np.log(2)


#: E[log cosh ν] of a standard normal ν.
NORMAL = quad(lambda x: 2 * log_cosh(x) * np.exp(-x * x / 2) / (2 * np.pi) ** 0.5, 0, 12)[0]


def sources(rng: np.random.Generator, kinds: str, n: int = 4000) -> Array:
    """Unit-variance columns: l Laplace, u uniform, e exponential, g Gaussian."""
    draw = {
        "l": lambda: rng.laplace(size=n),
        "u": lambda: rng.uniform(-1, 1, size=n),
        "e": lambda: rng.exponential(size=n),
        "g": lambda: rng.normal(size=n),
    }
    S = np.column_stack([draw[kind]() for kind in kinds])
    return (S - S.mean(axis=0)) / S.std(axis=0)


def mixed(rng: np.random.Generator, S: Array) -> Array:
    return S @ rng.normal(size=(S.shape[1], S.shape[1])) + rng.normal(size=S.shape[1])


def gradient(s: Array) -> float:
    """The largest entry of the contrast's gradient, by its formula."""
    psi = np.tanh(s)
    inner = psi.T @ s / len(s)
    signs = np.where((1 - psi**2).mean(axis=0) < np.diagonal(inner), -1.0, 1.0)
    inner = signs[:, None] * inner
    return float(np.abs(inner - inner.T).max() / 2)


def correlations(s: Array, S: Array) -> Array:
    return np.abs(np.corrcoef(s.T, S.T)[: s.shape[1], s.shape[1] :])


# What ICA is


def test_it_recovers_independent_sources_up_to_order_and_sign(rng):
    S = sources(rng, "lluue")
    X = mixed(rng, S)
    s = ICA().fit_transform(X)
    found = correlations(s, S)
    assert sorted(found.argmax(axis=1)) == list(range(5))
    assert found.max(axis=1).min() > 0.995
    close(s.mean(axis=0), np.zeros(5), 1e-10)
    close(s.T @ s / len(s), np.eye(5), 1e-10)


@pytest.mark.parametrize("kinds", ["lluue", "llggguu", "gggg"])
def test_it_is_a_stationary_point_of_its_contrast_with_gaussian_sources_too(rng, kinds):
    X = mixed(rng, sources(rng, kinds, 6000))
    ica = ICA().fit(X)
    assert ica.converged_
    assert gradient(ica.transform(X)) < 1e-6
    # The gradient is reported as it is, and is not small by construction.
    assert ica.gradient_ == pytest.approx(gradient(ica.transform(X)), abs=1e-7)
    assert gradient(X @ np.linalg.inv(np.linalg.cholesky(np.cov(X.T)).T)) > 1e-3


def test_a_smaller_tolerance_is_met_in_double_precision(rng):
    X = mixed(rng, sources(rng, "llggu"))
    assert gradient(ICA(tol=1e-10).fit_transform(X)) < 1e-10


def test_the_fixed_point_alone_stops_far_from_the_optimum_if_sources_are_gaussian(rng):
    """Why there is a second solver: scikit-learn's FastICA on the same rows."""
    from sklearn.decomposition import FastICA

    X = mixed(rng, sources(rng, "lluu" + 12 * "g"))
    with pytest.warns(ConvergenceWarning):
        s = FastICA(whiten_solver="eigh", tol=1e-12, random_state=0).fit_transform(X)
    assert gradient(s) > 1e-5
    assert gradient(ICA().fit_transform(X)) < 1e-6


@pytest.mark.extra("ica")
def test_python_picard_finds_the_same_axes(rng):
    pytest.importorskip("picard")
    X = mixed(rng, sources(rng, "lluue"))
    own, other = ICA().fit_transform(X), ICA(solver="picard").fit_transform(X)
    close(own, other, 1e-3)
    assert gradient(other) < 1e-6


@pytest.mark.extra("ica")
def test_a_solver_that_is_not_installed_is_named(rng, monkeypatch):
    monkeypatch.setitem(sys.modules, "picard", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'identikit\[ica\]'"):
        ICA(solver="picard").fit(mixed(rng, sources(rng, "lu")))


def test_it_says_when_it_has_not_converged(rng):
    X = mixed(rng, sources(rng, "llggguu"))
    with pytest.warns(ConvergenceWarning, match=r"have not converged: after \d+ passes"):
        ica = ICA(max_iter=2).fit(X)
    assert not ica.converged_
    assert ica.gradient_ > ica.tol


# The canonical basis


def test_an_affinely_mixed_copy_has_the_same_components(rng):
    X = mixed(rng, sources(rng, "lluuee"))
    s = ICA().fit_transform(X)
    close(ICA().fit_transform(mixed(rng, X)), s, 1e-3)
    order = rng.permutation(6)
    close(ICA().fit_transform(X[:, order] * rng.choice([-1.0, 1.0], 6)), s, 1e-3)
    # And outside of the class of invariance it does not.
    assert np.abs(ICA().fit_transform(np.tanh(X)) - s).max() > 0.1


def test_components_follow_the_rows(rng):
    X = mixed(rng, sources(rng, "luel"))
    order = rng.permutation(len(X))
    close(ICA().fit_transform(X[order]), ICA().fit_transform(X)[order], 1e-3)


def test_seeds_lead_to_the_same_axes(rng):
    X = mixed(rng, sources(rng, "luele"))
    first = ICA(seed=1).fit(X)
    assert np.array_equal(first.components_, ICA(seed=1).fit(X).components_)
    close(ICA(seed=2).fit_transform(X), first.transform(X), 1e-3)


def test_axes_fall_in_non_gaussianity_and_have_positive_skewness(rng):
    X = mixed(rng, sources(rng, "luegl"))
    ica = ICA().fit(X)
    s = ica.transform(X)
    contrast = np.abs(log_cosh(s).mean(axis=0) - NORMAL)
    assert (np.diff(contrast) <= 0).all()
    skewness = (s**3).mean(axis=0)
    assert (skewness > 0).all()
    close(ica.skewness_, skewness, 1e-5)


def test_without_skewness_the_most_extreme_row_has_the_sign(rng):
    """Every row beside its negative: all odd moments vanish."""
    half = sources(rng, "lul", 1000)
    X = np.concatenate([half, -half])
    plain = ICA().fit(X)
    assert np.abs(plain.skewness_).max() < 1e-5
    close(ICA().fit_transform(X * [-1.0, 1.0, -1.0]), plain.transform(X), 1e-3)


# Convergence is not identifiability


def test_independent_axes_are_identified_and_one_gaussian_is_no_harm(rng):
    X = mixed(rng, sources(rng, "lluug", 8000))
    ica = ICA().fit(X)
    assert ica.axes_.identified.all()
    assert set(ica.axes_.why_not) == {""}
    assert ica.axes_.halves.min() > 0.97
    assert ica.axes_.restarts.min() > 0.99
    # The Gaussian one comes last, and is known to be Gaussian.
    z = ica.axes_.non_gaussianity / ica.axes_.non_gaussianity_error
    assert np.abs(z[:-1]).min() > 5 > np.abs(z[-1])


@pytest.mark.parametrize("gaussian", [2, 3])
def test_several_gaussian_axes_converge_and_are_not_identified(rng, gaussian):
    S = sources(rng, "lluu" + "g" * gaussian, 8000)
    X = mixed(rng, S)
    ica = ICA().fit(X)
    assert ica.converged_
    among = correlations(ica.transform(X), S).argmax(axis=1) >= 4
    assert list(ica.axes_.identified) == list(~among)
    named = {why for why, flat in zip(ica.axes_.why_not, among) if flat}
    assert named <= {"gaussian", "tied"}
    assert "gaussian" in named
    assert among[ica.axes_.tied_with[among]].all()


def round_pair(rng: np.random.Generator, n: int) -> Array:
    """Uniform in a disk: no axis is Gaussian, and none is better than another."""
    angle, radius = rng.uniform(0, 2 * np.pi, n), np.sqrt(rng.uniform(size=n))
    return 2 * radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


def test_axes_that_are_tied_are_named_with_their_partners(rng):
    S = np.column_stack([sources(rng, "lle", 8000), round_pair(rng, 8000)])
    X = mixed(rng, S)
    ica = ICA().fit(X)
    assert ica.converged_
    found = correlations(ica.transform(X), S)
    tied = found[:, 3:].sum(axis=1) > 0.9
    assert tied.sum() == 2
    assert list(ica.axes_.identified) == list(~tied)
    a, b = np.flatnonzero(tied)
    assert (ica.axes_.why_not[a], ica.axes_.why_not[b]) == ("tied", "tied")
    assert (ica.axes_.tied_with[a], ica.axes_.tied_with[b]) == (b, a)
    # These axes are far from Gaussian: that alone would have told nothing.
    z = ica.axes_.non_gaussianity / ica.axes_.non_gaussianity_error
    assert np.abs(z[[a, b]]).min() > 5


def test_flat_axes_are_hardly_ever_called_identified():
    """Ninety flat axes: the test's size is small."""
    wrong = total = 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        S = np.column_stack([sources(rng, "lgg", 2000), round_pair(rng, 2000)])
        X = mixed(rng, S)
        ica = ICA(seed=seed).fit(X)
        flat = correlations(ica.transform(X), S).argmax(axis=1) > 0
        wrong, total = wrong + ica.axes_.identified[flat].sum(), total + flat.sum()
    assert total >= 55
    assert wrong <= 2


# Copies of rows


def called_identified(distinct: int, copies: int, width: int, seeds: int) -> float:
    """Share of the axes of Gaussian rows, each there several times and shuffled."""
    called = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        X = np.repeat(rng.normal(size=(distinct, width)), copies, axis=0)
        called += list(ICA(seed=seed).fit(rng.permutation(X)).axes_.identified)
    return float(np.mean(called))


@pytest.mark.parametrize("width", [2, 4])
def test_copies_of_rows_do_not_identify_gaussian_axes(width):
    """Two thousand rows, of which forty are distinct. With copies in both halves: 0.75 and 0.40."""
    assert called_identified(40, 50, width, 12) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("distinct", "copies"), [(40, 1), (40, 50), (80, 25), (200, 10)])
@pytest.mark.parametrize("width", [2, 4, 8])
def test_the_size_of_the_test_with_few_distinct_rows(distinct, copies, width):
    """Nominally 5 % at most; two standard errors of 100 draws above that."""
    assert called_identified(distinct, copies, width, 100) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 100)


def test_copies_of_rows_that_tell_enough_change_nothing_of_note(rng):
    X = mixed(rng, sources(rng, "lluu", 3000))
    once, thrice = ICA().fit(X), ICA().fit(rng.permutation(np.repeat(X, 3, axis=0)))
    close(thrice.transform(X), once.transform(X), 1e-3)
    assert thrice.axes_.identified.all()
    # Rows that say the same three times have not become more certain.
    ratio = thrice.axes_.non_gaussianity_error / once.axes_.non_gaussianity_error
    assert ratio.min() > 0.6
    assert ratio.max() < 1.7


def test_copies_are_found_by_their_bytes(rng):
    rows = rng.integers(0, 3, size=(500, 4)).astype(float)
    _, numbers, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    assert np.array_equal(first_copies(rows), numbers[inverse.ravel()])
    wide = rng.normal(size=(60, 300))
    wide[50:] = wide[:10]
    wide[59, 7] += 1e-12  # in a column that is not looked at first
    expected = np.concatenate([np.arange(50), np.arange(9), [59]])
    assert np.array_equal(first_copies(wide), expected)
    assert np.array_equal(first_copies(np.asfortranarray(wide)), expected)
    assert list(first_copies(np.array([[0.0], [-0.0], [1.0]]))) == [0, 0, 2]


def test_one_row_that_makes_up_most_of_the_rows_is_no_trouble(rng):
    X = np.concatenate([np.zeros((900, 2)), sources(rng, "lu", 100)])
    ica = ICA().fit(rng.permutation(X))
    assert np.isfinite(ica.components_).all()
    # And some rows of a view that are all the same.
    moments = ik.accumulate([X], folds=1)
    assert not independent_components(moments, 0, np.zeros((50, 2))).axes.identified.any()


def test_axes_are_followed_to_almost_the_same_rows(rng):
    """Where the search from random starts ends too, in the order and with the signs that were."""
    X = mixed(rng, sources(rng, "lluue", 2000))
    full = independent_components(ik.accumulate([X], folds=1), 0, X)
    rest = X[200:]
    moments = ik.accumulate([rest], folds=1)
    followed = refit(full, moments, rest)
    anew = ICA(tol=1e-8).fit(rest).transform(rest)
    s = followed.transform(rest)
    close(correlations(s, anew).max(axis=1), np.ones(5), 1e-5)
    close(s.T @ s / len(s), np.eye(5), 1e-9)
    assert (np.einsum("ij,ij->j", s, full.transform(rest)) > 0.99 * len(s)).all()
    assert followed.passes < 12
    assert np.abs(followed.unmixing - full.unmixing).max() > 1e-4
    # Rows that lack a direction: there is nothing to follow.
    flat = rest.copy()
    flat[:, 1] = flat[:, 0]
    assert refit(full, ik.accumulate([flat], folds=1), flat) is full


def test_most_axes_of_a_thousand_rows_are_identified():
    """Ninety sharp axes: the test has power, since errors leave out what whitening fixes."""
    found = []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        found += list(ICA(seed=seed).fit(mixed(rng, sources(rng, "lllluu", 1000))).axes_.identified)
    assert np.mean(found) > 0.9


@pytest.mark.parametrize("place", ["restart", "half"])
def test_axes_that_do_not_agree_with_themselves_are_unstable(rng, place):
    """Sharp axes, two of which one start or one half has turned by 40 degrees."""
    S = sources(rng, "lluu", 8000)
    cosine, sine = np.cos(np.radians(40)), np.sin(np.radians(40))
    turned = np.eye(4)
    turned[:2, :2] = [[cosine, sine], [-sine, cosine]]
    signs = np.array([1.0, 1.0, -1.0, -1.0])

    def rotation(weights: Array) -> Rotation:
        nothing = np.zeros((4, 4))
        return Rotation(weights, signs, nothing, signs, signs, nothing)

    straight, crooked = rotation(np.eye(4)), rotation(turned)
    found = [[straight, crooked if place == "restart" else straight], [straight, straight]]
    if place == "half":
        found[1] = [crooked, crooked]
    axes = judge(np.eye(4), found, (S[:4000], S[4000:]))
    agreement = axes.restarts if place == "restart" else axes.halves
    expected = (1 + cosine) / 2 if place == "restart" else cosine
    close(agreement, [expected, expected, 1.0, 1.0], 1e-12)
    assert list(axes.identified) == [False, False, True, True]
    assert axes.why_not[2:] == ("", "")
    assert set(axes.why_not[:2]) <= {"unstable", "tied"}
    if place == "restart":
        assert axes.why_not[:2] == ("unstable", "unstable")


def test_a_start_at_a_saddle_is_left():
    """At 45 degrees between a Laplace and a uniform source the gradient vanishes."""
    rng = np.random.default_rng(0)
    half = sources(rng, "lu", 2000)
    S = np.concatenate([half, half * [1, -1], -half, half * [-1, 1]])
    S /= np.sqrt((S**2).mean(axis=0))
    angle = np.radians(45.001)
    start = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    stays, leaves = solve(S, start, 1e-4, 100), solve(S, start, 1e-4, 100, min_iter=20)
    assert max(stays.size, leaves.size) < 1e-4
    assert leaves.contrast > 2 * stays.contrast
    assert np.abs(leaves.weights).max(axis=1).min() > 0.99


def test_non_gaussianity_is_that_of_the_source_within_its_standard_error():
    """E[log cosh s] of a Laplace and a uniform variable of unit variance, by quadrature."""
    root = 2**0.5
    laplace = quad(lambda x: log_cosh(x) * root * np.exp(-root * x), 0, 40)[0]
    uniform = quad(lambda x: log_cosh(x) / 3**0.5, 0, 3**0.5)[0]
    z = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        ica = ICA(seed=seed).fit(mixed(rng, sources(rng, "lu", 3000)))
        value, error = ica.axes_.non_gaussianity, ica.axes_.non_gaussianity_error
        heavy = int(value.argmin())
        z += [(value[heavy] - laplace + NORMAL) / error[heavy]]
        z += [(value[1 - heavy] - uniform + NORMAL) / error[1 - heavy]]
    assert np.abs(np.mean(z)) < 0.5
    assert 0.75 < np.std(z) < 1.35


def test_the_table_has_a_row_an_axis(rng):
    ica = ICA().fit(mixed(rng, sources(rng, "lgg")))
    table = ica.table
    assert list(table["identified"]) == list(ica.axes_.identified)
    assert list(table["why_not"]) == list(ica.axes_.why_not)
    assert {"skewness", "sharpness", "halves", "restarts", "tied_with"} <= set(table)


def test_a_single_axis(rng):
    ica = ICA().fit(sources(rng, "e"))
    assert ica.axes_.identified.all()
    assert list(ica.axes_.tied_with) == [-1]


# Rank, rows, and where they come from


def test_components_by_number_share_and_rank(rng):
    X = sources(rng, "lueluel") * [50, 40, 30, 20, 1, 0.5, 0.1]
    X[:, 6] = X[:, 0]  # rank 6
    values = np.linalg.eigvalsh(np.cov(X.T))[::-1]
    share = np.cumsum(values) / values.sum()
    assert len(ICA().fit(X).components_) == 6
    four = ICA(n_components=4).fit(X)
    assert len(four.components_) == 4
    assert four.explained_variance_ratio_ == pytest.approx(share[3])
    assert len(ICA(n_components=float(share[2]) - 1e-6).fit(X).components_) == 3
    assert len(ICA(n_components=np.float32(share[2] - 1e-4)).fit(X).components_) == 3
    assert len(ICA(n_components=float(share[2]) + 1e-6).fit(X).components_) == 4
    # The map back is that of principal components of that rank.
    axes = np.linalg.eigh(np.cov(X.T))[1][:, -4:]
    centred = X - X.mean(axis=0)
    close(
        four.inverse_transform(four.transform(X)) - X.mean(axis=0),
        centred @ axes @ axes.T,
        1e-8,
        scale=100,
    )


def test_all_of_the_rank_is_invertible_also_if_scales_differ_widely(rng):
    S = sources(rng, "lueu")
    X = mixed(rng, S) * [1e-5, 1.0, 1e5, 1e3]
    ica = ICA().fit(X)
    close(ica.inverse_transform(ica.transform(X)) / X.std(axis=0), X / X.std(axis=0), 1e-8)
    assert correlations(ica.transform(X), S).max(axis=1).min() > 0.99


def test_a_sample_finds_the_axes_and_all_rows_whiten(rng):
    S = sources(rng, "lueu", 20_000)
    X = mixed(rng, S)
    ica = ICA(max_rows=4000).fit(X)
    assert (ica.n_rows_, ica.n_samples_seen_) == (4000, 20_000)
    s = ica.transform(X)
    close(s.T @ s / len(s), np.eye(4), 1e-9)
    assert correlations(s, S).max(axis=1).min() > 0.99
    assert ica.converged_


def test_moments_of_several_views_and_their_sample_are_enough(rng):
    S = sources(rng, "lue", 5000)
    X, Y = mixed(rng, S), mixed(rng, S)
    moments = ik.accumulate([X, Y], names=["x", "y"], sample=5000)
    from_moments = ICA().fit_moments(moments, "y")
    close(from_moments.transform(Y), ICA().fit_transform(Y), 1e-3)
    assert from_moments.name_ == "y"
    close(ICA().fit_moments(moments, 1, rows=Y).transform(Y), from_moments.transform(Y), 1e-3)


def test_a_file_is_as_good_as_an_array(rng, tmp_path: Path):
    X = mixed(rng, sources(rng, "lue"))
    np.save(tmp_path / "x.npy", X)
    ica = ICA(max_rows=1000).fit(tmp_path / "x.npy")
    assert np.array_equal(ica.components_, ICA(max_rows=1000).fit(X).components_)
    assert ica.name_ == "x"


def test_a_direction_that_one_half_of_the_rows_lacks_is_no_trouble(rng):
    X = np.column_stack([sources(rng, "lu", 200), np.zeros(200)])
    X[17, 2] = 5.0
    ica = ICA().fit(X)
    assert np.isfinite(ica.components_).all()
    assert np.isfinite(ica.axes_.halves).all()


# Maps


def test_its_map_composes_with_the_maps_of_the_ladder_and_is_saved(rng, tmp_path: Path):
    S = sources(rng, "lue")
    X = mixed(rng, S)
    Y = X @ np.linalg.qr(rng.normal(size=(3, 3)))[0] + 2
    ica = ICA().fit(Y)
    whole = ik.align(X, Y, group="rigid").compose(ica.map_)
    close(whole.transform(X), ica.transform(Y), 1e-9)
    whole.save(tmp_path / "map.safetensors")
    loaded = ik.load_map(tmp_path / "map.safetensors")
    close(loaded.transform(X), ica.transform(Y), 1e-9)
    back = ica.map_.compose(ica.inverse_map_)
    close(back.transform(Y), Y, 1e-9)
    assert (back.source_, back.target_) == ("X", "X")


# The unsupervised rung


def shared(rng: np.random.Generator, noise: float = 0.05, n: int = 4000) -> tuple[Array, Array]:
    S = sources(rng, "lueu", n)
    return mixed(rng, S), mixed(rng, S) + noise * rng.normal(size=S.shape)


def test_the_rung_of_shared_axes_is_as_good_as_the_best_linear_map(rng):
    X, Y = shared(rng)
    moments = ik.accumulate([X, Y], sample=4000)
    axes = view_axes(moments, 0, 0), view_axes(moments, 1, 1)
    for rung, best in zip(ica_rung(moments, 0, 1, axes), ladder(moments)["affine"]):
        assert rung.error < best.error + 0.1


def test_the_rung_of_gaussian_views_needs_axes_from_different_rows(rng):
    """A view and its rotation, Gaussian: a rigid map is exact, and no axes are shared.

    On the same rows the two ICAs tend to the same axes all the same: those of the sample.
    """
    same, different = [], []
    for _ in range(8):
        X = rng.normal(size=(1000, 4))
        moments = ik.accumulate([X, X @ np.linalg.qr(rng.normal(size=(4, 4)))[0]])
        assert ladder(moments)["rigid"][0].error < 1e-6
        first = view_axes(moments, 0, 0)
        same.append(ica_rung(moments, 0, 1, (first, view_axes(moments, 1, 0)))[0].error)
        different.append(ica_rung(moments, 0, 1, (first, view_axes(moments, 1, 1)))[0].error)
    assert np.median(same) < 0.5 * np.median(different)
    assert min(different) > 0.1


def test_the_rung_is_the_error_of_its_definition(rng):
    """Axes matched on the rows of four folds, scored on the fifth, from rows and SciPy."""
    from scipy.optimize import linear_sum_assignment

    X, Y = shared(rng, noise=0.5, n=500)
    moments = ik.accumulate([X, Y], sample=500)
    axes = view_axes(moments, 0, 0), view_axes(moments, 1, 1)
    s, t = axes[0].transform(X), axes[1].transform(Y)
    residual = total = 0.0
    for fold in range(5):
        test = assign_folds(500, 5).of() == fold
        total += float(((Y[test] - Y[~test].mean(axis=0)) ** 2).sum())
        cross = np.cov(s[~test].T, t[~test].T)[:4, 4:]
        rows, columns = linear_sum_assignment(-np.abs(cross))
        turn = np.zeros((4, 4))
        turn[rows, columns] = np.sign(cross[rows, columns])
        shift = t[~test].mean(axis=0) - s[~test].mean(axis=0) @ turn
        predicted = (s[test] @ turn + shift) @ axes[1].mixing + axes[1].mean
        residual += float(((Y[test] - predicted) ** 2).sum())
    expected = np.sqrt(residual / total)
    assert ica_rung(moments, 0, 1, axes)[0].error == pytest.approx(expected, rel=1e-9)


def test_the_rung_of_unrelated_views_and_of_different_ranks(rng):
    X, Y = sources(rng, "luel"), sources(rng, "le")
    moments = ik.accumulate([X, Y, X[:, :2]], sample=4000)
    axes = view_axes(moments, 0, 0), view_axes(moments, 1, 1)
    assert min(rung.error for rung in ica_rung(moments, 0, 1, axes)) > 0.95
    there, back = ica_rung(moments, 0, 2, (axes[0], view_axes(moments, 2, 1)))
    assert there.error < 0.1
    assert back.error == pytest.approx(np.sqrt(0.5), abs=0.03)  # two axes of four are missing


def test_few_rows_mean_few_components(rng):
    X = mixed(rng, sources(rng, "luel" * 5, 500))
    assert len(view_axes(ik.accumulate([X], sample=200), 0, 0).unmixing) == 10
    assert len(view_axes(ik.accumulate([X], sample=500), 0, 0).unmixing) == 15


# Bad input


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "n_components is 0"),
        ({"n_components": 1.5}, "n_components is 1.5"),
        ({"n_components": True}, "n_components is True"),
        ({"n_components": "all"}, "n_components is 'all'"),
        ({"restarts": 1}, "restarts is 1"),
        ({"tol": 0.0}, "tol is 0.0"),
        ({"max_iter": 0}, "max_iter 0"),
        ({"max_rows": 0}, "max_rows is 0"),
        ({"solver": "jade"}, "no solver 'jade'; there are auto, picard"),
        ({"n_components": 4}, "has rank 3 .* cannot have 4 components; ask for 3"),
    ],
)
def test_wrong_parameters_are_named(rng, parameters, message):
    with pytest.raises(InputError, match=message):
        ICA(**parameters).fit(sources(rng, "lue", 200))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((50, 3)), "'X' is constant"),
        (np.ones((1, 3)), "1 sample"),
        (np.full((50, 2), np.nan), "NaN"),
        (np.ones((50, 2), dtype=complex), "Complex data not supported: X has dtype complex128"),
        (np.full((50, 2), "a"), "expected real numbers"),
        (np.eye(6), "5 components of view 'X' need more than 10 rows"),
        (np.random.default_rng(0).normal(size=(30, 40)), "29 components .* more than 58 rows"),
    ],
)
def test_views_without_axes_are_refused(X, message):
    with pytest.raises(InputError, match=message):
        ICA().fit(X)


def test_sparse_rows_are_refused():
    from scipy.sparse import csr_array

    with pytest.raises(InputError, match="sparse"):
        ICA().fit(csr_array(np.eye(9)))


def test_rows_to_transform_are_checked(rng):
    X = sources(rng, "lue", 300)
    ica = ICA(n_components=2).fit(X)
    with pytest.raises(InputError, match="X has 2 features, but ICA is expecting 3"):
        ica.transform(X[:, :2])
    with pytest.raises(InputError, match="X has 3 features, but ICA is expecting 2"):
        ica.inverse_transform(X)
    with pytest.raises(InputError, match="Reshape your data"):
        ica.transform(X[0])
    with pytest.raises(InputError, match="NaN or infinity"):
        ica.transform(np.where(X > 1, np.nan, X))
    with pytest.raises(InputError, match="Complex data not supported"):
        ica.transform(X.astype(complex))
    with pytest.raises(InputError, match="features"):
        ICA().fit_moments(ik.accumulate([X]), 0, rows=X[:, :2])
    for use in (
        lambda i: i.transform(X),
        lambda i: i.map_,
        lambda i: i.inverse_map_,
        lambda i: i.table,
    ):
        with pytest.raises(NotFittedError):
            use(ICA())


def test_a_rung_needs_folds_and_the_axes_of_its_views(rng):
    X = sources(rng, "lue", 300)
    moments = ik.accumulate([X, X[:, :2]], folds=1)
    axes = view_axes(moments, 0, 0), view_axes(moments, 1, 1)
    with pytest.raises(InputError, match="at least two folds"):
        ica_rung(moments, 0, 1, axes)
    with pytest.raises(InputError, match="'view1' have 3 columns, but the view has 2"):
        ica_rung(moments, 0, 1, (axes[0], axes[0]))


def test_columns_of_a_data_frame_keep_their_order(rng):
    import pandas as pd

    X = pd.DataFrame(sources(rng, "lue", 300), columns=["a", "b", "c"])
    ica = ICA().fit(X)
    assert list(ica.feature_names_in_) == ["a", "b", "c"]
    assert np.array_equal(ica.transform(X), ica.transform(X.to_numpy()))
    with pytest.raises(InputError, match="the columns c, b, a, but ICA was fitted on a, b, c"):
        ica.transform(X[["c", "b", "a"]])
    ica.fit(X.to_numpy())
    assert not hasattr(ica, "feature_names_in_")
    assert ica.transform(X[["c", "b", "a"]]).shape == (300, 3)


# The estimator's contract


def test_it_is_cloned_pickled_searched_and_part_of_a_pipeline(rng):
    import pickle

    from sklearn.base import clone
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = mixed(rng, sources(rng, "luel", 600))
    fitted = ICA(n_components=3, seed=4).fit(X)
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "components_")
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), fitted.transform(X))
    assert list(fitted.get_feature_names_out()) == ["ica0", "ica1", "ica2"]
    pipeline = make_pipeline(StandardScaler(), ICA()).fit(X)
    close(pipeline.inverse_transform(pipeline.transform(X)), X, 1e-9)
    learner = make_pipeline(ICA(), LogisticRegression())
    search = GridSearchCV(learner, {"ica__n_components": [1, 4]}, cv=3).fit(X, X[:, 0] > 0)
    assert search.best_params_ == {"ica__n_components": 4}
