"""roeder-cpc: patches and their colours, what is compared, the claims, and a run of the preset."""

from __future__ import annotations

import colorsys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conftest import close
from identikit.errors import InputError
from identikit.studies import INCONCLUSIVE, NOT, REPRODUCED, UNMEASURED, Result, Settings, run
from identikit.studies import _patches as patches
from identikit.studies import roeder_cpc as study

torch = pytest.importorskip("torch")

LUMA = np.array([0.299, 0.587, 0.114])


@pytest.fixture
def colours(rng: np.random.Generator) -> Any:
    """Patches (5, 3, 4, 4) whose colours small changes leave between 0 and 1."""
    return torch.from_numpy(rng.uniform(0.4, 0.6, size=(5, 3, 4, 4)))


def recoloured(x: Any, b: float = 0, s: float = 1, h: float = 0, c: float = 1) -> Any:
    return patches.recolour(x, *(torch.full((len(x),), v, dtype=x.dtype) for v in (b, s, h, c)))


def luma(x: Any) -> Any:
    return np.einsum("c,nchw->nhw", LUMA, x.numpy())


# Patches


def test_colours_left_alone_stay(colours: Any):
    close(recoloured(colours), colours, 1e-12)
    close(recoloured(colours, h=1.0), colours, 1e-12)


def test_brightness_is_added_and_cut_off(colours: Any):
    close(recoloured(colours, b=0.1), colours + 0.1, 1e-12)
    close(recoloured(colours, b=0.7), torch.ones_like(colours), 0)
    close(recoloured(colours, b=-0.7), torch.zeros_like(colours), 0)


def test_saturation_blends_with_grey(colours: Any):
    grey = luma(colours)[:, None]
    close(recoloured(colours, s=0.3), 0.3 * colours.numpy() + 0.7 * grey, 1e-6)


def test_contrast_moves_away_from_the_mean_colour(colours: Any):
    mean = colours.mean((2, 3), keepdim=True)
    close(recoloured(colours, c=1.4), mean + 1.4 * (colours - mean), 1e-12)


def test_hue_turns_and_keeps_luma(colours: Any):
    turned = recoloured(colours, h=0.2)
    close(luma(turned), luma(colours), 1e-6)
    assert (turned - colours).abs().max() > 0.01
    close(recoloured(turned, h=0.3), recoloured(colours, h=0.5), 1e-12)


def test_hue_is_that_of_the_standard_library():
    """A turn of (I, Q); colorsys rounds the matrix to two digits, so to 0.01 only."""
    colour, turn = (0.6, 0.5, 0.4), 0.15
    y, i, q = colorsys.rgb_to_yiq(*colour)
    turned = (i + 1j * q) * np.exp(2j * np.pi * turn)
    expected = colorsys.yiq_to_rgb(y, turned.real, turned.imag)
    x = torch.tensor(colour, dtype=torch.float64).view(1, 3, 1, 1)
    close(recoloured(x, h=turn).flatten(), expected, 0.01)


def test_grey_has_neither_saturation_nor_hue(colours: Any):
    grey = colours[:, :1].expand(-1, 3, -1, -1).contiguous()
    close(recoloured(grey, s=1.5, h=0.2), grey, 1e-6)


def test_changes_come_one_after_the_other(colours: Any):
    """Brightness, saturation, hue, contrast: all at once is each in turn."""
    at_once = recoloured(colours, 0.05, 1.3, 0.1, 1.2)
    in_turn = colours
    for change in ({"b": 0.05}, {"s": 1.3}, {"h": 0.1}, {"c": 1.2}):
        in_turn = recoloured(in_turn, **change)
    close(at_once, in_turn, 1e-12)


def test_jitter_is_a_function_of_the_generator(colours: Any):
    first, again = (patches.jitter(colours, torch.Generator().manual_seed(3)) for _ in range(2))
    close(first, again, 0)
    assert (first - patches.jitter(colours, torch.Generator().manual_seed(4))).abs().max() > 0.01


