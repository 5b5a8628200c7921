"""How close to the floor: every figure is a ratio of two times measured in this run, on this data.

python benchmarks/run.py [--quick] [--check]

The floor is the float64 Gram product of the stacked views by NumPy: no exact method that looks at
every row can do less. Beside it stands what people write by hand: QR and SVD in NumPy, per pair.
--quick shrinks the data twentyfold (to see that it runs); --check exits with 1 if a bar is missed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np

import identikit as ik
from table import arguments, finish, record, timed


def views(folder: Path, count: int, rows: int, width: int) -> list[Path]:
    """Files of float32 views that share half of their variance."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(rows, width)).astype(np.float32)
    paths = []
    for number in range(count):
        mix = rng.normal(size=(width, width)).astype(np.float32) / np.float32(np.sqrt(width))
        paths.append(folder / f"view{number}.npy")
        np.save(paths[-1], shared @ mix + rng.normal(size=(rows, width)).astype(np.float32))
    return paths


def by_hand(X: np.ndarray, Y: np.ndarray, *, everything: bool) -> list[float]:
    """CCA of one pair by QR and SVD; CKA and Procrustes too if `everything`."""
    X, Y = (A.astype(np.float64) for A in (X, Y))
    X, Y = X - X.mean(0), Y - Y.mean(0)
    (Qx, Rx), (Qy, Ry) = np.linalg.qr(X), np.linalg.qr(Y)
    Ux, Uy = np.linalg.svd(Rx)[0], np.linalg.svd(Ry)[0]
    values = [np.linalg.svd((Qx @ Ux).T @ (Qy @ Uy), compute_uv=False).mean()]
    if everything:
        cross, xx, yy = X.T @ Y, X.T @ X, Y.T @ Y
        norm = np.linalg.norm
        values.append(norm(cross) ** 2 / norm(xx) / norm(yy))
        values.append(norm(cross, "nuc") / norm(X) / norm(Y))
    return [float(value) for value in values]


def floor(paths: list[Path]) -> Callable[[], object]:
    """The Gram product of the stacked views, already in memory and in float64."""
    Z = np.concatenate([np.load(path) for path in paths], axis=1).astype(np.float64)
    return lambda: Z.T @ Z


def one_pair(
    folder: Path, rows: int, width: int, bars: tuple[float | None, float], repeats: int
) -> None:
    """Mean CCA of two views on disk."""
    paths = views(folder, 2, rows, width)
    what = f"mean CCA, {rows:,}×{width}"
    value = ik.cca(ik.accumulate(paths)).mean
    ours = timed(lambda: ik.cca(ik.accumulate(paths)).mean, repeats)
    least = timed(floor(paths), repeats)
    X, Y = (np.load(path) for path in paths)
    reference: list[float] = []
    hand = timed(lambda: reference.extend(by_hand(X, Y, everything=False)), 1)
    assert value is not None
    assert abs(value - reference[0]) < 1e-9, (value, reference)
    print(f"  ours {ours:.2f} s, floor {least:.2f} s, by hand {hand:.2f} s")
    if bars[0] is not None:
        record(what, "time over the floor", ours / least, "≤", bars[0])
    record(what, "times faster than QR+SVD", hand / ours, "≥", bars[1])


def all_pairs(folder: Path, count: int, rows: int, width: int, repeats: int) -> None:
    """CCA, CKA and Procrustes of all pairs of many views."""
    paths = views(folder, count, rows, width)
    pairs = list(combinations(range(count), 2))

    def ours() -> list[list[float | None]]:
        m = ik.accumulate(paths)
        return [[f(m, i, j).value for f in (ik.cca, ik.cka, ik.procrustes)] for i, j in pairs]

    loaded = [np.load(path) for path in paths]
    some = pairs[:: max(1, len(pairs) // 5)]
    values = ours()
    for i, j in some[:2]:
        expected = by_hand(loaded[i], loaded[j], everything=True)
        assert np.allclose(values[pairs.index((i, j))], expected, atol=1e-9)
    took, least = timed(ours, repeats), timed(floor(paths), repeats)
    hand = timed(lambda: [by_hand(loaded[i], loaded[j], everything=True) for i, j in some], 1)
    hand *= len(pairs) / len(some)  # every pair costs the same; five of them are measured
    what = f"{len(pairs)} pairs, {count}×{rows:,}×{width}"
    print(
        f"  ours {took:.2f} s, floor {least:.2f} s, by hand {hand:.1f} s (from {len(some)} pairs)"
    )
    record(what, "time over the floor", took / least, "≤", 1.8)
    record(what, "times faster than QR+SVD", hand / took, "≥", 10.0)


MEMORY = """
import re, sys
import numpy, scipy.linalg.blas
import identikit as ik
ik.accumulate, ik.cca
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
before = peak()
ik.cca(ik.accumulate(sys.argv[1:]))
print(peak() - before)
"""


def memory(folder: Path, rows: int, width: int) -> None:
    """Peak memory above the interpreter's, from files far larger than that."""
    rng = np.random.default_rng(0)
    paths = []
    for name in "ab":
        paths.append(folder / f"{name}.npy")
        out = np.lib.format.open_memmap(paths[-1], "w+", np.float32, (rows, width))
        for start in range(0, rows, 100_000):
            part = out[start : start + 100_000]
            part[:] = rng.standard_normal(part.shape, dtype=np.float32)
        out.flush()
        del out
    command = [sys.executable, "-c", MEMORY, *map(str, paths)]
    grown = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    record(f"peak memory, {rows:,}×{width} ×2", "MB above the interpreter's", grown, "≤", 600.0)


def start_up() -> None:
    """How long a user waits before anything happens."""
    for what, code, bar in [
        ("import identikit", ["-c", "import identikit"], 0.5),
        ("identikit --help", ["-m", "identikit", "--help"], 1.0),
    ]:
        command = [sys.executable, *code]
        run = lambda command=command: subprocess.run(command, check=True, capture_output=True)  # noqa: E731
        record(what, "seconds", timed(run, 5), "≤", bar)


def main() -> None:
    """Run everything and print a table in Markdown at the end."""
    options = arguments(__doc__, "a twentieth of the rows")
    part = 20 if options.quick else 1
    start_up()
    for job in (
        lambda folder: one_pair(folder, 10_000 if part == 1 else 2_000, 512, (None, 5.0), 5),
        lambda folder: one_pair(folder, 100_000 // part, 768, (1.5, 5.0), 3),
        lambda folder: all_pairs(folder, 10, 20_000 // part, 256, 3),
        lambda folder: memory(folder, 2_000_000 // part, 128),
    ):
        with tempfile.TemporaryDirectory() as folder:
            job(Path(folder))
    finish(options.check)


if __name__ == "__main__":
    main()
