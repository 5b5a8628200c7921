"""A result as a page and in a notebook: no network, no script, no fonts to fetch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import Any

from identikit._text import fit_for_page, plain
from identikit._version import __version__
from identikit.report._shown import Shown, shown
from identikit.report._svg import sized
from identikit.report.numbers import ABSENT, number, shorten, shortened, small

FIGURE_LABEL = "A figure of this result; its numbers are in the tables beside it."
#: Rows of a table in a notebook.
MOST = 12


def html(result: object, story: Sequence[str] = ()) -> str:
    """Render a result as one HTML page.

    Parameters
    ----------
    result : Result
        What to show.
    story : sequence of str
        A headline and paragraphs to open with; the result's own sentences then come last.
    """
    return page(shown(result), story)


def page(found: Shown, story: Sequence[str] = ()) -> str:
    """The same of what is shown of a result.

    Parameters
    ----------
    found : Shown
        What to show.
    story : sequence of str
        As of `html`.
    """
    headline, *opening = story or [found.headline or found.title, *found.opening]
    values = {"sentence": plain(found.says)} | found.values()
    return render(
        found.template,
        found.names,
        version=found.version or __version__,
        found=found,
        headline=headline,
        opening=opening,
        tone="" if story else found.tone,
        svg=partial(_drawn, found),
        **values,
    )


def notebook(result: object) -> str:
    """A fragment of HTML that brings its own style, for light and for dark screens.

    Parameters
    ----------
    result : Result
        What to show.
    """
    found = shown(result)
    table = found.tables[0]
    more = len(table.rows) - MOST
    left_out = [f"{more} more rows are not shown here."] if more > 0 else []
    remark = found.remark or " ".join(_sentence(text) for text, _ in found.warnings if text)
    return render(
        "notebook.html.j2",
        [name for names in table.names for name in names],
        found=found,
        table=table,
        most=MOST,
        note=" ".join(filter(None, [remark, *left_out])),
        svg=_drawn(found),
    )


def _drawn(found: Shown) -> Any:
    """The figure as inline SVG, or None."""
    figure = found.figure()
    return None if figure is None else sized(figure, FIGURE_LABEL, plain(found.says))


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def render(template: str, names: Iterable[str] = (), **values: Any) -> str:
    """Fill a template of this folder; every value is escaped.

    Parameters
    ----------
    template : str
        Its file name.
    names : iterable of str
        What is compared: shown short, these differ.
    **values
        What it shows; the page itself shows `headline` and `version`.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("identikit", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    short = cache(partial(shortened, tuple(names)))
    environment.filters |= {"number": number, "plain": plain, "small": small}
    environment.filters["shorten"] = lambda text, width: (
        short(width).get(text) or shorten(text, width)
    )
    text = environment.get_template(template).render(absent=ABSENT, **values)
    # Names may hold bytes that are no text, in figures too: no reason not to write the page.
    return fit_for_page(text)
