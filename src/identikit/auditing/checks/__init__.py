"""The checks of an audit: one question per file.

Every module of this folder opens with its question, and its function
``check(evidence, threshold=…)`` returns an `Answer`, or None where the question does not arise.
A new check is a new file and nothing else; it is called by the name of its file.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from identikit._plugins import module_names, modules
from identikit.auditing._evidence import Evidence
from identikit.auditing.result import Check
from identikit.errors import InputError


def checked_thresholds(given: Mapping[str, float] | None) -> dict[str, float]:
    """Thresholds by the names of checks, if that is what they are."""
    names, found = module_names(__name__), {}
    for name, value in (given or {}).items():
        if name not in names:
            raise InputError(f"there is no check {name!r}; there are {', '.join(names)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise InputError(f"the threshold of {name} is {value!r}; give a finite number")
        found[name] = float(value)
    return found


def run_checks(evidence: Evidence) -> tuple[Check, ...]:
    """Ask every question of a pair; a check whose threshold is not set has its own."""
    found, thresholds = [], evidence.context.thresholds
    for name, module in modules(__name__).items():
        own = {"threshold": thresholds[name]} if name in thresholds else {}
        answer = module.check(evidence, **own)
        if answer is not None:
            # A message is written for the fault; where there is none, it would mislead.
            message = "nothing to report" if answer.ok else answer.message
            question = (module.__doc__ or name).splitlines()[0]
            found.append(
                Check(
                    name.replace("_", " "),
                    question,
                    answer.value,
                    answer.threshold,
                    answer.ok,
                    message,
                )
            )
    return tuple(found)
