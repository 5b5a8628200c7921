"""Images of an object in a room, drawn by a ray caster: a world like the data set 3D Shapes.

Six factors decide a scene: the hues of floor, wall and object, and the object's scale, shape and
orientation (Burgess and Kim 2018). Which surface a pixel shows, and how bright it is, depends only
on the last three, so all 480 combinations of them are drawn once. Colours are then filled in, so
that an image costs a look-up and a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.worlds._mixing import whole
from identikit.worlds._world import Assumption, Promise, Sample, World

FACTORS = ("floor_hue", "wall_hue", "object_hue", "scale", "shape", "orientation")
#: How many values each factor has; together they make 480,000 scenes.
SIZES = (10, 10, 10, 8, 4, 15)
SHAPES = ("cube", "cylinder", "sphere", "capsule")
HUES = np.arange(10) / 10
SCALES = np.linspace(0.75, 1.25, SIZES[3])
#: Turns of the camera around the object, in degrees.
ORIENTATIONS = np.linspace(-30, 30, SIZES[5])
# The room is square with its centre at the origin, and z points up. Lengths are in units of the
# object, which has a radius of about 1.
WALL, CAMERA, HEIGHT, TARGET, FOCUS = 3.6, 6.5, 3.4, 0.9, 2.5
LIGHT = np.array([1.5, -3.0, 7.0])
AMBIENT, SHADOW = 0.45, 0.55
#: Images that are coloured at a time, and the largest ratio of steps that counts as isometric.
BLOCK, ISOMETRIC = 2000, 1.5
Hit = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class Shapes3D(World):
    """Images of one object in a room, with six independent factors, uniform over their values.

    They are in the style of 3D Shapes (Burgess and Kim 2018, github.com/google-deepmind/3d-shapes),
    with the same factors and numbers of values, but drawn by a ray caster of our own: hues of the
    floor, the wall and the object (10 each), the object's scale (8) and shape (cube, cylinder,
    sphere, capsule), and the orientation (15), for which the camera moves around the object by −30°
    to 30°. `latents` are the values of the factors (a shape's is its number), and `observations`
    the pixels, from 0 to 1.

    Parameters
    ----------
    side : int
        Height and width of the images; those of 3D Shapes have 64. Each pixel is the mean of four
        rays. The first image of a size takes some seconds, the others are quick.

    Examples
    --------
    >>> world = Shapes3D(side=16)
    >>> world.sample(100, seed=1).observations.shape
    (100, 768)
    >>> world.images([[0, 3, 6, 7, 2, 7]]).shape  # a large sphere, seen from the front
    (1, 16, 16, 3)
    """

    side: int = 64
    #: The names of the factors, in the order of `latents`, and how many values each has.
    factors: ClassVar[tuple[str, ...]] = FACTORS
    sizes: ClassVar[tuple[int, ...]] = SIZES

    def __post_init__(self) -> None:
        whole(self.side, "side", 4)

    @property
    def D(self) -> int:  # noqa: N802
        """The number of observations: pixels times colours."""
        return 3 * self.side**2

    def images(self, classes: ArrayLike) -> NDArray[np.float32]:
        """Draw images (rows, side, side, 3) with values from 0 to 1.

        Parameters
        ----------
        classes : array (rows, 6)
            The place of each factor's value, counted from 0, in the order of `factors`.
        """
        places = _checked(classes)
        colours = colour(HUES)
        images = np.empty((len(places), self.side, self.side, 3), np.float32)
        for at in range(0, len(places), BLOCK):
            own = places[at : at + BLOCK]
            # (rows, surfaces, side, side): how bright a surface is in each pixel.
            shades = surfaces(self.side)[tuple(own[:, 3:].T)]
            for channel in range(3):
                lit = shades * colours[own[:, :3], channel][:, :, None, None]
                images[at : at + BLOCK, :, :, channel] = lit.sum(axis=1)
        return images

    def values(self, classes: ArrayLike) -> Array:
        """The values (rows, 6) of the factors: hues, scale, number of the shape, degrees."""
        places = _checked(classes)
        tables = (HUES, HUES, HUES, SCALES, np.arange(len(SHAPES)), ORIENTATIONS)
        return np.stack([table[place] for table, place in zip(tables, places.T)], 1).astype(float)

    def _draw(self, rows: int, rng: np.random.Generator) -> Sample:
        classes = rng.integers(SIZES, size=(rows, len(SIZES)))
        return Sample(self.values(classes), self.images(classes).reshape(rows, -1))

    @property
    def identified(self) -> tuple[Promise, ...]:
        """What theory promises an autoencoder followed by ICA: nothing, for the reasons given."""
        why = (
            "hues are circles and shapes have no order, so that images are no nearly isometric "
            "function of six independent numbers, which Theorem 3 of Nelson et al. 2026 assumes"
        )
        return (Promise("autoencoder, then ICA", None, why),)

    def _assumptions(self, rows: int, seed: int) -> list[Assumption]:
        rng = np.random.default_rng(seed)
        rows = min(rows, 500)
        classes = rng.integers(SIZES, size=(rows, len(SIZES)))
        here, ratios, least = self.images(classes), [], np.inf
        for factor, count in enumerate(SIZES):
            other = classes.copy()
            # One step up, or down from the last value.
            other[:, factor] += np.where(classes[:, factor] < count - 1, 1, -1)
            steps = np.sqrt(((self.images(other) - here) ** 2).sum(axis=(1, 2, 3)))
            least = min(least, float(steps.min()))
            ratios.append(float(steps.max() / max(steps.min(), 1e-12)))
        worst = int(np.argmax(ratios))
        says = (
            f"a step of {FACTORS[worst]} moves some images {ratios[worst]:.3g} times as far as "
            "others"
        )
        seen = "a step of any factor changes the image"
        hidden = "a step of some factor leaves the image unchanged"
        return [
            Assumption("injective", least > 0, least, "> 0", seen if least > 0 else hidden),
            Assumption("isometry", ratios[worst] <= ISOMETRIC, ratios[worst],
                f"≤ {ISOMETRIC:g}", says),
        ]  # fmt: skip


def _checked(classes: ArrayLike) -> NDArray[np.intp]:
    places = np.asarray(classes)
    if places.ndim != 2 or places.shape[1] != len(SIZES) or places.dtype.kind not in "iu":
        raise InputError(
            f"the classes have the shape {places.shape} and the type {places.dtype}; expected rows "
            f"of {len(SIZES)} whole numbers"
        )
    wrong = (places < 0) | (places >= SIZES)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise InputError(
            f"row {row} has {FACTORS[column]} {places[row, column]}; expected 0 to "
            f"{SIZES[column] - 1}"
        )
    return places.astype(np.intp)


def colour(hue: Array) -> Array:
    """Red, green and blue (…, 3) of full colours by hue: 0 is red, ⅓ green, ⅔ blue."""
    around = (hue[..., None] * 6 + np.array([0.0, 4.0, 2.0])) % 6
    return np.asarray(np.clip(np.abs(around - 3) - 1, 0, 1))


@cache
def surfaces(side: int) -> NDArray[np.float32]:
    """How bright floor, wall and object are in each pixel, for all 480 ways to draw an object.

    The axes are scale, shape, orientation, surface (floor, wall, object), row and column. A surface
    that a pixel does not show has brightness 0; a pixel at an edge shows parts of several.
    """
    found = np.zeros((*SIZES[3:], 3, side, side), np.float32)
    for turn, degrees in enumerate(ORIENTATIONS):
        eye, rays = camera(np.deg2rad(degrees), 2 * side)
        room, normal, is_wall = walls(eye, rays)
        points = eye + room[:, None] * rays
        bright = brightness(points, normal)
        to_light = LIGHT - points
        for place in np.ndindex(SIZES[3:5]):
            shape, scale = BODIES[place[1]], SCALES[place[0]]
            near, outward = shape(np.broadcast_to(eye, rays.shape), rays, scale)
            is_body = near < room
            shaded = shape(points + 1e-6 * normal, to_light, scale)[0] < 1
            light = np.where(shaded, SHADOW, 1.0) * bright
            at = np.where(is_body, near, 0.0)[:, None]
            own = brightness(eye + at * rays, outward)
            shows = (~is_wall & ~is_body, is_wall & ~is_body, is_body)
            each = np.stack([np.where(show, own if show is shows[2] else light, 0.0)
                             for show in shows])  # fmt: skip
            each = each.reshape(3, side, 2, side, 2).mean(axis=(2, 4))
            found[place[0], place[1], turn] = each
    found.flags.writeable = False
    return found


def camera(angle: float, pixels: int) -> Hit:
    """The place of the camera at an angle around the object, and unit rays through its pixels."""
    eye = np.array([CAMERA * np.sin(angle), -CAMERA * np.cos(angle), HEIGHT])
    ahead = np.array([0, 0, TARGET]) - eye
    ahead /= np.linalg.norm(ahead)
    right = np.cross(ahead, [0, 0, 1.0])
    right /= np.linalg.norm(right)
    up = np.cross(right, ahead)
    grid = ((np.arange(pixels) + 0.5) / pixels * 2 - 1) / FOCUS
    down, across = (part.ravel()[:, None] for part in np.meshgrid(grid, grid, indexing="ij"))
    rays = ahead + across * right - down * up
    return eye, rays / np.linalg.norm(rays, axis=1, keepdims=True)


def brightness(points: Array, normal: Array) -> Array:
    """Lambert's law for a lamp, with some light from everywhere."""
    light = LIGHT - points
    cosine = (light * normal).sum(1) / np.linalg.norm(light, axis=1)
    return np.asarray(AMBIENT + (1 - AMBIENT) * np.clip(cosine, 0, None))


def walls(eye: Array, rays: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Where rays meet the room: distance, inward normal, and whether it is a wall."""
    with np.errstate(divide="ignore"):
        far = np.stack(
            [(np.sign(ray) * WALL - start) / ray for start, ray in zip(eye[:2], rays.T)]
            + [np.where(rays[:, 2] < 0, -eye[2] / rays[:, 2], np.inf)],
            axis=1,
        )
    axis = far.argmin(axis=1)
    normal = np.zeros_like(rays)
    each = np.arange(len(rays))
    normal[each, axis] = -np.sign(rays[each, axis])
    return far.min(axis=1), normal, axis < 2


# Bodies stand on the floor at the origin. Each function gives the smallest t > 0 at which
# start + t·ray is on the surface, infinite if there is none, and the outward normal there.


def cube(start: Array, rays: Array, scale: float) -> Hit:
    """A cube with two sides that face the front wall at orientation 0."""
    half = 0.85 * scale
    begin = start - [0, 0, half]
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = np.sort([(-half - begin) / rays, (half - begin) / rays], axis=0)
    axis = low.argmax(axis=1)
    t = low.max(axis=1)
    normal = np.zeros_like(rays)
    each = np.arange(len(rays))
    normal[each, axis] = -np.sign(rays[each, axis])
    return np.where((t <= high.min(axis=1)) & (t > 0), t, np.inf), normal


def cylinder(start: Array, rays: Array, scale: float) -> Hit:
    """An upright cylinder."""
    radius, top = 0.85 * scale, 1.7 * scale
    side = _enter(start[:, :2], rays[:, :2], radius)
    height = start[:, 2] + side * rays[:, 2]
    side = np.where((height >= 0) & (height <= top), side, np.inf)
    with np.errstate(divide="ignore"):
        lid = (top - start[:, 2]) / rays[:, 2]
    flat = start[:, :2] + lid[:, None] * rays[:, :2]
    lid = np.where((lid > 0) & ((flat**2).sum(1) <= radius**2), lid, np.inf)
    t = np.minimum(side, lid)
    point = start + np.where(np.isfinite(t), t, 0)[:, None] * rays
    round_ = point * [1, 1, 0] / radius
    return t, np.where((lid < side)[:, None], [0.0, 0.0, 1.0], round_)


def sphere(start: Array, rays: Array, scale: float) -> Hit:
    """A sphere."""
    return _capsule(start, rays, 0.95 * scale, 0.0)


def capsule(start: Array, rays: Array, scale: float) -> Hit:
    """A lying cylinder with round ends, all points near a segment of the x axis."""
    return _capsule(start, rays, 0.6 * scale, 0.7 * scale)


def _capsule(start: Array, rays: Array, radius: float, reach: float) -> Hit:
    begin = start - [0, 0, radius]
    side = _enter(begin[:, 1:], rays[:, 1:], radius)
    with np.errstate(invalid="ignore"):
        within = np.abs(begin[:, 0] + side * rays[:, 0]) <= reach
    ends = [_enter(begin - [end, 0, 0], rays, radius) for end in (-reach, reach)]
    t = np.minimum(np.where(within, side, np.inf), np.minimum(*ends))
    point = begin + np.where(np.isfinite(t), t, 0)[:, None] * rays
    point[:, 0] -= np.clip(point[:, 0], -reach, reach)
    return t, point / radius


def _enter(start: Array, rays: Array, radius: float) -> Array:
    """Where rays enter a circle or a sphere around the origin."""
    a, b = (rays**2).sum(1), (start * rays).sum(1)
    inside = b**2 - a * ((start**2).sum(1) - radius**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (-b - np.sqrt(np.maximum(inside, 0))) / a
    return np.where((inside >= 0) & (t > 0), t, np.inf)


BODIES: tuple[Callable[[Array, Array, Any], Hit], ...] = (cube, cylinder, sphere, capsule)
