"""The softmax family: models as pairs of embeddings (f, g), and comparisons between two models."""

from identikit.family._blocks import Blocks, concentration_blocks
from identikit.family._conditions import (
    SphereConditions,
    affine_rank,
    other_solution,
    quadric_rank,
    sphere_conditions,
)
from identikit.family._distances import Distances, Divergences, distances, pair_distances
from identikit.family._diversity import Diversity, diversity
from identikit.family._epsilon import BernoulliMixture, PrefixKL, prefix_kl
from identikit.family._floors import Floor, diet_floor, language_floor, supervised_floor
from identikit.family._gauge import Gauge, NormalForm, gauge, normal_form, pair_gauge
from identikit.family._model import SoftmaxModel
from identikit.family._pair import Ints, Pair, check_pair
from identikit.family._per_input import PerInput, per_input
from identikit.family._reading import Stored, stored
from identikit.family._up_to import UpTo, up_to
from identikit.family._variability import Variability, variability
from identikit.family.members import GAUGES, MEMBERS, NON_MEMBERS, Member, NonMember, find

__all__ = [
    "GAUGES",
    "MEMBERS",
    "NON_MEMBERS",
    "BernoulliMixture",
    "Blocks",
    "Distances",
    "Divergences",
    "Diversity",
    "Floor",
    "Gauge",
    "Ints",
    "Member",
    "NonMember",
    "NormalForm",
    "Pair",
    "PerInput",
    "PrefixKL",
    "SoftmaxModel",
    "SphereConditions",
    "Stored",
    "UpTo",
    "Variability",
    "affine_rank",
    "check_pair",
    "concentration_blocks",
    "diet_floor",
    "distances",
    "diversity",
    "find",
    "gauge",
    "language_floor",
    "normal_form",
    "other_solution",
    "pair_distances",
    "pair_gauge",
    "per_input",
    "prefix_kl",
    "quadric_rank",
    "sphere_conditions",
    "stored",
    "supervised_floor",
    "up_to",
    "variability",
]
