"""What is shown of a result, for a terminal, a notebook and a page; and who says it of which type.

For each type of result one function, registered with `shows`, returns a `Shown`: the question, the
sentences, the tables, the figure, the warnings, how the numbers were made. Everything that renders
results (`terminal.py`, `_page.py`) knows nothing else of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from identikit.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The tones of a page, each from a standing of an audit.
GOOD, DOUBTFUL, BAD = "within-tolerance", "above-tolerance", "unrelated"


@dataclass(frozen=True)
class Table:
    """Names, and what stands beside them.

    Parameters
    ----------
    heads : sequence of str
        Titles of the columns of names.
    names : sequence of sequence of str
        What each row begins with; shortened where there is little room.
    titles : sequence of str
        Of the columns after the names.
    rows : sequence of sequence of str
        The cells after the names.
    words : int
        How many of these columns, the first ones, hold words; the others are flush right.
    styles : sequence of str
        Colours for the terminal, of the first of these cells of each row; none by default.
    spare : sequence of sequence of int
        Columns that a terminal may leave out together, the first first, where names need the room.
    whole : bool
        Whether all of these but the first are also left out if names are whole only without them.
    above, below : str
        What is written over and under the table.
    """

    heads: Sequence[str]
    names: Sequence[Sequence[str]]
    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 0
    styles: Sequence[str] = ()
    spare: Sequence[Sequence[int]] = ()
    whole: bool = False
    above: str = ""
    below: str = ""


@dataclass(frozen=True)
class Shown:
    """What is shown of a result.

    Parameters
    ----------
    verb : str
        What made it, as the command line calls it.
    title : str
        The question that it answers.
    says : str
        The sentences that answer it.
    tables : sequence of Table
        A notebook shows the first rows of the first.
    figure : callable
        Draws the figure; None if there is nothing to draw.
    headline, tone, facts
        The top of a page: the answer in a few words, the colour it has, and some numbers.
    opening : sequence of str
        Paragraphs of a page before the sentences.
    further : sequence of Table
        Those that only a page has room for.
    reading : str
        How to read the figure.
    notes : sequence of str
        How to read the tables.
    warnings : sequence of (str, int)
        Each distinct warning with the number of pairs that have it.
    warnings_are : str
        What they are called, as in "3 more distinct warnings".
    methods : sequence of (str, str)
        How the numbers were made, each with its title.
    remark : str
        What a notebook says below the table; the warnings, if there is none.
    in_terminal : str
        The sentences for a terminal, if they are fewer there.
    names : sequence of str
        What was compared: shown short on a page, these still differ.
    template, values
        Of a page of its own, and a function that gives what this needs besides.
    version : str
        Of the identikit that made the result; this one if it does not say.
    """

    verb: str
    title: str
    says: str
    tables: Sequence[Table]
    figure: Callable[[], Figure | None] = lambda: None
    headline: str = ""
    tone: str = ""
    facts: Sequence[str] = ()
    opening: Sequence[str] = ()
    further: Sequence[Table] = ()
    reading: str = ""
    notes: Sequence[str] = ()
    warnings: Sequence[tuple[str, int]] = ()
    warnings_are: str = "warnings"
    methods: Sequence[tuple[str, str]] = ()
    remark: str = ""
    in_terminal: str = ""
    names: Sequence[str] = ()
    template: str = "result.html.j2"
    values: Callable[[], dict[str, Any]] = dict
    version: str = ""


Shows = Callable[[Any], Shown]
S = TypeVar("S", bound=Shows)

_SHOWS: dict[str, Shows] = {}


def shows(kind: str) -> Callable[[S], S]:
    """Register what is shown of a type of results, by the type's name.

    Parameters
    ----------
    kind : str
        The name of the class, such as "Audit": classes that are slow to import need not be.
    """

    def register(function: S) -> S:
        _SHOWS[kind] = function
        return function

    return register


def shown(result: object) -> Shown:
    """What is shown of a result.

    Parameters
    ----------
    result : Result
        Of a type for which a function is registered.
    """
    kind = type(result).__name__
    if kind not in _SHOWS:
        raise InputError(
            f"nothing says how a {kind} is shown; register a function for it with "
            f"identikit.report.shows({kind!r})"
        )
    return _SHOWS[kind](result)


def shared(messages: Iterable[Sequence[str]]) -> list[tuple[str, int]]:
    """Each distinct message with the number of pairs that have it, the commonest first.

    >>> shared([["few rows", "low rank"], ["low rank"]])
    [('low rank', 2), ('few rows', 1)]
    """
    # A dict, not a set: equal counts keep the order of the checks, in every process.
    return Counter(text for pair in messages for text in dict.fromkeys(pair)).most_common()
