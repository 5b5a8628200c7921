"""The recipes of docs/recipes.md, run with the packages that they are about."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from identikit.cli import app

PAGE = (Path(__file__).parents[1] / "docs" / "recipes.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
FIRST = "Before any of them: a map"

#: The packages warn of themselves.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def steps(section: str) -> list[tuple[str, str]]:
    return re.findall(r"```(python|sh)\n(.*?)```", SECTIONS[section], re.S)


def follow(section: str, names: dict[str, Any]) -> None:
    """Run a section's code, block by block, and its commands."""
    assert steps(section)
    for language, code in steps(section):
        if language == "python":
            exec(compile(code, section, "exec"), names)
        else:
            words = shlex.split(code)
            assert words.pop(0) == "identikit"
            result = CliRunner().invoke(app, words)
            assert result.exit_code == 0, result.output
            assert "warning" not in result.stderr, result.stderr


@pytest.fixture(scope="module")
def made(tmp_path_factory, data_dir) -> tuple[Path, dict[str, Any]]:
    """What the first section leaves behind, with documents and queries of two real models."""
    folder = tmp_path_factory.mktemp("recipes")
    with np.load(data_dir / "retrieval" / "cranfield.npz") as held, contextlib.chdir(folder):
        for name, key in (
            ("old", "doc_minilm_l6"),
            ("new", "doc_granite_30m"),
            ("new_queries", "query_granite_30m"),
        ):
            np.save(f"{name}.npy", held[key].astype(np.float32))
        known: dict[str, Any] = {}
        follow(FIRST, known)
    return folder, known


@pytest.fixture
def names(made, monkeypatch) -> dict[str, Any]:
    folder, known = made
    monkeypatch.chdir(folder)
    return dict(known)


def expected(names: dict[str, Any]) -> list[int]:
    """The ten nearest documents of the mapped index, by a plain product."""
    mapped = names["to_new"].transform(names["old"])
    return np.argsort(-(mapped @ names["query"][0]))[:10].tolist()


def test_a_query_goes_through_a_map_into_the_old_index(names):
    old, new = names["old"].astype(float), names["new"].astype(float)
    found = set(np.argsort(-(old @ names["asked"]))[:10].tolist())
    right = set(np.argsort(-(new @ names["query"][0]))[:10].tolist())
    assert len(found & right) >= 3  # chance is 10 of 1,398


@pytest.mark.extra("stores")
def test_faiss(names):
    faiss = pytest.importorskip("faiss", reason="needs faiss-cpu, of the extra stores")
    index = faiss.IndexFlatIP(names["old"].shape[1])
    index.add(names["old"])
    faiss.write_index(index, "old.faiss")
    follow("FAISS", names)
    assert names["found"][0].tolist() == expected(names)
    assert faiss.read_index("new.faiss").ntotal == len(names["old"])


@pytest.mark.extra("stores")
def test_qdrant(names):
    pytest.importorskip("qdrant_client", reason="needs qdrant-client, of the extra stores")
    pytest.importorskip("pyarrow", reason="needs pyarrow, of the extra io")
    follow("Qdrant", names)
    assert [point.id for point in names["found"]] == expected(names)
    assert [point.payload["k"] for point in names["found"]] == expected(names)


@pytest.mark.extra("stores")
def test_lancedb(names):
    pytest.importorskip("lancedb", reason="needs lancedb, of the extra stores")
    follow("LanceDB", names)
    assert [row["id"] for row in names["found"]] == [f"d{k}" for k in expected(names)]
    assert names["fresh"].count_rows() == len(names["old"])
    assert {"id", "text", "vector"} <= set(names["fresh"].schema.names)


def test_what_is_not_run_is_said():
    assert not steps("pgvector")
    assert "not run by the tests" in SECTIONS["pgvector"]
    assert set(SECTIONS) == {FIRST, "FAISS", "Qdrant", "LanceDB", "pgvector"}
