"""One self-contained page from a template: no network, no script, no fonts to fetch."""

from __future__ import annotations

from typing import Any

from identikit._text import fit_for_page, plain
from identikit.report._numbers import ABSENT, number, shorten, small


def render(template: str, **values: Any) -> str:
    """Fill a template that extends `page.html.j2`; every value is escaped.

    Parameters
    ----------
    template : str
        Its file name.
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
    environment.filters |= {"number": number, "plain": plain, "shorten": shorten, "small": small}
    page = environment.get_template(template).render(absent=ABSENT, **values)
    # Names may hold bytes that are no text, in figures too: no reason not to write the page.
    return fit_for_page(page)
