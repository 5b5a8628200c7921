"""Every measure beside its chance level: exact where there is a closed form, and calibrated."""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, chi2, gamma, norm, t

import identikit as ik
from identikit.inference import Null, number_of_draws, shuffled, twin_stacks, twins
from identikit.moments import Moments, assign_folds
from identikit.moments.sample import RowSample
from identikit.similarity import MEASURES, Scored, calibrate, score_measures, scores_and_laws
from identikit.similarity._mutual_knn import _of_the_whole

Array = NDArray[np.float64]

LINEAR = [name for name, measure in MEASURES.items() if not measure.rows]
KINDS = ("flat", "1/i", "1/i²", "t5")


def view(rng: np.random.Generator, n: int, d: int, kind: str) -> Array:
    """Independent rows with this spectrum, or with the tails of Student's t of 5 degrees."""
    rows = rng.standard_t(5, size=(n, d)) if kind == "t5" else rng.normal(size=(n, d))
    power = {"flat": 0.0, "1/i": 1.0, "1/i²": 2.0, "t5": 0.5}[kind]
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return (rows * np.arange(1, d + 1) ** -power) @ turn + 1.0


def within_binomial_limits(hits: int, of: int, rate: float) -> bool:
    """Whether a rate is plausible: one in a thousand would be further away."""
    return bool(binom.ppf(0.0005, of, rate) <= hits <= binom.ppf(0.9995, of, rate))


# The law.


def test_exact_law_is_the_gamma_law_and_its_mirror_image() -> None:
    law, mirrored = Null(3.0, 0.5, 1.2), Null(-3.0, 0.5, -1.2)
    reference = gamma(4 / 1.2**2, loc=3 - 2 * 0.5 / 1.2, scale=0.5 * 1.2 / 2)
    assert reference.stats("mvs") == pytest.approx((3.0, 0.25, 1.2))
    for value in (2.3, 3.0, 4.5, 9.0):
        assert law.p(value) == pytest.approx(reference.sf(value), rel=1e-9)
        assert mirrored.p(-value) == pytest.approx(reference.cdf(value), rel=1e-9)
    for level in (0.05, 0.5, 0.95):
        assert law.p(law.quantile(level)) == pytest.approx(1 - level)
        assert mirrored.quantile(level) == pytest.approx(-law.quantile(1 - level))
    assert law.p(-100.0) == 1.0
    np.testing.assert_allclose(
        law.quantiles(np.array([0.1, 0.9])), [law.quantile(0.1), law.quantile(0.9)]
    )


def test_without_skewness_the_law_is_normal_and_of_draws_students() -> None:
    assert Null(1.0, 2.0).p(5.0) == pytest.approx(norm.sf(2.0))
    assert Null(1.0, 2.0).quantile(0.95) == pytest.approx(1 + 2 * norm.ppf(0.95))
    drawn = Null(1.0, 2.0, 0.0, 10)
    wide = 2.0 * np.sqrt(1.1)
    assert drawn.p(5.0) == pytest.approx(t(9, 1.0, wide).sf(5.0))
    assert drawn.quantile(0.95) == pytest.approx(t(9, 1.0, wide).ppf(0.95))
    assert 0 < drawn.p(1e9) < 1e-9


def test_a_law_without_spread_is_one_value() -> None:
    law = Null.of_draws(np.full(20, 0.25))
    assert (law.sd, law.quantile(0.95), law.draws) == (0.0, 0.25, 20)
    assert law.p(0.25) == 1.0
    assert law.p(0.26) == 0.0


def test_prediction_from_ten_draws_is_calibrated() -> None:
    """Of an eleventh normal draw p is uniform, however few the ten are: Student's prediction."""
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(4000, 11))
    p = [Null.of_draws(row[:10]).p(row[10]) for row in draws]
    assert abs(np.mean(np.array(p) < 0.05) - 0.05) < 0.012


# Independent views from moments.


