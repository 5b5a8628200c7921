"""`identikit family`: which models the theory covers, which layer, and up to what."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from identikit.cli import _shared as shared

if TYPE_CHECKING:
    from identikit.family.members import Member, NonMember

EXAMPLE = "identikit family gpt2"


def command(
    name: str | None = None,
    json: bool = False,
) -> None:
    """List the models whose representations theory speaks of, or explain one.

    NAME : The model to explain: gpt2, bert, clip, simclr and others.
    """
    from identikit import __version__
    from identikit.family.members import MEMBERS, NON_MEMBERS, find

    entry = None if name is None else find(name)
    if json:
        document: dict[str, Any] = {"identikit": __version__}
        if entry is None:
            document["members"] = [_fields(each) for each in MEMBERS.values()]
            document["non_members"] = [_fields(each) for each in NON_MEMBERS.values()]
        else:
            document |= {"member": entry.name in MEMBERS} | _fields(entry)
        shared.print_json(document)
    elif entry is None:
        _list(list(MEMBERS.values()), list(NON_MEMBERS.values()))
    else:
        _explain(entry)


def _fields(entry: Member | NonMember) -> dict[str, Any]:
    fields = asdict(entry)
    if "head" in fields:
        fields["head"] = f"{fields['head'].__name__}({_arguments(fields['head'])})"
    return fields


def _arguments(head: Callable[..., Any]) -> str:
    return ", ".join(inspect.signature(head).parameters)


def _list(members: list[Member], others: list[NonMember]) -> None:
    output = shared.console()
    output.print("Members: p(y|x, S) ∝ exp(f(x)ᵀ g(y) + bias(y)), f and g identified up to a map")
    output.print()
    rows = [(m.name, m.title, m.group, m.layer) for m in members]
    output.print(shared.listing(("name", "model", "up to", "identified layer"), rows))
    output.print()
    output.print("Not members")
    output.print()
    why = [(o.name, o.title, o.reason) for o in others]
    output.print(shared.listing(("name", "model", "why"), why))
    typer.echo("to have one explained: identikit family NAME", err=True)


def _explain(entry: Member | NonMember) -> None:
    from rich.table import Table
    from rich.text import Text

    from identikit.family.members import GAUGES, Member

    if isinstance(entry, Member):
        says = f"{entry.name}: a member of the softmax family, identified up to {entry.group} maps"
        lines = {
            "model": entry.title,
            "f(x)": entry.f,
            "g(y)": entry.g,
            "S": entry.candidates,
            "layer": entry.layer,
            "up to": f"{entry.group}: {GAUGES[entry.group]}",
            "needs": entry.diversity,
            "note": entry.remarks,
            "code": f"f, g, bias = identikit.family.find({entry.name!r})"
            f".head({_arguments(entry.head)})",
        }
    else:
        says = f"{entry.name}: not a member of the softmax family"
        lines = {
            "model": entry.title,
            "why": entry.reason,
            "instead": entry.what_holds_instead,
        }
    lines |= {"also": ", ".join(entry.aliases), "see": entry.reference}
    table = Table.grid(padding=(0, 2, 0, 0))
    for label, text in lines.items():
        if text:
            # Text, not str: [q_w; b_w] is no markup.
            table.add_row(Text(label, style="bold"), Text(text))
    output = shared.console()
    output.print(Text(says, style="bold"))
    output.print()
    output.print(table)
