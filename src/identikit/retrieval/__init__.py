"""An old and a new embedding model: has anything changed, and what?"""

from identikit.retrieval._causes import CAUSES, Cause
from identikit.retrieval._check import check
from identikit.retrieval._pin import Pin, PinnedView, load_pin, pin
from identikit.retrieval.check_result import CheckResult, LayerCheck

__all__ = [
    "CAUSES",
    "Cause",
    "CheckResult",
    "LayerCheck",
    "Pin",
    "PinnedView",
    "check",
    "load_pin",
    "pin",
]
