"""A study's result as one page, as files of its figure, and as a table in a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from identikit._files import replacing, write_text
from identikit._text import plain
from identikit.report._notebook import Shown
from identikit.report._numbers import ABSENT
from identikit.report._page import render
from identikit.report._style import STYLE
from identikit.report._svg import sized
from identikit.studies._study import INCONCLUSIVE, NOT, REPRODUCED, UNMEASURED, Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from identikit.studies._run import Result

# Rows of a table on the page; the files have them all.
MAX_ROWS = 12
FIGURE_LABEL = "The figure of this study; its numbers are in the tables of this page."
STYLES = {REPRODUCED: "green", NOT: "red", INCONCLUSIVE: "yellow", UNMEASURED: "dim"}
# The page names a tone after each of the audit's three standings; a verdict borrows one.
TONES = {
    REPRODUCED: "within-tolerance",
    NOT: "unrelated",
    INCONCLUSIVE: "above-tolerance",
    UNMEASURED: "above-tolerance",
}
#: What else may become of a claim, the worst first.
REST = (NOT, INCONCLUSIVE, UNMEASURED)


def number(value: float, interval: Interval | None = None) -> str:
    """A value with the digits that its interval supports, from two to five; three without one.

    >>> number(1.31722, (1.3169, 1.3175)), number(0.000104), number(2071, (1830, 2312))
    ('1.3172', '0.000104', '2,100')
    """
    if interval is None:
        return f"{value:.3g}"
    half, size = (interval[1] - interval[0]) / 2, max(map(abs, interval))
    # Down to the first digit of the half-width.
    digits = 5 if half <= 0 else 1 + math.floor(math.log10(size)) - math.floor(math.log10(half))
    text = f"{value:#.{min(max(digits, 2), 5)}g}".removesuffix(".")
    return f"{float(text):,.0f}" if "e+" in text else text


def measured(claim: Mapping[str, Any]) -> tuple[str, str]:
    """What was measured of a claim, and its interval, as text."""
    value, interval = claim["value"], claim["interval"]
    if value is None:
        return ABSENT, ""
    ends = "" if interval is None else " to ".join(number(end, interval) for end in interval)
    return number(value, interval), ends


def headline(document: Mapping[str, Any]) -> str:
    """How many claims were reproduced, and what became of the others."""
    verdicts = [claim["verdict"] for claim in document["claims"]]
    counts = {verdict: verdicts.count(verdict) for verdict in STYLES}
    head = f"{counts[REPRODUCED]} of {len(verdicts)} claims reproduced"
    rest = [f"{counts[verdict]} {verdict}" for verdict in REST if counts[verdict]]
    return ", ".join([head, *rest])


def write_report(result: Result, figure: Figure) -> None:
    """Write the figure as SVG and PNG, and the page.

    Parameters
    ----------
    result : Result
        What was found.
    figure : Figure
        What the study drew.
    """
    from matplotlib import style

    metadata: Any = {"Date": None}
    with style.context(["default", STYLE, {"svg.hashsalt": "identikit"}]):
        with replacing(result.folder / "figure.svg") as temporary:
            figure.savefig(temporary, format="svg", metadata=metadata)
        with replacing(result.folder / "figure.png") as temporary:
            figure.savefig(temporary, format="png", dpi=160)
    write_text(result.folder / "report.html", html(result, figure))


def html(result: Result, figure: Figure) -> str:
    """The page of a study.

    Parameters
    ----------
    result : Result
        What was found.
    figure : Figure
        What the study drew.
    """
    document = result.document
    verdicts = {claim["verdict"] for claim in document["claims"]}
    worst = next((each for each in REST if each in verdicts), REPRODUCED)
    return render(
        "study.html.j2",
        version=result.version,
        study=document,
        headline=headline(document),
        tone=TONES[worst],
        claims=[
            {**claim, "tone": TONES[claim["verdict"]], "measured": measured(claim)}
            for claim in document["claims"]
        ],
        svg=sized(figure, FIGURE_LABEL, "identikit"),
        tables=[_table(name, table) for name, table in result.tables.items()],
        duration=duration(document["units"]["seconds"]),
    )


def shown(result: Result) -> Shown:
    """What a notebook shows: how it went, every claim, and the figure."""
    document = result.document
    return Shown(
        document["title"],
        f"{document['title']}: {headline(document)}. {document['paper']}",
        ["claim", "published", "measured", "95 %", "verdict"],
        [
            [claim["says"], str(claim["published"]), *measured(claim), claim["verdict"]]
            for claim in document["claims"]
        ],
        5,
        result.figure,
    )


def _table(name: str, table: Any) -> dict[str, Any]:
    """The first rows of a table as text, and which columns hold numbers."""
    numeric = [kind.kind in "iuf" for kind in table.dtypes]
    rows = [[_cell(value) for value in row] for row in table.head(MAX_ROWS).itertuples(index=False)]
    return {
        "name": name,
        "columns": list(zip(map(str, table.columns), numeric)),
        "rows": rows,
        "length": len(table),
    }


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ABSENT
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(12.3), duration(150), duration(8000)
    ('12 s', '2.5 min', '2.2 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def print_study(result: Result, console: Console) -> None:
    """Print the title, how it went, and a table of claims with what was found of each.

    Parameters
    ----------
    result : Result
        What was found.
    console : rich.console.Console
        Where to print.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    document = result.document
    console.print(Text(f"{plain(document['title'])}: {headline(document)}", style="bold"))
    console.print(Text(plain(document["paper"]), style="dim"))
    console.print()
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0), leading=1
    )
    for title in ("claim", "published", "measured", "verdict"):
        table.add_column(title, ratio=1 if title == "claim" else None)
    for claim in document["claims"]:
        value, ends = measured(claim)
        comment = claim["comment"] and f"\n{plain(claim['comment'])}"
        table.add_row(
            Text(plain(claim["says"])).append(comment, style="dim"),
            Text(plain(str(claim["published"]))).append(f"\n{plain(claim['source'])}", style="dim"),
            Text(value).append(f"\n{ends}", style="dim"),
            Text(claim["verdict"], style=STYLES[claim["verdict"]]),
        )
    console.print(table)
    console.print()
    console.print(Text("Below a measured value: its 95 % interval over seeds.", style="dim"))
