"""`migrate`: every figure by its definition, planted cases, and real collections."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import identikit as ik
from identikit.retrieval import _plan as plans
from identikit.retrieval import fit_space_map

K, N = 5, 12
OPTIONS = ["stay", "swap", "map-queries", "map-index", "map-rescore", "re-embed"]


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def world(seed: int = 0, documents: int = 120, queries: int = 14, widths=(9, 9)):
    """Documents and queries of two models that see the same things, each with noise of its own."""
    rng = np.random.default_rng(seed)
    topics = rng.normal(size=(documents, 6))
    asked = topics[rng.integers(0, documents, queries)] + 0.5 * rng.normal(size=(queries, 6))
    out = []
    for width in widths:
        turn, shift = rng.normal(size=(6, width)), rng.normal(size=width)
        for rows in (topics, asked):
            out.append(rows @ turn + shift + 0.3 * rng.normal(size=(len(rows), width)))
    old, old_queries, new, new_queries = out
    near = np.argsort(((asked[:, None] - topics) ** 2).sum(axis=2), axis=1)[:, :6]
    qrels = [
        (q, int(d), 1 + place % 3) for q, row in enumerate(near) for place, d in enumerate(row)
    ]
    qrels = [each for each in qrels if each[0] != 3]
    return old, new, old_queries, new_queries, qrels


class Ranker:
    """Rankings by plain loops, from the definitions."""

    def __init__(self, old, new, old_queries, new_queries, metric, plan, *, own=None):
        self.metric, self.plan, self.own = metric, plan, own
        if metric == "cosine":
            old, new, old_queries, new_queries = map(unit, (old, new, old_queries, new_queries))
        self.old, self.new, self.old_queries, self.new_queries = old, new, old_queries, new_queries
        self.centre = [math.fsum(column) / len(old) for column in old.T]
        self.to_old, self.to_new = {}, {}
        kinds = [plans.KINDS, plans.KINDS]
        for f in range(plan.folds):
            inside = [d for d in plan.pool.tolist() if plan.fold[d] != f]
            back = fit_space_map(new[inside], old[inside], kinds=kinds[0], metric=metric)
            forth = fit_space_map(
                old[inside], new[inside], kinds=kinds[1], metric=metric, side="documents"
            )
            self.to_old[f], self.to_new[f], kinds = back, forth, [(back.kind,), (forth.kind,)]

    def score(self, q, x):
        """What an index with this metric orders documents by."""
        if self.metric == "l2":
            return -math.fsum((a - b) ** 2 for a, b in zip(q, x))
        return math.fsum(a * b for a, b in zip(q, x))

    def ranking(self, query: int, score, documents=None):
        found = range(len(self.old)) if documents is None else documents
        kept = [d for d in found if self.own is None or d != self.own[query]]
        return sorted(kept, key=lambda d: (-score(d), d))

    def mapped_query_score(self, query: int):
        """The level of each fold's own map is taken off, as it is the same for all documents."""
        images = {
            f: m.transform(self.new_queries[query : query + 1])[0] for f, m in self.to_old.items()
        }

        def score(d: int) -> float:
            image = images[self.plan.fold[d]]
            if self.metric == "l2":
                level = math.fsum((a - b) ** 2 for a, b in zip(image, self.centre))
                return self.score(image, self.old[d]) + level
            return self.score(image, self.old[d]) - self.score(image, self.centre)

        return score

    def moved(self, d: int):
        return self.to_new[self.plan.fold[d]].transform(self.old[d : d + 1])[0]

    def all(self, query: int, n: int) -> dict[str, list[int]]:
        q_old, q_new = self.old_queries[query], self.new_queries[query]
        found = {
            "stay": self.ranking(query, lambda d: self.score(q_old, self.old[d])),
            "map-queries": self.ranking(query, self.mapped_query_score(query)),
            "map-index": self.ranking(query, lambda d: self.score(q_new, self.moved(d))),
            "re-embed": self.ranking(query, lambda d: self.score(q_new, self.new[d])),
        }
        if self.old.shape[1] == self.new.shape[1]:
            found["swap"] = self.ranking(query, lambda d: self.score(q_new, self.old[d]))
        first = found["map-queries"][:n]
        found["map-rescore"] = self.ranking(query, lambda d: self.score(q_new, self.new[d]), first)
        return found

    def mixed(self, query: int, share: float, *, mapped: bool) -> list[int]:
        last = list(plans.SHARES).index(share)
        q = self.new_queries[query]

        def score(d: int) -> float:
            if self.plan.band[d] < last:
                return self.score(q, self.new[d])
            return self.score(q, self.moved(d) if mapped else self.old[d])

        return self.ranking(query, score)


