"""What an audit costs beyond reading: every figure is a ratio of two times of this run.

python benchmarks/audit.py [--quick] [--check]

The floor is the float64 Gram product of the stacked views by NumPy. Views are float32 arrays in
memory that share half of their variance; where it is said, they are independent, or rotations of
each other with noise. Layers of two models are compared with six singular value decompositions,
by NumPy on one thread, of a matrix as wide as a layer.
--quick shrinks the data twentyfold (to see that it runs); --check exits with 1 if a bar is missed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import identikit as ik
from table import arguments, finish, record, timed

Views = list[NDArray[np.float32]]


def views(count: int, rows: int, width: int, kind: str = "half") -> Views:
    """Views that share half of their variance, are independent, or are noisy rotations."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(rows, width))
    if kind == "rotated":
        shared = shared * np.arange(1, width + 1) ** -0.5
    made = []
    for _ in range(count):
        mix = rng.normal(size=(width, width)) / np.sqrt(width)
        if kind == "rotated":
            mix = np.linalg.qr(mix)[0]
        signal = np.zeros(1) if kind == "independent" else shared @ mix
        noise = rng.normal(size=(rows, width)) * (0.3 * signal.std() if kind == "rotated" else 1.0)
        made.append((signal + noise).astype(np.float32))
    return made


def floor(stacked: Views) -> Callable[[], object]:
    """The Gram product of the stacked views, already in float64."""
    Z = np.concatenate(stacked, axis=1).astype(np.float64)
    return lambda: Z.T @ Z


def over_the_floor(
    count: int, rows: int, width: int, bar: float, repeats: int, kind: str = "half"
) -> None:
    """An audit of some views, over the floor."""
    made = views(count, rows, width, kind)
    least = timed(floor(made), repeats)
    read = timed(lambda: ik.accumulate(made), repeats)
    ours = timed(lambda: ik.audit(made), repeats)
    pairs = count * (count - 1) // 2
    said = "" if kind == "half" else f", {kind}"
    print(f"  audit {ours:.2f} s, accumulate {read:.2f} s, floor {least:.3f} s, {pairs} pairs")
    record(f"audit, {count}×{rows:,}×{width}{said}", "time over the floor", ours / least, "≤", bar)


def layers(count: int, rows: int, width: int) -> None:
    """All layers of two models: what a pair costs, with table and JSON, for few and for many."""
    made = views(2 * count, rows, width)
    square = np.random.default_rng(0).normal(size=(width, width))
    with threadpool_limits(1):
        svd = timed(lambda: np.linalg.svd(square), 5)

    def audited(some: Views) -> float:
        """Seconds per pair beyond reading."""
        read = timed(lambda: ik.accumulate(some), 1, warm_up=False)
        whole = timed(lambda: _shown(ik.audit(some)), 1, warm_up=False)
        return (whole - read) / len(list(combinations(some, 2)))

    few, every = audited(made[: max(count // 2, 3)]), audited(made)
    print(f"  a pair {every:.3f} s, one decomposition {svd:.4f} s")
    what = f"audit, {2 * count} layers, {rows:,}×{width}"
    record(what, "a pair over six decompositions", every / (6 * svd), "≤", 1)
    record(what, "a pair of all over a pair of a quarter", every / few, "≤", 1.1)


def _shown(audit: ik.Audit) -> object:
    return audit.table, audit.to_dict()


def main() -> None:
    """Run everything."""
    given = arguments(__doc__, "shrink the data twentyfold")
    warnings.simplefilter("ignore")
    part, repeats = (20, 1) if given.quick else (1, 3)
    over_the_floor(2, 5_000 // part, 384 // part, 15, repeats)
    over_the_floor(2, 10_000 // part, 512 // part, 10, repeats)
    over_the_floor(2, 10_000 // part, 512 // part, 10, repeats, "independent")
    over_the_floor(2, 10_000 // part, 512 // part, 10, repeats, "rotated")
    over_the_floor(2, 100_000 // part, 768 // part, 2.5, repeats)
    over_the_floor(10, 20_000 // part, 256 // part, 5, repeats)
    over_the_floor(10, 20_000 // part, 256 // part, 5, 1, "independent")
    over_the_floor(10, 20_000 // part, 256 // part, 5, 1, "rotated")
    layers(4 if given.quick else 24, 20_000 // part, 256 // part)
    finish(given.check)


if __name__ == "__main__":
    main()
