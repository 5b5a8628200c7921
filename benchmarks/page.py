"""The page, the JSON and the table of an audit of many views: time and size.

python benchmarks/page.py [--quick] [--check]

Times are those of the processor, so that a busy machine gives the same ones; that of a page is of
the first call, with all imports. Audits are made up of pairs with random numbers, as wide as those
of a real audit: seven rungs, ten measures, twelve checks, a sample of 1,000 rows. --quick has 6 and
12 views instead of 10 and 48 (to see that it runs).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np

from identikit.alignment import RUNGS
from identikit.auditing import Audit, Check, Pair, RungError, Verdict, View
from identikit.auditing.result import CCASummary, CKASummary, Settings
from identikit.report import html
from identikit.similarity import MEASURES, Scored
from table import arguments, cpu, finish, record

CHECKS = 12
ROWS, DIMS = 1000, 64


def pair_of(a: str, b: str, error: float, rng: np.random.Generator) -> Pair:
    """A pair with this error from the linear rung on, and a warning in every tenth."""
    rungs = []
    for place, name in enumerate(RUNGS):
        value = error if name in ("linear", "affine") else 1.5 - 0.1 * place
        ends = 0.97 * value, 1.03 * value
        rungs.append(RungError(name, value, ends, value, ends, 0.98 * value, ends))
    found = Scored(0.7, 0.08, (0.05, 0.11), (0.66, 0.74), 0.66, 1e-9, 99)
    return Pair(
        a=a,
        b=b,
        group="linear",
        candidates=("linear",),
        error=error,
        interval=(0.97 * error, 1.03 * error),
        within_tolerance=error <= 0.1,
        ladder=tuple(rungs),
        cca=CCASummary(0.8, 0.79, (0.77, 0.81), 0.25, 0.6, DIMS),
        cka=CKASummary(0.7, 0.69, 0.05),
        measures=dict.fromkeys(MEASURES, found),
        checks=tuple(
            Check(
                f"check {number}",
                "Is there anything to say about this pair?",
                float(rng.random()),
                0.1,
                bool(rng.random() > 0.1 / CHECKS),
                f"views {a!r} and {b!r} are not quite as they should be: give more rows.",
            )
            for number in range(CHECKS)
        ),
        correlations=np.sort(rng.random(DIMS))[::-1],
        chance_edge=0.3,
        points=rng.normal(size=(ROWS, 2, 2)),
    )


def audit_of(count: int) -> Audit:
    """Families of eight views each, which agree among themselves."""
    rng = np.random.default_rng(0)
    names = [f"family_{n // 8}/seed_{n % 8}" for n in range(count)]
    pairs = [
        pair_of(a, b, rng.uniform(0.05, 0.15) if a[:8] == b[:8] else rng.uniform(0.8, 0.95), rng)
        for a, b in combinations(names, 2)
    ]
    worst = max(pairs, key=lambda pair: pair.error)
    verdict = Verdict(
        worst.group,
        worst.candidates,
        worst.error,
        worst.interval,
        False,
        worst.a,
        worst.b,
        "linear",
    )
    views = tuple(View(name, DIMS, DIMS, 0.6 * DIMS) for name in names)
    settings = Settings(5, "rows dealt in turn", 0.1, 0.03, 0, 0, ROWS)
    return Audit("0", 20_000, views, tuple(pairs), verdict, settings)


def page(count: int, seconds: float, megabytes: float) -> None:
    """The page of an audit of this many views."""
    audit, made = audit_of(count), []
    taken = cpu(lambda: made.append(html(audit)), warm_up=False)
    what = f"page, {count} views, {len(audit.comparisons):,} pairs"
    record(what, "processor time, s", taken, "≤", seconds)
    record(what, "size, MB", len(made[0].encode()) / 1e6, "≤", megabytes)


def growth(few: int, many: int) -> None:
    """Time a pair of a large audit over that of a small one: 1 if it is linear."""
    works: dict[str, Callable[[Audit], object]] = {
        "JSON": Audit.to_json,
        # The property is computed once for an audit; here every time.
        "table": lambda audit: Audit.pairs.func(audit),
    }
    audits = [audit_of(count) for count in (few, many)]
    for name, work in works.items():
        each = [
            cpu(lambda audit=audit, work=work: work(audit), 5) / len(audit.comparisons)
            for audit in audits
        ]
        sizes = " and ".join(f"{len(audit.comparisons):,}" for audit in audits)
        record(
            f"{name}, {sizes} pairs", "time a pair, over that of few", each[1] / each[0], "≤", 1.5
        )


def main() -> None:
    options = arguments(__doc__, "6 and 12 views")
    few, many = (6, 12) if options.quick else (10, 48)
    page(few, 2, 2)
    page(many, 5, 4)
    growth(many // 2, many)
    finish(options.check)


if __name__ == "__main__":
    main()
