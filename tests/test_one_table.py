"""One table, one answer: a file, a data frame and a table of pyarrow give the same view."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import identikit as ik
from identikit.cli import app
from identikit.errors import InputError
from identikit.sources import open_source

pytestmark = pytest.mark.extra("io")

X = np.random.default_rng(0).normal(size=(40, 8))
DIMENSIONS = [f"e{k}" for k in range(8)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result


def frame(**others: object) -> pd.DataFrame:
    return pd.DataFrame(X, columns=DIMENSIONS).assign(**others)


def rows(view: object) -> np.ndarray:
    with closing(open_source(view)) as source:
        return np.array(source.read(0, source.rows))


TABLES = {
    "an id": frame(id=range(40)),
    "ids and text": frame(doc_id=range(40), title="x", Index=range(40)),
    "text ids": frame(id=[f"d{k}" for k in range(40)]),
    "dates": frame(when=pd.Timestamp("2020-01-01")),
    "a category": frame(kind=pd.Categorical(["a", "b"] * 20)),
    "a measurement called like an id": frame(mitotic_index=0.5),
    "a label": frame(label=range(40)),
    "no numbers": pd.DataFrame({"a": ["x"], "b": ["y"]}),
    "an index": frame().set_index(pd.Index(range(5, 45), name="cell")),
    "lists": pd.DataFrame({"id": range(40), "e": list(X), "weight": 0.5}),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_route_gives_the_same_view(name: str):
    arrow = pytest.importorskip("pyarrow")
    table = TABLES[name]
    table.to_parquet("x.parquet")
    feather = pytest.importorskip("pyarrow.feather")
    feather.write_feather(table.reset_index(drop=True), "x.feather")
    views = ["x.parquet", "x.feather", table, arrow.Table.from_pandas(table)]
    if name != "lists":
        table.to_csv("x.csv", index=False)
        views.append("x.csv")
    answers = []
    for view in views:
        try:
            answers.append(rows(view))
        except InputError as error:
            answers.append(str(error))
    if isinstance(answers[0], str):
        assert all(isinstance(answer, str) for answer in answers), answers
        key = next(
            key for key in ("the name of an id", "not all", "no columns") if key in answers[0]
        )
        assert all(key in answer for answer in answers), answers
        assert name in ("a measurement called like an id", "a label", "no numbers")
        return
    for answer in answers:
        np.testing.assert_array_equal(answer, X)


def test_an_id_is_no_dimension_by_path_or_as_a_frame():
    table = frame(id=range(40))
    table.to_parquet("x.parquet")
    np.save("x.npy", X)
    document = json.loads(run("audit", "x.parquet", "x.npy", "--json").stdout)
    in_memory = ik.audit([pd.read_parquet("x.parquet"), X])
    assert [view["dims"] for view in document["views"]] == [8, 8]
    assert [view.dims for view in in_memory.views] == [8, 8]


def test_an_id_that_is_named_in_full_is_a_dimension():
    frame(id=range(40)).to_parquet("x.parquet")
    np.testing.assert_array_equal(rows("x.parquet::id"), np.arange(40)[:, None])
    np.testing.assert_array_equal(rows("x.parquet::*"), X)
    assert rows("x.parquet::*,id").shape == (40, 9)


def test_lists_of_patterns():
    names = ["Cells_a", "Nuclei_a", "Cells_b", "Image_a", "Nuclei_b", "c", "d", "e"]
    table = pd.DataFrame(X, columns=names).assign(lists=list(X))
    table.to_parquet("x.parquet")
    np.testing.assert_array_equal(rows("x.parquet::Cells_*,Nuclei_*"), X[:, [0, 2, 1, 4]])
    np.testing.assert_array_equal(rows("x.parquet::Nuclei_b,Cells_*,Cells_a"), X[:, [4, 0, 2]])
    np.testing.assert_array_equal(rows("x.parquet::Cells_?,!Cells_a"), X[:, [2]])
    for member, says in (
        ("Cells_*,Golgi_*", "no columns of numbers like 'Golgi_*'"),
        ("Cells_*,lists", "'lists' holds lists, and is a view by itself"),
        ("Cells_a,nothing", "no array named 'nothing'"),
    ):
        with pytest.raises(InputError) as caught:
            rows(f"x.parquet::{member}")
        assert says in str(caught.value)
    np.save("x.npy", X[:, [0, 2, 1, 4]])
    shown = run("audit", "x.parquet::Cells_*,Nuclei_*", "x.npy", "--json").stdout
    assert json.loads(shown)["verdict"]["group"] == "identity"


def test_the_id_of_a_join_is_not_taken_by_a_pattern():
    frame(key=range(40)).to_parquet("x.parquet")
    shown = run("audit", "x.parquet::*", "x.parquet", "--id", "key", "--json").stdout
    assert [view["dims"] for view in json.loads(shown)["views"]] == [8, 8]
