"""Every kind of result keeps one contract: words, a table, a document, a page, a notebook."""

from __future__ import annotations

import io
import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import identikit as ik
from identikit._result import Result
from identikit.auditing import audit_models
from identikit.factors import disentangle
from identikit.report import Shown, Table, print_result, shown, shows
from identikit.report.style import PALETTE
from identikit.worlds import score
from study_units import package_with
from test_batches import plates
from test_report import Page

HERE = Path(__file__).parent
HOSTILE = '<script>alert(1)</script>"\x1b[31m'


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One of every kind."""
    from identikit.studies import run

    rng = np.random.default_rng(0)
    X = rng.laplace(size=(300, 4))
    Y = X @ rng.normal(size=(4, 4)) + 0.1 * rng.normal(size=X.shape)
    views = {HOSTILE: X, "other": Y}
    audit = ik.audit(views)
    models = audit_models(
        [ik.SoftmaxModel(X, X[:9], name=HOSTILE), ik.SoftmaxModel(Y, X[:9], name="b")]
    )
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(package_with("TOY", folder / "installed"))
        ran = run("toy", folder=folder / "out", engine="single")
        # What is shown of a study is drawn by the study itself, which only this test can find.
        shown = ran._repr_html_()
        ran.report(folder / "page.html")
    return {
        "Audit": audit,
        "Pair": audit.comparisons[0],
        "BatchAudit": ik.audit_batches(plates(), "plate", "control", ids="unit"),
        "ModelsAudit": models,
        "ModelPair": models.pairs[0],
        "Layers": ik.layers({HOSTILE: X, "high": Y}, [Y]),
        "NearIdentifiability": ik.near_identifiability(views),
        "Components": ik.match_components(views),
        "Disentanglement": disentangle(X, Y, metrics=["mcc", "r2"]),
        "Score": score(X, Y, blocks={HOSTILE: [0, 1], "style": [2, 3]}),
        "Result": ran,
        "study": (shown, (folder / "page.html").read_text()),
    }


KINDS = (
    *("Audit", "Pair", "BatchAudit", "ModelsAudit", "ModelPair", "Layers"),
    *("NearIdentifiability", "Components", "Disentanglement", "Score", "Result"),
)


def in_notebook(results: dict[str, Any], kind: str) -> str:
    return results["study"][0] if kind == "Result" else results[kind]._repr_html_()


def page_of(results: dict[str, Any], kind: str, folder: Path) -> str:
    if kind == "Result":
        return results["study"][1]
    results[kind].report(folder / "page.html")
    return (folder / "page.html").read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_has_a_short_repr(results: dict[str, Any], kind: str):
    text = repr(results[kind])
    assert text.startswith(f"{kind}(")
    assert len(text) < 260
    assert text.isprintable()


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_has_words_a_table_and_colours_of_its_own(results: dict[str, Any], kind: str):
    html = in_notebook(results, kind)
    assert html.count("<table>") == 1
    assert html.count("<tr>") > 1
    assert len(html) < 60_000
    assert "<svg" in html
    # A notebook is a page of others: nothing is styled but what is inside.
    for selectors in re.findall(r"([^{}]*)\{", html.split("<style>")[1].split("</style>")[0]):
        for selector in selectors.strip().split(","):
            assert selector.strip().startswith(
                (".identikit", "@media (prefers-color-scheme: dark)")
            )
    for name, colour in PALETTE.items():
        assert html.count(f"--{name}: ") == 2
        assert colour not in html.split("</style>")[1]
    # Names are text.
    assert "<script>" not in html
    assert "\x1b" not in html
    assert results[kind].summary().split()[0] in unescape(html)


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_keeps_the_contract(results: dict[str, Any], kind: str, tmp_path: Path):
    """A table, a document, a truth value, a sentence."""
    result = results[kind]
    assert len(result.table) >= 1
    assert isinstance(bool(result), bool)
    result.save(tmp_path / "result.json")
    assert json.loads((tmp_path / "result.json").read_text()) == json.loads(result.to_json())
    assert len(result.summary().split()) > 4


def test_what_a_script_gates_on(results: dict[str, Any]):
    assert not results["Audit"]
    assert not results["Pair"]
    assert not results["ModelsAudit"]
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(2, 300, 4))
    assert not ik.audit([X, Y])
    assert ik.audit([X, 2 * X])
    assert not ik.near_identifiability(X, Y)
    assert ik.near_identifiability(X, X + 0.1 * Y)
    assert not ik.disentangle(X, Y, metrics=["mcc", "r2"])
    assert ik.disentangle(X, X, metrics=["mcc", "r2"])


def test_other_objects_that_end_a_cell_are_short(results: dict[str, Any]):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(2, 200, 30))
    assert repr(ik.accumulate({"a": X, "b": Y})) == (
        "Moments('a' (30), 'b' (30); 200 rows in 5 folds)"
    )
    fitted = ik.align(X, X + 0.1 * Y, group="rigid", names=["old", "new"])
    assert re.fullmatch(
        r"AlignmentMap\('rigid', 'old' \(30\) to 'new' \(30\); error on new rows 0\.1\d*\)",
        repr(fitted),
    )
    assert repr(ik.AlignmentMap(group="rigid")) == "AlignmentMap(group='rigid')"
    assert repr(ik.SoftmaxModel(X, Y)) == "SoftmaxModel('model': 200 inputs, 200 labels, width 30)"
    for way in results["NearIdentifiability"].directions:
        assert len(repr(way)) < 300
    assert len(repr(results["Disentanglement"]["mcc"])) < 100


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_has_a_page(results: dict[str, Any], kind: str, tmp_path: Path):
    """With the answer first, a table, a figure, and how it was made; names are text."""
    text = page_of(results, kind, tmp_path)
    assert text.startswith("<!doctype html>")
    page = Page(text)
    assert page.tags["script"] == page.tags["link"] == page.tags["img"] == 0
    assert page.tags["h1"] == 1
    assert page.tags["table"] >= 1
    # The figure of layers is a table with colours.
    assert page.tags["svg"] >= (kind != "Layers")
    assert "\x1b" not in text
    assert "http" not in text
    assert "None" not in text
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert "verdict" in ids
    places = [text.index(mark) for mark in ('class="verdict', "<table", "<footer")]
    assert places == sorted(places)
    if kind not in ("ModelPair", "Layers"):
        assert "What was done" in page.text


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "Result"])
def test_a_result_is_printed(results: dict[str, Any], kind: str):
    console = Console(width=100, file=io.StringIO(), force_terminal=True, color_system=None)
    print_result(results[kind], console)
    text = console.file.getvalue()
    assert results[kind].summary().split()[0] in text
    assert "─" in text


def test_a_story_opens_any_page(results: dict[str, Any], tmp_path: Path):
    for kind in ("Audit", "NearIdentifiability"):
        results[kind].report(tmp_path / "page.html", ["A headline", "A <b>paragraph</b>."])
        text = (tmp_path / "page.html").read_text()
        assert "<strong>A headline</strong>\n<p>A &lt;b&gt;paragraph" in text


def test_a_kind_that_nobody_shows_says_so():
    class Odd:
        pass

    with pytest.raises(ik.InputError, match=r"register a function for it with .*shows\('Odd'\)"):
        shown(Odd())


def test_others_may_show_results_of_their_own(tmp_path: Path):
    class Answer(Result):
        def to_dict(self) -> dict[str, Any]:
            return {"answer": 42}

    @shows("Answer")
    def answer(found: Answer) -> Shown:
        table = Table(["name"], [("x",)], ["value"], [[str(found.to_dict()["answer"])]])
        return Shown("ask", "What is it?", "It is 42.", [table])

    assert Answer().summary() == "It is 42."
    assert '<td class="n">42</td>' in Answer()._repr_html_()
    Answer().report(tmp_path / "page.html")
    assert "What is it?" in (tmp_path / "page.html").read_text()


def test_every_plot_is_listed_and_documented():
    listed = (HERE.parent / "docs" / "api.md").read_text(encoding="utf-8")
    for name in ik.plots.__all__:
        assert f"`{name}" in listed or f"`plots.{name}" in listed, name
        assert getattr(ik.plots, name).__doc__, name


@pytest.mark.long
@pytest.mark.extra("notebook")
def test_the_notebook_of_the_docs_runs_and_shows_every_result(tmp_path: Path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = nbformat.read(HERE.parent / "docs" / "notebook.ipynb", as_version=4)
    nbclient.NotebookClient(
        book, timeout=None, resources={"metadata": {"path": tmp_path}}
    ).execute()
    shown = [
        output["data"]
        for cell in book.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "execute_result"
    ]
    kinds = [data["text/plain"].split("(")[0] for data in shown]
    assert kinds == [
        *("Audit", "Pair", "Layers", "NearIdentifiability", "Components"),
        *("Disentanglement", "ModelsAudit", "AlignmentMap"),
    ]
    for data in shown:
        assert len(data["text/plain"]) < 200
        assert "text/html" in data
    errors = [
        o for cell in book.cells for o in cell.get("outputs", ()) if o.output_type == "stream"
    ]
    assert errors == []
