"""`migrate` on parts of what is given: slices of queries and documents, rows of zeros dropped."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import identikit as ik
from identikit.retrieval import _migrate as core

K = 10


@pytest.fixture
def given():
    rng = np.random.default_rng(0)
    turn = rng.normal(size=(6, 6))
    documents, queries = rng.normal(size=(130, 6)), rng.normal(size=(25, 6))
    new, new_queries = (rows @ turn + 0.3 * rng.normal(size=rows.shape)
                        for rows in (documents, queries))  # fmt: skip
    near = np.argsort(-(queries @ documents.T), axis=1)[:, :6]
    qrels = np.array([(q, d, 1 + place % 3) for q, row in enumerate(near)
                      for place, d in enumerate(row)])  # fmt: skip
    return documents, new, (queries, new_queries), qrels


@pytest.fixture
def rankings(monkeypatch):
    """Every ranking that `migrate` makes, as it is made."""
    kept, search = {}, core.search_all

    def remembered(*arguments):
        found = search(*arguments)
        kept.update(found.rankings)
        return found

    monkeypatch.setattr(core, "search_all", remembered)
    return kept


def values(found: ik.Migration) -> dict[str, list[float]]:
    return {
        option.name: [value.mean for value in option.values.values()] for option in found.options
    }


def ndcg(ranking, grades: dict[int, int]) -> float:
    gains = [grades.get(d, 0) / math.log2(i + 2) for i, d in enumerate(ranking[:10])]
    ideal = sorted(grades.values(), reverse=True)[:10]
    return sum(gains) / sum(g / math.log2(i + 2) for i, g in enumerate(ideal))


def test_slices_of_documents_are_what_plain_loops_give(given, rankings):
    old, new, queries, qrels = given
    labels = np.random.default_rng(1).choice(["de", "en", "fr"], size=130, p=[0.6, 0.3, 0.1])
    found = ik.migrate(old, new, queries=queries, qrels=qrels, slices=labels.tolist())
    assert found.sliced == "documents"
    assert len(found.slices) == 18
    for part in found.slices:
        expected = []
        for query, ranking in enumerate(rankings[part.option].tolist()):
            grades = {d: g for q, d, g in qrels.tolist() if q == query and labels[d] == part.slice}
            if grades:
                expected.append(ndcg(ranking, grades))
        assert part.queries == len(expected)
        assert part.value.mean == pytest.approx(np.mean(expected), abs=1e-12)


def test_without_judgments_slices_count_what_re_embedding_finds(given, rankings):
    old, new, queries, _ = given
    labels = np.where(np.arange(130) < 15, "rare", "common")
    found = ik.migrate(old, new, queries=queries, slices=labels)
    for part in found.slices:
        expected = []
        for ranking, best in zip(rankings[part.option].tolist(), rankings["re-embed"].tolist()):
            there = [d for d in best[:K] if labels[d] == part.slice]
            if there:
                expected.append(len(set(there) & set(ranking[:K])) / len(there))
        assert part.queries == len(expected)
        assert part.value.mean == pytest.approx(np.mean(expected), abs=1e-12)
        if part.option == "re-embed":
            assert part.value.mean == 1


def test_the_worst_slice_of_documents_is_found(tmp_path):
    """The new model cannot tell documents in one language apart."""
    rng = np.random.default_rng(0)
    documents, asked = rng.normal(size=(300, 8)), rng.normal(size=(60, 8))
    labels = np.array(["de", "en", "fr"])[np.arange(300) % 3]
    new = np.where((labels == "fr")[:, None], rng.normal(size=documents.shape), documents)
    near = np.argsort(-asked @ documents.T, axis=1)[:, :12]
    qrels = [(q, int(d), 1) for q, row in enumerate(near) for d in row]
    found = ik.migrate(documents, new, queries=(asked, asked), qrels=qrels, slices=labels)
    part = next(each for each in found.slices if each.option == "re-embed" and each.worst)
    assert part.slice == "fr"
    assert part.value.difference_interval[1] < 0
    found.report(tmp_path / "page.html")
    assert "Slices of the documents" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_column_is_looked_for_among_queries_and_then_among_documents(given, tmp_path):
    old, new, (old_queries, new_queries), _ = given
    names = [f"x{j}" for j in range(6)]
    files = {}
    for name, rows in (("old", old), ("new", new), ("q", old_queries), ("new_q", new_queries)):
        frame = pd.DataFrame(rows, columns=names).assign(year=2000 + np.arange(len(rows)) % 2)
        files[name] = tmp_path / f"{name}.csv"
        frame.to_csv(files[name], index=False)
    for name in ("q", "new_q"):
        frame = pd.read_csv(files[name]).drop(columns="year")
        files[f"bare_{name}"] = tmp_path / f"bare_{name}.csv"
        frame.to_csv(files[f"bare_{name}"], index=False)
    for asked, of in (("q", "queries"), ("bare_q", "documents")):
        queries = (files[asked], files[asked.replace("q", "new_q")])
        found = ik.migrate(files["old"], files["new"], queries=queries, slices="year")
        assert found.sliced == of
        assert {part.slice for part in found.slices} == {"2000", "2001"}
        assert found.widths == (6, 6)  # a year is a dimension of no model
    stood_in = ik.migrate(files["old"], files["new"], slices="year")
    assert stood_in.sliced == "queries"
    assert stood_in.widths == (6, 6)


def test_labels_follow_documents_that_are_paired_by_id(given):
    old, new, queries, qrels = given
    labels, order = np.arange(130) % 3, np.random.default_rng(1).permutation(130)
    plain = ik.migrate(old, new, queries=queries, qrels=qrels, slices=labels)
    names = [f"d{row}" for row in range(130)]
    called = [f"q{row}" for row in range(25)]
    paired = ik.migrate(
        old,
        new[order],
        queries=queries,
        qrels=[(f"q{q}", f"d{d}", g) for q, d, g in qrels.tolist()],
        slices=labels,
        ids=[names, [names[row] for row in order]],
        query_ids=[called, called],
    )
    for one, other in zip(plain.slices, paired.slices, strict=True):
        assert one.value.mean == pytest.approx(other.value.mean, abs=1e-12)


def test_too_many_labels_are_no_slices(given):
    old, new, queries, _ = given
    with pytest.raises(ik.InputError, match="130 different labels of slices; give at most 100"):
        ik.migrate(old, new, queries=queries, slices=np.arange(130))


@pytest.mark.parametrize("by_id", [False, True])
def test_dropping_zeros_is_leaving_them_out_by_hand(given, by_id):
    old, new, (old_queries, new_queries), qrels = (*given[:2], given[2], given[3])
    old, new, old_queries = old.copy(), new.copy(), old_queries.copy()
    old[[3, 70]], new[[3, 9]], old_queries[5] = 0, 0, 0
    kept = np.setdiff1d(np.arange(130), [3, 9, 70])
    asked = np.setdiff1d(np.arange(25), [5])
    place = {int(row): number for number, row in enumerate(kept)}
    number = {int(row): number for number, row in enumerate(asked)}
    left = [(number[q], place[d], g) for q, d, g in qrels.tolist() if q in number and d in place]
    labels = np.arange(130) % 2
    more = {}
    if by_id:
        order = np.random.default_rng(1).permutation(130)
        names = [f"d{row}" for row in range(130)]
        more = {
            "ids": [names, [names[row] for row in order]],
            "query_ids": [[f"q{row}" for row in range(25)]] * 2,
        }
    found = ik.migrate(
        old,
        new[order] if by_id else new,
        queries=(old_queries, new_queries),
        qrels=[(f"q{q}", f"d{d}", g) for q, d, g in qrels.tolist()] if by_id else qrels,
        slices=labels,
        drop_zeros=True,
        **more,
    )
    plain = ik.migrate(
        old[kept],
        new[kept],
        queries=(old_queries[asked], new_queries[asked]),
        qrels=left,
        slices=labels[kept],
    )
    assert (found.documents, found.queries) == (127, 24)
    assert values(found) == values(plain)
    assert found.slices == plain.slices
    lost = len(qrels) - len(left)
    assert lost > 6
    assert found.warnings[-1] == (
        "3 documents and 1 queries are zeros in one of the models and were left out, with "
        f"{lost} judgments of them."
    )


def test_dropping_zeros_where_there_are_none_or_nothing_else(given):
    old, new, queries, qrels = given
    plain, dropped = (
        ik.migrate(old, new, queries=queries, qrels=qrels, drop_zeros=drop).to_json()
        for drop in (False, True)
    )
    assert plain == dropped
    with pytest.raises(ik.InputError, match="all rows of view 'view0' or 'view1' are zeros"):
        ik.migrate(np.zeros_like(old), new, drop_zeros=True)
    bad = old.copy()
    bad[[4, 90]] = 0
    bad[60, 1] = np.nan
    with pytest.raises(ik.InputError, match="infinity in 1 rows, the first is row 60"):
        ik.migrate(bad, new, drop_zeros=True)
    found = ik.migrate(np.where(np.arange(130)[:, None] == 4, 0, old), new, drop_zeros=True)
    assert found.documents == 129
    assert any(text.startswith("1 documents and 0 queries are zeros") for text in found.warnings)
