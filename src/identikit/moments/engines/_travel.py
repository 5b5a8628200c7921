"""What goes to workers as it is, and what has to be sent by its rows."""

from __future__ import annotations

import pickle

from identikit.sources import open_source

#: Bytes of a recipe, or of anything else, that nobody minds sending often.
SMALL = 2**20

#: A recipe that is larger than this share of its rows holds them itself.
SHARE = 1 / 8


def travels(view: object) -> bool:
    """Whether workers open this for themselves: a path, or a recipe that does not hold its rows."""
    if isinstance(view, str):
        return True
    if not hasattr(view, "open_source"):
        return False
    size = packed_size(view)
    if size is None or size <= SMALL:
        return size is not None
    source = open_source(view)
    try:
        return size <= SHARE * source.rows * source.width * source.read(0, 1).itemsize
    finally:
        source.close()


def packed_size(thing: object) -> int | None:
    """Bytes of what would be sent; None for what cannot be sent at all."""
    arrays: list[pickle.PickleBuffer] = []  # which are measured without a copy
    try:
        rest = pickle.dumps(thing, protocol=5, buffer_callback=arrays.append)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return len(rest) + sum(memoryview(array).nbytes for array in arrays)
