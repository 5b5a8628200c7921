"""Collections with known relevance, and pairs of embedding models with a planted relation.

`docs/migrate.py` holds the verdicts of `identikit migrate` against them. Nothing was chosen with
them: they were written when the verdict was fixed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array

TOPICS, MEANING, DOCUMENTS, QUERIES = 30, 24, 800, 200
#: What a model adds to the meaning that it sees, in units of the meaning's spread.
CLEAR, NOISY = 0.3, 0.9


@dataclass(frozen=True)
class Planted:
    """What both models make of the documents and queries, and the judgments."""

    old: Array
    new: Array
    old_queries: Array
    new_queries: Array
    qrels: list[tuple[int, int, int]]


class _World:
    """Documents and queries with a meaning; queries are shorter, and displaced from documents."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([20, seed])
        topics = self.rng.normal(size=(TOPICS, MEANING))
        of = self.rng.integers(0, TOPICS, DOCUMENTS)
        self.documents = topics[of] + 0.7 * self.rng.normal(size=(DOCUMENTS, MEANING))
        wanted = topics[self.rng.integers(0, TOPICS, QUERIES)]
        self.asked = wanted + 0.7 * self.rng.normal(size=(QUERIES, MEANING))
        self.aside = 0.5 * self.rng.normal(size=MEANING)

    def qrels(self) -> list[tuple[int, int, int]]:
        """The nearest documents in meaning; the first of them has the higher grade."""
        gaps = self.asked[:, None] - self.documents
        near = np.argsort(np.square(gaps).sum(axis=2), axis=1)
        counts = self.rng.integers(2, 9, size=QUERIES)
        return [
            (query, int(document), 2 if place == 0 else 1)
            for query, count in enumerate(counts)
            for place, document in enumerate(near[query, :count])
        ]

    def sees(self, weights: Array, noise: float) -> tuple[Array, Array]:
        """Documents and queries as a model with these weights gives them back, of length one."""
        out = []
        for rows in (self.documents, 0.6 * self.asked + self.aside):
            seen = rows @ weights
            spread = seen.std()
            seen = seen + noise * spread * self.rng.normal(size=seen.shape) + 0.5 * spread
            out.append(seen / np.linalg.norm(seen, axis=1, keepdims=True))
        return out[0], out[1]

    def weights(self, width: int, rank: int = MEANING) -> Array:
        """A random view of the leading part of the meaning."""
        found = self.rng.normal(size=(MEANING, width))
        found[rank:] = 0
        return found


def _turned(world: _World, seen: tuple[Array, Array]) -> tuple[Array, Array]:
    turn = np.linalg.qr(world.rng.normal(size=(seen[0].shape[1],) * 2))[0]
    return seen[0] @ turn, seen[1] @ turn


#: For each relation, widths of both models and the noise of each; a rank if the meaning is cut.
RELATIONS: dict[str, tuple[int, int, float, float, int]] = {
    "another linear view": (48, 48, CLEAR, CLEAR, MEANING),
    "a better successor": (48, 48, NOISY, CLEAR, MEANING),
    "a worse successor": (48, 48, CLEAR, NOISY, MEANING),
    "a wider model": (32, 96, NOISY, CLEAR, MEANING),
    "a narrower model": (96, 32, CLEAR, CLEAR, MEANING),
    "a model of lower rank": (48, 48, CLEAR, CLEAR, MEANING // 2),
    "two noisy models": (48, 48, NOISY, NOISY, MEANING),
}
ROTATION, UNRELATED = "a rotation", "an unrelated model"
KINDS = (ROTATION, *RELATIONS, UNRELATED)


def planted(kind: str, seed: int) -> Planted:
    """A collection with two models of a kind of relation."""
    world = _World(seed)
    if kind in RELATIONS:
        before, after, noise, more, rank = RELATIONS[kind]
        old = world.sees(world.weights(before), noise)
        new = world.sees(world.weights(after, rank), more)
    else:
        old = world.sees(world.weights(48), CLEAR)
        new = _turned(world, old)
        if kind == UNRELATED:
            new = tuple(world.rng.normal(size=rows.shape) for rows in old)
    return Planted(old[0], new[0], old[1], new[1], world.qrels())
