"""A small study and some units, apart from the tests, so that processes import little.

The units say in a diary that they were computed, and by which process.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from identikit.errors import InputError, require
from identikit.studies import (
    Claim,
    Finding,
    Record,
    Result,
    Settings,
    Study,
    Tables,
    Work,
    above,
    below,
    holds,
    judge,
    run,
)


def square(
    n: int, plus: float = 0.0, diary: str | None = None, wait: float = 0.0, gate: int = 0
) -> Record:
    """With a gate, units from that number on wait until a file beside the diary opens it."""
    if diary is not None:
        with Path(diary).open("a") as file:
            file.write(f"{n} {os.getpid()}\n")
    time.sleep(wait)
    while gate and n >= gate and not Path(f"{diary}.open").exists():
        time.sleep(0.01)
    return Record(
        [{"seed": np.int64(n), "value": np.float32(n * n + plus), "none": None}],
        {"vector": np.full(3, n), "scalar": np.array(0.5), "strided": np.eye(4)[:, ::2]},
    )


def run_toy(work: Work) -> Tables:
    import pandas as pd

    s = work.settings
    diary = None if s.diary is None else str(s.diary)
    records = work.each(
        "seed={}",
        square,
        range(s.seeds),
        processes=s.processes,
        diary=diary,
        wait=s.wait,
        gate=s.gate,
    )
    return {"squares": pd.DataFrame([row for record in records for row in record.rows])}


def check_toy(tables: Tables) -> Finding:
    return judge(list(tables["squares"]["value"]), low=0, comment="No square is negative.")


def draw_toy(tables: Tables, settings: Settings) -> Any:
    from identikit.report.drawing import sheet

    table = tables["squares"]
    return sheet([lambda ax: ax.plot(table["seed"], table["value"])])


def toy(**preset: Any) -> Study:
    values = {
        "seeds": 3,
        "wait": 0.0,
        "processes": False,
        "diary": None,
        "widths": [1, 2],
        "gate": 0,
        **preset,
    }
    return Study(
        name="toy",
        title="Squares",
        paper="Nobody 2020",
        about="Squares of small numbers.",
        presets={"smoke": values, "laptop": {**values, "seeds": 5}, "paper": values},
        run=run_toy,
        claims=(Claim("positive", "Squares are positive.", 0.5, "Table 1", check_toy),),
        figure=draw_toy,
    )


def of_all_kinds() -> Study:
    """A study with claims, controls and checks of every verdict, mixed."""
    planted: dict[str, tuple[str, Finding]] = {
        "check-good": ("check", holds([0.5], 1, "The larger one.")),
        "paper-good": ("paper", above([1.0, 1.1, 1.2], 0, "Good.")),
        "control-good": ("control", above([1.0, 1.1, 1.2], 0, "Good.")),
        "paper-weak": ("paper", above([1.0, 1.3, 2.0], 0, "Weak.")),
        "paper-bad": ("paper", below([1.0, 1.1, 1.2], 0, "Bad.")),
        "paper-open": ("paper", above([-1.0, 1.1, 1.2], 0, "Open.")),
        "control-open": ("control", above([-1.0, 1.1, 1.2], 0, "Open.")),
        "control-out": ("control", above([], 0, "Left out.")),
        "check-bad": ("check", holds([1.5], 1, "The larger one.")),
    }
    # One word that is wide for a telephone.
    source = "results/notebooks/supervised.csv"
    claims = [
        Claim(key, f"This is {key}.", "rises", source, lambda _, found=found: found, kind)
        for key, (kind, found) in planted.items()
    ]
    return replace(toy(), claims=tuple(claims))


def stopped_and_resumed(
    study: Study, folder: Path, settings: dict[str, Any], unit: str = "*"
) -> tuple[Result, Result]:
    """A study run at once, and one that is stopped when there is such a unit and then goes on.

    That both have the same tables, but for rounding, is asserted here.
    """
    import pandas as pd
    import pytest

    def stop(what: str, done: int, of: int) -> None:
        if list((folder / "stopped" / "units").glob(f"{unit}.safetensors")):
            raise KeyboardInterrupt

    alone: dict[str, Any] = {"settings": settings, "engine": "single"}
    whole = run(study, folder=folder / "whole", **alone)
    with pytest.raises(KeyboardInterrupt):
        run(study, folder=folder / "stopped", progress=stop, **alone)
    resumed = run(study, folder=folder / "stopped", **alone)
    for name, table in whole.tables.items():
        pd.testing.assert_frame_equal(table, resumed.tables[name], rtol=1e-12, atol=1e-12)
    return whole, resumed


def threads() -> Record:
    import numpy.linalg
    from scipy.linalg import lapack  # noqa: F401
    from threadpoolctl import threadpool_info

    numpy.linalg.svd(np.ones((3, 3)))
    most = max(library["num_threads"] for library in threadpool_info())
    torch = sys.modules.get("torch")
    return Record([{"pid": os.getpid(), "most": most, "torch": torch and torch.get_num_threads()}])


def torch_threads(_: int) -> Record:
    require("torch", "torch", "This")
    return threads()


def plain_threads(_: int) -> Record:
    return threads()


def fails(n: int, how: str) -> Record:
    if n == 1:
        if how == "extra":
            require("no_such_module", "torch", "Training")
        if how == "input":
            raise InputError("the width is 0; give a larger one")
        if how == "dies":
            os._exit(3)
        if how == "text":
            return Record(arrays={"names": np.array(["a"])})
        if how == "nothing":
            return None  # type: ignore[return-value]
        raise ZeroDivisionError("division\nby zero")
    return square(n)


def chorales(path: Path, pieces: dict[str, list[Any]]) -> Path:
    """A file with the layout of JSB_Chorales.mat: rows of cells, each of frames."""
    from scipy.io import savemat

    cells = {}
    for name, each in pieces.items():
        cell = np.empty((1, len(each)), dtype=object)
        for place, frames in enumerate(each):
            cell[0, place] = np.asarray(frames, dtype=np.uint8)
        cells[name] = cell
    savemat(path, cells)
    return path


TOY, LABELLED, ALL_KINDS = toy(), toy(label="x"), of_all_kinds()


def package_with(study: str, folder: Path) -> str:
    """Install, in a folder, a package that brings a study of this module by the name of toy."""
    about = folder / "toy-1.0.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[identikit.studies]\ntoy = study_units:{study}\n")
    return str(folder)
