"""The settings of a study: of the kind of the preset's, however they are given."""

from __future__ import annotations

from typing import Any

import pytest

from identikit.errors import InputError
from identikit.studies import run
from identikit.studies._study import settings_of
from study_units import toy


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("seeds", "7", 7),
        ("wait", "2", 2.0),
        ("wait", 1e-3, 1e-3),
        ("processes", "true", True),
        ("widths", "8,16", [8, 16]),
        ("widths", "[8, 16]", [8, 16]),
        ("widths", "8", [8]),
        ("widths", (4,), [4]),
        ("diary", "any", "any"),
        ("diary", "3", 3),
        ("methods", "c,d e", ["c", "d e"]),
        ("methods", '["c, d"]', ["c, d"]),
        ("label", "1", "1"),
        ("label", "", ""),
    ],
)
def test_settings_take_the_kind_of_the_preset(key: str, text: Any, value: Any):
    found = settings_of(toy(label="x", methods=["a", "b"]), "smoke", None, {key: text})[key]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"width": "3"}, "toy has no setting 'width'; it has seeds, wait,"),
        ({"seeds": "many"}, "seeds is 'many'; expected int, such as 3"),
        ({"seeds": "2.5"}, "seeds is 2.5; expected int"),
        ({"seeds": "true"}, "seeds is True; expected int"),
        ({"seeds": "null"}, "seeds is None; expected int"),
        ({"processes": "1"}, "processes is 1; expected bool"),
        ({"widths": "1,b"}, "widths is 'b'; expected int, such as 1"),
        ({"widths": "[1,b]"}, r"widths is '\[1,b\]'; expected a list of int"),
        ({"widths": "[]"}, r"widths is \[\]; expected a list of int, such as \[1, 2\]"),
        ({"seeds": "0"}, "seeds is 0; at least one"),
    ],
)
def test_settings_of_another_kind_are_refused(change: dict[str, Any], says: str):
    with pytest.raises(InputError, match=says):
        settings_of(toy(), "smoke", None, change)


def test_presets_and_studies_that_there_are_not():
    with pytest.raises(InputError, match="toy has no preset 'huge'; it has smoke, laptop, paper"):
        settings_of(toy(), "huge", None, None)
    with pytest.raises(InputError, match=r"there is no study 'toy'; there are .*nielsen-small-kl"):
        run("toy")
