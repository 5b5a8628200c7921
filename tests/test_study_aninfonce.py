"""reizinger-aninfonce: its arms, what it measures, and that its checks can fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conftest import close
from identikit.studies import INCONCLUSIVE, NOT, REPRODUCED, UNMEASURED, Data, Settings, Tables, run
from identikit.studies import reizinger_aninfonce as study
from identikit.studies._pair_arms import (
    ARMS,
    Arm,
    compared,
    degree,
    fit_at_truth,
    measure,
    true_loss,
    truth,
    world,
)
from identikit.worlds import AnisotropicPairs, Linear

CHECKS = {claim.key: claim.check for claim in study.CLAIMS}
LAPTOP, SMOKE = Settings(study.LAPTOP), Settings(study.SMOKE)


# Arms, and what is measured of them


def test_worlds_have_content_first_and_a_mixing_of_their_own():
    repeated, other, hard = (
        world(*which, SMOKE) for which in (("repeated", 0), ("repeated", 1), ("hard", 0))
    )
    assert repeated.concentrations == (25, 25, 25, 3, 3, 3)
    assert np.abs(repeated.mixing.weights[0] - other.mixing.weights[0]).max() > 0.1
    close(hard.effective, [12, 12, 12, 4, 4, 4], 1e-12)
    assert world("distinct", 0, SMOKE).concentrations == (32, 16, 8, 4, 2)
    assert world("repeated", 0, SMOKE, "approximate").sampler == "approximate"


def linear_world(arm: Arm) -> AnisotropicPairs:
    """The world of an arm, seen through a rotation and a reflection."""
    own = world(arm.world, 0, SMOKE)
    Q = np.linalg.qr(np.random.default_rng(1).normal(size=(own.d, own.d)))[0]
    return AnisotropicPairs(own.concentrations, Linear(Q), 0, "exact", own.negatives)


@pytest.mark.parametrize("name", ["aninfonce", "distinct", "hard"])
def test_the_truth_scores_one_at_its_own_loss(name: str):
    torch = pytest.importorskip("torch")
    from identikit.learn import Concentrations, Normalised, SoftmaxNet

    own = linear_world(ARMS[name])
    back = torch.nn.Linear(own.d, own.d, bias=False)
    back.weight.data = torch.from_numpy(own.mixing.matrix.T).float()
    shuffled = np.random.default_rng(0).permutation(own.d)
    back.weight.data = back.weight.data[shuffled]
    values = Concentrations(own.d, None, own.effective[shuffled].tolist())
    net = SoftmaxNet(Normalised(back), values).requires_grad_(False)
    row, learned = compared(ARMS[name], own, net, 0, SMOKE)
    close([row["content"], row["style"], row["mcc"]], [1, 1, 1], 1e-5)
    close([row["high"], row["low"]], [1, 1], 1e-5)
    close(learned, np.sort(own.effective), 1e-4)
    close(row["loss"], row["truth"], 1e-5)
    assert abs(row["degree"]) == pytest.approx(1, abs=0.01)
    assert (row["rung"], row["permutation"] < 1e-5) == ("permutation", True)
    assert row["inside"] == 1 if name == "distinct" else row["inside"] < 0.9


def test_a_fold_has_degree_zero_and_costs_a_latent():
    torch = pytest.importorskip("torch")
    from identikit.learn import Concentrations, Normalised, SoftmaxNet

    class Fold(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.cat([x[:, :-1], x[:, -1:].abs()], 1)

    own = AnisotropicPairs(np.repeat([25.0, 3.0], 3), Linear(np.eye(6)))
    folded = SoftmaxNet(Normalised(Fold()), Concentrations(6)).requires_grad_(False)
    row, _ = compared(Arm(), own, folded, 0, LAPTOP)
    assert abs(row["degree"]) < 0.1
    close([row["content"], row["style"]], [1, 2 / 3], 0.01)
    # The same points through a map that only turns them over have degree −1.
    z = own.sample(500, 0).latents
    mirrored = AnisotropicPairs(own.concentrations, Linear(np.diag([1.0, 1, 1, 1, 1, -1])))
    plain = SoftmaxNet(Normalised(torch.nn.Identity()), Concentrations(6))
    close(degree(plain, mirrored, z, mirrored.mixing.forward(z)), -1, 1e-5)


def test_one_temperature_costs_the_truth_and_the_best_one_costs_least():
    pytest.importorskip("torch")
    own = world("repeated", 0, SMOKE)
    known, fixed, learned = (
        true_loss(Arm(learnable=kind), own, 0, SMOKE) for kind in ("diagonal", None, "scalar")
    )
    assert known + 0.1 < learned < fixed - 0.1
    close(truth(6, 3.0).g.values.tolist(), np.full(6, 3.0), 1e-5)


@pytest.mark.slow
def test_concentrations_fitted_to_the_truth_and_two_rotations_of_it():
    pytest.importorskip("torch")
    rows = pd.DataFrame(fit_at_truth(1000, SMOKE).rows)
    assert list(rows["sampler"]) == ["exact", "approximate"]
    close(rows[["high", "low"]].to_numpy(), np.ones((2, 2)), 0.15)
    assert rows["inside"].max() < 1e-12
    assert rows["across"].min() > 0.01


@pytest.mark.parametrize("name", ARMS)
def test_a_unit_trains_one_network(name: str):
    pytest.importorskip("torch")
    record = measure(name, 1000, Settings(study.SMOKE | {"steps": 3, "warmup": 0}))
    (row,) = record.rows
    assert (row["arm"], row["seed"]) == (name, 1000)
    assert 0.3 < row["seen_style"] < 0.95
    learned = record.arrays["concentrations"]
    assert bool(np.ptp(learned) == 0) is (name in ("tau-1", "tau-learned"))


# Checks, on tables that are made up


def made_up(seeds: int = 10, **changes: float) -> Tables:
    """Tables in which every claim holds; a change is added to an arm's column, "arm:column"."""
    rng = np.random.default_rng(0)
    row = {"content": 0.99, "style": 0.98, "seen_content": 0.7, "seen_style": 0.7, "mcc": 0.83}
    row |= {"rotation": 0.69, "inside": 0.83, "permutation": 0.6, "high": 0.9, "low": 1.05}
    row |= {"truth": 3.0, "gap": 0.05, "degree": -1.0}
    own: dict[str, dict[str, float]] = {
        "aninfonce": {},
        "tau-1": {"content": 0.93, "style": 0.2, "gap": -0.1, "degree": 0.0},
        "tau-learned": {"style": 0.65, "gap": -0.7, "degree": 0.0},
        "distinct": {"mcc": 0.99, "inside": 1.0, "permutation": 0.1},
        "hard": {"gap": 0.01},
    }
    fits = {"high": 1.01, "low": 1.01, "inside": 0.0, "across": 2.0}
    images = {"aninfonce": (0.4, 0.22), "tau-fixed": (0.42, 0.14), "tau-learned": (0.4, 0.22)}

    def drawn(where: str, values: dict[str, Any], noisy: set[str]) -> dict[str, Any]:
        noise = {name: 1e-3 * rng.normal() * (name in noisy) for name in values}
        return {k: v + noise[k] + changes.get(f"{where}:{k}", 0) for k, v in values.items()}

    worlds, truths, read = [], [], []
    for seed in range(seeds):
        for arm, other in own.items():
            found = drawn(arm, row | other, set(row) - {"truth", "gap", "inside"})
            found["loss"] = found["truth"] + found["gap"]
            worlds.append({"arm": arm, "seed": seed} | found)
        for sampler in ("exact", "approximate"):
            where = {"sampler": sampler, "seed": seed}
            truths.append(where | drawn(sampler, fits, {"high", "low", "across"}))
        for loss, (classes, augmentations) in images.items():
            for trained in (False, True):
                values = {"classes": classes if trained else 0.3, "augmentations": augmentations}
                values = drawn(loss if trained else "untrained", values, set(values))
                read.append({"loss": loss, "seed": seed, "trained": trained} | values)
    learned = [
        {"arm": "aninfonce", "seed": seed, "latent": k, "true": 3.0, "learned": 3.1}
        for seed in range(seeds)
        for k in range(1, 7)
    ]
    tables = {"worlds": worlds, "truth": truths, "images": read, "concentrations": learned}
    return {name: pd.DataFrame(rows) for name, rows in tables.items()}


