"""Panels of studies: that the numbers drawn are those of the table."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conftest import close
from identikit.errors import InputError
from identikit.report import inline
from identikit.report.drawing import sheet
from identikit.report.style import PALETTE
from identikit.studies import curve, dots, heat_map, mean_interval, scatter_after_map


def drawn(draw: Any, *given: Any, **how: Any) -> Any:
    """The axes of a one-panel sheet, rendered once, so that what cannot be drawn raises."""
    figure = sheet([lambda ax: draw(ax, *given, **how)])
    figure.savefig(BytesIO(), format="png")
    assert "<svg" in inline(figure, "label", "salt")
    return figure.axes[0]


def table_of(seeds: int, rng: np.random.Generator) -> pd.DataFrame:
    rows = [
        {"seed": seed, "width": width, "law": law, "r2": rng.normal(width / 100, 0.1)}
        for law in ("vMF", "normal")
        for width in (100, 10, 1000)
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows)


def values_of(table: pd.DataFrame, law: str, width: int) -> list[float]:
    return list(table.loc[(table["law"] == law) & (table["width"] == width), "r2"])


def bars(container: Any) -> tuple[np.ndarray, list[np.ndarray]]:
    """Places and heights of the means, and the ends of the vertical bars that can be seen."""
    line, _, (lines,) = container
    segments = [
        each[:, 1] for each in lines.get_segments() if np.isfinite(each).all() and len(each)
    ]
    return np.column_stack(line.get_data()), segments


@pytest.mark.parametrize("log_x", [False, True])
def test_a_curve_is_the_mean_over_seeds_with_its_interval(rng: np.random.Generator, log_x: bool):
    table = table_of(5, rng)
    labels = {"vMF": "von Mises", "r2": "R²", "width": "classes"}
    ax = drawn(curve, table, "width", "r2", "law", labels, chance=0.25, log_x=log_x)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("classes", "R²")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["von Mises", "normal"]
    assert len(ax.containers) == 2
    for law, container in zip(("vMF", "normal"), ax.containers):
        points, ends = bars(container)
        expected = [mean_interval(values_of(table, law, width)) for width in (10, 100, 1000)]
        close(points, [(w, mean) for w, (mean, _) in zip((10, 100, 1000), expected)], 1e-12)
        close(ends, [interval for _, interval in expected], 1e-12)
    assert len({container[0].get_color() for container in ax.containers}) == 2
    (chance,) = [line for line in ax.lines if list(line.get_ydata()) == [0.25, 0.25]]
    assert chance.get_linestyle() == "--"
    assert "chance" in [text.get_text() for text in ax.texts]
    assert ax.get_xscale() == ("log" if log_x else "linear")
    if log_x:
        assert [text.get_text() for text in ax.get_xticklabels()] == ["10", "100", "1,000"]


def test_one_seed_has_a_mean_and_no_interval(rng: np.random.Generator):
    table = table_of(1, rng)
    for draw in (curve, dots):
        ax = drawn(draw, table, "width", "r2", by="law")
        for container, law in zip(ax.containers, ("vMF", "normal")):
            points, ends = bars(container)
            close(points[:, 1], [values_of(table, law, w)[0] for w in (10, 100, 1000)], 1e-12)
            assert ends == []
    # Without `by` there is one line, and no legend.
    ax = drawn(curve, table[table["law"] == "vMF"], "width", "r2")
    assert len(ax.containers) == 1
    assert ax.get_legend() is None


def test_what_is_missing_leaves_a_gap(rng: np.random.Generator):
    table = table_of(4, rng)
    table.loc[(table["law"] == "vMF") & (table["width"] == 100), "r2"] = np.nan
    table.loc[(table["law"] == "vMF") & (table["width"] == 10) & (table["seed"] == 0), "r2"] = (
        np.inf
    )
    for draw in (curve, dots):
        ax = drawn(draw, table, "width", "r2", by="law")
        points, ends = bars(ax.containers[0])
        first, last = values_of(table, "vMF", 10)[1:], values_of(table, "vMF", 1000)
        close(points[[0, 2], 1], [np.mean(first), np.mean(last)], 1e-12)
        assert np.isnan(points[1, 1])
        close(ends, [mean_interval(first)[1], mean_interval(last)[1]], 1e-12)


def test_rows_of_one_seed_are_no_further_seeds():
    table = pd.DataFrame(
        {"seed": [0, 0, 0, 1], "x": [1, 1, 1, 1], "y": [1.0, 2.0, 3.0, 4.0], "z": [0, 0, 0, 0]}
    )
    for draw in (curve, dots):
        points, ends = bars(drawn(draw, table, "x", "y").containers[0])
        assert points[0, 1] == 3
        close(ends, [mean_interval([2.0, 4.0])[1]], 1e-12)
    assert "3" in [text.get_text() for text in drawn(heat_map, table, "x", "z", "y").texts]


@pytest.mark.parametrize("nothing", [[], [None, None], [np.nan, np.inf]])
def test_where_there_is_nothing_the_panel_says_so(nothing: list[Any]):
    table = pd.DataFrame({"seed": range(len(nothing)), "x": len(nothing) * [1], "y": nothing})
    for ax in (
        drawn(curve, table, "x", "y", chance=0.5),
        drawn(dots, table, "x", "y"),
        drawn(heat_map, table, "x", "seed", "y"),
    ):
        assert [text.get_text() for text in ax.texts] == ["not computed"]
    ax = drawn(scatter_after_map, [[np.nan]], [[1.0]])
    assert [text.get_text() for text in ax.texts] == ["not computed"]


def test_a_zero_keeps_its_place_on_a_logarithmic_axis():
    table = pd.DataFrame({"seed": [0, 0, 0], "noise": [0.0, 0.01, 0.1], "y": [1.0, 2.0, 3.0]})
    ax = drawn(curve, table, "noise", "y", log_x=True)
    assert ax.get_xscale() == "symlog"
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0", "0.01", "0.1"]
    left, right = ax.get_xlim()
    assert left < 0 < 0.1 < right


def strokes(ax: Any) -> list[np.ndarray]:
    return [patch.get_path().vertices[::2] for patch in ax.patches]


def test_dots_are_the_seeds_beside_their_mean(rng: np.random.Generator):
    table = table_of(6, rng)
    table["width"] = table["width"].map(str)
    labels = {"100": "hundred"}
    ax = drawn(dots, table, "width", "r2", "law", labels, chance=0.1)
    # Words in the order in which they come.
    ticks = ["hundred", "10", "1000"]
    assert [text.get_text() for text in ax.get_xticklabels()] == ticks
    found = strokes(ax)
    assert len(found) == 6
    for law, container, own in zip(("vMF", "normal"), ax.containers, (found[:3], found[3:])):
        points, ends = bars(container)
        for place, (width, seeds) in enumerate(zip((100, 10, 1000), own)):
            values = list(table.loc[(table["law"] == law) & (table["width"] == str(width)), "r2"])
            close(seeds[:, 1], values, 1e-12)
            mean, interval = mean_interval(values)
            close(points[place, 1], mean, 1e-12)
            close(ends[place], interval, 1e-12)
            # Left of their mean, within the place of the category.
            assert (seeds[:, 0] < points[place, 0]).all()
            assert np.abs([*seeds[:, 0], points[place, 0]] - np.array(place)).max() < 0.5
    low, high = ax.get_ylim()
    assert low < table["r2"].min() < table["r2"].max() < high


def test_a_heat_map_shows_the_means(rng: np.random.Generator):
    rows = [
        {"seed": seed, "d": d, "law": law, "r2": value + 0.01 * (seed - 1)}
        for (d, law), value in {(10, "b"): 0.5, (2, "a"): 0.25, (10, "a"): 1.0}.items()
        for seed in range(3)
    ]
    table = pd.DataFrame(rows)
    ax = drawn(heat_map, table, "d", "law", "r2", {"a": "alpha", "law": "of"})
    assert [text.get_text() for text in ax.get_xticklabels()] == ["2", "10"]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["b", "alpha"]
    assert ax.get_ylabel() == "of"
    # The first of the words is on top.
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
    said = {text.get_position(): text.get_text() for text in ax.texts}
    assert said == {(0, 0): "–", (1, 0): "0.5", (0, 1): "0.25", (1, 1): "1"}
    strength = {patch.get_xy(): patch.get_alpha() for patch in ax.patches}
    close(strength[1 - 0.48, 1 - 0.48], 0.5, 1e-12)
    close(strength[1 - 0.48, 0 - 0.48], 0.5 / 3, 1e-12)
    close(strength[0 - 0.48, 1 - 0.48], 0, 1e-12)
    assert {patch.get_facecolor()[:3] for patch in ax.patches} == {
        tuple(int(PALETTE["accent"][i : i + 2], 16) / 255 for i in (1, 3, 5))
    }
    # Equal values are drawn as well, and numbers rise.
    ax = drawn(heat_map, table.assign(r2=1.0), "law", "d", "r2")
    assert {patch.get_alpha() for patch in ax.patches} == {0.5}
    assert ax.get_ylim()[0] < ax.get_ylim()[1]


def test_a_perfect_map_lies_on_the_line_of_equality(rng: np.random.Generator):
    truth = rng.uniform(2, 5, size=(50, 2))
    truth[7] = np.nan
    ax = drawn(scatter_after_map, truth, truth)
    left = np.delete(truth, 7, axis=0)
    for axis, seen in enumerate(strokes(ax)):
        close(seen[:, 0], seen[:, 1], 1e-12)
        close(seen[:, 0], (left[:, axis] - left[:, axis].mean()) / left[:, axis].std(), 1e-12)
    assert [text.get_text() for text in ax.texts] == ["● z1", "■ z2"]
    # The other side is in units of the truth, so that a shift and a stretch are seen.
    ax = drawn(scatter_after_map, left[:, 0], 2 * left[:, 0] + 1)
    (seen,) = strokes(ax)
    shift = (2 * left[:, 0].mean() + 1 - left[:, 0].mean()) / left[:, 0].std()
    close(seen[:, 1], 2 * seen[:, 0] + shift, 1e-12)
    assert len(ax.texts) == 0
    reach = np.abs(seen).max()
    assert (ax.get_xlim(), ax.get_ylim()) == (2 * (pytest.approx((-1.08 * reach, 1.08 * reach)),))


def test_many_rows_are_thinned_and_many_coordinates_left_out(rng: np.random.Generator):
    truth = rng.normal(size=(1000, 5))
    seen = strokes(drawn(scatter_after_map, truth, truth))
    assert [len(each) for each in seen] == [300, 300, 300]
    # A constant coordinate has no spread to be measured in.
    drawn(scatter_after_map, np.ones(4), np.ones(4))


def test_sides_of_different_shapes_are_said():
    with pytest.raises(InputError, match=r"the shape \(3, 2\) and the image \(3, 1\); give the"):
        drawn(scatter_after_map, np.ones((3, 2)), np.ones(3))


def test_more_lines_than_colours_are_still_told_apart(rng: np.random.Generator):
    rows = [{"seed": 0, "x": x, "y": k + x, "by": k} for k in range(7) for x in range(3)]
    ax = drawn(curve, pd.DataFrame(rows), "x", "y", "by")
    looks = {(each[0].get_color(), str(each[0]._dash_pattern)) for each in ax.containers}
    assert len(looks) == 7
