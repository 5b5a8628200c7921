"""Write the table of docs/verdict.md: planted rungs over spectra, noises, widths and rows.

    python docs/verdict.py [--widths 3,8,30,64,100] [--rows 1000,4000,20000] [--seeds 1]

The pairs are those of tests/planted.py. Takes about 40 minutes on one core.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import identikit as ik
from identikit.alignment import GROUPS, ladder
from identikit.auditing import choose_group
from planted import NOISES, SPECTRA, cells, planted

PAGE = Path(__file__).with_name("verdict.md")
#: Draws before this one were looked at while the rule was made.
FIRST = 1000
START, END = "<!-- table -->\n", "<!-- end of the table -->\n"


def judged(n: int, d: int, seeds: int) -> dict[tuple[str, str], list[tuple[bool, bool]]]:
    """By spectrum and noise: whether each planted rung was named, and was among those named."""
    found: dict[tuple[str, str], list[tuple[bool, bool]]] = {}
    for spectrum, kind, level in cells():
        for group in GROUPS:
            for seed in range(FIRST, FIRST + seeds):
                X, Y = planted(group, spectrum, kind, level, n, d, seed)
                moments = ik.accumulate([X, Y], sample=0)
                answer = choose_group(moments, 0, 1, ladder(moments))
                hit = answer.group == group, group in answer.candidates
                found.setdefault((spectrum, kind), []).append(hit)
    return found


def share(hits: list[tuple[bool, bool]], which: int) -> str:
    """Per cent of the hits of one kind."""
    return f"{100 * sum(hit[which] for hit in hits) / len(hits):.1f}"


def main() -> None:
    """Plant, judge, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", default="3,8,30,64,100")
    parser.add_argument("--rows", default="1000,4000,20000")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    by_shape: dict[tuple[int, int], list[tuple[bool, bool]]] = {}
    by_noise: dict[tuple[str, str], list[tuple[bool, bool]]] = {}
    for n in map(int, options.rows.split(",")):
        for d in map(int, options.widths.split(",")):
            for cell, hits in judged(n, d, options.seeds).items():
                by_shape.setdefault((n, d), []).extend(hits)
                by_noise.setdefault(cell, []).extend(hits)
            print(f"n = {n}, d = {d}: {share(by_shape[n, d], 0)} %", file=sys.stderr, flush=True)
    every = [hit for hits in by_shape.values() for hit in hits]
    lines = [
        f"Of {len(every):,} pairs {share(every, 0)} % got the planted rung, and for "
        f"{share(every, 1)} % it was among those named.\n",
        "\n| rows | columns | named, % | among those named, % |\n|---|---|---|---|\n",
        *(
            f"| {n:,} | {d} | {share(hits, 0)} | {share(hits, 1)} |\n"
            for (n, d), hits in by_shape.items()
        ),
        "\n| spectrum | " + " | ".join(NOISES) + " |\n|---|" + "---|" * len(NOISES) + "\n",
        *(
            f"| {spectrum} | "
            + " | ".join(share(by_noise[spectrum, kind], 0) for kind in NOISES)
            + " |\n"
            for spectrum in SPECTRA
        ),
    ]
    page = PAGE.read_text()
    before, after = page.split(START)[0], page.split(END)[1]
    PAGE.write_text(before + START + "".join(lines) + END + after)


if __name__ == "__main__":
    main()
