"""The page in a real browser: it opens, is legible in both themes, runs and fetches nothing."""

from __future__ import annotations

import base64
import io
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

from fake_audit import five_views, many_views, two_views
from identikit.auditing._result import Audit

pytestmark = pytest.mark.browser

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
    "$x$ {{ 7*7 }}\nnext",
]


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


def show(
    browser: Any, audit: Audit, folder: Path, *, width: int = 1100, theme: str = "light"
) -> None:
    """Open the audit's page from a file, in a window of this width and theme."""
    audit.report(folder / "audit.html")
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    features = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get((folder / "audit.html").as_uri())


def screenshot(browser: Any) -> np.ndarray:
    image = io.BytesIO(base64.b64decode(browser.get_screenshot_as_base64()))
    return matplotlib.image.imread(image, format="png")[..., :3]


def test_page_opens_and_leads_with_the_verdict(browser, tmp_path):
    show(browser, two_views(), tmp_path)
    verdict = browser.find_element("id", "verdict")
    assert verdict.is_displayed()
    assert "the same up to an invertible linear map" in verdict.text
    assert verdict.location["y"] + verdict.size["height"] < 500
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    image = screenshot(browser)
    assert image.std() > 0.05
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 50


def test_page_requests_nothing_but_itself(browser, tmp_path):
    browser.get_log("performance")
    show(browser, five_views(), tmp_path)
    log = " ".join(entry["message"] for entry in browser.get_log("performance"))
    asked = re.findall(r'"Network\.requestWillBeSent".*?"request":\{.*?"url":"([^"]*)"', log)
    assert asked
    assert all(url.startswith("file://") and url.endswith("audit.html") for url in asked)
    source = (tmp_path / "audit.html").read_text()
    assert not re.search(r"""(src|href|url\()\s*=?\s*["']?\s*(https?:)?//""", source)


def test_hostile_names_are_shown_and_not_run(browser, tmp_path):
    from selenium.common.exceptions import NoAlertPresentException

    show(browser, many_views(5, names=NAMES), tmp_path)
    with pytest.raises(NoAlertPresentException):
        _ = browser.switch_to.alert.text
    shown = browser.find_element("css selector", ".views").text
    assert NAMES[0] in shown
    assert NAMES[1] in shown
    assert "$x$ {{ 7*7 }} next" in shown
    counts = "return document.scripts.length + document.images.length"
    assert browser.execute_script(counts) == 0
    titles = "return [...document.querySelectorAll('.matrix thead bdi')].map(e => e.title)"
    assert NAMES[2] in browser.execute_script(titles)


def test_dark_theme_is_dark_and_reaches_the_figures(browser, tmp_path):
    colours = (
        "const text = document.querySelector('svg text');"
        "return [getComputedStyle(document.body).backgroundColor, getComputedStyle(text).fill]"
    )
    seen = {}
    for theme in ("light", "dark"):
        show(browser, two_views(), tmp_path, theme=theme)
        seen[theme] = browser.execute_script(colours), screenshot(browser).mean()
    assert seen["light"][0][0] != seen["dark"][0][0]
    assert seen["light"][0][1] != seen["dark"][0][1]
    assert seen["light"][1] > 0.8
    assert seen["dark"][1] < 0.3


@pytest.mark.parametrize("width", [400, 1100])
def test_page_never_scrolls_sideways(browser, tmp_path, width):
    show(browser, many_views(5, names=NAMES), tmp_path, width=width)
    root = "document.documentElement"
    wide, room = browser.execute_script(f"return [{root}.scrollWidth, {root}.clientWidth]")
    assert room == width or room == width - 15
    assert wide <= room


def test_figures_are_drawn_inside_their_box(browser, tmp_path):
    show(browser, five_views(), tmp_path)
    outside = (
        "const out = [];"
        "for (const svg of document.querySelectorAll('svg')) {"
        "  const box = svg.getBoundingClientRect();"
        "  for (const text of svg.querySelectorAll('text')) {"
        "    const own = text.getBoundingClientRect();"
        "    if (own.left < box.left - 2 || own.right > box.right + 2 ||"
        "        own.top < box.top - 2 || own.bottom > box.bottom + 2) out.push(text.textContent);"
        "  }"
        "}"
        "return [document.querySelectorAll('svg text').length, out]"
    )
    count, clipped = browser.execute_script(outside)
    assert count > 200
    assert clipped == []
