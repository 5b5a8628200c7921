"""Tables as text: read as pandas reads them, in blocks, or refused with the place of the fault."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from identikit.cli import app
from identikit.errors import InputError
from identikit.sources import memory, open_source, paired, read_labels
from identikit.sources.registry import frame_readers, id_readers, kind_of

X = np.random.default_rng(0).normal(size=(61, 4))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    # Many spans of few rows each, so that their ends matter.
    monkeypatch.setattr(memory, "PIECE_BYTES", 300)
    return tmp_path


def read(view: str, block: int = 7) -> np.ndarray:
    with closing(open_source(view)) as source:
        blocks = [source.read(start, start + block) for start in range(0, source.rows, block)]
        back = [source.read(start, start + block) for start in range(source.rows - 3, 0, -13)]
        found = np.concatenate(blocks)
        for start, rows in zip(range(source.rows - 3, 0, -13), back):
            np.testing.assert_array_equal(rows, found[start : start + block])
        return found


def refuses(view: str, *parts: str) -> None:
    with pytest.raises(InputError) as caught, closing(open_source(view)) as source:
        source.read(0, source.rows)
    for part in parts:
        assert part in str(caught.value), caught.value
    assert "\n" not in str(caught.value)


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result


def frame() -> pd.DataFrame:
    """Ids, text that needs quotes and lines of its own, and four dimensions."""
    out = pd.DataFrame(X, columns=list("abcd"))
    out.insert(0, "id", range(len(X)))
    out.insert(2, "note", ['says "so", twice\nand é'] * len(X))
    return out


WAYS = {
    "header.csv": {"index": False},
    "packed.csv.gz": {"index": False},
    "tabs.tsv": {"index": False, "sep": "\t"},
    "packed.tsv.gz": {"index": False, "sep": "\t"},
    "semicolons.csv": {"index": False, "sep": ";"},
    "index.csv": {},
    "windows.csv": {"index": False, "lineterminator": "\r\n", "encoding": "utf-8-sig"},
}


@pytest.mark.parametrize("name", WAYS)
def test_a_table_is_read_as_it_was_written(name: str):
    frame().to_csv(name, **WAYS[name])
    np.testing.assert_array_equal(read(name), X)
    np.testing.assert_array_equal(read(f"{name}::d,[ab]"), X[:, [3, 0, 1]])
    np.testing.assert_array_equal(read(f"{name}::*,!c"), X[:, [0, 1, 3]])
    ids = np.concatenate(list(id_readers()[kind_of(Path(name))](Path(name), "id", "ids")))
    np.testing.assert_array_equal(ids, range(len(X)))
    notes = read_labels(f"{name}::note")
    assert set(notes) == {'says "so", twice\nand é'}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2\n3,4\n", [[1, 2], [3, 4]]),  # no header
        ("0,1,2\n3,4,5\n", [[3, 4, 5]]),  # as pandas names columns
        ("a,b\n3,4", [[3, 4]]),  # no line break at the end
        ("\n\na,b\n\n3,4\n\n\n", [[3, 4]]),
        ("cell1,1.5,2\ncell2,3,4.5\n", [[1.5, 2], [3, 4.5]]),  # text is no header beside numbers
        ("a,b\n1,\nNA,2\n", [[1, np.nan], [np.nan, 2]]),
        ("x\n1e-3\n2\n", [[0.001], [2]]),
        (" a , b \n 1 , 2\n", [[1, 2]]),
        ("a,b,\n1,2,\n3,4,\n", [[1, 2], [3, 4]]),  # a separator at the end of every line
    ],
)
def test_headers_and_missing_cells(text: str, expected: list[list[float]]):
    Path("x.csv").write_text(text)
    np.testing.assert_array_equal(read("x.csv::*" if "cell1" in text else "x.csv"), expected)


def test_wavelengths_are_a_header():
    titles = "sample," + ",".join(str(400.5 + k) for k in range(9))
    Path("x.csv").write_text(f"{titles}\ns1,{','.join('123456789')}\n")
    np.testing.assert_array_equal(read("x.csv"), [range(1, 10)])


def test_digits_are_the_precision():
    np.savetxt("x.csv", X, delimiter=",", fmt="%.4g")
    with closing(open_source("x.csv")) as source:
        assert source.eps == pytest.approx(1e-3)
    np.savetxt("x.csv", np.arange(8).reshape(4, 2) + 7, delimiter=",", fmt="%d")
    with closing(open_source("x.csv")) as source:
        assert source.eps == 2.0**-52


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a,b\n1,2\n3,x4\n", ("row 1 (counting from 0) of column 'b' is 'x4'", "not a number")),
        ("a,b\n1,2\n3,4\n5,6,7\n", ("line 4 has 3 cells", "the first row has 2")),
        ("a,b\n1,2\n\n3\n", ("line 4 has 1 cells",)),
        ("a,b\n", ("a header and no rows",)),
        ("", ("is empty",)),
        ("a,a\n1,2\n", ("two columns named 'a'",)),
        ("a,b\nx,y\n", ("no columns of numbers", "'a', 'b'")),
        ("a,label\n0.5,1\n1.5,2\n", ("'a' is decimal and column 'label' is integer", "path::")),
        ("mitotic_index,b\n0.5,1.5\n", ("'mitotic_index' has the name of an id but holds",)),
        ('a,b\n1,"2\n3,4\n', ("a quote is opened and not closed", """'1,"2""")),
        ("a,b\n1,2\n\0,4\n", ("not UTF-8 text", "byte 8 is zero")),
    ],
)
def test_faults_are_named_with_their_place(text: str, parts: tuple[str, ...]):
    Path("x.csv").write_text(text)
    refuses("x.csv", *parts)
    assert run("audit", "x.csv", "x.csv", code=2).stderr.startswith("identikit: ")


