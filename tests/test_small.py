"""Small things a newcomer meets: a missing extra, a setting left out, a LayerNorm, sentences."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import identikit as ik
from conftest import remarks
from identikit.errors import EXTRAS, MissingExtraError, naming_extras
from identikit.studies import INCONCLUSIVE, REPRODUCED, UNMEASURED, judge, run
from test_cli import done

#: The command line where torch is not installed.
WITHOUT_TORCH = """
import sys
class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Gone())
from identikit.cli import main
main()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Studies


@pytest.mark.parametrize("study", ["nielsen-width", "roeder-cpc", "roeder-classification"])
def test_a_study_without_torch_names_the_pip_line(study: str):
    command = [sys.executable, "-c", WITHOUT_TORCH, "study", "run", study, "--engine", "single"]
    command += ["--data", "digits"] if study == "roeder-cpc" else []
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2
    said = "This study needs torch, which is not installed: pip install 'identikit[torch]'"
    assert remarks(ended.stderr) == f"identikit: {said}\n"


def test_only_modules_of_extras_are_named():
    for module, extra in EXTRAS.items():
        says = rf"needs {module}, .*identikit\[{extra}\]"
        with pytest.raises(MissingExtraError, match=says), naming_extras("This"):
            raise ModuleNotFoundError("No", name=f"{module}.nn")
    with pytest.raises(ModuleNotFoundError, match="No module"), naming_extras("This"):
        raise ModuleNotFoundError("No module named 'other'", name="other")


def test_a_claim_about_what_was_left_out_is_not_measured():
    arguments = ("nielsen-small-kl", "--set", "rhos=3", "--seeds", "3", "--engine", "single")
    text = done("study", "run", *arguments, "-o", "out", "-q").stdout
    assert "2 not measured" in text.split("\n\n")[0].replace("\n", " ")
    assert "not reproduced" not in text
    found = run("nielsen-small-kl", folder="out", seeds=3, settings={"rhos": [3]}).findings
    assert {key: f.verdict for key, f in found.items() if f.verdict == UNMEASURED} == {
        "kl-18": UNMEASURED,
        "nll": UNMEASURED,
    }
    assert found["kl-3"].verdict == REPRODUCED
    assert "include ρ = 18 to measure it" in found["nll"].comment
    assert judge([]).verdict == UNMEASURED
    assert judge([1.0]).verdict == INCONCLUSIVE


# A LayerNorm


def normed(seed: int, inputs: int = 300) -> ik.SoftmaxModel:
    """A model whose f has been through a LayerNorm without weights."""
    rng = np.random.default_rng(seed)
    h = np.random.default_rng(0).normal(size=(inputs, 8)) + 0.1 * rng.normal(size=(inputs, 8))
    f = (h - h.mean(axis=1, keepdims=True)) / h.std(axis=1, keepdims=True)
    return ik.SoftmaxModel(f, np.random.default_rng(1).normal(size=(20, 8)), name=f"seed {seed}")


def test_a_layer_norm_is_named_and_no_inputs_are_asked_for():
    (reason,) = ik.diversity(normed(0)).reasons
    assert reason == (
        "f lies in a hyperplane (7 of 8 dimensions), as after a final LayerNorm, which is "
        "harmless: the part of g orthogonal to it changes no logit and is left out"
    )
    for seed in (0, 1):
        model = normed(seed)
        np.savez(f"seed{seed}.npz", f=model.f, g=model.g)
    text = " ".join(done("models", "seed0.npz", "seed1.npz", "-q").stdout.split())
    assert "as after a final LayerNorm, which is harmless" in text
    assert "more varied inputs" not in text


def test_inputs_are_asked_for_where_they_are_what_is_missing():
    assert "more varied inputs are needed" in ik.diversity(normed(0, inputs=6)).reasons[0]
    f = np.random.default_rng(0).normal(size=(300, 8))
    f[:, 5:] = 0
    found = ik.diversity(ik.SoftmaxModel(f, np.random.default_rng(1).normal(size=(20, 8))))
    assert "more varied inputs are needed" in found.reasons[0]


# First sentences


@pytest.fixture
def pair() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(1500, 4))
    return X, X @ np.linalg.qr(rng.normal(size=(4, 4)))[0] + 0.01 * rng.normal(size=X.shape)


def test_near_begins_with_what_it_found(pair: tuple[np.ndarray, np.ndarray]):
    X, Y = pair
    np.save("x.npy", X)
    np.save("y.npy", Y)
    text = done("near", "x.npy", "y.npy", "-q").stdout
    first = " ".join(text.split("\n\n")[0].split())
    near = ik.near_identifiability("x.npy", "y.npy")
    assert first == near.summary()
    worse = max(near.directions[:2], key=lambda way: way.error("affine").mean)
    for group in ("permutation", "rigid", "affine"):
        assert f"{worse.error(group).mean:.1%}" in first
    assert f"where shuffled rows leave {worse.error('affine').chance:.1%}" in first
    assert first.endswith("the views share axes.")


def test_near_says_so_if_there_is_nothing_to_find(pair: tuple[np.ndarray, np.ndarray]):
    X, _ = pair
    rng = np.random.default_rng(1)
    said = ik.near_identifiability(X, rng.normal(size=X.shape)).summary()
    assert ", no less. " in said
    gaussian = rng.normal(size=X.shape)
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    said = ik.near_identifiability(gaussian, gaussian @ turn).summary()
    assert not said.endswith("the views share axes.")
    wide = ik.near_identifiability(X, np.column_stack([X, X[:, :1] ** 2])).summary()
    assert wide.endswith("Between different widths there is no permutation to compare ICA with.")


def test_units_of_rotated_views_match_above_chance_and_are_not_said_to_come_back(
    pair: tuple[np.ndarray, np.ndarray],
):
    for name, view in zip("xy", pair):
        np.save(f"{name}.npy", view)
    call = ("components", "--activations", "x.npy", "y.npy", "-q")
    text = " ".join(done(*call).stdout.split())
    found = ik.match_components(list(pair), kind="activations")
    assert text.startswith(
        f"4 components have a match above chance in all 2 runs, at a mean correlation of "
        f"{found.stability.mean():.2f} where chance has {found.chance_level.mean():.2f}: 100.0% of"
    )
    reach = int((found.stability >= 0.9).sum())
    assert f"false-discovery rate of 0.05, a low bar: {reach} of them reach 0.9." in text
    assert "come back" not in text.split("Matched")[0]
    strict = " ".join(done(*call, "--threshold", "0.99").stdout.split())
    assert strict.startswith("0 components come back in all 2 runs, each member with a correlation")
