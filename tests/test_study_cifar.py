"""nielsen-cifar: the networks, what is compared, the claims, and a run of the preset."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conftest import close
from identikit.errors import InputError
from identikit.family import SoftmaxModel
from identikit.studies import INCONCLUSIVE, NOT, REPRODUCED, Record, Result, Settings, run
from identikit.studies import nielsen_cifar as study
from identikit.studies import nielsen_small_kl as small_kl
from identikit.studies._data import pixels

torch = pytest.importorskip("torch")


# Networks


def test_inputs_have_mean_and_sd_of_one_half(rng: np.random.Generator):
    images = rng.integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    x = pixels(images, 32)
    close(x, ((images / 255 - 0.5) / 0.5).transpose(0, 3, 1, 2), 1e-6)
    # A pixel of half the side is the mean of four.
    close(pixels(images, 16)[2, 1, 3, 5], x[2, 1, 6:8, 10:12].mean(), 1e-6)


def test_the_paper_s_f_is_resnet_18():
    """kuangliu/pytorch-cifar has 11,173,962 parameters with ten outputs; here are M of them."""
    net = study.build(2, 10, Settings(study.PAPER))
    count = sum(parameter.numel() for parameter in net.f.parameters())
    assert count == 11_173_962 - (512 * 10 + 10) + (512 * 2 + 2)


def test_g_has_three_hidden_layers_and_the_last_label_is_zero():
    net = study.build(5, 10, Settings(study.SMOKE))
    shapes = {name: tuple(p.shape) for name, p in net.g.module.named_parameters()}
    weights = [shape for name, shape in shapes.items() if "weight" in name]
    assert weights == [(128, 9), (128, 128), (128, 128), (5, 128)]
    assert sum("bias" in name for name in shapes) == 3
    close(net.g().detach()[9], net.g.module(torch.zeros(1, 9)).detach()[0], 1e-7)
    assert net.bias is None
    # As PyTorch's, biases do not start from zero: the last label has a vector from the start.
    assert net.g()[9].abs().min() > 0


def test_the_fast_layout_gives_the_same_numbers(rng: np.random.Generator):
    net = study.build(2, 10, Settings(study.SMOKE)).eval()
    x = torch.from_numpy(rng.normal(size=(3, 3, 16, 16)).astype(np.float32))
    plain = study.build(2, 10, Settings(study.SMOKE)).to(memory_format=torch.contiguous_format)
    plain.load_state_dict(net.state_dict())
    with torch.no_grad():
        close(net.f(x), plain.eval().f(x), 1e-5)


def test_the_fast_layout_resumes_with_the_same_numbers(tmp_path: Path, rng: np.random.Generator):
    """Stopped without warning after step 4, and started again."""
    from identikit.learn import shuffled, supervised, train

    x = torch.from_numpy(rng.normal(size=(64, 3, 16, 16)).astype(np.float32))
    y = torch.from_numpy(rng.integers(0, 10, 64))
    order = shuffled((x, y), 16)

    def breaks(step: int, seed: int) -> Any:
        if step == 4:
            raise OSError("the plug was pulled")
        return order(step, seed)

    build = partial(study.build, 2, 10, Settings(study.SMOKE))
    learn = partial(train, build, supervised, steps=8, seeds=(1,), data_seed=0, save_seconds=0.0)
    with pytest.raises(OSError, match="plug"):
        learn(batches=breaks, folder=tmp_path)
    resumed = learn(batches=order, folder=tmp_path)
    whole = learn(batches=order)
    close(resumed.embed(x)["seed 1"], whole.embed(x)["seed 1"], 0)
    close(resumed.history["loss"], whole.history["loss"], 0)


def test_loss_and_accuracy_by_hand():
    """Logits (2, 0) and (0, 0): losses log(1 + e²) and log 2 of label 1, the first one wrong."""
    model = SoftmaxModel(f=np.array([[2.0], [0.0]]), g=np.array([[1.0], [0.0]]))
    loss, accuracy = study.fit_of(model, np.array([1, 0]))
    close(loss, (np.log1p(np.exp(2)) + np.log(2)) / 2, 1e-12)
    assert accuracy == 0.5


# Pairs


def record(seed: int, f: Any, g: Any, loss: float, rng: np.random.Generator) -> Record:
    row = {"seed": seed, "loss": loss}
    return Record([row], {"f": f, "g": g, "untrained": rng.normal(size=f.shape)})


def test_a_gauge_leaves_nothing_between_two_networks(rng: np.random.Generator):
    f, g, A = rng.normal(size=(400, 2)), rng.normal(size=(6, 2)), rng.normal(size=(2, 2))
    moved = f @ A.T, g @ np.linalg.inv(A) + 1.0
    records = [record(5, f, g, 1.0, rng), record(9, *moved, 1.25, rng)]
    (pair,) = study.compare(2, records, Settings({"candidates": 20})).rows
    assert (pair["M"], pair["a"], pair["b"], pair["loss_difference"]) == (2, 5, 9, 0.25)
    close([pair["cca"], pair["cca_held_out"]], [1, 1], 1e-9)
    close([pair[name] for name in ("kl", "llv", "representation")], np.zeros(3), 1e-9)
    close(pair["cca_untrained"], pair["chance"], 0.1)


def test_labels_that_change_places_are_seen(rng: np.random.Generator):
    """The pair of Table 1 at ρ = 3: d_KL 0.8866, d_LLV 1.317, m_CCA 0, d_fg 1."""
    f, moved = (each.reshape(-1, 2) for each in small_kl.embeddings(500, rng))
    g = 3 * small_kl.directions(2 * np.pi * np.arange(7) / 7)
    records = [record(0, f, g, 1.0, rng), record(1, moved, g[small_kl.MOVED], 1.0, rng)]
    (pair,) = study.compare(2, records, Settings({"candidates": 100})).rows
    close(pair["kl"], 0.8866, 0.01)
    close(pair["llv"], 1.317, 0.003)
    close(pair["cca"], 0, 0.005)
    close(pair["representation"], 1, 0.002)


def test_a_scatter_has_the_same_number_of_every_class():
    labels = np.arange(1000) % 10
    f = np.stack([labels, np.arange(1000)], axis=1).astype(float)
    table = study.scatter({4: f, 7: -f}, labels, [f"class {k}" for k in range(10)])
    assert table.groupby(["seed", "class"]).size().eq(study.SHOWN).all()
    assert list(table["seed"].unique()) == [4, 7]
    of_three = table[table["class"] == "class 3"]
    assert set(of_three["x"]) == {3, -3}
    assert (of_three["y"].abs() % 10 == 3).all()


# Claims


def pairs_of(losses: list[float], ccas: list[float], M: int = 2, **columns: Any) -> dict[str, Any]:
    table = pd.DataFrame({"M": M, "loss_difference": losses, "cca": ccas})
    table = table.assign(a=range(len(table)), b=9, cca_untrained=0.3, chance=0.03, **columns)
    return {"pairs": table}


@pytest.mark.parametrize(
    ("ccas", "value", "verdict"),
    [
        ([0.9, 0.5, 0.7, 0.7, 0.6, 0.8], 0.3, REPRODUCED),
        ([0.9, 0.9, 0.7, 0.7, 0.6, 0.5], -0.3, NOT),
        ([0.75, 0.8, 0.2, 0.99, 0.7, 0.8], 0.05, NOT),
    ],
)
def test_near_losses_may_go_with_less_similarity(ccas: list[float], value: float, verdict: str):
    """Lowest of the nearest third, highest of the farthest; the middle third has no say."""
    losses = [0.01, 0.02, 0.1, 0.2, 0.3, 0.4]
    times = -(-study.MANY // 6)
    found = study.out_of_order(pairs_of(times * losses, times * ccas), 2)
    close(found.value, value, 1e-12)
    assert found.verdict == verdict
    # A few pairs neither confirm nor refute that something occurs.
    assert study.out_of_order(pairs_of(losses, ccas), 2).verdict == INCONCLUSIVE


def test_the_example_has_nearly_the_same_loss():
    many = study.MANY - 2
    tables = pairs_of([0.3, 0.04] + many * [0.01], [0.2, 0.6] + many * [0.9])
    found = study.dissimilar(tables)
    assert (found.value, found.verdict) == (0.6, REPRODUCED)
    assert study.dissimilar(pairs_of([0.01] * study.MANY, [0.9] * study.MANY)).verdict == NOT
    assert study.dissimilar(pairs_of([0.3, 0.04], [0.2, 0.6])).verdict == INCONCLUSIVE
    # Where no losses are near, the lowest of all is shown and decides nothing.
    far = study.dissimilar(pairs_of([0.3] * study.MANY, [0.2] + (study.MANY - 1) * [0.6]))
    assert (far.value, far.verdict) == (0.2, INCONCLUSIVE)
    assert "none is that near" in far.comment


@pytest.mark.parametrize(
    ("kl", "verdict"), [(1.6, REPRODUCED), (0.8, REPRODUCED), (2.0, NOT), (0.1, NOT)]
)
def test_a_printed_distance_is_met_within_a_factor(kl: float, verdict: str):
    """A miss is one, however well the networks fit; the accuracy stands in the comment."""
    others = study.MANY - 1
    tables = pairs_of([0.01] * study.MANY, [0.5] + others * [0.9], kl=[kl] + others * [9.0])
    tables["models"] = pd.DataFrame({"M": [2, 2, 3], "accuracy": [0.3, 0.4, 0.9]})
    found = study.like_published(tables, "kl", 1.131)
    assert (found.value, found.verdict) == (kl, verdict)
    assert "0.350" in found.comment
    few = {**tables, "pairs": tables["pairs"][:3]}
    assert study.like_published(few, "kl", 1.131).verdict == INCONCLUSIVE


def test_a_bound_that_is_broken_is_said():
    kept = pairs_of([0.1, 0.1], [0.5, 0.5], representation=[0.5, 0.2], bound=[0.8, 4.0])
    assert study.within(kept, "bound").verdict == REPRODUCED
    close(study.within(kept, "bound").value, 0.625, 1e-12)
    assert "1 pairs" in study.within(kept, "bound").comment
    broken = pairs_of([0.1, 0.1], [0.5, 0.5], representation=[0.5, 0.2], bound=[0.8, 0.1])
    assert study.within(broken, "bound").verdict == NOT


@pytest.mark.parametrize(
    ("change", "says"),
    [({"seeds": 1}, "in pairs"), ({"side": 20}, "divisor of 32"), ({"side": 0}, "divisor of 32")],
)
def test_settings_that_make_no_sense(tmp_path: Path, change: dict[str, Any], says: str):
    with pytest.raises(InputError, match=says):
        run("nielsen-cifar", folder=tmp_path, data="digits", settings=change)


# A run


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run("nielsen-cifar", folder=tmp_path_factory.mktemp("cifar") / "out", data="digits")


@pytest.mark.slow
def test_a_run_compares_all_pairs_of_every_dimension(smoke: Result):
    pairs, models = smoke.tables["pairs"], smoke.tables["models"]
    assert pairs.groupby("M").size().to_dict() == {2: 3, 3: 3, 5: 3}
    assert models.groupby("M").size().to_dict() == {2: 3, 3: 3, 5: 3}
    # Better than guessing, on the digits that nobody learned from.
    assert models["accuracy"].between(0.15, 1).all()
    losses = models.set_index(["M", "seed"])["loss"]
    for pair in pairs.itertuples():
        close(pair.loss_difference, abs(losses[pair.M, pair.a] - losses[pair.M, pair.b]), 1e-12)
    for bound in ("bound", "sharper_bound", "certificate"):
        assert (pairs["representation"] <= pairs[bound] + 1e-9).all()
    close(pairs["bound"], 2 * pairs["M"] * pairs["llv"], 1e-9)
    close(pairs["sharper_bound"], 2 * pairs["llv"] ** 2, 1e-9)
    shown = smoke.tables["embeddings"]
    assert shown["seed"].nunique() == 2
    assert shown["class"].nunique() == 10


@pytest.mark.slow
def test_the_summary_is_of_the_tables(smoke: Result):
    """Spearman's correlation by SciPy."""
    from scipy.stats import spearmanr

    summary = smoke.tables["summary"].set_index("M")
    for M, own in smoke.tables["pairs"].groupby("M"):
        expected = spearmanr(own["kl"], own["representation"]).statistic
        close(summary.loc[M, "kl_orders_d_fg"], expected, 1e-9)
        close(summary.loc[M, "cca"], own["cca"].mean(), 1e-12)


