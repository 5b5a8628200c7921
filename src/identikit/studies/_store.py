"""A study's folder: what was asked, one file a unit, tables, claims.

```
study.json          name, version, preset, settings, data, and a digest of these
units/KEY.safetensors   a unit's arrays, its rows in the metadata
working/KEY/        what a unit keeps while it is being computed; removed when it is done
tables/NAME.csv, .json  claims.json  figure.svg  figure.png  report.html
```
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identikit._files import replacing, write_text
from identikit.errors import InputError
from identikit.report.numbers import shorten

if TYPE_CHECKING:
    from identikit.studies._study import Tables

HEADER, RESULT, UNITS, TABLES = "study.json", "claims.json", "units", "tables"
REMEDY = "delete the folder and run the study again, or give another with -o"
# What makes two runs the same run.
ASKED = ("identikit", "study", "preset", "settings", "data")
NAMES = {"identikit": "the version of identikit"}
# Differences that a message names.
MOST = 4


@dataclass(frozen=True)
class Record:
    """What a unit of work found: rows of a tidy table, and arrays by name.

    Rows hold JSON scalars (NumPy's are converted, NaN and infinity become None); arrays numbers.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)


def digest(header: Mapping[str, Any]) -> str:
    """A short hash of what was asked."""
    text = json.dumps(_asked(header), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _asked(header: Mapping[str, Any]) -> dict[str, Any]:
    return {key: header.get(key) for key in ASKED}


def open_folder(folder: Path, header: Mapping[str, Any]) -> None:
    """Make a study's folder, or find one of the very same study; refuse any other.

    Parameters
    ----------
    folder : Path
        Where results go.
    header : mapping
        What is asked; `ASKED` names the entries that must agree.
    """
    if folder.is_file():
        raise InputError(f"{folder} is a file; give the name of a folder with -o")
    if (folder / HEADER).exists():
        found = read_json(folder, HEADER)
        apart = list(_differences(_asked(found), _asked(header)))
        if apart:
            more = f"; and {len(apart) - MOST} more" if len(apart) > MOST else ""
            raise InputError(
                f"{folder} holds results that were asked for differently: "
                f"{'; '.join(apart[:MOST])}{more}. They are not mixed: give another folder with "
                "-o, or delete this one"
            )
    elif folder.is_dir() and any(folder.iterdir()):
        raise InputError(
            f"{folder} is not empty and no study's folder (it has no {HEADER}); give another "
            "folder with -o"
        )
    for part in (UNITS, TABLES):
        (folder / part).mkdir(parents=True, exist_ok=True)
    write_json(folder / HEADER, header)


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    """What is asked for now and was not then, in words."""
    for key in {**here, **there}:
        old, new = there.get(key), here.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new)
        elif old != new:
            was, now = (shorten(json.dumps(value), 60) for value in (old, new))
            yield f"{NAMES.get(key, key)} was {was} and is now {now}"


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """A JSON document of a study's folder.

    Parameters
    ----------
    folder : Path
        A study's folder.
    name : str
        Of the file in it.
    """
    if not (folder / HEADER).is_file():
        raise InputError(f"{folder} is no study's folder: it has no {HEADER}")
    return dict(_read(folder / name, dict))


def _read(path: Path, kind: type) -> Any:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is damaged ({error}); {REMEDY}") from error
    if not isinstance(found, kind):
        raise InputError(f"{path} is damaged: expected a JSON {kind.__name__}; {REMEDY}")
    return found


def write_json(path: Path, document: Any) -> None:
    """Write strict JSON: NaN and infinity become null."""
    write_text(path, json.dumps(finite(document), indent=2, ensure_ascii=False) + "\n")


def finite(value: Any) -> Any:
    """Plain JSON values: NumPy's scalars converted, what is not finite as None."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def unit_path(folder: Path, key: str) -> Path:
    """The file of a unit."""
    return folder / UNITS / f"{key}.safetensors"


def write_unit(path: Path, record: Record, digest: str, seconds: float, code: str = "") -> None:
    """Write a unit's file, atomically."""
    from safetensors.numpy import save

    metadata = {
        "digest": digest,
        "code": code,
        "seconds": round(seconds, 3),
        "rows": [finite(row) for row in record.rows],
    }
    arrays = {name: np.array(array, order="C") for name, array in record.arrays.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise InputError(f"its array {name!r} is {array.dtype}; expected numbers")
    with replacing(path) as temporary:
        # Not safetensors' own writer, whose error for a full disk is no OSError.
        temporary.write_bytes(save(arrays, {"identikit": json.dumps(metadata)}))


def read_unit(path: Path, digest: str) -> tuple[Record, float, str] | None:
    """A unit's record, seconds and code; None, with a warning if a file will not do."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            metadata = json.loads(file.metadata()["identikit"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        found, code = metadata["digest"], str(metadata.get("code", ""))
        record, seconds = Record(metadata["rows"], arrays), float(metadata["seconds"])
    except FileNotFoundError:
        return None
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        _warn(path, f"is damaged or cut short ({error})")
        return None
    if found != digest:
        _warn(path, "is of other settings or of another version")
        return None
    return record, seconds, code


def _warn(path: Path, why: str) -> None:
    warnings.warn(f"{path} {why}; this unit is computed again", stacklevel=4)


def write_tables(folder: Path, tables: Tables) -> None:
    """Write every table as CSV and as JSON, a list of rows."""
    for name, table in tables.items():
        with replacing(folder / TABLES / f"{name}.csv") as temporary:
            table.to_csv(temporary, index=False)
        write_json(folder / TABLES / f"{name}.json", table.to_dict("records"))


def read_tables(folder: Path) -> Tables:
    """The tables of a folder, by name."""
    import pandas as pd

    paths = sorted((folder / TABLES).glob("*.json"))
    return {path.stem: pd.DataFrame(_read(path, list)) for path in paths}
