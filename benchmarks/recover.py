"""How fast sources come back: what recovering them costs beside what cannot be avoided.

python benchmarks/recover.py [--quick] [--check]

CPU time of one thread, least of several calls. The regression of an LTI system is one intercept an
environment and all slopes, by our own factors of the trajectories; beside it stands NumPy's
`lstsq` with a column for each environment. Joint diagonalisation is of 64 matrices 64 × 64: exact
ones, and sample covariances of 6,000 rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from identikit.recover import LTI, joint_diagonalise
from identikit.recover._lti_fit import identify
from identikit.recover._trajectories import factors, read_trajectories
from identikit.worlds import LinearSystem
from table import arguments, finish, record


def cpu(function: Callable[[], object], repeats: int) -> float:
    """The least CPU time of several calls, after one to warm up."""
    function()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def systems(steps: int, repeats: int) -> None:
    """All of `LTI.fit` over the regression that it begins with."""
    d, k = 10, 11
    sample = LinearSystem(d, k, steps, mean="random").sample(seed=0)
    y, labels = sample.observations, sample.environments

    def regression() -> object:
        F, _ = factors(read_trajectories(y, labels, lambda _: 1), 1)
        rows = F.reshape(-1, 2 * d)
        return np.linalg.lstsq(rows[:, :d], rows[:, d:], rcond=None)

    now = np.delete(np.arange(k * steps), np.arange(steps - 1, k * steps, steps))
    design = np.hstack([y[now], np.eye(k)[labels[now]]])
    least = cpu(regression, repeats)
    plain = cpu(lambda: np.linalg.lstsq(design, y[now + 1], rcond=None), repeats)
    whole = cpu(lambda: LTI().fit(y, labels), repeats)
    data = read_trajectories(y, labels, lambda _: 1)
    found = cpu(lambda: identify(data, 1, 0, 5), repeats)
    print(f"  fit {1e3 * whole:.1f} ms, of it system and axes {1e3 * found:.1f} ms; "
          f"regression {1e3 * least:.1f} ms, by lstsq {1e3 * plain:.1f} ms")  # fmt: skip
    what = f"LTI, d = {d}, {k} × {steps:,} steps"
    record(what, "all after the regression, over it", whole / least - 1, "≤", 2.0)
    record(what, "all, over lstsq with its design", whole / plain, "≤", 3.0)


def matrices(size: int, repeats: int) -> None:
    """Sweeps and seconds of joint diagonalisation."""
    rng = np.random.default_rng(0)
    M, variances = rng.normal(size=(size, size)), np.abs(rng.normal(size=(size, size))) / 2
    exact = np.einsum("ij,kj,lj->kil", M, variances, M)
    rows = 6_000
    drawn = (np.cov((rng.normal(size=(rows, size)) * v**0.5 @ M.T).T) for v in variances)
    for name, C, options in (("exact", exact, {}), ("sampled", np.stack([*drawn]), {"rows": rows})):
        took = cpu(lambda C=C, options=options: joint_diagonalise(C, **options), repeats)
        what = f"joint, {size} × {size} × {size}, {name}"
        record(what, "sweeps", joint_diagonalise(C, **options).sweeps, "≤", 30)
        record(what, "seconds", took, "≤", 5.0)


def main() -> None:
    """Print each figure beside its bar."""
    options = arguments(__doc__, "matrices of a quarter of the size")
    with threadpool_limits(1):
        systems(6_000, repeats=3 if options.quick else 7)
        matrices(16 if options.quick else 64, repeats=3)
    finish(options.check)


if __name__ == "__main__":
    main()
