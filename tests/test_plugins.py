"""One file, or one function, and nothing else: a copy of the repository gets one of each."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("src", "tests", "docs", "benchmarks")
PAGES = ("README.md", "CONTRIBUTING.md", "pyproject.toml", "CHANGELOG.md")

pytestmark = pytest.mark.long

RUNG = '''@rung(
    "up to the signs of their axes",
    "Every axis is the same, but may be flipped, and shifted.",
    inside="permutation",
    contains="identity",
    of_axes=True,
    keeps_scale=True,
)
def flips(s: PairStats) -> tuple[Array, Array]:
    """Signs and shift: those of the diagonal of S_xy."""
    weights = np.diag(np.where(np.diagonal(s.sxy) < 0, -1.0, 1.0))
    return weights, s.y_mean - s.x_mean @ weights


'''
CHECK = '''"""Is the mean far from the origin?"""

import numpy as np

from identikit.auditing._evidence import Answer, Evidence


def check(evidence: Evidence, threshold: float = 1e6) -> Answer:
    """Largest entry of the means of the two views."""
    largest = max(float(np.abs(evidence.moments.centre(v)).max()) for v in evidence.views)
    message = "the mean of a view is far from the origin; centre it."
    return Answer(largest, threshold, largest <= threshold, message)
'''
METRIC = '''"""What the nearest row says of a factor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from identikit.factors import Score, Trial, held_out, metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[Any]


@metric("neighbour", "Have near codes near factors?", invariant_to="rotations", reference="N 2026")
def neighbour(trial: Trial, *, count: int = 5) -> Score:
    """Mean over factors of R² by the nearest rows of other folds.

    Parameters
    ----------
    count : int
        How many rows count as near.
    """
    from sklearn.neighbors import KNeighborsRegressor

    def fit(z: Values, values: Values, train: Values, test: Values) -> float:
        model = KNeighborsRegressor(min(count, len(train))).fit(z[train], values[train])
        missed = float(np.mean((values[test] - model.predict(z[test])) ** 2))
        return 1 - missed / (float(np.var(values[train])) or 1.0)

    trial = trial.numeric()
    trial.needs_folds()
    part = trial.mean_part("R²", *trial.refit(fit, held_out).means())
    return trial.score(part, f"The {count} nearest rows.")
'''
FORMAT = '''"""Tables with semicolons."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from identikit.sources.array import ArraySource
from identikit.sources.registry import register, register_frame, register_ids

if TYPE_CHECKING:
    import pandas as pd


@register(".ssv")
def open_ssv(path: Path, member: str | None, name: str) -> ArraySource:  # noqa: ARG001
    """Open all columns of decimals."""
    return ArraySource(read_ssv(path, name).select_dtypes("float64").to_numpy(), name)


@register_ids(".ssv")
def read_ssv_ids(path: Path, column: str, label: str) -> Iterator[NDArray[Any]]:
    """The ids of all rows."""
    yield read_ssv(path, label)[column].to_numpy()


@register_frame(".ssv")
def read_ssv(path: Path, label: str) -> pd.DataFrame:  # noqa: ARG001
    """The whole table."""
    import pandas as pd

    frame: pd.DataFrame = pd.read_csv(path, sep=";")
    return frame
'''
STUDY = '''"""A study of a mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from identikit.report.drawing import sheet
from identikit.studies import Claim, Record, Settings, Study, Tables, Work, above, dots

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def unit(seed: int, rows: int) -> Record:
    """The mean of some draws."""
    draws = np.random.default_rng(seed).normal(1.0, size=rows)
    return Record([{"seed": seed, "arm": "normal", "mean": float(draws.mean())}])


def run(work: Work) -> Tables:
    """One unit a seed."""
    s = work.settings
    records = work.each("seed={}", unit, range(s.seeds), rows=s.rows)
    return {"means": pd.DataFrame([row for record in records for row in record.rows])}


def figure(tables: Tables, settings: Settings) -> Figure:  # noqa: ARG001
    """The means."""
    return sheet([lambda ax: dots(ax, tables["means"], "arm", "mean")])


