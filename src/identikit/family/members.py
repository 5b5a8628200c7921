"""Which models belong to the softmax family p(y|x, S) ∝ exp(f(x)ᵀ g(y) + bias(y)), and which not.

The theory is about two vectors and their dot product. The entry of a member says where these
vectors are in a given architecture, and which group of transformations equal distributions leave
undetermined. A new member is one entry in `_members`; its head, the function that turns the
network's outputs into (f, g, bias), is one of `_heads`.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from identikit.errors import InputError
from identikit.family._members import GAUGES, MEMBERS, Member
from identikit.family._non_members import NON_MEMBERS, NonMember

__all__ = ["GAUGES", "MEMBERS", "NON_MEMBERS", "Member", "NonMember", "find"]


def find(name: str) -> Member | NonMember:
    """The entry with this name or alias; case, spaces and hyphens do not matter.

    >>> find("GPT-2").name, find("ProtoNet").name, find("word2vec").name
    ('gpt', 'prototypical', 'word2vec')
    """
    entries: list[Member | NonMember] = [*MEMBERS.values(), *NON_MEMBERS.values()]
    known = {_key(word): entry for entry in entries for word in (entry.name, *entry.aliases)}
    key = _key(name)
    if key in known:
        return known[key]
    # The name may be that of a checkpoint, such as meta-llama/Llama-3.2-1B.
    parts = re.split(r"[\W_]+", name.lower())
    close = [word for word in known if any(part.startswith(word) for part in parts)]
    close += get_close_matches(key, known)
    meant = dict.fromkeys(known[word].name for word in close)
    hint = f"did you mean {' or '.join(meant)}? " if meant else ""
    raise InputError(f"no model is called {name!r} here; {hint}`identikit family` lists them all")


def _key(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))
