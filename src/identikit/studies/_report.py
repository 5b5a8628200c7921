"""Show a study's result as an HTML page, as figure files, and as a table in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from identikit._files import replacing, write_text
from identikit._text import plain
from identikit.report import BAD, DOUBTFUL, GOOD, Shown, Table, page, sized
from identikit.report.numbers import ABSENT
from identikit.report.style import STYLE
from identikit.studies import _words as words
from identikit.studies._study import INCONCLUSIVE, NOT, REPRODUCED, UNMEASURED
from identikit.studies._words import Row, grouped, headline, measured, verdict, would_tell

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from identikit.studies._run import Result

# Rows of a table that the page shows; the files contain all of them.
MAX_ROWS = 12
FIGURE_LABEL = "The figure of this study; its numbers are in the tables of this page."
STYLES = {REPRODUCED: "green", NOT: "red", INCONCLUSIVE: "yellow", UNMEASURED: "dim"}
TONES = {REPRODUCED: GOOD, NOT: BAD, INCONCLUSIVE: DOUBTFUL, UNMEASURED: DOUBTFUL}


def write_report(result: Result, figure: Figure) -> None:
    """Write the figure as SVG and PNG, and the page."""
    from matplotlib import style

    metadata: Any = {"Date": None}
    with style.context(["default", STYLE, {"svg.hashsalt": "identikit"}]):
        with replacing(result.folder / "figure.svg") as temporary:
            figure.savefig(temporary, format="svg", metadata=metadata)
        with replacing(result.folder / "figure.png") as temporary:
            figure.savefig(temporary, format="png", dpi=160)
    write_text(result.folder / "report.html", page(shown(result, figure)))


def shown(result: Result, figure: Figure | None = None) -> Shown:
    """The headline, every claim with its finding, and the figure, which is drawn if not given."""
    document = result.document
    claims = [claim for _, group in grouped(document) for claim in group]
    titles = ["claim", "published", "measured", "95 %", "verdict"]
    rows = [
        [claim["says"], str(claim["published"]), *measured(claim), words.told(claim)]
        for claim in claims
    ]
    if len(grouped(document)) > 1:
        titles, rows = ["kind", *titles], [[c["kind"], *row] for c, row in zip(claims, rows)]
    verdicts = {claim["verdict"] for claim in claims}
    worst = next((each for each in words.REST if each in verdicts), REPRODUCED)
    return Shown(
        "study",
        document["title"],
        headline(document),
        [Table((), [()] * len(rows), titles, rows, words=len(titles))],
        result.figure,
        headline(document),
        TONES[worst],
        remark=document["paper"],
        template="study.html.j2",
        values=lambda: {
            "study": document,
            "counts": words.counts(document),
            "groups": [(title, [_row(c) for c in some]) for title, some in grouped(document)],
            "drawn": sized(figure or result.figure(), FIGURE_LABEL, "identikit"),
            "tables": [_table(name, table) for name, table in result.tables.items()],
            "duration": words.duration(document["units"]["seconds"]),
        },
        version=result.version,
    )


def _row(claim: Row) -> dict[str, Any]:
    """A claim as the page shows it."""
    shown = {"tone": TONES[claim["verdict"]], "measured": measured(claim)}
    return {**claim, **shown, "verdict": verdict(claim), "would_tell": would_tell(claim)}


def _table(name: str, table: Any) -> dict[str, Any]:
    """The first rows of a table as text, and which columns hold numbers."""
    numeric = [kind.kind in "iuf" for kind in table.dtypes]
    rows = [[_cell(value) for value in row] for row in table.head(MAX_ROWS).itertuples(index=False)]
    columns = list(zip(map(str, table.columns), numeric))
    return {"name": name, "columns": columns, "rows": rows, "length": len(table)}


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ABSENT
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def print_study(result: Result, console: Console) -> None:
    """Print the title, the headline, and a table of the claims with their findings."""
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
        # A long word, such as a path, is wrapped and never cut off.
        table.add_column(title, ratio=1 if title == "claim" else None, overflow="fold")
    for title, claims in grouped(document):
        if title:
            table.add_row(Text(title, style="bold"))
        for claim in claims:
            value, ends = measured(claim)
            comment = claim["comment"] and f"\n{plain(claim['comment'])}"
            source = f"\n{plain(claim['source'])}"
            table.add_row(
                Text(plain(claim["says"])).append(comment, style="dim"),
                Text(plain(str(claim["published"]))).append(source, style="dim"),
                Text(value).append(f"\n{ends}", style="dim"),
                Text(verdict(claim), style=STYLES[claim["verdict"]]).append(
                    f"\n{would_tell(claim)}", style="dim"
                ),
            )
    console.print(table)
    console.print()
    console.print(Text("Below a measured value: its 95 % interval over seeds.", style="dim"))
