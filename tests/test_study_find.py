"""Every study is well formed and found; studies of other packages and in files of one's own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from identikit.errors import InputError
from identikit.studies import STAND_INS, find, load, run
from identikit.studies._find import _files_of, code_digest, names
from study_units import TOY, package_with


@pytest.mark.parametrize("name", names())
def test_a_study_is_well_formed(name: str):
    study = find(name)
    assert study.name == name
    assert list(study.presets) == ["smoke", "laptop", "paper"]
    first = study.presets["smoke"]
    for preset in study.presets.values():
        assert list(preset) == list(first)
        assert preset["seeds"] >= 1
        for key, value in preset.items():
            assert not hasattr(dict, key), f"the setting {key!r} hides a method"
            assert value is None or first[key] is None or type(value) is type(first[key])
            assert json.loads(json.dumps(value)) == value
    keys = [claim.key for claim in study.claims]
    assert keys
    assert len(set(keys)) == len(keys)
    assert {need.stand_in for need in study.needs} <= {None, *STAND_INS}


# Studies of one's own

OWN = '''
"""A study in a file."""
import numpy as np
import pandas as pd
from identikit.report.drawing import sheet
from identikit.studies import Claim, Record, Study, above, dots

def unit(seed):
    return Record([{"seed": seed, "arm": "a", "mean": float(seed + 1)}])

def run(work):
    records = work.each("seed={}", unit, range(work.settings.seeds), processes=True)
    return {"means": pd.DataFrame([row for record in records for row in record.rows])}

def figure(tables, settings):
    return sheet([lambda ax: dots(ax, tables["means"], "arm", "mean")])

SMOKE = {"seeds": 3}
claim = Claim("mean", "It is positive.", 2.0, "Table 1",
              lambda t: above(t["means"]["mean"], -9, "Mean."))
STUDY = Study("own", "Of one's own", "Nobody 2026", "About it.",
              {"smoke": SMOKE, "laptop": SMOKE, "paper": SMOKE}, run, (claim,), figure)
'''


def test_a_study_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in processes; its page can be written again; changed code is noticed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "a_study_in_a_file.py"
    path.write_text(OWN, encoding="utf-8")
    command = [sys.executable, "-m", "identikit", "study", "run", f"./{path.name}", "-o", "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "1 of 1 claims reproduced" in done.stdout
    result = load("out")
    assert result.document["command"].startswith("identikit study run ./a_study_in_a_file.py ")
    assert result.document["units"]["of_other_code"] == 0
    result.report("again.html")
    assert "own" in (tmp_path / "again.html").read_text(encoding="utf-8")
    path.write_text(OWN.replace("seed + 1", "seed + 2"), encoding="utf-8")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "computed by other code of this study" in done.stderr
    assert load("out").document["units"]["of_other_code"] == 3
    assert "3 of them computed by earlier code" in Path("out/report.html").read_text("utf-8")


def test_files_that_are_no_studies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(InputError, match="there is no such file"):
        find(str(tmp_path / "missing.py"))
    (tmp_path / "not_a_study_at_all.py").write_text("STUDY = 1\n")
    with pytest.raises(InputError, match="has no line STUDY = Study"):
        find(str(tmp_path / "not_a_study_at_all.py"))
    (tmp_path / "json.py").write_text("STUDY = 1\n")
    with pytest.raises(InputError, match="there is another module called 'json'"):
        find(str(tmp_path / "json.py"))


def test_studies_of_other_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(package_with("TOY", tmp_path))
    assert "toy" in names()
    assert find("toy") is TOY


def test_the_code_of_a_study_is_its_files() -> None:
    files = {path.name for path in _files_of("identikit.studies.reizinger_ima")}
    assert {"reizinger_ima.py", "_ima_fits.py", "_study.py", "_checks.py"} <= files
    assert len(code_digest(find("reizinger-ima"))) == 16


def test_the_code_of_a_study_of_one_s_own_is_also_what_it_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Units that a helper file has computed before it was changed are said to be of other code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    helper = tmp_path / "with_helper_units.py"
    helper.write_text("from study_units import square\n")
    Path("with_helper.py").write_text(
        "from study_units import toy\nfrom dataclasses import replace\n"
        "def run(work):\n"
        "    import with_helper_units, pandas as pd\n"
        "    records = work.each('n={}', with_helper_units.square, range(3))\n"
        "    return {'squares': pd.DataFrame([row for each in records for row in each.rows])}\n"
        "STUDY = replace(toy(), name='with-helper', run=run)\n"
    )
    run("./with_helper.py", folder="out")
    assert run("./with_helper.py", folder="out").document["units"]["of_other_code"] == 0
    helper.write_text("from study_units import square  # faster\n")
    with pytest.warns(UserWarning, match="were computed by other code of this study"):
        again = run("./with_helper.py", folder="out")
    assert again.document["units"]["of_other_code"] == 3
