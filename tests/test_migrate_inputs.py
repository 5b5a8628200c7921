"""`migrate`: ids, judgments and slices in every form, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import identikit as ik


@pytest.fixture
def given():
    rng = np.random.default_rng(0)
    turn = rng.normal(size=(6, 6))
    documents, queries = rng.normal(size=(100, 6)), rng.normal(size=(12, 6))
    new, new_queries = (rows @ turn + 0.3 * rng.normal(size=rows.shape)
                        for rows in (documents, queries))  # fmt: skip
    near = np.argsort(-(queries @ documents.T), axis=1)[:, :4]
    qrels = np.array([(q, d, 1 + place) for q, row in enumerate(near)
                      for place, d in enumerate(row)])  # fmt: skip
    return documents, new, queries, new_queries, qrels


def means(found: ik.Migration) -> list[float]:
    return [value.mean for option in found.options for value in option.values.values()]


def named(rows: np.ndarray, prefix: str) -> list[str]:
    return [f"{prefix}{row}" for row in range(len(rows))]


def test_judgments_in_every_form(given, tmp_path):
    old, new, old_queries, new_queries, qrels = given
    both = (old_queries, new_queries)
    right = means(ik.migrate(old, new, queries=both, qrels=qrels))
    forms = {
        "trec.txt": "\n".join(f"{q} 0 {d} {g}" for q, d, g in qrels),
        "tabs.qrels": "\n".join(f"{q}\t0\t{d}\t{g}" for q, d, g in qrels),
        "beir.tsv": "query-id\tcorpus-id\tscore\n"
        + "\n".join(f"{q}\t{d}\t{g}" for q, d, g in qrels),
        "other.csv": "grade,extra,doc_id,qid\n"
        + "\n".join(f'{g},"a, b",{d},{q}' for q, d, g in qrels),
    }
    for name, text in forms.items():
        path = tmp_path / name
        path.write_text(text + "\n\n", encoding="utf-8")
        assert means(ik.migrate(old, new, queries=both, qrels=path)) == right, name
    np.save(tmp_path / "qrels.npy", qrels)
    np.savez(tmp_path / "all.npz", qrels=qrels)
    frame = pd.DataFrame(qrels, columns=["Query", "Document", "Relevance"])
    lists = [tuple(row) for row in qrels.tolist()]
    doubled = np.concatenate([qrels, qrels[:3], [[0, 99, 0]]])
    for form in (tmp_path / "qrels.npy", f"{tmp_path}/all.npz::qrels", frame, lists, doubled):
        assert means(ik.migrate(old, new, queries=both, qrels=form)) == right


def test_ids_pair_documents_queries_and_judgments(given, tmp_path):
    old, new, old_queries, new_queries, qrels = given
    both = (old_queries, new_queries)
    right = means(ik.migrate(old, new, queries=both, qrels=qrels))
    order, asked = np.random.default_rng(1).permutation(100), np.arange(12)[::-1]
    names, called = named(old, "d"), named(old_queries, "q")
    text = [(f"q{q}", f"d{d}", g) for q, d, g in qrels.tolist()]
    found = ik.migrate(
        old,
        new[order],
        queries=(old_queries, new_queries[asked]),
        qrels=text,
        ids=[names, [names[row] for row in order]],
        query_ids=[called, [called[row] for row in asked]],
    )
    assert means(found) == pytest.approx(right, abs=1e-12)
    assert found.pairing == "100 rows matched by id; without a partner: none"
    frames = {}
    for side, rows, labels, picked in (
        ("old", old, names, range(100)),
        ("new", new, names, order),
        ("old_queries", old_queries, called, range(12)),
        ("new_queries", new_queries, called, asked),
    ):
        frame = pd.DataFrame(rows, columns=[f"x{j}" for j in range(6)], index=labels)
        frame = frame.iloc[list(picked)]
        frames[side] = frame
        frame.reset_index(names="key").to_csv(tmp_path / f"{side}.csv", index=False)
    path = tmp_path / "qrels.txt"
    path.write_text("\n".join(f"{q} 0 {d} {g}" for q, d, g in text), encoding="utf-8")
    by_file = ik.migrate(
        tmp_path / "old.csv",
        tmp_path / "new.csv",
        queries=(tmp_path / "old_queries.csv", tmp_path / "new_queries.csv"),
        qrels=path,
        ids="key",
        query_ids="key",
    )
    assert means(by_file) == pytest.approx(right, abs=1e-9)
    assert by_file.names == ("old", "new")
    by_index = ik.migrate(
        frames["old"],
        frames["new"],
        queries=(frames["old_queries"], frames["new_queries"]),
        qrels=text,
    )
    assert means(by_index) == pytest.approx(right, abs=1e-12)
    same_order = ik.migrate(
        frames["old"],
        frames["new"].loc[names],
        queries=(frames["old_queries"], frames["new_queries"].loc[called]),
        qrels=text,
    )
    assert means(same_order) == pytest.approx(right, abs=1e-12)


def test_judgments_of_what_is_not_there_are_counted(given):
    old, new, old_queries, new_queries, qrels = given
    both = (old_queries, new_queries)
    more = np.concatenate([qrels[qrels[:, 0] != 5], [[77, 0, 1], [0, 100, 1], [0, 101, 2]]])
    found = ik.migrate(old, new, queries=both, qrels=more)
    assert found.warnings == (
        "1 judgments are of queries that are not there, and were left out.",
        "2 judgments are of documents that are not there, and were left out.",
        "1 queries have no relevant document; judged measures leave them out.",
    )
    assert found.judged == 11


def test_slices_in_every_form(given, tmp_path):
    old, new, old_queries, new_queries, _ = given
    labels = ["a", "b"] * 6
    frame = pd.DataFrame(old_queries, columns=[f"x{j}" for j in range(6)]).assign(year=[1, 2] * 6)
    frame.to_csv(tmp_path / "queries.csv", index=False)
    (tmp_path / "labels.txt").write_text("\n".join(labels), encoding="utf-8")
    for asked, form, expected in (
        (old_queries, labels, {"a", "b"}),
        (old_queries, tmp_path / "labels.txt", {"a", "b"}),
        (frame, "year", {"1", "2"}),
        (tmp_path / "queries.csv", "year", {"1", "2"}),
    ):
        found = ik.migrate(old, new, queries=(asked, new_queries), slices=form)
        assert {part.slice for part in found.slices} == expected
        assert {part.queries for part in found.slices} == {6}
    stood_in = ik.migrate(old, new, slices=np.arange(100) % 2)
    assert sum(part.queries for part in stood_in.slices if part.option == "stay") == 20


def with_nan(rows):
    rows = rows.copy()
    rows[[3, 7], 1] = np.nan
    return rows


def with_zeros(rows):
    rows = rows.copy()
    rows[[2, 5, 6]] = 0
    return rows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"new": lambda g: g[1][:90]}, "view 'view0' has 100 rows and view 'view1' has 90"),
        ({"queries": lambda g: (g[3][:, :4], g[3])}, "have 6 columns and the queries.* have 4"),
        ({"queries": lambda g: (g[2], g[3][:5])}, "has 12 rows .* has 5"),
        ({"queries": lambda g: (g[2][:1], g[3][:1])}, "there is one query; at least two"),
        ({"queries": lambda g: g[2]}, "two views of the same queries"),
        ({"queries": "queries.npy"}, "two views of the same queries"),
        ({"queries": None}, "judgments are of queries"),
        ({"old": lambda g: with_nan(g[0])}, "'view0' has NaN or infinity in 2 rows, .* row 3"),
        ({"new": lambda g: with_zeros(g[1])}, "'view1' has 3 rows of zeros, the first is row 2"),
        ({"queries": lambda g: (g[2], with_nan(g[3]))}, "'new queries' has NaN .* in 2 rows"),
        ({"queries": lambda g: (with_zeros(g[2]), g[3])}, "'old queries' has 3 rows of zeros"),
        ({"old": lambda g: 1e200 * g[0]}, "squares overflow"),
        ({"qrels": [("q1", 3, 1)]}, "'q1' is not the number of a row"),
        ({"qrels": [(1, 2.5, 1)]}, "'2.5' is not the number of a row"),
        ({"qrels": [(99, 3, 1), (1, 400, 1)]}, "1 name unknown queries, such as '99'"),
        ({"qrels": [(1, 3, "good")]}, "the grade 'good' is not a number"),
        ({"qrels": [(1, 3, float("nan"))]}, "1 grades are NaN"),
        ({"qrels": [(1, 3, 1), (1, 4, 2)]}, "only one query has a relevant document"),
        ({"qrels": [(1, 3, 0)]}, "no judgment has a grade above 0"),
        ({"qrels": [(1, 3, 1), (1, 3, 2)]}, "judged again with another grade"),
        ({"qrels": lambda g: g[4][:, :2]}, r"shape \(48, 2\)"),
        ({"qrels": lambda g: pd.DataFrame(g[4], columns=list("abc"))}, "columns 'a', 'b', 'c'"),
        (
            {"slices": ["a"] * 5},
            "5 labels of slices; expected one .* 12 queries, or .* 100 documents",
        ),
        (
            {"slices": "language"},
            "no column 'language' to slice by; the old queries: .* the old doc",
        ),
        ({"metric": "manhattan"}, "the metric is 'manhattan'"),
        ({"k": 0}, "k is 0"),
        ({"k": 60}, "n is 50, but the top 60 is looked at"),
        ({"k": 200, "n": 300}, "a search can return 100 documents here"),
        ({"n": 9}, "n is 9, but the top 10"),
        ({"resamples": 10}, "10 resamples"),
        ({"fit_rows": 3}, "cannot be fitted on 3 documents"),
        ({"ids": [["a"] * 100, ["a"] * 100]}, "both have the id 'a'"),
        ({"ids": [range(100), range(500, 600)]}, "only 0 of the 100 rows"),
        (
            {"old": lambda g: g[0][:30], "new": lambda g: g[1][:30]},
            "there are 30 documents; at least 50",
        ),
        (
            {"queries": None, "qrels": None, "query_ids": "a"},
            "ids of queries, but no queries",
        ),
        (
            {"queries": None, "qrels": None, "fit_on_queries": True},
            "no queries to fit maps on",
        ),
    ],
)
def test_bad_input_is_refused_with_what_to_do(given, change, message):
    call = {"old": given[0], "new": given[1], "queries": given[2:4], "qrels": given[4]}
    call |= {name: make(given) if callable(make) else make for name, make in change.items()}
    with pytest.raises(ik.InputError, match=message):
        ik.migrate(call.pop("old"), call.pop("new"), **call)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("1 2 3\n", "begins with '1 2 3'; expected four columns"),
        ("1 0 2 1\n1 0 2\n", "line 2 is '1 0 2', with 3 fields"),
        ("query,document,grade\n", "a header and nothing else"),
    ],
)
def test_bad_files_of_judgments_are_refused(given, tmp_path, text, message):
    path = tmp_path / "qrels.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ik.InputError, match=message):
        ik.migrate(given[0], given[1], queries=given[2:4], qrels=path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ik.InputError, match="not UTF-8"):
        ik.migrate(given[0], given[1], queries=given[2:4], qrels=path)


def test_zeros_are_rows_like_others_with_another_metric(given):
    old, new, old_queries, new_queries, _ = given
    both = (old_queries, new_queries)
    found = ik.migrate(with_zeros(old), new, queries=both, metric="l2", drop_zeros=True)
    assert found.metric == "l2"
    assert found.documents == 100