def test_jitter_reaches_as_far_as_it_says_and_no_farther():
    """Of a grey patch only brightness can change; each patch has its own."""
    grey = torch.full((4000, 3, 1, 1), 0.5)
    change = (patches.jitter(grey, torch.Generator().manual_seed(0)) - 0.5)[:, 0, 0, 0]
    assert 0.99 * patches.BRIGHTNESS < change.abs().max() <= patches.BRIGHTNESS + 1e-6
    # Uniform: sd is the reach over √3.
    close(change.std(), patches.BRIGHTNESS / 3**0.5, 0.005)


def test_crop_is_a_slice_of_each(rng: np.random.Generator):
    images = torch.from_numpy(rng.integers(0, 255, (6, 3, 10, 12), dtype=np.uint8))
    top, left = (torch.from_numpy(rng.integers(0, 6, 6)) for _ in range(2))
    found = patches.crop(images, 4, top, left)
    for n, (t, w) in enumerate(zip(top, left)):
        close(found[n], images[n, :, t : t + 4, w : w + 4], 0)


@pytest.mark.parametrize("size", [16, 10])
def test_one_patch_is_of_the_top_and_one_of_the_bottom(monkeypatch: Any, size: int):
    """Pixels say which row and column they are of."""
    monkeypatch.setattr(patches, "jitter", lambda x, _generator: x)
    row, column = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij")
    images = torch.stack([row, column, row]).to(torch.uint8).expand(500, -1, -1, -1)
    pair = patches.random_pair((images,), torch.Generator().manual_seed(0), size)
    for half, patch in enumerate(pair):
        assert patch.shape == (500, 3, size, size)
        rows, columns = ((patch[:, part] + 1) * 127.5 for part in (0, 1))
        first = rows[:, 0, 0].round()
        close(rows - first[:, None, None], torch.arange(size)[:, None].expand(500, -1, size), 1e-4)
        assert set(first.int().tolist()) == set(range(16 * half, 16 * half + 17 - size))
        assert set(columns[:, 0, 0].round().int().tolist()) == set(range(33 - size))
    assert (pair[0][:, 1] != pair[1][:, 1]).any()


def test_the_patches_of_the_comparison_are_in_the_middle(rng: np.random.Generator):
    images = torch.from_numpy(rng.integers(0, 255, (3, 3, 32, 32), dtype=np.uint8))
    above, below = patches.centre_pair(images, 10)
    close(above, images[:, :, 3:13, 11:21].double() / 127.5 - 1, 1e-6)
    close(below, images[:, :, 19:29, 11:21].double() / 127.5 - 1, 1e-6)


# What is learned from, and compared


def test_a_share_is_part_of_a_larger_one_and_apart_from_validation():
    images = torch.arange(1000)
    few, held_back = study.split(images, 0.1, 0.2)
    many, again = study.split(images, 1.0, 0.2)
    assert (len(few), len(many), len(held_back)) == (80, 800, 200)
    assert set(few.tolist()) < set(many.tolist())
    assert set(many.tolist()) | set(held_back.tolist()) == set(range(1000))
    close(held_back, again, 0)


def test_networks_have_three_layers_and_no_bias_of_labels():
    net = study.build(256, Settings(study.LAPTOP))
    shapes = [tuple(p.shape) for name, p in net.f.named_parameters() if "weight" in name]
    assert shapes == [(256, 768), (256, 256), (64, 256)]
    assert net.bias is None
    assert net.g is not net.f


def test_small_weights_make_all_candidates_equally_likely(rng: np.random.Generator):
    """The loss of guessing among n is log n; He's weights start far above it."""
    from identikit.learn import infonce

    x, y = (torch.from_numpy(rng.uniform(-1, 1, (100, 768)).astype(np.float32)) for _ in range(2))
    losses = {}
    for init in study.INITS:
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(0)
            net = study.build(256, Settings(study.LAPTOP | {"init": init}))
            losses[init] = infonce(net, x, y).item()
    close(losses["small"], np.log(100), 0.02)
    assert losses["he"] > np.log(100) + 1


