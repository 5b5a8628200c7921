"""What the documentation says is so."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

import identikit as ik
from identikit.similarity import MEASURES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


EXAMPLES = [
    (page.name, *both)
    for page in (ROOT / "README.md", ROOT / "docs" / "recover.md", ROOT / "docs" / "worlds.md")
    for both in re.findall(
        r"```python\n(.*?)```\n\n```\n(.*?)```", page.read_text(encoding="utf-8"), re.S
    )
]


@pytest.mark.parametrize(("page", "code", "printed"), EXAMPLES)
def test_examples_print_what_the_page_says(page, code, printed):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, page, "exec"), {})
    assert out.getvalue() == printed


def test_every_page_with_examples_has_some():
    assert {page for page, _, _ in EXAMPLES} == {"README.md", "recover.md", "worlds.md"}


def test_the_readme_lists_every_measure_with_its_invariance_and_its_paper():
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)\|$", README, re.M))
    assert set(rows) == set(MEASURES)
    for name, measure in MEASURES.items():
        _, unchanged, paper = (cell.strip() for cell in rows[name].split("|"))
        assert unchanged.startswith(f"{measure.invariant_to} maps"), name
        assert paper == measure.reference, name


def test_every_public_name_has_an_entry_and_a_docstring():
    listed = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in set(ik.__all__) - {"__version__"}:
        assert re.search(rf"`{name}\b", listed), f"docs/api.md does not list {name}"
        assert inspect.getdoc(getattr(ik, name)), f"{name} has no docstring"


PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_relative_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_measure_of_the_contributing_guide_works_in_one_file(tmp_path):
    """A file in the folder of measures is all it takes: run in a copy of the package."""
    import shutil

    source = re.search(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S)[1]
    shutil.copytree(ROOT / "src" / "identikit", tmp_path / "identikit")
    (tmp_path / "identikit" / "similarity" / "_rv.py").write_text(source, encoding="utf-8")
    code = (
        "import numpy as np, identikit as ik, identikit.similarity as s\n"
        "X = np.random.default_rng(0).normal(size=(100, 3))\n"
        "m = ik.accumulate([X, X @ np.diag([1, 2, 3])])\n"
        "assert abs(s.rv(m).value - ik.cka(m).value) < 1e-12\n"
        "print(ik.audit([X, 2 * X]).comparisons[0].measures['rv'].value)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert float(done.stdout) == pytest.approx(1.0)


def test_importing_identikit_loads_nothing_heavy():
    code = "import sys, identikit; print(sorted(m.split('.')[0] for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(eval(done.stdout))
    assert not loaded & {"torch", "pandas", "matplotlib", "sklearn", "scipy", "rich", "typer"}


def test_an_audit_needs_neither_torch_nor_pyplot():
    code = (
        "import sys, numpy as np, identikit as ik\n"
        "X = np.random.default_rng(0).normal(size=(50, 2))\n"
        "ik.audit([X, X])\n"
        "print([m for m in ('torch', 'pandas', 'matplotlib', 'sklearn') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
