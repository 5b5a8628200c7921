"""Re-rendered dSprites: 64×64 images of a shape, given its size, orientation and place.

dSprites (google-deepmind/dsprites-dataset, Matthey et al. 2017, Apache-2.0) is 737,280 binary
images, one for every combination of its factors. The outlines in ``dsprites_outlines.npz``, also
under Apache-2.0, were measured on 320 of its frames. They are not the original files, but they
reproduce the images, most of them exactly; images drawn from them are called re-rendered.

A pixel belongs to a shape if, after rotating and scaling it back, it lies within the outline: half
a side of the square, and radii at equal steps of the angle for the ellipse (over a quarter turn)
and the heart (over a half turn from the notch to the tip); the rest follows by symmetry.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

FACTORS = ("shape", "scale", "orientation", "posX", "posY")
SIZES = (3, 6, 40, 32, 32)
SHAPES = ("square", "ellipse", "heart")
SIDE = 64
# The largest shape, with half a diagonal of 13.6 pixels, stays this near to its centre.
REACH = 14
# Images that are drawn at a time.
BLOCK = 2000


@cache
def outlines() -> dict[str, Array]:
    """The tables: radii of `ellipse` and `heart`, `square_half`, `center0` and `span` of places."""
    with np.load(Path(__file__).with_name("dsprites_outlines.npz"), allow_pickle=False) as tables:
        return {name: tables[name] for name in tables.files}


def classes_of(index: NDArray[Any]) -> NDArray[np.intp]:
    """The classes (n, 5) of images by their place in dSprites, the last factor running fastest."""
    return np.stack(np.unravel_index(index, SIZES), axis=1)


def render(classes: NDArray[Any]) -> NDArray[np.uint8]:
    """Images (n, 64, 64) of zeros and ones, by classes (n, 5) counted from 0 (`FACTORS`, `SIZES`).

    >>> render(np.array([[0, 0, 0, 0, 0]])).sum()  # a square of 10 by 10 pixels
    np.uint64(100)
    """
    classes = np.asarray(classes)
    if classes.ndim != 2 or classes.shape[1] != len(SIZES):
        raise InputError(f"classes have the shape {classes.shape}; expected (n, {len(SIZES)})")
    if classes.size and not (np.all(classes >= 0) and np.all(classes < SIZES)):
        row, column = np.argwhere((classes < 0) | (classes >= SIZES))[0]
        raise InputError(
            f"row {row} has {FACTORS[column]} {classes[row, column]}; expected 0 to "
            f"{SIZES[column] - 1}"
        )
    blocks = range(0, len(classes), BLOCK)
    images = np.zeros((len(classes), SIDE, SIDE), np.uint8)
    for at in blocks:
        _draw(images[at : at + BLOCK], classes[at : at + BLOCK].astype(np.intp))
    return images


def _draw(images: NDArray[np.uint8], classes: NDArray[np.intp]) -> None:
    """Set the pixels that are within, looking only around the centre."""
    tables = outlines()
    shape, scale, turn, *place = classes.T
    x, y = (tables["center0"] + tables["span"] * p / (SIZES[-1] - 1) for p in place)
    window = np.arange(-REACH, REACH + 2)
    columns, rows = (np.floor(c).astype(np.intp)[:, None] + window for c in (x, y))
    size = (0.5 + 0.1 * scale)[:, None, None]
    u = (columns - x[:, None])[:, None, :] / size
    v = (rows - y[:, None])[:, :, None] / size
    # A whole turn in 39 steps: the last orientation is the first again, as in dSprites.
    angle = (2 * np.pi * turn / (SIZES[2] - 1))[:, None, None]
    across = np.abs(np.cos(angle) * u - np.sin(angle) * v)
    down = np.sin(angle) * u + np.cos(angle) * v
    inside = np.maximum(across, np.abs(down)) <= tables["square_half"]
    radius = np.hypot(across, down)
    for kind, name, along in ((1, "ellipse", np.abs(down)), (2, "heart", -down)):
        own = shape == kind
        table = tables[name]
        # Angles from the long half axis of the ellipse, and from the notch of the heart.
        if name == "ellipse":
            angles, whole = np.arctan2(along[own], across[own]), np.pi / 2
        else:
            angles, whole = np.arctan2(across[own], along[own]), np.pi
        reach = np.interp(angles, np.linspace(0, whole, len(table)), table)
        inside[own] = radius[own] <= reach
    one = np.arange(len(images))[:, None, None]
    images[one, rows[:, :, None], columns[:, None, :]] = inside


def images(classes: NDArray[Any]) -> NDArray[np.float32]:
    """Re-rendered images as rows of 32² means over four pixels each."""
    half = SIDE // 2
    grey = render(classes).reshape(-1, half, 2, half, 2).mean(axis=(2, 4), dtype=np.float32)
    return np.asarray(grey.reshape(len(classes), -1))


def truth(classes: NDArray[Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The factors as classes, and those that are quantities as numbers."""
    import pandas as pd

    table = pd.DataFrame(np.asarray(classes, dtype=np.int64), columns=list(FACTORS))
    turns = SIZES[2] - 1
    angle = 2 * np.pi * table["orientation"] / turns
    numbers = table[["scale", "posX", "posY"]].astype(float)
    numbers = numbers.assign(cos_orientation=np.cos(angle), sin_orientation=np.sin(angle))
    shape = np.array(SHAPES)[table["shape"]]
    return table.assign(shape=shape, orientation=table["orientation"] % turns), numbers
