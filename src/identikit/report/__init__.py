"""A result made readable: one sentence, a terminal table, one HTML page, figures.

Numbers are computed elsewhere. Matplotlib, jinja2 and rich are imported by the functions that draw.
"""

from identikit.report._html import html
from identikit.report._table import print_audit, table
from identikit.report._words import sentence
from identikit.report.plots import ladder_figure, pair_figure, scatter_figure, spectrum_figure

__all__ = [
    "html",
    "ladder_figure",
    "pair_figure",
    "print_audit",
    "scatter_figure",
    "sentence",
    "spectrum_figure",
    "table",
]
