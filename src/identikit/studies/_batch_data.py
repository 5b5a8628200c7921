"""The data sets of nelson-batches: wells and cells in batches, and simulated wells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.errors import InputError, require
from identikit.studies._data import Data, Need, read_arrays

Strings = NDArray[np.str_]
CONTROL = "control"

RAW = Need(
    "cell_microscopy/bbbc021_per_well_raw.parquet",
    "BBBC021: plate, week, well, compound, concentration, moa, then features",
)
GUIDES = Need(
    "cell_microscopy/cellhealth_consensus_modz.parquet",
    "Cell Health: Metadata_cell_line and Metadata_pert_name of CRISPR guides, then features",
)
LINES = Need("singlecell/cell_lines.npz", "pcs (n, 20), dataset and cell_type (n,)")
PBMC = Need("singlecell/pbmc_3500.npz", "pcs and pcs_harmonized (n, 30), donor (n,)")
RXRX3 = Need(
    "rxrx3_core/OpenPhenom_rxrx3_core_embeddings.parquet",
    "RxRx3-core: well_id and 384 features of OpenPhenom per well",
)
RXRX3_WELLS = Need(
    "rxrx3_core/metadata_rxrx3_core.csv",
    "RxRx3-core: well_id, experiment_name, gene, treatment, perturbation_type",
)
NEEDS = tuple(
    replace(need, optional=True) for need in (RAW, GUIDES, LINES, PBMC, RXRX3, RXRX3_WELLS)
)
# The genes that the paper's table is known, or likely, to contain.
GENES = ("EIF3H", "CYP11B1", "PLK1", "HCK", "MTOR", "SRC")
# Guides of Cell Health that cut a place without a gene, or nothing that cells have.
NO_GENES = ("Chr2", "LacZ", "Luc")


@dataclass(frozen=True, eq=False)
class Wells:
    """Rows of features x (n, d), with the batch and the label of each.

    The label is the treatment or cell type, `CONTROL` for an untreated row, and the same for all
    rows if nothing is known. `units` says whether features have different units, and so are scaled
    one by one; principal components are not.
    """

    name: str
    x: Array
    batch: Strings
    label: Strings
    units: bool

    @property
    def control(self) -> NDArray[np.bool_]:
        return np.asarray(self.label == CONTROL)


@lru_cache(maxsize=8)
def read(name: str, data: Data) -> Wells:
    """A data set by its name, one of `SETS`, read once per process; "planted" needs no data."""
    if name not in SETS:
        raise InputError(f"there is no data set {name!r}; choose from {', '.join(SETS)}")
    return SETS[name](name, data)


def planted(
    seed: int = 0, batches: int = 6, controls: int = 80, treated: int = 3,
    batch_effect: float = 2.0, effect: float = 2.0,
) -> tuple[Wells, Array]:  # fmt: skip
    """Simulated wells with 40 features, mixed from 16 independent axes with little noise; the axes.

    Axes are Laplace noise of unit variance. Each batch shifts the first three at random, and each
    of six treatments one of the next six; seven are unaffected. The assumptions of ICA hold, and
    few wells with many axes suit a sparse learner.
    """
    rng = np.random.default_rng(seed)
    one = np.repeat([CONTROL, *"abcdef"], [controls, *6 * [treated]])
    label, batch = np.tile(one, batches), np.repeat(np.arange(batches), len(one))
    axes = rng.laplace(scale=0.5**0.5, size=(len(label), 16))
    axes[:, :3] += batch_effect * rng.normal(size=(batches, 3))[batch]
    for place, name in enumerate("abcdef", 3):
        axes[label == name, place] += effect
    # Not orthogonal, because otherwise the principal components would be the axes.
    x = axes @ rng.normal(size=(16, 40)) + 0.05 * rng.normal(size=(len(label), 40))
    names = np.array([f"batch {number + 1}" for number in range(batches)])
    return Wells("planted", x, names[batch], label, units=False), axes


def _bbbc021(name: str, data: Data) -> Wells:
    """Compounds on plates, or mechanisms in weeks: no compound is in two weeks."""
    names = ["plate", "compound", "moa", "concentration"]
    table = _table(_path(data, RAW), RAW)
    plate, compound, moa, _ = _columns(table, names, RAW)
    # A plate is named after its week: "Week10_40111".
    week = np.array([text.split("_")[0] for text in plate])
    for each in np.unique(compound[moa != "DMSO"]):
        weeks = np.unique(week[compound == each])
        if len(weeks) > 1:
            raise InputError(
                f"{RAW.file}: {str(each)!r} is in {', '.join(weeks)}; a compound must be in one "
                "week only, so that a held-out week has compounds that no other week has"
            )
    batch, label = (plate, compound) if name == "bbbc021_plates" else (week, moa)
    label = np.where(moa == "DMSO", CONTROL, label)
    return Wells(name, _features(table.drop(columns=names), RAW), batch, label, units=True)


def _cell_health(name: str, data: Data) -> Wells:
    """Knocked-out genes in cell lines, a row per guide; guides that cut no gene are the controls.

    A guide is named after its gene: "KRAS-2A". Wells without any guide are left out.
    """
    names = ["Metadata_cell_line", "Metadata_pert_name"]
    table = _table(_path(data, GUIDES), GUIDES)
    line, guide = _columns(table, names, GUIDES)
    gene = np.array([text.rsplit("-", 1)[0] for text in guide])
    kept, label = guide != "EMPTY", np.where(np.isin(gene, NO_GENES), CONTROL, gene)
    x = _features(table.drop(columns=names), GUIDES)
    return Wells(name, x[kept], line[kept], label[kept], units=True)


def _rxrx3_core(name: str, data: Data) -> Wells:
    import pandas as pd

    path = _path(data, RXRX3_WELLS)
    try:
        wells = pd.read_csv(path, low_memory=False)
    except (OSError, ValueError) as error:
        raise _damaged(path, RXRX3_WELLS, error) from error
    kind, gene, treatment, _ = _columns(
        wells, ["perturbation_type", "gene", "treatment", "experiment_name"], RXRX3_WELLS
    )
    wells = wells.assign(label=np.where(treatment == "EMPTY_control", CONTROL, gene))
    wells = wells[(kind == "CRISPR") & np.isin(wells["label"], (CONTROL, *GENES))]
    table = _table(_path(data, RXRX3), RXRX3)
    _columns(table, ["well_id"], RXRX3)
    joined = wells[["well_id", "experiment_name", "label"]].merge(table, on="well_id")
    if not set(GENES) & set(joined["label"]) or CONTROL not in set(joined["label"]):
        raise InputError(
            f"{RXRX3_WELLS.file} and {RXRX3.file} have no well in common of {', '.join(GENES)} or "
            "of EMPTY_control; give those of RxRx3-core"
        )
    batch, label = _columns(joined, ["experiment_name", "label"], RXRX3)
    features = joined.drop(columns=["well_id", "experiment_name", "label"])
    return Wells(name, _features(features, RXRX3), batch, label, units=True)


def _cell_lines(name: str, data: Data) -> Wells:
    x, batch, label = _archive(_path(data, LINES), LINES, "pcs", "dataset", "cell_type")
    return Wells(name, x, batch, label, units=False)


def _pbmc(name: str, data: Data) -> Wells:
    pcs = "pcs_harmonized" if name == "pbmc_harmony" else "pcs"
    x, donor = _archive(_path(data, PBMC), PBMC, pcs, "donor")
    return Wells(name, x, donor, np.full(len(x), "cell"), units=False)


SETS: dict[str, Callable[[str, Data], Wells]] = {
    "planted": lambda _name, _data: planted()[0],
    "bbbc021_plates": _bbbc021,
    "bbbc021_weeks": _bbbc021,
    "cell_health": _cell_health,
    "cell_lines": _cell_lines,
    "pbmc": _pbmc,
    "pbmc_harmony": _pbmc,
    "rxrx3_core": _rxrx3_core,
}


def _path(data: Data, need: Need) -> Path:
    path = data.locate(need)
    assert path is not None  # nothing stands in for these
    return path


def _damaged(path: Path, need: Need, error: object) -> InputError:
    return InputError(f"{path} is damaged or of another kind ({error}); expected {need.contains}")


def _table(path: Path, need: Need) -> Any:
    import pandas as pd

    require("pyarrow", "io", f"reading {need.file}")
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        raise _damaged(path, need, error) from error


def _columns(table: Any, names: list[str], need: Need) -> list[Strings]:
    missing = [column for column in names if column not in table]
    if missing:
        raise InputError(
            f"{need.file} has no column {', '.join(missing)}; expected {need.contains}"
        )
    return [table[column].to_numpy().astype(str) for column in names]


def _features(table: Any, need: Need) -> Array:
    return _finite(table.select_dtypes("number").to_numpy(np.float64), need)


def _archive(path: Path, need: Need, pcs: str, *names: str) -> tuple[Any, ...]:
    x, *columns = read_arrays(path, (pcs, *names), need.contains).values()
    return _finite(x.astype(np.float64), need), *(column.astype(str) for column in columns)


def _finite(x: Array, need: Need) -> Array:
    rows = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if x.size == 0 or len(rows):
        found = f"{len(rows)} rows with NaN or infinity (first: {rows[0]})" if x.size else "nothing"
        raise InputError(f"the features in {need.file} hold {found}; expected {need.contains}")
    return x
