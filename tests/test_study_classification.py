"""roeder-classification: the teacher's labels, values a seed, planted pairs, claims, a run."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from conftest import close
from identikit.errors import InputError
from identikit.studies import INCONCLUSIVE, NOT, REPRODUCED, UNMEASURED, Settings, per_seed, run
from identikit.studies import _students as units
from identikit.studies import roeder_classification as study
from study_units import stopped_and_resumed

pytest.importorskip("torch")

SETTINGS = Settings(study.STUDY.presets["smoke"])
TINY = {"snapshots": [40], "teacher_steps": 60, "rows": 200}


def pairs_of(u: np.ndarray) -> pd.DataFrame:
    """All pairs of seeds; their value is the mean of two numbers, one a seed."""
    rows = [(a, b, np.mean([u[a], u[b]])) for a, b in combinations(range(len(u)), 2)]
    return pd.DataFrame(rows, columns=["a", "b", "cca_f"])


def test_values_a_seed_of_an_additive_table(rng: np.random.Generator) -> None:
    """If every pair is the mean of what its seeds have, that is what each seed gets back."""
    u = rng.normal(size=7)
    close(per_seed(pairs_of(u), "cca_f"), u, 1e-12)


def test_values_a_seed_have_the_mean_of_all_pairs(rng: np.random.Generator) -> None:
    pairs = pairs_of(np.zeros(5)).assign(cca_f=rng.normal(size=10))
    close(np.mean(per_seed(pairs, "cca_f")), pairs["cca_f"].mean(), 1e-12)
    assert per_seed(pairs[:1], "cca_f") == [pairs["cca_f"][0]]


def test_labels_are_drawn_from_the_teachers_softmax() -> None:
    import torch

    torch.manual_seed(0)
    teacher = units.build(SETTINGS)
    drawn = (units.by_teacher(20_000, np.random.default_rng(s), SETTINGS, teacher) for s in (3, 3))
    (x, y), (again, same) = drawn
    assert torch.equal(x, again)
    assert torch.equal(y, same)
    with torch.no_grad():
        p = (teacher.f(x) @ teacher.g().T).softmax(1).double()
    # A label's count is a sum of independent draws: its mean and variance are known.
    counts = torch.bincount(y, minlength=18)
    z = (counts - p.sum(0)) / (p * (1 - p)).sum(0).sqrt()
    assert z.abs().max() < 5
    # And they follow p from point to point, not only on average.
    likelihood, entropy = p.gather(1, y[:, None]).log().mean(), (p * p.log()).sum(1).mean()
    close(likelihood.item(), entropy.item(), 0.05)
    most_likely = Settings({**SETTINGS, "labels": "argmax"})
    x, y = units.by_teacher(500, np.random.default_rng(4), most_likely, teacher)
    with torch.no_grad():
        assert torch.equal(y, (teacher.f(x) @ teacher.g().T).argmax(1))


def planted(turn_f: np.ndarray, turn_g: np.ndarray) -> dict[str, object]:
    rng = np.random.default_rng(0)
    f, g = 3 * rng.normal(size=(500, 2)), rng.normal(size=(18, 2))
    both = np.stack([f, f @ turn_f.T]), np.stack([g, g @ turn_g.T + 5.0])
    (row,) = units.compare(1e-3, 7, *both).rows
    return row


def test_a_planted_map_is_found() -> None:
    A = np.array([[2.0, 1.0], [0.5, -1.0]])
    row = planted(A, np.linalg.inv(A).T)
    assert (row["lr"], row["step"], row["a"], row["b"]) == (1e-3, 7, 0, 1)
    assert row["finding"] == "same distribution"
    assert row["group"] == "linear"
    close([row["cca_f"], row["cca_g"], row["cca_f_held_out"]], [1, 1, 1], 1e-9)
    close([row["kappa"], row["kappa_raw"], row["logit_gap"], row["error"]], [0] * 4, 1e-6)


def test_counter_rotation_has_full_cca_and_no_one_map() -> None:
    c = np.sqrt(0.5)
    turn = np.array([[c, -c], [c, c]])
    row = planted(turn, turn.T)
    close([row["cca_f"], row["cca_g"]], [1, 1], 1e-9)
    close(row["kappa_raw"], np.sqrt(2), 1e-9)
    assert row["finding"] == "not by one map"


def test_the_scatter_maps_a_to_b(rng: np.random.Generator) -> None:
    f = rng.normal(size=(3, 200, 2))
    f[2] = f[0] @ [[1.0, 2.0], [0.0, 3.0]]
    pairs = pairs_of(np.zeros(3)).assign(cca_f=[0.1, 1.0, 0.2])
    table = study.scatter(pairs, f)
    best, worst = (table[table["pair"] == which] for which in ("most alike", "least alike"))
    assert (best["a"].iloc[0], best["b"].iloc[0]) == (0, 2)
    assert (worst["a"].iloc[0], worst["b"].iloc[0]) == (0, 1)
    target, image = (best[[f"{name}_1", f"{name}_2"]].to_numpy() for name in ("target", "image"))
    close(target, f[2, 1::2], 1e-12)
    close(image, target, 1e-9)


def curves(values: dict[int, float], column: str = "cca_f", lr: float = 1e-4) -> pd.DataFrame:
    """A table of pairs of four seeds that all have the same curve, but for a hundredth of it."""
    parts = [
        pairs_of(value * (1 + 0.001 * np.arange(4))).rename(columns={"cca_f": column})
        for value in values.values()
    ]
    steps = [step for step in values for _ in range(6)]
    return pd.concat(parts, ignore_index=True).assign(step=steps, lr=lr)


def find(key: str, **tables: pd.DataFrame) -> tuple[str, float | None]:
    (claim,) = (claim for claim in study.STUDY.claims if claim.key == key)
    found = claim.check(tables)
    return found.verdict, found.value


def test_when_similarity_is_reached() -> None:
    reached = {0: 0.2, 250: 0.8, 4000: 0.988, 12000: 0.99}
    late = {0: 0.2, 250: 0.8, 4000: 0.9, 12000: 0.99}
    verdict, left = find("when", pairs=curves(reached))
    assert verdict == REPRODUCED
    close(left, 0.002, 1e-4)
    assert find("when", pairs=curves(late))[0] == NOT
    for short in ({0: 0.2, 4000: 0.985}, {0: 0.2, 2000: 0.985, 12000: 0.985}):
        assert find("when", pairs=curves(short)) == (INCONCLUSIVE, None)


def test_claims_about_the_end() -> None:
    assert find("grows", pairs=curves({0: 0.2, 5: 0.4, 9: 0.5}))[0] == REPRODUCED
    assert find("grows", pairs=curves({0: 0.5, 5: 0.4, 9: 0.2}))[0] == NOT
    # The whole curve counts, not its ends alone.
    assert find("grows", pairs=curves({0: 0.2, 3: 0.9, 6: 0.1, 9: 0.21}))[0] == NOT
    assert find("f", pairs=curves({0: 0.2, 9: 0.998}))[0] == REPRODUCED
    assert find("f", pairs=curves({0: 0.2, 9: 0.9}))[0] == NOT
    assert find("g", pairs=curves({0: 0.2, 9: 0.9}, "cca_g"))[0] == NOT


def test_a_gap_above_the_tolerance_is_a_failure_even_if_it_falls() -> None:
    assert find("kappa", pairs=curves({0: 1.0, 9: 0.05}, "kappa"))[0] == REPRODUCED
    assert find("kappa", pairs=curves({0: 1.0, 9: 0.2}, "kappa"))[0] == NOT
    assert find("logits", pairs=curves({0: 1.0, 9: 0.05}, "logit_gap"))[0] == REPRODUCED
    assert find("logits", pairs=curves({0: 1.0, 9: 0.2}, "logit_gap"))[0] == NOT


def test_learning_rates_and_the_input() -> None:
    slow, fast = curves({0: 0.2, 9: 0.9}), curves({0: 0.2, 9: 0.95}, lr=1e-3)
    rows = [{"lr": lr, "step": 9, "seed": s} for lr in (1e-4, 1e-3) for s in range(3)]
    seeds = pd.DataFrame(rows).assign(cca_input=[0.2] * 3 + [0.97, 0.98, 0.975])
    fits = seeds.assign(kl=[0.2] * 3 + [0.1] * 3)
    assert find("lr", pairs=slow, seeds=fits[:3]) == (UNMEASURED, None)
    verdict, gain = find("lr", pairs=pd.concat([slow, fast]), seeds=fits)
    assert verdict == REPRODUCED
    close(gain, 0.05, 1e-3)
    # The better fit, not the larger rate, has to be the more alike.
    worse = seeds.assign(kl=[0.1] * 3 + [0.2] * 3)
    assert find("lr", pairs=pd.concat([slow, fast]), seeds=worse)[0] == NOT
    assert find("input", seeds=seeds)[0] == REPRODUCED
    assert find("input", seeds=seeds.assign(cca_input=[0.2, 0.3, 0.4] * 2))[0] == NOT


def test_settings_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="labels is 'hard'; expected one of sampled, argmax"):
        run(study.STUDY, folder=tmp_path / "a", settings={"labels": "hard"})
    with pytest.raises(InputError, match="seeds is 1; students are compared in pairs"):
        run(study.STUDY, folder=tmp_path / "b", seeds=1)


@pytest.mark.slow
def test_smoke(tmp_path: Path) -> None:
    result = run("roeder-classification", folder=tmp_path)
    assert set(result.tables) == {"mean", "pairs", "seeds", "scatter", "teacher"}
    mean = result.tables["mean"]
    assert list(mean["step"]) == [0, 100, 250, 500]
    # Chance is far below an untrained pair, that below a trained one; both maps agree in the end.
    first, last = mean.iloc[0], mean.iloc[-1]
    assert first["chance_f"] < first["cca_f_mean"] < 0.5 < 0.97 < last["cca_f_mean"]
    assert last["cca_g_mean"] > 0.97
    assert last["cca_untrained"] < 0.8
    for column in ("kappa_median", "logit_gap_median", "kl_teacher"):
        assert last[column] < 0.3 * first[column], column
    assert result.tables["teacher"]["accuracy"][0] > 0.8
    assert len(result.findings) == len(study.STUDY.claims)
    assert result.findings["grows"].verdict == REPRODUCED
    assert result.findings["when"].verdict == INCONCLUSIVE
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_run_that_was_stopped_ends_with_the_same_numbers(tmp_path: Path) -> None:
    whole, resumed = stopped_and_resumed(study.STUDY, tmp_path, TINY, "students,lr=0.001")
    # Teacher and students were there, pairs were not.
    assert (whole.resumed, resumed.resumed) == (0, 2)
    assert list(whole.tables["mean"]["step"]) == [0, 40]
