"""A result made readable: one sentence, a terminal table, one HTML page, figures.

Numbers are computed elsewhere. Matplotlib, jinja2 and rich are imported by the functions that draw.
"""

from identikit.report import plots
from identikit.report._html import html
from identikit.report._table import print_audit, table
from identikit.report._words import sentence

__all__ = [
    "html",
    "plots",
    "print_audit",
    "sentence",
    "table",
]
