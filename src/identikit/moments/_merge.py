"""Merging moments files; their headers are compared before any array is read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from identikit.errors import InputError
from identikit.moments._file import load_moments, read_header
from identikit.moments._header import FOLD_RULES, Header
from identikit.moments._moments import Moments, Shard


def merge_moments(
    paths: Sequence[str | os.PathLike[str]], names: Sequence[str] | None = None
) -> Moments:
    """Merge moments files of different rows; at most two files are in memory at a time.

    Parameters
    ----------
    paths : sequence of paths
        ``.moments`` files of the same views of different rows.
    names : sequence of str, optional
        New names for the views. By default the names in all files must be the same.

    Returns
    -------
    Moments
    """
    if not paths:
        raise InputError("expected at least one moments file to merge, got none")
    files = [Path(path) for path in paths]
    headers = [read_header(path) for path in files]
    _check_names(names, headers[0])
    for path, header in zip(files[1:], headers[1:]):
        differ = _differences(header, headers[0], names is not None)
        if differ:
            raise InputError(
                f"{path} does not fit {files[0]}: {'; '.join(differ)}. Only moments of the same "
                "views, read with the same folds, can be merged"
            )
    _check_shards(files, headers)
    merged = load_moments(files[0])
    for path in files[1:]:
        merged += load_moments(path)
    return merged if names is None else replace(merged, names=tuple(names))


def _check_names(names: Sequence[str] | None, header: Header) -> None:
    if names is None:
        return
    if len(names) != len(header.names) or len(set(names)) < len(names):
        raise InputError(
            f"expected {len(header.names)} different names, one per view, got {', '.join(names)}"
        )


def _differences(header: Header, first: Header, renamed: bool) -> list[str]:
    """How a file differs from the first one, as phrases for an error message."""
    words = []
    if not renamed and header.names != first.names:
        words.append(
            f"its views are called {_listed(header.names)}, not {_listed(first.names)} (name them "
            "with --names when they are read, or all now)"
        )
    if header.widths != first.widths:
        words.append(f"they have {_listed(header.widths)} columns, not {_listed(first.widths)}")
    if len(header.counts) != len(first.counts):
        words.append(f"it has {len(header.counts)} folds, not {len(first.counts)}")
    rules = header.rule, first.rule
    if None not in rules and rules[0] != rules[1]:
        words.append(f"its folds are {FOLD_RULES[rules[0]]}, not {FOLD_RULES[rules[1]]}")
    return words


def _check_shards(files: Sequence[Path], headers: Sequence[Header]) -> None:
    """Raise an error if the same file or the same shard is given twice."""
    held: dict[Shard, Path] = {}
    given: set[tuple[int, int]] = set()
    for path, header in zip(files, headers):
        found = path.stat()
        if (found.st_dev, found.st_ino) in given:
            raise InputError(f"{path} is given twice; its rows would be counted twice")
        given.add((found.st_dev, found.st_ino))
        for shard in header.shards:
            if shard in held:
                raise InputError(
                    f"{held[shard]} and {path} both hold the shard of {shard.rows} rows with "
                    f"digest {shard.digests[0]}, which would be counted twice; merge it once"
                )
            held[shard] = path


def _listed(values: Sequence[object]) -> str:
    return ", ".join(str(value) for value in values)
