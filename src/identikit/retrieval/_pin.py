"""Pin a representation: what `check` needs to tell later whether anything has changed.

A pin is one safetensors file with, for each layer, the moments of all rows (as in a .moments file),
a sample of rows with their numbers and ids, and what the user says of the model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit import _store
from identikit._linalg import Array
from identikit._progress import Progress
from identikit._version import __version__
from identikit.errors import InputError
from identikit.moments import Moments, moments_from, moments_to
from identikit.moments.sample import row_keys
from identikit.retrieval._pinned_views import (
    Ids,
    Numbers,
    check_ids,
    finite,
    layers_of,
    moments_of,
    opened_view,
    rows_at,
    with_ids,
)

#: The name and number of the file format; files with another number are refused.
FORMAT, NUMBER = "identikit-pin", 1

#: The largest number of rows that a pin keeps, and the smallest number that it is made of.
SAMPLE, LEAST = 1000, 10

#: What may be said of a model, in the order in which it is listed.
FINGERPRINTS = ("model", "revision", "tokenizer", "pooling", "prefix")


@dataclass(frozen=True, eq=False, repr=False)
class PinnedView:
    """One pinned view, or one layer.

    `moments` are those of all rows. `sample` has some rows in the type they were stored in, with
    their `numbers` among all rows; it is None if no rows were kept, and so are the `ids` if there
    are none.
    """

    name: str
    moments: Moments
    sample: NDArray[Any] | None = None
    numbers: Numbers | None = None
    ids: Ids | None = None

    @property
    def rows(self) -> int:
        """Number of all rows."""
        return self.moments.rows

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.moments.widths[0]

    def __repr__(self) -> str:
        kept = 0 if self.sample is None else len(self.sample)
        return f"PinnedView({self.name!r}: {self.rows:,} × {self.width}, {kept:,} rows kept)"

    def values(self) -> Array:
        """The row sample as float64."""
        assert self.sample is not None
        return np.asarray(self.sample, dtype=np.float64)


@dataclass(frozen=True, eq=False, repr=False)
class Pin:
    """A pinned representation: one view or several layers, and what was said of the model.

    Made by `identikit.pin`, read by `identikit.load_pin`, and compared by `identikit.check`.
    """

    layers: tuple[PinnedView, ...]
    fingerprints: Mapping[str, str]
    version: str = __version__

    def __repr__(self) -> str:
        first = self.layers[0]
        more = f" and {len(self.layers) - 1} more layers" if len(self.layers) > 1 else ""
        return f"Pin({first!r}{more})"

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the pin as one safetensors file, atomically.

        Parameters
        ----------
        path : path
            The file to write.
        overwrite : bool
            Replace a file that exists already. Without it that is an error: a reference should not
            change by accident.
        """
        arrays: dict[str, NDArray[Any]] = {}
        entries = []
        for number, layer in enumerate(self.layers):
            header, own = moments_to(layer.moments)
            if layer.sample is not None and layer.numbers is not None:
                own |= {"rows": layer.sample, "numbers": layer.numbers}
            arrays |= {f"{number}/{name}": array for name, array in own.items()}
            ids = None if layer.ids is None else list(map(str, layer.ids))
            entries.append({"name": layer.name, "moments": header, "ids": ids})
        document = {
            "format": FORMAT,
            "number": NUMBER,
            "identikit": self.version,
            "fingerprints": dict(self.fingerprints),
            "layers": entries,
        }
        _store.write(path, document, arrays, overwrite=overwrite)


