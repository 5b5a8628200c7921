"""Pairs with a planted map: rungs × spectra × noises, for the tests of the verdict."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
from numpy.typing import NDArray

from identikit.alignment import RUNGS

Array = NDArray[np.float64]

#: Decay of the variance along the axes, or `mixed`: a Gaussian matrix times Gaussian rows.
SPECTRA = ("flat", "i^-1", "i^-2", "i^-3", "mixed")

#: Isotropic, with the view's own spectrum; in y alone, or in both views.
NOISES = ("isotropic", "own", "isotropic both", "own both")

LEVELS = (0.0, 0.05, 0.1, 0.2, 0.4)


def rotation(rng: np.random.Generator, d: int) -> Array:
    """Uniform; in the plane 15 to 75 degrees, as 0 and 90 are permutations."""
    if d == 2:
        angle = np.deg2rad(rng.uniform(15, 75))
        return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def loadings(spectrum: str, rng: np.random.Generator, d: int) -> Array:
    if spectrum == "mixed":
        return rng.normal(size=(d, d))
    power = 0 if spectrum == "flat" else int(spectrum[3:])
    return np.diag(np.arange(1.0, d + 1) ** (-power / 2))


def planted(
    group: str, spectrum: str, kind: str, level: float, n: int, d: int, seed: int
) -> tuple[Array, Array]:
    """x = z + ε and y = h(z) + δ with h of the group and of no stricter one.

    Noise has `level` times the root mean square of the view that it is added to.
    """
    rng = np.random.default_rng([seed, list(RUNGS).index(group), d, n, int(100 * level)])
    L = loadings(spectrum, rng, d)
    Z = rng.normal(size=(n, d)) @ L
    size = np.linalg.norm(L) / np.sqrt(d)
    if group == "linear":
        Z = Z + 0.5 * rng.normal(size=d) * np.linalg.norm(L, axis=0)
    P = np.eye(d)[rng.permutation(d)] * rng.choice([-1.0, 1.0], d)
    A = rotation(rng, d) * np.linspace(0.4, 2.5, d) @ rotation(rng, d)
    shift = size * rng.normal(size=d)
    far = np.sign(shift) * np.linalg.norm(L @ A) / np.sqrt(d)
    maps: dict[str, Callable[[], Array]] = {
        "identity": lambda: Z,
        "permutation": lambda: Z @ P + shift,
        "monomial": lambda: Z @ P * np.resize([0.5, 2.0, 1.5, 0.4, 2.5], d) + shift,
        "rigid": lambda: Z @ rotation(rng, d) + shift,
        "similarity": lambda: 2 * Z @ rotation(rng, d) + shift,
        "linear": lambda: Z @ A,
        "affine": lambda: Z @ A + far,
    }
    Y = maps[group]()
    X = Z + level * noise(kind, Z, rng) if kind.endswith("both") else Z
    return X, Y + level * noise(kind, Y, rng)


def noise(kind: str, view: Array, rng: np.random.Generator) -> Array:
    """Noise as large as a view: the same in all directions, or with the view's own spectrum."""
    draws = rng.normal(size=view.shape)
    centred = view - view.mean(axis=0)
    if kind.startswith("isotropic"):
        return draws * np.sqrt(np.square(centred).mean())
    _, values, axes = np.linalg.svd(centred, full_matrices=False)
    return draws[:, : len(values)] * (values / np.sqrt(len(view))) @ axes


def cells() -> list[tuple[str, str, float]]:
    """Spectrum, kind and level of noise; without noise there is one kind."""
    return [
        (spectrum, kind, level)
        for spectrum, kind, level in product(SPECTRA, NOISES, LEVELS)
        if level or kind == NOISES[0]
    ]
