"""Write docs/intervals.md: how often the intervals that identikit prints hold what they are for.

python docs/intervals.py [--repeats 200] [--quick] [--keep FILE]

Every number of the tables is simulated here, by one thread in about twenty minutes. With --keep,
cells that are done are kept in FILE (one JSON document a line) and are not done again. --quick is a
tenth of the repeats, to see it run.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

import identikit as ik
from identikit.alignment import AlignmentMap, ladder
from identikit.auditing import RungError
from identikit.axes import axes_apart, corrected_rung, ica_rung, view_axes
from identikit.axes._near import Views, gained, parts_of, summarise
from identikit.factors import METRICS, prepare
from identikit.inference import held_out_cca
from identikit.similarity import MEASURES
from identikit.similarity._scored import _interval

Array = NDArray[np.float64]
Interval = tuple[float, float]

#: Standard deviation of the noise; the signal has variance 1 on average.
NOISE = 0.5

#: Half of the variance of grouped rows is shared by the rows of a group, in signal and in noise.
SHARED = 0.5

#: Number of groups.
GROUPS = {200: 40, 1000: 50, 5000: 100}

#: Metrics that see one sample in four, and no codes that mix.
SLOW = "beta_vae", "dci", "explicitness"

#: What 95 % may be, but for Monte Carlo error, if rows are independent and n/d is at least 10.
BAR = 0.93, 0.97


# Populations


class Rows(NamedTuple):
    """Views x, x + e, x R + e and x A + e, the labels of their rows, and R and A."""

    views: list[Array]
    labels: NDArray[np.int64] | None
    rotation: Array
    linear: Array


def spectrum(d: int) -> Array:
    """Standard deviations of the columns of x."""
    scales = np.linspace(0.5, 1.5, d)
    return scales / np.sqrt(np.mean(scales**2))


def maps(d: int) -> tuple[Array, Array]:
    """A rotation, and a linear map with singular values from 0.5 to 1.5, one of each for all d."""
    rng = np.random.default_rng(d)
    left, right = (np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(2))
    return left, left * spectrum(d) @ right


def draw(kind: str, n: int, d: int, rng: np.random.Generator) -> Rows:
    """Rows of a population: "Gaussian", "Laplace", "Student t5" or "grouped".

    Rows of Student's law are multivariate: one heavy-tailed length for all columns of a row. Only
    Laplace's has axes of its own. Groups come in random order.
    """
    labels = None
    if kind.startswith("grouped"):
        labels = rng.permutation(np.arange(n) % GROUPS[n])

    def part() -> Array:
        rows = rng.normal(size=(n, d))
        if kind == "Student t5":
            rows *= np.sqrt(3 / rng.chisquare(5, size=(n, 1)))  # of variance 1
        elif kind == "Laplace":
            rows = rng.laplace(size=(n, d)) / np.sqrt(2)
        elif labels is not None:
            of_group = rng.normal(size=(GROUPS[n], d))
            rows = np.sqrt(SHARED) * of_group[labels] + np.sqrt(1 - SHARED) * rows
        return rows

    x, noise = part() * spectrum(d), NOISE * part()
    turn, linear = maps(d)
    views = [x, x + noise, x @ turn + noise, x @ linear + noise]
    return Rows(views, labels if kind == "grouped" else None, turn, linear)


def true_error(found: AlignmentMap, planted: Array) -> float:
    """Error on new rows of y ≈ x W + b, where y = x M + e: exact, whatever the law of x and e."""
    d = len(planted)
    wrong = spectrum(d)[:, None] * (found.weights_ - planted)
    missed = (wrong**2).sum() + (found.shift_**2).sum() + NOISE**2 * d
    return float(np.sqrt(missed / (((spectrum(d)[:, None] * planted) ** 2).sum() + NOISE**2 * d)))


# What one sample says


class Said(NamedTuple):
    """A value with its interval; `truth` if it depends on the sample."""

    value: float
    interval: Interval | None
    truth: float | None = None


def of_errors(rows: Rows, moments: ik.Moments) -> dict[str, Said]:
    """Errors of the ladder and of fitted maps, and held-out CCA."""
    found = {}
    for group, view, planted in (("rigid", 2, rows.rotation), ("affine", 3, rows.linear)):
        held_out = RungError.of(group, *ladder(moments, 0, view, (group,))[group])
        found[f"audit, {group} rung"] = Said(held_out.error, held_out.interval)
        fitted = AlignmentMap(group=group).fit_moments(moments, 0, view)
        found[f"align, {group} map"] = Said(
            fitted.error, fitted.interval, true_error(fitted, planted)
        )
    if (cca := held_out_cca(moments, 0, 3)) is not None:
        found["cca, held out"] = Said(cca.value, cca.interval)
    return found


def of_measures(
    moments: ik.Moments, view: int, names: Iterable[str], suffix: str = ""
) -> dict[str, Said]:
    """Measures of the first view and another one, as `score_measures`, without chance levels."""
    values = {name: MEASURES[name](moments, 0, view) for name in names}
    known = {name: value for name, value in values.items() if value is not None}
    rests = [moments.without(fold) for fold, part in enumerate(moments.parts) if part.count]
    return {
        name + suffix: Said(value, _interval(value, [MEASURES[name](m, 0, view) for m in rests]))
        for name, value in known.items()
    }


def of_pairs(kind: str, n: int, d: int, rng: np.random.Generator, number: int) -> dict[str, Said]:
    """Errors of the ladder and of fitted maps, held-out CCA, and every measure."""
    rows = draw(kind, n, d, rng)
    moments = ik.accumulate(rows.views, groups=rows.labels)
    # Neighbours cost as much as all else together.
    names = [name for name in MEASURES if name != "mutual_knn" or number % 3 == 0]
    return (
        of_errors(rows, moments)
        | of_measures(moments, 1, names)
        | of_measures(moments, 2, ["mcc"], ", axes turned")
    )


def of_near(kind: str, n: int, d: int, rng: np.random.Generator, _: int) -> dict[str, Said]:
    """Distances over the diameter and the efficiency of ICA, between x and x R + e, raw."""
    rows = draw(kind, n, d, rng)
    a, b = rows.views[0], rows.views[2]
    seed = int(rng.integers(2**31))
    parts = parts_of(np.hstack([a, b]), rows.labels, 0.5, rng)
    views = Views((a, b), ("a", "b"), parts, None, 1, seed, rng)
    place = "raw", 0
    whole = views.whole()[place]
    rest = [views.without(int(run))[place] for run in np.unique(parts.runs)]
    searched = views.searched(rng).get(place)
    found = {}
    for group in ("rigid", "affine", "ica"):
        far = summarise(group, whole, rest, np.ones(1), searched if group == "ica" else None)
        found[f"near, {group}, mean"] = Said(far.mean, far.mean_interval)
        found[f"near, {group}, 95 % quantile"] = Said(far.q95, far.q95_interval)
    gain = gained(whole, rest, {"ica": np.ones(1)}, searched)
    if gain is not None and gain.value is not None:
        found["ICA efficiency"] = Said(gain.value, gain.interval)
    return found


def of_ica(kind: str, n: int, d: int, rng: np.random.Generator, _: int) -> dict[str, Said]:
    """The rung of an audit's ICA: errors of these axes, matched, over new samples."""
    rows = draw(kind, n, d, rng)
    pair = [rows.views[0], rows.views[2]]
    moments = ik.accumulate(pair, groups=rows.labels, sample=n)
    axes = view_axes(moments, 0, 0), view_axes(moments, 1, 1)
    if rows.labels is None:
        apart = axes_apart(moments, 0, 0, axes[0]), axes_apart(moments, 1, 1, axes[1])
        here = RungError.of("ica", *corrected_rung(moments, 0, 1, axes, apart))
    else:
        here = RungError.of("ica", *ica_rung(moments, 0, 1, axes))
    errors = []
    for _again in range(10):
        new = draw(kind, n, d, rng)
        others = ik.accumulate([new.views[0], new.views[2]], groups=new.labels, sample=0)
        errors.append(RungError.of("ica", *ica_rung(others, 0, 1, axes)).error)
    return {"audit, ICA rung": Said(here.error, here.interval, float(np.mean(errors)))}


