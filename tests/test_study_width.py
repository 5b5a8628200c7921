"""nielsen-width: the data, the networks, trends and shares with their intervals, planted pairs."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_ind

from conftest import close
from identikit.errors import InputError
from identikit.studies import INCONCLUSIVE, NOT, REPRODUCED, UNMEASURED, Record, Settings, run
from identikit.studies import _width_models as units
from identikit.studies import nielsen_width as study
from study_units import stopped_and_resumed

pytest.importorskip("torch")

TINY = {
    "classes": [4], "narrowest": [16], "times": [1], "widths": [16, 24], "steps": 20,
    "train": 500, "test": 200, "candidates": 20, "accuracy": 1.0,
}  # fmt: skip


def test_opposite_points_share_a_label() -> None:
    x, y = units.data(6, 500, units.TRAIN)
    other, _ = units.data(6, 500, units.TEST)
    assert x.dtype == np.float32
    assert not np.array_equal(x, other)
    # ⌊angle / (π/K)⌋ of the upper half plane, by the cotangent: it falls from sector to sector.
    upper = np.where(x[:, 1:] < 0, -x, x).astype(float)
    edges = 1 / np.tan(np.arange(1, 6) * np.pi / 6)
    np.testing.assert_array_equal((upper[:, :1] / upper[:, 1:] <= edges).sum(axis=1), y)


def test_networks_are_as_in_the_paper() -> None:
    import torch

    net = units.build(10, 16)
    shapes = [tuple(weight.shape) for weight in net.f.parameters() if weight.dim() == 2]
    assert shapes == [(16, 2), (16, 16), (16, 16), (2, 16)]
    assert [len(w) for w in net.parameters() if w.dim() == 1] == 6 * [16]
    assert next(net.g.parameters()).shape == (16, 9)
    # The last label is encoded as zeros, so that biases are all that it gets.
    close(net.g().detach()[9], net.g.module(torch.zeros(1, 9)).detach()[0], 1e-7)
    assert net.g()[9].abs().min() > 0
    assert net.bias is None


def test_networks_start_as_pytorch_s() -> None:
    """Weights and biases are uniform up to 1/√inputs, as in the authors' untrained checkpoints."""
    import torch

    torch.manual_seed(0)
    net = units.build(10, 128)
    for side in (net.f, net.g.module):
        for layer in (each for each in side.layers if isinstance(each, torch.nn.Linear)):
            for start in filter(lambda t: t is not None, (layer.weight, layer.bias)):
                largest = start.abs().max() * layer.in_features**0.5
                assert 0.8 < largest <= 1 + 1e-6
            # A uniform law; with He's the standard deviation would be 2.4 times as large.
            spread = layer.weight.std() * (3 * layer.in_features) ** 0.5
            close(spread.item(), 1.0, 0.2)


def tables_of(values: dict[int, np.ndarray], column: str = "llv") -> dict[str, pd.DataFrame]:
    """Tables of K = 4 in which a pair has the mean of what its seeds have."""
    rows = [
        {"classes": 4, "width": width, "trained": True, "a": a, "b": b, column: (u[a] + u[b]) / 2}
        for width, u in values.items()
        for a, b in combinations(range(len(u)), 2)
    ]
    pairs = pd.DataFrame(rows)
    mean = pairs.groupby(["classes", "width"], as_index=False)[column].mean().assign(counts=True)
    return {"pairs": pairs, "mean": mean}


def test_slope_of_two_widths_is_welchs_t(rng: np.random.Generator) -> None:
    narrow, wide = rng.normal(1.0, 0.2, size=6), rng.normal(0.8, 0.1, size=9)
    (cca,) = (claim.check for claim in study.STUDY.claims if claim.key == "cca-4")
    found = cca(tables_of({16: narrow, 32: wide}, "cca"))
    test = ttest_ind(wide, narrow, equal_var=False)
    expected = test.confidence_interval(0.95)
    close(found.value, wide.mean() - narrow.mean(), 1e-12)
    close(found.interval, [expected.low, expected.high], 1e-9)
    close(found.p, test.pvalue, 1e-9)
    # Four times the width is two doublings.
    close(cca(tables_of({16: narrow, 64: wide}, "cca")).value, found.value / 2, 1e-12)


def test_slope_of_a_distance_that_halves(rng: np.random.Generator) -> None:
    noise = rng.normal(scale=0.01, size=(4, 8))
    noise -= noise.mean(axis=1, keepdims=True)
    values = {2**k: 2.0**-k * (1 + each) for k, each in zip(range(4, 8), noise)}
    (llv,) = (claim.check for claim in study.STUDY.claims if claim.key == "llv-4")
    tables = tables_of(values)
    found, pairs = llv(tables), tables["pairs"]
    # Every width has as many pairs, so that the line through means is that through all pairs.
    close(found.value, np.polyfit(np.log2(pairs["width"]), np.log2(pairs["llv"]), 1)[0], 1e-9)
    close(found.value, -1, 1e-4)
    low, high = found.interval
    assert -1.05 < low < -1 < high < -0.95


def claim(key: str, tables: dict[str, pd.DataFrame]) -> tuple[str, float | None]:
    (check,) = (claim.check for claim in study.STUDY.claims if claim.key == key)
    found = check(tables)
    return found.verdict, found.value


