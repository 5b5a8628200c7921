"""Progress, a bar on a terminal and a plain line now and then elsewhere, and what is printed."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading

import pytest

from identikit.cli._progress import progress_bar

#: Stands in the middle of its work until it is told to end.
WORK = """
import sys
from identikit.cli import _progress
_progress.PATIENCE, _progress.EVERY = float(sys.argv[1]), float(sys.argv[1])
with _progress.progress_bar(quiet=sys.argv[2] == "quiet") as show:
    show("reading", 5, 10)
    if sys.argv[2] == "goes on":
        show("reading", 6, 10)
    sys.stdin.readline()
    if sys.argv[2] == "fails":
        raise SystemExit(3)
print("done", file=sys.stderr)
"""


def start(pace: float, how: str = "", errors: int = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORK, str(pace), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )


@pytest.mark.parametrize("how", ["", "fails"])
def test_no_terminal_gets_plain_lines(how: str):
    process = start(0.01, how)
    assert process.stderr is not None
    lines = [process.stderr.readline() for _ in range(2)]
    out, rest = process.communicate("\n")
    assert process.returncode == (3 if how else 0)
    assert out == ""
    lines += rest.splitlines(keepends=True)
    if not how:
        assert lines.pop() == "done\n"
    for line in lines:
        start_, end = line.split(" after ")
        # The first may come before anything was told.
        assert start_ in ("progress: starting", "progress: reading, 50 %")
        assert end.removesuffix(" s\n").isdigit()
    assert "reading" in lines[-1]


def test_a_line_says_how_long_the_stage_will_take() -> None:
    """It is known from what was done since the stage began, and not before."""
    process = start(0.01, "goes on")
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    line = next(line for line in lines if "60 %" in line)
    process.communicate("\n")
    after, _, left = line.partition(", about ")
    assert after.startswith("progress: reading, 60 % after ")
    assert left.removesuffix(" s left\n").isdigit()


def test_a_terminal_gets_a_bar_and_is_left_clean():
    ours, theirs = pty.openpty()
    process = start(0.0, errors=theirs)
    os.close(theirs)
    seen = b""
    while b"50 %" not in seen:
        seen += os.read(ours, 4096)
    assert b"reading" in seen
    assert b"progress:" not in seen

    def end() -> None:
        process.communicate("\n")

    ending = threading.Thread(target=end)
    ending.start()
    try:
        while more := os.read(ours, 4096):
            seen += more
    except OSError:  # how Linux says that the other side is closed
        pass
    ending.join()
    os.close(ours)
    assert process.returncode == 0
    last = seen.decode().rpartition("\x1b[2K")[2]  # what came after the bar was erased
    assert "50 %" not in last
    assert "done" in last


@pytest.mark.parametrize(("pace", "how"), [(3600, ""), (0.0, "quiet")])
def test_quick_work_and_quiet_work_show_nothing(pace: float, how: str):
    process = start(pace, how)
    assert process.communicate("\n") == ("", "done\n")


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("quiet", [True, False])
def test_a_ctrl_c_that_python_drops_is_noticed_at_the_next_step(quiet: bool):
    """Raised while an object is being finalised, KeyboardInterrupt is printed and forgotten."""
    with progress_bar(quiet) as show:
        show("reading", 1, 3)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            show("reading", 2, 3)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
