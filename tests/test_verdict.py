"""Planted pairs of every group must get that group; what is unrelated must be called so."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

import identikit as ik
from identikit.alignment import GROUPS, HeldOut, ladder
from identikit.auditing import SLACK, Rung, choose_group
from identikit.auditing._verdict import unshrunk_errors
from identikit.inference import jackknife_interval

Array = NDArray[np.float64]
STYLES = ("isotropic", "unequal spreads", "correlated", "uniform")
NOISES = (0.0, 0.05, 0.2)


def source(style: str, rng: np.random.Generator, n: int, d: int, mean: float) -> Array:
    X = rng.normal(size=(n, d))
    if style == "unequal spreads":
        return X * rng.uniform(0.5, 2, d) + mean * rng.normal(size=d)
    if style == "correlated":
        return X @ (np.eye(d) + 0.5 * rng.normal(size=(d, d)) / np.sqrt(d))
    return rng.uniform(-1, 1, size=(n, d)) if style == "uniform" else X


def rotation(rng: np.random.Generator, d: int) -> Array:
    """Uniform; in the plane 15 to 75 degrees, as 0 and 90 are permutations."""
    if d == 2:
        angle = np.deg2rad(rng.uniform(15, 75))
        return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def planted(
    group: str,
    seed: int,
    d: int,
    noise: float,
    n: int = 4000,
    style: str | None = None,
    mean: float = 0.5,
) -> tuple[Array, Array]:
    """x and y = h(x) + noise, h of the group and of no stricter one."""
    rng = np.random.default_rng([seed, d, int(100 * noise), list(GROUPS).index(group)])
    X = source(style or STYLES[seed % len(STYLES)], rng, n, d, mean)
    P = np.eye(d)[rng.permutation(d)] * rng.choice([-1.0, 1.0], d)
    scales = np.resize([0.5, 2.0, 1.5, 0.4, 2.5], d)
    A = rotation(rng, d) * np.linspace(0.4, 2.5, d) @ rotation(rng, d)
    shift = rng.normal(size=d)
    far = np.sign(shift) * np.linalg.norm(A) / np.sqrt(d)
    maps: dict[str, Callable[[], Array]] = {
        "identity": lambda: X,
        "permutation": lambda: X @ P + shift,
        "monomial": lambda: X @ P * scales + shift,
        "rigid": lambda: X @ rotation(rng, d) + shift,
        "similarity": lambda: 2 * X @ rotation(rng, d) + shift,
        "linear": lambda: X @ A,
        "affine": lambda: X @ A + far,
    }
    Y = maps[group]()
    size = noise * np.sqrt(Y.var(axis=0).mean())
    return X, Y + size * rng.normal(size=Y.shape)


Case = tuple[tuple[Rung, ...], tuple[float, float]]


def case(X: Array, Y: Array, folds: int = 5) -> Case:
    """What an audit judges by: the ladder, and the errors of maps that do not shrink."""
    moments = ik.accumulate([X, Y], folds=folds, sample=0)
    found = []
    for name, both in ladder(moments).items():
        errors = [side.error for side in both]
        ends = [_interval(side) for side in both]
        worse = int(errors[1] > errors[0])
        found.append(Rung(name, errors[worse], ends[worse], errors[0], ends[0], errors[1], ends[1]))
    return tuple(found), unshrunk_errors(moments, 0, 1)


def _interval(side: HeldOut) -> tuple[float, float]:
    return jackknife_interval(side.error, side.leave_one_out(), floor=0.0)


@cache
def planted_case(group: str, seed: int, d: int, noise: float) -> Case:
    return case(*planted(group, seed, d, noise))


def hits(group: str, seeds: int, d: int, noise: float, slack: float = SLACK) -> int:
    answers = [choose_group(*planted_case(group, s, d, noise), slack)[0] for s in range(seeds)]
    return answers.count(group)


def test_rungs_are_those_of_an_audit() -> None:
    X, Y = planted("similarity", 0, 3, 0.2)
    pair = ik.audit([X, Y]).comparisons[0]
    rungs, unshrunk = case(X, Y)
    assert pair.ladder == rungs
    assert (pair.group, pair.error) == ("similarity", choose_group(rungs, unshrunk)[1].error)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("d", [2, 8, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("group", GROUPS)
def test_planted_group_is_found(group: str, d: int, noise: float) -> None:
    """At n = 4000, for at least 19 of 20 seeds."""
    assert hits(group, 20, d, noise) >= 19


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("group", GROUPS)
def test_planted_group_is_found_in_64_dimensions(group: str, noise: float) -> None:
    assert hits(group, 3, 64, noise) == 3


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("group", GROUPS)
def test_planted_group_is_found_in_64_dimensions_for_all_seeds(group: str, noise: float) -> None:
    assert hits(group, 20, 64, noise) >= 19


@pytest.mark.parametrize("slack", [0.02, 0.025, 0.035, 0.04, 0.05])
@pytest.mark.parametrize("group", GROUPS)
def test_slack_between_two_and_five_hundredths_gives_the_same(group: str, slack: float) -> None:
    for d in (2, 8):
        for noise in NOISES:
            assert hits(group, 20, d, noise, slack) >= 19


def test_planted_noise_is_the_error() -> None:
    """y = h(x) + 20 %: forward e = σ/√(1 + σ²), back σ at a rung that cannot shrink."""
    for group in ("permutation", "rigid"):
        _, rung = choose_group(*planted_case(group, 0, 8, 0.2))
        assert rung.forward == pytest.approx(0.2 / np.sqrt(1.04), abs=0.005)
        assert rung.backward == pytest.approx(0.2, abs=0.005)
        assert rung.error == max(rung.forward, rung.backward)


@pytest.mark.parametrize("kind", ["independent", "squares", "heavy tails"])
@pytest.mark.parametrize(("d", "seeds"), [(2, 20), (8, 20), (64, 3)])
def test_unrelated_views(kind: str, d: int, seeds: int) -> None:
    right = 0
    for seed in range(seeds):
        rng = np.random.default_rng([seed, d])
        X = rng.normal(size=(4000, d))
        Y = {
            "independent": rng.normal(size=(4000, d)),
            "squares": X**2,
            "heavy tails": rng.standard_t(3, size=(4000, d)),
        }[kind]
        right += choose_group(*case(X, Y))[0] == "unrelated"
    assert right >= seeds - seeds // 20


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("d", [2, 8])
def test_a_bent_axis_is_not_the_identity(d: int, seed: int) -> None:
    """An elementwise tanh is no identity, and the error says that nothing affine explains it."""
    X = np.random.default_rng([seed, d]).normal(size=(4000, d))
    group, rung = choose_group(*case(X, np.tanh(X)))
    assert group not in ("identity", "unrelated")
    assert rung.error > 0.15


def test_reordered_and_then_bent_axes_stay_axes() -> None:
    X = np.random.default_rng(0).normal(size=(4000, 6))
    assert choose_group(*case(X, np.tanh(X[:, ::-1])))[0] == "monomial"


@pytest.mark.parametrize("far", [50.0, 1000.0])
def test_a_far_mean_hides_a_shift_and_the_audit_says_so(far: float) -> None:
    """A linear map can use a far mean as its shift: `linear` is named, with a warning."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 4)) + far
    Y = X @ (rotation(rng, 4) * [0.4, 1.0, 2.0, 2.5] @ rotation(rng, 4)) + 1.0
    pair = ik.audit([X, Y]).comparisons[0]
    assert pair.group == "linear"
    assert any("linear and affine cannot be told apart" in warning for warning in pair.warnings)
    centred = ik.audit([X - far, Y]).comparisons[0]
    assert centred.group == "affine"
    assert not any("cannot be told apart" in warning for warning in centred.warnings)


