"""The softmax family: models as pairs (f, g), and what two of them share."""

from identikit.family import _heads, _non_members  # noqa: F401  (they fill the catalogue)
from identikit.family._distances import Distances, Divergences, distances
from identikit.family._diversity import Diversity, diversity
from identikit.family._gauge import Gauge, gauge
from identikit.family._members import GAUGES, MEMBERS, NON_MEMBERS, Member, NonMember, find
from identikit.family._model import SoftmaxModel
from identikit.family._normal_form import NormalForm, normal_form
from identikit.family._up_to import UpTo

__all__ = [
    "GAUGES",
    "MEMBERS",
    "NON_MEMBERS",
    "Distances",
    "Divergences",
    "Diversity",
    "Gauge",
    "Member",
    "NonMember",
    "NormalForm",
    "SoftmaxModel",
    "UpTo",
    "distances",
    "diversity",
    "find",
    "gauge",
    "normal_form",
]
