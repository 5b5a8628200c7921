"""How much a compressed file may claim to hold before it is believed to be a trap."""

from __future__ import annotations

from identikit.errors import InputError

#: What is unpacked whole in memory is refused if it is larger than this and unpacks to more than
#: so many times its size. Embeddings are noise: they hardly get smaller.
LARGEST_UNPACKED = 2**30
MOST_UNPACKED = 100


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
