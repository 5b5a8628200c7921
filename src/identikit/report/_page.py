"""One self-contained page from a template: no network, no script, no fonts to fetch."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial
from typing import Any

from identikit._text import fit_for_page, plain
from identikit.report.numbers import ABSENT, number, shorten, shortened, small


def render(template: str, names: Iterable[str] = (), **values: Any) -> str:
    """Fill a template that extends `page.html.j2`; every value is escaped.

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
    page = environment.get_template(template).render(absent=ABSENT, **values)
    # Names may hold bytes that are no text, in figures too: no reason not to write the page.
    return fit_for_page(page)