def plan_of(old, new, queries, own=None, *, fit_rows=None, fit_on_queries=False) -> plans.Plan:
    """The folds, bands and fits of `migrate`, which depend on numbers and the seed alone."""
    sides = [SimpleNamespace(rows=len(rows), width=rows.shape[1]) for rows in (old, new)]
    given = SimpleNamespace(old=sides[0], new=sides[1], old_queries=queries, own=own)
    return plans.drawn_plan(given, fit_rows, fit_on_queries, 0)


def measures(ranking, reference, relevant, k):
    found = {"overlap": len(set(ranking[:k]) & set(reference[:k])) / k}
    if relevant:
        gains = [relevant.get(d, 0) for d in ranking[:10]]
        ideal = sorted(relevant.values(), reverse=True)[:10]
        dcg = sum(g / math.log2(i + 2) for i, g in enumerate(gains))
        found["ndcg"] = dcg / sum(g / math.log2(i + 2) for i, g in enumerate(ideal))
        found["mrr"] = next((1 / (i + 1) for i, g in enumerate(gains) if g > 0), 0.0)
        found["recall"] = sum(d in relevant for d in ranking[:k]) / len(relevant)
    return found


def mean_of(rankings, references, qrels, k):
    """Means over queries, of the judged ones where judgments are needed."""
    relevant = [{} for _ in rankings]
    for query, document, grade in qrels:
        if grade > 0:
            relevant[query][document] = grade
    each = [measures(*three, k) for three in zip(rankings, references, relevant)]
    names = ("ndcg", "mrr", "recall", "overlap") if qrels else ("overlap",)
    return {name: np.mean([found[name] for found in each if name in found]) for name in names}


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
@pytest.mark.parametrize("widths", [(9, 9), (9, 7)])
def test_every_figure_is_what_plain_loops_give(metric, widths):
    old, new, old_queries, new_queries, qrels = world(1, widths=widths)
    found = ik.migrate(
        old, new, queries=(old_queries, new_queries), qrels=qrels, metric=metric, k=K, n=N
    )
    ranker = Ranker(old, new, old_queries, new_queries, metric, plan_of(old, new, old_queries))
    lists = [ranker.all(query, N) for query in range(len(old_queries))]
    best = [each["re-embed"] for each in lists]
    for option in found.options:
        if option.name == "swap" and widths[0] != widths[1]:
            assert not option.values
            assert "9 columns" in option.why_not
            continue
        expected = mean_of([each[option.name] for each in lists], best, qrels, K)
        assert set(option.values) == set(expected)
        for name, value in expected.items():
            assert option.values[name].mean == pytest.approx(value, abs=1e-9), (option.name, name)
            gap = option.values[name].mean - found.option("stay").values[name].mean
            if option.name != "stay":
                assert option.values[name].difference == pytest.approx(gap, abs=1e-9)
    for point in found.half:
        rankings = [
            ranker.mixed(query, point.share, mapped=point.way == "map")
            for query in range(len(old_queries))
        ]
        for name, value in mean_of(rankings, best, qrels, K).items():
            assert point.values[name].mean == pytest.approx(value, abs=1e-9), point


