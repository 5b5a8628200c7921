"""The pages in a real browser: they open, are legible in both themes, run and fetch nothing."""

from __future__ import annotations

import base64
import io
import os
import re
import shutil
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

from fake_audit import LADDER, five_views, make_audit, make_pair, many_views, two_views
from identikit._result import Result
from identikit.auditing import Audit, ModelsAudit, audit_models
from identikit.axes import Components, match_components, near_identifiability
from identikit.factors import Disentanglement, disentangle
from identikit.family import SoftmaxModel
from identikit.retrieval import Migration, migrate
from identikit.studies import run
from study_units import of_all_kinds
from test_models import counter_rotated, few_labels

pytestmark = [pytest.mark.browser, pytest.mark.long]

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "n" * 500,
    "שלום עולם",
    "$x$ {{ 7*7 }}\nnext '&lt;\"",
]


def over_candidates(rng: np.random.Generator) -> list[SoftmaxModel]:
    """The same distributions over six of twenty labels an input, in two gauges."""
    f, g, A = rng.normal(size=(200, 3)), rng.normal(size=(20, 3)), rng.normal(size=(3, 3))
    chosen = np.argsort(rng.random((200, 20)), axis=1)[:, :6]
    sides = (f, g), (f @ A.T, g @ np.linalg.inv(A) + 1)
    return [SoftmaxModel(*side, candidates=chosen, name=n) for side, n in zip(sides, "ab")]


def hostile_models(rng: np.random.Generator) -> list[SoftmaxModel]:
    f, noise, g = (rng.normal(size=(rows, 3)) for rows in (300, 300, 12))
    return [SoftmaxModel(f + i * noise, g, name=name) for i, name in enumerate(NAMES)]


def compared(make: Callable[..., Any]) -> ModelsAudit:
    return audit_models(make(np.random.default_rng(0)))


def hostile_slices() -> ModelsAudit:
    """Two models on six slices of the inputs: the same on one, and alone on another."""
    rng = np.random.default_rng(0)
    f, g = rng.normal(size=(200, 3)), rng.normal(size=(9, 3))
    labels = np.array([*NAMES, "alone"])[[5, *(np.arange(199) % 5)]]
    moved = f + (labels != NAMES[0])[:, None] * rng.normal(size=f.shape)
    return audit_models([SoftmaxModel(f, g), SoftmaxModel(moved, g, name="b")], slices=labels)


def factors() -> Disentanglement:
    """Codes that are the factors, of which some have hostile names."""
    s = np.random.default_rng(0).normal(size=(400, len(NAMES)))
    return disentangle(s, s, names=NAMES, metrics=["mcc", "mig"])


def ten_views() -> Audit:
    """Ten views with long names, and errors from small to large."""
    names = [f"checkpoints/run_{seed}_of_the_large_model" for seed in range(9)] + ["a control"]
    errors = (0.03, 0.08, 0.22, 0.41, 0.62, 0.95)
    pairs = [
        make_pair(a, b, LADDER[1 + place % 5], errors[place % 6])
        for place, (a, b) in enumerate(combinations(names, 2))
    ]
    return make_audit(names, pairs)


def two_sources() -> dict[str, np.ndarray]:
    """Two views of the same rows that share their axes, with hostile names."""
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(400, 4))
    turned = X @ np.linalg.qr(rng.normal(size=(4, 4)))[0] + 0.05 * rng.normal(size=X.shape)
    return {NAMES[0]: X, NAMES[2]: turned}


def three_runs() -> Components:
    """Three runs that share half of their atoms."""
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(20, 12))
    runs = [np.vstack([atoms, rng.normal(size=(20, 12))])[rng.permutation(40)] for _ in range(3)]
    return match_components(dict(zip(NAMES, runs)))


def moved() -> Migration:
    """A model and its successor, which is rotated and less noisy, with judgments."""
    rng = np.random.default_rng(0)
    meaning = rng.normal(size=(360, 12))
    turn = np.linalg.qr(rng.normal(size=(12, 12)))[0]
    old = meaning + 0.8 * rng.normal(size=meaning.shape)
    new = (meaning + 0.3 * rng.normal(size=meaning.shape)) @ turn
    near = (meaning[300:] @ meaning[:300].T).argsort(axis=1)[:, -5:]
    judged = [(query, row, 1) for query, rows in enumerate(near) for row in rows]
    queries = (old[300:], new[300:])
    return migrate(old[:300], new[:300], queries=queries, qrels=np.array(judged), resamples=200)


