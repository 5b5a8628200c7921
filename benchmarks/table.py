"""What benchmarks share: the least time of several calls, and a table of figures and bars."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

ROWS: list[tuple[str, str, float, str, bool]] = []


def timed(
    function: Callable[[], object],
    repeats: int,
    *,
    warm_up: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """The least time of several calls, after one to warm up."""
    if warm_up:
        function()
    times = []
    for _ in range(repeats):
        start = clock()
        function()
        times.append(clock() - start)
    return min(times)


def cpu(function: Callable[[], object], repeats: int = 1, *, warm_up: bool = True) -> float:
    """The least processor time of several calls, after one to warm up."""
    return timed(function, repeats, warm_up=warm_up, clock=time.process_time)


def record(what: str, measure: str, value: float, relation: str, bar: float) -> None:
    """Keep a line of the table and show it at once."""
    ok = value <= bar if relation == "≤" else value >= bar
    ROWS.append((what, measure, value, f"{relation} {bar:g}", ok))
    verdict = "ok" if ok else "MISSED"
    print(f"{what:<36} {measure:<46} {value:8.2f}   bar {relation} {bar:<6g} {verdict}", flush=True)


def arguments(description: str | None, quick: str) -> argparse.Namespace:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bar is missed")
    return parser.parse_args()


def finish(check: bool) -> None:
    """Print the table in Markdown; exit with 1 if a bar was missed and that matters."""
    print("\n| what | measure | value | bar |\n|---|---|---|---|")
    for what, measure, value, bar, ok in ROWS:
        print(f"| {what} | {measure} | {value:.2f} | {bar}{'' if ok else ' (missed)'} |")
    if check and not all(row[-1] for row in ROWS):
        sys.exit(1)
