"""The checks of an audit: one question per file.

The first line of each module's docstring is its question, and its function
``check(evidence, threshold=…)`` returns an `Answer`, or None where the question does not apply.
To add a check, add a file; the check is called by the name of its file.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from identikit._plugins import module_names, modules
from identikit.auditing._evidence import Answer as Answer
from identikit.auditing._evidence import Context as Context
from identikit.auditing._evidence import Evidence as Evidence
from identikit.auditing.result import Check
from identikit.errors import InputError


def checked_thresholds(given: Mapping[str, float] | None) -> dict[str, float]:
    """Validate the thresholds of checks, given by name."""
    names, found = module_names(__name__), {}
    for name, value in (given or {}).items():
        if name not in names:
            raise InputError(f"there is no check {name!r}; the checks are {', '.join(names)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise InputError(f"the threshold of {name} is {value!r}; give a finite number")
        found[name] = float(value)
    return found


def run_checks(evidence: Evidence) -> tuple[Check, ...]:
    """Run every check on a pair; one whose threshold is not given uses its default."""
    found, thresholds = [], evidence.context.thresholds
    for name, module in modules(__name__).items():
        own = {"threshold": thresholds[name]} if name in thresholds else {}
        answer = module.check(evidence, **own)
        if answer is not None:
            # Messages are written for failed checks, and would mislead for a check that passes.
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
