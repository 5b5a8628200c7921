"""What the command line prints, whatever it is given to print."""

from __future__ import annotations

from rich.text import Text

from identikit.cli._shared import console


def test_all_that_a_console_prints_is_plain(capsys):
    hostile = "x\x1b[2J\x1b[31m\x07\r\u202egnp.\u2066\x9b1m\x7f"
    console().print(Text(hostile), style="bold")
    assert set(capsys.readouterr().out) <= set("x [2J31mgnp.\n")
