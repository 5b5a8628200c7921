"""Re-rendered dSprites: against real frames, the packed file, and areas in closed form."""

from __future__ import annotations

import zipfile
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from conftest import close
from identikit.errors import InputError
from identikit.studies._dsprites import BLOCK, SIZES, classes_of, images, outlines, render, truth

FOLDER = "dsprites_rerendered"


def unpacked(rows: np.ndarray) -> np.ndarray:
    return np.unpackbits(rows, axis=1).reshape(-1, 64, 64)


def test_held_out_real_images(data_dir: Path) -> None:
    """The README of the data: 71 of 100 real images pixel for pixel, 93 within one pixel."""
    with np.load(data_dir / FOLDER / "real_images_420.npz", allow_pickle=False) as real:
        ours, theirs = render(real["samples_factors_fitted"]), unpacked(real["samples_packed"])
        apart = (ours != theirs).sum(axis=(1, 2))
        np.testing.assert_array_equal(apart, real["samples_pixel_mismatch"])
        assert ((apart == 0).sum(), (apart <= 1).sum(), apart.max()) == (71, 93, 7)
        # The frames that the outlines were measured on.
        apart = (render(real["gif_factors"]) != unpacked(real["gif_packed"])).sum(axis=(1, 2))
        assert ((apart == 0).sum(), apart.max()) == (310, 2)


def test_the_packed_file(data_dir: Path) -> None:
    path = data_dir / FOLDER / "dsprites_rerendered_60k_packed.npz"
    with np.load(path, allow_pickle=False) as file:
        rows = slice(None, None, 15)
        classes = file["latents_classes"][rows, 1:]
        np.testing.assert_array_equal(classes_of(file["index"][rows]), classes)
        np.testing.assert_array_equal(render(classes), unpacked(file["packed"][rows]))


def test_the_tables_are_those_of_the_data_folder(data_dir: Path) -> None:
    with np.load(data_dir / FOLDER / "shape_tables.npz", allow_pickle=False) as file:
        assert set(file.files) == set(outlines())
        for name, table in outlines().items():
            np.testing.assert_array_equal(table, file[name])


def test_classes_run_over_all_images() -> None:
    assert np.prod(SIZES) == 737_280
    last = classes_of(np.array([0, 1, 32, 737_279]))
    assert last.tolist() == [
        [0, 0, 0, 0, 0],
        [0, 0, 0, 0, 1],
        [0, 0, 0, 1, 0],
        [2, 5, 39, 31, 31],
    ]


def test_areas() -> None:
    """Of the outline, in pixels: (2 s h)² of the square, s² ∫ r² dφ/2 of the others."""
    tables = outlines()
    areas = [4 * float(tables["square_half"]) ** 2]
    for name, whole in (("ellipse", np.pi / 2), ("heart", np.pi)):
        outline = tables[name]
        wedge = np.trapezoid(outline**2 / 2, np.linspace(0, whole, len(outline)))
        areas.append(float(wedge) * 2 * np.pi / whole)
    rng = np.random.default_rng(0)
    for shape, area in enumerate(areas):
        for scale in (0, 5):
            classes = rng.integers(0, SIZES, size=(200, 5))
            classes[:, :2] = shape, scale
            pixels = render(classes).sum(axis=(1, 2)).mean()
            assert abs(pixels / ((0.5 + 0.1 * scale) ** 2 * area) - 1) < 0.02


def test_place_and_turns() -> None:
    """The mean over a shape is at its place; symmetric turns give the same image."""
    rng = np.random.default_rng(1)
    classes = rng.integers(0, SIZES, size=(300, 5))
    classes[:, 0] = rng.integers(0, 2, size=300)  # the middle of a heart is not its centroid
    images = render(classes).astype(float)
    grid = np.arange(64)
    for axis, place in ((1, classes[:, 3]), (2, classes[:, 4])):
        weights = images.sum(axis=axis)
        middle = weights @ grid / weights.sum(axis=1)
        assert np.abs(middle - (15.5 + 32 * place / 31)).max() < 0.5
    # 39 steps are a whole turn: a third of it leaves none of the shapes as it is.
    first, last, third = (classes * [1, 1, 0, 1, 1] + [0, 0, turn, 0, 0] for turn in (0, 39, 13))
    np.testing.assert_array_equal(render(first), render(last))
    assert (render(first) != render(third)).any(axis=(1, 2)).all()


def test_many_and_none() -> None:
    classes = np.random.default_rng(2).integers(0, SIZES, size=(BLOCK + 3, 5)).astype(np.uint8)
    images = render(classes)
    assert images.dtype == np.uint8
    np.testing.assert_array_equal(images[-5:], render(classes[-5:]))
    assert render(classes[:0]).shape == (0, 64, 64)


@pytest.mark.parametrize("bad", [[0, 6, 0, 0, 0], [0, -1, 0, 0, 0]])
def test_a_class_that_there_is_not(bad: list[int]) -> None:
    with pytest.raises(InputError, match=r"row 1 has scale -?\d; expected 0 to 5"):
        render(np.array([[0, 0, 0, 0, 0], bad]))


def test_a_shape_that_will_not_do() -> None:
    with pytest.raises(InputError, match=r"the shape \(1, 6\); expected \(n, 5\)"):
        render(np.zeros((1, 6), int))


def test_the_tables_are_part_of_the_package() -> None:
    path = files("identikit.studies") / "dsprites_outlines.npz"
    assert path.is_file()
    with path.open("rb") as file:
        assert zipfile.is_zipfile(file)
    assert len(path.read_bytes()) < 5000


def test_images_are_means_of_four_pixels() -> None:
    classes = np.array([[2, 5, 7, 3, 20], [0, 0, 0, 0, 0]])
    grey, whole = images(classes).reshape(2, 32, 32), render(classes)
    assert grey.dtype == np.float32
    close(grey[0, 20, 10], whole[0, 40:42, 20:22].mean(), 0)
    close(4 * grey.sum((1, 2)), whole.sum((1, 2)), 1e-3)


def test_factors_as_classes_and_as_numbers() -> None:
    classes, numbers = truth(np.array([[0, 1, 39, 4, 5], [2, 0, 13, 31, 0]], np.uint8))
    assert list(classes["shape"]) == ["square", "heart"]
    assert list(classes["orientation"]) == [0, 13]
    assert list(classes["posY"]) == [5, 0]
    turns = numbers[["cos_orientation", "sin_orientation"]].to_numpy()
    close(turns, [[1, 0], [-0.5, 0.75**0.5]], 1e-12)
    assert list(numbers)[:3] == ["scale", "posX", "posY"]
