"""Codes against known factors: what comes in, what is left out, and what comes back."""

from __future__ import annotations

import inspect
import json
import math
import re
import sys

import numpy as np
import pandas as pd
import pytest

from identikit.errors import InputError, MissingExtraError
from identikit.factors import (
    METRICS,
    disentangle,
    folds,
    infomec,
    listed,
    mcc,
    mig,
    orders,
    prepare,
    r2,
)
from identikit.factors._result import chance_of
from identikit.moments import assign_folds

ROWS, SUMMARY = 300, 150


@pytest.fixture
def known() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(ROWS, 3))


def mixed(rows: int = ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "size": rng.normal(size=rows),
            "place": rng.integers(4, size=rows),
            "shape": rng.choice(["round", "square", "flat"], size=rows),
            "lit": rng.random(rows) < 0.5,
        }
    )


def codes_of(frame: pd.DataFrame) -> np.ndarray:
    return np.column_stack([pd.factorize(frame[c], sort=True)[0] for c in frame]).astype(float)


def refuses(*words: str, codes=None, factors=None, call=prepare, **options) -> None:
    codes = np.random.default_rng(0).normal(size=(ROWS, 2)) if codes is None else codes
    factors = codes if factors is None else factors
    with pytest.raises(InputError) as error:
        call(codes, factors, **options)
    for word in words:
        assert word in str(error.value), str(error.value)


# What kind of factor it is


def test_kinds_follow_the_values_and_not_the_type_they_are_stored_in():
    frame = mixed()
    frame["stored as float"] = frame["place"].astype(float)
    frame["category"] = frame["shape"].astype("category")
    frame["counts"] = np.arange(ROWS)  # whole, but a value a row
    data = prepare(codes_of(frame), frame)
    assert {f.name: (f.kind, f.classes) for f in data.factors} == {
        "size": ("continuous", 0),
        "place": ("discrete", 4),
        "shape": ("discrete", 3),
        "lit": ("discrete", 2),
        "stored as float": ("discrete", 4),
        "category": ("discrete", 3),
        "counts": ("continuous", 0),
    }
    assert [f.name for f in data.factors if f.numbers is None] == ["shape", "category"]


def test_kinds_may_be_said():
    frame = mixed()
    by_name = prepare(codes_of(frame), frame, kinds={"place": "continuous"})
    assert [f.kind for f in by_name.factors][1] == "continuous"
    one_each = prepare(frame[["place"]], frame[["place"]], kinds=["continuous"])
    assert one_each.factors[0].kind == "continuous"


def test_codes_and_factors_stay_paired_in_their_random_order(known):
    data = prepare(known, known)
    np.testing.assert_array_equal(
        data.codes, np.column_stack([factor.values for factor in data.factors])
    )
    assert not np.array_equal(data.codes, known)
    assert sorted(data.codes[:, 0]) == sorted(known[:, 0])
    assert prepare(data) is data


# Where factors come from


def test_every_kind_of_file_says_the_same(tmp_path, known):
    frame = pd.DataFrame(known, columns=["a", "b", "c"])
    np.save(tmp_path / "x.npy", known)
    np.savez(tmp_path / "one.npz", known)
    np.savez(tmp_path / "x.npz", factors=known, other=np.ones(3))
    np.savez(tmp_path / "vectors.npz", **{name: frame[name].to_numpy() for name in frame})
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_csv(tmp_path / "x.tsv", index=False, sep="\t")
    expected = mcc(known, frame, permutations=0)
    sources = ["x.npy", "one.npz", "x.npz::factors", "vectors.npz", "x.csv", "x.tsv"]
    for name in sources:
        names = None if name[0] in "v" or name[-2:] == "sv" else ["a", "b", "c"]
        found = mcc(known, str(tmp_path / name), names=names, permutations=0)
        assert found.per_factor == pytest.approx(expected.per_factor)
    mapping = {name: frame[name].to_numpy() for name in frame}
    assert mcc(known, mapping, permutations=0).per_factor == expected.per_factor
    assert list(prepare(known, tmp_path / "x.npy").factors)[1].name == "factor 1"
    assert len(prepare(known, known[:, 0]).factors) == 1


def test_parquet(tmp_path, known, monkeypatch):
    pytest.importorskip("pyarrow")
    frame = mixed()
    frame.to_parquet(tmp_path / "x.parquet")
    data = prepare(known, tmp_path / "x.parquet")
    assert [factor.name for factor in data.factors] == list(frame)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'identikit\[io\]'"):
        prepare(known, tmp_path / "x.parquet")


