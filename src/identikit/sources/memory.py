"""Limits on memory: for compressed files that may be malicious, and for arrays read whole."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from identikit.errors import InputError

#: Data that is unpacked whole in memory is refused if it is larger than LARGEST_UNPACKED and more
#: than MOST_UNPACKED times its packed size. Embeddings are close to noise and hardly compress.
LARGEST_UNPACKED = 2**30
MOST_UNPACKED = 100

#: Bytes of the rows that are read at once, where the format leaves the choice.
PIECE_BYTES = 4 * 2**20
#: Bytes of the largest array that is unpacked in memory; a larger one is unpacked to disk.
IN_MEMORY = 2**26
#: Bytes of the longest row of a text file; anything longer cannot be a row of a table.
LARGEST_RECORD = 64 * 2**20

#: Copies in memory of an array that is read whole: as stored, as float64, and intermediate results.
COPIES = 4


def check_unpacked(unpacked: int, packed: int, what: str, label: str) -> None:
    """Refuse to unpack data in memory that is much larger than the bytes it comes from.

    `unpacked` is the declared number of bytes, `packed` the stored one; `what` would be unpacked.
    """
    if unpacked > LARGEST_UNPACKED and unpacked > MOST_UNPACKED * packed:
        raise InputError(
            f"{label}: {what} would unpack {packed} bytes to {unpacked} in memory, which only a "
            "damaged or malicious file does; save it without compression or in smaller chunks"
        )


def default_memory() -> int:
    """Half of the memory that this process may use, in bytes."""
    import psutil

    return min(int(psutil.virtual_memory().total), *container_limits()) // 2


def container_limits(root: Path = Path("/")) -> list[int]:
    """The memory limits that control groups set, as containers do; always at least one number.

    The process's own group and every group above it may set a limit, and the smallest one counts.
    """
    limits = [sys.maxsize]
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return limits
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        version_2 = not controllers
        top = root / ("sys/fs/cgroup" if version_2 else "sys/fs/cgroup/memory")
        name = "memory.max" if version_2 else "memory.limit_in_bytes"
        own = top / path.strip("/")
        for folder in (own, *own.parents):
            if folder == top or top in folder.parents:
                with suppress(OSError, ValueError):  # "max", or no such file
                    limits.append(int((folder / name).read_text(encoding="utf-8")))
    return limits


def check_whole(numbers: int, label: str, memory: int | None = None) -> None:
    """Refuse to read an array at once if it does not fit into memory, before any of it is read.

    `memory` is the budget in bytes; half of the machine's memory by default.
    """
    needed, budget = 8 * COPIES * numbers, default_memory() if memory is None else memory
    if needed > budget:
        raise InputError(
            f"{label} holds {numbers:,} numbers, which are needed at once and would take "
            f"{needed / 1e6:,.1f} MB of memory including the work on them; the budget is "
            f"{budget / 1e6:,.1f} MB: give fewer rows or columns, or a larger memory budget"
        )
