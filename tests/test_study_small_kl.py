"""The study of Table 1 and Figure 2 of Nielsen et al.: its numbers, and that its checks can fail.

N8 to N11 number the fixtures of the paper's formula sheet; values without another source were
measured with an independent implementation.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from conftest import close
from identikit.studies import INCONCLUSIVE, NOT, REPRODUCED, UNMEASURED, Settings, Tables, find, run
from identikit.studies.nielsen_small_kl import (
    MOVED,
    RADIUS,
    K,
    directions,
    embeddings,
    measure,
    noise_free_kl,
)

STUDY = find("nielsen-small-kl")
CHECKS = {claim.key: claim.check for claim in STUDY.claims}
#: rho and d_KL of N9; the row of rho = 3 is published.
TABLE = {
    1: 0.7876,
    3: 0.8866,
    5: 0.3819,
    8: 6.858e-2,
    10: 1.972e-2,
    12: 5.451e-3,
    15: 7.649e-4,
    18: 1.039e-4,
    20: 2.736e-5,
}
#: d_KL without noise.
N8 = {3: 0.880400010, 10: 0.01814028027, 20: 1.949007695e-5}


def test_the_second_model_moves_the_labels_as_published():
    assert MOVED.tolist() == [5, 0, 2, 4, 6, 1, 3]


def test_clusters_move_with_their_radii_and_take_the_angles_of_their_new_place(rng):
    f, moved = embeddings(200, rng)
    radii, angles = np.linalg.norm(f, axis=-1), np.arctan2(f[..., 1], f[..., 0])
    close(np.linalg.norm(moved, axis=-1), radii, 1e-14)
    assert radii.min() >= RADIUS
    close(radii.mean(), RADIUS + 0.01 * np.sqrt(2 / np.pi), 2e-3)
    off = (angles - 2 * np.pi * np.arange(K)[:, None] / K + np.pi) % (2 * np.pi) - np.pi
    assert np.pi / 70 < np.abs(off).max() <= np.pi / 64
    # The same angles on unit vectors, cluster by cluster.
    close(moved / radii[..., None], (f / radii[..., None])[MOVED], 1e-14)


def test_without_noise_the_divergence_has_a_closed_form():
    """N8."""
    close([noise_free_kl(rho) / want for rho, want in N8.items()], np.ones(3), 1e-8)


def test_a_draw_has_the_numbers_of_the_table(seed):
    """N9 to N11."""
    settings = Settings({"per_label": 500, "rhos": list(TABLE), "candidates": 100})
    record = measure(seed, settings)
    rows = pd.DataFrame(record.rows)
    close(rows["kl"] / np.array(list(TABLE.values())), np.ones(len(TABLE)), 0.03)
    close(rows["llv"], np.full(len(TABLE), 1.317), 0.003)
    assert rows["cca"].max() < 0.005
    assert rows["svd_f"].min() > 0.998
    close(rows["svd_g"], np.ones(len(TABLE)), 1e-9)
    assert record.arrays["embeddings"].shape == (2, K, 30, 2)


def test_the_loss_is_that_of_the_worse_model(seed):
    settings = Settings({"per_label": 50, "rhos": [3, 10], "candidates": 1})
    for row in measure(seed, settings).rows:
        losses = []
        for f, order in zip(embeddings(50, np.random.default_rng(seed)), (np.arange(K), MOVED)):
            logits = f @ (row["rho"] * directions(2 * np.pi * np.arange(K) / K)[order]).T
            right = np.stack([logits[label, :, label] for label in range(K)])
            losses.append(np.mean(np.log(np.exp(logits).sum(axis=-1)) - right))
        close(row["nll"], max(losses), 1e-12)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    result = run(
        "nielsen-small-kl", preset="smoke", folder=tmp_path_factory.mktemp("study") / "out"
    )
    assert {key: found.verdict for key, found in result.findings.items()} == dict.fromkeys(
        CHECKS, REPRODUCED
    )
    return result.tables


def changed(tables: Tables, **factors: float) -> Tables:
    draws = tables["draws"].copy()
    for column, factor in factors.items():
        draws[column] *= factor
    return tables | {"draws": draws}


@pytest.mark.parametrize(
    ("key", "factors"),
    [
        ("kl-3", {"kl": 1.02}),
        ("kl-3", {"kl": 0.98}),
        ("kl-18", {"kl": 2.0}),
        ("kl-18", {"kl": 0.4}),
        ("llv", {"llv": 0.99}),
        ("cca", {"cca": 1000.0}),
        ("svd", {"svd_f": 0.9}),
        ("nll", {"nll": 1e4}),
    ],
)
def test_every_check_can_fail(tables: Tables, key: str, factors: dict[str, float]):
    assert CHECKS[key](changed(tables, **factors)).verdict == NOT


def test_one_draw_of_many_at_another_rho_is_seen(tables: Tables):
    """d_LLV must stay at every ρ: one that drifts at the largest is found."""
    draws = tables["draws"].copy()
    draws.loc[draws["rho"] == 18, "llv"] = 0.5
    assert CHECKS["llv"](tables | {"draws": draws}).verdict == NOT


@pytest.mark.parametrize("key", CHECKS)
def test_one_seed_concludes_nothing(tables: Tables, key: str):
    draws = tables["draws"]
    found = CHECKS[key](tables | {"draws": draws[draws["seed"] == 0]})
    assert (found.interval, found.verdict) == (None, INCONCLUSIVE)
    assert found.value is not None


def test_without_the_published_rho_nothing_is_concluded(tmp_path: Path):
    found = run("nielsen-small-kl", folder=tmp_path / "out", settings={"rhos": "5,6"}).findings
    assert (found["kl-3"].value, found["kl-3"].verdict) == (None, UNMEASURED)
    assert found["llv"].verdict == REPRODUCED


def test_the_table_of_means_is_the_mean_over_draws(tables: Tables):
    mean, draws = tables["mean"], tables["draws"]
    assert list(mean["rho"]) == STUDY.presets["smoke"]["rhos"]
    three = draws[draws["rho"] == 3]
    close(mean.loc[mean["rho"] == 3, "kl"].item(), three["kl"].mean(), 1e-15)
    close(mean.loc[mean["rho"] == 3, "kl_noise_free"].item(), N8[3], 1e-8)


def test_the_figure_shows_every_label_in_both_models(tables: Tables):
    figure = STUDY.figure(tables, Settings(STUDY.presets["smoke"]))
    first, second, _ = figure.axes
    for ax, order in ((first, np.arange(K)), (second, MOVED)):
        places = {text.get_text(): text.get_position() for text in ax.texts}
        for label in range(K):
            x, y = places[str(label)]
            turn = np.arctan2(y, x) * K / (2 * np.pi) % K
            close(round(turn) % K, order[label], 0)