def test_compared_are_pairs_with_chance_beside(rng: np.random.Generator):
    """A linear map of a view is the view; independent ones score chance, and 0 held out."""
    f = rng.normal(size=(2000, 40))
    other = rng.normal(size=(2000, 40))
    same, *rest = study.compare([f, f @ rng.normal(size=(40, 40)) + 1.0, other])
    assert (same["a"], same["b"], same["rows"], same["rank"]) == (0, 1, 2000, 40)
    close([same["cca"], same["held_out"]], [1, 1], 1e-9)
    for pair in rest:
        close(pair["cca"], pair["chance"], 0.01)
        close(pair["held_out"], 0, 0.02)


def test_setups_are_shared_where_they_are_the_same():
    s = Settings(study.SMOKE | {"widths": [64, 16], "width_steps": 200})
    panels = study.setups(s)
    main = study.Setup(64, 1.0, 200)
    assert panels["training"] == [main]
    assert panels["data"][-1] == panels["width"][-1] == main
    assert study.kept(main, s) == [0, 20, 60, 200]
    assert study.kept(study.Setup(16, 1.0, 200), s) == [0, 200]


# Claims


def planted(seeds: int, panel: str, means: dict[int, float], spread: float) -> dict[str, Any]:
    """Tables in which every pair has the mean of its place, and seeds differ by some spread."""
    rows = []
    for (x, mean), (a, b) in ((p, q) for p in means.items() for q in combinations(range(seeds), 2)):
        own = mean + spread * (a + b - seeds + 1) * (x == max(means))
        place = {"panel": panel, "x": x, "trained": panel != "training" or x > 0, "side": "f"}
        rows.append(place | {"a": a, "b": b, "cca": own, "chance": 0.1, "held_out": own})
    return {"pairs": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("means", "spread", "verdict"),
    [
        ({0: 0.3, 10: 0.5, 100: 0.6}, 0.01, REPRODUCED),
        ({0: 0.6, 10: 0.5, 100: 0.3}, 0.01, NOT),
        ({0: 0.5, 10: 0.9, 100: 0.51}, 0.05, INCONCLUSIVE),
        # The last is above the first, and yet the curve falls.
        ({0: 0.5, 3: 0.9, 10: 0.4, 100: 0.51}, 0.0, NOT),
    ],
)
@pytest.mark.parametrize("panel", ["training", "width"])
def test_growth_is_the_slope_of_the_whole_curve(
    panel: str, means: dict[int, float], spread: float, verdict: str
):
    found = study.growth(planted(5, panel, means, spread), panel, "f")
    expected = np.polyfit(range(len(means)), list(means.values()), 1)[0]
    close(found.value, expected, 1e-12)
    assert found.verdict == verdict
    assert ", ".join(map(str, means)) in found.comment


def test_wider_networks_are_judged_beside_untrained_ones():
    """Networks that are the more alike, the wider, but only as much as without training."""
    after, before = {64: 0.5, 256: 0.6, 1024: 0.7}, {64: 0.3, 256: 0.43, 1024: 0.55}
    tables = [planted(5, "width", means, 0.001)["pairs"] for means in (after, before)]
    tables[1]["trained"] = False
    both = {"pairs": pd.concat(tables)}
    assert study.growth(both, "width", "f").verdict == REPRODUCED
    found = study.growth(both, "width", "f", learned=True)
    close(found.value, -0.025, 1e-9)
    assert found.verdict == NOT


def test_one_place_or_one_pair_says_nothing():
    assert study.growth(planted(4, "data", {50: 0.5}, 0), "data", "f").verdict == UNMEASURED
    found = study.growth(planted(2, "data", {5: 0.1, 50: 0.5}, 0), "data", "f")
    assert (found.interval, found.verdict) == (None, INCONCLUSIVE)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seeds": 1}, "in pairs"),
        ({"shares": [0.5, 1.5]}, "parts of the images"),
        ({"patch": 17}, "1 to 16"),
        ({"init": "large"}, "one of small, he"),
    ],
)
def test_settings_that_make_no_sense(tmp_path: Path, change: dict[str, Any], says: str):
    with pytest.raises(InputError, match=says):
        run("roeder-cpc", folder=tmp_path, data="digits", settings=change)


