"""`migrate` meets planted faults, and its maps: other kinds of them, and those that are kept."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import identikit as ik
from identikit.retrieval import _plan as plans
from identikit.retrieval import fit_space_map, load_space_map

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


# -------------------------------------------------------------------- other kinds, maps to keep


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def overlap(scores: np.ndarray, best: np.ndarray) -> float:
    found, right = (np.argsort(-each, axis=1, kind="stable")[:, :10] for each in (scores, best))
    return float(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, right)]))


@pytest.mark.parametrize("fit_on_queries", [False, True])
def test_kinds_that_need_rows_have_not_seen_those_that_they_are_scored_on(fit_on_queries):
    """Against maps that are fitted here, on documents and queries of other folds."""
    rng = np.random.default_rng(0)
    topics, asked = rng.normal(size=(150, 5)), rng.normal(size=(20, 5))
    views = []
    for width in (30, 24):
        turn = rng.normal(size=(5, width))
        views += [unit(rows @ turn + rng.normal(size=(len(rows), width)))
                  for rows in (topics, asked)]  # fmt: skip
    old, old_queries, new, new_queries = views
    found = ik.migrate(old, new, queries=(old_queries, new_queries), kinds=["low_rank"],
                       fit_on_queries=fit_on_queries)  # fmt: skip
    assert {each.kind for each in found.maps} == {"low_rank"}
    sides = [SimpleNamespace(rows=150, width=width) for width in (30, 24)]
    given = SimpleNamespace(old=sides[0], new=sides[1], own=None, old_queries=old_queries)
    plan = plans.drawn_plan(given, None, fit_on_queries, 0)
    by_query, by_index = np.empty((20, 150)), np.empty((20, 150))
    centre = old - old.mean(axis=0)
    for f in range(plan.folds):
        for g in np.unique(plan.query_fold):
            kept = plan.pool[plan.fold[plan.pool] != f]
            others = plan.query_fold != g
            pair = (np.concatenate([old[kept], old_queries[others]]),
                    np.concatenate([new[kept], new_queries[others]]))  # fmt: skip
            places = np.ix_(plan.query_fold == g, plan.fold == f)
            back = fit_space_map(pair[1], pair[0], kinds=["low_rank"])
            images = back.transform(new_queries[plan.query_fold == g])
            by_query[places] = images @ centre[plan.fold == f].T
            forth = fit_space_map(*pair, kinds=["low_rank"], side="documents")
            moved = forth.transform(old[plan.fold == f])
            by_index[places] = new_queries[plan.query_fold == g] @ moved.T
    best = new_queries @ new.T
    for name, scores in (("map-queries", by_query), ("map-index", by_index)):
        value = found.option(name).values["overlap"].mean
        assert value == pytest.approx(overlap(scores, best), abs=1e-9)


@pytest.mark.extra("torch")
def test_a_network_is_measured_too(given):
    pytest.importorskip("torch", reason="a residual network needs the extra torch")
    old, new, old_queries, new_queries, _ = given
    found = ik.migrate(old, new, queries=(old_queries, new_queries), kinds=["network"])
    assert {each.kind for each in found.maps} == {"network"}
    assert found.option("map-index").values["overlap"].mean > 0.5
    chosen = ik.migrate(
        old, new, queries=(old_queries, new_queries), kinds=["rigid", "affine", "network"]
    )
    assert {each.kind for each in chosen.maps} == {"rigid"}  # the simpler one is as good


def test_maps_to_keep_lead_the_way_they_say(given, tmp_path):
    old, new, old_queries, new_queries, _ = given
    both = (old_queries, new_queries)
    found = ik.migrate(old, new, queries=both, names=["v1", "v2"], keep_maps=True)
    assert not ik.migrate(old, new, queries=both).space_maps
    assert "space_maps" not in found.to_dict()
    back, forth = found.space_maps["queries"], found.space_maps["index"]
    assert (back.source.name, back.target.name, back.side) == ("v2", "v1", "queries")
    assert (forth.source.name, forth.target.name, forth.side) == ("v1", "v2", "documents")
    assert back.queries is not None
    expected = fit_space_map(new, old, kinds=[back.kind])
    np.testing.assert_allclose(back.weights, expected.weights, atol=1e-12)
    asked = ik.migrate(old, new, queries=both, keep_maps=True, fit_on_queries=True)
    more = fit_space_map(np.concatenate([new, new_queries]), np.concatenate([old, old_queries]),
                         kinds=[asked.space_maps["queries"].kind])  # fmt: skip
    np.testing.assert_allclose(asked.space_maps["queries"].weights, more.weights, atol=1e-12)
    forth.save(tmp_path / "map.safetensors")
    kept = load_space_map(tmp_path / "map.safetensors")
    best, mapped = new_queries @ unit(new).T, new_queries @ kept.transform(old).T
    assert overlap(mapped, best) > 0.5