def test_twins_keep_what_a_view_is_by_itself() -> None:
    rng = np.random.default_rng(0)
    X, Y = view(rng, 200, 5, "1/i"), view(rng, 200, 7, "t5")
    moments = ik.accumulate([Y, X, Y], sample=0)
    drawn = list(twins(moments, 1, 2))
    assert len(drawn) == number_of_draws(5, 7) == 99
    for twin in drawn[:3]:
        for place, i in enumerate((1, 2)):
            np.testing.assert_allclose(twin.block(place, place), moments.block(i, i))
            np.testing.assert_allclose(twin.scales(place), moments.scales(i))
            np.testing.assert_allclose(twin.loadings(place), moments.loadings(i))
        np.testing.assert_allclose(twin.block(0, 1), twin.block(1, 0).T)
        white = [twin.whitening_map(place) for place in (0, 1)]
        coherence = white[0].T @ twin.block(0, 1) @ white[1]
        np.testing.assert_allclose(twin.coherence(0, 1), coherence, atol=1e-12)
        r = np.linalg.svd(coherence, compute_uv=False)
        np.testing.assert_allclose(twin.canonical(0, 1)[1], r, atol=1e-12)
        np.testing.assert_allclose(ik.cca(twin).correlations, r, atol=1e-12)
    # The seed is fixed, and draws that are kept, where there is room for them, are the same.
    values = [ik.procrustes(twin).value for twin in drawn]
    for roomy in (False, True):
        some = replace(moments, roomy=roomy, _cache={}, _pair={})
        for _ in range(2):
            again = [ik.procrustes(twin).value for twin in twins(some, 1, 2)]
            np.testing.assert_allclose(again, values, rtol=1e-9)
            assert ("draws" in some._cache) == roomy


def test_twins_of_views_in_stored_coordinates() -> None:
    """Ill-conditioned views are kept in other coordinates; twins are in the views' own."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) * [1, 1, 1, 1e-6] @ rng.normal(size=(4, 4))
    moments = ik.accumulate([X, rng.normal(size=(300, 4))], sample=0)
    assert moments.layout.roots is not None
    for name, scored in score_measures(moments).items():
        if not MEASURES[name].rows:
            assert scored.p > 1e-4, name
            assert scored.chance < 0.3, name


# The moments' null against shuffled rows.


def shuffles(X: Array, Y: Array, count: int, seed: int = 0) -> dict[str, Array]:
    """Every linear measure over random pairings of the rows, from the rows."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[float]] = {name: [] for name in LINEAR}
    for _ in range(count):
        moments = ik.accumulate([X, Y[rng.permutation(len(Y))]], folds=1, sample=0)
        for name in LINEAR:
            found[name].append(MEASURES[name](moments))
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.parametrize(
    ("n", "p", "q", "kinds"),
    [
        (200, 6, 4, ("flat", "1/i")),
        pytest.param(60, 12, 30, ("1/i", "t5"), marks=pytest.mark.slow),
        pytest.param(300, 20, 20, ("1/i²", "1/i²"), marks=pytest.mark.slow),
        pytest.param(500, 10, 10, ("t5", "t5"), marks=pytest.mark.slow),
    ],
)
def test_the_null_from_moments_is_that_of_shuffled_rows(
    n: int, p: int, q: int, kinds: tuple[str, str]
) -> None:
    """Mean within 4 standard errors; the upper end of the band is the 95 % quantile's.

    Of 200 shuffles 95 % stay below it, within four deviations of what these and the draws can tell.
    """
    rng = np.random.default_rng([n, p])
    X, Y = view(rng, n, p, kinds[0]), view(rng, n, q, kinds[1])
    laws = scores_and_laws(ik.accumulate([X, Y], sample=0), names=LINEAR)
    for name, values in shuffles(X, Y, 200).items():
        scored, law = laws[name]
        less = np.sqrt(1 / 200 + 1 / (law.draws or np.inf))
        error, share = values.std() * less, 4 * np.sqrt(0.05 * 0.95) * less
        assert scored.chance == pytest.approx(values.mean(), abs=4 * error), name
        assert law.sd == pytest.approx(values.std(), rel=0.35), name
        assert np.mean(values < scored.band[1]) == pytest.approx(0.95, abs=share), name
        assert np.mean(values > scored.band[0]) == pytest.approx(0.95, abs=share), name


