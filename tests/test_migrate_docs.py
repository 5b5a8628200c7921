"""The figures of docs/migrate.md: planted collections are what they say, and the page has room."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import identikit as ik

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def figures(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    spec = importlib.util.spec_from_file_location("docs_migrate", DOCS / "migrate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_block_of_the_page_can_be_written_again(figures):
    page = figures.PAGE.read_text(encoding="utf-8")
    names = re.findall(r"<!-- figures: (\w+) -->", page)
    assert names == ["intervals", "verdicts", "half", "thresholds"]
    for name in names:
        block = page.split(f"<!-- figures: {name} -->\n")[1].split(f"<!-- end: {name} -->")[0]
        assert block.count("\n|") >= 3
        assert figures.put(page, name, block.strip("\n") + "\n") == page
    with pytest.raises(SystemExit, match="no markers of nothing"):
        figures.put(page, "nothing", "")


def test_planted_relations_are_what_they_are_called(figures):
    for kind, (better, worse) in {
        "a better successor": ("re-embed", "stay"),
        "a worse successor": ("stay", "re-embed"),
        "a model of lower rank": ("stay", "re-embed"),
    }.items():
        made = figures.planted(kind, 0)
        found = ik.migrate(
            made.old, made.new, queries=(made.old_queries, made.new_queries), qrels=made.qrels
        )
        means = {option.name: option.values["ndcg"].mean for option in found.options}
        assert means[better] > means[worse] + 0.05, kind
    made = figures.planted(figures.KINDS[0], 1)
    np.testing.assert_allclose(made.old @ made.old.T, made.new @ made.new.T, atol=1e-12)
    assert figures.planted("a wider model", 0).new.shape[1] == 96


@pytest.mark.parametrize("kind", ["a rotation", "an unrelated model", "a better successor"])
def test_verdicts_on_planted_collections_are_right(figures, kind):
    right, gain, again = figures.planted_pair(kind, 0)
    assert right
    assert gain >= -0.005
    assert (again < -0.1) == (kind == "an unrelated model")


def test_a_wrong_choice_is_not_called_right(figures):
    rng = np.random.default_rng(0)
    stay = rng.uniform(size=60)
    values = {"stay": stay, "map-index": stay - 0.1, "re-embed": stay + 0.1 * rng.uniform(size=60)}
    assert figures.is_right(values, "re-embed")
    assert not figures.is_right(values, "stay")
    assert not figures.is_right(values, "map-index")
