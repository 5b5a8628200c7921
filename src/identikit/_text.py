"""Foreign strings made safe to show: names, paths and messages that others have written.

A terminal obeys escape sequences, a log believes a line break, and a reader trusts the direction of
the text. None of these is left in what is shown; what is stored keeps every character.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

#: What does not belong in a page: control characters but for tabs and line breaks, halves of
#: characters, and marks that change the direction of text (isolates, which end by themselves,
#: are how a page keeps a name's direction to itself).
_UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u202a-\u202e\u2066\u2067\ud800-\udfff]"
)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_BETWEEN = re.compile(r"[\W_]+")


def plain(text: object) -> str:
    """One line of printable text: no line breaks, escape sequences or direction overrides.

    >>> plain("seed\\x1b[31m0\\n")
    'seed [31m0 '
    """
    return "".join(mark if mark.isprintable() else " " for mark in str(text))


def fit_for_page(page: str) -> str:
    """A whole page without what `plain` takes out of one string, but for its own layout."""
    return _UNFIT.sub(" ", page)


def shorten(text: str, width: int) -> str:
    """`plain` text of at most `width` characters, with the middle left out.

    A number is kept whole or left out; text that is nothing but one is kept, however long.

    >>> shorten("layer12_seed0_checkpoint", 11), shorten("seed_2024_of_model", 10)
    ('layer…point', 'seed_…odel')
    """
    text = plain(text)
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    head, end = width - 1 - tail, len(text) - tail
    for digits in _NUMBER.finditer(text):
        if digits.start() < head < digits.end():
            head = digits.start()
        if digits.start() < end < digits.end():
            end = digits.end()
    return f"{text[:head]}…{text[end:]}" if head or end < len(text) else text


def shortened(names: Iterable[str], width: int) -> dict[str, str]:
    """Names, each with how it is shown: with the middle left out, but only as far as all differ.

    Where that makes names equal, the words that they begin or end with are left out instead; where
    that does too, they are longer than `width`.

    >>> shortened(["minilm_rotated", "minilm_permuted", "bert"], 8)
    {'minilm_rotated': '…rotated', 'minilm_permuted': '…per…ted', 'bert': 'bert'}
    >>> list(shortened([f"embeddings_of_run_{seed}_of_the_model" for seed in (1, 12)], 13).values())
    ['…of_run_1…', '…of_run_12…']
    """
    whole = {name: plain(name) for name in names}
    distinct, longest = len(set(whole.values())), max(map(len, whole.values()), default=0)
    for room in range(width, longest):
        long = [text for text in whole.values() if len(text) > room]
        tail = max(_common([text[::-1] for text in long]))
        rest = max(map(len, long)) - tail + 2
        heads = _common(long)
        head = next((start for start in heads if rest - start <= room), heads[-1])
        for cut in ((0, 0), (head, tail)):
            shown = {name: _without(text, room, *cut) for name, text in whole.items()}
            if len(set(shown.values())) == distinct:
                return _as_short(shown, width)
    return _as_short(whole, width)


def _as_short(shown: dict[str, str], width: int) -> dict[str, str]:
    """The same, with those names shorter that need not be so long for the sake of others."""
    taken = set(shown.values())
    for name, text in shown.items():
        if len(text) > width and (short := shorten(name, width)) not in taken:
            shown[name] = short
            taken.add(short)
    return shown


def _common(texts: Sequence[str]) -> list[int]:
    """Where words begin in what all texts begin with."""
    same = next((n for n, marks in enumerate(zip(*texts)) if len(set(marks)) > 1), 0)
    return [0, *(mark.end() for mark in _BETWEEN.finditer(texts[0], 0, same))]


def _without(text: str, room: int, head: int, tail: int) -> str:
    """Text that is too long, without its first and last characters and then without its middle."""
    if len(text) <= room:
        return text
    before, after = "…" if head else "", "…" if tail else ""
    rest = text[head : len(text) - tail]
    return before + shorten(rest, max(3, room - len(before) - len(after))) + after


def brief(value: float) -> str:
    """A number of two digits, for sentences; what is below a millionth is rounding.

    >>> brief(0.0321), brief(1.04e-4), brief(35.2), brief(3e-15), brief(float("inf"))
    ('0.032', '0.0001', '35', '<1e-06', 'infinite')
    """
    if math.isinf(value):
        return "infinite"
    if value < 1e-6:
        return "<1e-06"
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
