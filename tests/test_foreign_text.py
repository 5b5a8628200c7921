"""Names and paths that a terminal or a page would obey are shown as plain text everywhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import identikit as ik
from identikit._text import fit_for_page, plain
from identikit.cli import app
from identikit.errors import InputError

#: Clears the screen, colours, rings, forges a line, turns the direction, ends a string; and two
#: control characters that are neither ASCII nor obeyed by everybody.
HOSTILE = "x\x1b[2J\x1b[31m\x07\r\nidentikit: all is well\u202egnp.\u2066\x9b1m\x7f"
#: File systems take all of that but a slash and a zero byte.
NUL = HOSTILE + "\0"
FORBIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066\u2067]")
ROWS = 60


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 3))
    for letter, view in zip("ab", (X, X @ rng.normal(size=(3, 3)))):
        np.save(f"{letter}{HOSTILE}.npy", view)
        np.savez(f"m{letter}{HOSTILE}.npz", f=view, g=rng.normal(size=(7, 3)))
        Path(f"layers{letter}{HOSTILE}").mkdir()
        np.save(f"layers{letter}{HOSTILE}/{HOSTILE}.npy", view)


def views(prefix="", suffix=".npy"):
    return [f"{prefix}{letter}{HOSTILE}{suffix}" for letter in "ab"]


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def shown(result):
    """What was printed, checked: nothing in it is obeyed, and no line was forged."""
    for text in (result.stdout, result.stderr):
        assert FORBIDDEN.search(text) is None, repr(text)
        assert not any(line.startswith("identikit: all is well") for line in text.splitlines())
    return result.stdout + result.stderr


COMMANDS = {
    "audit": ["audit", *views(), "--report", f"r{HOSTILE}.html", "-o", f"o{HOSTILE}.json"],
    "near": ["near", *views(), "-o", f"o{HOSTILE}.json"],
    "models": ["models", *views("m", ".npz"), "--report", f"r{HOSTILE}.html"],
    "components": ["components", *views(), "--activations", "--figure", f"f{HOSTILE}.svg"],
    "disentangle": ["disentangle", *views(), "--metrics", "mcc", "--report", f"r{HOSTILE}.html"],
    "layers": ["layers", *views("layers", ""), "--report", f"r{HOSTILE}.html"],
    "moments": ["moments", *views(), "-o", f"p{HOSTILE}.moments"],
    "align": ["align", *views(), "-o", f"map{HOSTILE}.safetensors"],
}


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_verb_shows_plain_text(verb):
    result = run(*COMMANDS[verb])
    assert result.exit_code == 0, result.output
    assert "all is well" in shown(result)
    for page in (*Path().glob("*.html"), *Path().glob("*.svg")):
        text = page.read_text()
        # The page's own line breaks and tabs are no names.
        assert FORBIDDEN.search(text.replace("\t", " ")) is None
        assert "\nidentikit: all is well" not in text


def test_apply_merge_and_audit_of_what_these_wrote():
    assert run(*COMMANDS["moments"]).exit_code == run(*COMMANDS["align"]).exit_code == 0
    part, fitted = f"p{HOSTILE}.moments", f"map{HOSTILE}.safetensors"
    for command in (
        ["merge", part, "-o", f"all{HOSTILE}.moments"],
        ["audit", part],
        ["apply", fitted, views()[0], "-o", f"y{HOSTILE}.npy"],
    ):
        result = run(*command)
        assert result.exit_code == 0, result.output
        shown(result)


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_verb_complains_in_plain_text(verb):
    command = [word.replace("b" + HOSTILE, "nope" + HOSTILE) for word in COMMANDS[verb]]
    result = run(*command)
    assert result.exit_code == 2
    assert shown(result).count("\n") == 1
    command[2] = NUL
    assert shown(run(*command)).count("\n") == 1


def test_names_that_are_given():
    names = ["--names", f"one{NUL}", "--names", f"two{NUL}"]
    for command in (["audit", *views()], ["near", *views()], ["components", *views()]):
        result = run(*command, *names)
        assert result.exit_code == 0, result.output
        assert "one" in shown(result)
    failed = run("audit", *views(), *names, "--fail-above", "0")
    shown(failed)


def test_json_keeps_every_character_and_shows_none_of_them():
    result = run("audit", *views(), "--json", "-q")
    shown(result)
    assert json.loads(result.stdout)["views"][0]["name"] == f"a{HOSTILE}"


def test_words_of_wrong_options_are_plain():
    result = run("audit", *views(), f"--{HOSTILE}")
    assert result.exit_code == 2
    shown(result)
    shown(run(f"verb{HOSTILE}"))


def test_errors_are_plain_in_python_too():
    with pytest.raises(InputError) as caught:
        ik.audit([f"nope{HOSTILE}.npy", f"nope{HOSTILE}.npy"])
    assert FORBIDDEN.search(str(caught.value)) is None
    assert "\n" not in str(caught.value)


def test_warnings_are_plain(monkeypatch):
    import warnings

    def warn(*_, **__):
        warnings.warn(f"careful{HOSTILE}", UserWarning, stacklevel=1)
        raise InputError("and that is it")

    monkeypatch.setattr("identikit.auditing.audit", warn)
    result = run("audit", *views())
    assert shown(result).count("\n") == 2


def test_plain_and_pages():
    assert plain("a\x1b[0m\tb\u202e\ud800\u00e9") == "a [0m b  é"
    assert plain(Path("p")) == "p"
    page = "<p>\n\t\u2068é\u2069</p>"
    assert fit_for_page(page) == page
    assert fit_for_page("a\x00\x1b\u202e\udcff\x85b") == "a     b"
