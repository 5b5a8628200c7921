"""nelson-disentangle: losses in closed form, codes of planted sources, planted tables, the run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from conftest import close
from identikit.studies import (
    INCONCLUSIVE,
    NOT,
    REPRODUCED,
    Record,
    Settings,
    _vaes,
    run,
)
from identikit.studies import nelson_disentangle as study

torch = pytest.importorskip("torch")


TINY = {
    "seeds": 1, "train": 200, "validation": 50, "test": 100, "steps": 5, "batch": 50,
    "latents": 3, "coordinates": 8, "hidden": [16], "decays": [0.1],
}  # fmt: skip


def variational(rng: np.random.Generator) -> tuple[Any, torch.Tensor, torch.Tensor]:
    """A network, inputs, and what f makes of them."""
    torch.manual_seed(0)
    net = _vaes.build(7, 3, [16], True).double()
    x = torch.from_numpy(rng.normal(size=(20, 7)))
    return net, x, net.f(x).detach()


def test_reconstruction_is_a_weighted_squared_error(rng: np.random.Generator) -> None:
    torch.manual_seed(0)
    net = _vaes.build(7, 3, [16, 8], False).double()
    assert [tuple(layer.shape) for layer in net.g.parameters() if layer.dim() == 2] == [
        (8, 3), (16, 8), (7, 16)
    ]  # fmt: skip
    x = torch.from_numpy(rng.normal(size=(5, 7)))
    found = net.g(net.f(x)).detach().numpy()
    expected = 3.0 * np.mean(
        [(row - again) @ (row - again) for row, again in zip(x.numpy(), found)]
    )
    close(_vaes.autoencoder(net, x, 3.0).item(), expected, 1e-9, expected)
    # The BioAE adds what its latents cost, per value of an image.
    z = net.f(x).detach().numpy()
    assert (z < 0).any()
    assert (z > 0).any()
    cost = np.mean([max(-value, 0) + 0.2 * value * value for value in z.ravel()])
    expected += 12 * cost
    close(_vaes.bio_ae(net, x, 3.0, 12, 0.2).item(), expected, 1e-9, expected)


@pytest.mark.parametrize("data", ["shapes3d", "dsprites"])
def test_coordinates_keep_what_they_say(data: str) -> None:
    settings = Settings({"data": data, "train": 300, "validation": 5, "test": 6, "coordinates": 9})
    coordinates, train, *rest = _vaes.inputs(settings, 3)
    parts = _vaes.draw(settings, 3)
    for found, classes in zip([train, *rest], parts):
        np.testing.assert_array_equal(found, coordinates(classes))
    close(np.mean(train.astype(float) ** 2), 1, 0.01)
    close(coordinates.axes.T @ coordinates.axes, np.eye(9), 1e-5)
    x = _vaes.DATA[data].draw(parts[0]) - coordinates.mean
    left = x - coordinates.scale * train @ coordinates.axes.T
    assert 0.3 < coordinates.kept < 0.999
    close(1 - (left**2).sum() / (x**2).sum(), coordinates.kept, 1e-3)
    # No other axes keep more: these are the right singular vectors.
    spread = np.linalg.svd(x, compute_uv=False) ** 2
    close(spread[:9].sum() / spread.sum(), coordinates.kept, 1e-3)


def test_the_truth_about_rooms() -> None:
    classes = np.array([[0, 5, 9, 7, 3, 14], [1, 0, 0, 0, 0, 0]])
    known, numbers = _vaes.room_truth(classes)
    np.testing.assert_array_equal(known.to_numpy(), classes)
    close(numbers[["scale", "orientation"]].to_numpy(), np.array([[1.25, 30], [0.75, -30]]), 1e-12)
    close(numbers["cos_wall_hue"].to_numpy(), np.array([-1.0, 1.0]), 1e-12)
    close(numbers["sin_floor_hue"].to_numpy(), np.array([0.0, np.sin(np.pi / 5)]), 1e-12)


def test_beta_weighs_the_divergence(rng: np.random.Generator) -> None:
    net, x, found = variational(rng)
    noise = torch.from_numpy(rng.normal(size=(20, 3)))
    losses = [_vaes.beta_vae(net, x, noise, 2.0, beta).item() for beta in (1.0, 4.0)]
    mean, spread = found[:, :3], (found[:, 3:] / 2).exp()
    normal = torch.distributions.Normal
    kl = torch.distributions.kl_divergence(normal(mean, spread), normal(0 * mean, 1 + 0 * mean))
    close((losses[1] - losses[0]) / 3, kl.sum(1).mean().item(), 1e-9)


def test_densities_of_the_aggregate(rng: np.random.Generator) -> None:
    """Mixtures by SciPy, with weights that sum to 1."""
    n, rows = 6, 50
    z, mean, log_variance = rng.normal(size=(3, n, 2))
    weights = np.full((n, n), 1 / (n - 1))
    np.fill_diagonal(weights, 1 / rows)
    for i in range(n):
        weights[i, (i + 1) % n] = (rows - n + 1) / (rows * (n - 1))
    close(weights.sum(axis=1), np.ones(n), 1e-12)
    each = norm.logpdf(z[:, None], mean, np.exp(log_variance / 2))
    tensors = (torch.from_numpy(part) for part in (z, mean, log_variance))
    joint, product = _vaes.log_densities(*tensors, rows)
    close(joint.numpy(), logsumexp(each.sum(2), b=weights, axis=1), 1e-6)
    close(product.numpy(), logsumexp(each, b=weights[:, :, None], axis=1).sum(1), 1e-6)


def test_total_correlation_at_weight_one_is_the_plain_bound(rng: np.random.Generator) -> None:
    """I + TC + Σ KL telescopes to log q(z|x) − log p(z), whatever the size of the training set."""
    net, x, found = variational(rng)
    noise = torch.from_numpy(rng.normal(size=(20, 3)))
    z = _vaes.sample(found[:, :3], found[:, 3:], noise)
    own = norm.logpdf(z, found[:, :3], (found[:, 3:] / 2).exp()).sum(1)
    expected = _vaes.reconstruction(net, z, x, 2.0).item() + (own - norm.logpdf(z).sum(1)).mean()
    for rows in (30, 3000):
        close(_vaes.beta_tcvae(net, x, noise, 2.0, 1.0, rows).item(), expected, 1e-8, expected)


@pytest.mark.parametrize("data", ["shapes3d", "dsprites"])
def test_no_scene_is_in_two_parts(data: str) -> None:
    settings = Settings({"data": data, "train": 5000, "validation": 70, "test": 800})
    one, two = _vaes.draw(settings, 0), _vaes.draw(settings, 1)
    assert [len(part) for part in one] == [5000, 70, 800]
    np.testing.assert_array_equal(one[0], two[0])
    for parts in (one, two):
        scenes = np.concatenate(parts)
        assert len(np.unique(scenes, axis=0)) == 5870
        assert (scenes.max(axis=0) + 1 == _vaes.DATA[data].sizes).all()
    assert len(np.unique(np.concatenate([one[2], two[2]]), axis=0)) > 1500


def test_whitening_rotation_and_ica_of_planted_sources(rng: np.random.Generator) -> None:
    sources = rng.uniform(-1, 1, size=(4000, 3)) * 3**0.5
    latents = sources @ np.array([[2, 1, 0], [0, 1, 0.5], [1, 0, 3]]) + [1, 2, 3]
    fit, test = latents[:3000], latents[3000:]
    found = {name: _vaes.codes_of(name, fit, fit, 0)[0] for name in (study.PIXELS, study.TURNED)}
    for white in found.values():
        close(np.cov(white.T), np.eye(3), 1e-9)
    turn = np.linalg.lstsq(found[study.PIXELS], found[study.TURNED])[0]
    close(turn @ turn.T, np.eye(3), 1e-9)
    assert np.abs(turn).max() < 0.999
    codes, about = _vaes.codes_of(study.ICA_, fit, test, 0)
    close(np.sort(np.abs(np.corrcoef(codes.T, sources[3000:].T)[:3, 3:]).max(0)), np.ones(3), 0.01)
    assert about == {"axes": 3, "identified": 3, "converged": True}
    np.testing.assert_array_equal(_vaes.codes_of(study.BETA, fit, test, 0)[0], test)
    noise, again = (_vaes.codes_of(study.NOISE, fit, test, seed)[0] for seed in (0, 1))
    assert np.abs(np.corrcoef(np.hstack([noise, test, again]).T)[:3, 3:]).max() < 0.15


def test_weight_decay_is_chosen_by_reconstruction() -> None:
    errors = {0.01: 10.0, 0.1: 10.9, 1.0: 11.1}
    models = [Record([{"decay": d, "reconstruction": e}]) for d, e in errors.items()]
    assert study.chosen_decay(models, 0.1) == 0.1
    assert study.chosen_decay(models, 0.0) == 0.01
    assert study.chosen_decay(models, 0.2) == 1.0


def planted(form: str, part: str, **values: list[float]) -> dict[str, pd.DataFrame]:
    rows = [
        {"method": method.replace("_", "+"), "seed": seed, "form": form, "metric": "infomec",
         "part": part, "value": value}
        for method, each in values.items()
        for seed, value in enumerate(each)
    ]  # fmt: skip
    return {"scores": pd.DataFrame(rows)}


def claim(key: str, tables: dict[str, pd.DataFrame]) -> Any:
    (check,) = (claim.check for claim in study.STUDY.claims if claim.key == key)
    return check(tables)


def test_claims_on_planted_scores() -> None:
    noise = [0.5, 0.6, 0.4]
    tables = planted(
        "reference", "InfoM", ae=[0.3, 0.35, 0.31], ae_ica=[0.6, 0.65, 0.6], noise=noise
    )
    found = claim("infom-ae", tables)
    assert found.verdict == REPRODUCED
    close(found.value, np.mean([0.3, 0.3, 0.29]), 1e-12)
    assert "Noise codes have 0.50" in found.comment
    assert claim("noise", tables).verdict == INCONCLUSIVE
    values = {"ae_ica": [0.3, 0.31], "beta-tcvae": [0.5, 0.52], "noise": [0.1, 0.1]}
    assert claim("infoc-tc", planted("reference", "InfoC", **values)).verdict == REPRODUCED
    assert claim("infoe-tc", planted("reference", "InfoE", **values)).verdict == NOT
    values = {"ae_ica": [0.3, 0.31], "bio-ae": [0.5, 0.52], "noise": [0.1, 0.1]}
    assert claim("infoc-bio", planted("reference", "InfoC", **values)).verdict == NOT
    gated = {"ae_ica": [0.7, 0.71], "pixels_pca": [0.8, 0.8], "noise": [0.0, 0.0]}
    assert claim("pixels-gated", planted("held out", "InfoM", **gated)).verdict == NOT


@pytest.mark.parametrize(
    ("key", "form"), [("infoe-ae", "reference"), ("infoe-ae-held-out", "held out")]
)
def test_explicitness_is_unchanged(key: str, form: str) -> None:
    same = planted(form, "InfoE", ae=[0.6, 0.7], ae_ica=[0.601, 0.7])
    assert claim(key, same).verdict == REPRODUCED
    # One seed that differs is enough, whatever the mean.
    other = planted(form, "InfoE", ae=[0.6, 0.7], ae_ica=[0.62, 0.68])
    assert claim(key, other).verdict == NOT


def test_published_numbers_of_claims() -> None:
    assert study.printed("InfoC", study.BETA) == (
        "0.40 against 0.55; Shapes3D: 0.52 against 0.49"
    )  # fmt: skip


@pytest.mark.slow
def test_a_stopped_run_goes_on(tmp_path: Path) -> None:
    whole = run(study.STUDY, folder=tmp_path / "whole", settings=TINY, engine="single")
    shutil.copytree(tmp_path / "whole", tmp_path / "stopped")
    for unit in ("model=ae,decay=0.1,seeds=200+1", "score,ae+ica,seed=200"):
        (tmp_path / "stopped" / "units" / f"{unit}.safetensors").unlink()
    (tmp_path / "stopped" / "claims.json").unlink()
    resumed = run(study.STUDY, folder=tmp_path / "stopped", settings=TINY, engine="single")
    assert (whole.resumed, resumed.resumed) == (0, 11)
    for name, table in whole.tables.items():
        pd.testing.assert_frame_equal(table, resumed.tables[name], rtol=1e-12, atol=1e-12)
    of_paper = [claim.key for claim in study.STUDY.claims if claim.kind == "paper"]
    assert {whole.findings[key].verdict for key in of_paper} == {INCONCLUSIVE}
    scores = whole.tables["scores"]
    assert set(scores["method"]) == set(study.NAMES)
    assert set(scores["metric"]) == {"infomec", "mcc", "ica"}
    assert scores.loc[scores["metric"] != "ica", "chance"].notna().all()


@pytest.mark.slow
def test_smoke(tmp_path: Path) -> None:
    result = run("nelson-disentangle", folder=tmp_path)
    mean, models = result.tables["mean"], result.tables["models"]
    assert {"value", "low", "high", "chance", "seeds"} <= set(mean)
    assert models["used"].sum() == 8
    held = mean[(mean["form"] == "held out") & (mean["part"] == "InfoE")].set_index("method")
    # An invertible linear map changes nothing for a probe that has converged.
    ours = held.loc[[study.AE, study.TURNED, study.ICA_], "value"].to_numpy(float)
    close(ours, np.full(3, ours[0]), 0.01)
    assert result.findings["infoe-ae-held-out"].verdict == REPRODUCED
    assert len(result.findings) == len(study.STUDY.claims)
    assert (tmp_path / "figure.png").stat().st_size > 10_000
