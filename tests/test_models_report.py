"""The report of compared models shows what was found: the table, the figures, the page."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from fake_audit import two_views
from identikit.auditing import ModelsAudit, audit_models
from identikit.family import SoftmaxModel
from identikit.report import html, inline, print_result, shown
from identikit.report.numbers import small
from identikit.report.plots import plot_models
from identikit.report.style import PALETTE
from test_models import (
    biased,
    counter_rotated,
    equal_up_to_gauge,
    few_labels,
    relabelled,
    small_kl,
    unrelated,
    warmer,
)
from test_report import HOSTILE, Page

MAKERS = [
    *(equal_up_to_gauge, few_labels, counter_rotated, small_kl, biased, unrelated),
    *(relabelled, warmer),
]


def found(make) -> ModelsAudit:
    return audit_models(make(np.random.default_rng(0)))


@pytest.fixture(scope="module")
def many() -> ModelsAudit:
    """Four models: two the same, one at another temperature, one unrelated."""
    rng = np.random.default_rng(0)
    f, g, A = rng.normal(size=(300, 3)), rng.normal(size=(12, 3)), rng.normal(size=(3, 3))
    return audit_models(
        [
            SoftmaxModel(f, g, name=HOSTILE[0]),
            SoftmaxModel(f @ A.T, g @ np.linalg.inv(A), name=HOSTILE[1]),
            SoftmaxModel(f / 2, g, name=HOSTILE[2]),
            SoftmaxModel(rng.normal(size=(300, 3)), rng.normal(size=(12, 3)), name=HOSTILE[4]),
        ]
    )


def printed(audit: ModelsAudit, width: int = 100) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    print_result(audit, console)
    return console.file.getvalue()


# The terminal


@pytest.mark.parametrize("width", [90, 100])
def test_table_fits_and_has_every_pair_worst_first(width, many):
    text = printed(many, width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "\x1b[31m" not in text
    (table,) = shown(many).tables
    gaps = [row[1] for row in table.rows]
    assert len(gaps) == 6
    assert gaps[-1] == "<1e-06"
    assert [float(gap) for gap in gaps[:-1]] == sorted(map(float, gaps[:-1]), reverse=True)
    findings = [row[0] for row in table.rows]
    assert findings.count("same up to a temperature") == 2


def test_the_lead_names_the_worst_of_several(many):
    text = many.summary()
    assert text.startswith("1 of 6 pairs are the same within 0.1; the worst, ")
    assert many.worst.sentence in text


def test_notes_are_said_once(many):
    notes = tuple(f"Trouble {number:02d}." for number in range(12))
    text = printed(replace(many, pairs=tuple(replace(pair, notes=notes) for pair in many.pairs)))
    assert re.findall(r"! Trouble (\d\d)\. \(6 pairs\)", text) == [f"{i:02d}" for i in range(8)]
    assert "and 4 more distinct notes" in text
    silent = replace(many, pairs=tuple(replace(pair, notes=()) for pair in many.pairs))
    assert "!" not in printed(silent)


def test_absent_distances_are_a_dash():
    assert [small(value) for value in (None, np.inf, 0.0)] == ["–", "∞", "<1e-06"]


# The figures


def panels(make):
    audit = found(make)
    figure = plot_models(audit.pairs[0])
    return audit, {ax.get_title(loc="left"): ax for ax in figure.axes}


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def dots(ax) -> np.ndarray:
    return ax.patches[0].get_path().vertices[::2]


def test_figure_has_its_six_panels():
    audit, axes = panels(few_labels)
    assert len(axes) == 6
    assert texts(axes["How many dimensions do labels fix?"]) == ["● a: 5 of 16", "■ b: 5 of 16"]
    np.testing.assert_allclose(dots(axes["Do the log-odds agree?"]), audit.pairs[0].log_odds)
    entries = dots(axes["Do f and g move by one map?"])
    assert len(entries) == 16 * 16
    np.testing.assert_allclose(entries[:, 0], entries[:, 1], atol=1e-6)
    assert "this pair:\nboth zero" in texts(axes["Does the distribution bound it?"])


def test_the_bounds_are_drawn_where_they_are():
    audit, axes = panels(unrelated)
    apart = audit.pairs[0].distances
    published, sharper, _, point, certificate = axes["Does the distribution bound it?"].lines
    np.testing.assert_allclose(published.get_ydata(), 2 * 3 * published.get_xdata())
    np.testing.assert_allclose(sharper.get_ydata(), 2 * sharper.get_xdata() ** 2)
    assert (point.get_xdata()[0], point.get_ydata()[0]) == (apart.llv, apart.representation)
    assert certificate.get_ydata()[0] == apart.certificate >= apart.representation


def test_a_map_without_measure_is_counted_not_drawn():
    _, axes = panels(small_kl)
    assert "4 of 4\nbeyond" in texts(axes["Do f and g move by one map?"])


def test_what_is_not_defined_is_said():
    rng = np.random.default_rng(0)
    f, g = rng.normal(size=(100, 3)), rng.normal(size=(9, 3))
    chosen = np.argsort(rng.random((100, 9)), axis=1)[:, :4]
    audit = audit_models([SoftmaxModel(f, g, candidates=chosen, name=name) for name in "ab"])
    figure = plot_models(audit.pairs[0])
    assert sum(texts(ax) == ["not computed"] for ax in figure.axes) == 1
    page = Page(html(audit))
    assert "Not defined for models with candidates." in page.values("title")


def test_svg_is_themed_and_small():
    audit = found(equal_up_to_gauge)
    text = inline(plot_models(audit.pairs[0]), "a label", "salt")
    assert len(text) < 40_000
    assert not any(colour in text for colour in PALETTE.values())
    for banned in ("http", "<style", "font-family", "DejaVu"):
        assert banned not in text


# The page


@pytest.mark.parametrize("make", MAKERS)
def test_page_is_well_formed_and_fetches_nothing(make):
    audit = found(make)
    text = html(audit)
    page = Page(text)
    assert page.tags["script"] == page.tags["link"] == page.tags["img"] == 0
    assert page.tags["svg"] == page.tags["h1"] == 1
    assert "http" not in text
    assert "@import" not in text
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert all(link.startswith("#") and link[1:] in ids for link in page.values("href"))
    assert set(re.findall(r"url\(#([^)]*)\)", text)) <= set(ids)
    assert "None" not in text
    assert "nan" not in text
    said = " ".join(page.text)
    assert said.count(audit.worst.sentence) == 2  # in the verdict and with the pair


@pytest.mark.long
def test_every_finding_has_its_headline_and_tone():
    tones = {}
    for make in MAKERS:
        text = html(found(make))
        tones[re.search(r"<strong>(.*?)</strong>", text)[1]] = re.search(
            r'<section class="verdict ([\w-]+)"', text
        )[1]
    assert tones == {
        "The same models, up to a linear map": "within-tolerance",
        "The same models, up to a linear map of what is identified": "within-tolerance",
        "The same models, up to an affine map": "within-tolerance",
        "The same models, but for a temperature": "above-tolerance",
        "The same models, but for the order of their labels": "above-tolerance",
        "Related on each side, but not the same models": "above-tolerance",
        "Close predictions, other embeddings": "unrelated",
        "Not the same models within the tolerance": "above-tolerance",
    }


def test_what_is_free_stands_with_its_model():
    text = " ".join(Page(html(found(few_labels))).text)
    assert "K = 6 labels leave 11 of 16 dimensions of f free" in text
    assert "model 'a': 6 labels and its inputs identify 5 of 16 dimensions" in text


def test_hostile_names_stay_text(many):
    page = Page(html(many))
    assert page.tags["script"] == 0
    assert HOSTILE[0] in page.text
    assert "line break {{ 7*7 }}" in page.text
    assert HOSTILE[2] in page.values("title")
    assert HOSTILE[2] not in page.text
    assert page.tags["svg"] == 6


def test_a_name_that_is_no_text_does_not_stop_the_report(tmp_path):
    a, b = unrelated(np.random.default_rng(0))
    b.name = "bad\udcff"
    audit_models([a, b]).report(tmp_path / "page.html")
    assert "bad" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_page_looks_like_the_audit_and_is_the_same_every_time():
    audit = found(unrelated)
    text = html(audit)
    look = re.search(r"<style>.*?</style>", html(two_views()), re.S)[0]
    assert look in text
    assert text == html(audit)


@pytest.mark.slow
def test_a_page_stays_a_page(many):
    pair = many.pairs[0]
    names = [f"model {i}" for i in range(12)]
    models = tuple(replace(many.models[0], name=name) for name in names)
    pairs = tuple(replace(pair, a=a, b=b) for a, b in combinations(names, 2))
    page = Page(html(replace(many, models=models, pairs=pairs)))
    figures = page.tags["svg"]
    assert figures < len(pairs) == 66
    assert f"Figures are shown for the {figures} worst of 66 pairs." in page.text
    assert sum(mark.startswith("row-") for mark in page.values("id")) == 66
