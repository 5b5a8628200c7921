"""A result made readable: sentences, a terminal's tables, one HTML page, a notebook, figures.

Numbers are computed elsewhere. What is shown of a type of results is registered with `shows`, in
one file a kind; Matplotlib, jinja2 and rich are imported by the functions that draw.
"""

from identikit._plugins import modules
from identikit.report import plots
from identikit.report._page import html, notebook, page
from identikit.report._shown import BAD, DOUBTFUL, GOOD, Shown, Table, shown, shows
from identikit.report._svg import inline, sized
from identikit.report.terminal import print_result
from identikit.report.words.audit import summary as sentence

__all__ = [
    "BAD",
    "DOUBTFUL",
    "GOOD",
    "Shown",
    "Table",
    "html",
    "inline",
    "notebook",
    "page",
    "plots",
    "print_result",
    "sentence",
    "shown",
    "shows",
    "sized",
]

# Each file says what is shown of a kind of results, and a new one is found by itself.
modules(__name__)