def test_linear_with_a_mean_under_noise() -> None:
    """Back from y, noise drowns the axis that A shrinks; only an affine fit can go to the mean.

    The true inverse misses x by more than e/√(1 − e²), as the directions' errors differ.
    """
    found = []
    for seed in range(20):
        X, Y = planted("linear", seed, 2, 0.2, style="unequal spreads", mean=0.5)
        found.append(choose_group(*case(X, Y))[0])
    assert found.count("linear") >= 19


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("n", "d", "folds"), [(60, 50, 10), (65, 50, 5), (120, 100, 5)])
def test_few_rows_for_the_width_still_show_a_rotation(
    n: int, d: int, folds: int, seed: int
) -> None:
    """n of 1.2 or 1.3 d: a free linear map overfits, a rotation does not."""
    X, Y = planted("rigid", seed, d, 0.05, n=n, style="isotropic")
    rungs, unshrunk = case(X, Y, folds)
    assert choose_group(rungs, unshrunk)[0] == "rigid"
    assert rungs[-1].error > 0.2


@pytest.mark.parametrize("seed", range(12))
def test_fewer_training_rows_than_columns_are_not_called_unrelated(seed: int) -> None:
    """With 48 training rows for 50 columns not even a rotation is determined; related it is."""
    X, Y = planted("rigid", seed, 50, 0.05, n=60, style="isotropic")
    assert choose_group(*case(X, Y))[0] in ("rigid", "linear")


