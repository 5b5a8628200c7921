"""Atoms that do not recur individually may still span a subspace that recurs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from identikit._linalg import Array
from identikit.axes._components_chance import SCHEMES, within_atoms
from identikit.axes._components_runs import Floats

#: Number of permutations for each null model, and for choosing the number of directions.
DRAWS, PARALLEL = 19, 5

#: The most atoms used of a run with up to WIDE coordinates, and of a run with more.
MOST, WIDE, MOST_WIDE = 4096, 1024, 1024


@dataclass(frozen=True)
class Subspace:
    """The leading directions of the atoms that do not recur, and how far runs share them.

    `directions` is their number k. `overlap` is the mean squared cosine of the principal angles
    between the k leading directions of two runs, ‖UᵀV‖²/k, averaged over pairs of runs: 1 for equal
    spans, and `uniform` = k/d on average for random ones. `chance` is the mean overlap with a run
    whose entries are permuted (or get random signs, unless every atom has entries of one sign only)
    under the strictest null model, `null`, and `p_value` is how often the overlap by chance is as
    large. `atoms` is the number of atoms that were used of each run.
    """

    atoms: tuple[int, ...]
    directions: int
    overlap: float
    uniform: float
    chance: float
    p_value: float
    null: str

    @property
    def recurs(self) -> bool:
        """Whether the overlap is larger than in all 19 permutations."""
        return self.p_value <= 1 / (1 + DRAWS) + 1e-12

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**vars(self), "atoms": list(self.atoms), "recurs": self.recurs}


def shared_subspace(runs: Sequence[Floats], seed: int) -> Subspace | None:
    """Compare the spans of atoms across runs; None if in some run no direction stands out.

    Directions are the leading right singular vectors. Their number is chosen by parallel analysis
    (Horn 1965): leading singular values count as long as they exceed those of the same rank after
    every permutation of entries within atoms. The run with the fewest such directions decides. Of
    many atoms, which have norm 1, some are sampled.
    """
    rng = np.random.default_rng(seed)
    most = MOST if runs[0].shape[1] <= WIDE else MOST_WIDE
    runs = [run if len(run) <= most else run[rng.permutation(len(run))[:most]] for run in runs]
    if min(map(len, runs)) < 2:
        return None
    count = runs[0].shape[1]
    for run in runs:
        count = min(count, _standing_out(run, rng))
        if count == 0:
            return None
    leading = [_leading(run, count) for run in runs]
    overlap = _mean_overlap(leading, leading)
    found = []
    schemes = dict(SCHEMES)
    if any(((run < 0).any(axis=1) & (run > 0).any(axis=1)).any() for run in runs):
        signs = np.array([-1, 1], np.float32)
        schemes["entries of random sign"] = lambda run, rng: run * rng.choice(signs, run.shape)
    for name, scheme in schemes.items():
        # Every run's directions are compared with those of the later runs after permutation.
        permuted = (
            [leading[0], *(_leading(scheme(run, rng), count) for run in runs[1:])]
            for _ in range(DRAWS)
        )
        null = np.array([_mean_overlap(leading, each) for each in permuted])
        p_value = float(1 + np.count_nonzero(null >= overlap)) / (1 + DRAWS)
        found.append((p_value, float(null.mean()), name))
    p_value, chance, name = max(found)
    uniform = count / runs[0].shape[1]
    return Subspace(tuple(map(len, runs)), count, overlap, uniform, chance, p_value, name)


def _gram(atoms: Floats) -> Array:
    """The smaller Gram matrix of the atoms; its eigenvalues are the squared singular values."""
    matrix = atoms.astype(np.float64)
    return matrix.T @ matrix if len(atoms) >= atoms.shape[1] else matrix @ matrix.T


def _leading(atoms: Floats, count: int) -> Array:
    """The right singular vectors of the largest singular values, in rows."""
    from scipy.linalg import eigh

    gram = _gram(atoms)
    last = len(gram) - 1
    vectors: Array = eigh(gram, subset_by_index=[last - count + 1, last])[1].T[::-1]
    if len(atoms) < atoms.shape[1]:
        vectors = vectors @ atoms
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return vectors


def _standing_out(atoms: Floats, rng: np.random.Generator) -> int:
    """How many leading squared singular values are above those of permuted atoms."""
    values = np.linalg.eigvalsh(_gram(atoms))[::-1]
    count = len(values)
    for _ in range(PARALLEL):
        null = np.linalg.eigvalsh(_gram(within_atoms(atoms, rng)))[::-1]
        above = values[:count] > null[:count] * (1 + 1e-6)
        count = count if above.all() else int(np.argmin(above))
        if count == 0:
            break
    return count


def _mean_overlap(left: Sequence[Array], right: Sequence[Array]) -> float:
    overlaps = [
        np.square(left[r] @ right[s].T).sum() / len(left[r])
        for r, s in combinations(range(len(left)), 2)
    ]
    return float(np.mean(overlaps))
