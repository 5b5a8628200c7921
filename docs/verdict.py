"""Write the table of docs/verdict.md: planted rungs over spectra, noises, widths and rows.

    python docs/verdict.py [--widths 3,8,30,64,100] [--rows 1000,4000,20000] [--seeds 1]

The pairs are those of tests/planted.py. Takes about half an hour on two cores.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

import identikit as ik
from identikit.alignment import RUNGS, ladder
from identikit.auditing import choose_rung
from planted import LEVELS, NOISES, cells, planted

PAGE = Path(__file__).with_name("verdict.md")
#: Draws before this one were looked at while the rule was made.
FIRST = 5000
START, END = "<!-- table -->\n", "<!-- end of the table -->\n"

#: What was planted, whether it was named, and whether it was among those named.
Hit = tuple[dict[str, object], bool, bool]


def judged(n: int, d: int, spectrum: str, kind: str, level: float, seeds: int) -> list[Hit]:
    """Plant every rung, and ask for the verdict."""
    hits: list[Hit] = []
    with threadpool_limits(1):
        for group in RUNGS:
            for seed in range(FIRST, FIRST + seeds):
                X, Y = planted(group, spectrum, kind, level, n, d, seed)
                moments = ik.accumulate([X, Y], sample=0)
                answer = choose_rung(moments, 0, 1, ladder(moments))
                of: dict[str, object] = {"n": n, "d": d, "spectrum": spectrum, "kind": kind}
                of |= {"level": level, "group": group}
                hits.append((of, answer.group == group, group in answer.candidates))
    return hits


def share(hits: list[Hit]) -> str:
    """Per cent named, and per cent among those named."""
    named, among = (100 * sum(hit[k] for hit in hits) / len(hits) for k in (1, 2))
    return f"{named:.1f} / {among:.1f}"


def table(
    hits: list[Hit], row: str, column: str, columns: tuple[object, ...], head: Callable[..., str]
) -> list[str]:
    """A table of shares, by two of the things that were planted."""
    lines = [f"\n| {row} | " + " | ".join(map(head, columns)) + " |\n"]
    lines.append("|---|" + "---|" * len(columns) + "\n")
    for value in dict.fromkeys(hit[0][row] for hit in hits):
        own = [hit for hit in hits if hit[0][row] == value]
        shares = [share([hit for hit in own if hit[0][column] == one]) for one in columns]
        lines.append(f"| {value} | " + " | ".join(shares) + " |\n")
    return lines


def main() -> None:
    """Plant, judge, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", default="3,8,30,64,100")
    parser.add_argument("--rows", default="1000,4000,20000")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    rows, widths = ([int(x) for x in o.split(",")] for o in (options.rows, options.widths))
    hits: list[Hit] = []
    for n in rows:
        for d in widths:
            found = Parallel(n_jobs=2)(
                delayed(judged)(n, d, *cell, options.seeds) for cell in cells()
            )
            hits += [hit for some in found for hit in some]
            print(f"n = {n}, d = {d}: {share(hits)} % so far", file=sys.stderr, flush=True)
    named, among = share(hits).split(" / ")
    lines = [
        f"Of {len(hits):,} pairs {named} % got the planted rung, and for {among} % it was among "
        "those named. Below, both shares in per cent.\n",
        *table(hits, "n", "d", tuple(widths), lambda d: f"d = {d}"),
        *table(hits, "spectrum", "kind", NOISES, str),
        *table(hits, "group", "level", LEVELS, lambda level: f"{level:.0%} noise"),
    ]
    page = PAGE.read_text()
    before, after = page.split(START)[0], page.split(END)[1]
    PAGE.write_text(before + START + "".join(lines) + END + after)


if __name__ == "__main__":
    main()
