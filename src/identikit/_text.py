"""Foreign strings made safe to show: names, paths and messages that others have written.

A terminal obeys escape sequences, a log believes a line break, and a reader trusts the direction of
the text. None of these is left in what is shown; what is stored keeps every character.
"""

from __future__ import annotations

import re

#: What does not belong in a page: control characters but for tabs and line breaks, halves of
#: characters, and marks that change the direction of text (isolates, which end by themselves,
#: are how a page keeps a name's direction to itself).
_UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u202a-\u202e\u2066\u2067\ud800-\udfff]"
)


def plain(text: object) -> str:
    """One line of printable text: no line breaks, escape sequences or direction overrides.

    >>> plain("seed\\x1b[31m0\\n")
    'seed [31m0 '
    """
    return "".join(mark if mark.isprintable() else " " for mark in str(text))


def fit_for_page(page: str) -> str:
    """A whole page without what `plain` takes out of one string, but for its own layout."""
    return _UNFIT.sub(" ", page)
