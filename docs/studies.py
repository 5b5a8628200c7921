"""Write docs/studies.md from the folders of studies that have been run.

python docs/studies.py DIR [DIR ...]

The sections of these studies are written anew, those of others stay as they were.

Every measured number is read from a folder's claims.json. Typed by hand are only the words at the
top, with what the processors spent on runs whose own times mean little.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from identikit.studies import Result, load
from identikit.studies._report import duration, grouped, headline, measured, told

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
Where it is inconclusive, the number of seeds that would tell is estimated from the spread of those
that there are. Controls of our own, and checks of what must hold anyway, stand apart and *hold* or
not. Holm's correction is for the number of the paper's claims in a study: what remains after it is
reproduced at 5 % for all of them together.
What counts is said with each claim. This page is written by `python docs/studies.py` from the
folders of the runs; a study that is not on it has not been run at this scale yet. Times are the sum
of what the units took, and those of the nelson and reizinger studies say little: the machine was
doing other work and stopped them at times. The processors' time of nelson-mnist, -pairs,
-disentangle and -batches was about 4, 8, 24 and 7 minutes, half of that on two cores.
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
    lines += ["", f"**{headline(document)}**"]
    for title, claims in grouped(document):
        lines += ["", f"### {title}"] if title else []
        lines += ["", "| claim | published | measured (95 %) | verdict |", "|---|---|---|---|"]
        for claim in claims:
            says = f"{claim['says']} *{claim['comment']}*" if claim["comment"] else claim["says"]
            published = f"{claim['published']}, {claim['source']}"
            row = (says, published, with_interval(claim), told(claim))
            lines.append(f"| {' | '.join(map(cell, row))} |")
    return "\n".join(lines)


def command(document: dict[str, Any]) -> str:
    """The command line of a run, without the folder it happened to be written to."""
    return str(document["command"]).rsplit(" -o ", 1)[0]


def sections(page: str) -> dict[str, str]:
    """The studies' sections of a page, by name."""
    parts = re.split(r"^(?=## )", page, flags=re.M)[1:]
    return {part[3:].splitlines()[0]: part.rstrip() for part in parts}


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+")
    results = [load(folder) for folder in parser.parse_args().folders]
    page = Path(__file__).with_name("studies.md")
    kept = sections(page.read_text(encoding="utf-8"))
    kept |= {result.document["study"]: section(result) for result in results}
    page.write_text("\n\n".join([TOP.rstrip(), *kept.values()]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
