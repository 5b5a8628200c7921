# ruff: noqa: F403
"""Moments, the sufficient statistics of views, and the one loop over rows that computes them."""

from identikit.moments._accumulate import *
from identikit.moments._changes import *
from identikit.moments._distinct import *
from identikit.moments._extremes import *
from identikit.moments._file import *
from identikit.moments._folds import *
from identikit.moments._header import *
from identikit.moments._moments import *
from identikit.moments._part import *
from identikit.moments._passes import *
from identikit.moments._pca import *
from identikit.moments._sizes import *
from identikit.moments.memory import *
