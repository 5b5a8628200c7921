"""reizinger-cross-entropy: its arms, what it measures, and that its checks can fail."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ortho_group

from conftest import close
from identikit.family import SoftmaxModel
from identikit.studies import INCONCLUSIVE, NOT, REPRODUCED, UNMEASURED, Settings, Tables, run
from identikit.studies import reizinger_cross_entropy as study
from identikit.studies._cluster_arms import (
    SMALL,
    UNTOLD,
    Arm,
    another,
    arms,
    compared,
    correlations,
    decode,
    measure,
)

CHECKS = {claim.key: claim.check for claim in study.CLAIMS}
LAPTOP, SMOKE = Settings(study.LAPTOP), Settings(study.SMOKE)


# Arms


def test_arms_change_one_thing_at_a_time_and_none_comes_twice():
    found = arms(LAPTOP)
    assert len(set(found)) == len(found)
    assert len({str(arm) for arm in found}) == len(found)
    first = asdict(Arm())
    for arm in found:
        changed = {name for name, value in asdict(arm).items() if value != first[name]}
        assert len(changed - {"diet"}) <= 1 or set(SMALL) <= changed
    assert str(Arm()) == "first"
    assert str(Arm(kappa=50.0, diet=True)) == "kappa=50.0,diet=True"


def test_every_claim_speaks_of_arms_that_are_tried_at_laptop():
    tables = made_up()
    for key, check in CHECKS.items():
        assert check(tables).verdict != UNMEASURED, key


def test_a_seed_has_a_world_of_its_own_and_few_classes_are_no_noise():
    worlds = [Arm(classes=5).world(seed, SMOKE) for seed in (0, 0, 1)]
    close(worlds[0].vectors, worlds[1].vectors, 0)
    assert np.abs(worlds[0].vectors - worlds[2].vectors).max() > 0.1
    assert worlds[0].mixing.weights[0].shape == (5, 5)
    assert Arm(diet=True).world(0, SMOKE).instances == 200


# What is measured


def oracle(arm: Arm, change: Any = None) -> dict[str, Any]:
    """The row of a model that knows the truth, up to a change of its f and g."""
    world = arm.world(3, SMOKE)
    sample = world.sample(4000, 5)
    v = world.vectors
    if arm.diet:
        v = np.tile(v, (SMOKE.instances, 1))
    f, g = (sample.latents, arm.kappa * v) if change is None else change(sample.latents, v)
    return compared(arm, world, sample, SoftmaxModel(f, g))


def test_the_truth_itself_scores_one_at_its_floor(rng):
    Q = ortho_group.rvs(5, random_state=rng)
    row = oracle(Arm(case="C3", diet=True), lambda z, v: (10 * z @ Q.T, v @ Q.T))
    close([row["r2"], row["weights"]], [1.0, 1.0], 1e-9)
    close([row["off"], row["spread"]], [0.0, 0.0], 1e-9)
    assert abs(row["loss"] - row["floor"]) < 0.1
    assert row["rung"] == "similarity"
    assert row["observed"] < 0.9
    assert np.isnan(row["missing"])
    assert np.isnan(row["beta"])


def test_unit_features_have_their_own_scale_and_a_temperature(rng):
    Q = ortho_group.rvs(5, random_state=rng)
    row = oracle(Arm(case="C1", diet=True), lambda z, v: (z @ Q.T, 10 * v @ Q.T))
    close([row["off"], row["spread"], row["beta"]], [0.0, 0.0, 10.0], 1e-9)
    assert row["rung"] == "rigid"


def test_a_map_that_is_no_rotation_has_a_spread(rng):
    A = np.diag([1.0, 1, 1, 1, 2])
    row = oracle(Arm(), lambda z, v: (10 * z @ A, v @ np.linalg.inv(A)))
    close(row["spread"], 0.5, 1e-9)
    close(row["off"], 0.1, 1e-9)
    close(row["r2"], 1.0, 1e-9)


def test_what_the_classes_do_not_span_is_measured_apart():
    arm = Arm(classes=5)
    v = arm.world(3, SMOKE).vectors
    n = np.linalg.svd(v - v.mean(axis=0))[2][-1]
    row = oracle(arm, lambda z, v: (z - np.outer(z @ n, n), 10 * v))
    assert row["missing"] < 0.5 < row["r2"] < 0.95
    assert abs(row["loss"] - row["floor"]) < 0.05
    close(oracle(arm)["missing"], 1.0, 1e-9)


def test_there_is_no_floor_where_the_law_is_another():
    assert np.isnan(oracle(Arm(law="laplace"))["floor"])
    close(oracle(Arm(noise=1.0))["floor"], np.log(100), 1e-9)


def test_a_unit_trains_every_seed():
    pytest.importorskip("torch")
    rows = measure(Arm(case="C1", diet=True), Settings(study.SMOKE | {"steps": 3}), 1000).rows
    assert [row["seed"] for row in rows] == [1000, 1001]
    assert all(row["loss"] > row["floor"] for row in rows)
    assert all(0.9 < row["beta"] < 1.5 for row in rows)


@pytest.mark.parametrize(("classes", "there"), [(6, True), (8, True), (9, False), (20, False)])
def test_another_optimum_is_there_just_below_nine_classes(classes: int, there: bool, seed: int):
    row = another(classes, seed)
    assert (row["rank"], row["needed"]) == (min(classes, 9), 9)
    if there:
        assert row["gap"] < 1e-11
        assert row["spread"] > 0.1
    else:
        assert np.isnan(row["gap"])
        assert row["spread"] == 0


def test_readings_are_least_squares_on_rows_that_were_not_fitted(rng):
    x = rng.normal(size=(300, 4)) + 3
    factors = np.column_stack([x[:, 0] + 2, rng.normal(size=300)])
    plain, shifted = (correlations(x, factors, 200, shift) for shift in (False, True))
    assert shifted[0] > 1 - 1e-9
    assert plain[0] < 0.999
    assert abs(shifted[1]) < 0.3
    fit = np.linalg.lstsq(x[:200], factors[:200, 0], rcond=None)[0]
    close(plain[0], np.corrcoef(x[200:] @ fit, factors[200:, 0])[0, 1], 1e-12)


def test_images_are_read_by_pixels_and_by_features_before_and_after():
    pytest.importorskip("torch")
    tiny = Settings(study.SMOKE | {"images": 80, "features": 8, "image_steps": 2})
    rows = pd.DataFrame(decode(1000, tiny).rows)
    assert set(rows["source"]) == {"pixels", "untrained", "trained"}
    assert list(rows["factor"].unique()) == list(UNTOLD)
    assert rows["r"].between(-1, 1).all()
    assert rows["accuracy"].between(0, 1).all()


# Checks, on tables that are made up


def made_up(seeds: int = 10, **changes: float) -> Tables:
    """Tables in which every claim holds; a change is added to an arm's column, "arm:column"."""
    rng = np.random.default_rng(0)
    rows = []
    for arm in arms(LAPTOP):
        row = {"r2": 0.98, "observed": 0.69, "missing": np.nan, "weights": 0.998, "floor": 2.0}
        row |= {"gap": 0.03, "spread": 0.1, "off": 0.05, "beta": 10.0}
        row |= {"rung": {"C1": "rigid", "C2": "rigid", "C3": "similarity"}.get(arm.case)}
        row["r2"] -= 0.02 * (arm.d - 5) + 0.3 * (arm.kappa == 50) + 0.04 * (arm.classes == 10)
        row["r2"] -= {"laplace": 0.12, "normal": 0.01, "truncated": 0.01}.get(arm.law, 0)
        row["r2"] -= 0.7 * (arm.noise == 1)
        row["gap"] += 0.05 * (arm.d - 5) + 0.1 * (arm.kappa == 50)
        if arm.classes == 5:
            row |= {"missing": 0.02, "gap": 0.02}
        if arm.d == SMALL["d"]:
            row |= {"gap": 0.0, "spread": 0.02 + 0.8 * (arm.classes == 6)}
        for seed in range(seeds):
            own = dict(row)
            for column in ("r2", "weights", "gap", "spread", "off", "beta"):
                own[column] += 1e-4 * rng.normal()
            for name, change in changes.items():
                where, _, column = name.rpartition(":")
                if where == str(arm):
                    own[column] += change
            own["loss"] = own["floor"] + own["gap"]
            rows.append(asdict(arm) | {"seed": seed} | own)
    values = {"pixels": (0.6, 0.9), "untrained": (0.8, 0.955), "trained": (0.95, 0.97)}
    factors = [
        {"seed": seed, "source": source, "factor": factor, "r": r + 1e-3 * rng.normal()}
        | {"with_intercept": with_intercept + 1e-3 * rng.normal() + changes.get(source, 0)}
        for seed in range(seeds)
        for source, (r, with_intercept) in values.items()
        for factor in UNTOLD
    ]
    tables = {"worlds": pd.DataFrame(rows), "factors": pd.DataFrame(factors)}
    return tables | {"other optima": pd.DataFrame(others())}