# A run


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run("roeder-cpc", folder=tmp_path_factory.mktemp("cpc") / "out", data="digits")


@pytest.mark.slow
def test_a_run_compares_all_pairs_at_all_places(smoke: Result):
    pairs, history = smoke.tables["pairs"], smoke.tables["history"]
    places = pairs.groupby("panel")["x"].agg(lambda x: sorted(set(x))).to_dict()
    assert places == {"training": [0, 20, 60, 200], "data": [129, 1294], "width": [16, 64]}
    # Training has four places; the others two, before and after.
    assert len(pairs) == (4 + 2 * 2 + 2 * 2) * 2 * 3
    assert pairs[["cca", "held_out"]].to_numpy().max() <= 1
    assert (pairs["held_out"] < pairs["cca"]).mean() > 0.9
    # The loss of guessing among 64.
    assert history["validation"].min() < np.log(64)
    summary = smoke.tables["summary"]
    middle = pairs[pairs["panel"] == "width"].groupby(["x", "trained", "side"])["held_out"].mean()
    own = summary[summary["panel"] == "width"].set_index(["x", "trained", "side"])["held_out"]
    close(own, middle, 1e-12)
    assert ((summary["low"] < summary["held_out"]) & (summary["held_out"] < summary["high"])).all()


@pytest.mark.slow
def test_every_claim_has_a_verdict_and_the_page_a_figure(smoke: Result):
    panels = ("training", "data", "width", "width-learned")
    assert list(smoke.findings) == [f"{p}-{s}" for p in panels for s in "fg"]
    assert (smoke.folder / "figure.svg").stat().st_size > 5000
    assert "untrained" in (smoke.folder / "report.html").read_text()


@pytest.mark.slow
def test_untrained_pairs_are_the_same_in_every_panel(smoke: Result):
    """They see nothing of the data, and width 64 has the same seeds everywhere."""
    pairs = smoke.tables["pairs"]
    before = pairs[~pairs["trained"] & ((pairs["panel"] != "width") | (pairs["x"] == 64))]
    assert before.groupby(["a", "b", "side"])["cca"].nunique().eq(1).all()
    assert len(before) == (1 + 2 + 1) * 2 * 3


@pytest.mark.slow
def test_a_run_that_was_interrupted_ends_the_same(smoke: Result):
    """A unit is lost; computed again, here and not in a process, it is what it was."""
    (smoke.folder / "units" / "width=16,share=1.0,steps=100,seed=101.safetensors").unlink()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    again = run("roeder-cpc", folder=smoke.folder, data="digits")
    torch.set_num_threads(threads)
    assert again.resumed == smoke.document["units"]["count"] - 1
    for name, table in smoke.tables.items():
        pd.testing.assert_frame_equal(again.tables[name], table, check_exact=True)


@pytest.mark.slow
def test_on_real_images_training_makes_runs_alike(tmp_path: Path, data_dir: Path):
    """A short run of two setups; untrained, another measurement gave .36 and .34."""
    short = {"steps": 200, "width_steps": 200, "widths": [256], "shares": [1.0], "snapshots": [0]}
    result = run(
        "roeder-cpc",
        preset="laptop",
        folder=tmp_path / "out",
        data=data_dir,
        seeds=3,
        settings=short,
    )
    pairs = result.tables["pairs"]
    before = pairs[(pairs["panel"] == "training") & (pairs["x"] == 0)].groupby("side")["cca"].mean()
    close(before.to_numpy(), [0.359, 0.342], 0.06)
    assert result.findings["training-f"].verdict == REPRODUCED
