"""The data sets of nelson-batches: files in the layout of each, and files that are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conftest import close
from identikit.errors import InputError, MissingExtraError
from identikit.studies import Data, run
from identikit.studies._batch_data import (
    CONTROL,
    GENES,
    GUIDES,
    RAW,
    RXRX3,
    RXRX3_WELLS,
    read,
)


def bbbc021(folder: Path, **changed: Any) -> Path:
    (folder / "cell_microscopy").mkdir()
    table = {
        "plate": ["Week1_1", "Week1_2", "Week10_7"], "week": ["Week1", "Week1", "Week10"],
        "well": ["B02", "B03", "B02"], "compound": ["DMSO", "taxol", "DMSO"],
        "concentration": [0.0, 1.0, 0.0], "moa": ["DMSO", "stabilizers", "DMSO"],
        "area": np.float32([1, 2, 3]), "shape": np.float32([4, 5, 7]),
    }  # fmt: skip
    pd.DataFrame(table | changed).to_parquet(folder / RAW.file)
    return folder


def test_bbbc021(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    data = Data(bbbc021(tmp_path))
    plates, weeks = read("bbbc021_plates", data), read("bbbc021_weeks", data)
    assert list(weeks.batch) == ["Week1", "Week1", "Week10"]
    assert list(weeks.label) == [CONTROL, "stabilizers", CONTROL]
    assert list(plates.batch) == ["Week1_1", "Week1_2", "Week10_7"]
    assert list(plates.label) == [CONTROL, "taxol", CONTROL]
    for wells in (plates, weeks):
        close(wells.x, [[1.0, 4.0], [2.0, 5.0], [3.0, 7.0]], 0)
        assert wells.units


def test_bad_bbbc021(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match="there is no data set 'bbbc'; choose from planted"):
        read("bbbc", Data(tmp_path))
    with pytest.raises(InputError, match=r"per_well_raw.parquet is needed"):
        read("bbbc021_weeks", Data(tmp_path))
    folders = [tmp_path / str(place) for place in range(5)]
    for folder in folders:
        folder.mkdir()
    data = Data(bbbc021(folders[0], compound=["DMSO", "taxol", "taxol"], moa=["DMSO", "a", "a"]))
    with pytest.raises(InputError, match="'taxol' is in Week1, Week10; a compound must be in one"):
        read("bbbc021_weeks", data)
    data = Data(bbbc021(folders[1], area=np.float32([1, np.nan, np.inf])))
    with pytest.raises(InputError, match=r"hold 2 rows with NaN or infinity \(first: 1\)"):
        read("bbbc021_weeks", data)
    bbbc021(folders[2])
    pd.DataFrame({"plate": ["Week1_1"]}).to_parquet(folders[2] / RAW.file)
    with pytest.raises(InputError, match="has no column compound, moa, concentration; expected"):
        read("bbbc021_weeks", Data(folders[2]))
    bbbc021(folders[3])
    (folders[3] / RAW.file).write_bytes(b"no table")
    with pytest.raises(InputError, match=r"per_well_raw.parquet is damaged or of another kind"):
        read("bbbc021_weeks", Data(folders[3]))
    bbbc021(folders[4], area="x", shape="y")
    with pytest.raises(InputError, match="hold nothing; expected BBBC021"):
        read("bbbc021_weeks", Data(folders[4]))
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'identikit\[io\]'"):
        read("bbbc021_plates", Data(folders[4]))


def test_cell_health(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "cell_microscopy").mkdir()
    names = {"Metadata_profile_id": list("abcde"), "Metadata_cell_line": ["A549"] * 4 + ["ES2"]}
    names["Metadata_pert_name"] = ["KRAS-1", "EMPTY", "KRAS-2A", "Chr2-6", "LacZ-3"]
    table = pd.DataFrame(names | {"area": [1.0, 2.0, 3.0, 4.0, 5.0]})
    table.to_parquet(tmp_path / GUIDES.file)
    wells = read("cell_health", Data(tmp_path))
    assert list(wells.label) == ["KRAS", "KRAS", CONTROL, CONTROL]
    assert list(wells.batch) == ["A549", "A549", "A549", "ES2"]
    close(wells.x, [[1.0], [3.0], [4.0], [5.0]], 0)
    table.drop(columns="Metadata_cell_line").to_parquet(tmp_path / GUIDES.file)
    with pytest.raises(InputError, match="has no column Metadata_cell_line; expected Cell Health"):
        read("cell_health", Data(f"{tmp_path}/"))  # By another name, as reads are kept.


def rxrx3(folder: Path) -> Path:
    """Three experiments in the layout of RxRx3-core, as its README describes it."""
    (folder / "rxrx3_core").mkdir()
    rng = np.random.default_rng(0)
    rows = [
        (f"gene-{e:03}_1_{w}", f"gene-{e:03}", gene, f"{gene}_guide_1", "CRISPR")
        for e in range(3)
        for w, gene in enumerate([*GENES[:2], *GENES[:2], "OTHER"])
    ]
    rows += [
        (f"gene-{e:03}_1_{w}", f"gene-{e:03}", None, "EMPTY_control", "CRISPR")
        for e in range(3)
        for w in range(10, 22)
    ]
    rows.append(("compound-001_1_1", "compound-001", None, "EMPTY_control", "COMPOUND"))
    columns = ["well_id", "experiment_name", "gene", "treatment", "perturbation_type"]
    wells = pd.DataFrame(rows, columns=columns)
    wells.to_csv(folder / RXRX3_WELLS.file, index=False)
    features = pd.DataFrame(rng.normal(size=(len(wells), 5)).astype(np.float32))
    features = features.add_prefix("feature_").assign(well_id=wells["well_id"]).sample(frac=1)
    features.to_parquet(folder / RXRX3.file)
    return folder


def test_rxrx3_core(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    data = Data(rxrx3(tmp_path))
    wells = read("rxrx3_core", data)
    assert wells.x.shape == (3 * 16, 5)
    assert {name: int((wells.label == name).sum()) for name in np.unique(wells.label)} == {
        "CYP11B1": 6, "EIF3H": 6, CONTROL: 36
    }  # fmt: skip
    table = pd.read_parquet(tmp_path / RXRX3.file).set_index("well_id")
    close(wells.x[0], table.loc["gene-000_1_0"].to_numpy(float), 0)
    settings = {"sets": ["rxrx3_core"], "components": 3, "seeds": 1, "penalties": [0.1]}
    settings |= {"folds": 3, "permutations": 20, "controls": 12}
    found = run(
        "nelson-batches", folder=tmp_path / "out", data=tmp_path, settings=settings, engine="single"
    )
    assert set(found.tables["scores"]["label"]) == {"CYP11B1", "EIF3H"}


def test_bad_rxrx3_core(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    data = Data(rxrx3(tmp_path))
    wells = tmp_path / RXRX3_WELLS.file
    table = pd.read_csv(wells)
    table.assign(well_id="x").to_csv(wells, index=False)
    with pytest.raises(InputError, match="have no well in common of EIF3H"):
        read("rxrx3_core", data)
    table.drop(columns="gene").to_csv(wells, index=False)
    with pytest.raises(InputError, match=r"metadata_rxrx3_core.csv has no column gene; expected"):
        read("rxrx3_core", data)
    wells.write_bytes(b'"a,b\n1\n')
    with pytest.raises(InputError, match=r"metadata_rxrx3_core.csv is damaged or of another kind"):
        read("rxrx3_core", data)


def test_single_cells(tmp_path: Path) -> None:
    (tmp_path / "singlecell").mkdir()
    pcs, donor = np.arange(12.0).reshape(4, 3), np.array(list("ABAB"))
    pbmc = tmp_path / "singlecell" / "pbmc_3500.npz"
    np.savez(pbmc, pcs=pcs, pcs_harmonized=-pcs, donor=donor)
    before, after = (read(name, Data(tmp_path)) for name in ("pbmc", "pbmc_harmony"))
    close(before.x, pcs, 0)
    close(after.x, -pcs, 0)
    assert len(np.unique(before.label)) == 1
    lines = tmp_path / "singlecell" / "cell_lines.npz"
    np.savez(lines, pcs=pcs, dataset=donor, cell_type=np.array(["j", "j", "t", "t"]))
    assert list(read("cell_lines", Data(tmp_path)).label) == ["j", "j", "t", "t"]
    np.savez(lines, pcs=pcs)
    read.cache_clear()
    with pytest.raises(InputError, match=r"cell_lines.npz is damaged or of another kind"):
        read("cell_lines", Data(tmp_path))


def test_real_data(data_dir: Path) -> None:
    pytest.importorskip("pyarrow")
    data = Data(data_dir)
    plates, weeks = read("bbbc021_plates", data), read("bbbc021_weeks", data)
    for wells, batches, labels in ((plates, 55, 39), (weeks, 10, 13)):
        assert wells.x.shape == (632, 516)
        assert len(np.unique(wells.batch)) == batches
        assert len(np.unique(wells.label)) == labels
        assert wells.control.sum() == 330
    lines = read("cell_lines", data)
    assert lines.x.shape == (2370, 20)
    # One batch has both types: it alone can be scored.
    types = [np.unique(lines.label[lines.batch == name]) for name in np.unique(lines.batch)]
    assert [len(each) for each in types] == [2, 1, 1]
