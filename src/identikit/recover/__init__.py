"""Estimators that recover sources or structure, and diagnostics of whether they can."""

from identikit.family import Variability, variability
from identikit.recover._causal_direction import CausalDirection, PValues, causal_direction
from identikit.recover._environments import within_correlation
from identikit.recover._ima import (
    LinearGap,
    ima_contrast,
    linear_elbo_gap,
    self_consistent_variance,
)
from identikit.recover._joint import JointDiagonal, joint_diagonalise
from identikit.recover._lti import LTI
from identikit.recover._state_space import StateSpace
from identikit.recover._variance_ica import VarianceICA

__all__ = [
    "LTI",
    "CausalDirection",
    "JointDiagonal",
    "LinearGap",
    "PValues",
    "StateSpace",
    "Variability",
    "VarianceICA",
    "causal_direction",
    "ima_contrast",
    "joint_diagonalise",
    "linear_elbo_gap",
    "self_consistent_variance",
    "variability",
    "within_correlation",
]
