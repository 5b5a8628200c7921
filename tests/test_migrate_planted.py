"""`migrate` meets planted faults: a bad map, a wrong direction, queries without their prefix."""

from __future__ import annotations

import numpy as np
import pytest

import identikit as ik
from identikit.retrieval import _plan as plans

WIDTH = 12


@pytest.fixture
def given():
    """Two models that see the same, and judgments by what they see."""
    rng = np.random.default_rng(0)
    topics, asked = rng.normal(size=(400, WIDTH)), rng.normal(size=(60, WIDTH))
    turn = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0]
    near = np.argsort(-(asked @ topics.T), axis=1)[:, :6]
    qrels = [(q, int(d), 1) for q, row in enumerate(near) for d in row]
    noise = [0.3 * rng.normal(size=rows.shape) for rows in (topics, asked)]
    return topics + noise[0], topics @ turn, asked + noise[1], asked @ turn, qrels


def test_a_bad_map_is_caught(given, monkeypatch):
    """A map in a random direction, in place of what was fitted."""
    old, new, old_queries, new_queries, qrels = given
    sound = ik.migrate(old, new, queries=(old_queries, new_queries), qrels=qrels)
    names = ("map-queries", "map-index")
    assert all(sound.option(name).values["overlap"].mean > 0.5 for name in names)
    weights = np.random.default_rng(1).normal(size=(WIDTH, WIDTH))

    def bad(_, stats):
        return plans.Fit(weights, stats.y_mean - stats.x_mean @ weights)

    monkeypatch.setattr(plans, "FITS", dict.fromkeys(plans.KINDS, bad))
    found = ik.migrate(old, new, queries=(old_queries, new_queries), qrels=qrels)
    for name in names:
        assert found.option(name).values["ndcg"].difference_interval[1] < -0.2
    assert found.verdict.choice in ("stay", "re-embed")


def test_queries_in_the_wrong_direction_are_caught(given):
    """Of equal width, so that no shape tells: the new queries were given as the old ones."""
    old, new, old_queries, new_queries, qrels = given
    found = ik.migrate(old, new, queries=(new_queries, old_queries), qrels=qrels)
    assert not found
    assert found.verdict.choice == "check the pairing"


def test_new_queries_without_their_prefix_are_not_recommended(given):
    """All displaced alike, as by a missing instruction; with it, re-embedding is the better."""
    old, new, old_queries, new_queries, qrels = given
    sound = ik.migrate(old, new, queries=(old_queries, new_queries), qrels=qrels)
    assert sound.option("re-embed").values["ndcg"].difference_interval[0] > 0
    step = np.zeros(WIDTH)
    step[0] = 6.0
    found = ik.migrate(old, new, queries=(old_queries, new_queries + step), qrels=qrels)
    assert found.verdict.choice == "stay"
    assert found.option("re-embed").values["ndcg"].difference_interval[1] < 0