SMOKE = {"seeds": 3, "rows": 50}
STUDY = Study(
    name="nobody-mean",
    title="The mean of normal draws",
    paper="Nobody 2026",
    about="Draws have a mean of one.",
    presets={"smoke": SMOKE, "laptop": SMOKE, "paper": SMOKE},
    run=run,
    claims=(
        Claim(
            "mean",
            "The mean of the draws is positive.",
            1.0,
            "Table 1",
            lambda t: above(t["means"]["mean"], 0.5, "Mean of the draws; 0.5 or more counts."),
        ),
    ),
    figure=figure,
)
'''
SCRIPT = """
import numpy as np, identikit as ik, identikit.studies as studies
X = np.random.default_rng(0).normal(size=(200, 3))
Y = X * [1, -1, 1]
audit = ik.audit([X, Y], checks={"far_mean": 1e-9})
assert audit.verdict.group == "flips", audit.verdict
assert audit.comparisons[0].measures["rv"].value > 0.99
assert any("far from the origin" in warning for warning in audit.comparisons[0].warnings)
assert "up to the signs of their axes" in audit.summary(), audit.summary()
audit.report("audit.html")
page = open("audit.html").read()
assert "flips" in page and "rv" in page and "far from the origin" in page
assert ik.align(X, Y, group="flips").error < 1e-9
assert "flips" in str(ik.near_identifiability(X, Y).to_dict())
from identikit.similarity import rv
assert abs(rv(X, Y).value - ik.cka(X, Y).value) < 1e-12
with open("view.ssv", "w") as file:
    file.write("id;a;b;kind\\n")
    for k, (a, b, _) in enumerate(X.tolist()):
        file.write(f"{k};{a};{b};{k % 3}\\n")
from identikit.sources import read_labels
kinds = read_labels("view.ssv::kind")
assert ik.audit(["view.ssv", X[:, :2]], groups=kinds).verdict.group == "identity"
found = ik.disentangle(X[:, :2], "view.ssv", names=["a", "b"], metrics=["mcc", "neighbour"])
assert found["neighbour"].value > 0.7 and found["mcc"].value > 0.99
assert abs(found["neighbour"].chance.mean) < 0.5 and found["neighbour"].interval
result = studies.run("nobody-mean", folder="out")
assert result.findings["mean"].verdict == "reproduced"
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository with a measure, a rung, a check, a metric, a format and a study more."""
    root = tmp_path_factory.mktemp("copy")
    for folder in SOURCES:
        ignored = shutil.ignore_patterns("__pycache__", ".*")
        shutil.copytree(ROOT / folder, root / folder, ignore=ignored)
    for page in PAGES:
        shutil.copy(ROOT / page, root / page)
    package = root / "src" / "identikit"
    measure = re.search(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S)
    assert measure is not None
    rungs = package / "alignment" / "_rungs.py"
    text, place = rungs.read_text(), '@rung(\n    "up to the order and the signs of their axes"'
    assert text.count(place) == 1
    rungs.write_text(text.replace(place, RUNG + place))
    for path, source in {
        "similarity/_rv.py": measure[1],
        "auditing/checks/far_mean.py": CHECK,
        "factors/_neighbour.py": METRIC,
        "sources/_ssv.py": FORMAT,
        "studies/nobody_mean.py": STUDY,
    }.items():
        assert not (package / path).exists()
        (package / path).write_text(source, encoding="utf-8")
    return root


def in_copy(copy: Path, *arguments: str, cwd: Path | None = None) -> str:
    """Run Python there; what it printed, if all is well."""
    path = os.pathsep.join([str(copy / "src"), str(copy / "tests")])
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd or copy,
        env=os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_lint_has_nothing_to_say(copy: Path) -> None:
    pytest.importorskip("mypy")
    new = [str(path) for path in (copy / "src").rglob("*.py")]
    in_copy(copy, "-m", "ruff", "check", *new)
    in_copy(copy, "-m", "ruff", "format", "--check", *new)
    in_copy(copy, "-m", "mypy")
    in_copy(copy, "-c", "from importlinter.cli import lint_imports; exit(lint_imports())")


def test_each_is_found_by_itself(copy: Path, tmp_path: Path) -> None:
    in_copy(copy, "-c", SCRIPT, cwd=tmp_path)
    assert "nobody-mean" in in_copy(copy, "-m", "identikit", "study", "list")


def test_the_docs_have_them(copy: Path, tmp_path: Path) -> None:
    in_copy(copy, "docs/reference.py", "--to", str(tmp_path / "page.md"))
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    for name in ("rv", "flips", "far_mean", "neighbour", ".ssv", "nobody-mean"):
        assert f"| `{name}` |" in page, name


MODULES = ("docs", "similarity", "alignment", "scored", "disentangle", "sources")


@pytest.mark.parametrize("module", MODULES)
def test_the_tests_that_are_there_pass(copy: Path, module: str) -> None:
    out = in_copy(
        copy, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"tests/test_{module}.py"
    )
    assert " passed" in out
