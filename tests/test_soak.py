"""Two hundred audits in one process leave no more behind than one does."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from conftest import HANGS

SCRIPT = """
import gc, json, os, sys, tempfile, threading
from pathlib import Path
import numpy as np
import identikit as ik

os.chdir(sys.argv[1])
rng = np.random.default_rng(0)
groups = np.arange(300) // 3

def audit(number):
    X = rng.normal(size=(300, 8)).astype(["f4", "f8", "f2"][number % 3])
    Y = X @ rng.normal(size=(8, 8)) + rng.normal(size=(300, 8))
    views = [X, Y]
    if number % 2:
        np.save("x.npy", X)
        np.savez("y.npz", y=Y)
        views = ["x.npy", "y.npz::y"]
    result = ik.audit(views, groups=groups if number % 4 > 1 else None, seed=number)
    document = result.to_dict()
    assert document["rows"] == 300
    if number % 10 == 0:
        result.report("out.html")
    if number % 5 == 0:
        ik.audit(views, save_moments="x.moments")
        assert ik.audit("x.moments").to_dict()["rows"] == 300
    try:
        ik.audit([X, Y[:299]])
    except ik.InputError:
        pass  # and what fails leaves nothing behind either

def measure():
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    (kilobytes,) = (int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    return {
        "bytes": 1024 * kilobytes,
        "files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
    }

for number in range(20):
    audit(number)
before = measure()
kept = []
for number in range(200):
    audit(number)
    if len(sys.argv) > 2:
        kept.append(np.ones(30_000))
print(json.dumps([before, measure()]))
"""


def soak(folder, *leak: str):
    command = [sys.executable, "-W", "error", "-c", SCRIPT, str(folder), *leak]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=HANGS)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.slow
def test_two_hundred_audits_leave_nothing_behind(tmp_path):
    before, after = soak(tmp_path)
    assert after["bytes"] - before["bytes"] < 20e6
    assert after["files"] == before["files"]
    assert after["threads"] == before["threads"]


@pytest.mark.slow
def test_a_leak_would_be_noticed(tmp_path):
    before, after = soak(tmp_path, "leak")
    assert after["bytes"] - before["bytes"] > 20e6
