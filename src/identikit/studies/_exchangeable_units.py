"""Units of the study of exchangeable mechanisms: decisions on pairs, and two readings of TCL."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np

from identikit._linalg import Array
from identikit.errors import require
from identikit.family import variability
from identikit.recover import VarianceICA, causal_direction, within_correlation
from identikit.studies._study import Record, Settings
from identikit.worlds import STRUCTURES, EnvironmentSources, ExchangeablePairs, Linear, Sample

#: What varies, in each cell: the spread of θ, that of ψ, and the switch. The strict ones first;
#: "±1" are the published spreads.
CELLS: dict[str, tuple[float, float, bool]] = {
    "neither": (0, 0, False),
    "cause": (5, 0, False),
    "mechanism": (0, 0, True),
    "both": (5, 0, True),
    "cause ±1": (1, 0, False),
    "mechanism ±1": (0, 1, False),
    "both ±1": (1, 1, False),
    "cause ±1, switch": (1, 0, True),
    "mechanism ±1, switch": (0, 1, True),
    "both ±1, switch": (1, 1, True),
}


def drawn(seed: int, cell: str, environments: int) -> tuple[ExchangeablePairs, Sample]:
    """The pairs of a repetition: one structure and one set of coefficients in all cells."""
    structure = STRUCTURES[int(np.random.default_rng(seed).integers(3))]
    theta, psi, switch = CELLS[cell]
    world = ExchangeablePairs(structure, seed, theta=theta, psi=psi, switch=switch)
    return world, world.sample(2 * environments, np.random.default_rng([seed, environments]))


def decisions(first: int, last: int, s: Settings) -> Record:
    """Causal de Finetti, and DirectLiNGAM where it is installed, on repetitions first to last."""
    rows = []
    for seed, cell, environments in product(range(first, last), CELLS, s.environments):
        world, sample = drawn(seed, cell, environments)
        known: dict[str, Any] = {"seed": seed, "cell": cell, "environments": environments}
        known |= {"structure": world.structure, "edge": world.structure != "none"}
        rows += [
            {**known, **each, "correct": float(each["answer"] == world.structure)}
            for each in answered(sample, s.level)
        ]
    return Record(rows)


def answered(sample: Sample, level: float) -> Iterator[dict[str, Any]]:
    """The answer of each method by the paper's rule, with its details."""
    x, y = sample.observations.T
    found = causal_direction(x, y, sample.environments, level=level)
    yield {
        "method": "causal de Finetti", "answer": found.rule, "agreement": found.agreement,
        "silent": float(found.direction == "silent"), "variation": found.variation,
        **found.p_values._asdict(),
    }  # fmt: skip
    if find_spec("causallearn") is not None:
        yield {"method": "DirectLiNGAM", "answer": lingam(sample.observations)}


def lingam(rows: Any) -> str:
    """The edge that DirectLiNGAM finds in all rows together."""
    package = require("causallearn.search.FCMBased.lingam", "causal", "DirectLiNGAM")
    model = package.DirectLiNGAM()
    model.fit(rows)
    # Row i has the causes of variable i.
    onto = model.adjacency_matrix_
    return STRUCTURES[0 if onto[1, 0] else 1 if onto[0, 1] else 2]


def duality(seed: int, s: Settings) -> Record:
    """The environment in the sources, in the mixing, and the same environment everywhere."""
    f = Linear.with_contrast(s.d, 1.0, seed)
    even = np.ones((s.d + 2, s.d))
    worlds = {
        "sources": EnvironmentSources(f, s.d + 2, seed),
        "mixing": EnvironmentSources(f, s.d + 2, seed, where="mixing"),
        "equal": EnvironmentSources(f, s.d + 2, seed, scales=even),
    }
    seen = worlds["sources"].sample(s.duality_rows * (s.d + 2), seed).observations
    rows = []
    for name, world in worlds.items():
        sample = world.sample(s.duality_rows * (s.d + 2), seed)
        varied = variability(world.parameters)
        rows.append(
            {"seed": seed, "where": name, "rank": varied.rank, "needed": varied.needed}
            | {"moved": float(np.abs(sample.observations - seen).max())}
            | scored(sample)
        )
    return Record(rows)


def scored(sample: Sample) -> dict[str, float]:
    """Scores of ICA by variances and of a classifier of environments, on standardised rows."""
    from sklearn.linear_model import LogisticRegression

    x, labels = sample.observations, sample.environments
    with warnings.catch_warnings():
        # Warnings that axes or environments cannot be distinguished are expected here.
        warnings.simplefilter("ignore", UserWarning)
        ica = VarianceICA().fit(x, labels)
        found = ica.transform(x)
        i, j = np.triu_indices(x.shape[1])
        squares = found[:, i] * found[:, j]
        classifier = LogisticRegression().fit(squares, labels)
    true, codes = (np.concatenate([_standard(each[labels == e]) for e in np.unique(labels)])
                   for each in (sample.latents, found))  # fmt: skip
    return {
        "mcc": float(within_correlation(true, codes, labels).value or 0.0),
        "identified": float(ica.identified_.mean()),
        "accuracy": float(classifier.score(squares, labels)),
    }


def _standard(rows: Array) -> Array:
    standard: Array = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    return standard


def largest_drift(seeds: int) -> float:
    """The largest difference of a fixed parameter between environments."""
    worlds = (drawn(seed, cell, 10)[0] for cell, seed in product(CELLS, range(seeds)))
    return max(world.check()["strict"].value for world in worlds)