def test_documents_that_stand_in_are_held_out_and_do_not_find_themselves():
    old, new, *_ = world(2)
    found = ik.migrate(old, new, k=K, n=N)
    rng = np.random.default_rng([0, 1])
    own = np.sort(rng.choice(len(old), len(old) // 5, replace=False))
    plan = plan_of(old, new, old[own], own)
    assert not set(plan.pool.tolist()) & set(own.tolist())
    ranker = Ranker(old, new, old[own], new[own], "cosine", plan, own=own)
    lists = [ranker.all(query, N) for query in range(len(own))]
    assert all(own[query] not in found["re-embed"] for query, found in enumerate(lists))
    best = [each["re-embed"] for each in lists]
    for option in found.options:
        expected = mean_of([each[option.name] for each in lists], best, [], K)
        assert option.values["overlap"].mean == pytest.approx(expected["overlap"], abs=1e-9)
    assert found.queries == len(own)
    assert found.stand_ins
    assert not found
    assert found.verdict.choice == "cannot say without queries"
    assert "flatter" in found.verdict.reason
    assert any("flatters" in text for text in found.warnings)


def test_equal_documents_are_in_the_order_of_their_rows():
    old, new, old_queries, new_queries, _ = world(3, documents=60)
    old, new = np.repeat(old, 3, axis=0)[:, :], np.repeat(new, 3, axis=0)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(old))
    old, new = old[order], new[order]
    found = ik.migrate(old, new, queries=(old_queries, new_queries), k=K, n=N)
    ranker = Ranker(old, new, old_queries, new_queries, "cosine", plan_of(old, new, old_queries))
    lists = [ranker.all(query, N) for query in range(len(old_queries))]
    for option in found.options:
        expected = mean_of([e[option.name] for e in lists], [e["re-embed"] for e in lists], [], K)
        assert option.values["overlap"].mean == pytest.approx(expected["overlap"], abs=1e-9)


def test_a_map_that_has_seen_the_documents_would_flatter_and_is_not_used(monkeypatch):
    """Old vectors are noise with more columns than documents: in sample, a map finds them all."""
    rng = np.random.default_rng(0)
    new, new_queries = rng.normal(size=(150, 40)), rng.normal(size=(30, 40))
    old, old_queries = rng.normal(size=(150, 400)), rng.normal(size=(30, 400))

    def least_squares(_, stats):
        weights = np.linalg.lstsq(stats.sxx, stats.sxy, rcond=None)[0]
        return plans.Fit(weights, stats.y_mean - stats.x_mean @ weights)

    image = new_queries @ np.linalg.lstsq(new, old, rcond=None)[0]
    in_sample = np.argsort(-image @ old.T, axis=1)[:, :10]
    right = np.argsort(-new_queries @ new.T, axis=1)[:, :10]
    flattered = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(in_sample, right)])
    assert flattered > 0.4
    monkeypatch.setattr(plans, "FITS", dict.fromkeys(plans.KINDS, least_squares))
    found = ik.migrate(old, new, queries=(old_queries, new_queries), metric="dot")
    assert found.option("map-queries").values["overlap"].mean < 0.15
    assert found.option("map-index").values["overlap"].mean < 0.15
    assert found.verdict.choice == "check the pairing"


