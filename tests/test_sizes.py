"""Numbers whose squares float64 cannot hold are legal: every verb answers as for ordinary ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import identikit as ik
from conftest import close
from identikit.axes import match_components
from identikit.cli import app
from identikit.errors import InputError
from identikit.moments import Moments, accumulate
from identikit.sources import open_source
from identikit.sources.scaled import Scaled

#: From the smallest numbers that have all their digits to the largest there are.
SIZES = [2.0**-1000, 2.0**-530, 2.0**-260, 2.0**260, 2.0**500, 2.0**1020]


def related(rng, n=150, d=3):
    X = rng.laplace(size=(n, d)).clip(-4, 4)
    return X, X @ np.linalg.qr(rng.normal(size=(d, d)))[0] + 0.05 * rng.normal(size=(n, d)).clip(
        -4, 4
    )


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def done(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout) if "--json" in arguments else result


def save(X, Y, size=1.0, other=None):
    np.save("a.npy", X * size)
    np.save("b.npy", Y * (size if other is None else other))


def same(found, expected):
    """Numbers, words and what they are in, equal but for rounding."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            same(found[key], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            same(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)
    else:
        assert found == expected


# The command as a user runs it.


@pytest.mark.parametrize("size", SIZES)
def test_an_audit_does_not_depend_on_the_common_size(rng, size):
    X, Y = related(rng)
    save(X, Y)
    plain = done("audit", "a.npy", "b.npy", "--json", "-q")
    save(X, Y, size)
    same(done("audit", "a.npy", "b.npy", "--json", "-q"), plain)


@pytest.mark.parametrize(
    ("size", "other"), [(2.0**1020, 1.0), (1.0, 2.0**-1000), (2.0**700, 2.0**-700)]
)
def test_views_of_different_size_are_the_same_up_to_a_scale(rng, size, other):
    X, Y = related(rng)
    save(X, Y, size, other)
    (pair,) = done("audit", "a.npy", "b.npy", "--json", "-q")["pairs"]
    assert pair["group"] == "similarity"
    close(pair["error"], ik.audit([X, Y]).comparisons[0].ladder[-1].error, 0.01)
    errors = {rung["group"]: rung["error"] for rung in pair["ladder"]}
    assert errors["rigid"] > 1e50  # nobody could take them for the same
    close(pair["cca"]["mean"], ik.cca(accumulate([X, Y])).mean, 1e-9)
    save(X, Y, size, other)
    words = run("align", "a.npy", "b.npy", "--group", "rigid", "-o", "m.safetensors")
    assert words.exit_code == 2
    assert "differ in size by a factor of more than 1e100" in words.stderr


@pytest.mark.parametrize("size", SIZES)
def test_a_map_is_of_the_views_themselves(rng, size):
    X, Y = related(rng)
    save(X, Y, size, 0.25)
    done("align", "a.npy", "b.npy", "-o", "m.safetensors", "-q")
    done("apply", "m.safetensors", "a.npy", "-o", "mapped.npy", "-q")
    expected = ik.align(X, Y * 0.25)
    close(np.load("mapped.npy"), expected.transform(X), 1e-9)
    close(ik.load_map("m.safetensors").error, expected.error, 1e-9)
    save(X, Y, size)
    close(
        ik.align("a.npy", "b.npy", group="rigid").weights_,
        ik.align(X, Y, group="rigid").weights_,
        1e-9,
    )


@pytest.mark.parametrize("size", [2.0**-1000, 2.0**1010])
def test_near_components_layers_and_disentangle(rng, size):
    X, Y = related(rng)
    commands = {
        "near": ["near", "a.npy", "b.npy"],
        "components": ["components", "a.npy", "b.npy", "--activations"],
        "disentangle": ["disentangle", "a.npy", "b.npy", "--metrics", "mcc,r2,sap"],
    }
    found = []
    for factor in (1.0, size):
        save(X, Y, factor)
        found.append({name: done(*words, "--json", "-q") for name, words in commands.items()})
    plain, scaled = found
    for before, after in zip(plain["near"]["directions"], scaled["near"]["directions"]):
        diameters = [way.pop("diameter") for way in (before, after)]
        unit = size if before["coordinates"] == "raw" else 1.0
        close(diameters[1]["value"], diameters[0]["value"] * unit, 1e-9, unit)
    for name in commands:
        same(scaled[name], plain[name])
    for side in ("left", "right"):
        Path(side).mkdir()
        np.save(f"{side}/x.npy", X * size)
    assert done("layers", "left", "right", "--json", "-q")["best"]["value"] == pytest.approx(1)


def test_models_whose_two_sides_have_opposite_sizes(rng):
    f, g = rng.normal(size=(60, 3)), rng.normal(size=(7, 3))
    np.savez("plain.npz", f=f, g=g)
    np.savez("scaled.npz", f=f * 2.0**-800, g=g * 2.0**800)
    pair = done("models", "plain.npz", "scaled.npz", "--json", "-q")["pairs"][0]
    close(pair["logit_gap"], 0.0, 1e-9)
    np.savez("scaled.npz", f=f * 2.0**800, g=g)
    result = run("models", "plain.npz", "scaled.npz")
    assert result.exit_code == 2
    assert "model 'scaled': its logits f(x)ᵀg(y) are of the size 1e24" in result.stderr


def test_one_row_that_dwarfs_all_others_is_named(rng):
    X, Y = related(rng)
    X[7] = Y[7] = 1.7e308
    save(X, Y)
    result = run("audit", "a.npy", "b.npy", "--fail-above", "0.1")
    assert result.exit_code == 1
    assert "is decided by 1 of the rows; without it the error cannot be told" in result.stderr


