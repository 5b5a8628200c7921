"""What may be in memory: of a compressed file that may be a trap, and of what is read whole."""

from __future__ import annotations

import os

from identikit.errors import InputError

#: What is unpacked whole in memory is refused if it is larger than this and unpacks to more than
#: so many times its size. Embeddings are noise: they hardly get smaller.
LARGEST_UNPACKED = 2**30
MOST_UNPACKED = 100

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
        What the error shall call the file.
    """
    if unpacked > LARGEST_UNPACKED and unpacked > MOST_UNPACKED * packed:
        raise InputError(
            f"{label}: {what} would unpack {packed} bytes to {unpacked} in memory, as only a "
            "damaged or malicious file does; save it without compression or in smaller chunks"
        )


def default_memory() -> int:
    """Half of this machine's memory, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def check_whole(numbers: int, label: str, memory: int | None = None) -> None:
    """Refuse to read at once what does not fit the memory, before any of it is read.

    Parameters
    ----------
    numbers : int
        How many there are, as declared.
    label : str
        What the error shall call what holds them.
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
