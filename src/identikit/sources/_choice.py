"""Choose the columns of a view: one rule for files, data frames and tables in memory.

`path::column` names a column of lists, or a single column of numbers. `path::Cells_*,Nuclei_*`
selects the columns of numbers whose names match, one pattern after another, each in the table's
order; `path::!column` leaves a column out. Without a selection, the view is the only column of
lists. If there are no lists, it is all columns of numbers; these must then have the same type, so
that a label or a weight is not mistaken for a dimension. An id is never selected unless it is named
in full: a column of integers called id, index or idx, or something_id. Text and dates are not
numbers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from identikit.errors import InputError
from identikit.sources.checks import choose

#: The prefix of the name of a column that is left out of the view.
NOT = "!"

_IDS = re.compile(r"(.*_)?(id|index|idx)|__index_level_\d+__", re.IGNORECASE)
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Field:
    """What a column holds: its type in words; and whether lists of numbers, numbers, integers."""

    type: str
    lists: bool = False
    numbers: bool = False
    whole: bool = False


def choose_fields(
    fields: Mapping[str, Field], member: str | None, label: str, index: Collection[object] = ()
) -> list[str]:
    """The names of the columns of a view, by the rules at the top of this file.

    `member` is what follows `::` in the path. `index` names the columns that were the index of a
    data frame when the table was saved.
    """
    parts = [] if member is None else [member] if member in fields else member.split(",")
    out = [part[1:] for part in parts if part.startswith(NOT) and part not in fields]
    for name in out:
        choose(fields, name, label)
    wanted = [part for part in parts if part in fields or not part.startswith(NOT)]
    left = {name: field for name, field in fields.items() if name not in out}
    if not wanted:
        names = list(left)
        places = default_places(
            [(name, left[name]) for name in names], label, [*index, *out], path=True
        )
        return [names[place] for place in places]
    left = {name: field for name, field in left.items() if name not in index}
    chosen = [name for part in wanted for name in _fitting(part, fields, left, label)]
    lists = [name for name in chosen if fields[name].lists]
    if lists and len(set(chosen)) > 1:
        raise InputError(
            f"{label}: column {lists[0]!r} holds lists, and is a view by itself; select it alone"
        )
    return list(dict.fromkeys(chosen))


def _fitting(
    part: str, fields: Mapping[str, Field], left: Mapping[str, Field], label: str
) -> list[str]:
    """The columns that one name or pattern selects."""
    if part in fields or not is_pattern(part):
        field = fields[choose(fields, part, label)]
        if not (field.lists or field.numbers):
            raise InputError(
                f"{label}: column {part!r} has type {field.type}; expected real numbers, or lists "
                "of them of one length"
            )
        return [part]
    found = [
        name
        for name, field in left.items()
        if field.numbers and fnmatchcase(name, part) and not is_id(name, field)
    ]
    if not found:
        raise InputError(
            f"{label} has no columns of numbers like {part!r}; its columns are: {listed(left)}"
        )
    return found


def default_places(
    fields: Sequence[tuple[str, Field]],
    label: str,
    index: Collection[object] = (),
    *,
    path: bool = False,
) -> list[int]:
    """The positions of the columns of the view if the user selected none.

    Columns named in `index` are not dimensions. `path` says whether columns can be selected with
    `path::names`, which the error messages then suggest.
    """
    how = "path::emb_*, or path::* for all" if path else "frame[['emb_0', 'emb_1']]"
    lists = [place for place, (_, field) in enumerate(fields) if field.lists]
    if lists:
        if len(lists) > 1:
            names = [fields[place][0] for place in lists]
            one = f"path::{names[0]}" if path else f"frame[[{names[0]!r}]]"
            raise InputError(
                f"{label} has {len(lists)} columns of lists, {names[0]!r} and {names[1]!r} among "
                f"them; choose one, for example {one}"
            )
        return lists
    chosen: list[int] = []
    for place, (name, field) in enumerate(fields):
        if not field.numbers or name in index or is_id(name, field):
            continue
        if _IDS.fullmatch(name):
            raise InputError(
                f"{label}: column {name!r} has the name of an id but holds {field.type}; choose "
                f"the columns that are dimensions by name, for example {how}"
            )
        first = fields[chosen[0]] if chosen else (name, field)
        if field.type != first[1].type:
            raise InputError(
                f"{label}: column {first[0]!r} is {first[1].type} and column {name!r} is "
                f"{field.type}, so they are not all dimensions of one view; choose the columns by "
                f"name, for example {how}"
            )
        chosen.append(place)
    if not chosen:
        raise InputError(
            f"{label} has no columns of numbers; its columns are: "
            f"{listed([name for name, _ in fields])}"
        )
    return chosen


def is_pattern(member: str) -> bool:
    """Whether the text after `::` selects columns by a pattern."""
    return _WILD.search(member) is not None


def is_id(name: str, field: Field) -> bool:
    """Whether a column is an id: it holds integers and has the name of an id."""
    return field.whole and _IDS.fullmatch(name) is not None


def listed(names: Collection[str]) -> str:
    """The first 20 names, for error messages."""
    return ", ".join(map(repr, list(names)[:20]))
