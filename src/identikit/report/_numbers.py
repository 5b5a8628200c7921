"""Numbers and names as text: the digits that the interval supports, names that fit."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence

from identikit._text import plain
from identikit.auditing._result import Interval

ABSENT = "–"
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_BETWEEN = re.compile(r"[\W_]+")
# Below this an error is rounding, and its digits are noise whatever the interval says.
SMALLEST = 1e-4


def decimals(interval: Interval) -> int:
    """Decimals down to the first digit of the interval's half-width, between 2 and 4.

    >>> decimals((0.076, 0.089)), decimals((0.1, 0.7)), decimals((0.5, 0.5))
    (3, 2, 4)
    """
    half = (interval[1] - interval[0]) / 2
    return 4 if half <= SMALLEST else max(2, min(4, -math.floor(math.log10(half))))


def number(value: float | None, places: int = 3) -> str:
    """A value with fixed decimals; a dash if it is absent.

    >>> number(0.9534), number(None), number(0.00001), number(-0.00001), number(12345.6), number(7)
    ('0.953', '–', '<0.001', '0.000', '1.23e+04', '7')
    """
    if value is None:
        return ABSENT
    if isinstance(value, int):
        return str(value)
    if abs(value) >= 1000:
        return f"{value:.3g}"
    if 0 < value < 0.5 * 10**-places:
        return f"<{10**-places:.{places}f}"
    return f"{value:.{places}f}".replace(f"-{0:.{places}f}", f"{0:.{places}f}")


def small(value: float | None) -> str:
    """A distance with three digits, whatever its size.

    >>> small(0.03214), small(1.04e-4), small(3e-15), small(None), small(float("inf"))
    ('0.0321', '0.000104', '<1e-06', '–', '∞')
    """
    if value is None:
        return ABSENT
    if value == float("inf"):
        return "∞"
    return f"{value:.3g}" if value >= 1e-6 else "<1e-06"


def with_interval(value: float, interval: Interval) -> tuple[str, str, str]:
    """A value and the ends of its interval, all with the digits that the interval supports.

    >>> with_interval(0.0823, (0.0761, 0.0894))
    ('0.082', '0.076', '0.089')
    """
    places = decimals(interval)
    return number(value, places), number(interval[0], places), number(interval[1], places)


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


def isolated(names: Iterable[str]) -> Callable[[str], str]:
    """Names between Unicode isolates, so that right-to-left script does not reorder the rest."""
    shown = shortened(names, 60)
    return lambda name: f"\u2068{shown[name]}\u2069"