def of_factors(kind: str, n: int, d: int, rng: np.random.Generator, number: int) -> dict[str, Said]:
    """Metrics of codes x + e, and of codes that mix two factors, against factors x."""
    rows = draw(kind, n, d, rng)
    x, own = rows.views[:2]
    found = {}
    for suffix, codes in (("", own), (" (mixed)", own + 0.5 * np.roll(x, 1, axis=1))):
        data = prepare(codes, x, names=None, kinds=None, seed=number)
        for name, metric in METRICS.items():
            if metric.by_name or name == "infomec" or (name in SLOW and (number % 4 or suffix)):
                continue
            for part in metric(data, permutations=0).parts:
                label = f"{name}, {part.name}" if name.startswith("dci") else name
                found[label + suffix] = Said(part.value, part.interval)
    return found


# Coverage


@dataclass(frozen=True)
class Cell:
    """How many of `repeats` intervals held the truth, and how many lay above and below it."""

    section: str
    interval: str
    kind: str
    n: int
    d: int
    repeats: int
    hits: int
    above: int
    below: int

    @property
    def coverage(self) -> float:
        """In per cent."""
        return 100 * self.hits / self.repeats

    @property
    def error(self) -> float:
        """Binomial standard error, with two hits and two misses added; in per cent."""
        share = (self.hits + 2) / (self.repeats + 4)
        return float(100 * np.sqrt(share * (1 - share) / (self.repeats + 4)))

    @property
    def verdict(self) -> str:
        """ "low" or "wide" if 93 to 97 % is implausible (one in forty), else nothing."""
        if binom.cdf(self.hits, self.repeats, BAR[0]) < 0.025:
            return "low"
        return "wide" if binom.sf(self.hits - 1, self.repeats, BAR[1]) < 0.025 else ""