@cache
def others() -> list[dict[str, Any]]:
    return [another(classes, seed) for classes in LAPTOP.quadric for seed in range(2)]


def test_all_claims_hold_where_all_is_as_published():
    found = {key: check(made_up()).verdict for key, check in CHECKS.items()}
    assert found == dict.fromkeys(CHECKS, REPRODUCED)


FAR = {
    "supervised": {"first:r2": -0.1},
    "diet": {"diet=True:r2": -0.1},
    "unit-weights": {"case=C3,diet=True:r2": -0.1},
    "weights": {"diet=True:weights": -0.05},
    "scale": {"case=C3,diet=True:off": 0.1},
    "temperature": {"case=C1,diet=True:beta": -2.0},
    "dimensions": {"d=10:r2": 0.5, "d=20:r2": 0.9},
    "diet-dimensions": {"d=10,diet=True:r2": 0.5},
    "few-classes": {"classes=10:r2": 0.1},
    "many-classes": {"classes=1000:r2": 0.05},
    "wide": {"kappa=5.0:r2": -0.05},
    "narrow": {"kappa=50.0:r2": 0.3},
    "diet-narrow": {"kappa=50.0,diet=True:r2": 0.3},
    "laplace": {"law=laplace:r2": 0.1},
    "normal": {"law=normal:r2": -0.1},
    "tails": {"law=truncated:r2": -0.3},
    "noise-50": {"noise=0.5:r2": -0.1},
    "noise-80": {"noise=0.8:r2": -0.1},
    "noise-100": {"noise=1.0:r2": 0.6},
    "observed": {"first:observed": 0.4},
    "too-few-floor": {"classes=5:gap": 0.2},
    "too-few-missing": {"classes=5:missing": 0.9},
    "narrow-gap": {"kappa=50.0:gap": -0.2},
    "dimensions-gap": {"d=10:gap": -1.0, "d=20:gap": -2.0},
    "quadric-below": {"d=3,classes=6,kappa=3.0,case=C3:spread": -0.8},
    "quadric-above": {"d=3,classes=20,kappa=3.0,case=C3:spread": 0.8},
    "images-intercept": {"pixels": -0.5},
    "images-learned-size": {"untrained": 0.3},
    "images-place-before": {"untrained": 0.3},
    "floors": {"first:gap": -0.2},
}


