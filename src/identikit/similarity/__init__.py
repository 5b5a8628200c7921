"""Measures of similarity: pure functions of Moments, each in its own file.

To add a measure, put a file with a function decorated by ``@measure`` into this folder. It is then
available as ``identikit.similarity.<name>``, appears in every audit, and its stated invariance is
tested.
"""

from typing import Any

from identikit._plugins import modules
from identikit.similarity._cca import CCA, cca
from identikit.similarity._cka import CKA, cka
from identikit.similarity._mcc import MCC, mcc
from identikit.similarity._mutual_knn import MutualKNN, mutual_knn
from identikit.similarity._pls_svd import PLSSVD, pls_svd
from identikit.similarity._procrustes import Procrustes, procrustes
from identikit.similarity._pwcca import PWCCA, pwcca
from identikit.similarity._r2 import R2, r2
from identikit.similarity._registry import MEASURES, Measure, measure
from identikit.similarity._scored import Scored, calibrate, score_measures, scores_and_laws
from identikit.similarity._spearman_mcc import spearman_mcc
from identikit.similarity._svcca import SVCCA, svcca

__all__ = [
    "CCA",
    "CKA",
    "MCC",
    "MEASURES",
    "PLSSVD",
    "PWCCA",
    "R2",
    "SVCCA",
    "Measure",
    "MutualKNN",
    "Procrustes",
    "Scored",
    "calibrate",
    "cca",
    "cka",
    "mcc",
    "measure",
    "mutual_knn",
    "pls_svd",
    "procrustes",
    "pwcca",
    "r2",
    "score_measures",
    "scores_and_laws",
    "spearman_mcc",
    "svcca",
]

modules(__name__)


def __getattr__(name: str) -> Any:
    if name in MEASURES:
        return MEASURES[name].function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