def test_a_fault_far_into_the_file_has_its_row():
    out = frame().astype({"c": object})
    out.loc[57, "c"] = "?"
    out.to_csv("x.csv", index=False)
    refuses("x.csv::a,c", "row 57 (counting from 0) of column 'c' is '?'")
    frame().drop(columns="note").to_csv("x.csv", index=False)
    lines = Path("x.csv").read_text().split("\n")
    Path("x.csv").write_text("\n".join([*lines[:50], "1,2", *lines[50:]]))
    refuses("x.csv::a", "line 51 has 2 cells", "the first row has 5")


def test_a_line_that_never_ends(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory, "LARGEST_RECORD", 10_000)
    Path("x.csv").write_text("a,b\n1," + "2" * 20_000)
    refuses("x.csv", "the row in line 2 goes on for more than")


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.jsonl"])
def test_a_long_table_is_read_in_little_memory(monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setattr(memory, "PIECE_BYTES", 2**14)
    line = "{},{}\n" if "csv" in name else '{{"e": [{}, {}]}}\n'
    rows = 100_000 if "csv" in name else 40_000
    opener = gzip.open if name.endswith(".gz") else open
    with opener(name, "wt") as file:
        file.writelines(line.format(f"{k % 97 / 7:.6f}", "0.123456") for k in range(rows))
    open_source(name).close()  # which loads what is loaded once
    tracemalloc.start()
    try:
        with closing(open_source(name)) as source:
            assert source.rows == rows
            for start in range(0, source.rows, 5000):
                source.read(start, start + 5000)
            # The text is 18 bytes a row at least (of JSON, 29), and the numbers are 16.
            assert tracemalloc.get_traced_memory()[1] < (12 if "csv" in name else 20) * rows
    finally:
        tracemalloc.stop()


def test_text_ids_keep_their_zeros_and_missing_ones_are_refused():
    Path("x.csv").write_text("id,a\n007,1.5\n008,2.5\n")
    assert read_labels("x.csv::id").tolist() == ["007", "008"]
    Path("x.csv").write_text("id,a\n7,1.5\n,2.5\n")
    with pytest.raises(InputError, match="column 'id' is empty in row 1"):
        read_labels("x.csv::id")


def test_factors_are_read_by_the_same_reader():
    frame().to_csv("f.csv.gz")
    found = frame_readers()[".csv.gz"](Path("f.csv.gz"), "the factors")
    assert list(found.columns) == ["Unnamed: 0", "id", "a", "note", "b", "c", "d"]
    np.testing.assert_array_equal(found[list("abcd")], X)
    np.save("codes.npy", X)
    pd.DataFrame(X[:, :2], columns=["u", "v"]).to_csv("factors.csv.gz", index=False)
    run("disentangle", "codes.npy", "factors.csv.gz", "--metrics", "mcc", "-q")
    Path("bad.csv").write_text("u,v\n1,2\n3\n")
    assert "line 3 has 1 cells" in run("disentangle", "codes.npy", "bad.csv", code=2).stderr


# JSON lines


def write_json(path: str, rows: list[object]) -> None:
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "wt") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)


