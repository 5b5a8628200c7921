"""What the catalogue says of a model, inside the family or outside of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from identikit.family._heads import Parts

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
