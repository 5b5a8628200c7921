"""Experiments of papers, each one file: what is claimed, presets, the run, the figure, the checks.

A module of this folder without an underscore in front, with a line ``STUDY = Study(...)``, is a
study, named after its file. A new study is a new file and nothing else. What needs PyTorch is
imported inside its functions, so that studies can be listed without it.
"""

from identikit.studies._checks import (
    above,
    below,
    best,
    equal,
    falls,
    higher,
    holds,
    ordered,
    rises,
    within,
    worst,
)
from identikit.studies._data import CIFAR10, CORPORA, STAND_INS, Data, Images, Need
from identikit.studies._figures import curve, dots, heat_map, scatter_after_map
from identikit.studies._find import find, studies
from identikit.studies._run import Result, load, run
from identikit.studies._store import Record
from identikit.studies._study import (
    INCONCLUSIVE,
    NOT,
    REPRODUCED,
    UNMEASURED,
    Claim,
    Finding,
    Settings,
    Study,
    Tables,
    judge,
    mean_interval,
    per_seed,
)
from identikit.studies._work import Work

__all__ = [
    "CIFAR10",
    "CORPORA",
    "INCONCLUSIVE",
    "NOT",
    "REPRODUCED",
    "STAND_INS",
    "UNMEASURED",
    "Claim",
    "Data",
    "Finding",
    "Images",
    "Need",
    "Record",
    "Result",
    "Settings",
    "Study",
    "Tables",
    "Work",
    "above",
    "below",
    "best",
    "curve",
    "dots",
    "equal",
    "falls",
    "find",
    "heat_map",
    "higher",
    "holds",
    "judge",
    "load",
    "mean_interval",
    "ordered",
    "per_seed",
    "rises",
    "run",
    "scatter_after_map",
    "studies",
    "within",
    "worst",
]
