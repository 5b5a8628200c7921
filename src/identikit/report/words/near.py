"""What is said of near-identifiability."""

from __future__ import annotations

from typing import TYPE_CHECKING

from identikit._text import shortened

if TYPE_CHECKING:
    from identikit.axes import Direction, Efficiency, NearIdentifiability

#: The share of the gap between a permutation and a rotation that ICA must close.
MOST = 0.5


def summary(found: NearIdentifiability) -> str:
    """How far apart the views are after the maps that matter, and whether ICA finds shared axes.

    In raw coordinates, and in the direction in which the best linear map leaves more.
    """
    way = _worse(found)
    return f"{_apart(way)} {_axes(way)}"


def headline(found: NearIdentifiability) -> str:
    """The same in a few words, for the top of a page."""
    if not found:
        return "No nearer than shuffled rows"
    leaves = f"{_worse(found).error('affine').mean:.1%} of the diameter apart after an affine map"
    axes = {True: ", on shared axes", False: ", on axes that ICA does not share", None: ""}
    return f"{leaves[0].upper()}{leaves[1:]}{axes[shares_axes(_worse(found))]}"


def shares_axes(way: Direction) -> bool | None:
    """Whether ICA of each view alone finds the same axes; None if nothing could tell."""
    gained = way.efficiency
    if gained is None or gained.value is None:
        return None
    return _beyond_random(gained) and (gained.different_rows or 0.0) >= MOST


def _beyond_random(gained: Efficiency) -> bool:
    """Whether ICA gains more than random axes do, even at the lower end of its interval."""
    low = -1.0 if gained.interval is None else gained.interval[0]
    return low > max(0.0, gained.random_rotation or 0.0)


def _worse(found: NearIdentifiability) -> Direction:
    raw = [way for way in found.directions if way.coordinates == "raw"]
    return max(raw, key=lambda way: way.error("affine").mean)


def _apart(way: Direction) -> str:
    best, known = way.error("affine"), {error.group: error for error in way.errors}
    maps = {"permutation": "re-ordering and flipping axes", "rigid": "the best rotation"}
    after = [f"{known[name].mean:.1%} after {what}" for name, what in maps.items() if name in known]
    after.append(f"{best.mean:.1%} after the best affine map")
    # Beyond chance only if not even the upper end of the interval reaches what shuffled rows score.
    beyond = best.mean_interval[1] < best.chance
    chance = f"where shuffled rows leave {best.chance:.1%}" + ("" if beyond else ", no less")
    listed = ", ".join(after[:-1]) + f" and {after[-1]}"
    first, _, rest = listed.partition(" ")
    shown = shortened((way.source, way.target), 40)
    return (
        f"From {shown[way.source]!r} to {shown[way.target]!r}, the mean distance between rows is "
        f"{first} of the diameter {rest}, {chance}."
    )


def _axes(way: Direction) -> str:
    """What matching ICA's axes leaves, as a distance: a share of the gap may exceed 100 %."""
    gained = way.efficiency
    if gained is None:
        return "Between different widths there is no permutation to compare ICA with."
    if gained.value is None:
        return "A rotation gains nothing on re-ordering the axes, and leaves nothing to ICA."
    ica, (low, high) = way.error("ica"), way.error("ica").mean_interval
    says = (
        "After matching the axes that ICA finds in each view alone, it is "
        f"{ica.mean:.1%} ({low:.1%} to {high:.1%})"
    )
    if not _beyond_random(gained):
        at_random = way.error("random rotation").mean
        return f"{says}, and {at_random:.1%} with random axes: ICA finds no shared axes."
    apart = f"{way.error('ica, different rows').mean:.1%} with axes from different rows"
    if shares_axes(way):
        return f"{says}, and {apart}: the views share axes."
    return (
        f"{says}, but {apart}: not all of its axes are those of the views, and not of this sample."
    )
