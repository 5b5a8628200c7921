"""The ladder of groups, its held-out errors, and fitted maps."""

from typing import TYPE_CHECKING, Any

from identikit.alignment._groups import GROUPS, Group
from identikit.alignment._ladder import HeldOut, ladder

if TYPE_CHECKING:
    from identikit.alignment._map import AlignmentMap, align, load_map

__all__ = ["GROUPS", "AlignmentMap", "Group", "HeldOut", "align", "ladder", "load_map"]


def __getattr__(name: str) -> Any:
    # scikit-learn's base classes are slow to import, and an audit does not need them.
    if name in ("AlignmentMap", "align", "load_map"):
        from identikit.alignment import _map

        return getattr(_map, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
