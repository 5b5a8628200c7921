"""Progress: one signature for everything that takes more than a moment."""

from __future__ import annotations

from collections.abc import Callable

#: Called with what is being done ("reading"), how much of it is done, and how much there is in all.
Progress = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """Report to nobody."""


def share(progress: Progress | None, part: int, parts: int) -> Progress | None:
    """The progress of one of several equal parts, told as progress of the whole.

    Parameters
    ----------
    progress : callable, optional
        Who is told about the whole.
    part, parts : int
        Which part this is, from 0, and how many there are.

    Examples
    --------
    >>> second = share(lambda what, done, total: print(what, done, "of", total), 1, 3)
    >>> second("reading", 5, 10)
    reading 15 of 30
    >>> share(None, 1, 3) is None
    True
    """
    if progress is None:
        return None
    return lambda what, done, total: progress(what, part * total + done, parts * total)


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(12.3), duration(150), duration(8000)
    ('12 s', '2.5 min', '2.2 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
