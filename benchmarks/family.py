"""How much the comparison of two language-model heads costs, against the products it cannot avoid.

python benchmarks/family.py [--quick] [--check]

n = 20,000 inputs, width 768, K = 50,257 labels, random float32 weights. The floor of `models` is
the two logit products F Gᵀ, in blocks; that of `diversity` is one thin QR of the head.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

import numpy as np

from identikit.auditing import audit_models
from identikit.family import SoftmaxModel, diversity


def peak() -> float:
    """Peak memory of this process in GB."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1e6


def products(models: list[SoftmaxModel]) -> None:
    """The product F Gᵀ of every model, block by block, in float64 and nothing else."""
    for model in models:
        transposed = model.g.astype(np.float64).T
        for start in range(0, model.n, 80):
            model.f[start : start + 80].astype(np.float64) @ transposed


def main() -> None:
    """Print each ratio beside its bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the inputs and labels")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bar is missed")
    options = parser.parse_args()
    n, K, M = (2_000, 5_000, 256) if options.quick else (20_000, 50_257, 768)
    rng = np.random.default_rng(0)
    f, g = rng.standard_normal((n, M), np.float32), rng.standard_normal((K, M), np.float32)
    g /= np.float32(np.sqrt(M))
    turn = np.linalg.qr(rng.standard_normal((M, M)))[0].astype(np.float32)
    noisy = g @ turn.T + np.float32(0.1) * rng.standard_normal((K, M), np.float32) / M**0.5
    pair = [SoftmaxModel(f, g, name="a"), SoftmaxModel(f @ turn.T, noisy, name="b")]
    wide, missed = g.astype(np.float64), False

    def timed(function: object) -> float:
        start = time.perf_counter()
        function()  # type: ignore[operator]
        return time.perf_counter() - start

    floor = timed(lambda: np.linalg.qr(wide))
    for what, took, least, bar in [
        ("diversity over one thin QR", timed(lambda: diversity(pair[0])), floor, 3.0),
        (
            "models over two logit products",
            timed(lambda: audit_models(pair)),
            timed(lambda: products(pair)),
            3.0,
        ),
        ("peak memory in GB", peak(), 1.0, 4.0),
    ]:
        missed |= took / least > bar
        print(f"{what:<32} {took / least:6.2f}   bar ≤ {bar:g}   ({took:.1f} over {least:.1f})")
    if options.check and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
