"""Small pictures of one disc, drawn from four factors: place, size, and one of three colours.

Edges are soft, so that pixels change smoothly with every factor, and the disc is symmetric, so that
moving it across changes pixels in other directions than moving it up or making it larger. Which
colour is chosen decides whether the fourth factor is as independent of the size.
"""

from __future__ import annotations

import numpy as np

from identikit._linalg import Array

#: What the fourth factor is, and how far it is from moving pixels in a direction of its own:
#: "hue" shifts light from one channel to the other and keeps the sum of squares, so that its
#: direction is orthogonal to a change in size at every pixel; "channel" lights one channel and
#: leaves the other; "brightness" lights both, which a larger disc does as well.
COLOURS = ("hue", "channel", "brightness")
FACTORS = ("x", "y", "size", "colour")
#: As shares of the picture: how far the disc moves, its radii, and the softness of its edge.
MOVES, RADII, EDGE = 0.4, (0.12, 0.3), 0.0625


def sprites(z: Array, side: int, colour: str) -> Array:
    """Pictures (rows, 2 · side²) of two channels from 0 to 1, by factors from −½ to ½."""
    across, up, size, light = z.T[:, :, None, None]
    pixels = (np.arange(side) + 0.5) / side - 0.5
    distance = np.hypot(pixels - MOVES * across, pixels[:, None] - MOVES * up)
    radius = RADII[0] + (RADII[1] - RADII[0]) * (size + 0.5)
    disc = 1 / (1 + np.exp((distance - radius) / EDGE))
    strength = 0.65 + 0.7 * light
    if colour == "hue":
        channels = np.cos(np.pi / 4 + 1.2 * light), np.sin(np.pi / 4 + 1.2 * light)
    elif colour == "channel":
        channels = strength, np.ones_like(strength)
    else:
        channels = strength / 2**0.5, strength / 2**0.5
    return np.stack([channel * disc for channel in channels], axis=1).reshape(len(z), -1)


def sprite_jacobian(z: Array, side: int, colour: str, step: float = 1e-5) -> Array:
    """How pixels change with factors, (rows, 2 · side², 4), by central differences."""
    shifts = step * np.eye(z.shape[1])
    both = [[sprites(z + sign * shift, side, colour) for sign in (1, -1)] for shift in shifts]
    return np.stack([(above - below) / (2 * step) for above, below in both], axis=2)
