"""Audits give the answers that they gave before work was shared between views, pairs and folds."""

from __future__ import annotations

import json
import math
import os
from typing import Any

import pytest

from audit_answers import ANSWERS, PLANTED, REAL, answers

#: The largest difference of two numbers, relative where they are above 1.
CLOSE = 1e-9


def differences(here: Any, before: Any, path: str) -> list[str]:
    """Where two answers differ."""
    if isinstance(before, dict):
        missing = [f"{path}.{key} is missing" for key in before if key not in here]
        return missing + [
            one
            for key in before
            if key in here
            for one in differences(here[key], before[key], f"{path}.{key}")
        ]
    if isinstance(before, list):
        if len(here) != len(before):
            return [f"{path} has {len(here)} entries instead of {len(before)}"]
        return [
            one
            for place, (a, b) in enumerate(zip(here, before))
            for one in differences(a, b, f"{path}[{place}]")
        ]
    if isinstance(before, float) and isinstance(here, float):
        same = math.isclose(here, before, rel_tol=CLOSE, abs_tol=CLOSE)
    else:
        same = here == before
    return [] if same else [f"{path} is {here!r} instead of {before!r}"]


@pytest.fixture(scope="module")
def before() -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(ANSWERS.read_text())
    return kept


def check(name: str, here: dict[str, Any], before: dict[str, Any]) -> None:
    found = differences(json.loads(json.dumps(here)), before[name], name)
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str, before: dict[str, Any]) -> None:
    check(name, answers(PLANTED[name]()), before)


@pytest.mark.parametrize("name", REAL)
def test_real(name: str, before: dict[str, Any]) -> None:
    if not os.environ.get("IDENTIKIT_DATA"):
        pytest.skip("IDENTIKIT_DATA names no folder of real data")
    check(name, answers(REAL[name]()), before)


def test_a_difference_is_found(before: dict[str, Any]) -> None:
    """A comparison that finds nothing would pass everything."""
    other = json.loads(json.dumps(before["narrow"]))
    other["pairs"][0]["ladder"][2]["interval"][1] += 1e-8
    other["pairs"][1]["group"] = "none"
    del other["pairs"][2]["cca"]
    found = differences(other, before["narrow"], "narrow")
    assert [one.split(" is ")[0] for one in sorted(found)] == [
        "narrow.pairs[0].ladder[2].interval[1]",
        "narrow.pairs[1].group",
        "narrow.pairs[2].cca",
    ]