@pytest.mark.slow
def test_every_claim_has_a_verdict_and_the_page_a_figure(smoke: Result):
    assert [claim.key for claim in study.STUDY.claims] == list(smoke.findings)
    assert smoke.findings["bound"].verdict == REPRODUCED
    assert (smoke.folder / "figure.svg").stat().st_size > 5000


@pytest.mark.slow
def test_a_run_that_was_interrupted_ends_the_same(smoke: Result):
    """A unit is lost; computed again, here and not in a process, it is what it was."""
    (smoke.folder / "units" / "M=3,seed=101.safetensors").unlink()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    again = run("nielsen-cifar", folder=smoke.folder, data="digits")
    torch.set_num_threads(threads)
    assert again.resumed == smoke.document["units"]["count"] - 1
    for name, table in smoke.tables.items():
        pd.testing.assert_frame_equal(again.tables[name], table, check_exact=True)


@pytest.mark.slow
def test_on_real_images_networks_learn(tmp_path: Path, data_dir: Path):
    """A short run; guessing has an accuracy of 0.1 and a loss of log 10."""
    short = {"steps": 300, "candidates": 40}
    result = run(
        "nielsen-cifar",
        preset="laptop",
        folder=tmp_path / "out",
        data=data_dir,
        seeds=2,
        settings=short,
    )
    best = result.tables["models"].groupby("M")["accuracy"].max()
    assert (best > 0.15).all()
    assert best[5] > 0.25
    assert set(result.tables["embeddings"]["class"]) >= {"cat", "truck"}


def test_pixels_are_means_of_squares_from_minus_one_to_one(rng: np.random.Generator) -> None:
    images = rng.integers(256, size=(4, 32, 32, 3)).astype(np.uint8)
    found = pixels(images, 8).numpy()
    expected = images.reshape(4, 8, 4, 8, 4, 3).mean(axis=(2, 4)).transpose(0, 3, 1, 2)
    close(found, expected / 127.5 - 1, 1e-5)
