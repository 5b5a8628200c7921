"""What the parts for worlds with known factors cost, against what they cannot do without.

python benchmarks/worlds.py [--quick] [--check]

The contrast of independent mechanism analysis of many Jacobians, against one batched QR of them.
Exact draws on the sphere in ten dimensions, in latents a second on one core.
"""

from __future__ import annotations

import numpy as np

import identikit as ik
from identikit.worlds import _sphere as sphere
from table import arguments, finish, record, timed


def contrasts(rows: int, repeats: int) -> None:
    """The contrasts of Jacobians 8 × 8 over one QR of them all."""
    jacobians = np.random.default_rng(0).normal(size=(rows, 8, 8))
    least = timed(lambda: np.linalg.qr(jacobians), repeats)
    took = timed(lambda: ik.ima_contrast(jacobians), repeats)
    record(f"ima_contrast, {rows:,} Jacobians 8 × 8", "over one batched QR", took / least, "≤", 3.0)


def draws(rows: int, repeats: int) -> None:
    """von Mises–Fisher, and partners with a concentration an axis."""
    d = 10
    z = sphere.uniform(rows, d, np.random.default_rng(0))
    spread = np.repeat([25.0, 5.0], d // 2)
    for name, draw in (
        ("von Mises–Fisher, κ = 10", lambda: sphere.von_mises_fisher(z, 10.0, new())),
        ("partners, λ = 25/5", lambda: sphere.near(z, spread, new())),
    ):
        took = timed(draw, repeats)
        record(f"{name}, d = {d}", "million latents a second", rows / took / 1e6, "≥", 1.0)


def new() -> np.random.Generator:
    return np.random.default_rng(1)


def main() -> None:
    """Print each ratio beside its bar."""
    options = arguments(__doc__, "a tenth of the rows")
    contrasts(1_000 if options.quick else 10_000, repeats=7)
    draws(20_000 if options.quick else 1_000_000, repeats=3)
    finish(options.check)


if __name__ == "__main__":
    main()