def test_trends(rng: np.random.Generator) -> None:
    noise = 0.01 * rng.normal(size=6)
    falling, flat = {16: 0.5 + noise, 32: 0.3 + noise}, {16: 0.5 + noise, 32: 0.5 + noise[::-1]}
    assert claim("llv-4", tables_of(falling))[0] == REPRODUCED
    assert claim("cca-4", tables_of(falling, "cca"))[0] == REPRODUCED
    assert claim("fixed-4", tables_of(falling, "fixed"))[0] == NOT
    assert claim("llv-4", tables_of(flat))[0] == INCONCLUSIVE
    assert claim("llv-10", tables_of(flat)) == (UNMEASURED, None)
    few = tables_of(falling)
    few["mean"]["counts"] = [True, False]
    assert claim("llv-4", few) == (INCONCLUSIVE, None)


def test_bounds() -> None:
    pairs = pd.DataFrame({"trained": True, "representation": [0.1, 0.3], "bound": [1.0, 0.6]})
    assert claim("bound", {"pairs": pairs}) == (REPRODUCED, 0.5)
    assert claim("bound", {"pairs": pairs.assign(bound=0.2)})[0] == NOT
    untrained = pairs.assign(trained=False)
    assert claim("bound", {"pairs": untrained}) == (INCONCLUSIVE, None)


def test_share_of_models_that_passed() -> None:
    models = pd.DataFrame({"classes": 6, "width": 4 * [16] * 20, "kept": 80 * [True]})
    assert claim("kept-6", {"models": models}) == (REPRODUCED, 1.0)
    assert claim("kept-6", {"models": models.assign(kept=False)}) == (NOT, 0.0)
    assert claim("kept-6", {"models": models[:2]})[0] == INCONCLUSIVE
    assert claim("kept-4", {"models": models}) == (UNMEASURED, None)


def test_planted_pairs() -> None:
    """Equal distributions are 0 apart; a model below the accuracy takes no part."""
    rng = np.random.default_rng(0)
    f, g, A = rng.normal(size=(200, 2)), rng.normal(size=(6, 2)), np.array([[2.0, 1.0], [0.0, 1.0]])
    fs = np.stack([f, f @ A.T, rng.normal(size=f.shape)])
    gs = np.stack([g, g @ np.linalg.inv(A) + 3.0, rng.normal(size=g.shape)])
    rows = [{"seed": seed, "kept": seed < 2} for seed in range(3)]
    taught = Record(rows, {"f": np.stack([fs, fs]), "g": np.stack([gs, gs])})
    settings = Settings({"seeds": 3, "test": 200, "candidates": 20})
    table = pd.DataFrame(units.compare(6, 32, taught, settings).rows)
    assert list(zip(table["trained"], table["a"], table["b"])) == [
        (False, 0, 1), (False, 0, 2), (False, 1, 2), (True, 0, 1)
    ]  # fmt: skip
    same = table.iloc[-1]
    close(same[["llv", "representation", "fixed", "kl"]].to_numpy(float), np.zeros(4), 1e-9)
    close(same["cca"], 1.0, 1e-9)
    assert table["llv"][1] > 0.5
    close(table["bound"].to_numpy(), 4 * table["llv"].to_numpy(), 1e-12)


def test_settings_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="seeds is 2 and least is 3"):
        run(study.STUDY, folder=tmp_path / "a", seeds=2)
    with pytest.raises(InputError, match="seeds is 4 and least is 2"):
        run(study.STUDY, folder=tmp_path / "b", settings={"least": 2})
    with pytest.raises(InputError, match="classes has 3; embeddings in 2 dimensions need 4"):
        run(study.STUDY, folder=tmp_path / "c", settings={"classes": [6, 3]})
    with pytest.raises(InputError, match=r"times is \[1, 1\]; give one smallest width"):
        run(study.STUDY, folder=tmp_path / "d", settings={"classes": [6]})


def test_more_labels_have_wider_networks_and_more_seeds() -> None:
    settings = Settings(study.LAPTOP)
    assert units.seeds_of(6, settings) == range(100, 110)
    assert units.seeds_of(18, settings) == range(100, 120)


@pytest.mark.slow
def test_smoke(tmp_path: Path) -> None:
    result = run("nielsen-width", folder=tmp_path)
    mean, models, pairs = (result.tables[name] for name in ("mean", "models", "pairs"))
    assert list(zip(mean["classes"], mean["width"])) == [(4, 16), (4, 32), (6, 16), (6, 32)]
    assert models["kept"].equals(models["accuracy"] > 0.9)
    assert models["kept"].mean() > 0.7
    trained = pairs[pairs["trained"]]
    assert (trained["representation"] <= trained["certificate"] + 1e-12).all()
    assert (trained["representation"] <= trained["sharper_bound"]).all()
    # Trained networks are more alike than untrained ones.
    assert (mean["llv"] < mean["llv_untrained"]).all()
    assert (mean["cca"] > mean["cca_untrained"]).all()
    assert len(result.findings) == len(study.STUDY.claims)
    assert result.findings["bound"].verdict == REPRODUCED
    assert result.findings["fg-18"].verdict == UNMEASURED
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_no_model_passes_and_a_stopped_run_goes_on(tmp_path: Path) -> None:
    whole, resumed = stopped_and_resumed(study.STUDY, tmp_path, TINY)
    assert (whole.resumed, resumed.resumed) == (0, 1)
    assert not whole.tables["models"]["kept"].any()
    assert not whole.tables["pairs"]["trained"].any()
    assert whole.tables["mean"]["llv"].isna().all()
    assert whole.tables["mean"]["llv_untrained"].notna().all()
    verdicts = {key: found.verdict for key, found in whole.findings.items()}
    assert verdicts.pop("kept-4") == NOT
    assert set(verdicts.values()) == {INCONCLUSIVE, UNMEASURED}
