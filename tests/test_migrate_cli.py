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


def test_a_notebook_and_a_summary_show_the_verdict(folder):
    found = ik.migrate(folder / "old.npy", folder / "new.npy")
    assert found.summary().startswith("Cannot say without queries.")
    assert "map queries" in found._repr_html_()
    assert len(ik.plots.plot_migration(found).axes) == 2
