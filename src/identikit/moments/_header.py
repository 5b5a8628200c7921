"""The header of a moments file, which determines the arrays that the file must hold."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from identikit._version import __version__
from identikit.errors import InputError
from identikit.moments._folds import RULES
from identikit.moments._moments import Moments, Shard

__all__ = ["FOLD_RULES"]

#: The name and number of the file format; files with another number are refused.
FORMAT, NUMBER = "identikit-moments", 4

#: No float64 number, and no quotient of two, has a larger exponent (to base two).
LARGEST_EXPONENT = 4096

#: How messages describe each ``Moments.rule``.
FOLD_RULES: dict[str | None, str | None] = {None: None} | dict(RULES)


@dataclass(frozen=True)
class Partial:
    """How far a reading has come: the ranges of rows read so far, in which pass, and their digests.

    The fingerprint distinguishes it from a reading of other data or with other settings.
    """

    second: bool
    spans: tuple[tuple[int, int], ...]
    rows: int
    digests: tuple[str, ...]
    fingerprint: dict[str, Any]

    def __str__(self) -> str:
        done = sum(stop - start for start, stop in self.spans)
        return f"{done} of {self.rows} rows in the {'second' if self.second else 'first'} pass"


@dataclass(frozen=True)
class Header:
    """Everything that a moments file holds apart from its arrays; see `Moments`.

    `counts` has the rows of each fold. `sample_size` is the largest number of rows of the sample,
    `sample_rows` the actual one; so are the two numbers of `extremes`, and those of `distinct`, of
    which the latter are for the stacked rows and for each view. `turned` says whether the scatter
    is stored in other coordinates than the views' own; `partial` is the progress of a reading that
    is not finished, and `version` that of identikit.
    """

    names: tuple[str, ...]
    widths: tuple[int, ...]
    eps: tuple[float, ...]
    counts: tuple[int, ...]
    rule: str | None
    seed: int | None
    dropped: int
    shards: tuple[Shard, ...]
    sample_size: int
    sample_rows: int
    turned: bool
    extremes: tuple[int, int] | None = None
    distinct: tuple[int, ...] | None = None
    partial: Partial | None = None
    exponents: tuple[int, ...] = ()
    version: str = __version__

    @property
    def rows(self) -> int:
        """Number of rows in all folds."""
        return sum(self.counts)

    @staticmethod
    def of(moments: Moments, partial: Partial | None = None) -> Header:
        """The header of some moments."""
        largest, smallest = moments.extremes, moments.distinct
        return Header(
            moments.names,
            moments.widths,
            moments.eps,
            tuple(part.count for part in moments.parts),
            moments.rule,
            moments.seed,
            moments.dropped,
            moments.shards,
            moments.sample.size,
            len(moments.sample.keys),
            moments.layout.roots is not None,
            None if largest is None else (largest.size, len(largest.numbers)),
            None if smallest is None else (smallest.size, *(len(h) for h, _ in smallest.smallest)),
            partial,
            moments.units,
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON document that `parse_header` reads."""
        views = zip(self.names, self.widths, self.eps, self.exponents)
        return {
            "format": FORMAT,
            "number": NUMBER,
            "identikit": self.version,
            "views": [{"name": n, "width": w, "eps": e, "exponent": x} for n, w, e, x in views],
            "rows": self.rows,
            "folds": list(self.counts),
            "fold_rule": FOLD_RULES[self.rule],
            "dropped": self.dropped,
            "sample": {"seed": self.seed, "size": self.sample_size, "rows": self.sample_rows},
            "turned": self.turned,
            "extremes": self.extremes,
            "distinct": self.distinct,
            "shards": [{"rows": s.rows, "digests": list(s.digests)} for s in self.shards],
            "partial": None if self.partial is None else asdict(self.partial),
        }

    def arrays(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Type and shape of the arrays that the file must hold."""
        d, k, folds, m = sum(self.widths), len(self.widths), len(self.counts), self.sample_rows
        arrays: dict[str, tuple[str, tuple[int, ...]]] = {
            "means": ("float64", (folds, d)),
            "cubics": ("float64", (folds, k, d)),
            "quartics": ("float64", (folds, k, k)),
            # The lower triangle, row by row.
            "scatters": ("float64", (folds, d * (d + 1) // 2)),
            "sample_keys": ("uint64", (m,)),
            "sample_rows": ("float64", (m, d)),
        }
        for view, width in enumerate(self.widths if self.turned else ()):
            arrays[f"root_{view}"] = arrays[f"inverse_{view}"] = "float64", (width, width)
        if self.extremes is not None:
            _, largest = self.extremes
            arrays["extreme_numbers"] = arrays["extreme_folds"] = "uint64", (largest,)
            arrays["extreme_rows"] = "float64", (largest, d)
        if self.distinct is not None:
            hashes = sum(self.distinct[1:])
            arrays["distinct_hashes"] = arrays["distinct_counts"] = "uint64", (hashes,)
        return arrays


def parse_header(document: dict[str, Any], label: str) -> Header:
    """Parse and check a document of `Header.to_dict`; `label` names the file in error messages."""
    form, number = document.get("format"), document.get("number")
    if form != FORMAT:
        raise InputError(
            f"{label} holds no moments: its header says {str(form)[:100]!r}, expected {FORMAT!r}; "
            "write one with identikit moments"
        )
    if type(number) is int and number != NUMBER and number > 0:
        what = "install a newer one" if number > NUMBER else "read the rows again"
        raise InputError(
            f"{label} has format {number} of moments files, written by identikit "
            f"{str(document.get('identikit'))[:100]}; identikit {__version__} reads format "
            f"{NUMBER}: {what}"
        )
    try:
        return _checked(document)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise InputError(
            f"{label} is damaged: its header is not one of moments ({reason[:200]})"
        ) from error


def _checked(document: Any) -> Header:
    _get(document, "number", lambda value: type(value) is int and value == NUMBER)
    views = _get(document, "views", lambda value: isinstance(value, list) and len(value) > 0)
    sample, rule, count = document["sample"], document["fold_rule"], len(views)
    partial = document["partial"]
    header = Header(
        names=tuple(_text(view, "name") for view in views),
        widths=tuple(_whole(view, "width", 1) for view in views),
        eps=tuple(float(_get(view, "eps", _is_spacing)) for view in views),
        counts=tuple(_whole(document["folds"], fold) for fold in range(len(document["folds"]))),
        rule=next((key for key, words in FOLD_RULES.items() if words == rule), None),
        seed=_get(sample, "seed", lambda value: value is None or type(value) is int),
        dropped=_whole(document, "dropped"),
        shards=tuple(Shard(_whole(s, "rows", 1), _digests(s, count)) for s in document["shards"]),
        sample_size=_whole(sample, "size"),
        sample_rows=_whole(sample, "rows"),
        turned=_get(document, "turned", lambda value: type(value) is bool),
        extremes=_sizes(document, "extremes"),
        distinct=_sizes(document, "distinct"),
        partial=None if partial is None else _partial(partial, count),
        exponents=tuple(_get(view, "exponent", _is_exponent) for view in views),
        version=_text(document, "identikit"),
    )
    rows = header.rows
    _get(document, "folds", bool)
    _get(document, "rows", lambda value: type(value) is int and value == rows)
    _get(document, "fold_rule", lambda value: FOLD_RULES[header.rule] == value)
    _get(document, "sample", lambda _: header.sample_rows <= min(header.sample_size, rows))
    if header.extremes is not None:
        size, *found = header.extremes
        sound = len(found) == 1 and found[0] <= min(size * count, rows)
        _get(document, "extremes", lambda _: sound)
    if header.distinct is not None:
        size, *found = header.distinct
        fits = len(found) == count + 1 and max(found) <= min(size, rows)
        _get(document, "distinct", lambda _: fits)
    return header


def _get(entry: Any, key: str | int, sound: Callable[[Any], bool]) -> Any:
    """An entry of a document, if it is sound."""
    value = entry[key]
    if not sound(value):
        raise ValueError(f"{key!r} cannot be {str(value)[:100]!r}")
    return value


def _whole(entry: Any, key: str | int, least: int = 0) -> int:
    return int(_get(entry, key, lambda value: type(value) is int and least <= value < 2**63))


def _text(entry: Any, key: str) -> str:
    return str(_get(entry, key, lambda value: isinstance(value, str)))


def _is_spacing(value: Any) -> bool:
    return type(value) in (float, int) and 0 < value <= 1


def _is_exponent(value: Any) -> bool:
    return type(value) is int and abs(value) <= LARGEST_EXPONENT


def _sizes(document: Any, key: str) -> Any:
    if document[key] is None:
        return None
    entry = _get(document, key, lambda value: isinstance(value, list) and len(value) > 1)
    return tuple(_whole(entry, place) for place in range(len(entry)))


def _digests(entry: Any, views: int) -> tuple[str, ...]:
    """One digest of 128 bits per view, in hexadecimal."""
    digests = tuple(entry["digests"])
    sound = all(re.fullmatch("[0-9a-f]{32}", digest) for digest in digests)
    _get(entry, "digests", lambda _: sound and len(digests) == views)
    return digests


def _partial(entry: Any, views: int) -> Partial:
    return Partial(
        _get(entry, "second", lambda value: type(value) is bool),
        tuple((_whole(span, 0), _whole(span, 1, 1)) for span in entry["spans"]),
        _whole(entry, "rows", 1),
        _digests(entry, views),
        _get(entry, "fingerprint", lambda value: isinstance(value, dict)),
    )
