"""The report of codes against factors: the sentence, the table, the pictures, the page."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rich.cells import cell_len
from rich.console import Console

from fake_audit import two_views
from identikit.factors import Disentanglement, disentangle
from identikit.report import BAD, DOUBTFUL, GOOD, html, inline, print_result, shown
from identikit.report._heat import heat
from identikit.report.drawing import sheet
from identikit.report.plots import plot_factors
from identikit.report.style import PALETTE
from test_report import HOSTILE, Page

QUICK = ["mcc", "mcc_spearman", "r2", "dci_lasso", "mig", "sap"]


def found(seed=0, turn=False, noise=False, names=None, **options) -> Disentanglement:
    rng = np.random.default_rng(seed)
    s = rng.normal(size=(400, 3))
    z = rng.normal(size=(400, 4)) if noise else np.hstack([s, rng.normal(size=(400, 1))])
    if turn:
        z = z @ np.linalg.qr(rng.normal(size=(4, 4)))[0]
    return disentangle(z, s, names=names, metrics=QUICK, **options)


@pytest.fixture(scope="module")
def perfect() -> Disentanglement:
    return found()


@pytest.fixture(scope="module")
def hostile() -> Disentanglement:
    rng = np.random.default_rng(0)
    s = pd.DataFrame(rng.normal(size=(100, 5)), columns=HOSTILE[:5])
    s[HOSTILE[5]] = 1.0
    return disentangle(s[HOSTILE[:5]].to_numpy(), s, metrics=["mcc", "mig"])


def printed(result: Disentanglement, width: int = 100) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    print_result(result, console)
    return console.file.getvalue()


def rows(result: Disentanglement) -> list[tuple[str, ...]]:
    """The lines of the table: a metric's title or part, and its cells."""
    (table,) = shown(result).tables
    return [(*names, *cells) for names, cells in zip(table.names, table.rows)]


# Words


def test_the_headline_reads_mcc_beside_chance_and_arbitrary_axes(perfect):
    cases = {
        "more than arbitrary axes would": (perfect, GOOD),
        "no more than arbitrary ones would": (found(turn=True), DOUBTFUL),
        "No axis of the codes goes with": (found(noise=True), BAD),
        "Codes against known factors": (replace(perfect, scores={"r2": perfect["r2"]}), DOUBTFUL),
    }
    for says, (result, tone) in cases.items():
        assert says in shown(result).headline
        assert shown(result).tone == tone


def test_the_sentence_says_what_mcc_is_read_against(perfect):
    says = perfect.summary()
    assert says.startswith("4 codes against 3 factors in 400 rows: MCC 1.000 (1.000–1.000); ")
    of_codes = f"{perfect.rotation.of_codes.mean:.2f}"
    of_factors = f"{perfect.rotation.of_factors.mean:.2f}"
    assert f"what these codes hold on arbitrary axes {of_codes} (" in says
    assert f"an arbitrary rotation of the factors themselves {of_factors} (" in says
    assert replace(perfect, scores={}).summary() == "4 codes against 3 factors in 400 rows."


def test_what_was_left_out_is_said():
    rng = np.random.default_rng(0)
    s = pd.DataFrame({"a": rng.normal(size=100), "same": 1.0})
    result = disentangle(rng.normal(size=(100, 2)), s, metrics=["mcc", "modularity"])
    first, second = (text for text, _ in shown(result).warnings)
    odd = replace(result["mcc"], warnings=("a hard case",))
    hard = replace(result, scores={"mcc": odd})
    assert ("mcc: a hard case", 1) in shown(hard).warnings
    assert first == "factor 'same': one value only, 1.0"
    assert second.startswith("modularity was not computed: ")
    assert f"! {first}" in printed(result)


# The terminal


