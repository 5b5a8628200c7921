"""What the documentation says is so."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import identikit as ik
from identikit.similarity import MEASURES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


PAGES_THAT_RUN = ("migrate.md", "recover.md", "worlds.md")
EXAMPLES = [
    (page.name, *both)
    for page in [ROOT / "README.md", *(ROOT / "docs" / name for name in PAGES_THAT_RUN)]
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
    assert {page for page, _, _ in EXAMPLES} == {"README.md", *PAGES_THAT_RUN}


def test_the_readme_lists_measures_with_their_invariance_and_their_paper():
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)\|$", README, re.M))
    assert {"cca", "cka", "procrustes"} <= set(rows) <= set(MEASURES)
    for name in rows:
        measure = MEASURES[name]
        _, unchanged, paper = (cell.strip() for cell in rows[name].split("|"))
        assert unchanged.startswith(f"{measure.invariant_to} maps"), name
        assert paper == measure.reference, name


def test_every_public_name_has_an_entry_and_a_docstring():
    listed = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in set(ik.__all__) - {"__version__"}:
        assert re.search(rf"`{name}\b", listed), f"docs/api.md does not list {name}"
        assert inspect.getdoc(getattr(ik, name)), f"{name} has no docstring"


#: What may be given by position although it has a default: data, and which views.
DATA = {"B", "bias", "factors", "i", "j"}


CALLED = [name for name in ik.__all__ if name == "ICA" or name[0].islower()]


@pytest.mark.parametrize("name", [name for name in CALLED if callable(getattr(ik, name))])
def test_options_are_by_keyword_only(name):
    for parameter in inspect.signature(getattr(ik, name)).parameters.values():
        if parameter.default is not parameter.empty and parameter.name not in DATA:
            assert parameter.kind is parameter.KEYWORD_ONLY, parameter.name


def test_every_measure_takes_two_tables_or_moments():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(2, 80, 3))
    moments = ik.accumulate([Y, X], folds=1)
    for name, measure in MEASURES.items():
        assert measure.function(X, Y).value == measure.function(moments, 1, 0).value, name
    for wrong in [(X,), (X, 1), (X, Y, 0)]:
        with pytest.raises(ik.InputError, match="two tables of the same rows"):
            ik.cka(*wrong)


def test_the_reference_page_says_what_the_code_says(tmp_path):
    """What it says is so; what is new is on it after the next `python docs/reference.py`."""
    script, page = ROOT / "docs" / "reference.py", tmp_path / "page.md"
    subprocess.run([sys.executable, script, "--to", page], check=True)
    lines = set(page.read_text(encoding="utf-8").splitlines())
    listed = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8").splitlines()
    assert len(listed) > 100
    assert not set(listed) - lines


PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_relative_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


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


def names_in(code: str) -> Iterator[str]:
    """Dotted names of identikit that code imports or has in its strings, such as scripts."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"identikit(?:\.\w+)+", node.value)
            with contextlib.suppress(SyntaxError):
                if "from identikit" in node.value:
                    yield from names_in(node.value)


def private_modules(code: str) -> set[str]:
    """Modules of identikit with an underscore somewhere in their path that code names."""
    found = set()
    for name in names_in(code):
        parts = name.split(".")
        while parts[0] == "identikit" and len(parts) > 1:
            path = (ROOT / "src").joinpath(*parts)
            if path.with_suffix(".py").is_file() or (path / "__init__.py").is_file():
                if any(re.match("_[^_]", part) for part in parts):
                    found.add(".".join(parts))
                break
            parts.pop()
    return found


@pytest.mark.parametrize("path", sorted((ROOT / "tests").glob("*.py")), ids=lambda path: path.stem)
def test_a_test_file_reaches_into_one_private_module_at_most(path):
    found = private_modules(path.read_text(encoding="utf-8"))
    assert len(found) <= 1, sorted(found)


def test_private_modules_are_seen_wherever_they_are_named():
    text, linalg = (".".join(("identikit", name)) for name in ("_text", "_linalg"))
    for code in (
        f"import {text}",
        f"from {text} import plain",
        "from identikit import _text, audit",
        f"def f():\n    patch('{text}.plain')",
        f"SCRIPT = 'import sys\\nfrom {text} import plain'",
        "SCRIPT = 'from identikit import _text'",
        f"run('python -c \"import {text}\"')",
    ):
        assert private_modules(code) == {text}, code
    assert private_modules(f"import {text}, {linalg}") == {text, linalg}
    assert private_modules("from identikit import audit, __version__\nimport _thread") == set()
