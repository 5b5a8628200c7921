"""Entries of the catalogue: models inside the family, and models outside of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from identikit.family._heads import Parts

#: How two models with the same distribution may still differ. A is any invertible matrix, Q an
#: orthogonal one. (The ladder has no rung for `orthogonal`; the next one is `rigid`. It has none
#: for `block-orthogonal` either: use `permutation` if all blocks have one entry, else `rigid`.)
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
        The key, and a descriptive name.
    f, g, candidates : str
        The two vectors of the dot product, and the candidate set S.
    layer : str
        Which layer is identified.
    group : str
        The transformations up to which it is identified: a key of `GAUGES`.
    diversity : str
        The condition under which this holds.
    remarks, reference : str
        What is easily overlooked, and the papers.
    aliases : tuple of str
        Other names, and names of models of this kind.
    head : callable
        Maps the arrays that a network returns to (f, g, bias or None).
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
    """A model outside the family, why it is outside, and what is nevertheless known about it.

    Parameters
    ----------
    name, title : str
        The key, and a descriptive name.
    reason : str
        What it lacks.
    what_holds_instead : str
        The closest statement that is true.
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
