"""The header of a moments file, which determines the arrays that the file must hold."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from identikit._version import __version__
from identikit.errors import InputError
from identikit.moments._folds import RULES
from identikit.moments._moments import Moments, Shard

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
    """Everything that a moments file holds apart from its arrays.

    Parameters
    ----------
    names, widths, eps, exponents : tuples
        One entry per view.
    counts : tuple of int
        Number of rows of each fold.
    rule, seed, dropped, shards
        As in `Moments`.
    sample_size, sample_rows : int
        The largest number of rows in the sample, and the actual number.
    turned : bool
        Whether the scatter is stored in other coordinates than the views' own.
    extremes : (int, int) or None
        The largest number of extreme rows per view, and the actual number in total, if stored.
    distinct : tuple of int or None
        The largest number of hashes, and the actual numbers for the stacked rows and for each view,
        if stored.
    partial : Partial or None
        The progress of a reading that is not finished.
    version : str
        The version of identikit that wrote the file.
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
    _expect(type(document["number"]) is int and document["number"] == NUMBER, document, "number")
    views, sample, rule = document["views"], document["sample"], document["fold_rule"]
    _expect(isinstance(views, list) and len(views) > 0, document, "views")
    header = Header(
        names=tuple(_text(view, "name") for view in views),
        widths=tuple(_whole(view, "width", 1) for view in views),
        eps=tuple(_spacing(view) for view in views),
        counts=tuple(_whole(document["folds"], fold) for fold in range(len(document["folds"]))),
        rule=next((key for key, words in FOLD_RULES.items() if words == rule), None),
        seed=sample["seed"],
        dropped=_whole(document, "dropped"),
        shards=tuple(_shard(shard, len(views)) for shard in document["shards"]),
        sample_size=_whole(sample, "size"),
        sample_rows=_whole(sample, "rows"),
        turned=document["turned"],
        extremes=_sizes(document, "extremes"),
        distinct=_sizes(document, "distinct"),
        partial=None if document["partial"] is None else _partial(document["partial"], len(views)),
        exponents=tuple(_exponent(view) for view in views),
        version=_text(document, "identikit"),
    )
    _expect(bool(header.counts), document, "folds")
    _expect(header.rows == _whole(document, "rows"), document, "rows")
    _expect(FOLD_RULES[header.rule] == rule, document, "fold_rule")
    _expect(header.seed is None or type(header.seed) is int, sample, "seed")
    _expect(header.sample_rows <= min(header.sample_size, header.rows), document, "sample")
    _expect(type(header.turned) is bool, document, "turned")
    if header.extremes is not None:
        size, *found = header.extremes
        sound = len(found) == 1 and found[0] <= min(size * len(views), header.rows)
        _expect(sound, document, "extremes")
    if header.distinct is not None:
        size, *found = header.distinct
        sound = len(found) == len(views) + 1 and max(found) <= min(size, header.rows)
        _expect(sound, document, "distinct")
    return header


def _sizes(document: Any, key: str) -> Any:
    entry = document[key]
    if entry is None:
        return None
    _expect(isinstance(entry, list) and len(entry) > 1, document, key)
    return tuple(_whole(entry, place) for place in range(len(entry)))


def _expect(sound: bool, entry: Any, key: str | int) -> None:
    if not sound:
        raise ValueError(f"{key!r} cannot be {str(entry[key])[:100]!r}")


def _whole(entry: Any, key: str | int, least: int = 0) -> int:
    value = entry[key]
    _expect(type(value) is int and least <= value < 2**63, entry, key)
    return int(value)


def _text(entry: Any, key: str) -> str:
    _expect(isinstance(entry[key], str), entry, key)
    return str(entry[key])


def _spacing(entry: Any) -> float:
    _expect(type(entry["eps"]) in (float, int) and 0 < entry["eps"] <= 1, entry, "eps")
    return float(entry["eps"])


def _exponent(entry: Any) -> int:
    value = entry["exponent"]
    _expect(type(value) is int and abs(value) <= LARGEST_EXPONENT, entry, "exponent")
    return int(value)


def _shard(entry: Any, views: int) -> Shard:
    return Shard(_whole(entry, "rows", 1), _digests(entry, views))


def _digests(entry: Any, views: int) -> tuple[str, ...]:
    """One digest of 128 bits per view, in hexadecimal."""
    digests = tuple(entry["digests"])
    sound = all(re.fullmatch("[0-9a-f]{32}", digest) for digest in digests)
    _expect(sound and len(digests) == views, entry, "digests")
    return digests


def _partial(entry: Any, views: int) -> Partial:
    spans = tuple((_whole(span, 0), _whole(span, 1, 1)) for span in entry["spans"])
    digests = _digests(entry, views)
    _expect(type(entry["second"]) is bool, entry, "second")
    _expect(isinstance(entry["fingerprint"], dict), entry, "fingerprint")
    rows = _whole(entry, "rows", 1)
    return Partial(entry["second"], spans, rows, digests, entry["fingerprint"])
