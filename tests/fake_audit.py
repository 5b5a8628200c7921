"""Synthetic audits for the tests of the report: every shape a real one can take, no computation."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from identikit.auditing.result import (
    Audit,
    CCASummary,
    Check,
    CKASummary,
    Pair,
    RungError,
    Settings,
    Verdict,
    View,
)
from identikit.similarity import Scored

LADDER = ("identity", "permutation", "monomial", "rigid", "similarity", "linear", "affine")
FEW_ROWS = Check(
    "rows",
    "Are there more rows than columns?",
    None,
    1.0,
    False,
    "There are 60 rows for 64 columns, so every in-sample correlation is 1 whatever the data; "
    "read the held-out values, or add rows.",
)
LOW_RANK = Check(
    "rank", "Is every column needed?", 14.0, 16.0, False, "A view has rank 14 of 16 columns."
)


def scored(value: float) -> Scored:
    """Build a measure of this value, far above its chance level."""
    band, interval = (0.05, 0.11), (value - 0.034, value + 0.034)
    return Scored(value, 0.083, band, interval, (value - 0.11) / 0.89, 2e-9, 99)


def make_pair(
    a: str,
    b: str,
    group: str = "linear",
    error: float = 0.082,
    *,
    rungs: tuple[str, ...] = LADDER,
    dims: int = 16,
    few_rows: bool = False,
    checks: tuple[Check, ...] = (),
    seed: int = 0,
    rows: int = 1000,
) -> Pair:
    """Build a pair whose ladder falls to `error` at `group` and stays there."""
    rng = np.random.default_rng(seed)
    unrelated = group == "unrelated"
    start = LADDER.index(group) if not unrelated else 0
    ladder = []
    for rung in rungs:
        place = LADDER.index(rung)
        value = error if unrelated or place >= start else 1.42 - 0.12 * place
        other = 0.97 * value
        ends, other_ends = (0.92 * value, 1.08 * value), (0.92 * other, 1.08 * other)
        ladder.append(RungError(rung, value, ends, other, other_ends, value, ends))
    strength = 0.04 if unrelated else np.sqrt(max(0.0, 1 - error**2))
    shared = rng.normal(size=(rows, 2))
    noise = rng.normal(size=(rows, 2))
    other = strength * shared + np.sqrt(1 - strength**2) * noise
    spectrum = np.sort(np.clip(strength - np.abs(rng.normal(size=dims)) * 0.05, 0, 1))[::-1]
    if unrelated:
        spectrum = np.linspace(0.16, 0.01, dims)
    checks = (*checks, FEW_ROWS) if few_rows else checks
    return Pair(
        a=a,
        b=b,
        group=group,
        candidates=(group,),
        error=error,
        interval=(error * 0.92, error * 1.08),
        within_tolerance=not unrelated and error <= 0.1,
        ladder=tuple(ladder),
        cca=CCASummary(
            mean=None if few_rows else float(spectrum.mean()),
            held_out=float(spectrum.mean()) - 0.005,
            held_out_interval=(float(spectrum.mean()) - 0.02, float(spectrum.mean()) + 0.01),
            chance=1.0 if few_rows else 0.08,
            adjusted_r2=None if few_rows else 0.9,
            rank=dims,
        ),
        cka=CKASummary(0.71, None if few_rows else 0.7, 0.03),
        measures={
            "cca": None if few_rows else scored(float(spectrum.mean())),
            "cka": scored(0.71),
            "svcca": None if few_rows else scored(0.941),
            "pwcca": scored(0.933),
            "procrustes": scored(0.62),
            "r2": scored(0.87),
            "mcc": scored(0.41),
        },
        checks=checks,
        correlations=np.empty(0) if few_rows else spectrum,
        chance_edge=1.0 if few_rows else 0.18,
        points=np.stack([shared, other], axis=1),
    )


def make_audit(names: list[str], pairs: list[Pair], dims: list[int] | None = None) -> Audit:
    """Wrap pairs into an audit; the verdict is that of the pair with the largest error."""
    worst = max(pairs, key=lambda pair: pair.error)
    widths = dims or [16] * len(names)
    order = [*LADDER, "unrelated"]
    verdict = Verdict(
        worst.group,
        worst.candidates,
        worst.error,
        worst.interval,
        worst.within_tolerance,
        worst.a,
        worst.b,
        max((pair.group for pair in pairs), key=order.index),
    )
    return Audit(
        version="0.1.0",
        rows=10_000,
        views=tuple(View(n, d, d - 2, 0.61 * d) for n, d in zip(names, widths)),
        comparisons=tuple(pairs),
        verdict=verdict,
        settings=Settings(5, "rows dealt in turn", 0.1, 0.02, 0, 0, 1000),
    )


def of_errors(errors: dict[tuple[str, str], float], group: str = "affine") -> Audit:
    """Views of which only the errors of pairs matter; those of 1 or more are unrelated."""
    names = list(dict.fromkeys(name for pair in errors for name in pair))
    pairs = [
        make_pair(a, b, "unrelated" if error >= 1 else group, error, rows=10)
        for (a, b), error in errors.items()
    ]
    return make_audit(names, pairs)


def two_views(
    a: str = "seed 0", b: str = "seed 1", group: str = "linear", error: float = 0.082
) -> Audit:
    """Two views of equal width."""
    return make_audit([a, b], [make_pair(a, b, group, error)])


def many_views(count: int, *, control: bool = False, names: list[str] | None = None) -> Audit:
    """Many views of growing distance; with `control` the last one has its rows shuffled."""
    names = names or [f"seed {i}" for i in range(count - control)] + ["shuffled"] * control
    pairs = []
    for index, (a, b) in enumerate(combinations(names, 2)):
        checks = (LOW_RANK,) if index % 3 == 0 else ()
        if control and b == names[-1]:
            pairs.append(make_pair(a, b, "unrelated", 0.999, checks=checks, seed=index))
        else:
            group = LADDER[3:][index % 4]
            error = 0.03 + 0.12 * index / len(names) ** 1.5
            pairs.append(make_pair(a, b, group, error, checks=checks, seed=index))
    return make_audit(names, pairs)


def five_views() -> Audit:
    """Four seeds and a shuffled control."""
    return many_views(5, control=True)


def unequal_widths() -> Audit:
    """Views of 8 and 300 columns: the ladder has no rung that pairs axes."""
    names = ["small", "large"]
    pair = make_pair(*names, "affine", 0.31, rungs=("linear", "affine"), dims=8)
    return make_audit(names, [pair], [8, 300])


def few_rows() -> Audit:
    """Fewer rows than columns: what would be 1 whatever the data is absent."""
    names = ["seed 0", "seed 1"]
    return make_audit(names, [make_pair(*names, "rigid", 0.05, few_rows=True)], [64, 64])
