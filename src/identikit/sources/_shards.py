"""A folder of shards: files of one format whose rows follow one another in the order of the names.

Names are sorted character by character, so numbers in them must be padded with zeros. If names
differ only in their numbers and are not in numerical order, that is an error. Names that begin with
a dot or an underscore are ignored, as are notes: README, LICENSE, and files that end in .json, .md,
.txt, .yaml or .yml. Anything else that is not a shard is an error.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._source import Source
from identikit.sources.files import check_inside, explained, file_label
from identikit.sources.registry import FOLDER, id_readers, kind_of, openers, register, register_ids

_NOTES = (".json", ".md", ".txt", ".yaml", ".yml")
_NAMED_NOTES = ("README", "LICENSE")
_MANIFEST = "manifest.json"
_LARGEST_MANIFEST = 2**24
_NUMBER = re.compile(r"[0-9]+")
_MOST_OPEN = 4


@register(FOLDER)
def open_shards(path: Path, member: str | None, name: str) -> ShardRows:
    """Open a folder of shards; `DIR::name` selects that array in every one of them."""
    label = file_label(name, path)
    return ShardRows(shards_of(path, label), member, name, label)


@register_ids(FOLDER)
def read_shard_ids(path: Path, column: str, label: str) -> Iterator[NDArray[Any]]:
    shards = shards_of(path, label)
    reader = id_readers().get(kind_of(shards[0]))
    if reader is None:
        raise InputError(f"{label} is a folder of {shards[0].suffix} files, which hold no ids")
    for shard in shards:
        yield from reader(shard, column, f"{label}, {shard.name}")


class ShardRows:
    """A source of rows from several files in the given order, a few of them open at a time."""

    def __init__(self, shards: list[Path], member: str | None, name: str, label: str) -> None:
        self.name = name
        self.width, self.eps = 0, 0.0
        self.origin: object = label  # `open_source` replaces it by the absolute path
        self.files: tuple[Path, ...] = ()
        self._shards, self._member = shards, member
        self._open: OrderedDict[int, Source] = OrderedDict()
        counts, dtypes = [], []
        try:
            for number, path in enumerate(shards):
                shard = self._shard(number)
                counts.append(shard.rows)
                dtypes.append(shard.read(0, 0).dtype)
                self.width, self.eps = self.width or shard.width, max(self.eps, shard.eps)
                self.files += shard.files or (path,)
                if shard.width != self.width:
                    raise InputError(
                        f"{label}: {shards[0].name} has {self.width} columns and {path.name} has "
                        f"{shard.width}; expected shards of one view"
                    )
                if dtypes[-1].kind != dtypes[0].kind:
                    raise InputError(
                        f"{label}: {shards[0].name} holds {dtypes[0]} and {path.name} holds "
                        f"{dtypes[-1]}; expected shards of one view"
                    )
        except BaseException:
            self.close()
            raise
        self._ends = np.cumsum(counts)
        self._dtype = np.result_type(*dtypes)
        self.rows = sum(counts)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        start, stop, _ = slice(start, stop).indices(self.rows)
        block = np.empty((max(stop - start, 0), self.width), self._dtype)
        done = 0
        while done < len(block):
            number = int(np.searchsorted(self._ends, start + done, side="right"))
            shard = self._shard(number)
            first = start + done - (int(self._ends[number]) - shard.rows)
            part = shard.read(first, first + len(block) - done)
            block[done : done + len(part)] = part
            done += len(part)
        return block

    def close(self) -> None:
        for shard in self._open.values():
            shard.close()
        self._open.clear()

    def _shard(self, number: int) -> Source:
        if number not in self._open:
            if len(self._open) == _MOST_OPEN:
                self._open.popitem(last=False)[1].close()
            path = self._shards[number]
            self._open[number] = openers()[kind_of(path)](path, self._member, self.name)
        self._open.move_to_end(number)
        return self._open[number]


def shards_of(folder: Path, label: str) -> list[Path]:
    """The shards in a folder, in the order of their names."""
    with explained(label, OSError, RuntimeError):
        _check_no_extraction(folder, label)
        found = [path for path in sorted(folder.iterdir()) if not _is_note(path)]
        for path in found:
            check_inside(path, folder, label)
    known = openers().keys() - {FOLDER}
    others = [path.name for path in found if kind_of(path) not in known]
    if not found or len(others) == len(found):
        holds = f"it holds {', '.join(map(repr, others[:5]))}" if others else "it is empty"
        raise InputError(
            f"{label} is a directory without shards: {holds}; expected files of one format, one of "
            f"{', '.join(sorted(known))}"
        )
    kinds = sorted({kind_of(path) for path in found if path.name not in others})
    if others or len(kinds) > 1:
        what = f"{', '.join(map(repr, others[:5]))}, not shards" if others else " and ".join(kinds)
        raise InputError(
            f"{label} is a folder of {kinds[0]} files and also holds {what}; expected files of one "
            "format: move the others out, or name a single file"
        )
    _check_order([path.name for path in found], label)
    return found


def _is_note(path: Path) -> bool:
    noted = path.suffix.lower() in _NOTES or path.stem.upper() in _NAMED_NOTES
    return path.name.startswith((".", "_")) or (noted and not path.is_dir())


def _check_no_extraction(folder: Path, label: str) -> None:
    """Refuse a folder of extracted layers, which are views of the same rows rather than shards."""
    path = folder / _MANIFEST
    check_inside(path, folder, label)
    if not path.is_file() or path.stat().st_size > _LARGEST_MANIFEST:
        return
    try:
        manifest = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return
    if isinstance(manifest, dict) and "identikit" in manifest:
        raise InputError(
            f"{label} is a folder of extracted layers, whose files are different views of the same "
            f"rows; name one of them, for example {folder}/layer_00.npy"
        )


def _check_order(names: list[str], label: str) -> None:
    """Refuse names that differ only in their numbers and are not in numerical order."""
    last: dict[str, tuple[str, list[int]]] = {}
    for name in names:
        numbers = [int(number) for number in _NUMBER.findall(name)]
        before, smaller = last.get(key := _NUMBER.sub("#", name), ("", []))
        if numbers < smaller:
            raise InputError(
                f"{label}: shards are read in the order of their names, in which {before} comes "
                f"before {name}, against the order of their numbers; pad the numbers with zeros, "
                "as in part-002"
            )
        last[key] = (name, numbers)