@dataclass(frozen=True)
class Section:
    """What is simulated together."""

    title: str
    words: str
    said: Callable[[str, int, int, np.random.Generator, int], dict[str, Said]]
    kinds: tuple[str, ...]
    widths: tuple[int, ...]
    #: Of the repeats, by the number of rows.
    shares: dict[int, float]
    centre: Callable[[Array], Any] = np.mean


def covered(said: Iterable[Said], centre: Callable[[Array], Any] = np.mean) -> tuple[int, int, int]:
    """Intervals that hold the truth, that lie above, and that lie below.

    Where the truth is not known for a sample, it is the centre of the other samples' values.
    """
    said = list(said)
    values = np.array([each.value for each in said])
    hits = above = below = 0
    for number, each in enumerate(said):
        if each.interval is None:
            continue
        truth = each.truth
        if truth is None:
            truth = float(centre(np.delete(values, number)))
        low, high = each.interval
        hits, above, below = (
            hits + (low <= truth <= high),
            above + (low > truth),
            below + (high < truth),
        )
    return hits, above, below


def simulate(section: Section, kind: str, n: int, d: int, repeats: int) -> list[Cell]:
    """All intervals of a section, in one population."""
    samples: dict[str, list[Said]] = {}
    for number in range(repeats):
        rng = np.random.default_rng([number, n, d, len(kind)])
        for name, said in section.said(kind, n, d, rng, number).items():
            if said.interval is not None:
                samples.setdefault(name, []).append(said)
    cells = []
    for name, said in samples.items():
        if len(said) > 1:
            counts = covered(said, section.centre)
            cells.append(Cell(section.title, name, kind, n, d, sum(counts), *counts))
    return cells


# The page

INDEPENDENT = "Gaussian", "Student t5"
WITH_AXES = "Laplace", "Gaussian", "Student t5", "grouped"

SECTIONS = (
    Section(
        "Pairs: errors, maps, correlations and measures",
        """*audit, rigid or affine rung* (`pair.interval`, and `interval` of each rung of its
ladder; `identikit models` prints those of f): the held-out error of the worse direction, expected
over new samples of n rows. Truth: the mean of that error over the other samples. Views x and
xR+e (rigid), x and xA+e (affine). The verdict's interval is that of its rung, so the choice of
a rung is not part of it.

*align* (`ik.align(…).interval`): the error on new rows of the map that was fitted. Truth: of that
very map, in closed form, since the law of x and e is known.

*cca, held out* (`pair.cca.held_out_interval`): the mean held-out correlation expected over new
samples of n rows. Truth: its mean over the other samples; x and xA+e.

*cca* to *svcca* (`pair.measures[name].interval`, and those of `ik.layers`): what the measure, in
sample, says of n such rows. Truth: its mean over the other samples; x and x+e, and for *mcc,
axes turned* x and xR+e, where no unit has a partner of its own. `mutual_knn` sees one sample
in three.""",
        of_pairs,
        (*INDEPENDENT, "grouped", "grouped, labels not given"),
        (4, 16, 64),
        {200: 1.0, 1000: 0.5, 5000: 0.3},
    ),
    Section(
        "Near-identifiability",
        """Distances over the diameter and the efficiency of ICA (`ik.near_identifiability`), x
and xR+e in raw coordinates: the median of the value over samples of n rows. Truth: the median
over the other samples. For n = 5000 and other laws see the slow tests in `tests/test_near.py`.
They are wide after ICA on purpose: only Laplace rows have axes of their own to find, and where ICA
ends is otherwise partly chance, which is part of the interval.""",
        of_near,
        WITH_AXES,
        (4, 16),
        {200: 0.12, 1000: 0.12},
        np.median,
    ),
    Section(
        "The ICA rung of an audit",
        """`pair.ica`, and `held_out` of `near_identifiability` after ICA: the error of *these*
axes, matched anew, expected over new samples of n rows. Truth: its mean over ten new samples.
Views x and xR+e.""",
        of_ica,
        WITH_AXES,
        (4, 16),
        {200: 0.2, 1000: 0.2, 5000: 0.2},
    ),
    Section(
        "Metrics against known factors",
        """`identikit disentangle`: the metric expected over new samples of n rows, held out as
it is. Truth: its mean over the other samples. Factors x, codes x+e, and *(mixed)* codes that
each hold half of another factor too. These metrics take no groups. Random forests, explicitness
and the batches of `beta_vae` see one sample in four; `infomec`, and what is computed by name
only, are not here.""",
        of_factors,
        INDEPENDENT,
        (4,),
        {200: 0.6, 1000: 0.3},
    ),
)