def test_names_choose_the_columns_of_a_table(known):
    frame = mixed()
    data = prepare(known, frame, names=["lit", "size"])
    assert [factor.name for factor in data.factors] == ["lit", "size"]


def test_row_numbers_that_pandas_wrote_are_no_factor(tmp_path, known):
    mixed().to_csv(tmp_path / "x.csv")
    data = prepare(known, tmp_path / "x.csv")
    assert [factor.name for factor in data.factors] == list(mixed())
    assert data.excluded[0].name == "Unnamed: 0"


def test_codes_come_from_files_and_frames(tmp_path, known):
    np.save(tmp_path / "z.npy", known.astype(np.float32))
    assert mcc(tmp_path / "z.npy", known, permutations=0).value == pytest.approx(1.0)
    frame = pd.DataFrame(known, columns=["x", "y", "z"])
    assert prepare(frame, known).code_names == ("x", "y", "z")
    assert prepare(known, known).code_names == ("code 0", "code 1", "code 2")


# What is left out, by name


def test_factors_with_one_value_are_left_out_by_name(known):
    frame = pd.DataFrame({"good": known[:, 0], "same": 7.0, "empty": np.nan})
    score = mcc(known, frame, permutations=0)
    assert score.factors == ("good",)
    reasons = {each.name: each.reason for each in score.excluded}
    assert reasons == {"same": "one value only, 7.0", "empty": "no value in any row"}


def test_missing_values_cost_a_factor_its_rows_and_no_other(known):
    frame = pd.DataFrame(known, columns=["a", "b", "c"])
    frame.loc[::3, "b"] = np.nan
    found = disentangle(known, frame, metrics=["mcc", "r2", "mig", "sap", "dci_lasso"])
    gone = len(frame.loc[::3])
    assert [(e.what, e.name, e.reason) for e in found.excluded] == [
        ("rows", "b", f"{gone} of {ROWS} rows have no value")
    ]
    assert [factor.rows for factor in found.factors] == [ROWS, ROWS - gone, ROWS]
    assert found["mcc"].value == pytest.approx(1.0)
    assert found["mcc"].n == ROWS
    # Each on its own rows: the same as if the factor had been scored alone.
    left = frame["b"].notna().to_numpy()
    rng = np.random.default_rng(5)
    noisy = known + rng.normal(size=known.shape)
    alone = mig(noisy[left], frame["b"][left], preset="reference", permutations=0)
    both = mig(noisy, frame, preset="reference", permutations=0)
    assert both.per_factor["b"] == pytest.approx(alone.per_factor["b"], abs=1e-12)


def test_a_factor_known_in_too_few_rows_is_left_out(known):
    frame = pd.DataFrame(
        {"a": known[:, 0], "b": np.where(np.arange(ROWS) < 7, known[:, 1], np.nan)}
    )
    assert "known in 7 of 300 rows only" in prepare(known, frame).excluded[0].reason
    few = pd.DataFrame({"a": known[:10, 0], "b": [np.nan, *known[1:10, 1]]})
    assert "known in 9 of 10 rows only" in prepare(known[:10], few).excluded[0].reason


def test_fewer_rows_than_classes(known):
    words = [f"id {row}" for row in range(ROWS)]
    frame = pd.DataFrame({"a": known[:, 0], "id": words})
    (said,) = prepare(known, frame).excluded
    assert said.reason == "300 classes in 300 rows, fewer than two rows per class"
    said = prepare(known, known, kinds=["continuous", "discrete", "continuous"]).excluded[0]
    assert "if it is a quantity, declare it continuous" in said.reason


def test_constant_codes_are_left_out_by_name(known):
    codes = np.column_stack([known[:, 0], np.full(ROWS, 3.5), known[:, 1:]])
    found = disentangle(codes, known, metrics=["mcc", "r2", "mig", "factor_vae"])
    assert ("code", "code 1", "constant, 3.5 in every row") in [
        (each.what, each.name, each.reason) for each in found.excluded
    ]
    assert found.codes == ("code 0", "code 2", "code 3")
    assert found["mcc"].matrix.shape == (3, 3)
    assert found["mcc"].value == pytest.approx(1.0)


def test_words_have_no_correlation():
    frame = mixed()
    score = r2(codes_of(frame), frame, permutations=0)
    assert score.factors == ("size", "place", "lit")
    assert score.excluded[0].name == "shape"
    refuses("every factor are words", codes=codes_of(frame), factors=frame[["shape"]], call=mcc)


