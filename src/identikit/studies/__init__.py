"""Experiments of papers, one per file: the claims, presets, the run, the figure and the checks.

Every module of this folder whose name does not start with an underscore and that has a line
``STUDY = Study(...)`` is a study, named after its file. To add a study, add such a file; nothing
else is needed. PyTorch is imported when a study first uses it (`_torch`), so that studies can be
listed without it.
"""

from identikit.studies._checks import above as above
from identikit.studies._checks import below as below
from identikit.studies._checks import best as best
from identikit.studies._checks import by_interval as by_interval
from identikit.studies._checks import equal as equal
from identikit.studies._checks import falls as falls
from identikit.studies._checks import higher as higher
from identikit.studies._checks import holds as holds
from identikit.studies._checks import ordered as ordered
from identikit.studies._checks import rises as rises
from identikit.studies._checks import undecided as undecided
from identikit.studies._checks import unmeasured as unmeasured
from identikit.studies._checks import within as within
from identikit.studies._checks import worst as worst
from identikit.studies._columns import Check as Check
from identikit.studies._columns import Column as Column
from identikit.studies._columns import column as column
from identikit.studies._columns import trend as trend
from identikit.studies._columns import where as where
from identikit.studies._data import CIFAR10 as CIFAR10
from identikit.studies._data import CORPORA as CORPORA
from identikit.studies._data import STAND_INS as STAND_INS
from identikit.studies._data import Data as Data
from identikit.studies._data import Images as Images
from identikit.studies._data import Need as Need
from identikit.studies._figures import curve as curve
from identikit.studies._figures import dots as dots
from identikit.studies._figures import heat_map as heat_map
from identikit.studies._figures import scatter_after_map as scatter_after_map
from identikit.studies._find import find as find
from identikit.studies._find import studies as studies
from identikit.studies._report import print_study as print_study
from identikit.studies._run import Result as Result
from identikit.studies._run import load as load
from identikit.studies._run import run as run
from identikit.studies._study import INCONCLUSIVE as INCONCLUSIVE
from identikit.studies._study import NOT as NOT
from identikit.studies._study import REPRODUCED as REPRODUCED
from identikit.studies._study import UNMEASURED as UNMEASURED
from identikit.studies._study import Claim as Claim
from identikit.studies._study import Finding as Finding
from identikit.studies._study import Record as Record
from identikit.studies._study import Settings as Settings
from identikit.studies._study import Study as Study
from identikit.studies._study import Tables as Tables
from identikit.studies._study import judge as judge
from identikit.studies._study import mean_interval as mean_interval
from identikit.studies._study import per_seed as per_seed
from identikit.studies._work import Work as Work
from identikit.studies._work import rows_of as rows_of
