"""A figure as an inline SVG: small, themed by CSS, the same bytes every time."""

from __future__ import annotations

import re
from io import StringIO
from typing import TYPE_CHECKING

from identikit.report.style import PALETTE, STYLE

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure


def inline(figure: Figure, label: str, salt: str) -> str:
    """Render a figure for embedding into HTML.

    Colours of the palette become CSS variables, fonts are inherited, ids that nothing refers to
    and everything that an HTML parser does not need are left out.

    Parameters
    ----------
    figure : Figure
        A figure drawn in the palette.
    label : str
        What a screen reader says; plain words, no markup.
    salt : str
        Makes the ids of this figure differ from those of others on the page.
    """
    from matplotlib import style

    buffer = StringIO()
    with style.context(["default", STYLE, {"svg.hashsalt": salt}]):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    tag, body = buffer.getvalue().split("<svg", 1)[1].split(">", 1)
    tag = re.sub(r'\s(?:width|height|version|xmlns[:\w]*)="[^"]*"', "", tag)
    text = f'<svg{tag} role="img" aria-label="{label}">{body}'.replace("xlink:href", "href")
    # A style element in an inline SVG would style the whole page.
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.S)
    used = set(re.findall(r"#([\w-]+)", text))
    text = re.sub(r' id="([^"]*)"', lambda hit: hit[0] if hit[1] in used else "", text)
    text = re.sub(r" font-family: [^;\"]*;?", "", text)
    # Matplotlib before 3.10 writes size, weight and family as one property.
    text = re.sub(r"font: (?:(\d+) )?([\d.]+px) [^;\"]*", _font, text)
    text = re.sub(r' transform="rotate\(-0 [^"]*"|<g/>', "", text)
    # Inside tags only: the words of a figure keep their digits.
    text = re.sub(r"<[^>]*>", lambda tag: _compact(tag[0]), text)
    for name, colour in PALETTE.items():
        text = text.replace(colour, f"var(--{name})")
    return re.sub(r"\s*\n\s*", "\n", text).strip()


def sized(figure: Figure, label: str, salt: str) -> Markup:
    """The same, no wider than it was drawn: a single panel must not fill a page."""
    from markupsafe import Markup

    width = f"{100 * figure.get_figwidth():.0f}px"
    style = f'style="max-width: {width}; min-width: min(760px, {width})"'
    return Markup(inline(figure, label, salt).replace("<svg", f"<svg {style}", 1))


def _font(hit: re.Match[str]) -> str:
    return f"font-size: {hit[2]}" + (f"; font-weight: {hit[1]}" if hit[1] else "")


def _compact(tag: str) -> str:
    """Coordinates to a hundredth of a point, dots to a tenth: there are hundreds of them."""
    tag = re.sub(r"M (\S+) (\S+) \s*L (\S+) (\S+) \s*", _dot, tag)
    return re.sub(r"-?\d+\.\d{3,}", lambda hit: _rounded(hit[0], 2), tag)


def _dot(hit: re.Match[str]) -> str:
    x, y, to_x, to_y = hit.groups()
    tiny = y == to_y and abs(float(x) - float(to_x)) < 0.05
    return f"M{_rounded(x, 1)} {_rounded(y, 1)}h0" if tiny else hit[0]


def _rounded(text: str, places: int) -> str:
    return f"{float(text):.{places}f}".rstrip("0").rstrip(".")
