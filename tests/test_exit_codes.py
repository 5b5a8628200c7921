"""Exit code 1 says that a limit was exceeded; what is wrong is 2, and a sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_softmax
from typer.testing import CliRunner

from identikit.cli import app

ROWS = 60


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 3))
    np.save("a.npy", X)
    np.save("b.npy", X @ rng.normal(size=(3, 3)))
    f, g = rng.normal(size=(ROWS, 3)), rng.normal(size=(7, 3))
    np.savez("m.npz", f=f, g=g, bias=np.zeros(7))
    table = log_softmax(f @ g.T, axis=1)
    np.savez("half.npz", log_prob=table.astype(np.float16))
    np.savez("full.npz", log_prob=table)


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def refused(*arguments):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("identikit: ")
    assert result.stderr.count("\n") == 1
    assert "fault of identikit" not in result.stderr
    return result.stderr


def shell(line):
    """A line as a shell runs it."""
    command = line.replace("identikit", f"{sys.executable} -m identikit", 1)
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True)


@pytest.mark.parametrize("tolerance", ["inf", "nan", "-1"])
@pytest.mark.parametrize("verb", [["audit", "a.npy", "b.npy"], ["models", "m.npz", "m.npz"]])
def test_a_tolerance_that_is_no_number(verb, tolerance):
    words = refused(*verb, "--json", f"--tolerance={tolerance}")
    assert f"the tolerance is {float(tolerance)}; give a finite number, 0 or larger" in words


@pytest.mark.parametrize("extra", ["", "--json"])
def test_standard_output_that_is_closed(extra):
    result = shell(f"identikit audit a.npy b.npy {extra} >&-")
    assert result.returncode == 2
    assert result.stderr == (
        "identikit: standard output is closed, so there is no place to print\n"
    )


def test_both_streams_closed_and_standard_error_closed():
    assert shell("identikit audit a.npy b.npy >&- 2>&-").returncode == 2
    result = shell("identikit audit a.npy b.npy 2>&-")
    assert result.returncode == 0
    assert result.stdout.startswith("The views a and b are the same")


def test_log_probabilities_in_half_precision():
    pair = json.loads(run("models", "half.npz", "full.npz", "--json", "-q").stdout)["pairs"][0]
    assert pair["finding"] == "same distribution"
    assert run("models", "half.npz", "half.npz", "--report", "r.html", "-q").exit_code == 0


def change_method(data: bytes) -> bytes:
    """The same archive, said to be packed in a way that nobody knows."""
    changed = bytearray(data)
    for mark, place in ((b"PK\x01\x02", 10), (b"PK\x03\x04", 8)):
        start = 0
        while (start := changed.find(mark, start)) >= 0:
            changed[start + place] = 99
            start += 4
    return bytes(changed)


DAMAGES = {
    "an unknown packing": change_method,
    "the middle gone": lambda data: data[: len(data) // 2] + data[len(data) // 2 + 100 :],
    "the end gone": lambda data: data[:-30],
    "half of it": lambda data: data[: len(data) // 2],
    "nothing": lambda data: data[:0],
    "zeros": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_archives_of_models(damage, save):
    with np.load("m.npz") as arrays:
        save("bad.npz", **arrays)
    data = Path("bad.npz").read_bytes()
    Path("bad.npz").write_bytes(DAMAGES[damage](data))
    words = refused("models", "bad.npz", "m.npz")
    assert "bad.npz" in words
    assert "Aborted" not in words


def test_a_member_that_ends_early_is_no_abort():
    """What is packed holds fewer bytes than its header promises: an end of file, of all things."""
    whole = Path("a.npy").read_bytes()
    with zipfile.ZipFile("bad.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("f.npy", whole[:-100])
        archive.writestr("g.npy", whole)
        archive.writestr("bias.npy", whole[:-100])
    refused("models", "bad.npz", "m.npz")
    refused("disentangle", "a.npy", "bad.npz::f")
    refused("align", "a.npy", "b.npy", "-o", "m.safetensors", "--groups", "bad.npz::f")


@pytest.mark.parametrize("kind", [">f8", ">i4", ">f4"])
def test_factors_in_the_other_byte_order(kind):
    factors = np.round(np.load("a.npy")[:, :2] * 2)
    np.save("plain.npy", factors)
    np.save("foreign.npy", factors.astype(kind))
    np.savez("foreign.npz", one=factors[:, 0].astype(kind), two=factors[:, 1].astype(kind))
    options = ["--metrics", "mcc,mig", "--json", "-q"]
    plain = json.loads(run("disentangle", "a.npy", "plain.npy", *options).stdout)
    for name in ("foreign.npy", "foreign.npz"):
        result = run("disentangle", "a.npy", name, *options)
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        for metric in ("mcc", "mig"):
            values = [each["scores"][metric]["parts"][0]["value"] for each in (found, plain)]
            assert values[0] == values[1]


@pytest.mark.parametrize("seed", range(4))
def test_reference_scores_of_five_rows(seed):
    rng = np.random.default_rng(seed)
    np.save("codes.npy", rng.normal(size=(5, 3)))
    factors = rng.integers(2 + seed % 2, size=(5, 2)) if seed % 2 else rng.normal(size=(5, 2))
    np.save("factors.npy", factors)
    result = run("disentangle", "codes.npy", "factors.npy", "--preset", "reference", "--json")
    if result.exit_code == 0:
        json.loads(result.stdout, parse_constant=pytest.fail)
    else:
        assert result.exit_code == 2


def test_dci_of_ten_rows_as_the_reference_has_it():
    rng = np.random.default_rng(0)
    np.save("codes.npy", rng.normal(size=(10, 3)))
    np.save("factors.npy", rng.normal(size=(10, 2)))
    options = ["--metrics", "dci", "--preset", "reference", "--json", "-q"]
    assert run("disentangle", "codes.npy", "factors.npy", *options).exit_code == 0


def test_odd_numbers_for_options():
    assert "the seed is -1" in refused("near", "a.npy", "b.npy", "--seed", "-1")
    many = run("near", "a.npy", "b.npy", "--max-rows", str(10**20), "--json", "-q")
    assert many.exit_code == 0
    align = ["align", "a.npy", "b.npy", "-o", "m.safetensors", "-q", "--ridge"]
    assert run(*align, "1e308").exit_code == 0
    assert "give" in refused(*align, "inf", "--force")


def test_an_unexpected_error_is_a_sentence_and_not_exit_code_1(monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("by \x1b[31mzero")

    monkeypatch.setattr("identikit.auditing.audit", fail)
    result = run("audit", "a.npy", "b.npy")
    assert result.exit_code == 2
    assert result.stderr == (
        "identikit: this is a fault of identikit, please report it: ZeroDivisionError: by  [31mzero"
        " (set IDENTIKIT_TRACEBACK=1 to see where it comes from)\n"
    )
    monkeypatch.setenv("IDENTIKIT_TRACEBACK", "1")
    assert isinstance(run("audit", "a.npy", "b.npy").exception, ZeroDivisionError)
    assert os.environ["IDENTIKIT_TRACEBACK"] == "1"
    # Typer's own ways to stop are left alone.
    assert run("audit", "--help").exit_code == 0
    assert "No such option" in run("audit", "a.npy", "--nonsense").stderr
