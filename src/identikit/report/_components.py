"""What is shown of components across runs: which come back, and what each run has."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from identikit.report._shown import BAD, DOUBTFUL, GOOD, Shown, Table, shows
from identikit.report.numbers import number, shorten, spread
from identikit.report.plots import plot_stability
from identikit.report.words import components as words

if TYPE_CHECKING:
    from identikit.axes import Components

#: Components, and runs, that a page lists one by one.
MOST, MOST_RUNS = 25, 8
TITLES = (
    *("components", "left out", "tied", "matched"),
    *("similarity", "chance", "pass", "unique"),
)


@shows("Components")
def components(found: Components) -> Shown:
    """How many components come back in every run, and how strongly; a row a run."""
    names, settings = [run.name for run in found.runs], found.settings
    what = words.similarity(found)
    counted = "with its sign" if settings.signed else "up to the sign"
    notes = [
        f"Similarity is the mean {what}, {counted}, with the matches in the other runs; "
        f"{found.says_chance}."
    ]
    if "sparse" in found.methods:
        notes.append(
            "The assignment was among the nearest candidates: its sum of similarities is at most "
            f"{found.gap:.2%} below the best one."
        )
    bar = (
        f"above chance at a false-discovery rate of {settings.fdr:g}"
        if settings.threshold is None
        else f"of {settings.threshold:g} or more"
    )
    return Shown(
        "components",
        "Which components come back?",
        words.summary(found),
        [Table(("run",), [(n,) for n in names], TITLES, _runs(found), spare=[(1, 2), (7,)])],
        partial(plot_stability, found),
        words.headline(found),
        BAD if not found else GOOD if found.fraction > 0.5 else DOUBTFUL,
        facts=[
            f"{len(names)} runs",
            f"{len(found):,} components",
            f"{settings.kind}, {'signed' if settings.signed else 'unsigned'}",
            f"seed {settings.seed}",
        ],
        reading="How many components have which stability: the mean similarity of all pairs of "
        "their members. The band is where chance levels lie, the dashed line their median.",
        notes=notes,
        warnings=[(text, 1) for text in _faults(found)],
        warnings_are="remarks",
        further=[_most_stable(found)],
        methods=[
            (
                "Matching",
                f"All runs are matched one to one to the others, {found.sweeps} times over; "
                f"assignments were {' and '.join(found.methods)}"
                f"{f', at most {found.gap:.2%} short of the best' if found.gap else ' and exact'}.",
            ),
            (
                "Comes back",
                f"A component that has a member in every run, each with a {what} {bar}.",
            ),
            ("Chance", f"{found.says_chance[0].upper()}{found.says_chance[1:]}."),
            (
                "PW-MCC",
                "The mean, over pairs of runs, of the mean similarity of their optimally matched "
                "vectors, all of the smaller run; its chance level is on the high side.",
            ),
            (
                "Unique",
                "The share of vectors whose best match in another run is the best match of no "
                "other vector.",
            ),
            ("Intervals", "95 %, by the jackknife over runs; two runs have none."),
        ],
        names=names,
        version=found.version,
    )


def _runs(found: Components) -> list[list[str]]:
    """What stands after the name of each run."""
    listed = []
    for place, run in enumerate(found.runs):
        there = found.index[:, place] >= 0
        counts = (run.atoms, len(run.excluded), sum(map(len, run.tied)), run.matched)
        means = (float(np.mean(c[there, place])) for c in (found.similarity, found.chance))
        shares = (found.passes[there, place].mean(), run.unique)
        listed.append(
            [
                *(f"{count:,}" for count in counts),
                *map(number, means),
                *(f"{share:.1%}" for share in shares),
            ]
        )
    return listed


def _most_stable(found: Components) -> Table:
    """The first components one by one: which vector of each run, how stable, against what."""
    runs = found.runs[:MOST_RUNS]
    rows = []
    for place in range(min(MOST, len(found))):
        low, high = (float(end) for end in found.interval[place])
        value = float(found.stability[place])
        members = found.index[place, : len(runs)]
        signs = found.sign[place, : len(runs)]
        rows.append(
            [
                number(value) if np.isnan(low) else spread(value, (low, high)),
                number(float(found.chance_level[place])),
                "yes" if found.replicates[place] else "no",
                *(
                    number(None) if member < 0 else f"{'−' if sign < 0 else ''}{member}"
                    for member, sign in zip(members, signs)
                ),
            ]
        )
    cut = [
        f"the first {len(rows)} of {len(found):,} components" if len(found) > len(rows) else "",
        f"of {len(runs)} of {len(found.runs)} runs" if len(found.runs) > len(runs) else "",
    ]
    said = " ".join(filter(None, cut))
    return Table(
        ("component",),
        [(str(place),) for place in range(len(rows))],
        ["stability (95 %)", "chance", "in every run", *(shorten(run.name, 16) for run in runs)],
        rows,
        above="The most stable components, and which vector of each run they are",
        below="Numbers of vectors count from 0; a minus says that it points the other way."
        + (f" These are {said}; all are in the JSON document." if said else ""),
    )


def _faults(found: Components) -> list[str]:
    """What was left out, and what nothing but chance could match."""
    listed = []
    for run in found.runs:
        if run.excluded:
            listed.append(_listed(run.name, "zero or constant, left out", run.excluded))
        if run.tied:
            tied = [member for equal in run.tied for member in equal]
            listed.append(_listed(run.name, "equal to another, matched by chance", tied))
    return listed


def _listed(name: str, what: str, members: list[int] | tuple[int, ...]) -> str:
    some = ", ".join(map(str, members[:8])) + (", …" if len(members) > 8 else "")
    return f"{shorten(name, 40)}, {what}: {len(members):,} ({some})"