TOP = """# How honest are the intervals

An interval of 95 % should hold what it is an interval for in 95 of 100 samples. This page says
how often each one that identikit prints did. It is written by `python docs/intervals.py`, which
draws samples, computes the intervals as an audit does (five folds), and counts.

*Populations.* x has d columns with standard deviations from 0.5 to 1.5 (in proportion), e is
noise of a quarter of its variance, R a rotation, A a linear map of condition 3. *Gaussian*;
*Laplace*: independent columns; *Student t5*: every row of x and of e has a heavy-tailed length for
all its columns (multivariate t with 5 degrees of freedom); *grouped*: half of the variance of x and
of e is shared by the rows of a group (40 groups of 5 rows, 50 of 20, 100 of 50), in random order,
with `groups=` given; *labels not given*: the same rows without them, which no check can see.

*How to read it.* Per cent ± binomial standard error, and in brackets the number of samples. The
bar is 93 to 97 % within Monte Carlo error, where rows are independent and n/d is at least 10.
**Bold**: so many or few hits have a chance of less than one in forty at 93 or at 97 %; ↓ is too
narrow, ↑ too wide, which fewer than 122 samples cannot show. With {cells} cells inside the bar's
reach, about {expected} would be bold by chance if all were at its ends; cells of one column are
from the same samples, and miss together. Columns with n/d < 10 are in *italics*.
"""

#: Typed by hand, after a look at the tables.
WHY = """*Why they miss.*

- **The ICA rung of grouped rows is too narrow**: its axes come from rows that are scored too, and
  nearly all its misses are too low. Of independent rows parts are left out in turn to take that
  off; the row sample does not know groups. `near_identifiability` fits ICA on rows that it does not
  score, and again without each run of rows.
- **Modularity and the β-VAE score are too narrow at few rows**, and nearly all their misses are
  too high; less so MIG, SAP and the FactorVAE score. A fold of few rows now and then loses nearly
  all information, and a jackknife of five folds does not see a tail that is not in its sample. The
  jackknife is of √(1 − value), which helps (of the value itself, 68 % instead of 74 for modularity
  at n = 200); of log(1 − value) it would hold more often, but reach from 0 to 1 where one fold
  decides.
- **Lasso's disentanglement and completeness are too wide**: without a fold they vary more than over
  samples.
- **After ICA, distances and efficiency are too wide** where axes are not identified, on purpose.
- **Distances of heavy-tailed rows at 1000 × 16** are chance: 60 other samples were covered in 90 to
  95 %.
- **Held-out CCA of heavy-tailed rows** is a little too narrow where n/d is little above 10.
- **n/d < 10.** Held-out errors and correlations are covered in 75 to 95 %, on both sides: maps
  fitted on four fifths of the rows share most of them, so folds vary together, and a jackknife
  takes them for independent. In-sample measures still hold.
- **Groups given.** Nearly as good as independent rows while groups are many for each column. With
  about as many columns as groups (64 against 40 or 50) the error of a fitted map is too low: what
  it gains on maps of four fifths of the rows is over-estimated. `mutual_knn` and `spearman_mcc` are
  too narrow, for the row sample does not know the groups.
- **Groups not given.** Everything is too narrow, and the error of a fitted map is wrong altogether:
  it is that of new rows of the same groups.

*Not here.* Intervals over runs (`identikit components`) and over seeds (studies), where n is their
number; and the wider of two intervals, where an audit finds that rows depend on those nearby
(`blocked`).
"""


