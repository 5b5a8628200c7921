"""Checks against a pin: numbers by brute force, what passes, bad input, the page, the command."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import identikit as ik
from conftest import close
from identikit.cli import app
from planted_changes import embeddings, noise, rotation, unit


def run(*arguments: object) -> tuple[int, str, str]:
    found = CliRunner().invoke(app, [str(each) for each in arguments])
    return found.exit_code, found.stdout, found.stderr


@pytest.fixture
def x(rng) -> np.ndarray:
    return embeddings(rng, 400, 12)


def rung(found: ik.CheckResult, name: str) -> float:
    return next(one.error for one in found.layers[0].ladder if one.group == name)


def test_errors_equal_brute_force(x, rng):
    y = 3 * x @ rotation(rng, 12) + 0.3 + noise(rng, x, 0.3)
    found = ik.check(y, ik.pin(x), require="affine")
    halves = [np.arange(400) % 2 == half for half in (0, 1)]

    def brute(fit) -> float:
        sides = []
        for a, b in ((x, y), (y, x)):
            left = total = 0.0
            for train, test in (halves, halves[::-1]):
                mean_a, mean_b = a[train].mean(axis=0), b[train].mean(axis=0)
                weights = fit(a[train] - mean_a, b[train] - mean_b)
                left += np.square(b[test] - mean_b - (a[test] - mean_a) @ weights).sum()
                total += np.square(b[test] - mean_b).sum()
            sides.append(np.sqrt(left / total))
        return max(sides)

    def procrustes(a, b):
        u, _, vt = np.linalg.svd(a.T @ b)
        return u @ vt

    def scaled(a, b):
        turn = procrustes(a, b)
        return turn * np.sum(b * (a @ turn)) / np.square(a).sum()

    close(rung(found, "rigid"), brute(procrustes), 1e-9)
    close(rung(found, "similarity"), brute(scaled), 1e-9)
    close(rung(found, "affine"), brute(lambda a, b: np.linalg.lstsq(a, b)[0]), 1e-3)
    identity = max(
        np.sqrt(
            np.square(y - x).sum()
            / sum(np.square(z[b] - z[a].mean(axis=0)).sum() for a, b in (halves, halves[::-1]))
        )
        for z in (x, y)
    )
    close(rung(found, "identity"), identity, 1e-9)
    assert found.layers[0].group == "similarity"


def test_changes_of_moments_equal_brute_force(x, rng):
    y = np.concatenate([x, embeddings(rng, 100, 12)]) + 0.1
    change = ik.check(y, ik.pin(x)).layers[0].moments
    spread = np.sqrt(np.trace(np.cov(x.T, bias=True)))
    close(change.mean, np.linalg.norm(y.mean(axis=0) - x.mean(axis=0)) / spread, 1e-9)
    close(change.spread, np.sqrt(np.trace(np.cov(y.T, bias=True))) / spread, 1e-9)
    gap = np.cov(y.T, bias=True) - np.cov(x.T, bias=True)
    close(change.covariance, np.linalg.norm(gap) / np.linalg.norm(np.cov(x.T, bias=True)), 1e-9)


@pytest.mark.slow(sample=True)
def test_intervals_cover_the_error_of_the_population():
    """The error of noise of 30 % of the spread on fresh rows, over 200 pins of 200 rows."""
    rng = np.random.default_rng(0)
    basis = rotation(rng, 6) * np.arange(1, 7)
    truth, inside = 0.3, 0
    for _ in range(200):
        x = rng.normal(size=(200, 6)) @ basis
        size = 0.3 * np.sqrt(np.square(np.arange(1, 7)).sum() / 6)
        y = x + size * rng.normal(size=x.shape)
        # The worse direction divides by the smaller spread, that of x.
        low, high = ik.check(y, ik.pin(x)).layers[0].interval
        inside += low <= truth <= high
    assert 0.90 <= inside / 200 <= 0.99


def test_what_passes(x, rng):
    reference, turned = ik.pin(x), x @ rotation(rng, 12)
    small = x + noise(rng, x, 0.05)
    assert ik.check(small, reference)
    assert not ik.check(small, reference, fail_above=0.04)
    assert not ik.check(
        small, reference, fail_above=ik.check(small, reference).layers[0].error, strict=True
    )
    assert not ik.check(turned, reference)
    assert not ik.check(turned, reference, require="monomial")
    for name in ("rigid", "similarity", "linear", "affine"):
        assert ik.check(turned, reference, require=name), name
    whitened = x @ np.linalg.cholesky(np.linalg.inv(np.cov(x.T)))
    assert ik.check(whitened, reference, require="linear")
    assert not ik.check(whitened, reference, require="similarity")
    other = embeddings(rng, 400, 12)
    found = ik.check(other, reference, require="affine")
    assert not found
    assert found.layers[0].group == "unrelated"


def test_one_changed_row_of_many_does_not_pass(x):
    y = x.copy()
    y[7] = -y[7]
    found = ik.check(y, ik.pin(x), fail_above=0.5)
    assert not found
    assert found.layers[0].changed == ("7",)
    assert found.failures == ("1 of 400 rows have changed",)


def test_rows_that_are_not_in_the_sample_are_seen_in_the_moments(rng):
    x = embeddings(rng, 4000, 12)
    reference = ik.pin(x, rows=50)
    y = x.copy()
    others = np.setdiff1d(np.arange(4000), reference.layers[0].numbers)
    y[others[:800]] = -y[others[:800]]
    found = ik.check(y, reference)
    assert found.layers[0].cause.name == "same"
    assert not found
    assert "not in the sample" in found.failures[0]


def test_rows_that_were_added_are_remarked_if_they_differ(x, rng):
    reference = ik.pin(x)
    assert not ik.check(np.concatenate([x, x[:50]]), reference).layers[0].notes
    found = ik.check(np.concatenate([x, 1 + x]), reference)
    assert found
    assert "500" not in found.layers[0].notes[0]
    assert "another model for some of the rows" in found.layers[0].notes[0]


def test_pairing_by_id_finds_rows_that_were_removed_and_reordered(x, rng):
    ids = np.array([f"d{number}" for number in range(400)])
    reference, order = ik.pin(x, ids=ids), rng.permutation(400)[:300]
    found = ik.check(x[order], reference, ids=ids[order])
    assert found
    assert found.layers[0].compared == 300
    assert found.layers[0].pairing == "paired by id: 300 of 400 pinned rows are there"
    shuffled = ik.check(x[order], reference, ids=ids[rng.permutation(order)])
    assert shuffled.cause.name == "row permutation"
    assert "do not belong" in shuffled.cause.look
    by_number = ik.check(x, reference)
    assert by_number
    assert "the pin has ids" in by_number.layers[0].pairing


def test_what_cannot_be_compared_is_an_error(x):
    ids = [f"d{number}" for number in range(400)]
    reference, with_ids = ik.pin(x), ik.pin(x, ids=ids)
    bad = x.copy()
    bad[3] = np.nan
    for view, pinned, options, words in (
        (x[:, :5], reference, {}, "has 5 columns, and 12 were pinned"),
        (x[:399], reference, {}, "399 rows, and 400 were pinned"),
        (x[:0], reference, {}, "row"),
        (bad, reference, {}, "1 of 400 rows.*; compute these rows again$"),
        (bad, reference, {"rows": True}, "1 of 400 rows.*; compute these rows again$"),
        (x[:5], reference, {"rows": True}, "5 rows; foreign ones are looked for among at least 10"),
        (np.ones_like(x), reference, {}, "all the same"),
        (x, reference, {"ids": ids}, "the pin has no ids"),
        (x, with_ids, {"ids": [f"e{number}" for number in range(400)]}, "only 0 of the 400"),
        (x[:100], with_ids, {"ids": ids[:100]}, "only 100 of the 400"),
        (x, with_ids, {"ids": ids[:3]}, "3 ids for the 400 rows"),
        (x, reference, {"require": "rotation"}, "expected one of identity"),
        (x, reference, {"fail_above": -1}, "0 or larger"),
        (x, reference, {"fail_above": np.nan}, "0 or larger"),
        (x, reference, {"slices": ["a"] * 400}, "--rows"),
        (x, reference, {"false_alarms": 0.05}, "false-alarm rate is for .*--rows"),
        (x, reference, {"rows": True, "slices": ["a"] * 3}, "3 slice labels"),
        (x, reference, {"rows": True, "false_alarms": 2}, "false-alarm rate is 2"),
        (x, reference, {"rows": True, "false_alarms": 1e-4}, "needs at least 10000"),
        (1e200 * x, reference, {}, "rescale"),
        ("nowhere.npy", reference, {}, "nowhere"),
    ):
        with pytest.raises(ik.InputError, match=words):
            ik.check(view, pinned, **options)


def test_the_result_keeps_the_contract_of_results(x, rng, tmp_path):
    reference = ik.pin(x, fingerprints={"model": "<b>m</b>", "prefix": "query: "})
    found = ik.check(x @ rotation(rng, 12), reference)
    assert repr(found).startswith("CheckResult('view0' against 'the pin': failed; rigid, error")
    document = json.loads(found.to_json())
    assert document["passed"] is False
    assert document["verdict"]["cause"] == "rotation"
    assert document["layers"][0]["causes"][0]["name"] == "rotation"
    assert found.table.loc[0, "cause"] == "rotation"
    assert found.table.loc[0, "error_rigid"] < 1e-9
    assert "distances between rows are as before" in found.summary()
    found.save(tmp_path / "check.json")
    found.report(tmp_path / "check.html")
    page = (tmp_path / "check.html").read_text(encoding="utf-8")
    assert "<b>m</b>" not in page
    assert "a rotation" in page
    assert "rotation" in found._repr_html_()


def test_the_command_and_its_exit_codes(x, tmp_path):
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "half.npy", x.astype(np.float16))
    np.save(tmp_path / "turned.npy", x[:, ::-1])
    pin, summary = tmp_path / "ref.pin", tmp_path / "summary.md"
    code, out, err = run("pin", tmp_path / "x.npy", "-o", pin, "--model", "m", "--json")
    assert code == 0
    assert json.loads(out)["layers"][0]["kept"] == 400
    assert run("pin", tmp_path / "x.npy", "-o", pin)[0] == 2
    code, out, _ = run("pin", tmp_path / "x.npy", "-o", pin, "--force", "--no-rows")
    assert (code, out) == (0, "pinned x: 400 rows × 12, 0 rows kept\n")
    assert run("pin", tmp_path / "x.npy", "-o", pin, "--force", "--model", "m")[0] == 0
    code, out, err = run("check", tmp_path / "half.npy", "--reference", pin, "--json")
    assert code == 0
    assert json.loads(out)["verdict"]["cause"] == "rounding"
    code, out, err = run(
        "check", tmp_path / "turned.npy", "--reference", pin, "--summary", summary, "-q"
    )
    assert code == 1
    assert "column permutation" in out
    assert err == ""
    code, _, err = run("check", tmp_path / "turned.npy", "--reference", pin)
    assert code == 1
    assert "is above 0.1" in err
    args = ("check", tmp_path / "turned.npy", "--reference", pin, "--summary", summary)
    assert run(*args, "--require", "permutation")[0] == 0
    text = summary.read_text(encoding="utf-8")
    assert text.count("### identikit check: Failed: the columns are in another order") == 1
    assert text.count("### identikit check: Passed") == 1
    for wrong in (
        ("check", tmp_path / "none.npy", "--reference", pin),
        ("check", tmp_path / "x.npy", "--reference", tmp_path / "none.pin"),
        ("check", tmp_path / "x.npy", "--reference", tmp_path / "x.npy"),
        ("check", tmp_path / "x.npy", "--reference", pin, "--require", "nothing"),
        ("check", tmp_path / "x.npy", "--reference", pin, "--fail-above", "-1"),
        ("check", tmp_path / "x.npy", "--reference", pin, "--id", "a", "--ids", "b.txt"),
        ("check", tmp_path / "x.npy", "--reference", pin, "--summary", tmp_path),
        ("check", tmp_path / "x.npy", "--reference", pin, "--summary", pin),
        ("pin", tmp_path / "x.npy", "-o", tmp_path / "p", "--id", "a", "--ids", "b.txt"),
        ("pin", tmp_path / "none.npy", "-o", tmp_path / "p"),
    ):
        code, out, err = run(*wrong)
        assert (code, out) == (2, ""), wrong
        assert err.startswith("identikit: ")
        assert "Traceback" not in err


def test_markdown_cannot_be_broken_out_of(x, tmp_path):
    name = "a|b`<script>[c](d).npy"
    np.save(tmp_path / name, x)
    ik.pin(x, fingerprints={"model": "m\n# n | o"}).save(tmp_path / "ref.pin")
    summary = tmp_path / "s.md"
    assert (
        run("check", tmp_path / name, "--reference", tmp_path / "ref.pin", "--summary", summary)[0]
        == 0
    )
    text = summary.read_text(encoding="utf-8")
    assert "<script>" not in text
    assert "\n# n" not in text
    row = next(line for line in text.splitlines() if line.startswith("| a"))
    assert row.replace("\\|", "").count("|") == 6


def test_rows_and_slices_on_the_command_line(rng, tmp_path):
    import pandas as pd

    x, other = embeddings(rng, 1200, 24), unit(embeddings(rng, 1200, 24) + 0.4)
    names = [f"v{number}" for number in range(24)]
    ids = [f"d{number}" for number in range(1200)]
    new = x.copy()
    new[:120] = other[:120]
    language = np.where(np.arange(1200) < 240, "de", "en")
    old = pd.DataFrame(x, columns=names).assign(doc=ids)
    old.to_csv(tmp_path / "old.csv", index=False)
    mixed = pd.DataFrame(new, columns=names).assign(doc=ids, language=language)
    mixed.to_csv(tmp_path / "new.csv", index=False)
    assert run("pin", tmp_path / "old.csv", "--id", "doc", "-o", tmp_path / "ref.pin")[0] == 0
    code, out, _ = run(
        "check", tmp_path / "new.csv", "--reference", tmp_path / "ref.pin", "--id", "doc",
        "--rows", "--slice", "language", "--json",
    )  # fmt: skip
    found = json.loads(out)["foreign_rows"]
    assert code == 1
    low, high = found["interval"]
    assert low <= 0.1 <= high
    assert [each["name"] for each in found["slices"]] == ["de", "en"]
    assert set(found["ids"][:5]) <= set(ids)
    assert found["slices"][0]["share"] > 0.3 > found["slices"][1]["share"]
