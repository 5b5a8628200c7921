"""Which models belong to the softmax family, p(y|x, S) ∝ exp(f(x)ᵀ g(y) + bias(y)), and which not.

Theory speaks of two vectors and their dot product. A member says where in a given architecture
those two vectors are, and what equal distributions then leave undetermined: the group. A new member
is one entry under ``@member`` in `_heads`, on the function that turns the network's outputs into
(f, g, bias).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from identikit._linalg import Array
from identikit.errors import InputError

#: (f, g, bias or None), the arguments of a SoftmaxModel.
Parts = tuple[Array, Array, Array | None]
H = TypeVar("H", bound=Callable[..., Parts])

#: What two models with the same distribution still may differ by. A is any invertible matrix, Q an
#: orthogonal one. (The ladder of groups has no rung for `orthogonal`; the next one is `rigid`. One
#: for `block-orthogonal` neither: it is `permutation` if all blocks have one entry, else `rigid`.)
GAUGES = {
    "linear": "f' = A f and g' = A⁻ᵀ g + c",
    "affine": "f' = A f + a and g' = A⁻ᵀ g + c; the bias becomes b − aᵀA⁻ᵀg + const",
    "orthogonal": "f' = Q f and g' = Q g, no shift",
    "rigid": "f' = Q f + a and g' = Q g + a",
    "block-orthogonal": "f' = Q f and g' = Q g, no shift, Q a signed permutation but for rotations "
    "inside blocks of equal concentration",
}


@dataclass(frozen=True)
class Member:
    """A model of the family: where its f, g and S are, and what is identified.

    Parameters
    ----------
    name, title : str
        The key, and the name in words.
    f, g, candidates : str
        The two vectors of the dot product, and the candidate set S.
    layer : str
        Which layer is identified.
    group : str
        Up to what: a key of `GAUGES`.
    diversity : str
        What it takes for that to hold.
    remarks, reference : str
        What is easily overlooked, and the papers.
    aliases : tuple of str
        Other names, of models that are of this kind.
    head : callable
        From arrays that a network puts out to (f, g, bias or None).
    """

    name: str
    title: str
    f: str
    g: str
    candidates: str
    layer: str
    group: str
    diversity: str
    remarks: str
    reference: str
    aliases: tuple[str, ...]
    head: Callable[..., Parts]


@dataclass(frozen=True)
class NonMember:
    """A model outside the family, why it is, and what can be said of it all the same.

    Parameters
    ----------
    name, title : str
        The key, and the name in words.
    reason : str
        What it lacks.
    what_holds_instead : str
        The nearest statement that is true.
    reference : str
        The papers.
    aliases : tuple of str
        Other names.
    """

    name: str
    title: str
    reason: str
    what_holds_instead: str
    reference: str
    aliases: tuple[str, ...]


#: Filled by `_heads`.
MEMBERS: dict[str, Member] = {}
#: Filled by `_non_members`.
NON_MEMBERS: dict[str, NonMember] = {}


def member(**fields: Any) -> Callable[[H], H]:
    """Register a member with the function below as its head; the fields are those of `Member`."""

    def register(head: H) -> H:
        MEMBERS[fields["name"]] = Member(head=head, **fields)
        return head

    return register


def find(name: str) -> Member | NonMember:
    """The entry of a name or an alias; case, spaces and hyphens do not matter.

    >>> find("GPT-2").name, find("ProtoNet").name, find("word2vec").name
    ('gpt', 'prototypical', 'word2vec')
    """
    entries: list[Member | NonMember] = [*MEMBERS.values(), *NON_MEMBERS.values()]
    known = {_key(word): entry for entry in entries for word in (entry.name, *entry.aliases)}
    key = _key(name)
    if key in known:
        return known[key]
    # People paste the names of checkpoints, such as meta-llama/Llama-3.2-1B.
    parts = re.split(r"[\W_]+", name.lower())
    close = [word for word in known if any(part.startswith(word) for part in parts)]
    close += get_close_matches(key, known)
    meant = dict.fromkeys(known[word].name for word in close)
    hint = f"did you mean {' or '.join(meant)}? " if meant else ""
    raise InputError(f"no model is called {name!r} here; {hint}`identikit family` lists them all")


def _key(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))