# What is refused


def test_bad_codes(known):
    refuses("complex128", codes=known + 1j, factors=known)
    refuses("<U", codes=known.astype(str), factors=known)
    bad = known.copy()
    bad[7, 1] = np.nan
    refuses("NaN or infinite in 1 of 300 rows", "row 7", codes=bad, factors=known)
    refuses("all 3 codes are constant", codes=np.ones((ROWS, 3)), factors=known)
    refuses("1 row", codes=known[:1], factors=known[:1])
    # Codes are compared with each other, in one unit.
    refuses(
        "code 'code 0' has values up to",
        "another unit",
        codes=known * [1.0, 1e200, 1.0],
        factors=known,
    )
    refuses(
        "code 'code 1' has values up to",
        "another unit",
        codes=known * [1, 1e-200, 1],
        factors=known,
    )
    with pytest.raises(InputError, match="no factors"):
        prepare(known)


def test_bad_factors(tmp_path, known):
    refuses("300 rows and the factors have 299", "paired by position", factors=known[:-1])
    refuses("shape (300, 2, 1)", factors=known[:, :2, None])
    refuses("no factor can be scored", "'factor 0': one value only", factors=np.ones(ROWS))
    infinite = known.copy()
    infinite[[4, 9], 0] = np.inf
    refuses("factor 'factor 0' is infinite in 2 rows, the first is row 4", factors=infinite)
    refuses("values of type complex", factors=known + 1j)
    refuses(
        "expected only numbers, only booleans or only words",
        factors={"a": pd.date_range("2020", periods=ROWS)},
    )
    refuses(
        "only numbers, only booleans",
        factors={"a": np.array(["x", 1.5] * (ROWS // 2), dtype=object)},
    )
    refuses("one vector per factor", factors={"a": known})
    refuses("different numbers of rows", factors={"a": known[:, 0], "b": known[1:, 0]})


def test_bad_names_and_kinds(known):
    refuses("expected 3 factor names", "got 2: 'a', 'b'", factors=known, names=["a", "b"])
    refuses("the one string 'abc'", factors=known, names="abc")
    refuses("several factors are called 'a'", factors=known, names=["a", "a", "b"])
    refuses("no column 'sise'", "'size'", factors=mixed(), names=["sise"])
    refuses("expected 3 kinds", factors=known, kinds=["discrete"])
    refuses("'x', which is not a factor", factors=known, kinds={"x": "discrete"})
    refuses("factor 'size' is 'ordinal'", factors=mixed(), kinds={"size": "ordinal"})
    refuses("'shape' to be continuous, but its", factors=mixed(), kinds={"shape": "continuous"})


def test_bad_files(tmp_path, known):
    refuses("no such file", factors=tmp_path / "absent.csv")
    (tmp_path / "x.txt").write_text("1\n")
    refuses("suffix '.txt'", ".parquet", factors=tmp_path / "x.txt")
    (tmp_path / "x.npy").write_bytes(b"not an array")
    refuses("is not a readable .npy array", factors=tmp_path / "x.npy")
    (tmp_path / "x.npz").write_bytes(b"not an archive")
    refuses("is not a readable .npz archive", factors=tmp_path / "x.npz")
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    refuses("never loaded", factors=tmp_path / "o.npy")
    (tmp_path / "x.csv").write_text("")
    refuses("is empty", factors=tmp_path / "x.csv")
    np.savez(tmp_path / "y.npz", a=known, b=known)
    refuses("choose one of them with path::name: 'a', 'b'", factors=tmp_path / "y.npz")
    refuses("no array named 'c'", "'a', 'b'", factors=f"{tmp_path}/y.npz::c")
    known_csv = pd.DataFrame(known[1:])
    known_csv.to_csv(tmp_path / "z.csv", index=False)
    refuses("has no named arrays", factors=f"{tmp_path}/z.csv::a")
    refuses("the first line of a text file is its header", factors=tmp_path / "z.csv")


def test_bad_calls(known):
    refuses("preset is 'dlib'", factors=known, call=mcc, preset="dlib")
    refuses("needs 10 rows; there are 9", codes=known[:9], factors=known[:9], call=mcc)
    refuses("at least one permutation", factors=known, call=infomec, permutations=0)
    refuses(
        "there is no metric 'mmc'", "mcc_linear", factors=known, call=disentangle, metrics=["mmc"]
    )
    refuses("empty list", factors=known, call=disentangle, metrics=[])
    refuses(
        "no metric could be computed",
        "needs 10 rows",
        codes=known[:5],
        factors=known[:5],
        call=disentangle,
    )
    with pytest.raises(KeyError, match="has no part 'D'"):
        mcc(known, known, permutations=0)["D"]


# The summary


@pytest.fixture(scope="module")
def summary():
    frame = mixed(SUMMARY)
    return disentangle(
        codes_of(frame) + 0.1 * np.random.default_rng(0).normal(size=(SUMMARY, 4)), frame
    )


def test_every_metric_is_there_with_interval_and_chance(summary):
    assert list(summary.scores) == [each.name for each in listed() if not each.by_name]
    assert not summary.absent
    assert summary.table.shape == (len(summary.table), 10)
    numbers = summary.table.drop(columns=["metric", "part"])
    assert not numbers.isna().to_numpy().any()
    assert all(np.issubdtype(dtype, np.number) for dtype in numbers.dtypes)
    for score in summary.scores.values():
        assert score.n <= SUMMARY
        assert score.interval[0] <= score.value <= score.interval[1]
        assert score.chance.permutations >= 5
        assert score.value > score.chance.mean + 0.1
        # D of the lasso, and InfoM where one entry passes the gate, may be 1 at chance.
        assert score.value > score.chance.interval[1] or score.metric in ("dci", "infomec")
        assert score.value == score.parts[0].value
        if score.matrix is not None:
            assert score.matrix.shape == (len(score.codes), len(score.factors))


def test_the_document_is_strict_json(summary, tmp_path):
    summary.save(tmp_path / "x.json")
    document = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    assert document == json.loads(summary.to_json())
    assert document["rows"] == SUMMARY
    assert [each["kind"] for each in document["factors"]][:2] == ["continuous", "discrete"]
    part = document["scores"]["dci"]["parts"][0]
    assert part["name"] == "disentanglement"
    assert part["adjusted"] == pytest.approx(
        (part["value"] - part["chance"]["mean"]) / (1 - part["chance"]["mean"])
    )
    assert document["rotation"]["of_codes"]["mean"] < document["scores"]["mcc"]["parts"][0]["value"]


def test_what_data_do_not_allow_is_absent_with_its_reason(known):
    found = disentangle(known, known[:, 0], metrics=["mcc", "modularity", "beta_vae"])
    assert list(found.scores) == ["mcc"]
    assert "needs at least two" in found.absent["modularity"]
    assert "needs at least two" in found.absent["beta_vae"]
    assert found.rotation.of_factors is None
    words = disentangle(known, mixed()[["shape"]], metrics=["mig"])
    assert words.rotation is None
    assert '"rotation": null' in words.to_json()


def test_what_was_not_computed_is_none_in_the_table_and_never_nan(known):
    found = disentangle(known[:3], known[:3], metrics=["mcc"], preset="reference")
    row = found.table.iloc[0]
    assert row["low"] is None
    assert row["value"] == pytest.approx(1.0, abs=0.2)
    assert not any(isinstance(cell, float) and math.isnan(cell) for cell in row)


# Odd data: what few rows, ties and rare classes do to every metric


def odd_codes(rng, rows: int) -> np.ndarray:
    z = rng.normal(size=(rows, int(rng.integers(1, 5))))
    kind = int(rng.integers(6))
    if kind == 0:
        z[:, -1] = z[:, 0]
    elif kind == 1:
        z[:, 0] = z[:, 0] > 0
    elif kind == 2:
        z[:, 0] = np.arange(rows) == 0
    elif kind == 3:
        z[0, 0] = 1e30
    elif kind == 4:
        z += 1e9
    return z


def odd_factor(rng, rows: int) -> np.ndarray:
    kind = int(rng.integers(6))
    if kind == 0:
        return (np.arange(rows) < 2).astype(float)
    if kind == 1:
        return (np.arange(rows) // 2).astype(float)
    if kind == 2:
        return rng.choice(["a", "b", "c"], size=rows)
    s = rng.normal(size=rows) if kind < 5 else rng.integers(3, size=rows).astype(float)
    s[rng.random(rows) < (0.4 if kind > 3 else 0)] = np.nan
    return s


CHEAP = [name for name in METRICS if name not in ("dci_boosted", "beta_vae", "factor_vae")]


@pytest.mark.parametrize("count", [25, pytest.param(1000, marks=pytest.mark.slow)])
def test_odd_data_are_scored_or_refused_and_never_nan(count):
    """Warnings are errors here, so that nothing overflows or divides by zero on the way."""
    rng = np.random.default_rng(count)
    scored = 0
    for _ in range(count):
        rows = int(rng.choice([2, 5, 9, 10, 11, 15, 30, 60]))
        z = odd_codes(rng, rows)
        frame = pd.DataFrame({f"{i}": odd_factor(rng, rows) for i in range(rng.integers(1, 4))})
        for name in rng.choice(CHEAP if count < 100 else list(METRICS), size=4, replace=False):
            preset = [None, "reference"][rng.integers(2)]
            try:
                score = METRICS[name](z, frame, preset=preset, permutations=2)
            except InputError:
                continue
            json.dumps(score.to_dict(), allow_nan=False)
            assert all(part.value <= 1 + 1e-9 for part in score.parts), (name, preset)
            scored += 1
    assert scored > count


def test_the_seed_decides_everything(known):
    known = known[:100]
    noisy = known + np.random.default_rng(3).normal(size=known.shape)
    names = ["mcc", "dci_lasso", "factor_vae", "r2_nonlinear"]
    first, again = (disentangle(noisy, known, metrics=names, seed=4).to_json() for _ in range(2))
    assert first == again
    assert first != disentangle(noisy, known, metrics=names, seed=5).to_json()


def test_how_many_permutations_there_were_is_said(known):
    known = known[:60]
    said = METRICS["r2_nonlinear"](known, known).method
    assert "Chance: 40 permutations of rows." in said  # fewer than were asked for
    score = METRICS["infomec"](known, known)
    assert "15 permutations of rows (InfoM, InfoC), 10 permutations of rows (InfoE)" in score.method
    assert score.method.endswith("; its range is all of them.")
    assert mcc(known, known, permutations=0).method.endswith("over 5 folds.")


def test_the_range_of_few_permutations_is_all_of_them():
    few, many = np.arange(10.0), np.arange(1001.0)
    assert chance_of(few).interval == (0.0, 9.0)
    assert chance_of(many).interval == (25.0, 975.0)
    assert chance_of(few[:0]) is None


def test_progress_is_told(known):
    told = []
    disentangle(known, known, metrics=["r2", "mcc"], progress=lambda *what: told.append(what))
    assert told == [("R², linear", 0, 2), ("MCC, Pearson", 1, 2)]


# The registry


def test_every_metric_says_what_it_is():
    for name, each in METRICS.items():
        assert each.question.endswith("?")
        assert all((each.title, each.invariant_to, each.reference))
        assert name.startswith(each.function.__name__)
        assert each.function.__doc__


def test_there_is_no_metric_of_another_name():
    import identikit.factors as package

    assert package.mcc_spearman is METRICS["mcc_spearman"]
    with pytest.raises(AttributeError, match="has no attribute 'mutual'"):
        _ = package.mutual


# Folds and orders


def test_folds_are_all_rows_once():
    for rows in (10, 11, 99):
        parts = [np.arange(rows)[fold] for fold in folds(rows)]
        np.testing.assert_array_equal(np.concatenate(parts), np.arange(rows))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_folds_are_those_of_moments(rng):
    for rows in (3, 11, 99, 100, 1971):
        x = rng.normal(size=(rows, 1))
        runs = assign_folds(rows, 5, seed=None)
        mine = [x[fold].sum() for fold in folds(rows)]
        np.testing.assert_allclose(mine, np.bincount(runs.of(), x[:, 0], 5), atol=1e-12)
        slices = [fold for fold in folds(rows) if fold.stop > fold.start]
        assert slices == [part for _, part in runs.split(0, rows)]


def test_every_metric_documents_the_options_that_all_have():
    for name, found in METRICS.items():
        text = inspect.getdoc(found.function)
        assert text.count("Parameters\n----------\n") == 1, name
        for option in inspect.signature(found.function).parameters:
            assert re.search(rf"^(\w+, )*{option}(, \w+)*( :|$)", text, re.MULTILINE), option


def test_the_true_order_comes_first_and_permutations_do_not_depend_on_how_many():
    few, many = list(orders(20, 2, 0)), list(orders(20, 5, 0))
    np.testing.assert_array_equal(few[0], np.arange(20))
    for a, b in zip(few, many):
        np.testing.assert_array_equal(a, b)
    assert re.fullmatch(r"\d+", str(len(many)))
    assert len({tuple(each) for each in many}) == 6
