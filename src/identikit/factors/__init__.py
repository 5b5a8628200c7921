"""Metrics that score codes against known factors, each with its chance level and interval.

To add a metric, put a file into this folder with a function of a `Trial` decorated by ``@metric``.
It is discovered on import, is available as ``identikit.factors.<name>(codes, factors)``, and is
part of every call of `disentangle`.
"""

from typing import Any

from identikit._plugins import modules
from identikit.factors._beta_vae import beta_vae
from identikit.factors._data import Data, prepare
from identikit.factors._dci import dci
from identikit.factors._explicitness import explicitness
from identikit.factors._factor_vae import factor_vae
from identikit.factors._infomec import infomec
from identikit.factors._mcc import mcc
from identikit.factors._metric import METRICS, Metric, Trial, also, listed, metric
from identikit.factors._mig import mig
from identikit.factors._modularity import modularity
from identikit.factors._r2 import r2
from identikit.factors._resample import held_out, in_sample, one_split
from identikit.factors._result import Chance, Excluded, Part, Score
from identikit.factors._rotation import RotationLevel, rotation_level
from identikit.factors._sap import sap
from identikit.factors._summary import Disentanglement, disentangle

__all__ = [
    "METRICS",
    "Chance",
    "Data",
    "Disentanglement",
    "Excluded",
    "Metric",
    "Part",
    "RotationLevel",
    "Score",
    "Trial",
    "also",
    "beta_vae",
    "dci",
    "disentangle",
    "explicitness",
    "factor_vae",
    "held_out",
    "in_sample",
    "infomec",
    "listed",
    "mcc",
    "metric",
    "mig",
    "modularity",
    "one_split",
    "prepare",
    "r2",
    "rotation_level",
    "sap",
]

modules(__name__)


def __getattr__(name: str) -> Any:
    if name in METRICS:
        return METRICS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
