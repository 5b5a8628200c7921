"""Show a study's result: its words, an HTML page, figure files, and a table in the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from identikit._files import replacing, write_text
from identikit._progress import duration
from identikit._text import plain
from identikit.report import BAD, DOUBTFUL, GOOD, Shown, Table, page, sized
from identikit.report.numbers import ABSENT
from identikit.report.style import STYLE
from identikit.studies._study import INCONCLUSIVE, KINDS, NOT, REPRODUCED, UNMEASURED, Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from identikit.studies._run import Result

# Rows of a table that the page shows; the files contain all of them.
MAX_ROWS = 12
FIGURE_LABEL = "The figure of this study; its numbers are in the tables of this page."
# Of a run with the preset "smoke", whose verdicts look like any other's.
SMOKE = "This is a smoke run: it shows that the study runs, and is too small to judge the paper."
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
        [claim["says"], str(claim["published"]), *measured(claim), told(claim)] for claim in claims
    ]
    if len(grouped(document)) > 1:
        titles, rows = ["kind", *titles], [[c["kind"], *row] for c, row in zip(claims, rows)]
    return Shown(
        "study",
        document["title"],
        headline(document),
        [Table((), [()] * len(rows), titles, rows, words=len(titles))],
        result.figure,
        headline(document),
        tone(claims),
        remark=document["paper"],
        template="study.html.j2",
        values=lambda: {
            "study": document,
            "counts": counts(document),
            "over": over(document),
            "caution": caution(document),
            "groups": [(title, [_row(c) for c in some]) for title, some in grouped(document)],
            "drawn": sized(figure or result.figure(), FIGURE_LABEL, "identikit"),
            "tables": [_table(name, table) for name, table in result.tables.items()],
            "duration": duration(document["units"]["seconds"]),
        },
        version=result.version,
    )


def tone(claims: Sequence[Row]) -> str:
    """The tone of the worst verdict on the paper's claims and the checks.

    Controls count only where there is nothing else: some of them are there to be refuted.
    """
    telling = [claim for claim in claims if claim["kind"] != "control"] or claims
    verdicts = {claim["verdict"] for claim in telling}
    return TONES[next((each for each in REST if each in verdicts), REPRODUCED)]


def _row(claim: Row) -> dict[str, Any]:
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
    if said := caution(document):
        console.print(Text(said, style="yellow"))
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
    below = f"Below a measured value: its 95 % interval over {over(document)}."
    console.print(Text(below, style="dim"))


#: The verdicts other than "reproduced", the worst first.
REST = (NOT, INCONCLUSIVE, UNMEASURED)
TITLES = dict(
    zip(KINDS, ("Claims of the paper", "Our own controls", "Checks (identities and bounds)"))
)
# A control or a check was never published, so it holds instead of being reproduced.
HOLDS = {REPRODUCED: "holds", NOT: "does not hold"}

Row = Mapping[str, Any]


def number(value: float, interval: Interval | None = None) -> str:
    """A value with the two to five digits that its interval supports; three without an interval.

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


def measured(claim: Row) -> tuple[str, str]:
    """The measured value of a claim and its interval, as text."""
    value, interval = claim["value"], claim["interval"]
    if value is None:
        return ABSENT, ""
    ends = "" if interval is None else " to ".join(number(end, interval) for end in interval)
    return number(value, interval), ends


def verdict(claim: Row) -> str:
    """The verdict in words: claims of the paper are reproduced or not, all others hold or not."""
    said = str(claim["verdict"])
    return said if claim["kind"] == KINDS[0] else HOLDS.get(said, said)


def would_tell(claim: Row) -> str:
    """How many seeds would decide an inconclusive claim; an empty text for other claims."""
    if claim["seeds"] is None:
        return ""
    return f"about {claim['seeds']:,} {plain(claim['over'])} would tell"


def caution(document: Row) -> str:
    """What to say of a run that is too small to judge by; an empty text for others."""
    return SMOKE if document["preset"] == "smoke" else ""


def over(document: Row) -> str:
    """What the intervals of a study are over."""
    return next((plain(claim["over"]) for claim in document["claims"]), "seeds")


def told(claim: Row) -> str:
    """The verdict and, if it is inconclusive, how many seeds would decide."""
    return ", ".join(filter(None, (verdict(claim), would_tell(claim))))


def grouped(document: Row) -> list[tuple[str, list[Row]]]:
    """The claims by kind with a title each, the paper's first; a single group has no title."""
    groups = [
        (TITLES[kind], [claim for claim in document["claims"] if claim["kind"] == kind])
        for kind in KINDS
    ]
    kept = [group for group in groups if group[1]]
    return kept if kept[1:] else [("", claims) for _, claims in kept]


def headline(document: Row) -> str:
    """How many claims were reproduced, and the verdicts on the others, in one line."""
    return "; ".join(counts(document))


def counts(document: Row) -> list[str]:
    """How many of the paper's claims were reproduced, and how many controls and checks hold.

    If several of the paper's claims were tested, the text also says how many of the reproduced
    ones remain after Holm's correction for the number of tests.
    """
    paper, controls, checks = (
        [claim for claim in document["claims"] if claim["kind"] == kind] for kind in KINDS
    )
    parts = list[str]()
    if paper or not document["claims"]:
        whose = "claims of the paper" if controls or checks else "claims"
        parts += [_counted(paper, f"{whose} reproduced"), *_corrected(paper)]
    for name, own in (("controls", controls), ("checks", checks)):
        if own:
            parts.append(f"{name} {_counted(own, 'hold')}")
    return parts


def _counted(claims: Sequence[Row], done: str) -> str:
    verdicts = [verdict(claim) for claim in claims]
    good = verdicts.count(REPRODUCED) + verdicts.count(HOLDS[REPRODUCED])
    rest = [(verdicts.count(said), said) for said in (*REST, HOLDS[NOT])]
    words = [
        f"{count} {'do not hold' if count > 1 and said == HOLDS[NOT] else said}"
        for count, said in rest
        if count
    ]
    return ", ".join([f"{good} of {len(claims)} {done}", *words])


def _corrected(claims: Sequence[Row]) -> list[str]:
    """How many of the reproduced claims remain after Holm's correction for all that were tested."""
    tested = [claim for claim in claims if claim["p"] is not None]
    kept = [
        good
        for claim, good in zip(tested, holm([claim["p"] for claim in tested]))
        if claim["verdict"] == REPRODUCED
    ]
    if len(tested) < 2 or not kept:
        return []
    # A claim without a p-value, such as that something occurs, cannot be corrected.
    some = len(kept) < sum(claim["verdict"] == REPRODUCED for claim in claims)
    of = f" of {len(kept)} with a p-value" if some else ""
    whole = "it" if len(kept) == 1 else "all"
    count = whole if all(kept) and not some else str(sum(kept) or "none")
    return [f"{count}{of} {'remains' if sum(kept) < 2 else 'remain'} after Holm's correction"]


def holm(p: Sequence[float], level: float = 0.05) -> list[bool]:
    """Which of the hypotheses Holm's step-down procedure rejects (Holm 1979).

    The i-th smallest of m p-values, counted from 0, is compared with level / (m − i) until one is
    larger. The probability of even one false rejection is at most the level, however the tests
    depend on each other.

    >>> holm([0.01, 0.04, 0.03, 0.005])
    [True, False, False, True]
    """
    out = [False] * len(p)
    for i, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if p[place] > level / (len(p) - i):
            break
        out[place] = True
    return out