def rung(group: str, forward: float, backward: float, half: float = 0.01) -> Rung:
    ends = [(max(e - half, 0.0), e + half) for e in (forward, backward)]
    worse = int(backward > forward)
    errors = forward, backward
    return Rung(group, errors[worse], ends[worse], forward, ends[0], backward, ends[1])


def judge(ladder: list[Rung], slack: float = SLACK) -> tuple[str, Rung]:
    return choose_group(ladder, (0.0, 0.0), slack)


def test_a_rung_within_the_slack_is_taken() -> None:
    best = rung("affine", 0.1, 0.1)
    for excess, expected in ((0.02, "rigid"), (0.04, "affine")):
        other = rung("rigid", 0.1 + excess, 0.1 + excess)
        assert judge([other, best])[0] == expected
    assert judge([rung("rigid", 0.14, 0.14), best], slack=0.05)[0] == "rigid"


def test_the_allowance_shrinks_with_what_is_explained() -> None:
    assert judge([rung("rigid", 0.02, 0.02), rung("affine", 0.0, 0.0)])[0] == "rigid"
    assert judge([rung("rigid", 0.97, 0.97), rung("affine", 0.95, 0.95)])[0] == "affine"


def test_attenuation_is_allowed_in_one_direction_only() -> None:
    e = 0.4
    attenuated = e / np.sqrt(1 - e**2)  # 0.436, beyond the slack alone
    best = rung("affine", e, e)
    assert judge([rung("rigid", e, attenuated), best])[0] == "rigid"
    assert judge([rung("rigid", attenuated, e), best])[0] == "rigid"
    assert judge([rung("rigid", attenuated, attenuated), best])[0] == "affine"


def test_unrelated_needs_every_interval_to_reach_one() -> None:
    assert judge([rung("affine", 0.995, 0.995)])[0] == "unrelated"
    assert judge([rung("affine", 0.98, 1.1)])[0] == "affine"
    # The rung returned is the best one, so that its error can be shown.
    name, shown = judge([rung("rigid", 1.4, 1.4), rung("affine", 1.002, 1.002)])
    assert (name, shown.group) == ("unrelated", "affine")


def test_one_direction_may_explain_nothing() -> None:
    """x explains its square's sign never, but a view with more in it may explain the other."""
    name, _ = judge([rung("rigid", 1.5, 1.5), rung("affine", 0.5, 1.001)])
    assert name == "affine"


def test_noise_excuses_no_rung_that_explains_less_than_half() -> None:
    """A linear map that does worse than the mean, or an identity that does no better."""
    assert judge([rung("linear", 1.29, 0.65), rung("affine", 0.93, 0.64)])[0] == "affine"
    assert judge([rung("identity", 0.71, 1.0), rung("affine", 0.71, 0.71)])[0] == "affine"