def test_all_claims_hold_where_all_is_as_published():
    found = {key: check(made_up()).verdict for key, check in CHECKS.items()}
    assert found == dict.fromkeys(CHECKS, REPRODUCED)


FAR = {
    "content": {"aninfonce:content": -0.1},
    "style": {"aninfonce:style": -0.3},
    "infonce-content": {"tau-1:content": -0.3},
    "infonce-style": {"tau-1:style": 0.5},
    "lambda-content": {"aninfonce:high": -0.3},
    "lambda-style": {"aninfonce:low": 0.5},
    "distinct": {"distinct:mcc": -0.2},
    "distinct-content": {"distinct:high": -0.3},
    "distinct-style": {"distinct:low": 0.5},
    "images-augmentations": {"tau-fixed:augmentations": 0.2},
    "images-classes": {"tau-fixed:classes": -0.05},
    "repeated": {"aninfonce:mcc": 0.17},
    "rungs": {"distinct:permutation": 0.6},
    "observed": {"aninfonce:seen_style": 0.295},
    "infonce-truth": {"tau-1:gap": 0.3},
    "learned-style": {"tau-learned:style": 0.3},
    "learned-truth": {"tau-learned:gap": 1.0},
    "learned-fold": {"tau-learned:degree": 1.0},
    "unfolded": {"aninfonce:degree": 1.0},
    "hard-content": {"hard:high": -0.3},
    "hard-style": {"hard:low": 1.0},
    "sampler": {"approximate:high": -0.1},
    "shrunk": {"aninfonce:high": 0.2},
    "across": {"exact:across": -2.0},
    "images-temperature": {"tau-learned:augmentations": -0.1},
    "images-accuracy": {"tau-learned:classes": 0.1},
    "images-learned": {"untrained:classes": 0.2},
    "inside": {"exact:inside": 0.1},
    "floor": {"aninfonce:gap": -0.2},
}