# Statistics.


def test_parts_in_different_units_merge(rng):
    X, Y = related(rng)
    X[100:] *= 2.0**600
    small, large = (accumulate([X[part], Y[part]]) for part in (slice(100), slice(100, None)))
    assert not any(small.exponents)
    for both in (small + large, large + small):
        assert both.exponents == large.exponents
        scaled = np.ldexp(X, -both.exponents[0]), np.ldexp(Y, -both.exponents[1])
        close(both.n(), 150, 0)
        for view in (0, 1):
            close(both.centre(view), scaled[view].mean(axis=0), 1e-12, 2.0**180)
        own = scaled[0] - scaled[0].mean(axis=0)
        close(both.block(0, 0), own.T @ own, 1e-9, np.abs(own.T @ own).max())


def test_ill_conditioned_parts_in_different_units_merge(rng):
    """The scatter is kept in other coordinates, which take the unit upon themselves."""
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    X = rng.normal(size=(200, 3)) * [1, 1e-3, 1e-6] @ turn
    first, second = accumulate([X[:100]]), accumulate([X[100:] * 2.0**-400])
    assert first.layout.roots is not None
    assert any(second.exponents)
    both = first + second
    rows = np.vstack([X[:100], X[100:] * 2.0**-400]) / 2.0 ** both.units[0]
    own = rows - rows.mean(axis=0)
    close(both.block(0, 0), own.T @ own, 1e-9, np.abs(own.T @ own).max())


def test_files_keep_the_units(rng):
    X, Y = related(rng)
    save(X, Y, 2.0**600)
    done("moments", "a.npy", "b.npy", "-o", "ab.moments", "-q")
    kept = Moments.load("ab.moments")
    assert kept.exponents == accumulate(["a.npy", "b.npy"]).exponents
    (of_file,), (of_rows,) = (
        done("audit", *views, "--json", "-q")["pairs"]
        for views in (["ab.moments"], ["a.npy", "b.npy"])
    )
    same(of_file["ladder"], of_rows["ladder"])
    done("audit", "a.npy", "b.npy", "--save-moments", "again.moments", "-q")
    assert Moments.load("again.moments").exponents == kept.exponents


def test_workers_read_in_the_same_units(rng):
    X, Y = related(rng)
    save(X, Y, 2.0**600)
    here, there = accumulate(["a.npy", "b.npy"]), accumulate(["a.npy", "b.npy"], engine="pool")
    assert here.exponents == there.exponents
    close(there.block(0, 1), here.block(0, 1), 1e-12, np.abs(here.block(0, 1)).max())


def test_zeros_are_read_once_and_stay(rng):
    """Dead units and views of zeros have no size, and nobody looks for one."""
    X = rng.normal(size=(50, 3))
    X[:, 1] = 0
    assert not any(accumulate([X]).exponents)
    moments = accumulate([X * 2.0**600, np.zeros((50, 2))])
    assert not moments.varies(1)
    assert moments.whiten(0).rank == 2


@pytest.mark.long
def test_views_reduced_to_few_directions(rng):
    """More columns than rows, and little memory: both look at rows before the moments do."""
    X = rng.normal(size=(40, 100))
    Y = X @ np.linalg.qr(rng.normal(size=(100, 100)))[0]
    plain = ik.audit([X, Y]).comparisons[0]
    for size in (2.0**-700, 2.0**700):
        pair = ik.audit([X * size, Y * size]).comparisons[0]
        assert pair.group == plain.group
        close(pair.error, plain.error, 1e-9)
    Z = rng.normal(size=(300, 90)) * np.linspace(1, 0.01, 90)
    small = ik.audit([Z * 2.0**600, Z * 2.0**600], memory=5 * 10**6)
    assert small.views[0].reduced_to
    close(small.comparisons[0].error, 0.0, 1e-6)


def test_ica_is_in_the_units_of_the_view(rng):
    S = rng.laplace(size=(400, 2)).clip(-4, 4)
    plain, large = ik.ICA().fit(S), ik.ICA().fit(S * 2.0**600)
    close(large.transform(S * 2.0**600), plain.transform(S), 1e-9)
    close(large.inverse_transform(plain.transform(S)), S * 2.0**600, 1e-9, 2.0**600)


def test_activations_may_have_a_unit_a_column(rng):
    X, Y = related(rng)
    plain = match_components([X, Y], kind="activations")
    scaled = match_components([X * [2.0**600, 1, 2.0**-700], Y], kind="activations")
    assert scaled.to_dict()["components"] == plain.to_dict()["components"]


# Views over powers of two.


def test_scaled_views_read_as_the_numbers_over_a_power(rng):
    X = rng.normal(size=(20, 3))
    source = open_source(Scaled(X * 2.0**900, 900), "x")
    assert (source.name, source.rows, source.width, source.eps) == ("x", 20, 3, 2.0**-52)
    assert np.array_equal(source.read(3, 9), X[3:9])
    again = open_source(source.origin, "again")
    assert np.array_equal(again.read(0, 20), X)


def test_denormal_numbers_count_as_coarse_as_they_are(rng):
    X = rng.normal(size=(50, 2)) * 2.0**-1060
    moments = accumulate([X])
    assert 2.0**-17 < moments.eps[0] < 2.0**-10


def test_a_column_that_would_be_lost_is_an_error(rng):
    X, _ = related(rng)
    X[:, 2] *= 2.0**-900
    with pytest.raises(
        InputError, match=r"column 0 has values of about 1e\+00\d, column 2 of 1e-2"
    ):
        accumulate([X])
