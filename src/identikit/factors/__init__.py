"""Metrics that score codes against known factors, each with its chance level and interval.

To add a metric, put a file into this folder with a function of a `Trial` decorated by ``@metric``.
It is discovered on import, is available as ``identikit.factors.<name>(codes, factors)``, and is
part of every call of `disentangle`.
"""

from typing import Any

from identikit._plugins import modules
from identikit.factors._batches import beta_vae as beta_vae
from identikit.factors._batches import factor_vae as factor_vae
from identikit.factors._data import Data as Data
from identikit.factors._data import prepare as prepare
from identikit.factors._dci import completeness as completeness
from identikit.factors._dci import dci as dci
from identikit.factors._dci import disentanglement as disentanglement
from identikit.factors._infomec import infomec as infomec
from identikit.factors._information import information as information
from identikit.factors._information import mig as mig
from identikit.factors._information import modularity as modularity
from identikit.factors._mcc import RotationLevel as RotationLevel
from identikit.factors._mcc import mcc as mcc
from identikit.factors._mcc import rotation_level as rotation_level
from identikit.factors._metric import METRICS as METRICS
from identikit.factors._metric import Metric as Metric
from identikit.factors._metric import Trial as Trial
from identikit.factors._metric import also as also
from identikit.factors._metric import listed as listed
from identikit.factors._metric import metric as metric
from identikit.factors._probe import explicitness as explicitness
from identikit.factors._r2 import r2 as r2
from identikit.factors._resample import folds as folds
from identikit.factors._resample import held_out as held_out
from identikit.factors._resample import in_sample as in_sample
from identikit.factors._resample import one_split as one_split
from identikit.factors._resample import orders as orders
from identikit.factors._result import Chance as Chance
from identikit.factors._result import Excluded as Excluded
from identikit.factors._result import Part as Part
from identikit.factors._result import Score as Score
from identikit.factors._sap import sap as sap
from identikit.factors._summary import Disentanglement as Disentanglement
from identikit.factors._summary import disentangle as disentangle

modules(__name__)


def __getattr__(name: str) -> Any:
    if name in METRICS:
        return METRICS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
