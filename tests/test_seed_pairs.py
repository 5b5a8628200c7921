"""Tables of pairs of seeds: lines with the interval that is judged, and a dot a pair."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from conftest import close
from identikit.report.drawing import sheet
from identikit.studies import Record, mean_interval, per_seed, rows_of, where
from identikit.studies import _seed_pairs as pairs


@pytest.fixture
def table(rng: np.random.Generator) -> pd.DataFrame:
    """Four seeds, two widths, two kinds, two columns."""
    rows = [
        {"a": a, "b": b, "width": width, "kind": kind, "r2": rng.uniform(), "kl": rng.uniform()}
        for width in (4, 8)
        for kind in ("x", "y")
        for a, b in combinations(range(4), 2)
    ]
    return pd.DataFrame(rows)


def drawn(panel: pairs.Panel) -> Axes:
    return sheet([panel]).axes[0]


def test_rows_of_units_are_one_table() -> None:
    table = rows_of([Record([{"k": 1}, {"k": 2}]), Record(), Record([{"k": 3}])])
    assert table["k"].to_list() == [1, 2, 3]


def test_rows_are_chosen_by_all_values(table: pd.DataFrame) -> None:
    own = where(table, width=4, kind="y")
    assert len(own) == 6
    assert set(zip(own["width"], own["kind"])) == {(4, "y")}


def test_lines_have_the_mean_of_pairs_and_the_interval_that_is_judged(table: pd.DataFrame) -> None:
    found = pairs.lines(table, "width", {"r2": "R²", "kl": ""}, "kind")
    assert set(found["line"]) == {"R², x", "R², y", "x", "y"}
    assert len(found) == 4 * 2 * 4
    own = table[(table["width"] == 8) & (table["kind"] == "y")]
    line = found[(found["width"] == 8) & (found["line"] == "R², y")]
    close(line["value"], per_seed(own, "r2"), 1e-12)
    close(line["value"].mean(), own["r2"].mean(), 1e-12)
    ax = drawn(pairs.curves("title", found, "width", "words"))
    points, _, (bar,) = next(c for c in ax.containers if c.get_label() == "R², y")
    close(points.get_ydata()[1], own["r2"].mean(), 1e-12)
    close(bar.get_segments()[1][:, 1], mean_interval(per_seed(own, "r2"))[1], 1e-12)
    assert (ax.get_title("left"), ax.get_xlabel()) == ("title", "words")
    assert ax.get_xticks().tolist() == [4, 8]


def test_lines_of_no_pairs_are_none_and_go_with_others(table: pd.DataFrame) -> None:
    none = pairs.lines(table[:0], "width", {"r2": "R²"}, "kind")
    some = pairs.lines(table, "width", {"r2": "R²"})
    both = pd.concat([none, some], ignore_index=True)
    pd.testing.assert_frame_equal(both[list(some)], some)


def test_values_that_are_missing_leave_a_line_out(table: pd.DataFrame) -> None:
    found = pairs.lines(table.assign(r2=None), "width", {"r2": "R²"})
    assert found["value"].isna().all()


def test_a_logarithmic_panel_has_its_tolerance(table: pd.DataFrame) -> None:
    found = pairs.lines(table, "width", {"r2": "R²"})
    ax = drawn(pairs.curves("t", found, "width", "w", log_x=True, log_y=True, tolerance=True))
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert "tolerance" in [text.get_text() for text in ax.texts]
    assert any(np.all(np.equal(line.get_ydata(), pairs.TOLERANCE)) for line in ax.lines)


def test_a_dot_is_a_pair(table: pd.DataFrame) -> None:
    ax = drawn(pairs.dotted("t", table, "width", {"r2": "R²", "kl": "KL"}, "M ="))
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["M = 4", "M = 8"]
    heights = [patch.get_path().vertices[::2, 1] for patch in ax.patches]
    expected = [table.loc[table["width"] == w, c] for c in ("r2", "kl") for w in (4, 8)]
    for found, values in zip(heights, expected, strict=True):
        close(found, values, 0)
    low, high = ax.get_ylim()
    assert low <= min(map(min, heights)) < max(map(max, heights)) <= high


def test_bounds_are_lines_and_no_pairs_are_said() -> None:
    some = pd.DataFrame(
        {"llv": [0.1, 0.5, 0.3], "representation": [0.01, 0.0, 0.1], "M": [2, 2, 3]}
    )
    ax = drawn(pairs.bounds("t", some))
    lines = {line.get_label(): line.get_xydata().T for line in ax.lines}
    assert set(lines) == {"2Mε, M = 2", "2Mε, M = 3", "2ε² (sharper)"}
    for name, slope in (("2Mε, M = 2", 4), ("2Mε, M = 3", 6)):
        close(lines[name][1], slope * lines[name][0], 1e-12)
    close(lines["2ε² (sharper)"][1], 2 * lines["2ε² (sharper)"][0] ** 2, 1e-12)
    assert sum(len(patch.get_path().vertices) for patch in ax.patches) == 2 * len(some)
    empty = drawn(pairs.bounds("t", some[:0]))
    assert [text.get_text() for text in empty.texts] == ["not computed"]
