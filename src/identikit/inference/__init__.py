"""Chance levels, held-out values and intervals."""

from identikit.inference._chance import (
    adjusted_r2,
    cca_chance,
    cca_chance_edge,
    cca_chance_square,
)
from identikit.inference._held_out import HeldOutCCA, held_out_cca
from identikit.inference._independent import TwinStack, shuffled, twin_stacks, twins
from identikit.inference._jackknife import jackknife_interval, mean_of_folds
from identikit.inference._largest import largest_by_chance
from identikit.inference._null import Null
from identikit.moments.memory import number_of_draws

__all__ = [
    "HeldOutCCA",
    "Null",
    "TwinStack",
    "adjusted_r2",
    "cca_chance",
    "cca_chance_edge",
    "cca_chance_square",
    "held_out_cca",
    "jackknife_interval",
    "largest_by_chance",
    "mean_of_folds",
    "number_of_draws",
    "shuffled",
    "twin_stacks",
    "twins",
]