@pytest.mark.parametrize("width", [90, 100])
def test_the_table_fits_and_has_every_number(width, perfect):
    text = printed(perfect, width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    lines = rows(perfect)
    assert len(lines) == len(perfect.table) + 1  # DCI has three numbers below its title
    assert ("DCI, lasso", "", "", "", "") in lines
    assert [line[0] for line in lines][3:7] == [
        "DCI, lasso",
        "  disentanglement",
        "  completeness",
        "  informativeness",
    ]
    for line in lines:
        assert line[0].strip() in text


def test_what_is_absent_is_a_dash():
    rng = np.random.default_rng(0)
    result = disentangle(*rng.normal(size=(2, 2, 3)), metrics=["mcc"], preset="reference")
    assert rows(result) == [("MCC, Pearson", "1.000", "1.000 (1.000–1.000)", "–", "2")]


# The pictures


def test_one_panel_a_matrix(perfect):
    figure = plot_factors(perfect)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles[:5] == ["MCC, Pearson", "MCC, Spearman", "DCI, lasso", "MIG", "SAP"]
    assert titles[5:] == [""]
    assert plot_factors(replace(perfect, scores={"r2": perfect["r2"]})) is None


def test_cells_are_where_and_as_dark_as_the_entries():
    matrix = np.array([[1.0, 0.0], [-0.5, 0.25]])
    (ax,) = sheet([lambda ax: heat(ax, "title", matrix, "correlation")]).axes
    drawn = {}
    for patch in ax.patches:
        for corners in patch.get_path().vertices.reshape(-1, 5, 2):
            column, row = corners[:4].mean(0).round(6)
            drawn[int(row), int(column)] = (patch.get_alpha(), patch.get_facecolor()[:3])
    assert {place: alpha for place, (alpha, _) in drawn.items()} == {
        (0, 0): 1.0,
        (1, 0): 0.5,
        (1, 1): 0.25,
    }
    assert drawn[0, 0][1] == drawn[1, 1][1] != drawn[1, 0][1]
    assert [text.get_text() for text in ax.texts] == ["largest\n1.00", "correlation"]
    low, high = ax.get_ylim()
    assert low > high  # the first code is on top


def test_many_codes_are_thinned_to_the_largest():
    matrix = np.zeros((200, 3))
    matrix[::2, 1] = np.arange(100) + 1.0
    (ax,) = sheet([lambda ax: heat(ax, "title", matrix, "importance")]).axes
    count = round(abs(np.diff(ax.get_ylim())[0]))
    assert 20 < count < 100
    assert ax.get_yticklabels()[0].get_text() == str(200 - 2 * count)


def test_svg_is_themed_and_small(perfect):
    text = inline(plot_factors(perfect), "a label", "salt")
    assert len(text) < 60_000
    assert not any(colour in text for colour in PALETTE.values())
    for banned in ("http", "<style", "font-family", "DejaVu", "<image"):
        assert banned not in text


# The page


def test_the_page_is_well_formed_and_fetches_nothing(perfect):
    text = html(perfect)
    page = Page(text)
    assert page.tags["script"] == page.tags["link"] == page.tags["img"] == 0
    assert page.tags["svg"] == page.tags["h1"] == 1
    assert "http" not in text
    assert "None" not in text
    assert "nan" not in text
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"url\(#([^)]*)\)", text)) <= set(ids)
    said = " ".join(page.text)
    assert perfect.summary() in said
    assert re.search(r'<section class="verdict ([\w-]+)"', text)[1] == "within-tolerance"
    for score in perfect.scores.values():
        assert score.method in said
    look = re.search(r"<style>.*?</style>", html(two_views()), re.S)[0]
    assert look in text
    assert text == html(perfect)


def test_a_page_without_a_matrix_or_a_level(perfect):
    page = Page(html(replace(perfect, scores={"r2": perfect["r2"]}, rotation=None)))
    assert page.tags["svg"] == 0
    assert "Arbitrary axes" not in page.text


def test_hostile_names_stay_text(hostile, tmp_path):
    hostile.report(tmp_path / "page.html")
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert page.tags["script"] == 0
    assert HOSTILE[0] in page.text
    assert HOSTILE[2] in page.values("title")
    assert "one value only" in " ".join(page.text)
    text = printed(hostile)
    assert "\x1b[31m" not in text
    assert max(cell_len(line) for line in text.splitlines()) <= 100