def table(cells: list[Cell]) -> str:
    """One row an interval and kind of rows, one column a size."""
    sizes = sorted({(cell.n, cell.d) for cell in cells})
    names = list(dict.fromkeys(cell.interval for cell in cells))
    kinds = list(dict.fromkeys(cell.kind for cell in cells))
    found = {(cell.interval, cell.kind, cell.n, cell.d): cell for cell in cells}
    heads = [f"{n} × {d}" if n >= 10 * d else f"*{n} × {d}*" for n, d in sizes]
    lines = [f"| interval | rows | {' | '.join(heads)} |", "|---|---|" + "---|" * len(sizes)]
    for name in names:
        for kind in kinds:
            here = [found.get((name, kind, *size)) for size in sizes]
            shown = " | ".join("" if cell is None else text(cell) for cell in here)
            lines.append(f"| {name} | {kind} | {shown} |")
    return "\n".join(lines)


def text(cell: Cell) -> str:
    """A cell of the table."""
    number = f"{cell.coverage:.0f}"
    if cell.verdict:
        number = f"**{number}{'↓' if cell.verdict == 'low' else '↑'}**"
    return f"{number} ± {cell.error:.0f} ({cell.repeats})"


def in_reach(cell: Cell) -> bool:
    """Whether the bar is for this cell."""
    return not cell.kind.startswith("grouped") and cell.n >= 10 * cell.d


def missed(cells: list[Cell], verdict: str) -> str:
    """Which intervals miss the bar, and where."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        if cell.verdict == verdict:
            found.setdefault(cell.interval, []).append(f"{cell.kind} {cell.n} × {cell.d}")
    return "; ".join(f"*{name}* ({', '.join(where)})" for name, where in found.items()) or "none"


def page(cells: list[Cell]) -> str:
    """The whole page."""
    reach = [cell for cell in cells if in_reach(cell)]
    low, wide = (sum(cell.verdict == what for cell in reach) for what in ("low", "wide"))
    parts = [TOP.format(cells=len(reach), expected=round(0.025 * len(reach)))]
    parts.append(f"Too narrow, {low}: {missed(reach, 'low')}.\n")
    parts.append(f"Too wide, {wide}: {missed(reach, 'wide')}.\n")
    parts.append(WHY)
    for section in SECTIONS:
        own = [cell for cell in cells if cell.section == section.title]
        if own:
            parts.append(f"## {section.title}\n\n{section.words}\n\n{table(own)}\n")
    return "\n".join(parts)


def units(repeats: int) -> Iterable[tuple[Section, str, int, int, int]]:
    """What there is to simulate: section, rows, n, d, repeats."""
    for section in SECTIONS:
        for kind in section.kinds:
            for n, share in section.shares.items():
                for d in section.widths:
                    yield section, kind, n, d, max(2, round(share * repeats))


def run(repeats: int, keep: Path | None) -> list[Cell]:
    """All cells; those that are kept are not simulated again."""
    done: dict[str, list[Cell]] = {}
    if keep is not None and keep.exists():
        for line in keep.read_text(encoding="utf-8").splitlines():
            unit = json.loads(line)
            done[unit["unit"]] = [Cell(**cell) for cell in unit["cells"]]
    cells = []
    for section, kind, n, d, count in units(repeats):
        unit = f"{section.title}, {kind}, {n} × {d}, {count} samples"
        if unit not in done:
            start = process_time()
            done[unit] = simulate(section, kind, n, d, count)
            print(f"{unit}: {process_time() - start:.0f} s", file=sys.stderr, flush=True)
            if keep is not None:
                document = {"unit": unit, "cells": [asdict(cell) for cell in done[unit]]}
                with keep.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(document) + "\n")
        cells += done[unit]
    return cells


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=200, help="samples of the cheapest cells")
    parser.add_argument("--quick", action="store_true", help="a tenth of the repeats")
    parser.add_argument("--keep", type=Path, help="a file that finished cells are kept in")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).with_suffix(".md"))
    options = parser.parse_args()
    cells = run(options.repeats // 10 if options.quick else options.repeats, options.keep)
    options.output.write_text(page(cells), encoding="utf-8")


if __name__ == "__main__":
    main()
