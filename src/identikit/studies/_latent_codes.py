"""The codes of nelson-disentangle (whitened, rotated, by ICA, or published) and their scores."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from identikit._linalg import Array, random_rotation
from identikit.axes import ICA
from identikit.factors import disentangle, infomec, prepare
from identikit.studies._data import read_arrays
from identikit.studies._dsprites import FACTORS, truth
from identikit.studies._store import Record
from identikit.studies._study import Settings

PCA, TURNED, ICA_, NOISE = "ae+pca", "ae+rotation", "ae+ica", "noise"
# Of YannDubs/disentangling-vae (MIT), by the name of their objective in the file.
PUBLISHED = {
    "VAE": "VAE", "betaH": "β-VAE", "betaB": "β-VAE with capacity", "factor": "FactorVAE",
    "btcvae": "β-TCVAE",
}  # fmt: skip
REFERENCE, GATED, NOISY = "reference", "held out", "held out, noise added"
# Metrics that take a factor as a number.
NUMERIC = ("mcc", "mcc_spearman", "mcc_linear", "r2", "r2_nonlinear")


def codes_of(method: str, fit: Array, test: Array, seed: int) -> tuple[Array, dict[str, float]]:
    """The codes of test images, fitted on training images without their factors.

    `fit` and `test` are latents of training and test images. A method that is not one of those
    above leaves the latents unchanged. For ICA, the dict says how many axes are identified and
    whether it has converged.
    """
    rng = np.random.default_rng([seed, 1])
    if method == NOISE:
        return rng.normal(size=test.shape), {}
    if method == ICA_:
        with warnings.catch_warnings():
            # Whether it has converged is in the table.
            warnings.simplefilter("ignore", ConvergenceWarning)
            ica = ICA(seed=seed).fit(fit)
        about = {"identified": float(ica.axes_.identified.sum()), "converged": ica.converged_}
        return ica.transform(test), {"axes": float(len(ica.components_)), **about}
    if method not in (PCA, TURNED):
        return np.asarray(test, dtype=float), {}
    mean = fit.mean(axis=0, dtype=float)
    _, spread, axes = np.linalg.svd(fit - mean, full_matrices=False)
    white = (test - mean) @ (axes.T * np.sqrt(len(fit) - 1) / spread)
    return white @ random_rotation(white.shape[1], rng) if method == TURNED else white, {}


def score(
    method: str, seed: int, fit: Array, test: Array, classes: NDArray[Any], settings: Settings
) -> Record:
    """Every metric of the codes of `codes_of`: one row per number, with its level of chance.

    `classes` (n, 5) are the factors of the test images; chance is the score with rows permuted.
    """
    codes, about = codes_of(method, fit, test, seed)
    count = settings.permutations
    known, numbers = truth(classes)
    data = prepare(codes, known, names=None, kinds=dict.fromkeys(FACTORS, "discrete"), seed=seed)
    by_class = [name for name in settings.metrics if name not in NUMERIC]
    by_number = [name for name in settings.metrics if name in NUMERIC]
    kinds = ["continuous"] * numbers.shape[1]
    every = [
        (REFERENCE, "infomec", infomec(data, preset="reference", permutations=count)),
        (GATED, "infomec", infomec(data, permutations=count)),
        (NOISY, "infomec", infomec(data, permutations=count, noise=settings.noise)),
    ]
    for found in (
        disentangle(data, metrics=by_class),
        disentangle(codes, numbers, kinds=kinds, metrics=by_number, seed=seed),
    ):
        every += [(GATED, *item) for item in found.scores.items()]
    rows: list[dict[str, Any]] = []
    for form, name, of in every:
        for part in of.parts:
            assert part.chance is not None
            ends, chance = part.interval or (None, None), part.chance
            row = {"method": method, "seed": seed, "form": form, "metric": name, "part": part.name}
            row |= {"value": part.value, "low": ends[0], "high": ends[1], "chance": chance.mean}
            rows.append(row | dict(zip(("chance_low", "chance_high"), chance.interval)))
    for part_name, value in about.items():
        row = {"method": method, "seed": seed, "form": "fit", "metric": "ica"}
        rows.append(row | {"part": part_name, "value": float(value)})
    return Record(rows)


def published(path: Path | None) -> dict[str, tuple[Array, NDArray[Any]]]:
    """Means and classes of five published VAEs by name; nothing if there is no such file."""
    if path is None:
        return {}
    means = [f"{name}_mu" for name in PUBLISHED]
    arrays = read_arrays(path, ["factors", *means], f"factors and {', '.join(means)}")
    classes, *found = arrays.values()
    return {name: (codes.astype(float), classes) for name, codes in zip(PUBLISHED, found)}