@pytest.mark.parametrize(("p", "q"), [(1, 1), (2, 3), (5, 5)])
def test_cka_mean_and_variance_are_exact(p: int, q: int) -> None:
    """Over all 720 orders of six rows, of any distribution (Kazi-Aoual et al. 1995)."""
    rng = np.random.default_rng([p, q])
    X, Y = rng.standard_cauchy(size=(6, p)), rng.exponential(size=(6, q))
    law = MEASURES["cka"].null(ik.accumulate([X, Y], folds=1, sample=0), 0, 1)
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    scale = np.linalg.norm(X.T @ X) * np.linalg.norm(Y.T @ Y)
    orders = permutations(range(6))
    values = [np.linalg.norm(X.T @ Y[list(order)]) ** 2 / scale for order in orders]
    assert law.mean == pytest.approx(np.mean(values), abs=1e-9)
    assert law.sd == pytest.approx(np.std(values), rel=1e-6)
    assert law.draws == 0


def test_cka_of_one_column_is_a_squared_correlation() -> None:
    """(n − 1) r² is χ² with one degree of freedom for many rows: the law is that to the tail."""
    rng = np.random.default_rng(0)
    moments = ik.accumulate(list(rng.normal(size=(2, 20_000, 1))), sample=0)
    law = MEASURES["cka"].null(moments, 0, 1)
    for level in (0.5, 0.05, 1e-4):
        assert law.p(chi2.isf(level, 1) / 19_999) == pytest.approx(level, rel=0.02)


def test_cka_without_a_closed_form_is_drawn() -> None:
    rng = np.random.default_rng(0)
    moments = ik.accumulate(list(rng.normal(size=(2, 3, 2))), folds=1, sample=0)
    assert MEASURES["cka"].null(moments, 0, 1) is None
    assert score_measures(moments, names=["cka"])["cka"].draws == 99


