"""Single-cell input: .h5ad files without the package anndata, its objects, sparse matrices.

The files are written as anndata 0.12.6 writes them:
https://anndata.readthedocs.io/en/latest/fileformat-prose.html
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from typer.testing import CliRunner, Result

import identikit as ik
from identikit.cli import app
from identikit.errors import InputError
from identikit.sources import open_source, read_labels

ROWS = 90
rng = np.random.default_rng(0)
X = rng.normal(size=(ROWS, 5)) * (rng.random((ROWS, 5)) < 0.5)
DONORS = np.repeat(["ann", "bob", "cyd"], ROWS // 3)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_sparse(file: Any, name: str, matrix: Any, kind: str) -> None:
    group = file.create_group(name)
    group.attrs["encoding-type"], group.attrs["shape"] = kind, matrix.shape
    for part in ("data", "indices", "indptr"):
        group[part] = getattr(matrix, part)


def write_h5ad(path: str, rows: np.ndarray | None = None) -> None:
    h5py = pytest.importorskip("h5py")
    rows = np.arange(ROWS) if rows is None else rows
    with h5py.File(path, "w") as file:
        file.attrs["encoding-type"] = "anndata"
        write_sparse(file, "X", sparse.csr_matrix(X[rows]), "csr_matrix")
        write_sparse(file, "layers/by_columns", sparse.csc_matrix(X[rows]), "csc_matrix")
        file["obsm/X_pca"] = X[rows, :3]
        file["layers/dense"] = X[rows].astype("f4")
        obs = file.create_group("obs")
        obs.attrs["encoding-type"], obs.attrs["_index"] = "dataframe", "cell"
        obs["cell"] = [f"cell{k}" for k in rows]
        obs["n"] = rows
        obs["control"] = rows % 2 == 0
        obs.create_group("donor").attrs["encoding-type"] = "categorical"
        obs["donor/categories"] = ["ann", "bob", "cyd"]
        obs["donor/codes"] = (rows * 3 // ROWS).astype("i1")
        obs.create_group("gaps").attrs["encoding-type"] = "categorical"
        obs["gaps/categories"], obs["gaps/codes"] = ["a"], np.where(rows == 7, -1, 0).astype("i1")
        for name, missing in (("whole", rows < 0), ("holes", rows == 5)):
            obs.create_group(name).attrs["encoding-type"] = "nullable-integer"
            obs[f"{name}/values"], obs[f"{name}/mask"] = rows, missing


def read(view: object, block: int = 11) -> np.ndarray:
    with closing(open_source(view)) as source:
        starts = range(0, source.rows, block)
        return np.concatenate([source.read(start, start + block) for start in starts])


def refuses(view: object, *parts: str) -> None:
    with pytest.raises(InputError) as caught:
        read(view)
    for part in parts:
        assert part in str(caught.value), caught.value


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result


@pytest.mark.extra("io")
def test_matrices_of_h5ad_files():
    write_h5ad("a.h5ad")
    np.testing.assert_array_equal(read("a.h5ad::X"), X)
    np.testing.assert_array_equal(read("a.h5ad::obsm/X_pca"), X[:, :3])
    np.testing.assert_array_equal(read("a.h5ad::layers/dense"), X.astype("f4"))
    refuses("a.h5ad", "holds 4 arrays", "'X'", "'layers/dense'", "'obsm/X_pca'")
    refuses("a.h5ad::obsm/X_umap", "no array named 'obsm/X_umap'", "'obsm/X_pca'")
    refuses("a.h5ad::layers/by_columns", "'csc_matrix'", "tocsr()")
    refuses("a.h5ad::obs/donor", "expected a matrix")
    Path("b.h5ad").write_bytes(b"no HDF5")
    refuses("b.h5ad::X", "cannot be read")


@pytest.mark.extra("io")
def test_columns_of_obs():
    write_h5ad("a.h5ad")
    for column in ("obs/donor", "donor"):
        assert read_labels(f"a.h5ad::{column}").tolist() == DONORS.tolist()
    assert read_labels("a.h5ad::whole").tolist() == list(range(ROWS))
    assert read_labels("a.h5ad::control").tolist() == [1, 0] * (ROWS // 2)
    assert read_labels("a.h5ad::obs_names")[:2].tolist() == ["cell0", "cell1"]
    for column, parts in (("gaps", "row 7 .* no value"), ("holes", "missing values")):
        with pytest.raises(InputError, match=parts):
            read_labels(f"a.h5ad::{column}")
    with pytest.raises(InputError, match=r"no array named 'batch'.*'donor'"):
        read_labels("a.h5ad::batch")


@pytest.mark.extra("io")
def test_an_audit_of_cells_with_donors_as_groups():
    write_h5ad("a.h5ad")
    order = rng.permutation(ROWS)[:80]
    write_h5ad("b.h5ad", order)
    shown = run(
        *("audit", "a.h5ad::X", "b.h5ad::layers/dense", "--id", "obs_names"),
        *("--groups", "a.h5ad::obs/donor", "--json"),
    ).stdout
    document = json.loads(shown)
    assert document["rows"] == 80
    assert document["verdict"]["group"] == "identity"
    assert document["settings"]["folds"] == 3
    assert "10 of the 90 rows of 'a::X'" in document["settings"]["pairing"]


@pytest.mark.extra("io")
def test_damaged_parts_of_a_sparse_matrix():
    h5py = pytest.importorskip("h5py")
    for part, change, says in (
        ("indices", lambda a: a + 99, "outside of its 5 columns"),
        ("indptr", lambda a: a[::-1], "indptr is wrong"),
        ("indptr", lambda a: a[:-1], "is damaged"),
        ("data", lambda a: a[:-1], "is damaged"),
        ("indices", lambda a: a.astype("f8"), "is damaged"),
    ):
        write_h5ad("a.h5ad")
        with h5py.File("a.h5ad", "r+") as file:
            values = change(file[f"X/{part}"][:])
            del file[f"X/{part}"]
            file[f"X/{part}"] = values
        refuses("a.h5ad::X", says)
    with h5py.File("a.h5ad", "r+") as file:
        del file["X/indices"]
    refuses("a.h5ad::X", "has no 'indices'")


@pytest.mark.extra("io")
@pytest.mark.parametrize("place", ["X", "layers", "X/data", "obs/donor/codes"])
def test_no_link_leads_out_of_the_file(place: str):
    h5py = pytest.importorskip("h5py")
    write_h5ad("secret.h5ad")
    write_h5ad("a.h5ad")
    with h5py.File("a.h5ad", "r+") as file:
        del file[place]
        file[place] = h5py.ExternalLink("secret.h5ad", f"/{place}")
    with pytest.raises(InputError, match="leads into another file"):
        read_labels("a.h5ad::donor") if "obs" in place else read(
            "a.h5ad::X" if "X" in place else "a.h5ad"
        )


def fuzz_h5ad() -> None:
    """Change single bytes all over a file; called in a process of its own."""
    write_h5ad("whole.h5ad")
    data, draw = Path("whole.h5ad").read_bytes(), np.random.default_rng(0)
    for _ in range(150):
        place = int(draw.integers(len(data)))
        other = bytes([int(draw.integers(256))])
        Path("x.h5ad").write_bytes(data[:place] + other + data[place + 1 :])
        try:
            read("x.h5ad::X")
            read_labels("x.h5ad::obs/donor")
        except InputError as error:
            if "\n" in str(error):
                raise AssertionError(error) from error


@pytest.mark.long
@pytest.mark.extra("io")
def test_damaged_h5ad_files(tmp_path: Path):
    pytest.importorskip("h5py")
    # HDF5 may take the process with it.
    here = str(Path(__file__).parent)
    script = f"import sys; sys.path.insert(0, {here!r}); import test_anndata as t; t.fuzz_h5ad()"
    command = [sys.executable, "-W", "error", "-c", script]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]


# Objects


class AnnData:
    """What the object of anndata looks like from outside."""

    __module__ = "anndata._core.anndata"

    def __init__(self, X: Any, obs: pd.DataFrame) -> None:
        self.X, self.obs = X, obs

    @property
    def obs_names(self) -> pd.Index:
        return self.obs.index


def cells(rows: np.ndarray | None = None, matrix: Any = sparse.csr_matrix) -> AnnData:
    rows = np.arange(ROWS) if rows is None else rows
    obs = pd.DataFrame({"donor": pd.Categorical(DONORS[rows]), "n": rows})
    return AnnData(matrix(X[rows]), obs.set_axis([f"cell{k}" for k in rows], axis=0))


def test_objects_are_their_matrix_and_are_paired_by_the_names_of_their_rows():
    np.testing.assert_array_equal(read(cells()), X)
    other = cells(rng.permutation(ROWS)[:80], np.asarray)
    found = ik.audit([cells(), other])
    assert found.verdict.group == "identity"
    assert found.rows == 80
    found = ik.audit([cells(), other], ids="donor,n", groups=cells().obs["donor"])
    assert found.verdict.group == "identity"
    assert found.settings.folds == 3
    refuses(AnnData(None, cells().obs), "AnnData without a matrix X", "adata.obsm")
    with pytest.raises(InputError, match="no array named 'batch'"):
        ik.audit([cells(), other], ids="batch")


@pytest.mark.parametrize("kind", ["csr_matrix", "csc_matrix", "coo_array", "csr_array"])
def test_sparse_matrices_in_memory(kind: str):
    matrix = getattr(sparse, kind)(X)
    np.testing.assert_array_equal(read(matrix), X)
    assert ik.audit([matrix, X]).verdict.group == "identity"


def test_sparse_types():
    np.testing.assert_array_equal(read(sparse.csr_array(X > 0)), X > 0)
    whole = sparse.csr_array((X * 10).astype("i4"))
    assert read(whole).dtype == np.int32
    refuses(sparse.csr_array(X * 1j), "complex128", "expected real numbers")


@pytest.mark.parametrize("compressed", [True, False])
def test_sparse_matrices_that_scipy_saved(compressed: bool):
    sparse.save_npz("x.npz", sparse.csr_array(X), compressed=compressed)
    np.testing.assert_array_equal(read("x.npz"), X)
    with closing(open_source("x.npz")) as source:
        np.testing.assert_array_equal(source.read(80, 90), X[80:])
        np.testing.assert_array_equal(source.read(3, 5), X[3:5])
    np.save("x.npy", X)
    shown = run("audit", "x.npz", "x.npy", "--json").stdout
    assert json.loads(shown)["verdict"]["group"] == "identity"
    sparse.save_npz("c.npz", sparse.csc_array(X), compressed=compressed)
    refuses("c.npz", "in the format b'csc'", "tocsr()")


def test_damaged_files_of_scipy():
    parts = {key: getattr(sparse.csr_array(X), key) for key in ("data", "indices", "indptr")}
    good = {**parts, "shape": np.array(X.shape), "format": np.array(b"csr")}
    for changed, says in (
        ({"shape": np.array([90])}, "1-D"),
        ({"shape": np.array([90, 3])}, "outside of its 3 columns"),
        ({"shape": np.array([10**12, 5])}, "is damaged"),
        ({"shape": np.array([[90, 5]])}, "does not hold the shape"),
        ({"format": np.array([b"csr", b"csr"])}, "not a single value"),
        ({"indptr": parts["indptr"] - 5}, "indptr is wrong"),
    ):
        np.savez("x.npz", **{**good, **changed})
        refuses("x.npz", says)
    stream = io.BytesIO()
    sparse.save_npz(stream, sparse.csr_array(X))
    data = stream.getvalue()
    for place in range(0, len(data), 29):
        Path("y.npz").write_bytes(data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :])
        try:
            found = read("y.npz")
        except InputError:
            continue
        assert found.shape[1] > 0
