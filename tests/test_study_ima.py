"""reizinger-ima: its worlds and pictures, what it measures, and that its checks can fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import identikit as ik
from conftest import close
from identikit.studies import INCONCLUSIVE, NOT, REPRODUCED, UNMEASURED, Settings, Tables, run
from identikit.studies import _ima_fits as units
from identikit.studies import reizinger_ima as study
from identikit.studies._ima_fits import (
    COLOURS,
    HIGH,
    LARGEST,
    SMALL,
    USUAL,
    drawn,
    mixing,
    sprite_jacobian,
    sprites,
)

CHECKS = {claim.key: claim.check for claim in study.CLAIMS}
TINY = Settings(
    study.SMOKE
    | {"rows": 300, "test": 100, "steps": 3, "gammas": [SMALL, USUAL], "restarts": 2, "batch": 50}
    | {"picture_rows": 100, "picture_steps": 2, "contrasts": [1.0]}
)


# Worlds and pictures


def test_every_seed_has_a_world_of_its_own():
    x, z = drawn(0, 0.0, TINY)
    close(x.mean(axis=0), np.zeros(3), 1e-12)
    close((x**2).mean(), 1.0, 1e-12)
    assert np.abs(z).max() <= 0.5
    other = [mixing(seed, 1.0, 3).then.matrix for seed in (0, 1)]
    assert np.abs(other[0] - other[1]).max() > 0.1
    close(ik.ima_contrast(other[0]), [1.0], 1e-9)
    # The Möbius map and the linear one do not share their random numbers.
    assert np.abs(mixing(0, 1.0, 3).first.rotation - np.linalg.qr(other[0])[0]).max() > 0.1


def test_one_scale_for_all_entries_keeps_the_mixing_conformal():
    f = mixing(3, 0.0, 3)
    z = drawn(3, 0.0, TINY)[1]
    assert ik.ima_contrast(f.jacobian(z)).max() < 1e-12


@pytest.mark.parametrize("colour", COLOURS)
def test_pictures_show_their_factors(colour: str, rng: np.random.Generator):
    z = np.zeros((3, 4))
    z[1, 0], z[2, 2] = 0.5, 0.5
    middle, moved, larger = sprites(z, 12, colour).reshape(3, 2, 12, 12)
    assert middle.min() >= 0
    close(middle, middle[:, ::-1, ::-1], 1e-12)
    columns = np.arange(12) @ moved.sum((0, 1)) / moved.sum()
    close(columns, 5.5 + 0.5 * 0.4 * 12, 0.2)
    assert larger.sum() > 1.5 * middle.sum()
    z = rng.uniform(-0.5, 0.5, size=(5, 4))
    close(sprite_jacobian(z, 8, colour), sprite_jacobian(z, 8, colour, 1e-4), 1e-4)


def test_only_a_hue_moves_pixels_apart_from_the_size(rng: np.random.Generator):
    z = rng.uniform(-0.5, 0.5, size=(200, 4))
    contrasts = [ik.ima_contrast(sprite_jacobian(z, 12, colour)).mean() for colour in COLOURS]
    assert contrasts[0] < 1e-3 < 0.1 < contrasts[1] < 0.2 < 0.5 < contrasts[2]
    hue = sprites(z, 12, "hue").reshape(200, 2, -1)
    # Whatever the hue is, the sum of squares over channels is that of the disc.
    straight = z.copy()
    straight[:, 3] = 0
    close((hue**2).sum(1), (sprites(straight, 12, "hue").reshape(200, 2, -1) ** 2).sum(1), 1e-12)


# Units


def test_a_unit_marks_the_restart_with_the_best_elbo_of_each_part():
    pytest.importorskip("torch")
    rows = pd.DataFrame(units.moebius(1000, TINY).rows)
    assert len(rows) == 2 * 3
    for _, part in rows.groupby(["part", "gamma2"]):
        assert part["chosen"].sum() == 1
        assert part.loc[part["chosen"], "loss"].item() == part["loss"].min()
        assert part["group"].notna().tolist() == part["chosen"].tolist()
    close(rows.loc[rows["chosen"], "rotation"], np.full(3, 0.829), 0.03)
    again = pd.DataFrame(units.moebius(1000, TINY).rows)
    pd.testing.assert_frame_equal(rows, again)
    other = pd.DataFrame(units.moebius(1001, TINY).rows)
    assert (other["loss"] != rows["loss"]).all()


def test_the_other_units_have_their_parts():
    pytest.importorskip("torch")
    broken = pd.DataFrame(units.broken(1000, TINY).rows)
    assert set(broken["part"]) == {"broken", "broken, raised"}
    assert set(broken["gamma2"]) == {HIGH, LARGEST}
    gaussian = pd.DataFrame(units.gaussian(1000, TINY).rows)
    assert set(gaussian["part"]) == {"gaussian", "wrong prior"}
    pictures = pd.DataFrame(units.pictures(1000, TINY).rows)
    assert set(pictures["part"]) == {*COLOURS, "pictures"}
    assert (pictures.groupby("part")["true_contrast"].nunique() == 1).all()
    close(pictures["rotation"].dropna(), np.full(6, 0.773), 0.03)


def test_the_truth_as_the_decoder():
    torch = pytest.importorskip("torch")
    from identikit.studies._ima_fits import decoder

    for contrast in (0.0, 1.0):
        f = mixing(5, contrast, 3)
        z = np.random.default_rng(0).uniform(-0.5, 0.5, size=(10, 3))
        found = decoder(f, 0.25)(torch.from_numpy(z))
        close(found, f.forward(z) / 0.25, 1e-12)


def test_the_gap_of_the_truth_tends_to_its_contrast():
    """Within sampling error; and from above."""
    pytest.importorskip("torch")
    settings = Settings({**TINY, "gap_points": 50, "gap_steps": 40, "gap_gammas": [300.0, 3e6]})
    gap = pd.DataFrame(units.gaps(1000, settings).rows)
    left = (gap["gap"] - gap["local"]).to_numpy().reshape(2, 2)
    close(left[:, 1], np.zeros(2), 0.05)
    assert (left[:, 0] > left[:, 1] + 0.03).all()
    assert gap["linear"].abs().max() < 1e-9


# Checks, on tables that are made up

GOOD = {
    "mcc": 0.99,
    "contrast": 0.01,
    "ratio": 1.0,
    "log_mse": -3.0,
    "active": 3.0,
    "permutation": 0.06,
}
# What each part has in place of that, by part, γ² and C_IMA.
OWN: dict[tuple[str, float, float], dict[str, Any]] = {
    ("fixed", SMALL, 0.0): {"mcc": 0.3},
    ("fixed", 3.0, 0.0): {"mcc": 0.9, "log_mse": -1.0},
    ("fixed", USUAL, 0.0): {"excess": 0.01, "log_mse": -2.5},
    ("fixed", HIGH, 0.0): {"log_mse": -3.5},
    ("fixed", LARGEST, 0.0): {"mcc": 0.88, "excess": 1.2, "log_mse": -4.0},
    ("raised", LARGEST, 0.0): {},
    ("broken", HIGH, 0.5): {"mcc": 0.9, "contrast": 0.05},
    ("broken", HIGH, 1.0): {"mcc": 0.85, "contrast": 0.2},
    ("broken", HIGH, 2.0): {"mcc": 0.65, "contrast": 1.5, "active": 2.0},
    ("broken", HIGH, 4.0): {"mcc": 0.6, "contrast": 2.0, "active": 2.0},
    ("broken, raised", LARGEST, 0.5): {"mcc": 0.9},
    ("broken, raised", LARGEST, 1.0): {"mcc": 0.88, "excess": -0.7},
    ("gaussian", HIGH, 0.0): {"mcc": 0.83, "group": "rigid"},
    ("wrong prior", HIGH, 0.0): {"mcc": 0.82},
    ("hue", study.TEN_TIMES, 0.0): {},
    ("channel", study.TEN_TIMES, 0.1): {"mcc": 0.97},
    ("brightness", study.TEN_TIMES, 0.6): {"mcc": 0.84},
    ("pictures", study.COLLAPSED, 0.1): {"mcc": 0.3},
    ("pictures", study.GOOD, 0.1): {"mcc": 0.975},
    ("pictures", study.TEN_TIMES, 0.1): {"mcc": 0.85},
}


def made_up(
    seeds: int = 10, changes: dict[tuple[str, float, float], dict[str, Any]] | None = None,
    left: float = 0.0, slope: float = -0.1,
) -> Tables:  # fmt: skip
    """Tables in which every claim holds, but for changes to the columns of some parts."""
    rng = np.random.default_rng(0)
    rows = []
    for (part, gamma2, contrast), own in OWN.items():
        values = {**GOOD, "floor": 3.6, "excess": 0.1, "group": "affine", **own}
        values |= (changes or {}).get((part, gamma2, contrast), {})
        known = {"part": part, "gamma2": gamma2, "true_contrast": contrast}
        for seed in range(seeds):
            noisy = {
                name: value + 1e-4 * rng.normal() if isinstance(value, float) else value
                for name, value in values.items()
            }
            noisy["loss"] = noisy["floor"] + noisy["excess"]
            noisy["missing"] = np.log10(1 - noisy["mcc"])
            rows.append({**known, "seed": seed, "chosen": True, **noisy})
            # A second restart, which is worse where it may be, and as good as the first elsewhere.
            worse = part == "fixed"
            rows.append({**rows[-1], "chosen": False, "mcc": noisy["mcc"] - 0.1 * worse})
    gap = [
        {"seed": seed, "gamma2": gamma2, "true_contrast": c, "gap": c, "linear": 1e-10}
        | {"left": left + slope * (place - 2) + 1e-4 * rng.normal()}
        for seed in range(seeds)
        for place, gamma2 in enumerate((30.0, 3e3, 3e6))
        for c in (0.0, 1.0)
    ]
    return {"fits": pd.DataFrame(rows), "gap": pd.DataFrame(gap)}


def test_all_claims_hold_where_all_is_as_published():
    found = {key: check(made_up()).verdict for key, check in CHECKS.items()}
    assert found == dict.fromkeys(CHECKS, REPRODUCED)


AT_30, AT_3000 = ("fixed", USUAL, 0.0), ("fixed", LARGEST, 0.0)
MAPPED = ("broken, raised", LARGEST, 1.0)
BROAD = [("broken", HIGH, c) for c in (2.0, 4.0)]
FAR: dict[str, dict[tuple[str, float, float], dict[str, Any]]] = {
    "sources": {AT_30: {"mcc": 0.8}},
    "columns": {AT_30: {"contrast": 0.2}},
    "small-gamma": {("fixed", SMALL, 0.0): {"mcc": 0.8}},
    "gamma": {AT_30: {"mcc": 0.2}},
    "large-gamma": {AT_3000: {"mcc": 0.998}},
    "variance": {("raised", LARGEST, 0.0): {"ratio": 1.2}},
    "inverse": {AT_3000: {"log_mse": 1.0}},
    "broken": {key: {"mcc": 0.995} for key in BROAD},
    "broken-level": {key: {"mcc": 0.9} for key in BROAD},
    "broken-columns": {key: {"contrast": 0.0} for key in BROAD},
    "wrong-prior": {("wrong prior", HIGH, 0.0): {"mcc": 0.99}},
    "pictures": {("pictures", study.GOOD, 0.1): {"mcc": 0.8}},
    "pictures-small": {("pictures", study.COLLAPSED, 0.1): {"mcc": 0.8}},
    "pictures-large": {("pictures", study.TEN_TIMES, 0.1): {"mcc": 0.99}},
    "floor": {AT_30: {"excess": 0.4}},
    "rung": {AT_30: {"permutation": 0.3}},
    "large-floor": {AT_3000: {"excess": 0.1}},
    "raised": {("raised", LARGEST, 0.0): {"mcc": 0.8}},
    "silent": {key: {"active": 3.0} for key in BROAD},
    "other-axes": {MAPPED: {"contrast": 0.5}},
    "not-sources": {MAPPED: {"mcc": 0.99}},
    "better-than-truth": {MAPPED: {"excess": 0.3}},
    "gaussian": {("gaussian", HIGH, 0.0): {"mcc": 0.99}},
    "gaussian-rung": {("gaussian", HIGH, 0.0): {"group": "permutation"}},
    "gaussian-columns": {("gaussian", HIGH, 0.0): {"contrast": 0.3}},
    "hue": {("hue", study.TEN_TIMES, 0.0): {"mcc": 0.7}},
    "pictures-raised": {("channel", study.TEN_TIMES, 0.1): {"mcc": 0.7}},
}


@pytest.mark.parametrize("key", FAR)
def test_every_check_can_fail(key: str):
    assert CHECKS[key](made_up(changes=FAR[key])).verdict == NOT


def test_the_checks_of_the_gap_and_of_the_choice_can_fail_too():
    assert CHECKS["gap"](made_up(left=0.2)).verdict == NOT
    assert CHECKS["gap-falls"](made_up(slope=0.01)).verdict == NOT
    tables = made_up()
    linear = tables["gap"].assign(linear=1e-3)
    assert CHECKS["linear"](tables | {"gap": linear}).verdict == NOT
    fits = tables["fits"]
    worse = fits.assign(mcc=fits["mcc"] - 0.3 * fits["chosen"])
    assert CHECKS["choice"](tables | {"fits": worse}).verdict == NOT
    assert {*FAR, "gap", "gap-falls", "linear", "choice"} == set(CHECKS)


@pytest.mark.parametrize("key", [key for key in CHECKS if key != "linear"])
def test_one_seed_concludes_nothing(key: str):
    assert CHECKS[key](made_up(seeds=1)).verdict == INCONCLUSIVE


@pytest.mark.parametrize("key", [key for key in CHECKS if "gap" not in key and key != "linear"])
def test_what_was_not_trained_was_not_measured(key: str):
    tables = made_up()
    assert CHECKS[key](tables | {"fits": tables["fits"].iloc[:0]}).verdict == UNMEASURED


def test_the_figure_has_four_panels():
    figure = study.figure(made_up(2), Settings(study.LAPTOP))
    assert len(figure.axes) == 4
    labels = [text.get_text() for text in figure.axes[3].get_xticklabels()]
    assert labels == list(COLOURS)


@pytest.mark.slow
def test_smoke(tmp_path: Path):
    pytest.importorskip("torch")
    result = run("reizinger-ima", preset="smoke", folder=tmp_path / "out")
    assert set(result.findings) == set(CHECKS)
    assert result.findings["linear"].verdict == REPRODUCED
    fits, gap = result.tables["fits"], result.tables["gap"]
    left = gap.pivot_table("left", ["seed", "true_contrast"], "gamma2").to_numpy()
    assert (np.diff(left) < 0).all()
    known = fits["part"].isin(["fixed", "raised", "broken", "broken, raised"])
    assert (fits["floor"].notna() == (known & (fits["gamma2"].isin([USUAL, LARGEST])))).all()
