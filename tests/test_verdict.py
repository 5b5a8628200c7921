"""Planted pairs of every rung must get that rung; what is unrelated must be called so."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

import identikit as ik
from identikit.alignment import RUNGS, Denoised, ladder
from identikit.auditing import SLACK, Pair, choose_rung
from identikit.report import sentence
from planted import NOISES, SPECTRA, cells, planted, rotation

Array = NDArray[np.float64]


def judged(X: Array, Y: Array, folds: int = 5) -> Pair:
    return ik.audit([X, Y], folds=folds).comparisons[0]


def chosen(X: Array, Y: Array, slack: float = SLACK) -> tuple[str, tuple[str, ...]]:
    """What the rule says, without the rest of an audit."""
    moments = ik.accumulate([X, Y], sample=0)
    answer = choose_rung(moments, 0, 1, ladder(moments), slack=slack)
    return answer.group, answer.candidates


def score(
    n: int, d: int, seeds: int, some: list[tuple[str, str, float]], slack: float = SLACK
) -> tuple[float, float]:
    """Share of planted rungs that are named, and that are among those named."""
    right = among = total = 0
    for spectrum, kind, level in some:
        for group in RUNGS:
            for seed in range(seeds):
                X, Y = planted(group, spectrum, kind, level, n, d, seed)
                found, candidates = chosen(X, Y, slack)
                right, among, total = (
                    right + (found == group),
                    among + (group in candidates),
                    total + 1,
                )
    return right / total, among / total


def test_audit_and_rule_agree() -> None:
    X, Y = planted("similarity", "i^-2", "isotropic", 0.2, 1000, 5, 0)
    pair = judged(X, Y)
    assert (pair.group, pair.candidates) == chosen(X, Y)
    assert pair.error == next(r.error for r in pair.ladder if r.group == pair.group)


def test_anisotropic_views_with_noise() -> None:
    """The reported case: sd = 1/i in 64 dimensions and 20 % isotropic noise is the identity."""
    rng = np.random.default_rng(0)
    sd = 1 / np.arange(1, 65)
    X = rng.normal(size=(4000, 64)) * sd
    noise = 0.2 * np.sqrt(np.mean(sd**2)) * rng.normal(size=X.shape)
    assert chosen(X, X + noise) == ("identity", ("identity",))
    assert chosen(X, X @ rotation(rng, 64) + noise) == ("rigid", ("rigid",))


@pytest.mark.parametrize("group", RUNGS)
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_planted_rung_is_found(group: str, spectrum: str) -> None:
    """At n = 4000, d = 8, for every kind of noise up to 20 %."""
    found = [
        chosen(*planted(group, spectrum, kind, level, 4000, 8, 0))[1]
        for kind in NOISES
        for level in ((0.0, 0.2) if kind == NOISES[0] else (0.2,))
    ]
    assert sum(group in candidates for candidates in found) >= len(found) - 1


def test_planted_rungs_without_noise_in_two_dimensions() -> None:
    for group in RUNGS:
        for seed in range(5):
            assert chosen(*planted(group, "flat", "isotropic", 0.0, 4000, 2, seed))[0] == group


@pytest.mark.slow
@pytest.mark.parametrize("n", [1000, 4000, 20_000])
@pytest.mark.parametrize("d", [3, 8, 30, 64, 100])
def test_planted_rungs_over_the_whole_grid(n: int, d: int) -> None:
    """All spectra, noises and levels; what is left is where the data do not tell."""
    named, among = score(n, d, 1, cells())
    assert named >= 0.9
    assert among >= 0.94


@pytest.mark.parametrize("slack", [0.02, 0.05])
def test_slack_between_two_and_five_hundredths_gives_the_same(slack: float) -> None:
    some = [("flat", "isotropic", 0.2), ("i^-1", "own both", 0.1)]
    named, _ = score(4000, 8, 1, some, slack=slack)
    assert named == 1.0
    assert 0.02 < SLACK < 0.05


def test_noise_that_is_allowed_for_is_noise() -> None:
    """If y = Rx + noise, shrunk maps of the true rung predict as well as any regression."""
    for kind in NOISES:
        X, Y = planted("rigid", "i^-1", kind, 0.4, 4000, 6, 0)
        moments = ik.accumulate([X, Y], sample=0)
        rungs = ladder(moments)
        fair = Denoised(moments, 0, 1).errors(RUNGS["rigid"], rungs["rigid"])
        for side, own, free in zip(fair, rungs["rigid"], rungs["affine"]):
            assert side.error <= own.error
            assert side.error == pytest.approx(free.error, abs=0.002)


def test_noise_does_not_excuse_a_stretch() -> None:
    X, Y = planted("linear", "flat", "own both", 0.2, 4000, 6, 0)
    moments = ik.accumulate([X - X.mean(axis=0), Y - Y.mean(axis=0)], sample=0)
    rungs = ladder(moments)
    fair = Denoised(moments, 0, 1).errors(RUNGS["rigid"], rungs["rigid"])
    assert max(side.error for side in fair) > 1.2 * max(s.error for s in rungs["affine"])


def test_a_range_where_the_data_do_not_tell() -> None:
    """A stretch by some per cent under noise, in few rows: rigid or looser, and it says so."""
    ranges: Counter[int] = Counter()
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(150, 4))
        Y = X @ rotation(rng, 4) * [1.1, 1, 1, 0.9] + 0.3 * rng.normal(size=X.shape)
        group, candidates = chosen(X, Y)
        assert group in candidates
        ranges[len(candidates)] += 1
    assert any(size > 1 for size in ranges)


@pytest.mark.parametrize(
    ("group", "spectrum", "kind", "level"),
    [
        ("affine", "i^-3", "own", 0.2),
        ("affine", "i^-2", "isotropic both", 0.4),
        ("linear", "i^-3", "isotropic both", 0.4),
    ],
)
def test_few_rows_do_not_hide_the_looser_rung(
    group: str, spectrum: str, kind: str, level: float
) -> None:
    """A similarity predicts as well, as it has less to fit; what is true is named beside it."""
    named, candidates = chosen(*planted(group, spectrum, kind, level, 1000, 64, 2000))
    assert (named, candidates) == ("similarity", ("similarity", group))
    # A rotation that is true stands alone.
    assert chosen(*planted("rigid", spectrum, "own", 0.2, 1000, 64, 2000))[1] == ("rigid",)


def test_what_endless_rows_would_leave() -> None:
    """Unit noise in every column: held out 1 + p/(n − p), in the limit 1."""
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(300, 60))
        Y = X @ rng.normal(size=(60, 5)) + rng.normal(size=(300, 5))
        side = ladder(ik.accumulate([X, Y], sample=0))["affine"][0]
        assert side.limit is not None
        plain = side.residual if side.unridged is None else side.unridged
        found.append((plain.sum() / Y.size, side.limit.sum() / Y.size))
    held_out, limit = np.mean(found, axis=0)
    assert held_out == pytest.approx(1 + 60 / (240 - 60), abs=0.06)
    assert limit == pytest.approx(1.0, abs=0.05)
    few = ladder(ik.accumulate([X[:100], Y[:100]], sample=0))["affine"][0]
    assert few.limit is None  # 80 rows do not tell the noise of 60 columns


def test_range_is_said_in_words() -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(150, 4))
        Y = X @ rotation(rng, 4) * [1.1, 1, 1, 0.9] + 0.3 * rng.normal(size=X.shape)
        audit = ik.audit([X, Y])
        if len(audit.verdict.candidates) > 1:
            break
    names = audit.verdict.candidates
    words = sentence(audit.verdict, audit.rows, 2, 0.1)
    assert f"{' or '.join(names)}: the data do not tell" in words
    assert audit.to_dict()["pairs"][0]["candidates"] == list(names)


def test_planted_noise_is_the_error() -> None:
    """y = h(x) + 20 %: forward e = σ/√(1 + σ²), back σ at a rung that cannot shrink."""
    for group in ("permutation", "rigid"):
        X, Y = planted(group, "flat", "isotropic", 0.2, 4000, 8, 0)
        pair = judged(X, Y)
        rung = next(r for r in pair.ladder if r.group == group)
        assert pair.group == group
        assert rung.forward == pytest.approx(0.2 / np.sqrt(1.04), abs=0.005)
        assert rung.backward == pytest.approx(0.2, abs=0.005)
        assert rung.error == max(rung.forward, rung.backward)


@pytest.mark.parametrize("kind", ["independent", "heavy tails"])
@pytest.mark.parametrize(
    ("d", "seeds"),
    [
        (8, 1),
        *(pytest.param(*each, marks=pytest.mark.long) for each in ((2, 4), (8, 4), (64, 1))),
        *(pytest.param(d, 20, marks=pytest.mark.slow) for d in (2, 8, 64)),
    ],
)
def test_unrelated_views(kind: str, d: int, seeds: int) -> None:
    right = 0
    for seed in range(seeds):
        rng = np.random.default_rng([seed, d])
        X = rng.normal(size=(2000, d))
        Y = rng.normal(size=X.shape) if kind == "independent" else rng.standard_t(3, size=X.shape)
        right += judged(X, Y).group == "unrelated"
    assert right >= seeds - seeds // 10


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("d", [2, 8])
def test_a_bent_axis_is_not_the_identity(d: int, seed: int) -> None:
    """An elementwise tanh is no identity, and the error says that nothing affine explains it."""
    X = np.random.default_rng([seed, d]).normal(size=(4000, d))
    pair = judged(X, np.tanh(X))
    assert pair.group not in ("identity", "unrelated")
    assert pair.error > 0.15


def test_reordered_and_then_bent_axes_stay_axes() -> None:
    X = np.random.default_rng(0).normal(size=(4000, 6))
    assert chosen(X, np.tanh(X[:, ::-1]))[0] == "monomial"


@pytest.mark.parametrize("far", [50.0, 1000.0])
def test_a_far_mean_hides_a_shift_and_the_audit_says_so(far: float) -> None:
    """A linear map can use a far mean as its shift: `linear` is named, with a warning."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 4)) + far
    Y = X @ (rotation(rng, 4) * [0.4, 1.0, 2.0, 2.5] @ rotation(rng, 4)) + 1.0
    pair = judged(X, Y)
    assert pair.group == "linear"
    assert any("linear and affine cannot be distinguished" in warning for warning in pair.warnings)
    centred = judged(X - far, Y)
    assert centred.group == "affine"
    assert not any("cannot be distinguished" in warning for warning in centred.warnings)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("n", "d", "folds"), [(60, 50, 10), (65, 50, 5), (120, 100, 5)])
def test_few_rows_for_the_width_still_show_a_rotation(
    n: int, d: int, folds: int, seed: int
) -> None:
    """n of 1.2 or 1.3 d: a free linear map overfits even with a ridge, a rotation does not."""
    X, Y = planted("rigid", "flat", "isotropic", 0.05, n, d, seed)
    pair = judged(X, Y, folds)
    assert pair.group == "rigid"
    assert pair.ladder[-1].without_ridge is None or pair.ladder[-1].without_ridge > 0.2


def test_fewer_training_rows_than_columns_are_not_called_unrelated() -> None:
    """With 48 training rows for 50 columns not even a rotation is determined; related it is."""
    for seed in range(2):
        X, Y = planted("rigid", "flat", "isotropic", 0.05, 60, 50, seed)
        assert judged(X, Y).group != "unrelated"
