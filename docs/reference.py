"""Write docs/reference.md: what is measured, asked, read and studied, from the code itself.

python docs/reference.py [--to FILE]

A new measure, rung, check, metric, format or study is in it after the next run.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterable
from pathlib import Path

from identikit._plugins import modules
from identikit.alignment import RUNGS
from identikit.factors import listed
from identikit.similarity import MEASURES
from identikit.sources.registry import FOLDER, frame_readers, id_readers, openers
from identikit.studies import studies

TOP = """# What there is

Measures, rungs, checks, metrics, formats and studies, each with what it says of itself. This page
is written by `python docs/reference.py`.
"""


def table(title: str, words: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A section with a sentence and a table."""
    head = list(head)
    lines = [f"## {title}", "", words, "", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines)


def first_line(thing: object) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(thing) or "").splitlines()[0]


def threshold(check: object) -> str:
    """The threshold of a check, if it has one of its own."""
    value = inspect.signature(check).parameters["threshold"].default  # type: ignore[arg-type]
    return "by the data" if value is None else f"{value:g}"


def page() -> str:
    """The whole page."""
    checks = modules("identikit.auditing.checks")
    parts = [
        table(
            "Measures",
            "`ik.NAME(X, Y)` or `ik.NAME(moments, i, j)`; all are in every audit.",
            ["measure", "what it is", "unchanged by", "paper"],
            (
                [f"`{name}`", first_line(m.function), f"{m.invariant_to} maps", m.reference]
                for name, m in MEASURES.items()
            ),
        ),
        table(
            "Rungs",
            "Groups of maps, from strict to loose: two views are the same …",
            ["rung", "the same", "what that means"],
            ([f"`{name}`", rung.up_to, rung.meaning] for name, rung in RUNGS.items()),
        ),
        table(
            "Checks of an audit",
            '`ik.audit(views, checks={"NAME": threshold})` sets another threshold.',
            ["check", "question", "what it looks at", "threshold"],
            (
                [f"`{n}`", first_line(m), first_line(m.check), threshold(m.check)]
                for n, m in checks.items()
            ),
        ),
        table(
            "Metrics of codes against factors",
            "`ik.factors.NAME(codes, factors)`, or all by `ik.disentangle(codes, factors)`.",
            ["metric", "question", "unchanged by", "paper"],
            ([f"`{m.name}`", m.question, m.invariant_to, m.reference] for m in listed()),
        ),
        table(
            "Formats",
            "What a view may be read from; ids and labels by column or array, factors from tables.",
            ["suffix", "ids and labels", "tables of factors"],
            (
                [f"`{kind}`", *("yes" if kind in some else "" for some in (ids, frames))]
                for ids, frames in [(id_readers(), frame_readers())]
                for kind in openers()
                if kind != FOLDER
            ),
        ),
        table(
            "Studies",
            "`identikit study run NAME`; results in `docs/studies.md`.",
            ["study", "title", "paper"],
            ([f"`{name}`", each.title, each.paper] for name, each in studies().items()),
        ),
    ]
    return "\n\n".join([TOP.rstrip(), *parts]) + "\n"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=Path(__file__).with_name("reference.md"))
    parser.parse_args().to.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
