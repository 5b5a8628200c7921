"""Audits whose answers are kept, so that a faster audit is known to give the same numbers.

`python tests/audit_answers.py OUT.json` writes the answers of the installed identikit. Those in
`audit_answers.json` are of commit 4120d06, before audits shared work between views, pairs and
folds; the audits of real data were made with the folder that `IDENTIKIT_DATA` names.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import identikit as ik
from planted import planted

ANSWERS = Path(__file__).with_name("audit_answers.json")

#: Keys of a pair's JSON that are compared.
KEPT = (
    "a",
    "b",
    "group",
    "candidates",
    "error",
    "interval",
    "within_tolerance",
    "influence",
    "ladder",
    "blocked",
    "order_only",
    "cca",
    "cka",
    "measures",
)

Views = list[NDArray[Any]]


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng([17, seed])


def _rotation(rng: np.random.Generator, d: int) -> NDArray[np.float64]:
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def _independent() -> Views:
    rng = _rng(0)
    return [rng.normal(size=(900, d)) * np.arange(1, d + 1) ** -0.5 for d in (30, 30, 17)]


def _rotated() -> Views:
    rng = _rng(1)
    X = rng.normal(size=(1500, 60)) @ rng.normal(size=(60, 60))
    Y = X @ _rotation(rng, 60) + 0.3 * X.std() * rng.normal(size=X.shape)
    return [X, Y, (X + 5) @ rng.normal(size=(60, 60)) + X.std() * rng.normal(size=X.shape)]


def _wide() -> Views:
    """Rows per column that call for a ridge, in one of two widths."""
    rng = _rng(2)
    Z = rng.normal(size=(500, 40))
    return [
        Z @ rng.normal(size=(40, 150)) + rng.normal(size=(500, 150)),
        Z @ rng.normal(size=(40, 90)) + rng.normal(size=(500, 90)),
    ]


def _wider_than_rows() -> Views:
    rng = _rng(3)
    Z = rng.normal(size=(80, 10))
    return [Z @ rng.normal(size=(10, 120)) + 0.1 * rng.normal(size=(80, 120)) for _ in range(2)]


def _ill_conditioned() -> Views:
    rng = _rng(4)
    X = rng.normal(size=(700, 24)) * np.logspace(0, -9, 24) @ rng.normal(size=(24, 24)) + 1e3
    return [X, X @ rng.normal(size=(24, 24))]


def _lower_rank() -> Views:
    rng = _rng(5)
    X = rng.normal(size=(600, 12)) @ rng.normal(size=(12, 20))
    X[:, 3] = 7.0
    return [X, np.concatenate([X[:, ::-1], X[:, :1]], axis=1).astype(np.float32)]


def _half() -> Views:
    rng = _rng(6)
    X = rng.normal(size=(2000, 48)) + 3
    Y = X @ _rotation(rng, 48) + 0.05 * rng.normal(size=X.shape)
    return [X.astype(np.float16), Y.astype(np.float16)]


def _outliers() -> Views:
    rng = _rng(7)
    X, Y = rng.normal(size=(800, 16)), rng.normal(size=(800, 16))
    X[[3, 400]] += 300.0
    Y[[3, 400]] += 250.0
    return [X, Y]


def _sorted_rows() -> Views:
    rng = _rng(8)
    X = np.cumsum(rng.normal(size=(1200, 6)), axis=0)
    return [X, X @ rng.normal(size=(6, 6)) + rng.normal(size=X.shape), rng.normal(size=(1200, 6))]


def _shifted() -> Views:
    rng = _rng(9)
    X = rng.normal(size=(1300, 10))
    return [X[:-3], X[3:] @ rng.normal(size=(10, 10))]


def _reordered() -> Views:
    rng = _rng(10)
    X = rng.normal(size=(400, 12)) * np.arange(12, 0, -1)
    return [X, X[rng.permutation(400)] @ _rotation(rng, 12)]


def _many() -> Views:
    rng = _rng(11)
    Z = rng.normal(size=(1000, 8))
    return [np.tanh(Z @ rng.normal(size=(8, 12))) for _ in range(5)] + [rng.normal(size=(1000, 12))]


def _narrow() -> Views:
    rng = _rng(12)
    X = rng.normal(size=(300, 2))
    return [X, X[:, ::-1] * [2.0, -1.0] + 0.1 * rng.normal(size=X.shape), np.exp(X[:, :1])]


def _real(name: str, *keys: str, transposed: bool = False) -> Callable[[], Views]:
    def read() -> Views:
        with np.load(Path(os.environ["IDENTIKIT_DATA"]) / name, allow_pickle=False) as file:
            return [file[key].T if transposed else file[key] for key in keys]

    return read


PLANTED: dict[str, Callable[[], Views]] = {
    "independent": _independent,
    "rotated": _rotated,
    "wide": _wide,
    "wider than rows": _wider_than_rows,
    "ill-conditioned": _ill_conditioned,
    "lower rank": _lower_rank,
    "half": _half,
    "outliers": _outliers,
    "sorted rows": _sorted_rows,
    "shifted": _shifted,
    "reordered": _reordered,
    "many": _many,
    "narrow": _narrow,
} | {
    f"planted {group}, {spectrum}, {noise}": (
        lambda group=group, spectrum=spectrum, noise=noise: list(
            planted(group, spectrum, noise, 0.2, 1000, 16, 5)
        )
    )
    for group, spectrum, noise in (
        ("permutation", "flat", "isotropic"),
        ("monomial", "i^-1", "own both"),
        ("similarity", "i^-2", "isotropic both"),
        ("linear", "mixed", "own"),
        ("affine", "i^-1", "isotropic"),
    )
}

REAL: dict[str, Callable[[], Views]] = {
    "embedders": _real(
        "embedding_versions/gutenberg.npz", "minilm_l6_v2", "minilm_l6_int8", "wordllama_256"
    ),
    "logits": _real("svcca_two_seeds.npz", "MNIST_model0", "MNIST_model1", transposed=True),
    "layers": _real("svcca_two_seeds.npz", "SVHN_model0", "SVHN_model1"),
    "cells": _real("singlecell/pbmc_3500.npz", "pcs", "pcs_harmonized"),
    "spacy": _real("embedding_versions/spacy_en_core_web_sm_36_vs_38.npz", "v36", "v38"),
}


def answers(views: Views) -> dict[str, Any]:
    """What an audit of these views says, without sentences."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        groups = np.arange(len(views[0])) // 3 if len(views[0]) == 300 else None
        found = ik.audit(views, groups=groups).to_dict()
    pairs = []
    for pair in found["pairs"]:
        kept = {key: pair[key] for key in KEPT}
        kept["checks"] = {check["name"]: [check["value"], check["ok"]] for check in pair["checks"]}
        pairs.append(kept)
    return {"views": found["views"], "verdict": found["verdict"], "pairs": pairs}


if __name__ == "__main__":
    cases = PLANTED | (REAL if os.environ.get("IDENTIKIT_DATA") else {})
    lines = [f"{json.dumps(name)}: {json.dumps(answers(make()))}" for name, make in cases.items()]
    Path(sys.argv[1]).write_text("{\n" + ",\n".join(lines) + "\n}\n")