@pytest.mark.parametrize("key", FAR)
def test_every_check_can_fail(key: str):
    assert CHECKS[key](made_up(**FAR[key])).verdict == NOT


def test_the_checks_without_numbers_of_their_own_can_fail_too():
    tables = made_up()
    worlds = tables["worlds"].assign(rung="affine")
    assert CHECKS["rungs"](tables | {"worlds": worlds}).verdict == NOT
    factors = tables["factors"].assign(r=-tables["factors"]["r"])
    for key in ("images-size", "images-place"):
        assert CHECKS[key](tables | {"factors": factors}).verdict == NOT
    other = tables["other optima"].assign(gap=1e-3)
    assert CHECKS["other-optimum"](tables | {"other optima": other}).verdict == NOT
    tried = {*FAR, "rungs", "images-size", "images-place", "other-optimum"}
    assert tried == set(CHECKS)


@pytest.mark.parametrize("key", [key for key in CHECKS if key not in ("other-optimum", "floors")])
def test_one_seed_concludes_nothing(key: str):
    assert CHECKS[key](made_up(seeds=1)).verdict == INCONCLUSIVE


def test_seeds_that_did_not_come_down_say_nothing_of_optima():
    tables = made_up(**{"classes=5:gap": 0.5})
    found = CHECKS["too-few-missing"](tables)
    assert found.verdict == UNMEASURED
    assert "0% of seeds" in found.comment
    half = tables["worlds"].copy()
    some = (half["classes"] == 5) & (half["seed"] < 4)
    half.loc[some, "loss"] -= 0.5
    found = CHECKS["too-few-missing"](tables | {"worlds": half})
    assert found.verdict == REPRODUCED
    assert "40% of seeds" in found.comment


def test_what_was_not_tried_is_not_measured():
    tables = made_up()
    first = tables["worlds"][tables["worlds"]["noise"] == 0]
    for key in ("noise-50", "noise-80", "noise-100"):
        assert CHECKS[key](tables | {"worlds": first}).verdict == UNMEASURED


def test_the_figure_has_six_panels():
    figure = study.figure(made_up(2), LAPTOP)
    assert len(figure.axes) == 6
    labels = [text.get_text() for text in figure.axes[3].get_xticklabels()]
    assert labels == ["vMF", "Lap.", "nor.", "cut", "50%", "80%", "100%"]


@pytest.mark.slow
def test_smoke(tmp_path: Path):
    pytest.importorskip("torch")
    result = run("reizinger-cross-entropy", preset="smoke", folder=tmp_path / "out")
    assert set(result.findings) == set(CHECKS)
    assert result.findings["floors"].verdict == REPRODUCED
    assert result.findings["other-optimum"].verdict == REPRODUCED
    assert len(result.tables["worlds"]) == 2 * len(arms(SMOKE))