PAGES: dict[str, Callable[[], Result]] = {
    "migrate": moved,
    "audit": two_views,
    "audit-five": five_views,
    "audit-ten": ten_views,
    "audit-names": lambda: many_views(5, names=NAMES),
    "models": lambda: compared(counter_rotated),
    "models-few-labels": lambda: compared(few_labels),
    "models-candidates": lambda: compared(over_candidates),
    "models-names": lambda: compared(hostile_models),
    "models-slices": hostile_slices,
    "disentangle-names": factors,
    "near-names": lambda: near_identifiability(two_sources()),
    "components-names": three_runs,
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    paths = shutil.which("chromium"), shutil.which("chromedriver")
    if None in paths:
        reason = "Chromium or its driver is not installed: apt install chromium chromium-driver"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(paths[0])
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(paths[1])))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """From the name of a page to its file; each is made once."""
    folder = tmp_path_factory.mktemp("pages")

    def path(page: str) -> Path:
        file = folder / f"{page}.html"
        if not file.exists():
            PAGES[page]().report(file)
        return file

    return path


def show(browser: Any, file: Path, *, width: int = 1100, theme: str = "light") -> None:
    """Open a page from its file, in a window of this width and theme."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    features = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(file.as_uri())
    # A click would otherwise have to wait until the page has come to rest.
    browser.execute_script("document.documentElement.style.scrollBehavior = 'auto'")


def pixels(png: str) -> np.ndarray:
    return matplotlib.image.imread(io.BytesIO(base64.b64decode(png)), format="png")[..., :3]


def screenshot(browser: Any) -> np.ndarray:
    return pixels(browser.get_screenshot_as_base64())


def texts(browser: Any, selector: str) -> list[str]:
    """What a reader sees of the elements that a selector finds."""
    return [found.text for found in browser.find_elements("css selector", selector)]


# Both pages


VERDICTS = {
    "audit": "the same up to an invertible linear map",
    "models": "but not by one map (κ = 1.4): the distributions differ",
    "models-few-labels": "K = 6 labels leave 11 of 16 dimensions of f free",
    "models-candidates": "so the same embedding up to a linear map: κ < 1e-06.",
    "disentangle-names": "5 codes against 5 factors in 400 rows: MCC 1",
    "near-names": "the views share axes",
    "components-names": "have a match above chance in all 3 runs",
}


@pytest.mark.parametrize("page", VERDICTS)
def test_page_opens_and_leads_with_the_verdict(browser, written, page):
    browser.get_log("browser")
    show(browser, written(page))
    verdict = browser.find_element("id", "verdict")
    assert verdict.is_displayed()
    assert VERDICTS[page] in verdict.text
    assert verdict.location["y"] + verdict.size["height"] < 500
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    image = screenshot(browser)
    assert image.std() > 0.05
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 50


@pytest.mark.parametrize(
    "page", ["audit-five", "models-names", "disentangle-names", "near-names", "components-names"]
)
def test_page_requests_nothing_but_itself(browser, written, page):
    file = written(page)
    browser.get_log("performance")
    show(browser, file)
    log = " ".join(entry["message"] for entry in browser.get_log("performance"))
    asked = re.findall(r'"Network\.requestWillBeSent".*?"request":\{.*?"url":"([^"]*)"', log)
    assert set(asked) == {file.as_uri()}
    assert not re.search(r"""(src|href|url\()\s*=?\s*["']?\s*(https?:)?//""", file.read_text())


@pytest.mark.parametrize(
    ("page", "shortened"),
    [("audit-names", ".matrix thead bdi"), ("models-names", ".numbers tbody bdi")],
)
def test_hostile_names_are_shown_and_not_run(browser, written, page, shortened):
    from selenium.common.exceptions import NoAlertPresentException

    show(browser, written(page))
    with pytest.raises(NoAlertPresentException):
        _ = browser.switch_to.alert.text
    shown = browser.find_element("css selector", ".views").text
    assert NAMES[0] in shown
    assert NAMES[1] in shown
    assert "$x$ {{ 7*7 }} next '&lt;\"" in shown
    counts = "return document.scripts.length + document.images.length"
    assert browser.execute_script(counts) == 0
    titles = f"return [...document.querySelectorAll('{shortened}')].map(e => e.title)"
    assert set(NAMES[:3]) <= set(browser.execute_script(titles))


@pytest.mark.parametrize("page", ["disentangle-names", "near-names", "components-names"])
def test_hostile_names_on_a_small_screen_are_shown_and_not_run(browser, written, page):
    from selenium.common.exceptions import NoAlertPresentException

    show(browser, written(page), width=400, theme="dark")
    with pytest.raises(NoAlertPresentException):
        _ = browser.switch_to.alert.text
    counts = "return document.scripts.length + document.images.length"
    assert browser.execute_script(counts) == 0
    assert NAMES[0] in browser.find_element("tag name", "body").text
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.execute_script(wide) <= 0


def contrast(colours: list[str]) -> float:
    """Contrast ratio of two colours as a style gives them (WCAG 2.2)."""
    parts = np.array([re.findall(r"[\d.]+", colour)[:3] for colour in colours], dtype=float) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    dark, light = sorted(linear @ [0.2126, 0.7152, 0.0722])
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("page", ["audit", "models", "near-names", "components-names"])
def test_dark_theme_is_dark_and_reaches_the_figures(browser, written, page):
    colours = (
        "const style = name => getComputedStyle(document.querySelector(name));"
        "return [[style('.verdict').backgroundColor, style('#verdict').color],"
        "        [style('.card').backgroundColor, style('svg text').fill]]"
    )
    seen, brightness = {}, {}
    for theme in ("light", "dark"):
        show(browser, written(page), theme=theme)
        seen[theme], brightness[theme] = browser.execute_script(colours), screenshot(browser).mean()
        assert min(map(contrast, seen[theme])) > 4.5
    for one, other in zip(np.ravel(seen["light"]), np.ravel(seen["dark"])):
        assert one != other
    assert brightness["light"] > 0.8
    assert brightness["dark"] < 0.3


def test_ten_views_fit_a_screen_and_their_errors_are_told_apart(browser, written):
    """The cells of 0.62 and of 0.95 differ to the eye, and all can be read, in both themes."""
    colours = (
        "const dot = document.createElement('canvas').getContext('2d', {willReadFrequently: true});"
        "const rgb = colour => { dot.fillStyle = colour; dot.fillRect(0, 0, 1, 1);"
        "  return 'rgb(' + dot.getImageData(0, 0, 1, 1).data.slice(0, 3).join() + ')'; };"
        "return [...document.querySelectorAll('.matrix td[style]')].map(cell => {"
        "  const style = getComputedStyle(cell);"
        "  return [cell.innerText.split('\\n')[0], rgb(style.backgroundColor), rgb(style.color)];"
        "})"
    )
    for theme in ("light", "dark"):
        show(browser, written("audit-ten"), width=1440, theme=theme)
        box = "const box = document.querySelector('.box:has(> .matrix)');"
        inside = "return [box.scrollWidth, box.clientWidth]"
        wide, room = browser.execute_script(box + inside)
        assert wide <= room
        cells = browser.execute_script(colours)
        assert len(cells) == 90
        assert min(contrast([ground, text]) for _, ground, text in cells) > 4.5
        ground = {error: colour for error, colour, _ in cells}
        assert contrast([ground["0.62"], ground["0.95"]]) > 1.4
        assert contrast([ground["0.030"], ground["0.62"]]) > 1.4


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_result_in_a_notebook_can_be_read(browser, tmp_path, theme):
    """On a page of another colour, as a notebook's may be."""
    shown = two_views()._repr_html_()
    file = tmp_path / "notebook.html"
    file.write_text(f'<meta charset="utf-8"><body style="background: #777">{shown}')
    show(browser, file, width=700, theme=theme)
    colours = (
        "const style = name => getComputedStyle(document.querySelector(name));"
        "return ['p', 'td', 'thead th', 'svg text'].map(name => "
        "  [style('.identikit').backgroundColor, style('.identikit ' + name)"
        "    [name == 'svg text' ? 'fill' : 'color']])"
    )
    seen = browser.execute_script(colours)
    assert min(map(contrast, seen)) > 4.5
    assert (contrast([seen[0][0], "rgb(0, 0, 0)"]) > 4.5) == (theme == "light")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 700


@pytest.mark.parametrize(
    "page",
    [
        *("audit-names", "audit-ten", "models-names", "models-few-labels", "models-slices"),
        *("near-names", "components-names", "migrate"),
    ],
)
@pytest.mark.parametrize("width", [400, 1100, 1440])
def test_page_never_scrolls_sideways(browser, written, page, width):
    show(browser, written(page), width=width)
    root = "document.documentElement"
    wide, room = browser.execute_script(f"return [{root}.scrollWidth, {root}.clientWidth]")
    assert room == width or room == width - 15
    assert wide <= room
    # What is too wide for its box can be scrolled to.
    cut = (
        "return [...document.querySelectorAll('.box, .plot')]"
        ".filter(e => e.scrollWidth > e.clientWidth).map(e => getComputedStyle(e).overflowX)"
    )
    ways = browser.execute_script(cut)
    assert set(ways) <= {"auto"}
    assert ways or width > 400


def test_options_of_a_migration_are_whole(browser, written):
    show(browser, written("migrate"), width=1200)
    first = "const b = document.querySelector('.box'); return b.scrollWidth - b.clientWidth"
    assert browser.execute_script(first) <= 0
    show(browser, written("migrate"), width=400)
    heads = """return [...document.querySelectorAll('.numbers tbody th')].map(
        e => [e.innerText, e.getBoundingClientRect().height])"""
    found = browser.execute_script(heads)
    assert "map the index" in [text for text, _ in found]
    # Four words are four lines at most; broken between letters they were fifteen.
    assert max(height for _, height in found) < 120


@pytest.mark.parametrize(
    ("page", "figures", "least"),
    [
        ("audit-five", 10, 30),
        ("models", 1, 50),
        ("models-few-labels", 1, 50),
        ("models-candidates", 1, 50),
    ],
)
def test_figures_are_drawn_inside_their_box(browser, written, page, figures, least):
    show(browser, written(page))
    measure = (
        "return [...document.querySelectorAll('.plot svg')].map(svg => {"
        "  const box = svg.getBoundingClientRect(), all = [...svg.querySelectorAll('text')];"
        "  const out = all.filter(text => {"
        "    const own = text.getBoundingClientRect();"
        "    return own.left < box.left - 2 || own.right > box.right + 2 ||"
        "           own.top < box.top - 2 || own.bottom > box.bottom + 2;"
        "  });"
        "  return [box.width, box.height, all.length, out.map(text => text.textContent)];"
        "})"
    )
    measured = browser.execute_script(measure)
    assert len(measured) == figures
    for wide, high, count, clipped in measured:
        assert wide > 700
        assert high > 200
        assert count > least
        assert clipped == []
    drawn = pixels(browser.find_element("css selector", ".plot svg").screenshot_as_base64)
    # Each third of the figure has a panel in it.
    assert all(part.std() > 0.05 for part in np.array_split(drawn, 3, axis=1))


@pytest.mark.parametrize("width", [400, 1100, 1440])
@pytest.mark.parametrize("page", ["audit-five", "audit-ten", "audit-names"])
def test_the_tree_and_the_plane_are_legible(browser, written, page, width):
    """A line of the tree ends beside every name, and the names of the plane are inside it."""
    show(browser, written(page), width=width)
    rows = (
        "return [...document.querySelectorAll('.matrix tbody tr')].map(row => {"
        "  const tree = row.querySelector('.tree svg').getBoundingClientRect();"
        "  const cell = row.querySelector('th').getBoundingClientRect();"
        "  return [tree.width, tree.top - cell.top, tree.bottom - cell.bottom,"
        "          tree.right - cell.left];"
        "})"
    )
    for wide, top, bottom, right in browser.execute_script(rows):
        assert wide > 40
        assert max(abs(top), abs(bottom), abs(right)) <= 2
    plane = (
        "const svg = document.querySelector('.plane'), box = svg.getBoundingClientRect();"
        "return [...svg.querySelectorAll('text')].map(text => {"
        "  const own = text.getBoundingClientRect();"
        "  return [own.left - box.left, box.right - own.right, own.top, own.bottom, own.height];"
        "})"
    )
    names = np.array(browser.execute_script(plane))
    assert names[:, :2].min() > -1
    assert names[:, 4].min() > 10
    tops, bottoms = (np.sort(names[:-1, side]) for side in (2, 3))
    assert (tops[1:] > bottoms[:-1] - 4).all()


def test_thick_branches_are_within_a_group(browser, written):
    show(browser, written("audit-five"))
    style = (
        "return [...document.querySelectorAll('#tree path')].map(path => {"
        "  const style = getComputedStyle(path);"
        "  return [style.stroke, parseFloat(style.strokeWidth), style.fill];"
        "})"
    )
    (apart, thin, fill), (together, thick, _) = browser.execute_script(style)
    assert apart != together
    assert thick > thin
    assert fill == "none"
    drawn = pixels(browser.find_element("css selector", ".tree svg").screenshot_as_base64)
    assert 0.01 < drawn.std() < 0.4  # lines, and no shape that is filled


@pytest.fixture(scope="module")
def study_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(of_all_kinds(), folder=tmp_path_factory.mktemp("study") / "out").folder


@pytest.mark.parametrize("width", [400, 1440])
def test_nothing_of_a_study_s_claims_is_cut(browser, study_page, width):
    show(browser, study_page / "report.html", width=width)
    boxes = """return [...document.querySelectorAll('.claims tbody tr > *')].map(
        e => [e.getBoundingClientRect().right, e.scrollWidth - e.clientWidth])"""
    rights, hidden = np.array(browser.execute_script(boxes)).T
    assert len(rights) == 3 + 9 * 3
    assert rights.max() <= width
    assert hidden.max() <= 1
    scrolls = "const b = document.querySelector('.box'); return b.scrollWidth - b.clientWidth"
    assert browser.execute_script(scrolls) <= 0
    # What was measured is at the right of what was published, on either screen.
    row = browser.find_element("css selector", "#claim-paper-good")
    published, measured = row.find_elements("css selector", "td")
    assert published.location["x"] < measured.location["x"]
    assert measured.text.splitlines()[-2:] == ["1.1", "0.85 to 1.3"]


@pytest.mark.parametrize("page", ["audit", "models", "models-candidates"])
def test_details_open_without_a_script(browser, written, page):
    show(browser, written(page))
    assert not any(texts(browser, "details table"))
    browser.find_element("css selector", "summary").click()
    assert any("(chosen)" in table for table in texts(browser, "details table"))


# Models only


def test_six_panels_each_with_its_question(browser, written):
    show(browser, written("models"))
    shown = texts(browser, "svg text")
    assert sum(text.endswith("?") for text in shown) == 6
    assert "Do f and g move by one map?" in shown


def test_page_says_what_few_labels_leave_free(browser, written):
    show(browser, written("models-few-labels"))
    assert "of what is identified" in texts(browser, ".verdict strong")[0]
    assert all("5 of 16" in row for row in texts(browser, ".views tbody tr"))
    said = texts(browser, "#h-models ~ .warnings li")
    assert [text.split(": ")[0] for text in said] == ["a", "b"]
    assert all("K = 6 labels leave 11 of 16 dimensions of f free" in text for text in said)
    numbers = texts(browser, ".stats div")
    assert "identified dimensions\n5\nfree: 11 in a, 11 in b" in numbers
    assert "error of g\n–\naffine" in numbers


def test_page_says_what_candidates_leave_undefined(browser, written):
    show(browser, written("models-candidates"))
    absent = browser.find_elements("css selector", ".numbers .absent")
    assert [found.text for found in absent] == ["–", "–"]
    reasons = {found.get_attribute("title") for found in absent}
    assert reasons == {"Not defined for models with candidates."}
    assert texts(browser, "svg text").count("not computed") == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_slices_are_named_in_their_table_and_numbered_in_their_figure(browser, written, theme):
    show(browser, written("models-slices"), width=400, theme=theme)
    counts = "return document.scripts.length + document.images.length"
    assert browser.execute_script(counts) == 0
    box = "[aria-label='Slices of this pair'] "
    assert sorted(texts(browser, box + "tbody td:first-child")) == list("123456")
    names = texts(browser, box + "tbody th")
    assert NAMES[0] in names
    assert "alone" in names
    assert texts(browser, box + "tr:nth-child(2) td:nth-child(4)")[0] == "different"
    drawn = browser.find_elements("css selector", "figure svg")[1]
    shown = [text.text for text in drawn.find_elements("css selector", "text")]
    assert set("123456") <= set(shown)
    assert not any(name in shown for name in NAMES)


def test_a_finding_links_to_its_pair(browser, written):
    show(browser, written("models-names"))
    links = browser.find_elements("css selector", ".numbers a")
    assert len(links) == 10
    links[-1].click()
    assert browser.execute_script("return document.querySelector(':target').id") == "pair-9"
    top = "return document.querySelector(':target').getBoundingClientRect().top"
    assert 0 <= browser.execute_script(top) < 900
