"""The layout of a study's folder: the header, one file per unit, the tables and the claims.

```
study.json          name, version, preset, settings, data, and a digest of these
units/KEY.safetensors   a unit's arrays, with its rows in the metadata
working/KEY/        a unit's temporary files; removed when it is done
tables/NAME.csv, .json  claims.json  figure.svg  figure.png  report.html
```
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from identikit import _store
from identikit._files import replacing, write_text
from identikit.errors import InputError
from identikit.studies._study import Record, Tables

HEADER, RESULT, UNITS, TABLES = "study.json", "claims.json", "units", "tables"
REMEDY = "delete the folder and run the study again, or give another with -o"
# Two runs are the same if these entries of their headers agree.
ASKED = ("identikit", "study", "preset", "settings", "data")


def asked(header: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a header that must agree for a run to be resumed."""
    return {key: header.get(key) for key in ASKED}


def open_folder(folder: Path, header: Mapping[str, Any]) -> None:
    """Create a study's folder, or reopen it if `ASKED` agrees; refuse that of any other run."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / HEADER).exists():
        raise InputError(
            f"{folder} is not empty and is not the folder of a study (it has no {HEADER}); give "
            "another folder with -o"
        )
    remedy = "give another folder with -o, or delete this one"
    _store.open_folder(folder, HEADER, asked(header), "the work of a study", remedy)
    for part in (UNITS, TABLES):
        (folder / part).mkdir(exist_ok=True)
    write_json(folder / HEADER, header)


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """A JSON document of a study's folder, by the name of its file."""
    if not (folder / HEADER).is_file():
        raise InputError(f"{folder} is not the folder of a study: it has no {HEADER}")
    return dict(_read(folder / name, dict))


def _read(path: Path, kind: type) -> Any:
    try:
        return _store.read_json(path, kind)
    except _store.DamagedError as error:
        raise InputError(f"{error}; {REMEDY}") from error


def write_json(path: Path, document: Any) -> None:
    """Write strict JSON: NaN and infinity become null."""
    write_text(path, json.dumps(finite(document), indent=2, ensure_ascii=False) + "\n")


def finite(value: Any) -> Any:
    """The value as plain JSON: NumPy's scalars are converted, NaN and infinity become None."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def unit_path(folder: Path, key: str) -> Path:
    return folder / UNITS / f"{key}.safetensors"


def write_unit(path: Path, record: Record, digest: str, seconds: float, code: str = "") -> None:
    rows = [finite(row) for row in record.rows]
    about = {"digest": digest, "code": code, "seconds": round(seconds, 3), "rows": rows}
    _store.write(path, about, record.arrays)


def read_unit(path: Path, digest: str) -> tuple[Record, float, str] | None:
    """A unit's record, seconds and code digest; None if there is no file.

    A file that cannot be used gives a warning and None.
    """
    try:
        about, arrays = _store.read(path)
        record, seconds = Record(about["rows"], arrays), float(about["seconds"])
        if about["digest"] == digest:
            return record, seconds, str(about.get("code", ""))
        why = f"{path} belongs to other settings or another version"
    except FileNotFoundError:
        return None
    except _store.DamagedError as error:
        why = str(error)
    except (KeyError, TypeError, ValueError) as error:
        why = f"{path} is damaged ({error})"
    warnings.warn(f"{why}; this unit is computed again", stacklevel=3)
    return None


def write_tables(folder: Path, tables: Tables) -> None:
    """Write every table as CSV and as JSON (a list of rows)."""
    for name, table in tables.items():
        with replacing(folder / TABLES / f"{name}.csv") as temporary:
            table.to_csv(temporary, index=False)
        write_json(folder / TABLES / f"{name}.json", table.to_dict("records"))


def read_tables(folder: Path) -> Tables:
    import pandas as pd

    paths = sorted((folder / TABLES).glob("*.json"))
    return {path.stem: pd.DataFrame(_read(path, list)) for path in paths}
