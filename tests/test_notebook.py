"""Results in a notebook: a short repr, and words, a table and a figure in HTML."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import identikit as ik
from identikit.auditing import audit_models
from identikit.factors import disentangle
from identikit.report.style import PALETTE
from study_units import toy

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
    study = toy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("identikit.studies._run.find", lambda _: study)
        ran = run(study, folder=tmp_path_factory.mktemp("study") / "out", engine="single")
        return {
            "Audit": audit,
            "Pair": audit.comparisons[0],
            "ModelsAudit": models,
            "ModelPair": models.pairs[0],
            "Layers": ik.layers({HOSTILE: X, "high": Y}, [Y]),
            "NearIdentifiability": ik.near_identifiability(views),
            "Components": ik.match_components(views),
            "Disentanglement": disentangle(X, Y, metrics=["mcc", "r2"]),
            "Result": ran,
            "of the study": ran._repr_html_(),
        }


KINDS = (
    *("Audit", "Pair", "ModelsAudit", "ModelPair", "Layers", "NearIdentifiability"),
    *("Components", "Disentanglement", "Result"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_has_a_short_repr(results: dict[str, Any], kind: str):
    text = repr(results[kind])
    assert text.startswith(f"{kind}(")
    assert len(text) < 260
    assert text.isprintable()


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_has_words_a_table_and_colours_of_its_own(results: dict[str, Any], kind: str):
    html = results["of the study"] if kind == "Result" else results[kind]._repr_html_()
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


def test_results_without_a_page_of_their_own_get_one(results: dict[str, Any], tmp_path: Path):
    for kind in ("NearIdentifiability", "Components", "Pair"):
        results[kind].report(tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        assert page.lower().startswith("<!doctype html>")
        assert page.count("<tr>") > 2
        assert "<script>" not in page


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
