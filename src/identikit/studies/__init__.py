"""Experiments of papers, one per file: the claims, presets, the run, the figure and the checks.

Every module of this folder whose name does not start with an underscore and that has a line
``STUDY = Study(...)`` is a study, named after its file. To add a study, add such a file; nothing
else is needed. Anything that needs PyTorch is imported inside functions, so that studies can be
listed without it.
"""

from identikit.studies._checks import (
    above,
    below,
    best,
    by_interval,
    equal,
    falls,
    higher,
    holds,
    ordered,
    rises,
    undecided,
    unmeasured,
    within,
    worst,
)
from identikit.studies._columns import Check, Column, column, trend, where
from identikit.studies._data import CIFAR10, CORPORA, STAND_INS, Data, Images, Need
from identikit.studies._figures import curve, dots, heat_map, scatter_after_map
from identikit.studies._find import find, studies
from identikit.studies._report import print_study
from identikit.studies._run import Result, load, run
from identikit.studies._store import Record, rows_of
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
    "Check",
    "Claim",
    "Column",
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
    "by_interval",
    "column",
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
    "print_study",
    "rises",
    "rows_of",
    "run",
    "scatter_after_map",
    "studies",
    "trend",
    "undecided",
    "unmeasured",
    "where",
    "within",
    "worst",
]
