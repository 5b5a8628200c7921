"""The checks of an audit: one question a file.

Every module of this folder has a function ``check(evidence, threshold=…)`` that returns a `Check`,
or None where the question does not arise. A new check is a new file and nothing else.
"""

from __future__ import annotations

import pkgutil
from dataclasses import replace
from importlib import import_module

from identikit.auditing._evidence import Evidence
from identikit.auditing._result import Check


def run_checks(evidence: Evidence) -> tuple[Check, ...]:
    """Ask every question of a pair."""
    found = []
    for module in pkgutil.iter_modules(__path__):
        answer = import_module(f"{__name__}.{module.name}").check(evidence)
        if answer is not None:
            # A message is written for the fault; where there is none, it would mislead.
            found.append(replace(answer, message="nothing to report") if answer.ok else answer)
    return tuple(found)
