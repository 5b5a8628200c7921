"""Held out by default, or as the field's own implementations do it."""

from __future__ import annotations

from identikit.errors import InputError

PRESETS = (None, "reference")


def is_reference(preset: str | None) -> bool:
    """Whether the field's implementation shall be reproduced."""
    if preset not in PRESETS:
        raise InputError(f"preset is {preset!r}; expected None (held out) or 'reference'")
    return preset == "reference"
