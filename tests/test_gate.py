"""What lets an audit pass: a limit on the error, a rung, the interval's end, one direction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import identikit as ik
from fake_audit import LADDER, make_pair
from identikit.auditing.result import Influence
from identikit.errors import InputError
from test_cli import run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4)) * [1, 2, 3, 4]
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    np.save("old.npy", X)
    np.save("same.npy", X)
    np.save("rotated.npy", X @ turn)
    np.save("scaled.npy", X * [4, 3, 2, 1])
    np.save("mixed.npy", X @ rng.normal(size=(4, 4)))
    np.save("noise.npy", rng.normal(size=(400, 4)))
    # The old one predicts it all; of the old one's axes it lacks one.
    np.save("narrow.npy", X[:, 1:] @ rng.normal(size=(3, 3)))
    return tmp_path


def code(*arguments: str) -> int:
    return run("audit", *arguments, "--quiet").exit_code


def refused(*arguments: str) -> str:
    result = run("audit", "old.npy", "rotated.npy", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    return result.stderr


# A rung


def test_a_rotated_embedding_passes_a_limit_but_not_a_rung():
    assert code("old.npy", "rotated.npy", "--fail-above", "0.1") == 0
    result = run("audit", "old.npy", "rotated.npy", "--require", "permutation")
    assert result.exit_code == 1
    assert result.stderr == (
        "identikit: 'old' and 'rotated' are the same up to rigid maps, and permutation was "
        "required\n"
    )
    assert code("old.npy", "rotated.npy", "--require", "identity") == 1


@pytest.mark.parametrize(
    ("view", "passes"),
    [
        ("same", LADDER),
        ("rotated", ("rigid", "similarity", "linear", "affine")),
        # A scale per axis is no rotation, though its rung comes before that.
        ("scaled", ("monomial", "linear", "affine")),
        ("mixed", ("linear", "affine")),
        ("noise", ()),
    ],
)
def test_a_rung_or_a_stricter_one(view: str, passes: tuple[str, ...]):
    pair = ik.audit(["old.npy", f"{view}.npy"]).comparisons[0]
    assert [rung for rung in LADDER if pair.meets(rung)] == list(passes)
    for rung in ("rigid", "affine"):
        assert code("old.npy", f"{view}.npy", "--require", rung) == (rung not in passes)


def test_of_rungs_that_the_rows_do_not_tell_apart_all_must_be():
    pair = replace(make_pair("a", "b", "rigid"), candidates=("rigid", "linear"))
    assert not pair.meets("rigid")
    assert pair.meets("linear")
    few = Influence(2, (0, 1), None, None)
    assert not replace(pair, influence=few).meets("affine")
    assert replace(pair, influence=few).meets("affine", without_few=False)
    assert replace(pair, influence=replace(few, group_without="linear")).meets("linear")
    with pytest.raises(InputError, match="there is no rung 'round'; expected one of identity"):
        pair.meets("round")


def test_every_pair_is_asked_and_the_worst_is_named():
    views = ("old.npy", "rotated.npy", "mixed.npy", "noise.npy")
    result = run("audit", *views, "--require", "rigid", "--json")
    assert result.exit_code == 1
    assert "are unrelated, and rigid was required; 5 pairs fall short" in result.stderr


def test_a_rung_and_a_limit_together():
    both = ("--require", "linear", "--fail-above", "0.1")
    assert code("old.npy", "narrow.npy", *both) == 1  # the limit
    assert code("old.npy", "rotated.npy", "--require", "permutation", "--fail-above", "0.1") == 1
    assert code("old.npy", "noise.npy", "--require", "linear", "--fail-above", "9") == 1
    assert code("old.npy", "mixed.npy", *both) == 0


# The end of the interval, and one direction


def test_strict_asks_the_upper_end_of_the_interval():
    rng = np.random.default_rng(1)
    np.save("noisy.npy", np.load("old.npy") + rng.normal(size=(400, 4)))
    pair = ik.audit(["old.npy", "noisy.npy"]).comparisons[0]
    assert pair.error < pair.interval[1]
    limit = str((pair.error + pair.interval[1]) / 2)
    assert code("old.npy", "noisy.npy", "--fail-above", limit) == 0
    result = run("audit", "old.npy", "noisy.npy", "--fail-above", limit, "--strict")
    assert result.exit_code == 1
    assert f"the largest upper end of an error's interval, {pair.interval[1]:.3g}" in result.stderr
    assert pair.exceeds(float(limit), strict=True)
    assert not pair.exceeds(float(limit))


def test_one_direction_of_one_pair():
    views = ("old.npy", "narrow.npy", "noise.npy")
    pair = ik.audit(views).comparisons[0]
    assert pair.error_of(source="old") < 0.05 < 0.15 < pair.error_of(source="narrow")
    limit = ("--fail-above", "0.1")
    assert code(*views, *limit, "--direction", "old:narrow") == 0
    assert code(*views, *limit, "--strict", "--direction", "old:narrow") == 0
    result = run("audit", *views, *limit, "--direction", "narrow:old")
    assert result.exit_code == 1
    assert "(of mapping 'narrow' to 'old'), is above 0.1" in result.stderr
    assert code(*views, *limit, "--direction", "old:noise") == 1
    assert code(*views, "--require", "affine", "--direction", "narrow:old") == 0
    with pytest.raises(InputError, match="no view 'noise' here; expected 'old' or 'narrow'"):
        pair.exceeds(0.1, source="noise")


def test_both_ends_of_stretches_of_rows_count():
    pair = make_pair("a", "b", "linear", 0.08)
    worse = replace(pair.ladder[-1], backward_interval=(0.1, 0.5))
    blocked = replace(pair, blocked=worse, interval=(0.01, 0.5))
    assert blocked.error_of(strict=True, source="b") == 0.5
    assert blocked.error_of(source="b") == pair.ladder[-1].backward
    assert blocked.error_of(strict=True) == 0.5


def test_calls_that_ask_nothing_are_refused():
    assert "--require is 'round'; expected one of identity, perm" in refused("--require", "round")
    assert "--strict is about --fail-above" in refused("--strict")
    assert "--direction says which pair" in refused("--direction", "old:rotated")
    wrong = refused("--direction", "old:new", "--require", "rigid")
    assert "'old:new'; expected two of the views as A:B, and these are old, rotated" in wrong
