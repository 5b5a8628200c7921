"""`identikit migrate`: the verb, its exit codes, its page."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import identikit as ik
from identikit.cli import app


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    turn = rng.normal(size=(6, 6))
    documents, queries = rng.normal(size=(120, 6)), rng.normal(size=(20, 6))
    for name, rows in (("old", documents), ("old_q", queries)):
        np.save(tmp_path / f"{name}.npy", rows)
        moved = rows @ turn + 0.3 * rng.normal(size=rows.shape)
        np.save(tmp_path / f"{name.replace('old', 'new')}.npy", moved)
    near = np.argsort(-(queries @ documents.T), axis=1)[:, :4]
    lines = [f"{q} 0 {d} {4 - place}" for q, row in enumerate(near) for place, d in enumerate(row)]
    (tmp_path / "qrels.txt").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "language.txt").write_text("\n".join(["de", "<en>"] * 10), encoding="utf-8")
    return tmp_path


def run(folder, *options: str):
    given = [str(folder / each) if "." in each else each for each in options]
    return CliRunner().invoke(app, ["migrate", *given])


CALL = ("old.npy", "new.npy", "--queries", "old_q.npy", "new_q.npy")


def test_words_table_and_files(folder):
    done = run(folder, *CALL, "--qrels", "qrels.txt", "--slice", "language.txt",
               "--report", "page.html", "-o", "found.json")  # fmt: skip
    assert done.exit_code == 0, done.output
    for words in ("swap without a map", "map, rescore", "nDCG@10", "Stay with the old model"):
        assert words in done.output
    document = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    assert document["verdict"]["choice"] == "stay"
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 1
    assert "&lt;en&gt;" in page
    assert "<en>" not in page
    for words in ("While a share of the index is new", "What a threshold on the cosine becomes"):
        assert words in page


def test_json_is_all_that_is_printed(folder):
    done = run(folder, *CALL, "--json", "--quiet")
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    old, new, old_q, new_q = (np.load(folder / f"{name}.npy")
                              for name in ("old", "new", "old_q", "new_q"))  # fmt: skip
    found = ik.migrate(old, new, queries=(old_q, new_q), names=["old", "new"])
    assert document == json.loads(found.to_json())


def test_without_queries_it_cannot_say(folder):
    done = run(folder, "old.npy", "new.npy")
    assert done.exit_code == 0
    text = re.sub(r"\s+", " ", done.output)
    assert (
        "Cannot say without queries. Documents stood in for queries, and documents flatter" in text
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("old.npy", "new.npy", "--queries", "new_q.npy"), "requires 2 arguments"),
        ((*CALL, "--qrels", "none.txt"), "no such file"),
        ((*CALL, "--metric", "l1"), "the metric is 'l1'"),
        ((*CALL, "--ids", "language.txt"), "--ids was given 1 times"),
        ((*CALL, "--query-id", "a", "--query-ids", "language.txt", "--query-ids", "language.txt"),
         "give one"),
        (("old.npy", "new.npy", "--qrels", "qrels.txt"), "give the queries in both models"),
        ((*CALL, "-o", "old.npy"), "is one of the inputs"),
        ((*CALL, "--slice", "language"), "'language'"),
    ],
)  # fmt: skip
def test_bad_calls_exit_with_2(folder, options, message):
    done = run(folder, *options)
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output


@pytest.fixture
def bad(folder):
    """Files that are each wrong in one way."""
    new, old_q, new_q = (np.load(folder / f"{name}.npy") for name in ("new", "old_q", "new_q"))
    np.save(folder / "short.npy", new[:90])
    np.save(folder / "narrow_q.npy", old_q[:, :4])
    np.save(folder / "one_q.npy", new_q[:1])
    np.save(folder / "zeros.npy", np.where(np.arange(120)[:, None] < 3, 0, new))
    np.save(folder / "zeros_q.npy", np.where(np.arange(20)[:, None] == 4, 0, new_q))
    np.save(folder / "shuffled.npy", new[np.random.default_rng(0).permutation(120)])
    np.save(folder / "empty.npy", np.empty((0, 6)))
    for name, ids in (
        ("ids", range(120)),
        ("others", range(500, 620)),
        ("twice", [7, 7, *range(2, 120)]),
    ):
        lines = "\n".join(f"d{row}" for row in ids)
        (folder / f"{name}.txt").write_text(lines, encoding="utf-8")
    lines = "\n".join(["0 0 3 1", "1 0 4 1", "99 0 3 1", "2 0 777 1", "2 0 778 1"])
    (folder / "unknown.txt").write_text(lines, encoding="utf-8")
    (folder / "none.qrels").write_text("a 0 b 1\n", encoding="utf-8")
    (folder / "strangers.txt").write_text("88 0 3 1\n99 0 4 1\n2 0 777 1", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("old.npy", "short.npy"), "has 120 rows and view 'short' has 90"),
        (("old.npy", "new.npy", "--queries", "narrow_q.npy", "new_q.npy"),
         "have 6 columns and the queries of view 'old queries' have 4"),
        (("old.npy", "new.npy", "--ids", "ids.txt", "--ids", "others.txt"),
         "only 0 of the 120 rows"),
        (("old.npy", "new.npy", "--ids", "twice.txt", "--ids", "ids.txt"),
         "rows 0 and 1 (counting from 0) both have the id 'd7'"),
        (("empty.npy", "empty.npy", "--queries", "old_q.npy", "new_q.npy"), "'empty'"),
        ((*CALL, "--qrels", "strangers.txt"), "2 name unknown queries, such as '88', and 1"),
        (("old.npy", "zeros.npy", "--queries", "old_q.npy", "new_q.npy"),
         "view 'zeros' has 3 rows of zeros, the first is row 0"),
        (("old.npy", "new.npy", "--queries", "old_q.npy", "zeros_q.npy"),
         "view 'new queries' has 1 rows of zeros, the first is row 4"),
        (("old.npy", "new.npy", "--queries", "one_q.npy", "one_q.npy"),
         "there is one query; at least two are needed"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_and_exit_code_2(bad, options, message):
    done = run(bad, *options)
    assert done.exit_code == 2, done.output
    assert message in re.sub(r"[\s│]+", " ", done.output)
    assert "Traceback" not in done.output


def test_judgments_of_unknown_ids_are_counted(bad):
    done = run(bad, *CALL, "--qrels", "unknown.txt")
    assert done.exit_code == 0
    said = re.sub(r"\s+", " ", done.output)
    assert "1 judgments are of queries that are not there, and were left out" in said
    assert "2 judgments are of documents that are not there, and were left out" in said


def test_zeros_are_dropped_and_counted(bad):
    done = run(bad, "old.npy", "zeros.npy", "--queries", "old_q.npy", "zeros_q.npy",
               "--qrels", "qrels.txt", "--drop-zeros", "-o", "found.json")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "3 documents and 1 queries are zeros in one of the models" in re.sub(
        r"\s+", " ", done.output
    )
    document = json.loads((bad / "found.json").read_text(encoding="utf-8"))
    assert (document["documents"], document["queries"]) == (117, 19)


def test_shuffled_ids_are_caught(bad):
    done = run(bad, "old.npy", "shuffled.npy", "--queries", "old_q.npy", "new_q.npy",
               "--qrels", "qrels.txt", "-o", "found.json")  # fmt: skip
    assert done.exit_code == 0
    document = json.loads((bad / "found.json").read_text(encoding="utf-8"))
    assert document["verdict"]["choice"] == "check the pairing"
    assert "Check that rows are paired rightly" in done.output


def test_maps_are_saved_for_apply_which_refuses_the_other_direction(folder):
    done = run(folder, *CALL, "--save-query-map", "q.safetensors", "--save-index-map",
               "i.safetensors", "--kinds", "rigid, low_rank")  # fmt: skip
    assert done.exit_code == 0, done.output

    def applied(file: str, rows: str) -> object:
        call = ["apply", str(folder / file), str(folder / rows), "-o", str(folder / "out.npy")]
        return CliRunner().invoke(app, [*call, "--force"])

    done = applied("q.safetensors", "new_q.npy")
    assert done.exit_code == 0, done.output
    mapped, asked = np.load(folder / "out.npy"), np.load(folder / "old_q.npy")
    cosines = (mapped * asked).sum(axis=1) / np.linalg.norm(asked, axis=1)
    assert cosines.mean() > 0.6
    assert applied("i.safetensors", "old.npy").exit_code == 0
    done = applied("q.safetensors", "old.npy")
    assert done.exit_code == 2
    assert "which this map leads to" in re.sub(r"\s+", " ", done.output)
    same = run(folder, *CALL, "--save-query-map", "q.safetensors", "-o", "q.safetensors")
    assert same.exit_code == 2
    assert run(folder, *CALL, "--kinds", "round").exit_code == 2


def test_slices_of_documents(folder):
    labels = "\n".join(["de", "en", "fr"] * 40)
    (folder / "source.txt").write_text(labels, encoding="utf-8")
    done = run(folder, *CALL, "--qrels", "qrels.txt", "--slice", "source.txt", "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["sliced"] == "documents"
    assert {part["slice"] for part in document["slices"]} == {"de", "en", "fr"}


def test_a_notebook_and_a_summary_show_the_verdict(folder):
    found = ik.migrate(folder / "old.npy", folder / "new.npy")
    assert found.summary().startswith("Cannot say without queries.")
    assert "map queries" in found._repr_html_()
    assert len(ik.plots.plot_migration(found).axes) == 2
