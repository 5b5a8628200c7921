"""`identikit disentangle`: streams, files, options and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from identikit.cli import app
from identikit.factors import disentangle, listed

ROWS = 200


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    s = np.column_stack([rng.normal(size=(ROWS, 2)), rng.integers(3, size=ROWS)])
    np.save("codes.npy", s[:, ::-1] + 0.1 * rng.normal(size=s.shape))
    np.save("factors.npy", s)
    pd.DataFrame(s, columns=["a", "b", "kind"]).to_csv("factors.csv", index=False)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["disentangle", *arguments])


def done(*arguments: str) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


SOME = ("--metrics", "mcc,r2,mig")


def test_the_table_goes_to_standard_output_and_files_where_asked():
    result = done("codes.npy", "factors.csv", *SOME, "--report", "x.html", "-o", "x.json")
    assert "3 codes against 3 factors in 200 rows: MCC 0.9" in result.stdout
    assert "R², linear" in result.stdout
    assert result.stderr.splitlines()[-2:] == ["wrote x.json", "wrote x.html"]
    assert "<svg" in Path("x.html").read_text(encoding="utf-8")
    document = json.loads(Path("x.json").read_text(encoding="utf-8"))
    assert list(document["scores"]) == ["mcc", "r2", "mig"]
    assert [each["name"] for each in document["factors"]] == ["a", "b", "kind"]


def test_json_is_all_there_is_on_standard_output():
    result = done(
        "codes.npy", "factors.npy", *SOME, "--json", "--seed", "3", "--factor-names", "a,b,kind"
    )
    document = json.loads(result.stdout)
    frame = pd.DataFrame(np.load("factors.npy"), columns=["a", "b", "kind"])
    expected = disentangle("codes.npy", frame, metrics=["mcc", "r2", "mig"], seed=3)
    assert document == expected.to_dict()


def test_names_choose_columns_and_kinds_are_said():
    options = ("--factor-names", "kind,a", "--continuous", "kind", "--metrics", "mcc", "--json")
    document = json.loads(done("codes.npy", "factors.csv", *options).stdout)
    assert [(each["name"], each["kind"]) for each in document["factors"]] == [
        ("kind", "continuous"),
        ("a", "continuous"),
    ]
    options = ("--discrete", "kind", "--metrics", "mcc", "--json", "--preset", "reference")
    document = json.loads(done("codes.npy", "factors.csv", *options).stdout)
    assert document["factors"][2]["kind"] == "discrete"
    assert document["settings"]["preset"] == "reference"
    assert document["scores"]["mcc"]["method"].startswith("Pearson correlation. In sample")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("absent.npy", "factors.npy"), "there is no such file"),
        (("codes.npy", "absent.csv"), "there is no such file"),
        (("codes.npy", "factors.npy", "--factor-names", "a,b"), "expected 3 factor names"),
        (("codes.npy", "factors.csv", "--discrete", "color"), "'color', which is not a factor"),
        (
            ("codes.npy", "factors.csv", "--discrete", "a", "--continuous", "a"),
            "in both --discrete",
        ),
        (("codes.npy", "factors.csv", "--metrics", "MCC"), "there is no metric 'MCC'"),
        (("codes.npy", "factors.csv", "--preset", "dlib"), "preset is 'dlib'"),
        (("codes.npy", "factors.csv", "-o", "codes.npy"), "one of the inputs"),
        (("codes.npy", "factors.csv", "-o", "no/where.json"), "there is no directory"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(arguments, word):
    assert word in refused(*arguments)


def test_every_metric_is_listed_with_its_question():
    assert "Example: identikit disentangle " in " ".join(done("--help").stdout.split())
    lines = done("--list-metrics").stdout.splitlines()
    assert len(lines) == len(listed())
    for line, each in zip(lines, listed()):
        assert line.split()[0] == each.name
        assert each.question in line
        assert line.endswith("Only by name.") == each.by_name


def no_number_is_missing(value: object) -> bool:
    """JSON has no NaN, but Python's reader would take one."""
    text = json.dumps(value)
    return not any(word in text for word in ("NaN", "Infinity"))


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda s, z: (s.assign(b=7.0), z), "factor 'b': one value only, 7.0"),
        (lambda s, z: (s.assign(b=np.nan), z), "factor 'b': no value in any row"),
        (
            lambda s, z: (s.assign(b=s["b"].where(s.index % 4 > 0)), z),
            "rows 'b': 50 of 200 rows have no value",
        ),
        (
            lambda s, z: (s.assign(b=[f"id {i}" for i in s.index]), z),
            "factor 'b': 200 classes in 200 rows",
        ),
        (lambda s, z: (s, np.column_stack([z, np.ones(ROWS)])), "code 'code 3': constant, 1"),
        (
            lambda s, z: (s.assign(b=np.where(s["b"] > 0, "high", "low")), z),
            "factor 'b': MCC needs numbers, and its values are words",
        ),
    ],
)
def test_what_cannot_be_scored_is_named_and_the_rest_is_scored(spoil, word):
    factors, codes = spoil(pd.read_csv("factors.csv"), np.load("codes.npy"))
    factors.to_csv("spoilt.csv", index=False)
    np.save("spoilt.npy", codes)
    # Lines are as wide as the terminal; what is said may be broken across two.
    result = done("spoilt.npy", "spoilt.csv", *SOME, "-o", "x.json")
    assert word in " ".join(result.output.split())
    document = json.loads(Path("x.json").read_text(encoding="utf-8"))
    assert list(document["scores"]) == ["mcc", "r2", "mig"]
    assert no_number_is_missing(document)


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda z: np.where(np.arange(ROWS)[:, None] == 5, np.nan, z), "NaN or infinite in 1 of"),
        (lambda z: z + 1j, "complex"),
        (lambda z: z.astype(str), "<U"),
        (lambda z: z[:-1], "the codes have 199 rows and the factors have 200"),
        (lambda z: np.ones_like(z), "all 3 codes are constant"),
        (lambda z: z * [1, 1e200, 1], "another unit"),
    ],
)
def test_bad_codes_are_refused(spoil, word):
    np.save("spoilt.npy", spoil(np.load("codes.npy")))
    assert word in " ".join(refused("spoilt.npy", "factors.csv", *SOME).split())


def test_the_unit_of_the_codes_does_not_matter():
    np.save("large.npy", np.load("codes.npy") * 2.0**700)
    small, large = (
        disentangle(codes, "factors.csv", metrics=["mcc", "r2", "mig"]).table["value"]
        for codes in ("codes.npy", "large.npy")
    )
    np.testing.assert_allclose(large, small, atol=1e-9)
    done("large.npy", "factors.csv", *SOME)


def test_complex_factors_are_refused():
    np.save("spoilt.npy", np.load("factors.npy") + 1j)
    assert "complex" in refused("codes.npy", "spoilt.npy", *SOME)
