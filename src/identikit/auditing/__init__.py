"""The product: views in, an Audit out (pairs, ladder, checks, verdict)."""

from identikit.auditing._audit import audit
from identikit.auditing._result import Audit, Check, Pair, Rung, Verdict, View
from identikit.auditing._verdict import SLACK, choose_group

__all__ = ["SLACK", "Audit", "Check", "Pair", "Rung", "Verdict", "View", "audit", "choose_group"]
