"""Maps between tables: rows paired by id, and mapped rows that keep their ids."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import identikit as ik
from identikit.cli import app
from identikit.errors import InputError

pytestmark = pytest.mark.extra("io")

ROWS = 80
rng = np.random.default_rng(0)
X = rng.normal(size=(ROWS, 4))
TURN = np.linalg.qr(rng.normal(size=(4, 4)))[0]
ORDER = rng.permutation(ROWS)[:70]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An old index and a new one of some of its texts, in another order."""
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("pyarrow")
    counts = pd.array([None if k % 7 == 0 else k for k in range(ROWS)], dtype="Int64")
    doc = [f"d{k}" for k in range(ROWS)]
    old = pd.DataFrame({"doc": doc, "count": counts, "emb": list(X), "kind": "x"})
    old.astype({"kind": "category"}).to_parquet("old.parquet")
    new = pd.DataFrame({"docId": [f"d{k}" for k in ORDER], "emb": list((X @ TURN)[ORDER])})
    new.to_parquet("new.parquet")
    return tmp_path


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result


def aligned(*more: str) -> Result:
    views = ("old.parquet::emb", "new.parquet::emb", "--id", "doc:docId", "--group", "rigid")
    return run("align", *views, "-o", "map.safetensors", "--force", *more)


def test_align_pairs_by_id_and_says_how_many_rows_have_no_partner():
    result = aligned()
    assert "70 rows matched by id; without a partner: 10 of the 80 rows" in result.stdout
    assert "-o mapped.parquet" in result.stderr
    document = json.loads(aligned("--json").stdout)
    assert document["error"] < 1e-6
    assert document["pairing"].startswith("70 rows matched by id")
    np.testing.assert_allclose(ik.load_map("map.safetensors").weights_, TURN, atol=1e-9)
    ids = [[f"d{k}" for k in range(ROWS)], [f"d{k}" for k in ORDER]]
    fitted = ik.align(X, (X @ TURN)[ORDER], group="rigid", ids=ids, groups=np.arange(ROWS) // 2)
    assert (
        fitted.pairing_ == "70 rows matched by id; without a partner: 10 of the 80 rows of 'view0'"
    )
    np.testing.assert_allclose(fitted.weights_, TURN, atol=1e-9)
    assert ik.align(X, X @ TURN, group="rigid").pairing_ == "paired by position"


def test_align_takes_ids_from_files():
    for name, ids in (("a.txt", range(ROWS)), ("b.txt", ORDER)):
        Path(name).write_text("\n".join(map(str, ids)))
    np.save("a.npy", X)
    np.save("b.npy", (X @ TURN)[ORDER])
    views = ("a.npy", "b.npy", "--ids", "a.txt", "--ids", "b.txt")
    assert "70 rows matched" in run("align", *views, "-o", "m.safetensors").stdout
    sentence = run("align", *views, "-o", "a.txt.npy", code=2).stderr
    assert "a map is written as .safetensors" in sentence


@pytest.mark.parametrize("name", ["map.npy", "map.parquet", "map.csv"])
def test_a_map_is_not_written_under_a_name_that_lies(name: str):
    result = run("align", "old.parquet::emb", "old.parquet::emb", "-o", name, code=2)
    assert result.stderr == (
        f"identikit: a map is written as .safetensors, but the output is {name}; give a name that "
        "ends in .safetensors, for example map.safetensors\n"
    )
    assert not Path(name).exists()


@pytest.mark.parametrize("verb", [("audit",), ("align", "-o", "map.safetensors")])
def test_different_numbers_of_rows_lead_to_ids(verb: tuple[str, ...]):
    sentence = run(*verb, "old.parquet::emb", "new.parquet::emb", code=2).stderr
    assert "has 80 rows" in sentence
    assert "has 70" in sentence
    assert "--id COLUMN" in sentence


def test_an_audit_says_in_the_terminal_how_many_rows_have_no_partner():
    views = ("old.parquet::emb", "new.parquet::emb", "--id", "doc:docId")
    words = " ".join(run("audit", *views).stdout.split())
    assert (
        "Rows: 70 rows matched by id; without a partner: 10 of the 80 rows of 'old::emb'." in words
    )
    assert "Rows:" not in run("audit", "old.parquet::emb", "old.parquet::emb").stdout


def test_parquet_in_parquet_out_with_everything_beside():
    aligned()
    assert (
        "80 rows" in run("apply", "map.safetensors", "old.parquet::emb", "-o", "m.parquet").stderr
    )
    arrow = pytest.importorskip("pyarrow.parquet")
    schema = arrow.read_schema("m.parquet")
    assert schema.names == ["doc", "count", "kind", "emb"]
    assert str(schema.field("count").type) == "int64"  # although some are missing
    found, old = pd.read_parquet("m.parquet"), pd.read_parquet("old.parquet")
    np.testing.assert_allclose(np.stack(found["emb"].tolist()), X @ TURN, atol=1e-9)
    assert found["doc"].tolist() == old["doc"].tolist()
    assert found["kind"].tolist() == old["kind"].tolist()
    np.testing.assert_array_equal(found["count"].astype("Int64"), old["count"])
    shown = run("audit", "m.parquet", "new.parquet", "--id", "doc:docId", "--json").stdout
    assert json.loads(shown)["verdict"]["group"] == "identity"


def test_columns_in_columns_out_and_text_by_suffix():
    aligned()
    table = pd.DataFrame(X, columns=list("abcd")).assign(well=[f"w{k}" for k in range(ROWS)])
    table.to_parquet("wide.parquet")
    table.to_csv("wide.csv", index=False)
    mapped = [f"mapped_{k}" for k in range(4)]
    for view, output, read in (
        ("wide.parquet", "a.parquet", pd.read_parquet),
        ("wide.parquet", "a.csv", pd.read_csv),
        ("wide.csv", "b.tsv.gz", lambda path: pd.read_csv(path, sep="\t")),
        ("wide.csv", "b.parquet", pd.read_parquet),
    ):
        run("apply", "map.safetensors", view, "-o", output)
        found = read(output)
        assert list(found.columns) == ["well", *mapped]
        assert found["well"].tolist() == table["well"].tolist()
        np.testing.assert_allclose(found[mapped], X @ TURN, atol=1e-9)
    run("apply", "map.safetensors", "wide.csv", "-o", "a.npy")
    np.testing.assert_allclose(np.load("a.npy"), X @ TURN, atol=1e-9)
    run("apply", "map.safetensors", "a.npy", "--inverse", "-o", "c.parquet")
    np.testing.assert_allclose(np.stack(pd.read_parquet("c.parquet")["mapped"].tolist()), X)


def test_shards_and_json_lines_keep_what_is_beside_them():
    aligned()
    Path("shards").mkdir()
    old = pd.read_parquet("old.parquet")
    for part in (0, 1):
        old.iloc[part * 40 : part * 40 + 40].to_parquet(f"shards/part-{part}.parquet")
    run("apply", "map.safetensors", "shards::emb", "-o", "s.parquet")
    assert pd.read_parquet("s.parquet")["doc"].tolist() == old["doc"].tolist()
    with Path("old.jsonl").open("w") as file:
        for k, row in enumerate(X):
            file.write(json.dumps({"id": k, "note": None, "emb": list(row)}) + "\n")
    run("apply", "map.safetensors", "old.jsonl::emb", "-o", "j.csv")
    found = pd.read_csv("j.csv")
    assert list(found.columns) == ["id", "note", *(f"emb_{k}" for k in range(4))]
    assert found["id"].tolist() == list(range(ROWS))


def test_outputs_that_cannot_be_written():
    aligned()
    sentence = run("apply", "map.safetensors", "old.parquet::emb", "-o", "x.xlsx", code=2).stderr
    assert "ends in .npy, .parquet, .csv, .tsv, .csv.gz or .tsv.gz" in sentence
    table = pd.DataFrame(X, columns=list("abcd")).assign(mapped_0="taken")
    table.to_parquet("wide.parquet")
    sentence = run("apply", "map.safetensors", "wide.parquet", "-o", "x.csv", code=2).stderr
    assert "has a column 'mapped_0'" in sentence
    assert not Path("x.csv").exists()
    sentence = run("apply", "map.safetensors", "wide.parquet", "-o", "x.parquet", code=2).stderr
    assert "has a column 'mapped_0'" in sentence


def test_labels_of_the_wrong_length_are_refused():
    with pytest.raises(InputError, match="there are 3 group labels"):
        ik.align(X, X, ids=[range(ROWS), range(ROWS)], groups=[1, 2, 3])