def test_the_law_of_neighbours_and_ranks_is_that_of_shuffled_samples() -> None:
    """The quick ways of `mutual_knn` and `spearman_mcc` against shuffled rows, one by one."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(150, 3)), rng.normal(size=(150, 4))
    moments = ik.accumulate([X, Y], folds=1)
    drawn = list(shuffled(moments, 0, 1))
    for name in ("mutual_knn", "spearman_mcc"):
        values = np.array([MEASURES[name](draw) for draw in drawn])
        law = MEASURES[name].null(moments, 0, 1)
        error = np.hypot(values.std() / np.sqrt(len(values)), law.sd / np.sqrt(law.draws))
        assert law.mean == pytest.approx(values.mean(), abs=4 * error)
        assert law.sd == pytest.approx(values.std(), rel=0.35)
    assert MEASURES["mutual_knn"].null(moments, 0, 1).mean == pytest.approx(10 / 149, abs=0.005)


# Calibration: independent views.

SHAPES = [
    (150, 4, 4, "flat", "flat"),
    (200, 8, 3, "1/i", "1/i²"),
    (120, 16, 24, "t5", "t5"),
    (60, 40, 40, "1/i", "flat"),
    (300, 1, 1, "flat", "t5"),
    (300, 20, 20, "1/i²", "1/i²"),
]


def p_values(shape: tuple[int, int, int, str, str], count: int) -> dict[str, list[Scored]]:
    n, p, q, *kinds = shape
    rng = np.random.default_rng([n, p, q])
    found: dict[str, list[Scored]] = {name: [] for name in MEASURES}
    for _ in range(count):
        pair = [view(rng, n, d, kind) for d, kind in zip((p, q), kinds)]
        moments = ik.accumulate(pair, folds=1, sample=100)
        for name, scored in score_measures(moments).items():
            if scored is not None:
                found[name].append(scored)
    return {name: scores for name, scores in found.items() if scores}


def assert_calibrated(shape: tuple[int, int, int, str, str], count: int) -> None:
    for name, scores in p_values(shape, count).items():
        p = np.array([scored.p for scored in scores])
        assert len(p) == count
        for level in (0.05, 0.5):
            hits = int(np.sum(p < level))
            assert within_binomial_limits(hits, count, level), (name, level, hits)
        beyond = sum(scored.calibrated > 0 for scored in scores)
        assert beyond == np.sum(p < 0.05), name  # one threshold for both


def test_independent_views_score_by_chance() -> None:
    assert_calibrated(SHAPES[0], 30)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_p_is_uniform_for_independent_views(shape: tuple[int, int, int, str, str]) -> None:
    """200 pairs of independent views a shape: p < .05 in 5 %, calibrated is 0 in the others."""
    assert_calibrated(shape, 200)


# Related views.


def related(rng: np.random.Generator, n: int, d: int = 4, noise: float = 1.0) -> list[Array]:
    X = rng.normal(size=(n, d)) * np.linspace(1, 2, d)
    return [X + noise * rng.normal(size=(n, d)) for _ in range(2)]


def test_related_views_are_beyond_chance_and_equal_ones_are_one() -> None:
    rng = np.random.default_rng(0)
    X, Y = related(rng, 400)
    for name, scored in score_measures(ik.accumulate([X, Y])).items():
        low, high = scored.band
        assert low < scored.chance < high < scored.value, name
        assert scored.interval[0] < scored.value < scored.interval[1] <= 1, name
        assert scored.calibrated == pytest.approx((scored.value - high) / (1 - high)), name
        assert scored.p < 1e-6, name
    for name, scored in score_measures(ik.accumulate([X, X])).items():
        assert scored.calibrated == pytest.approx(1.0), name


def test_calibrate_has_its_ends() -> None:
    assert calibrate(0.6, 0.2) == pytest.approx(0.5)
    assert calibrate(0.1, 0.2) == 0.0
    assert calibrate(1.0 + 1e-12, 0.2) == 1.0
    assert calibrate(1.0, 1.0) == 0.0


def test_measures_of_axes_and_measures_without_a_value_are_absent() -> None:
    X, Y = related(np.random.default_rng(0), 400)
    scores = score_measures(ik.accumulate([X, Y], sample=0), axes=False)
    absent = {name for name, scored in scores.items() if scored is None}
    assert absent == {"mcc", "pls_svd", "pwcca", "spearman_mcc", "mutual_knn"}
    wide = list(np.random.default_rng(0).normal(size=(2, 10, 12)))
    few = score_measures(ik.accumulate(wide, folds=2))
    assert few["cca"] is None
    assert few["cka"] is not None


def test_one_fold_has_no_interval_and_a_saturated_rest_neither() -> None:
    rng = np.random.default_rng(0)
    assert score_measures(ik.accumulate(related(rng, 60), folds=1))["cka"].interval is None
    # Six directions in nine rows have a value, in the six or seven rows without a fold they do not.
    moments = ik.accumulate(list(rng.normal(size=(2, 9, 6))), folds=4)
    scores = score_measures(moments)
    assert scores["cca"].interval is None
    assert scores["procrustes"].interval is not None


def test_moments_without_a_fold_are_those_of_the_other_rows() -> None:
    rng = np.random.default_rng(0)
    X, Y = related(rng, 103)
    fold_of_row = assign_folds(103, 5).of()
    moments = ik.accumulate([X, Y])
    for fold in range(5):
        rest = moments.without(fold)
        there = ik.accumulate([view[fold_of_row != fold] for view in (X, Y)], folds=1)
        assert rest.rows == there.rows
        assert len(rest.sample.keys) == 103 - len(range(fold, 103, 5))
        for name in LINEAR:
            value = MEASURES[name](there)
            assert MEASURES[name](rest) == pytest.approx(value, abs=1e-10), name
        np.testing.assert_allclose(rest.canonical(0, 1)[1], there.canonical(0, 1)[1], atol=1e-12)


def test_moments_without_room_give_the_same(seed: int) -> None:
    """The values do not depend on what is remembered."""
    moments = ik.accumulate(related(np.random.default_rng(seed), 200))
    found = [
        score_measures(replace(moments, roomy=roomy, _cache={}, _pair={}))
        for roomy in (True, False)
    ]
    for name in MEASURES:
        for key, value in asdict(found[0][name]).items():
            assert asdict(found[1][name])[key] == pytest.approx(value, rel=1e-9, abs=1e-12), name


@pytest.mark.parametrize("name", [name for name, one in MEASURES.items() if one.of_twins])
def test_a_stack_of_twins_has_the_values_of_each(name: str, seed: int) -> None:
    """Widths and ranks differ, a column is constant, and pairs share their draws."""
    rng = np.random.default_rng(seed)
    X, Y = related(rng, 150)
    Y[:, 0] = 3.0
    moments = ik.accumulate([X, Y, X[:, :2]])
    measure = MEASURES[name]
    for i, j in ((0, 1), (0, 2), (2, 1), (0, 1)):
        stacked = np.concatenate([measure.of_twins(stack) for stack in twin_stacks(moments, i, j)])
        each = [measure(twin) for twin in twins(moments, i, j)]
        np.testing.assert_allclose(stacked, each, atol=1e-12)


def test_another_sample_is_not_mistaken_for_the_first() -> None:
    """Moments that differ in their row sample share what they keep, but not of the rows."""
    rng = np.random.default_rng(0)
    whole = ik.accumulate(related(rng, 300))
    few = replace(whole, sample=ik.accumulate(related(rng, 300), sample=50).sample)
    for moments, rows in ((whole, 300), (few, 50), (whole, 300)):
        assert ik.mutual_knn(moments).rows == rows
        assert ik.mutual_knn(moments.without(0)).rows == rows - rows // 5


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_intervals_cover(noise: float) -> None:
    """A nominal 95 % interval covers what the measure is on average in 87 to 99.5 % of 200."""
    rng = np.random.default_rng(0)

    def draw(folds: int) -> Moments:
        return ik.accumulate(related(rng, 300, 3, noise), folds=folds, sample=0)

    names = [name for name in LINEAR if name != "mcc"]
    means = {
        name: np.mean([MEASURES[name](m) for m in map(draw, [1] * 200)])  # its mean at this n
        for name in names
    }
    covered = dict.fromkeys(names, 0)
    for _ in range(200):
        for name, scored in score_measures(draw(10), names=names).items():
            covered[name] += scored.interval[0] <= means[name] <= scored.interval[1]
    for name, count in covered.items():
        assert 0.87 <= count / 200 <= 0.995, (name, count)


# In an audit.


def test_an_audit_has_every_measure_beside_its_chance_level() -> None:
    audit = ik.audit(related(np.random.default_rng(0), 300))
    pair = audit.comparisons[0]
    assert set(pair.measures) == set(MEASURES)
    assert pair.measures["cka"].chance == pytest.approx(pair.cka.chance)
    assert pair.measures["cca"].chance == pytest.approx(pair.cca.chance, rel=0.05)
    assert pair.measures["cka"].p < 1e-6
    document = audit.to_dict()["pairs"][0]["measures"]
    fields = {"value", "chance", "band", "interval", "calibrated", "p", "draws"}
    assert all(set(scored) == fields for scored in document.values())
    assert document["mcc"]["band"] == list(pair.measures["mcc"].band)
    row = audit.pairs.iloc[0]
    for name, scored in pair.measures.items():
        assert row[name] == scored.value
        assert row[f"{name}_calibrated"] == scored.calibrated


@pytest.mark.parametrize("grain", [None, 0.5])
def test_neighbours_without_a_fold_are_those_of_a_search(grain: float | None) -> None:
    """They are read off the whole sample's, unless neighbours are equally far."""
    views = list(np.random.default_rng(0).normal(size=(2, 400, 3)))
    if grain is not None:
        views = [np.round(view / grain) * grain for view in views]
    moments = ik.accumulate(views)
    MEASURES["mutual_knn"](moments)
    for fold in range(moments.folds):
        rest = moments.without(fold)
        rows = rest.sample.rows
        afresh = replace(rest, sample=RowSample(rest.sample.size, rest.sample.keys, rows))
        assert (_of_the_whole(rest.sample, 0, 10) is None) == (grain is not None)
        assert MEASURES["mutual_knn"](rest) == MEASURES["mutual_knn"](afresh)
