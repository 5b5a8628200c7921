"""The report shows what the audit says: the sentence, the table, the figures, the page."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.cells import cell_len
from rich.console import Console

from fake_audit import (
    FEW_ROWS,
    LADDER,
    few_rows,
    five_views,
    make_audit,
    make_pair,
    many_views,
    two_views,
    unequal_widths,
)
from identikit.auditing.result import Audit, Check
from identikit.report import html, inline, print_result, sentence, shown
from identikit.report.plots import plot_ladder, plot_pair, plot_scatter, plot_spectrum
from identikit.report.style import PALETTE
from identikit.report.terminal import rich_table

HOSTILE = [
    "<script>alert(1)</script>",
    "[red]\"quo'te\x1b[31m & $x$",
    "n" * 500,
    "שלום עולם",
    "line\nbreak {{ 7*7 }}",
    "中文名字" * 10,
]


def say(audit: Audit) -> str:
    return sentence(audit.verdict, audit.rows, len(audit.views), audit.settings.tolerance)


def printed(audit: Audit, width: int = 100) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    print_result(audit, console)
    return console.file.getvalue()


class Page(HTMLParser):
    """The tags, attributes and text of a page; raises if a tag is left open or closed twice."""

    VOID = frozenset({"meta", "br", "path", "use", "rect"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.tags: Counter[str] = Counter()
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes += [(tag, key, value or "") for key, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def values(self, key: str) -> list[str]:
        return [value for _, name, value in self.attributes if name == key]


@pytest.fixture(scope="module")
def twenty() -> str:
    return html(many_views(20, control=True))


def test_importing_the_report_loads_no_drawing_library():
    code = (
        "import sys, identikit.report;"
        "print([m for m in ('matplotlib', 'jinja2', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# The sentence


def test_every_group_has_its_own_sentence():
    assert len({say(two_views(group=group)) for group in (*LADDER, "unrelated")}) == 8


@pytest.mark.parametrize("group", LADDER)
def test_sentence_within_tolerance(group):
    text = say(two_views(group=group))
    assert text.startswith("The views seed 0 and seed 1 are the same ")
    assert "0.082 (95% interval 0.075 to 0.089), within the tolerance of 0.1." in text
    assert "10,000 rows" in text


def test_sentence_of_many_views_names_the_worst_pair():
    names = ["x", "y", "z"]
    pairs = [make_pair("x", "y", error=0.01), make_pair("x", "z"), make_pair("y", "z", error=0.02)]
    text = say(make_audit(names, pairs))
    assert text.startswith("All 3 views are the same up to an invertible linear map")
    assert "the worst pair (x, z)" in text


@pytest.mark.parametrize("views", [2, 5])
def test_sentence_above_tolerance_says_so(views):
    text = sentence(two_views(error=0.31).verdict, 100, views, 0.1)
    assert "the same within the tolerance of 0.1" in text
    assert " not " in text.lower() or text.startswith("Not all 5 views")
    assert "best up to an invertible linear map" in text
    assert text.endswith("above the tolerance.")


@pytest.mark.parametrize("views", [2, 5])
def test_sentence_for_unrelated_views(views):
    text = sentence(two_views(group="unrelated", error=0.99).verdict, 100, views, 0.1)
    assert "no linear map explains" in text
    assert "beyond chance" in text
    assert "the same" not in text


@pytest.mark.parametrize(("error", "words"), [(0.097, "reaches above"), (0.104, "reaches below")])
def test_sentence_admits_when_the_interval_spans_the_tolerance(error, words):
    assert words in say(two_views(error=error))
    assert words not in say(two_views(error=0.05))


def test_sentence_does_not_print_digits_of_rounding_noise():
    assert "a relative error below 0.0001, within" in say(two_views(error=1e-9))


def test_sentence_keeps_names_short_and_printable():
    text = say(two_views("n" * 500, "x\x1b[31m\ny\u202e"))
    assert len(text) < 400
    assert text.isprintable()
    assert "…" in text


# The terminal


@pytest.mark.parametrize("width", [80, 100])
def test_table_fits_and_keeps_its_numbers(width):
    text = printed(many_views(6, names=HOSTILE), width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    rows = [line for line in text.splitlines() if re.search(r"\d \(0\.\d+–0\.\d+\)", line)]
    assert len(rows) == 15
    assert all(row.count("…") <= 2 for row in rows)  # the names only
    assert "\x1b[31m" not in text
    assert all(word in text for word in ("error (95 %)", "≤ 0.1", "chance", "similarity"))


def test_names_are_not_markup():
    assert "[red]x" in printed(two_views("[red]x", "[/red]y"))


def test_table_has_the_worst_pair_first_and_marks_warnings():
    table = rich_table(shown(five_views()).tables[0])
    rungs = [str(cell) for cell in table.columns[2].cells]
    assert rungs[:4] == ["unrelated"] * 4
    errors = [float(str(cell).split()[0]) for cell in table.columns[3].cells]
    assert errors == sorted(errors, reverse=True)
    assert [str(cell) for cell in table.columns[4].cells][:4] == ["no"] * 4
    shares = [str(cell) for cell in table.columns[5].cells]
    assert shares[0] == "<1%"
    assert shares[-1] == "99.9%"
    marks = [str(cell) for cell in table.columns[9].cells]
    assert marks.count("!") == sum(bool(pair.warnings) for pair in five_views().comparisons) == 4


def test_absent_values_are_a_dash_in_the_terminal():
    assert [row[4] for row in shown(few_rows()).tables[0].rows] == ["–"]


def test_rounding_noise_has_no_interval_in_the_terminal():
    (table,) = shown(two_views(group="identity", error=1e-9)).tables
    assert [row[2:4] for row in table.rows] == [["same", "100%"]]
    assert [row[1] for row in table.rows] == ["<0.0001"]


def test_warnings_are_said_once_with_their_count():
    text = printed(five_views())
    assert text.count("A view has rank 14") == 1
    assert "(4 pairs)" in text


def test_no_warnings_no_list():
    assert "!" not in printed(two_views())


def test_at_most_eight_warnings_are_listed():
    checks = tuple(Check(f"c{i}", "q?", 1.0, 2.0, False, f"Trouble {i:02d}.") for i in range(12))
    text = printed(make_audit(["a", "b"], [make_pair("a", "b", checks=checks)]))
    assert re.findall(r"! Trouble (\d\d)", text) == [f"{i:02d}" for i in range(8)]
    assert "and 4 more distinct warnings" in text


# The figures


def words(figure: Figure) -> list[str]:
    return [text.get_text() for ax in figure.axes for text in ax.texts]


def test_ladder_shows_rungs_tolerance_and_the_chosen_one():
    pair = unequal_widths().comparisons[0]
    ax = plot_ladder(pair, tolerance=0.07).axes[0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["linear", "affine"]
    heights = [line.get_ydata()[0] for line in ax.lines[:2]]
    assert heights == [1, 0.07]
    ring = ax.lines[-1]
    assert ring.get_markersize() == 10
    assert list(ring.get_xdata()) == [1]
    assert list(ring.get_ydata()) == [0.31]


def test_unrelated_has_no_chosen_rung():
    pair = make_pair("a", "b", "unrelated", 0.99)
    assert len(plot_ladder(pair, tolerance=0.1).axes[0].lines[-1].get_xdata()) == 0


def test_ladder_writes_out_errors_beyond_its_top():
    pair = make_pair("a", "b")
    ladder = (replace(pair.ladder[0], error=5e6), replace(pair.ladder[1], error=7.25))
    figure = plot_ladder(replace(pair, ladder=ladder + pair.ladder[2:]), tolerance=0.1)
    assert {">99", "7.2"} <= set(words(figure))
    assert figure.axes[0].get_ylim()[1] < 2


def test_spectrum_shows_the_correlations_and_thins_long_ones():
    pair = make_pair("a", "b", dims=16)
    line = plot_spectrum(pair).axes[0].lines[1]
    np.testing.assert_array_equal(line.get_ydata(), pair.correlations)
    long = make_pair("a", "b", dims=5000)
    line = plot_spectrum(long).axes[0].lines[1]
    assert len(line.get_ydata()) == 200
    assert line.get_xdata()[-1] == 5000
    assert line.get_ydata()[-1] == long.correlations[-1]


def test_scatter_puts_a_on_x_and_b_on_y():
    pair = make_pair("a", "b", rows=50)
    ax = plot_scatter(pair).axes[0]
    for axis, patch in enumerate(ax.patches):
        drawn = patch.get_path().vertices[::2]
        np.testing.assert_allclose(drawn, pair.points[:, :, axis])
    assert len(ax.patches) == 2


def test_scatter_of_one_shared_axis():
    pair = make_pair("a", "b", rows=50)
    figure = plot_scatter(replace(pair, points=pair.points[:, :, :1]))
    assert words(figure) == ["■ axis 1"]


def test_scatter_dots_are_visible_in_a_raster():
    def ink(pair):
        buffer = io.BytesIO()
        plot_scatter(pair).savefig(buffer, format="png", dpi=80)
        buffer.seek(0)
        return int((mpl.image.imread(buffer)[..., :3].min(axis=2) < 0.75).sum())

    pair = make_pair("a", "b", "unrelated", 0.99, rows=300)
    lonely = replace(pair, points=np.concatenate([pair.points[:1]] * 3))
    assert ink(pair) > ink(lonely) + 500


def test_what_was_not_computed_is_said_in_the_figure():
    pair = few_rows().comparisons[0]
    assert words(plot_spectrum(pair)) == ["not computed"]
    assert words(plot_scatter(replace(pair, points=np.empty((0, 2, 2))))) == ["not computed"]


def test_a_user_style_neither_breaks_nor_leaks():
    with mpl.rc_context({"text.usetex": True, "font.size": 40}):
        figure = plot_pair(make_pair("a", "b"), tolerance=0.1)
        assert inline(figure, "x", "s") == inline(
            plot_pair(make_pair("a", "b"), tolerance=0.1), "x", "s"
        )
        assert mpl.rcParams["font.size"] == 40
    assert len(figure.axes) == 3


def test_figures_do_not_load_pyplot():
    code = (
        "import sys; sys.path.insert(0, 'tests'); from fake_audit import two_views;"
        "from identikit.report import html; html(two_views());"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_inline_svg_is_small_themed_and_clean():
    pair = make_pair("first<name>", "second$name$", dims=400)
    text = inline(plot_pair(pair, tolerance=0.1), "a label", "salt")
    assert len(text) < 25_000
    assert text.startswith('<svg viewBox="')
    assert text.endswith("</svg>")
    assert 'role="img" aria-label="a label"' in text
    assert not any(colour in text for colour in PALETTE.values())
    assert all(f"var(--{name})" in text for name in PALETTE)
    for banned in ("http", "<style", "<metadata", "font-family", "DejaVu", "xlink", "name"):
        assert banned not in text
    assert ">0.082</text>" in text  # words keep the digits that coordinates lose
    ids = re.findall(r' id="([^"]*)"', text)
    assert ids
    assert all(f"#{mark}" in text for mark in ids)
    assert set(ids).isdisjoint(
        re.findall(r' id="([^"]*)"', inline(plot_pair(pair, tolerance=0.1), "a label", "other"))
    )


def test_inline_svg_has_one_path_for_all_rows_of_an_axis():
    text = inline(plot_scatter(make_pair("a", "b", rows=250)), "x", "s")
    dots = [path.count("h0") for path in re.findall(r'd="([^"]*)"', text) if "h0" in path]
    assert dots == [250, 250]


def test_the_font_property_of_older_matplotlib_is_split():
    class Older:
        def savefig(self, file, **_):
            file.write("<svg><text style=\"font: 700 9px 'DejaVu Sans', sans-serif; fill: red\"/>")
            file.write("<text style=\"font: 8.5px 'DejaVu Sans'\"/></svg>")

    text = inline(Older(), "x", "s")
    assert '"font-size: 9px; font-weight: 700; fill: red"' in text
    assert '"font-size: 8.5px"' in text


# The page


@pytest.mark.parametrize("make", [two_views, five_views, unequal_widths, few_rows])
def test_page_is_well_formed_and_fetches_nothing(make):
    text = html(make())
    page = Page(text)
    assert page.tags["script"] == page.tags["link"] == page.tags["img"] == 0
    assert page.tags["h1"] == 1
    assert "http" not in text
    assert "@import" not in text
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    links = page.values("href")
    assert all(link.startswith("#") and link[1:] in ids for link in links)
    assert set(re.findall(r"url\(#([^)]*)\)", text)) <= set(ids)
    assert "None" not in text
    assert "nan" not in text


def test_page_leads_with_the_verdict():
    audit = five_views()
    text = html(audit)
    shown = re.search(r'<p id="verdict">(.*?)</p>', text)
    assert shown is not None
    plain = re.sub("[\u2068\u2069]", "", shown[1]).replace("\u00a0", " ")
    assert plain == audit.summary()
    order = [
        "<h1",
        'id="verdict"',
        "h-matrix",
        "h-views",
        "h-pairs",
        "h-numbers",
        "h-done",
        "<footer",
    ]
    places = [text.index(mark) for mark in order]
    assert places == sorted(places)


def test_page_shows_every_number_of_the_audit():
    audit = unequal_widths()
    words = " ".join(Page(html(audit)).text)
    pair = audit.comparisons[0]
    for value in (pair.cca.mean, pair.cca.held_out, pair.cka.debiased):
        assert f"{value:.3f}" in words
    for measure in pair.measures.values():
        ends = "({:.3f} to {:.3f})"
        shown = [f"{measure.value:.3f}", ends.format(*measure.interval), f"{measure.chance:.3f}"]
        shown += [ends.format(*measure.band), f"{measure.calibrated:.3f}", "<0.001"]
        assert " ".join(shown) in re.sub(r"\s+", " ", words)
    assert "0.30 (0.28 to 0.32)" in re.sub(r"\s+", " ", words)  # a predicts b
    assert "300" in words
    assert all(key in words for key in pair.measures)
    assert "rows dealt in turn" in words
    assert "identikit 0.1.0" in words
    assert "jackknife" in words


def test_page_says_how_many_rows_were_dropped():
    audit = two_views()
    assert "No row was dropped" in html(audit)
    dropped = replace(audit, settings=replace(audit.settings, dropped=1234))
    assert "1,234 rows with NaN or infinity were dropped" in html(dropped)


def test_absent_values_carry_their_reason():
    page = Page(html(few_rows()))
    assert "–" in page.text
    assert FEW_ROWS.message in page.values("title")
    assert FEW_ROWS.message in page.text
    bare = make_pair("a", "b")
    bare = replace(bare, cka=replace(bare.cka, debiased=None))
    titles = Page(html(make_audit(["a", "b"], [bare]))).values("title")
    assert "Not computed for this pair." in titles


def test_hostile_names_stay_text():
    audit = many_views(6, names=HOSTILE)
    text = html(audit)
    page = Page(text)
    assert page.tags["script"] == 0
    assert HOSTILE[0] in page.text
    assert "line break {{ 7*7 }}" in page.text
    assert not any("49" in word and "break" in word for word in page.text)
    assert HOSTILE[2] in page.values("title")
    assert HOSTILE[2] not in page.text
    assert page.tags["bdi"] > 20


def test_a_name_that_is_no_text_does_not_stop_the_report(tmp_path):
    two_views("ok", "bad\udcff").report(tmp_path / "page.html")
    assert "bad" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_page_is_the_same_every_time():
    assert html(two_views()) == html(two_views())


@pytest.mark.slow
def test_twenty_views_make_a_page_of_bounded_size(twenty):
    assert len(twenty.encode()) < 2_000_000
    page = Page(twenty)
    assert twenty.count('<svg class="panels"') == 30
    assert any("Figures are shown for 30 of 190 pairs: the 20 worst" in text for text in page.text)
    assert sum(mark.startswith("row-") for mark in page.values("id")) == 190
    links = {link[1:] for link in page.values("href")}
    assert links <= set(page.values("id"))
    assert len([link for link in links if re.match(r"(pair|row)-", link)]) == 190
    assert twenty.count('<use href="#tree"/>') == 20


def test_many_distinct_warnings_are_cut_in_the_overview():
    pairs = []
    for pair in [("a", "b"), ("a", "c"), ("b", "c")]:
        texts = [f"Trouble {number} of {pair}." for number in range(9)]
        checks = tuple(Check(text, "q?", 1.0, 2.0, False, text) for text in texts)
        pairs.append(make_pair(*pair, checks=checks))
    assert "And 7 more, listed with their pairs." in html(make_audit(["a", "b", "c"], pairs))


def luminance(colour: str) -> float:
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_has_contrast_in_both_themes(theme):
    blocks = re.findall(r":root \{(.*?)\}", html(two_views()), flags=re.DOTALL)
    colours = dict(re.findall(r"--(\w+): (#\w{6})", blocks[theme]))
    for text in ("ink", "muted", "accent", "second", "good", "warn", "bad"):
        for ground in ("page", "card"):
            light, dark = sorted((luminance(colours[text]), luminance(colours[ground])))[::-1]
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ground)


def test_palette_is_that_of_the_light_theme():
    block = re.findall(r":root \{(.*?)\}", html(two_views()), flags=re.DOTALL)[0]
    assert dict(re.findall(r"--(\w+): (#\w{6})", block)).items() >= PALETTE.items()
