"""reizinger-curiosity: its worlds, what it measures, and that its checks can fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conftest import close
from identikit.studies import (
    INCONCLUSIVE,
    NOT,
    REPRODUCED,
    UNMEASURED,
    Data,
    Settings,
    Tables,
    Work,
    run,
)
from identikit.studies import reizinger_curiosity as study
from identikit.studies._curiosity import (
    AGENTS,
    ARMS,
    FEATURES,
    Seen,
    agent,
    agreement,
    features,
    picture,
    pixels,
    read_out,
    watched,
    world_of,
)

CHECKS = {claim.key: claim.check for claim in study.CLAIMS}
IDENTITIES = {claim.key for claim in study.CLAIMS if claim.kind == "check"}
TINY = Settings(
    study.SMOKE
    | {
        "updates": 8,
        "last": 4,
        "steps": 3,
        "long_steps": 4,
        "collapse_steps": 2,
        "test": 200,
        "hidden": [8],
    }
    | {"frames": 40, "pixel_steps": 2, "pixel_batch": 4}
)


# Worlds and measures


def test_every_seed_has_a_world_of_its_own():
    worlds = [world_of(seed) for seed in (0, 1)]
    assert np.abs(worlds[0].vectors - worlds[1].vectors).max() > 0.1
    assert np.abs(worlds[0].mixing.weights[0] - worlds[1].mixing.weights[0]).max() > 0.1
    assert all(world.check().ok for world in worlds)


def test_agreement_is_that_of_affine_maps_and_weighs_by_variance(rng: np.random.Generator):
    a = rng.normal(size=(2000, 4))
    close(agreement(a, a @ rng.normal(size=(4, 4)) + 3.0), 1.0, 1e-9)
    assert agreement(a, rng.normal(size=(2000, 4))) < 0.05
    # A coordinate that is all but constant, and has nothing in common with the other side.
    faint = [np.hstack([a, 1e-6 * rng.normal(size=(2000, 1))]) for _ in range(2)]
    close(agreement(*faint), 1.0, 1e-9)
    assert agreement(a[:, :2], a) < 0.6


def test_what_a_head_reads_are_the_directions_of_its_log_odds(rng: np.random.Generator):
    torch = pytest.importorskip("torch")

    class Head:
        def action_vectors(self) -> Any:
            vectors = np.zeros((9, 2 * FEATURES))
            vectors[:, FEATURES : FEATURES + 2] = rng.normal(size=(9, 2))
            return torch.from_numpy(vectors + 5.0)

    after = rng.normal(size=(500, FEATURES))
    found, share = read_out(Seen(after, after, after, 0.0), Head(), 2)
    close(share, 1.0, 1e-12)
    close(agreement(found, after[:, :2]), 1.0, 1e-9)


# Units


@pytest.mark.parametrize("name", ARMS)
def test_a_unit_of_features_has_a_row_a_world(name: str):
    pytest.importorskip("torch")
    rows = pd.DataFrame(features(name, TINY, 1000).rows)
    assert rows["seed"].tolist() == [1000, 1001]
    assert (rows["excess"] > 0).all()
    assert (rows["rank"] == 3).all()
    assert np.isfinite(rows.drop(columns="arm").to_numpy(float)).all()


def test_features_depend_on_their_seed_alone():
    pytest.importorskip("torch")
    both = [pd.DataFrame(features("inverse", TINY, 1000).rows) for _ in range(2)]
    pd.testing.assert_frame_equal(*both)
    assert both[0]["excess"].nunique() == 2


@pytest.mark.parametrize("arm", AGENTS)
def test_a_unit_of_an_agent(arm: str):
    pytest.importorskip("torch")
    pytest.importorskip("gymnasium")
    (row,) = agent(arm, 1000, TINY).rows
    assert 0 < row["std"] < 1
    assert ("intrinsic" in row) == (arm == "curious")
    assert row == pytest.approx(agent(arm, 1000, TINY).rows[0], nan_ok=True)


def test_pictures_are_of_the_field():
    frame = np.zeros((210, 160), np.uint8)
    frame[26:194] = np.arange(160)
    found = picture(frame)
    assert found.shape == (84, 84)
    assert found[0, :5].tolist() == [0, 0, 0, 2, 4]
    assert found[83, -3:].tolist() == [158, 158, 158]


def test_pong_is_watched_within_games():
    pytest.importorskip("torch")
    pytest.importorskip("ale_py")
    pictures, actions, places = watched(40, 1000)
    assert pictures.shape == (41, 84, 84)
    assert places.tolist() == list(range(3, 40))
    assert set(actions) <= set(range(6))
    again = watched(40, 1000)
    assert (again[0] == pictures).all()


def test_no_history_goes_across_the_end_of_a_game(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("torch")
    pytest.importorskip("ale_py")
    from identikit import learn

    class Short:
        """Games of five steps, in which a picture shows the step."""

        def reset(self, **_: Any) -> Any:
            self.time = 0
            return np.zeros((210, 160), np.uint8), {}

        def step(self, _: int) -> Any:
            self.time += 1
            return np.full((210, 160), self.time, np.uint8), 0.0, self.time == 5, False, {}

        def close(self) -> None:
            pass

    monkeypatch.setattr(learn, "environment", lambda *_, **__: Short())
    pictures, _, places = watched(14, 0)
    assert pictures[:, 0, 0].tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2]
    assert places.tolist() == [3, 4, 9, 10]


def test_a_unit_of_pixels():
    pytest.importorskip("torch")
    pytest.importorskip("ale_py")
    (row,) = pixels(1000, TINY).rows
    close(row["uniform"], np.log(6), 1e-12)
    assert 0 <= row["accuracy"] <= 1
    assert row["most"] >= 1 / 6
    assert row["loss"] > 1


# Checks, on tables that are made up

GOOD: dict[str, dict[str, dict[str, float]]] = {
    "agents": {
        "baseline": {"std": 0.42, "ratio": 1.0, "score": 350.0},
        "attention": {"std": 0.9, "ratio": 2.1, "score": 80.0},
        "rescaled": {"std": 0.33, "ratio": 0.8, "score": 340.0},
        "curious": {"std": 0.42, "ratio": 1.02, "score": 350.0, "intrinsic": 4e-4},
    },
    "features": {
        "inverse": {"excess": 0.02, "agreement": 0.98, "exogenous": 0.4, "shrunk": 2.0},
        "gated": {"excess": 0.06, "agreement": 0.9},
        "longer": {"excess": 0.01, "agreement": 0.99},
        "rescaled": {"excess": 0.03, "agreement": 0.97},
        "both": {"shrunk": 0.5},
        "forward": {"excess": 0.8, "shrunk": 0.04},
        "rational": {"excess": 0.8, "shrunk": 0.05},
    },
    "pixels": {"": {"loss": 1.55, "accuracy": 0.31, "uniform": np.log(6), "most": 0.18}},
}
USUAL = {"read_controllable": 0.995, "read_exogenous": 0.0, "read_agreement": 0.997}
EXACT = {"beats": -5.0, "rank": 3, "share": 0.9999}
Changes = dict[tuple[str, str], dict[str, float]]


def made_up(seeds: int = 10, changes: Changes | None = None) -> Tables:
    """Tables in which every claim holds, but for changes to the columns of some arms."""
    rng = np.random.default_rng(0)
    tables = {}
    for table, arms in GOOD.items():
        rows = []
        for arm, own in arms.items():
            values = {"shrunk": 1.0, "exogenous": 0.1, "agreement": 0.95, "excess": 0.1, **USUAL}
            values |= {**own, **(changes or {}).get((table, arm), {})}
            for seed in range(seeds):
                noisy = {k: v * (1 + 1e-3 * rng.normal()) for k, v in values.items()}
                fixed = {k: values.get(k, v) for k, v in EXACT.items()}
                rows.append({"arm": arm, "seed": seed, **noisy, **fixed})
        tables[table] = pd.DataFrame(rows)
    return tables


def test_all_claims_hold_where_all_is_as_published():
    found = {key: check(made_up()).verdict for key, check in CHECKS.items()}
    assert found == dict.fromkeys(CHECKS, REPRODUCED)


INVERSE, GATED = ("features", "inverse"), ("features", "gated")
FAR: dict[str, Changes] = {
    "feature-std": {("agents", "attention"): {"ratio": 1.1}},
    "curious-std": {("agents", "curious"): {"ratio": 1.3}},
    "controllable": {INVERSE: {"read_controllable": 0.9}},
    "exogenous": {INVERSE: {"read_exogenous": 0.2}},
    "collapse": {("features", "forward"): {"shrunk": 0.5}},
    "learns": {("agents", "baseline"): {"score": 40.0}},
    "rescaled-std": {("agents", "rescaled"): {"ratio": 1.8}},
    "gate-score": {("agents", "attention"): {"score": 400.0}},
    "rescaled-score": {("agents", "rescaled"): {"score": 50.0}},
    "intrinsic": {("agents", "curious"): {"intrinsic": 0.0}},
    "floor": {INVERSE: {"excess": 0.2}},
    "agree": {INVERSE: {"read_agreement": 0.8}},
    "kept": {INVERSE: {"exogenous": 0.01}},
    "gate-loss": {GATED: {"excess": 0.01}},
    "gate-agree": {GATED: {"agreement": 0.99}},
    "gate-longer": {("features", "longer"): {"excess": 0.06}},
    "gate-longer-agree": {("features", "longer"): {"agreement": 0.9}},
    "rescaled-loss": {("features", "rescaled"): {"excess": 0.2}},
    "rescaled-agree": {("features", "rescaled"): {"agreement": 0.8}},
    "both": {("features", "both"): {"shrunk": 0.05}},
    "rational": {("features", "rational"): {"shrunk": 0.5}},
    "pixels": {("pixels", ""): {"loss": 1.78}},
    "pixels-accuracy": {("pixels", ""): {"accuracy": 0.19}},
    "bayes": {GATED: {"beats": 6.0}},
    "rank": {INVERSE: {"rank": 2}},
    "read": {INVERSE: {"share": 0.9}},
}


@pytest.mark.parametrize("key", CHECKS)
def test_every_check_can_fail(key: str):
    assert CHECKS[key](made_up(changes=FAR[key])).verdict == NOT


@pytest.mark.parametrize("key", [key for key in CHECKS if key not in IDENTITIES])
def test_one_seed_concludes_nothing(key: str):
    assert CHECKS[key](made_up(seeds=1)).verdict == INCONCLUSIVE


@pytest.mark.parametrize("key", CHECKS)
def test_what_was_not_trained_was_not_measured(key: str):
    tables = {name: table.iloc[:0] for name, table in made_up().items()}
    assert CHECKS[key](tables).verdict == UNMEASURED


def test_the_figure_has_four_panels():
    assert len(study.figure(made_up(2), Settings(study.LAPTOP)).axes) == 4


def test_without_the_games_their_claims_are_not_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    pytest.importorskip("torch")
    monkeypatch.setattr(study, "find_spec", lambda _: None)
    (tmp_path / "units").mkdir()
    work = Work(tmp_path, TINY, Data(tmp_path), "digest", engine=None)
    tables = study.run(work)
    assert len(tables["features"]) == 2 * len(ARMS)
    for key, far in FAR.items():
        games = any(table != "features" for table, _ in far)
        assert (CHECKS[key](tables).verdict == UNMEASURED) == games, key
    assert len(study.figure(tables, TINY).axes) == 4


@pytest.mark.slow
def test_smoke(tmp_path: Path):
    pytest.importorskip("torch")
    pytest.importorskip("ale_py")
    result = run("reizinger-curiosity", preset="smoke", folder=tmp_path / "out")
    assert set(result.findings) == set(CHECKS)
    for key in IDENTITIES:
        assert result.findings[key].verdict == REPRODUCED
    agents = result.tables["agents"]
    assert (agents[agents["arm"] == "baseline"]["ratio"] == 1).all()
    assert len(agents) == 2 * len(AGENTS)
