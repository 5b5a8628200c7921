"""How much memory there is: the machine's, or what a container allows."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from identikit.moments import default_memory
from identikit.sources import memory
from identikit.sources.memory import container_limits


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_of_this_machine() -> None:
    assert 2**28 < default_memory() <= psutil.virtual_memory().total // 2


def test_a_container_of_version_2(tmp_path: Path) -> None:
    """The group itself has no limit, one above it has."""
    files = {
        "proc/self/cgroup": "0::/pod/box\n",
        "sys/fs/cgroup/pod/box/memory.max": "max\n",
        "sys/fs/cgroup/pod/memory.max": f"{2**31}\n",
    }
    assert min(container_limits(written(tmp_path, files))) == 2**31


def test_a_container_of_version_1(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "5:cpu,cpuacct:/box\n4:memory:/box\n0::/\n",
        "sys/fs/cgroup/memory/box/memory.limit_in_bytes": f"{3 * 2**30}\n",
        "sys/fs/cgroup/cpu/box/memory.limit_in_bytes": "1\n",
    }
    assert min(container_limits(written(tmp_path, files))) == 3 * 2**30


def test_without_control_groups(tmp_path: Path) -> None:
    assert container_limits(tmp_path) == [sys.maxsize]


def test_the_smaller_of_the_two_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "container_limits", lambda: [2**30])
    assert default_memory() == 2**29