@pytest.mark.parametrize("name", ["x.jsonl", "x.ndjson", "x.jsonl.gz"])
def test_json_lines(name: str):
    write_json(name, [{"id": k, "text": "é", "embedding": list(row)} for k, row in enumerate(X)])
    for view in (name, f"{name}::embedding"):
        np.testing.assert_array_equal(read(view), X)
    assert read_labels(f"{name}::id").tolist() == list(range(len(X)))
    write_json(name, [{"id": k, "e0": row[0], "e1": row[1]} for k, row in enumerate(X)])
    np.testing.assert_array_equal(read(name), X[:, :2])
    write_json(name, X.tolist())
    np.testing.assert_array_equal(read(name), X)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('{"e": [1, 2]}\n{"e": [1]}\n', ("row 1 (counting from 0)", "a list of 1 numbers")),
        ('{"e": [1, 2]}\n{"e": [1, "2"]}\n', ("row 1", "'2' in place 1 of 'e'")),
        ('{"e": [1, 2]}\n{"f": 1}\n', ("row 1", "no field 'e'")),
        ('{"e": [1, 2]}\n{"e": 3}\n', ("row 1", "expected a list")),
        ('{"e": [1, 2]}\nnot json\n', ("row 1", "not valid JSON")),
        ("[" * 100_000 + "\n", ("row 0", "not valid JSON")),
        ("3\n", ("row 0", "expected an object")),
        ("", ("is empty",)),
        ('{"a": 1.5, "b": null}\n{"a": null, "b": 2.5}\n', ("row 0", "None in 'b'")),
        ('{"a": 1' + "0" * 400 + "}\n", ("no columns of numbers",)),
    ],
)
def test_faults_in_json_lines(text: str, parts: tuple[str, ...]):
    Path("x.jsonl").write_text(text)
    refuses("x.jsonl", *parts)


@pytest.mark.parametrize(
    ("values", "wrong"),
    [("1 2.5", "row 1 (counting from 0) has 2.5"), ("1.5 2.5", "row 0"), ('1 "1"', "row 1")],
)
def test_ids_in_json_lines_are_of_one_kind(values: str, wrong: str):
    Path("x.jsonl").write_text("".join(f'{{"id": {value}}}\n' for value in values.split()))
    with pytest.raises(InputError) as caught:
        read_labels("x.jsonl::id")
    assert wrong in str(caught.value)
    assert "integers only or strings only" in str(caught.value)


# Damage

damages = st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255), st.booleans())


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.jsonl", "x.jsonl.gz"])
@settings(max_examples=60)
@given(what=damages)
def test_a_damaged_file_is_read_or_refused_in_one_sentence(name: str, what):
    if "csv" in name:
        data = frame().head(9).to_csv(index=False).encode()
    else:
        data = b"".join(json.dumps({"e": list(row)}).encode() + b"\n" for row in X[:9])
    data = gzip.compress(data) if name.endswith(".gz") else data
    share, value, cut = what
    place = int(share * len(data))
    Path(name).write_bytes(
        data[:place] if cut else data[:place] + bytes([value]) + data[place + 1 :]
    )
    said = ""
    try:
        with closing(open_source(name)) as source:
            source.read(0, source.rows)
    except InputError as error:
        said = str(error)
    assert "\n" not in said


