"""Patches of images: cropped, and with their colours changed at random.

Brightness, saturation, hue and contrast are affine maps of the colours of a patch, so that all four
together are one 3 × 3 matrix and one shift per patch.
"""

from __future__ import annotations

import numpy as np

from identikit.studies._torch import Tensor, torch

# How far colours change: those of the Inception networks, which Hénaff et al. 2019 follow. The
# paper gives none. Brightness is added; saturation and contrast are factors; hue is in turns.
BRIGHTNESS, SATURATION, HUE, CONTRAST = 32 / 255, 0.5, 0.2, 0.5

# Red, green, blue to luma and two chroma axes (YIQ).
_YIQ = np.array(
    [[0.299, 0.587, 0.114], [0.595716, -0.274453, -0.321263], [0.211456, -0.522591, 0.311135]]
)


# Projections on luma and on chroma, and the quarter turn of the chroma plane.
_PARTS = [np.diag([1.0, 0, 0]), np.diag([0.0, 1, 1]), [[0.0, 0, 0], [0, 0, -1], [0, 1, 0]]]
_LUMA, _CHROMA, _TURN = np.linalg.inv(_YIQ) @ np.array(_PARTS) @ _YIQ


def crop(images: Tensor, size: int, top: Tensor, left: Tensor) -> Tensor:
    """One square of each image, from row `top` and column `left`: (n, 3, size, size)."""
    windows = images.unfold(2, size, 1).unfold(3, size, 1)
    return windows[torch.arange(len(images)), :, top, left]


def recolour(
    patches: Tensor, brightness: Tensor, saturation: Tensor, hue: Tensor, contrast: Tensor
) -> Tensor:
    """Patches with changed colours, clipped to [0, 1].

    x ↦ c C (x − μ) + C μ + b with the mean colour μ of a patch and C = L + s (cos h I' + sin h J),
    where L projects on luma, I' on chroma, and J rotates chroma by a quarter turn. Brightness,
    saturation, hue and contrast are b, s, h/2π and c; (0, 1, 0, 1) leaves a patch unchanged.
    """
    x = patches.flatten(2)
    luma, chroma, turn = (torch.from_numpy(part).to(x) for part in (_LUMA, _CHROMA, _TURN))
    angle, s, c = (of[:, None, None] for of in (2 * torch.pi * hue, saturation, contrast))
    colour = luma + s * (angle.cos() * chroma + angle.sin() * turn)
    shift = (1 - c) * (colour @ x.mean(-1, keepdim=True)) + brightness[:, None, None]
    return torch.baddbmm(shift, c * colour, x).clamp(0, 1).view(patches.shape)


def jitter(patches: Tensor, generator: torch.Generator) -> Tensor:
    """Patches with random brightness, saturation, hue and contrast, independent for each."""
    u = 2 * torch.rand(4, len(patches), generator=generator) - 1
    return recolour(
        patches, BRIGHTNESS * u[0], 1 + SATURATION * u[1], HUE * u[2], 1 + CONTRAST * u[3]
    )


def random_pair(
    batch: tuple[Tensor, ...], generator: torch.Generator, size: int
) -> tuple[Tensor, Tensor]:
    """A random, jittered patch of the top half and one of the bottom half of each uint8 image."""
    (images,) = batch
    n, _, height, width = images.shape
    top = torch.randint(height // 2 - size + 1, (2, n), generator=generator)
    left = torch.randint(width - size + 1, (2, n), generator=generator)
    above, below = (
        jitter(crop(images, size, top[half] + half * (height // 2), left[half]) / 255, generator)
        for half in (0, 1)
    )
    return 2 * above - 1, 2 * below - 1


def centre_pair(images: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The centres of the top half and of the bottom half of each image, in its own colours."""
    half, left = images.shape[2] // 2, (images.shape[3] - size) // 2
    top = (half - size) // 2
    above, below = (
        images[:, :, at : at + size, left : left + size] / 127.5 - 1 for at in (top, top + half)
    )
    return above, below
