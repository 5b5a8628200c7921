"""Data with known factors, and what theory says about their identifiability.

A world draws latents and the observations that a learner sees; a mixing maps one to the other.

>>> import identikit as ik
>>> world = ik.worlds.SphereClusters(3, classes=20, kappa=10.0, mixing=ik.worlds.LeakyReLU(3))
>>> world.check().ok, world.identified[0].rung
(True, 'linear')
"""

from identikit.worlds._actions import ActionWorld
from identikit.worlds._clusters import SphereClusters
from identikit.worlds._environment_sources import EnvironmentSources
from identikit.worlds._exchangeable import STRUCTURES, ExchangeablePairs
from identikit.worlds._languages import Language, Prompts
from identikit.worlds._lti import DCMotor, LinearSystem
from identikit.worlds._mixing import Chain, Linear, Mixing, Orthogonal
from identikit.worlds._nonlinear import LeakyReLU, Moebius
from identikit.worlds._pairs import AnisotropicPairs
from identikit.worlds._score import Score, score
from identikit.worlds._shapes3d import Shapes3D
from identikit.worlds._sources import Sources
from identikit.worlds._world import Assumption, Assumptions, Promise, Sample

__all__ = [
    "STRUCTURES",
    "ActionWorld",
    "AnisotropicPairs",
    "Assumption",
    "Assumptions",
    "Chain",
    "DCMotor",
    "EnvironmentSources",
    "ExchangeablePairs",
    "Language",
    "LeakyReLU",
    "Linear",
    "LinearSystem",
    "Mixing",
    "Moebius",
    "Orthogonal",
    "Promise",
    "Prompts",
    "Sample",
    "Score",
    "Shapes3D",
    "Sources",
    "SphereClusters",
    "score",
]