def pin(
    view: object,
    *,
    ids: object = None,
    rows: int = SAMPLE,
    fingerprints: Mapping[str, str | None] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Pin:
    """Pin a representation, so that `check` can later tell whether it has changed, and how.

    Parameters
    ----------
    view : array, path or mapping
        A view as `audit` takes it; or the layers of a model, as a mapping from names to views or a
        folder that `identikit extract` wrote.
    ids : str, path object or sequence, optional
        The column of the view that holds an id for each row, a file of ids, or the ids. With ids,
        rows are found again wherever they are; without, by their number.
    rows : int
        How many rows to keep, a random sample; 0 keeps none, and then only the moments of all rows
        can be compared.
    fingerprints : mapping of str to str, optional
        What is known of the model: any of ``model``, ``revision``, ``tokenizer``, ``pooling`` and
        ``prefix``. It is repeated where a check finds a change.
    seed : int
        Seed of the row sample.
    progress : callable, optional
        Called with (the name of the step, steps done, steps in all).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 8))
    >>> pin(X, rows=100)
    Pin(PinnedView('view0': 500 × 8, 100 rows kept))
    """
    if rows < 0:
        raise InputError(f"rows is {rows}; give the number of rows to keep, 0 for none")
    if 0 < rows < LEAST:
        raise InputError(f"rows is {rows}; keep at least {LEAST}, or 0 for none")
    given = {key: value for key, value in (fingerprints or {}).items() if value is not None}
    unknown = next((key for key in given if key not in FINGERPRINTS), None)
    if unknown is not None:
        raise InputError(
            f"there is no fingerprint {unknown!r}; expected any of {', '.join(FINGERPRINTS)}"
        )
    layers = [
        _pin_view(each, name, ids, rows, seed, progress) for name, each in layers_of(view).items()
    ]
    return Pin(tuple(layers), {key: str(given[key]) for key in FINGERPRINTS if key in given})


def _pin_view(
    view: object, name: str, ids: object, keep: int, seed: int, progress: Progress | None
) -> PinnedView:
    view, texts = with_ids(view, ids, f"layer {name!r}" if name else "the view")
    with opened_view(view, name) as source:
        check_ids(texts, source)
        if source.rows < LEAST:
            raise InputError(
                f"{source.name!r} has {source.rows} rows; a pin needs at least {LEAST}, or a check "
                "could tell nothing"
            )
        # The only pass over all rows; it also finds those that are not finite.
        moments = moments_of(view, source.name, progress)
        if not moments.varies(0):
            raise InputError(
                f"all {source.rows} rows of {source.name!r} are the same, so that no change could "
                "be told; pin the vectors of different things"
            )
        if not keep:
            return PinnedView(source.name, moments)
        keys = row_keys(0, source.rows, seed)
        numbers = np.sort(np.argsort(keys, kind="stable")[:keep]).astype(np.int64)
        sample = rows_at(source, numbers)
        sample = np.ascontiguousarray(sample, dtype=sample.dtype.newbyteorder("="))
        kept = None if texts is None else texts[numbers]
        return PinnedView(source.name, moments, sample, numbers, kept)


def load_pin(path: str | os.PathLike[str]) -> Pin:
    """Read a pin that `Pin.save` or `identikit pin` wrote; all of it is checked.

    Parameters
    ----------
    path : path
        The file.
    """
    try:
        document, arrays = _store.read(path)
    except FileNotFoundError as error:
        raise InputError(
            f"there is no pin {path}; make it with identikit pin VIEW -o {Path(path).name}"
        ) from error
    except _store.DamagedError as error:
        said = str(error).removeprefix(f"{path} is ")
        raise InputError(f"{path} is no pin, or {said}") from error
    if document.get("format") != FORMAT:
        what = str(document.get("format") or "nothing of identikit")[:100]
        raise InputError(
            f"{path} is no pin: it holds {what}, expected {FORMAT}; make one with identikit pin"
        )
    number = document.get("number")
    if number != NUMBER:
        raise InputError(
            f"{path} has format {str(number)[:20]} of pins, written by identikit "
            f"{str(document.get('identikit'))[:100]}; identikit {__version__} reads format "
            f"{NUMBER}: pin again, or install the version that wrote it"
        )
    try:
        return _pin_of(document, arrays, path)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is damaged: {str(error)[:200]}; pin again") from error


def _pin_of(
    document: dict[str, Any], arrays: dict[str, NDArray[Any]], path: str | os.PathLike[str]
) -> Pin:
    layers = []
    for number, entry in enumerate(document["layers"]):
        start = f"{number}/"
        own = {key.removeprefix(start): a for key, a in arrays.items() if key.startswith(start)}
        sample, numbers = own.pop("rows", None), own.pop("numbers", None)
        moments = moments_from(entry["moments"], own, path)
        ids = None if entry["ids"] is None else np.array(list(map(str, entry["ids"])), dtype=object)
        layer = PinnedView(str(entry["name"]), moments, sample, numbers, ids)
        _check_sample(layer, path)
        layers.append(layer)
    known = document["fingerprints"]
    if not layers or not all(isinstance(known[key], str) for key in known):
        raise ValueError("it has no layers, or fingerprints that are no texts")
    return Pin(tuple(layers), dict(known), str(document["identikit"]))


def _check_sample(layer: PinnedView, path: str | os.PathLike[str]) -> None:
    sample, numbers, ids = layer.sample, layer.numbers, layer.ids
    if len(layer.moments.widths) != 1 or (sample is None) != (numbers is None):
        raise ValueError("its arrays do not match its header")
    if sample is None or numbers is None:
        return
    if sample.shape != (len(numbers), layer.width) or len(numbers) < LEAST:
        raise ValueError("its rows do not match its moments")
    rising = numbers.dtype == np.int64 and bool((np.diff(numbers) > 0).all())
    if not rising or numbers[0] < 0 or numbers[-1] >= layer.rows:
        raise ValueError("the numbers of its rows cannot be right")
    if ids is not None and len(set(ids)) != len(numbers):
        raise ValueError("its ids do not match its rows")
    finite(sample, f"{path} is damaged")
