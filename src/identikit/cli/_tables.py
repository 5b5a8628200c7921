"""Where mapped rows go: .npy, Parquet or text, with the columns that stood beside them."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from identikit._files import replacing
from identikit.errors import InputError, require

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from identikit.sources import Beside

SUFFIXES = (".npy", ".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")

#: What mapped columns are called if nothing else gives them a name.
MAPPED = "mapped"

Put = Callable[["NDArray[Any]"], None]


def suffix_of(output: Path) -> str:
    """The suffix by which a result is written, or an error that names those there are."""
    name = output.name.lower()
    found = next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)
    if found is None:
        raise InputError(
            f"the output is {output}; give a name that ends in {', '.join(SUFFIXES[:-1])} or "
            f"{SUFFIXES[-1]}"
        )
    if found == ".parquet":
        require("pyarrow", "io", "writing Parquet files")
    return found


@contextmanager
def writing_rows(
    output: Path, width: int, dtype: np.dtype[Any], view: str, *, force: bool
) -> Iterator[Put]:
    """Give a function that takes the blocks of rows one after another; atomic as a whole.

    The suffix of `output` says how they are written. The other columns of `view`, which was mapped,
    are kept in a table.
    """
    from identikit.sources import NpyWriter

    suffix = suffix_of(output)
    with replacing(output, overwrite=force) as temporary, ExitStack() as stack:
        if suffix == ".npy":
            yield stack.enter_context(NpyWriter(temporary, width, dtype)).append
            return
        from identikit.sources import columns_beside

        beside = columns_beside(view)
        if suffix == ".parquet":
            yield _parquet(temporary, beside, width, stack)
        else:
            yield _text(temporary, suffix, beside, width, stack)


def _text(path: Path, suffix: str, beside: Beside | None, width: int, stack: ExitStack) -> Put:
    import pandas as pd

    opener = gzip.open if suffix.endswith(".gz") else open
    file = stack.enter_context(opener(path, "wt", encoding="utf-8", newline=""))
    titles = [f"{_name(beside)}_{place}" for place in range(width)]
    take, first = _taker(beside, titles), True

    def put(rows: NDArray[Any]) -> None:
        nonlocal first
        frame = pd.DataFrame(rows, columns=titles)
        others = take(len(rows))
        frame = frame if others is None else pd.concat([others, frame], axis=1)
        separator = "\t" if ".tsv" in suffix else ","
        frame.to_csv(file, sep=separator, index=False, header=first, lineterminator="\n")
        first = False

    return put


def _parquet(path: Path, beside: Beside | None, width: int, stack: ExitStack) -> Put:
    arrow = require("pyarrow", "io", "writing Parquet files")
    parquet = require("pyarrow.parquet", "io", "writing Parquet files")
    name = _name(beside)
    apart = beside is not None and beside.lists is None
    titles = [f"{name}_{place}" for place in range(width)] if apart else [name]
    take = _taker(beside, titles)
    writer: Any = None

    def put(rows: NDArray[Any]) -> None:
        nonlocal writer
        others = take(len(rows))
        columns: dict[Any, Any] = {} if others is None else dict(others.items())
        if apart:
            columns |= dict(zip(titles, rows.T))
        else:
            flat = arrow.array(rows.ravel())
            columns[name] = arrow.FixedSizeListArray.from_arrays(flat, rows.shape[1])
        table = arrow.table(columns)
        if writer is None:
            writer = stack.enter_context(parquet.ParquetWriter(path, table.schema))
        writer.write_table(table.cast(writer.schema))

    return put


def _name(beside: Beside | None) -> str:
    return MAPPED if beside is None or beside.lists is None else beside.lists


def _taker(beside: Beside | None, titles: list[str]) -> Callable[[int], pd.DataFrame | None]:
    """A function that gives the next so many rows of the other columns, where there are any."""
    if beside is None or not beside.names:
        return lambda _: None
    twice = next((name for name in beside.names if name in titles), None)
    if twice is not None:
        raise InputError(f"the table has a column {twice!r}, as a mapped one would be called")
    import pandas as pd

    frames, held = beside.frames(), pd.DataFrame()

    def take(count: int) -> pd.DataFrame:
        nonlocal held
        parts = []
        while count:
            if not len(held):
                held = next(frames)
            parts.append(held.iloc[:count])
            held = held.iloc[len(parts[-1]) :]
            count -= len(parts[-1])
        return pd.concat(parts, ignore_index=True)

    return take