def test_maps_fitted_on_queries_have_not_seen_the_query():
    """With the queries' own new vectors pure noise, only a leak could place them."""
    old, new, old_queries, new_queries, _ = world(4, queries=60)
    plan = plan_of(old, new, old_queries, fit_on_queries=True)
    assert sorted(np.bincount(plan.query_fold).tolist()) == [12] * 5
    plain = ik.migrate(old, new, queries=(old_queries, new_queries), k=K, n=N)
    asked = ik.migrate(old, new, queries=(old_queries, new_queries), k=K, n=N, fit_on_queries=True)
    assert asked.fitted_on_queries
    assert asked.option("stay") == plain.option("stay")
    assert asked.option("re-embed") == plain.option("re-embed")
    ranker = Ranker(old, new, old_queries, new_queries, "cosine", plan)
    old, new, old_queries, new_queries = map(unit, (old, new, old_queries, new_queries))
    kind, overlaps = ranker.to_old[0].kind, []
    for query in range(len(new_queries)):
        others = plan.query_fold != plan.query_fold[query]
        images = {}
        for f in range(5):
            inside = plan.fold[plan.pool] != f
            source = np.concatenate([new[plan.pool][inside], new_queries[others]])
            target = np.concatenate([old[plan.pool][inside], old_queries[others]])
            fitted = fit_space_map(source, target, kinds=(kind,))
            images[f] = fitted.transform(new_queries[query : query + 1])[0]
        keys = [images[plan.fold[d]] @ (old[d] - old.mean(axis=0)) for d in range(len(old))]
        found = np.argsort(-np.array(keys), kind="stable")[:K]
        best = np.argsort(-(new @ new_queries[query]), kind="stable")[:K]
        overlaps.append(len(set(found.tolist()) & set(best.tolist())) / K)
    value = asked.option("map-queries").values["overlap"].mean
    assert value == pytest.approx(np.mean(overlaps), abs=1e-9)


def test_shuffled_documents_are_caught():
    old, new, old_queries, new_queries, qrels = world(5, documents=300, queries=40)
    order = np.random.default_rng(0).permutation(len(new))
    found = ik.migrate(old, new[order], queries=(old_queries, new_queries), qrels=qrels)
    assert not found
    assert found.verdict.choice == "check the pairing"
    assert "not the same documents" in found.verdict.reason
    assert found.verdict.reason in found.warnings
    assert ik.migrate(old, new[order]).verdict.choice == "check the pairing"


def test_shuffled_queries_are_caught():
    old, new, old_queries, new_queries, qrels = world(6, documents=300, queries=40)
    found = ik.migrate(old, new, queries=(old_queries, new_queries[::-1]), qrels=qrels)
    assert found.verdict.choice == "check the pairing"
    assert "not the same queries" in found.verdict.reason


def test_a_rotated_space_is_mapped_without_loss():
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(16, 16)))[0]
    old, old_queries = rng.normal(size=(500, 16)), rng.normal(size=(40, 16))
    found = ik.migrate(old, old @ turn, queries=(old_queries, old_queries @ turn))
    for name in ("stay", "map-queries", "map-index", "map-rescore"):
        assert found.option(name).values["overlap"].mean > 0.99
    assert found.option("swap").values["overlap"].mean < 0.3
    assert found.verdict.choice == "stay"
    assert all(point.values["overlap"].mean > 0.99 for point in found.half if point.way == "map")
    after = found.calibration.at(0.5)
    assert after == pytest.approx(dict.fromkeys(after, 0.5), abs=1e-6)


def test_a_much_better_model_is_worth_its_vectors():
    """The old model sees one of six topics; no map can bring back what its vectors do not hold."""
    rng = np.random.default_rng(0)
    topics, asked = rng.normal(size=(400, 6)), rng.normal(size=(60, 6))
    new, new_queries = topics, asked
    blind = np.diag([1, 0.2, 0, 0, 0, 0]) @ rng.normal(size=(6, 8))
    old, old_queries = (rows @ blind + 0.5 * rng.normal(size=(len(rows), 8))
                        for rows in (topics, asked))  # fmt: skip
    near = np.argsort(-unit(asked) @ unit(topics).T, axis=1)[:, :5]
    qrels = [(q, int(d), 1) for q, row in enumerate(near) for d in row]
    found = ik.migrate(old, new, queries=(old_queries, new_queries), qrels=qrels)
    assert found.verdict.choice == "re-embed"
    assert found.option("re-embed").values["ndcg"].difference_interval[0] > 0.3
    back = ik.migrate(new, old, queries=(new_queries, old_queries), qrels=qrels)
    assert back.verdict.choice == "stay"
    assert found.option("re-embed").cost.documents == 400
    assert found.option("map-rescore").cost.per_query == 51


