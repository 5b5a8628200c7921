"""Numbers and names as text: the digits that the interval supports, names that fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

# Others look for them here, where all text of reports comes from.
from identikit._text import shorten as shorten
from identikit._text import shortened as shortened

Interval = tuple[float, float]

ABSENT = "–"
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


def spread(value: float, interval: Interval) -> str:
    """A value with its interval, unless that is rounding.

    >>> spread(0.0823, (0.0761, 0.0894)), spread(1e-9, (0.0, 2e-9))
    ('0.082 (0.076–0.089)', '<0.0001')
    """
    text, low, high = with_interval(value, interval)
    return text if text == high else f"{text} ({low}–{high})"


def percent(share: float) -> str:
    """A share of the variance in percent, with a decimal where that tells it from 100.

    >>> percent(0.9471), percent(0.9933), percent(0.99999), percent(1.0), percent(0.004)
    ('95 %', '99.3 %', '>99.9 %', '100 %', '<1 %')
    """
    if 0 < share < 0.005:
        return "<1 %"
    if 0.9995 <= share < 1:
        return ">99.9 %"
    return f"{100 * share:.{1 if 0.985 < share < 1 else 0}f} %"


def percents(low: float, high: float) -> str:
    """A range of shares of the variance in percent.

    >>> percents(0.9159, 0.9471), percents(0.946, 0.9471)
    ('92 to 95 %', '95 %')
    """
    ends = percent(low), percent(high)
    return ends[0] if ends[0] == ends[1] else f"{ends[0].removesuffix(' %')} to {ends[1]}"


def isolated(names: Iterable[str]) -> Callable[[str], str]:
    """Names between Unicode isolates, so that right-to-left script does not reorder the rest."""
    shown = shortened(names, 60)
    return lambda name: f"\u2068{shown[name]}\u2069"
