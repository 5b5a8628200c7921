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
from identikit.errors import InputError
from identikit.studies import (
    INCONCLUSIVE,
    NOT,
    REPRODUCED,
    UNMEASURED,
    Data,
    Record,
    Settings,
    _vaes,
    run,
)
from identikit.studies import nelson_disentangle as study

torch = pytest.importorskip("torch")


TINY = {
    "seeds": 1, "train": 200, "validation": 50, "test": 100, "steps": 5, "batch": 50,
    "latents": 3, "hidden": [16], "decays": [0.1], "metrics": ["mcc", "mig", "sap"],
}  # fmt: skip


def variational(rng: np.random.Generator) -> tuple[Any, torch.Tensor, torch.Tensor]:
    """A network, images, and what f makes of them."""
    torch.manual_seed(0)
    net = _vaes.build(3, [16], True).double()
    x = torch.from_numpy(rng.uniform(size=(20, 1024)))
    return net, x, net.f(x).detach()


def test_reconstruction_of_every_pixel(rng: np.random.Generator) -> None:
    """Binary cross-entropy by its definition, each mean of four pixels counted four times."""
    torch.manual_seed(0)
    net = _vaes.build(3, [16, 8], False).double()
    assert [tuple(layer.shape) for layer in net.g.parameters() if layer.dim() == 2] == [
        (8, 3), (16, 8), (1024, 16)
    ]  # fmt: skip
    x = rng.uniform(size=(5, 1024))
    p = torch.sigmoid(net.g(net.f(torch.from_numpy(x)))).detach().numpy()
    expected = -4 * (x * np.log(p) + (1 - x) * np.log(1 - p)).sum(axis=1).mean()
    close(_vaes.autoencoder(net, torch.from_numpy(x)).item(), expected, 1e-9, expected)


def test_beta_weighs_the_divergence(rng: np.random.Generator) -> None:
    net, x, found = variational(rng)
    losses = []
    for beta in (1.0, 4.0):
        torch.manual_seed(1)
        losses.append(_vaes.beta_vae(net, x, beta).item())
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
    torch.manual_seed(1)
    z = _vaes.sample(found[:, :3], found[:, 3:])
    own = norm.logpdf(z, found[:, :3], (found[:, 3:] / 2).exp()).sum(1)
    expected = _vaes.reconstruction(net, z, x).item() + (own - norm.logpdf(z).sum(1)).mean()
    for rows in (30, 3000):
        torch.manual_seed(1)
        close(_vaes.beta_tcvae(net, x, 1.0, rows).item(), expected, 1e-8, expected)


def test_no_image_is_in_two_parts() -> None:
    parts = study.draw(Settings({"train": 5000, "validation": 70, "test": 800}))
    assert [len(part) for part in parts] == [5000, 70, 800]
    assert len(np.unique(np.concatenate(parts), axis=0)) == 5870


def test_whitening_rotation_and_ica_of_planted_sources(rng: np.random.Generator) -> None:
    sources = rng.uniform(-1, 1, size=(4000, 3)) * 3**0.5
    latents = sources @ np.array([[2, 1, 0], [0, 1, 0.5], [1, 0, 3]]) + [1, 2, 3]
    fit, test = latents[:3000], latents[3000:]
    found = {name: _vaes.codes_of(name, fit, fit, 0)[0] for name in (study.PCA, study.TURNED)}
    for white in found.values():
        close(np.cov(white.T), np.eye(3), 1e-9)
    turn = np.linalg.lstsq(found[study.PCA], found[study.TURNED])[0]
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


def test_published_latents(data_dir: Path, tmp_path: Path) -> None:
    found = _vaes.published(data_dir / study.FILE)
    assert set(found) == set(study.PUBLISHED)
    for codes, classes in found.values():
        assert codes.shape == (6000, 10)
        assert classes.shape == (6000, 5)
    assert _vaes.published(Data(tmp_path).find(study.LATENTS)) == {}


def test_published_latents_that_are_damaged(tmp_path: Path) -> None:
    np.savez(tmp_path / study.FILE, factors=np.zeros((3, 5)))
    with pytest.raises(InputError, match=r"VAE_mu.*expected factors and VAE_mu, betaH_mu"):
        _vaes.published(tmp_path / study.FILE)
    (tmp_path / study.FILE).write_bytes(b"nothing")
    with pytest.raises(InputError, match="is damaged or of another kind"):
        _vaes.published(tmp_path / study.FILE)


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
    assert "Noise codes: 0.50" in found.comment
    assert claim("noise", tables).verdict == INCONCLUSIVE
    assert claim("published", tables).verdict == UNMEASURED
    more = planted("reference", "InfoM", **{"published-btcvae": [0.9], "published-VAE": [0.2]})
    tables["scores"] = pd.concat([tables["scores"], more["scores"]])
    found = claim("published", tables)
    assert found.verdict == NOT
    assert "β-TCVAE, 0.90" in found.comment
    tables = planted("held out", "InfoE", ae=[0.6, 0.7], ae_ica=[0.6, 0.7], noise=[0.0, 0.0])
    assert claim("infoe-ae-held-out", tables).verdict == REPRODUCED
    values = {"ae_ica": [0.3, 0.31], "beta-tcvae": [0.5, 0.52], "noise": [0.1, 0.1]}
    assert claim("infoc-tc", planted("reference", "InfoC", **values)).verdict == REPRODUCED
    assert claim("infoe-tc", planted("reference", "InfoE", **values)).verdict == NOT


@pytest.mark.slow
def test_a_stopped_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IDENTIKIT_DATA", raising=False)
    whole = run(study.STUDY, folder=tmp_path / "whole", settings=TINY, engine="single")
    shutil.copytree(tmp_path / "whole", tmp_path / "stopped")
    for unit in ("model=ae,decay=0.1,seed=0", "score,ae+ica,seed=0"):
        (tmp_path / "stopped" / "units" / f"{unit}.safetensors").unlink()
    (tmp_path / "stopped" / "claims.json").unlink()
    resumed = run(study.STUDY, folder=tmp_path / "stopped", settings=TINY, engine="single")
    assert (whole.resumed, resumed.resumed) == (0, 8)
    for name, table in whole.tables.items():
        pd.testing.assert_frame_equal(table, resumed.tables[name], rtol=1e-12, atol=1e-12)
    assert {found.verdict for found in whole.findings.values()} <= {INCONCLUSIVE, UNMEASURED}
    scores = whole.tables["scores"]
    assert set(scores["method"]) == set(study.NAMES)
    assert set(scores["metric"]) == {"infomec", "mcc", "mig", "sap", "ica"}
    assert scores.loc[scores["metric"] != "ica", "chance"].notna().all()
    assert whole.tables["published"]["state"].str.startswith("absent").all()


@pytest.mark.slow
def test_smoke(tmp_path: Path) -> None:
    result = run("nelson-disentangle", folder=tmp_path)
    mean, models = result.tables["mean"], result.tables["models"]
    assert {"value", "low", "high", "chance", "seeds"} <= set(mean)
    assert models["used"].sum() == 6
    held = mean[(mean["form"] == "held out") & (mean["part"] == "InfoE")].set_index("method")
    # An invertible linear map changes nothing for a probe that has converged.
    ours = held.loc[[study.AE, study.PCA, study.TURNED, study.ICA_], "value"].to_numpy(float)
    close(ours, np.full(4, ours[0]), 0.01)
    assert result.findings["infoe-ae-held-out"].verdict == REPRODUCED
    assert len(result.findings) == len(study.STUDY.claims)
    assert (tmp_path / "figure.png").stat().st_size > 10_000
