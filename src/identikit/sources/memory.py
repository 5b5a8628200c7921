"""What may be in memory: of a compressed file that may be a trap, and of what is read whole."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from identikit.errors import InputError

#: What is unpacked whole in memory is refused if it is larger than this and unpacks to more than
#: so many times its size. Embeddings are noise: they hardly get smaller.
LARGEST_UNPACKED = 2**30
MOST_UNPACKED = 100

#: Bytes of a piece of rows that is read at once where the format leaves the choice.
PIECE_BYTES = 4 * 2**20
#: Bytes of an array that is unpacked in memory as a whole; a larger one is unpacked onto the disk.
IN_MEMORY = 2**26
#: Bytes of a row of a text file; a longer one is no row of a table.
LARGEST_RECORD = 64 * 2**20

#: Numbers in memory for each one that is read whole: as stored, as float64, and what is made of it.
COPIES = 4


def check_unpacked(unpacked: int, packed: int, what: str, label: str) -> None:
    """Refuse to unpack in memory what is much larger than the bytes it comes from.

    Parameters
    ----------
    unpacked, packed : int
        Bytes as declared, and as stored.
    what : str
        What it is, for the error.
    label : str
        What the error calls the file.
    """
    if unpacked > LARGEST_UNPACKED and unpacked > MOST_UNPACKED * packed:
        raise InputError(
            f"{label}: {what} would unpack {packed} bytes to {unpacked} in memory, as only a "
            "damaged or malicious file does; save it without compression or in smaller chunks"
        )


def default_memory() -> int:
    """Half of the memory that this process may have, in bytes."""
    import psutil

    return min(int(psutil.virtual_memory().total), *container_limits()) // 2


def container_limits(root: Path = Path("/")) -> list[int]:
    """What control groups allow this process, as those of containers do; at least one number.

    Every group above a process's own may set a limit, and the smallest counts.

    Parameters
    ----------
    root : Path
        Where the system's files are.
    """
    limits = [sys.maxsize]
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:  # no Linux
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
    """Refuse to read at once what does not fit the memory, before any of it is read.

    Parameters
    ----------
    numbers : int
        How many there are, as declared.
    label : str
        What the error calls what holds them.
    memory : int, optional
        The budget in bytes; half of the machine's memory by default.
    """
    needed, budget = 8 * COPIES * numbers, default_memory() if memory is None else memory
    if needed > budget:
        raise InputError(
            f"{label} holds {numbers:,} numbers, which are needed at once and would take "
            f"{needed / 1e6:,.1f} MB of memory with the work on them; the budget is "
            f"{budget / 1e6:,.1f} MB: give fewer rows or columns, or a larger memory budget"
        )
