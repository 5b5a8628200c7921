"""How fast and how far ICA gets, beside scikit-learn's FastICA and python-picard.

python benchmarks/ica.py [--quick] [--check]

Times are CPU time, summed over seeds, taken in turns. Ours is all of `ICA.fit`: whitening, two
random starts on each half of the rows, the axes of all rows to a gradient of 1e-6, and judging
which are identified; FastICA's is one start with whitening by eigh, Picard's one start on
rows that are white already. --quick takes a tenth of the rows; --check exits with 1 if a bar is
missed.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.decomposition import FastICA

from identikit.axes import ICA
from table import arguments, finish, record


def views(rows: int, width: int, gaussian: int) -> np.ndarray:
    """Laplace and uniform sources, the first few of them Gaussian instead, mixed at random."""
    rng = np.random.default_rng(0)
    sources = rng.laplace(size=(rows, width))
    sources[:, width // 2 :] = rng.uniform(-1, 1, size=(rows, width - width // 2))
    sources[:, :gaussian] = rng.normal(size=(rows, gaussian))
    return sources / sources.std(axis=0) @ rng.normal(size=(width, width))


def gradient(s: np.ndarray) -> float:
    """Largest entry of the gradient of Σ σ E[log cosh s] over rotations, by its formula."""
    s = (s - s.mean(axis=0)) / s.std(axis=0)
    psi = np.tanh(s)
    inner = psi.T @ s / len(s)
    signs = np.where((1 - psi**2).mean(axis=0) < np.diagonal(inner), -1.0, 1.0)
    inner = signs[:, None] * inner
    return float(np.abs(inner - inner.T).max() / 2)


def in_turns(fits: dict[str, Callable[[int], object]], seeds: int) -> dict[str, float]:
    """CPU seconds of each, summed over seeds."""
    for fit in fits.values():
        fit(seeds)  # to warm up
    took = dict.fromkeys(fits, 0.0)
    for seed in range(seeds):
        for name, fit in fits.items():
            start = time.process_time()
            fit(seed)
            took[name] += time.process_time() - start
    return took


def main() -> None:
    """Print each figure beside its bar."""
    options = arguments(__doc__, "a tenth of the rows")
    rows, width, seeds = (5_000, 64, 2) if options.quick else (50_000, 64, 5)
    warnings.simplefilter("ignore")  # that FastICA does not converge is what is shown
    X = views(rows, width, 0)
    what = f"ICA, {rows:,}×{width}, independent"
    took = in_turns(
        {
            "ours": lambda seed: ICA(seed=seed).fit(X),
            "FastICA": lambda seed: FastICA(whiten_solver="eigh", random_state=seed).fit(X),
        },
        seeds,
    )
    print("  " + ", ".join(f"{name} {took[name] / seeds:.2f} s" for name in took))
    record(what, "CPU time over FastICA's", took["ours"] / took["FastICA"], "≤", 1.1)
    record(what, "gradient / 1e-6", gradient(ICA().fit_transform(X)) / 1e-6, "≤", 1.0)

    X = views(rows, width, 8)
    what = f"ICA, {rows:,}×{width}, 8 Gaussian"
    other = gradient(FastICA(whiten_solver="eigh", random_state=0).fit_transform(X))
    print(f"  FastICA stops at a gradient of {other:.1e}")
    record(what, "gradient / 1e-6", gradient(ICA().fit_transform(X)) / 1e-6, "≤", 1.0)
    try:
        from picard import picard
    except ImportError:
        print("  python-picard is not installed: no time beside it")
        return finish(options.check)
    white = np.ascontiguousarray(ICA().fit_transform(X).T)

    def by_picard(seed: int) -> object:
        start = np.linalg.qr(np.random.default_rng(seed).normal(size=(width, width)))[0]
        settings = {"ortho": True, "extended": True, "whiten": False, "tol": 1e-6}
        return picard(white, w_init=start, max_iter=1000, **settings)

    took = in_turns({"ours": lambda seed: ICA(seed=seed).fit(X), "Picard": by_picard}, 2)
    print("  " + ", ".join(f"{name} {took[name] / 2:.2f} s" for name in took))
    record(what, "CPU time over Picard's", took["ours"] / took["Picard"], "≤", 1.0)
    return finish(options.check)


if __name__ == "__main__":
    main()
