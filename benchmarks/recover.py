"""How fast sources come back: what recovering them costs beside what cannot be avoided.

python benchmarks/recover.py [--quick] [--check]

CPU time of one thread, least of several calls. The regression of an LTI system is one intercept an
environment and all slopes, by our own factors of the trajectories; beside it stands NumPy's
`lstsq` with a column for each environment. Joint diagonalisation is of 64 matrices 64 × 64: exact
ones, and sample covariances of 6,000 rows. Causal direction is of 500 environments, over the three
kernel tests that it cannot do without; and these over those of causal-learn, where it is installed.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from threadpoolctl import threadpool_limits

from identikit.recover import LTI, causal_direction, joint_diagonalise
from identikit.recover._kci import conditional_independence, independence
from identikit.recover._lti_fit import factors, identify, read_trajectories
from identikit.worlds import ExchangeablePairs, LinearSystem
from table import arguments, cpu, finish, record


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


def directions(environments: int, repeats: int) -> None:
    """Causal direction over its three kernel tests, and these over those of causal-learn."""
    sample = ExchangeablePairs(theta=5.0).sample(2 * environments, seed=0)
    (x, y), none = sample.observations.T, np.zeros((environments, 0))
    # Cause and effect of the first and of the second sample of each environment.
    a, b, c, d = x[::2], y[::2], x[1::2], y[1::2]

    def three() -> object:
        return (
            conditional_independence(a, d, c, none),
            conditional_independence(b, c, d, none),
            independence(a, b, none),
        )

    least = cpu(three, repeats)
    whole = cpu(lambda: causal_direction(x, y, sample.environments), repeats)
    what = f"causal direction, {environments} environments"
    print(f"  causal direction {1e3 * whole:.1f} ms, three kernel tests {1e3 * least:.1f} ms")
    record(what, "over the three kernel tests", whole / least, "≤", 1.5)
    if find_spec("causallearn") is None:
        return
    from causallearn.utils.KCI.KCI import KCI_CInd, KCI_UInd

    def theirs() -> object:
        columns = [column[:, None] for column in (a, b, c, d)]
        first, second, third, fourth = columns
        return (
            KCI_CInd().compute_pvalue(first, fourth, third),
            KCI_CInd().compute_pvalue(second, third, fourth),
            KCI_UInd().compute_pvalue(first, second),
        )

    record(what, "kernel tests of causal-learn, over ours", cpu(theirs, 3) / least, "≥", 3.0)


def main() -> None:
    """Print each figure beside its bar."""
    options = arguments(__doc__, "matrices of a quarter of the size")
    with threadpool_limits(1):
        systems(6_000, repeats=3 if options.quick else 7)
        matrices(16 if options.quick else 64, repeats=3)
        directions(500, repeats=7 if options.quick else 15)
    finish(options.check)


if __name__ == "__main__":
    main()
