"""The settings of a run: a preset with the caller's changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from identikit.errors import InputError
from identikit.studies._study import Settings, Study


def settings_of(
    study: Study, preset: str, seeds: int | None, changes: Mapping[str, Any] | None
) -> Settings:
    """A preset with the caller's changes; text is parsed as JSON unless the preset has text."""
    if preset not in study.presets:
        raise InputError(
            f"{study.name} has no preset {preset!r}; it has {', '.join(study.presets)}"
        )
    values = dict(study.presets[preset])
    given = dict(changes or {}) | ({} if seeds is None else {"seeds": seeds})
    for key, value in given.items():
        if key not in values:
            raise InputError(f"{study.name} has no setting {key!r}; it has {', '.join(values)}")
        values[key] = _like(values[key], value, key)
    if values["seeds"] < 1:
        raise InputError(f"seeds is {values['seeds']}; at least one is needed")
    return Settings(values)


def _like(model: Any, value: Any, key: str) -> Any:
    """The value converted to the type in the preset, or an error that names that type."""
    if isinstance(value, str) and not isinstance(model, str):
        value = _parsed(value, isinstance(model, list))
    if isinstance(model, list) and isinstance(value, list | tuple) and value:
        return [_like(model[0], item, key) for item in value]
    # 3 is accepted for 3.0, but True, which is an int in Python, is not accepted for 1.
    if type(model) is float and type(value) is int:
        return float(value)
    if model is None or type(value) is type(model) is not list:
        return value
    kind = (
        f"a list of {type(model[0]).__name__}" if isinstance(model, list) else type(model).__name__
    )
    raise InputError(f"{key} is {value!r}; expected {kind}, such as {json.dumps(model)}")


def _parsed(text: str, as_list: bool) -> Any:
    """Text parsed as JSON if possible; lists may also be given without brackets and quotes."""
    if as_list and not text.startswith("["):
        return [_parsed(part.strip(), False) for part in text.split(",")]
    try:
        return json.loads(text)
    except ValueError:
        return text
