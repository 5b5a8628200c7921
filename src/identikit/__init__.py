"""Are these representations the same, and up to what?

>>> import numpy as np
>>> import identikit as ik
>>> X = np.random.default_rng(0).normal(size=(1000, 3))
>>> ik.audit([X, X @ [[1, 2, 0], [0, 1, 3], [1, 0, 1]]]).verdict.group
'linear'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from identikit._version import __version__

if TYPE_CHECKING:
    from identikit import extract as extract
    from identikit import factors as factors
    from identikit import learn as learn
    from identikit import recover as recover
    from identikit import studies as studies
    from identikit import worlds as worlds
    from identikit.alignment import AlignmentMap, align, load_map
    from identikit.auditing import (
        Audit,
        BatchAudit,
        Layers,
        audit,
        audit_batches,
        audit_models,
        layers,
    )
    from identikit.axes import (
        ICA,
        Components,
        NearIdentifiability,
        match_components,
        near_identifiability,
    )
    from identikit.errors import InputError, MissingExtraError
    from identikit.factors import Disentanglement, disentangle
    from identikit.family import SoftmaxModel, distances, diversity, gauge, normal_form
    from identikit.inference import cca_chance, cca_chance_square, held_out_cca
    from identikit.moments import Moments, accumulate
    from identikit.recover import ima_contrast
    from identikit.report import plots as plots
    from identikit.report.plots import stability_figure
    from identikit.retrieval import (
        CheckResult,
        Migration,
        Pin,
        check,
        load_pin,
        migrate,
        pin,
    )
    from identikit.similarity import (
        cca,
        cka,
        mcc,
        mutual_knn,
        pls_svd,
        procrustes,
        pwcca,
        r2,
        spearman_mcc,
        svcca,
    )

# Where each public name lives; it is imported when first used, so that `import identikit` is quick.
_HOME = {
    "alignment": ("AlignmentMap", "align", "load_map"),
    "auditing": (
        "Audit",
        "BatchAudit",
        "Layers",
        "audit",
        "audit_batches",
        "audit_models",
        "layers",
    ),
    "axes": (
        "ICA",
        "Components",
        "NearIdentifiability",
        "match_components",
        "near_identifiability",
    ),
    "errors": ("InputError", "MissingExtraError"),
    "factors": ("Disentanglement", "disentangle"),
    "family": ("SoftmaxModel", "distances", "diversity", "gauge", "normal_form"),
    "inference": ("cca_chance", "cca_chance_square", "held_out_cca"),
    "moments": ("Moments", "accumulate"),
    "recover": ("ima_contrast",),
    "report": ("plots",),
    "report.plots": ("stability_figure",),
    "retrieval": ("CheckResult", "Migration", "Pin", "check", "load_pin", "migrate", "pin"),
    "similarity": (
        "cca",
        "cka",
        "mcc",
        "mutual_knn",
        "pls_svd",
        "procrustes",
        "pwcca",
        "r2",
        "spearman_mcc",
        "svcca",
    ),
}
# Parts with names of their own; not in __all__, since two of them need an extra.
_PARTS = ("extract", "factors", "learn", "recover", "studies", "worlds")
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "ICA",
    "AlignmentMap",
    "Audit",
    "BatchAudit",
    "CheckResult",
    "Components",
    "Disentanglement",
    "InputError",
    "Layers",
    "Migration",
    "MissingExtraError",
    "Moments",
    "NearIdentifiability",
    "Pin",
    "SoftmaxModel",
    "__version__",
    "accumulate",
    "align",
    "audit",
    "audit_batches",
    "audit_models",
    "cca",
    "cca_chance",
    "cca_chance_square",
    "check",
    "cka",
    "disentangle",
    "distances",
    "diversity",
    "gauge",
    "held_out_cca",
    "ima_contrast",
    "layers",
    "load_map",
    "load_pin",
    "match_components",
    "mcc",
    "migrate",
    "mutual_knn",
    "near_identifiability",
    "normal_form",
    "pin",
    "plots",
    "pls_svd",
    "procrustes",
    "pwcca",
    "r2",
    "spearman_mcc",
    "stability_figure",
    "svcca",
]


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"identikit.{name}")
    if name in _MODULE_OF:
        value = getattr(import_module(f"identikit.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'identikit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, *_PARTS])