# As a user does it


def test_an_audit_of_text_tables_by_differently_named_ids():
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0]
    order = np.random.default_rng(2).permutation(len(X))[:55]
    a, b = frame(), pd.DataFrame(X @ turn, columns=list("wxyz")).assign(docId=range(len(X)))
    a.to_csv("a.csv", index=False)
    b.iloc[order].to_csv("b.tsv", sep="\t", index=False)
    result = run("audit", "a.csv", "b.tsv", "--id", "id:docId")
    words = " ".join(result.stdout.split())
    assert "Rows: 55 rows matched by id; without a partner: 6 of the 61 rows of 'a'." in words
    document = json.loads(run("audit", "a.csv", "b.tsv", "--id", "id:docId", "--json").stdout)
    assert document["verdict"]["group"] == "rigid"
    assert [view["dims"] for view in document["views"]] == [4, 4]


def test_composite_ids():
    wells = pd.DataFrame({"plate": ["p1"] * 30 + ["p2"] * 31, "well": [*range(30), *range(31)]})
    table = pd.concat([wells, pd.DataFrame(X, columns=list("abcd"))], axis=1)
    table.to_csv("a.csv", index=False)
    other = table.rename(columns={"plate": "Plate", "well": "Well"}).sample(frac=1, random_state=0)
    other.to_csv("b.csv", index=False)
    shown = run("audit", "a.csv", "b.csv", "--id", "plate,well:Plate,Well", "--json").stdout
    assert json.loads(shown)["verdict"]["group"] == "identity"
    assert "ids 'well' of view 'a'" in run("audit", "a.csv", "a.csv", "--id", "well", code=2).stderr
    sentence = run("audit", "a.csv", "b.csv", "--id", "plate,well:Plate", code=2).stderr
    assert "doc_id:docId" in sentence
    sentence = run("audit", "a.csv", "b.csv", "--id", "a:b:c", code=2).stderr
    assert "names columns of 3 views, and there are 2" in sentence
    twice = pd.concat([table, table.iloc[:1]])
    twice.to_csv("b.csv", index=False)
    assert (
        "both have the id 'p1, 0'"
        in run("audit", "a.csv", "b.csv", "--id", "plate,well", code=2).stderr
    )


def test_composite_ids_in_memory_and_of_unequal_blocks():
    table = pd.DataFrame(X, columns=list("abcd")).assign(plate="p", well=range(len(X)))
    other = table.iloc[::-1]
    with paired([table, other], "plate,well") as (views, names, matched):
        assert matched is not None
        assert matched.rows == len(X)
        rows = []
        for view, name in zip(views, names or ()):
            with closing(open_source(view, name)) as source:
                rows.append(source.read(0, 61))
        np.testing.assert_array_equal(*rows)
    long = np.array(["x" * 300] * 70_000)  # fewer of these are read at a time
    np.savez("a.npz", e=np.arange(140_000.0).reshape(-1, 2), plate=long, well=np.arange(70_000))
    with paired(["a.npz::e", "a.npz::e"], "plate,well") as (_, _, matched):
        assert matched is not None
        assert matched.rows == 70_000


@pytest.mark.extra("io")
def test_groups_from_a_column_of_any_table():
    pytest.importorskip("pyarrow")
    table = pd.DataFrame(X, columns=list("abcd")).assign(donor=["ann", "bob", "cyd"] * 20 + ["ann"])
    table.to_parquet("a.parquet")
    table.to_csv("a.csv", index=False)
    write_json("a.jsonl", table.to_dict("records"))
    np.save("a.npy", X)
    for labels in ("a.parquet::donor", "a.csv::donor", "a.jsonl::donor"):
        shown = run("audit", "a.parquet", "a.npy", "--groups", labels, "--json").stdout
        assert json.loads(shown)["settings"]["folds"] == 3
    sentence = run("audit", "a.csv", "a.npy", "--groups", "a.csv", code=2).stderr
    assert "choose one with path::column" in sentence
    assert "'a', 'b'" in run("audit", "a.csv", "a.npy", "--groups", "a.csv::no", code=2).stderr
