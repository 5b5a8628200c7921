"""Write docs/studies.md from the folders of studies that have been run.

python docs/studies.py DIR [DIR ...]

Every measured number is read from a folder's claims.json. Typed by hand are only the words at the
top, with what the processors spent on runs whose own times mean little.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from identikit.studies import Result, load
from identikit.studies._report import duration, headline, measured

TOP = """# What the studies measured

A study is an experiment of a paper that anyone can run, stop, resume and check:

```
identikit study list
identikit study run roeder-classification --preset smoke     # a minute, to see it run
identikit study run roeder-classification --preset laptop    # what this page shows
identikit study show roeder-classification-laptop
```

`laptop` ends in under 20 minutes on two cores and `paper` has the paper's settings. Each claim
stands beside what was measured here, with its 95 % interval over seeds, and a verdict: *reproduced*
if the interval lies within what the claim allows, *not reproduced* if it lies outside,
*inconclusive at this scale* if neither, *not measured* if what the claim is about was left out.
What counts is said with each claim. This page is written by `python docs/studies.py` from the
folders of the runs; a study that is not on it has not been run at this scale yet. Times are the sum
of what the units took, and those of nelson-mnist, -pairs, -disentangle and -batches say little: the
machine was doing other work and stopped them at times. Their processors' time was about 4, 8, 24
and 7 minutes, half of that on two cores.
"""


def cell(text: str) -> str:
    """Text that cannot break a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def with_interval(claim: dict[str, Any]) -> str:
    """A value with its interval, as the study's own page prints them."""
    value, ends = measured(claim)
    return f"{value} ({ends})" if ends else value


def section(result: Result) -> str:
    """One study: its command, its settings, its claims."""
    document = result.document
    lines = [f"## {document['study']}", "", f"{document['title']}. {document['paper']}.", ""]
    lines += [document["about"], "", "```", command(document), "```", ""]
    lines.append("Settings: " + ", ".join(f"{k} = {v}" for k, v in document["settings"].items()))
    units = document["units"]
    lines[-1] += f". {units['count']} units of work, {duration(units['seconds'])} in all."
    lines += [
        "",
        f"**{headline(document)}**",
        "",
        "| claim | published | measured (95 %) | verdict |",
        "|---|---|---|---|",
    ]
    for claim in document["claims"]:
        says = f"{claim['says']} *{claim['comment']}*" if claim["comment"] else claim["says"]
        row = (
            says,
            f"{claim['published']}, {claim['source']}",
            with_interval(claim),
            claim["verdict"],
        )
        lines.append(f"| {' | '.join(map(cell, row))} |")
    return "\n".join(lines)


def command(document: dict[str, Any]) -> str:
    """The command line of a run, without the folder it happened to be written to."""
    return str(document["command"]).rsplit(" -o ", 1)[0]


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+")
    results = [load(folder) for folder in parser.parse_args().folders]
    page = Path(__file__).with_name("studies.md")
    page.write_text("\n\n".join([TOP.rstrip(), *map(section, results)]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