def test_slices_and_the_worst_of_them():
    """In one slice the new queries are noise: that is where every option but staying loses."""
    old, new, old_queries, new_queries, qrels = world(7, documents=400, queries=90)
    labels = np.array(["de", "en", "fr"])[np.arange(90) % 3]
    rng = np.random.default_rng(0)
    lost = labels == "fr"
    new_queries = np.where(lost[:, None], rng.normal(size=new_queries.shape), new_queries)
    found = ik.migrate(
        old, new, queries=(old_queries, new_queries), qrels=qrels, slices=labels.tolist()
    )
    worst = {part.option: part.slice for part in found.slices if part.worst}
    assert set(worst) == set(OPTIONS) - {"stay"}
    assert worst["re-embed"] == worst["map-queries"] == "fr"
    table = found.slice_table
    assert len(table) == 18
    assert table.groupby("option")["queries"].sum().unique().tolist() == [found.judged]
    part = next(p for p in found.slices if p.option == "re-embed" and p.slice == "fr")
    assert part.value.difference_interval[1] < 0
    whole = found.option("re-embed").values["ndcg"].mean
    mine = table[table.option == "re-embed"]
    assert np.average(mine.ndcg, weights=mine.queries) == pytest.approx(whole, abs=1e-12)


def test_the_same_call_gives_the_same_document_and_json_is_strict():
    old, new, old_queries, new_queries, qrels = world(8)
    first, second = (
        ik.migrate(old, new, queries=(old_queries, new_queries), qrels=qrels, seed=3).to_json()
        for _ in range(2)
    )
    assert first == second
    document = json.loads(first)
    assert [each["name"] for each in document["options"]] == OPTIONS
    assert document["verdict"]["choice"] in OPTIONS
    assert document["calibration"]["thresholds"]


def test_a_table_has_a_row_for_each_option():
    old, new, old_queries, new_queries, _ = world(9, widths=(9, 7))
    found = ik.migrate(old, new, queries=(old_queries, new_queries), names=["v1", "v2"])
    assert found.table.option.tolist() == OPTIONS
    assert found.table.loc[1, "why_not"]
    assert np.isnan(found.table.loc[1, "overlap"])
    assert repr(found).startswith("Migration('v1' to 'v2', 120 documents, 14 queries: ")
    assert found.half_table.way.unique().tolist() == ["map"]
    with pytest.raises(ik.InputError, match="no option 'move'"):
        found.option("move")


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from(["cosine", "dot", "l2"]), st.floats(0, 1e5))
def test_blocks_and_single_precision_leave_the_search_exact(seed, metric, offset):
    """Also where all vectors have a large mean in common, which single precision cannot hold."""
    rng = np.random.default_rng(seed)
    documents = rng.normal(size=(600, 5)) + offset
    queries = rng.normal(size=(8, 5)) + (offset if metric != "dot" else 0)
    found = ik.migrate(
        documents, documents[:, :3], queries=(queries, queries[:, :3]), metric=metric, k=10, n=10
    )
    assert found.option("re-embed").values["overlap"].mean == 1

    def top(width):
        x, q = documents[:, :width], queries[:, :width]
        if metric == "cosine":
            x, q = unit(x), unit(q)
        if metric == "l2":
            return np.argsort(((q[:, None] - x) ** 2).sum(axis=2), axis=1, kind="stable")[:, :10]
        centre = x.mean(axis=0)
        return np.argsort(-(q @ (x - centre).T), axis=1, kind="stable")[:, :10]

    both = [len(set(a) & set(b)) / 10 for a, b in zip(top(5).tolist(), top(3).tolist())]
    assert found.option("stay").values["overlap"].mean == pytest.approx(np.mean(both), abs=1e-9)