def test_every_claim_is_put_to_this():
    assert set(FAR) == set(CHECKS)


@pytest.mark.parametrize("key", FAR)
def test_every_check_can_fail(key: str):
    assert CHECKS[key](made_up(**FAR[key])).verdict == NOT


@pytest.mark.parametrize("key", [key for key in CHECKS if key not in ("inside", "floor")])
def test_one_seed_concludes_nothing(key: str):
    assert CHECKS[key](made_up(seeds=1)).verdict == INCONCLUSIVE


def test_seeds_that_did_not_come_down_say_nothing_of_optima():
    tables = made_up()
    worlds = tables["worlds"].copy()
    folded = (worlds["arm"] == "aninfonce") & (worlds["seed"] < 3)
    worlds.loc[folded, ["loss", "style"]] += [0.2, -0.3]
    found = CHECKS["style"](tables | {"worlds": worlds})
    assert found.verdict == REPRODUCED
    assert "of the 70% of seeds within 0.12" in found.comment


def test_without_images_their_claims_are_not_measured():
    tables = made_up() | {"images": pd.DataFrame(columns=study.COLUMNS)}
    for key, check in CHECKS.items():
        assert (check(tables).verdict == UNMEASURED) is key.startswith("images-")
    assert len(study.figure(tables, LAPTOP).axes) == 6


def test_what_serves_as_optional_images_is_named(tmp_path: Path):
    (need,) = study.STUDY.needs
    assert Data(str(tmp_path)).check([need]) == {need.file: "absent"}
    assert Data("grammar").check([need]) == {need.file: "absent"}
    assert Data("digits").check([need]) == {need.file: "stand-in digits"}


@pytest.mark.slow
def test_smoke(tmp_path: Path):
    pytest.importorskip("torch")
    result = run("reizinger-aninfonce", preset="smoke", folder=tmp_path / "out", data="digits")
    assert set(result.findings) == set(CHECKS)
    assert {result.findings[key].verdict for key in ("inside", "floor")} == {REPRODUCED}
    assert len(result.tables["worlds"]) == 2 * len(ARMS)
    # Of two seeds, before and after training, with each of three losses.
    assert len(result.tables["images"]) == 2 * 2 * 3


@pytest.mark.slow
def test_style_is_found_by_aninfonce_and_lost_at_temperature_one():
    """Six latents, λ = 25 and 3: R² of style .9 or more, against .5 or less."""
    pytest.importorskip("torch")
    (found,), (lost,) = (measure(name, 1000, LAPTOP).rows for name in ("aninfonce", "tau-1"))
    assert found["style"] > 0.9 > 0.5 > lost["style"]
    assert found["content"] > 0.95
    assert 0.8 < found["high"] < 1.2
    assert 0.8 < found["low"] < 1.2
