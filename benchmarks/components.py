"""What matching the dictionaries of two sparse autoencoders costs, against what it cannot avoid.

python benchmarks/components.py [--quick] [--check]

16,384 × 16,384 atoms of 768 coordinates, float32, of which 70 % are shared. The floor is the
product that forms the similarities plus SciPy's assignment of them. --quick takes 2,048 atoms,
where the draws of the chance level, whose number does not depend on the atoms, take the most time.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

from identikit.axes import match_components
from table import arguments, finish, record, timed

WIDTH, SHARED, NOISE = 768, 0.7, 0.7

MEMORY = """
import re, sys
import numpy, pandas, scipy.optimize, scipy.sparse.csgraph, scipy.special
from identikit.axes import match_components
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
before = peak()
found = match_components(sys.argv[2:], memory=int(float(sys.argv[1])))
print(peak() - before, found.methods[0], found.gap)
"""


def dictionaries(atoms: int) -> list[np.ndarray]:
    """Two dictionaries that share most of their atoms, up to noise and order."""
    rng = np.random.default_rng(0)
    shared, out = rng.standard_normal((atoms, WIDTH), np.float32), []
    count = int(SHARED * atoms)
    for _ in range(2):
        own = rng.standard_normal((atoms, WIDTH), np.float32)
        own[:count] = shared[:count] + np.float32(NOISE) * own[:count]
        out.append(own[rng.permutation(atoms)])
    return out


def main() -> None:
    """Run everything and print a table in Markdown at the end."""
    options = arguments(__doc__, "2,048 atoms")
    atoms, repeats = (2048, 3) if options.quick else (16384, 1)
    pair = dictionaries(atoms)
    units = [run / np.linalg.norm(run, axis=1, keepdims=True) for run in pair]
    similarities = units[0] @ units[1].T
    product = timed(lambda: units[0] @ units[1].T, repeats)
    values = []

    def assignment() -> None:
        rows, columns = linear_sum_assignment(similarities, maximize=True)
        values.append(float(similarities[rows, columns].sum()))

    assigning = timed(assignment, repeats, warm_up=options.quick)
    what, larger = f"{atoms:,} × {atoms:,} atoms", max(product, assigning)
    print(
        f"  product {product:.2f} s, assignment {assigning:.2f} s: the "
        f"{'product' if larger == product else 'assignment'} dominates"
    )
    bar = 10.0 if options.quick else 3.0
    for method in ("dense", "sparse"):
        found = []
        took = timed(
            lambda method=method, found=found: found.append(
                match_components(pair, assignment=method)
            ),
            repeats,
            warm_up=options.quick,
        )
        result = found[-1]
        record(what, f"{method}, over product + assignment", took / (product + assigning), "≤", bar)
        share = float(result.stability.sum()) / values[0]
        record(what, f"{method}, share of the best sum", share, "≥", 1 - max(result.gap, 1e-5))
        record(what, f"{method}, replicating", result.fraction, "≥", SHARED)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{name}.npy" for name in "ab"]
        for path, run in zip(paths, pair):
            np.save(path, run)
        # Too little for the dense matrix, by far.
        budget = 2 * atoms**2
        command = [sys.executable, "-c", MEMORY, str(budget), *map(str, paths)]
        done = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        grown, method, _ = re.split(r"\s+", done.strip())
        assert method == "sparse"
        record(what, f"{budget / 1e6:.0f} MB for similarities: MB grown", float(grown), "≤", 1000.0)
    finish(options.check)


if __name__ == "__main__":
    main()
