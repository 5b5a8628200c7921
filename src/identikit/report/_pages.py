"""Which page shows which result, by its type."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from identikit.report._notebook import shown
from identikit.report._page import render

if TYPE_CHECKING:
    from identikit._result import Result

#: Results with a page of their own; others get their words, table and figure.
_PAGES = {
    "Audit": ("_html", "html"),
    "Disentanglement": ("_disentangle_html", "disentangle_html"),
    "Layers": ("_layers", "layers_html"),
    "ModelsAudit": ("_models_html", "models_html"),
}


def page(result: Result) -> str:
    """Render a result as one HTML page.

    Parameters
    ----------
    result : Result
        What to show.
    """
    from identikit._version import __version__

    kind = type(result).__name__
    if kind in _PAGES:
        module, name = _PAGES[kind]
        text: str = getattr(import_module(f"identikit.report.{module}"), name)(result)
        return text
    found = shown(result)
    return render(
        "result.html.j2",
        version=__version__,
        headline=found.title,
        found=found,
        svg=found.drawn(),
    )
