"""How far and how fast: reading from disk, workers, and how time grows with rows, views and width.

python benchmarks/scale.py [--quick] [--check]

Every figure is a ratio of two times measured in this run, on this machine. The whole run writes
5 GB of temporary files. --quick shrinks the data a hundredfold (to see that it runs).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from distributed import Client, LocalCluster
from threadpoolctl import threadpool_limits

import identikit as ik
from identikit.moments import _passes
from table import arguments, finish, record, timed

BUFFER = 16 * 2**20


def write(path: Path, rows: int, width: int, seed: int) -> Path:
    """A file of float32 numbers, written a block at a time."""
    rng = np.random.default_rng(seed)
    out = np.lib.format.open_memmap(path, "w+", np.float32, (rows, width))
    for start in range(0, rows, 100_000):
        part = out[start : start + 100_000]
        part[:] = rng.standard_normal(part.shape, dtype=np.float32)
    out.flush()
    return path


def pull(paths: list[Path]) -> None:
    """Read every byte and do nothing with it."""
    buffer = bytearray(BUFFER)
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def forget(paths: list[Path]) -> None:
    """Have the system drop what it keeps of these files."""
    for path in paths:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def gram(rows: int, width: int) -> Callable[[], object]:
    """The float64 Gram product of that many rows, in blocks that are in memory already."""
    block = np.random.default_rng(0).normal(size=(16_384, width))

    def run() -> None:
        for _ in range(-(-rows // len(block))):
            block.T @ block

    return run


PEAK = """
import re, sys
import identikit as ik
ik.accumulate(sys.argv[1:])
print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024)
"""


def peak(paths: list[Path]) -> float:
    """Largest memory of a process that accumulates these files, in MB."""
    command = [sys.executable, "-c", PEAK, *map(str, paths)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def streaming(folder: Path, rows: int) -> None:
    """Two files far larger than the memory that reading them takes."""
    paths = [write(folder / f"{name}.npy", rows, 64, number) for number, name in enumerate("ab")]
    few = [
        write(folder / f"{name}.npy", rows // 10, 64, number) for number, name in enumerate("cd")
    ]
    product = timed(gram(rows, 128), 3)
    what = f"{rows:,}×64 ×2 from .npy"
    for where, before in (("from disk", forget), ("in the system's cache", pull)):
        times: list[list[float]] = []
        for _ in range(3):
            times.append([])
            for job in (pull, ik.accumulate):
                before(paths)
                times[-1].append(timed(lambda job=job: job(paths), 1, warm_up=False))
        reading, ours = (min(column) for column in zip(*times))
        print(
            f"  {where}: ours {ours:.2f} s, reading {reading:.2f} s, Gram product {product:.2f} s"
        )
        ratio = ours / max(reading, product)
        record(what, f"over reading or product, {where}", ratio, "≤", 1.3)
    record(what, "peak memory over a tenth of the rows", peak(paths) / peak(few), "≤", 1.1)


def workers(folder: Path, rows: int) -> None:
    """One and two worker processes, with one BLAS thread each; the cluster is up already."""
    paths = [write(folder / f"{name}.npy", rows, 64, number) for number, name in enumerate("ab")]
    times = {}
    for count in (1, 2):
        with (
            LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                dashboard_address=None,
                local_directory=str(folder),
            ) as cluster,
            Client(cluster) as client,
        ):
            times[count] = timed(lambda client=client: ik.accumulate(paths, engine=client), 2)
            if count == 1:
                spans, _passes.SPANS_A_WORKER = _passes.SPANS_A_WORKER, (64, 64)
                many = timed(lambda client=client: ik.accumulate(paths, engine=client), 2)
                _passes.SPANS_A_WORKER = 1, 1
                one = timed(lambda client=client: ik.accumulate(paths, engine=client), 2)
                _passes.SPANS_A_WORKER = spans
    what = f"Dask, {rows:,}×64 ×2"
    record(what, "times faster with two workers", times[1] / times[2], "≥", 1.7)
    record(what, "time of 64 blocks over one", many / one, "≤", 1.1)


def growth(folder: Path, rows: int) -> None:
    """Time against rows, views at one total width, and width."""
    rng = np.random.default_rng(0)
    files = {
        n: [write(folder / f"{n}{name}.npy", n, 64, n) for name in "ab"] for n in (rows, 4 * rows)
    }
    times = {n: timed(lambda paths=paths: ik.accumulate(paths), 3) for n, paths in files.items()}
    doubling = (times[4 * rows] / times[rows]) ** 0.5
    record(f"{rows:,} to {4 * rows:,} rows", "time over doubled rows", doubling, "≤", 2.1)
    record(f"{rows:,} to {4 * rows:,} rows", "time over doubled rows", doubling, "≥", 1.9)
    X = rng.standard_normal((rows // 4, 512), dtype=np.float32)
    by_views = {
        k: timed(lambda k=k: ik.accumulate(np.split(X, k, axis=1)), 3) for k in (2, 4, 8, 16)
    }
    gain = (by_views[16] / by_views[2]) ** (1 / 3)
    record("2 to 16 views, 512 columns in all", "time over doubled views", gain, "≤", 1.1)
    by_width = {
        d: timed(lambda d=d: ik.accumulate([X[:, :d], X[:, d : 2 * d]]), 3) for d in (128, 256)
    }
    record(
        "2 views of 128 to 256 columns",
        "time over doubled width",
        by_width[256] / by_width[128],
        "≤",
        4,
    )


def ceiling() -> None:
    """How much faster two processes are than one, at nothing but the Gram product."""
    code = (
        "import numpy as np; b = np.random.default_rng(0).normal(size=(16384, 128))\n"
        "for _ in range(400): b.T @ b"
    )
    command, alone = [sys.executable, "-c", code], os.environ | {"OPENBLAS_NUM_THREADS": "1"}

    def run(count: int) -> None:
        for process in [subprocess.Popen(command, env=alone) for _ in range(count)]:
            process.wait()

    gain = 2 * timed(lambda: run(1), 2) / timed(lambda: run(2), 2)
    print(f"  two processes do {gain:.2f} times the Gram products of one on this machine")


def constants(rows: int) -> None:
    """What docs/scale.md reckons with: one core, two views of 1,024 columns."""
    views = [np.random.default_rng(v).standard_normal((rows, 1024), np.float32) for v in (0, 1)]
    with threadpool_limits(1):
        seconds = timed(lambda: ik.accumulate(views), 2)
        moments = ik.accumulate(views)
        compared = timed(lambda: ik.audit(moments), 1, warm_up=False)
    rate = rows * 2048 * 2049 / seconds
    print(f"  one core sums {rate / 1e9:.0f}e9 operations a second at 2,048 columns, and compares")
    print(f"  two views of 1,024 columns in {compared:.1f} s")


def main() -> None:
    """Run everything and print a table in Markdown at the end."""
    options = arguments(__doc__, "a hundredth of the rows")
    part = 100 if options.quick else 1
    for job in (
        lambda folder: streaming(folder, 10_000_000 // part),
        lambda folder: workers(folder, 10_000_000 // part),
        lambda folder: growth(folder, 1_000_000 // part),
    ):
        with tempfile.TemporaryDirectory() as folder:
            job(Path(folder))
    ceiling()
    constants(max(40_000 // part, 4_000))
    finish(options.check)


if __name__ == "__main__":
    main()
