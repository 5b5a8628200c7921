"""Audits of views, batches, softmax models and layers: pairs, ladder, checks, verdict."""

from identikit.auditing._audit import audit
from identikit.auditing._batches import audit_batches
from identikit.auditing._clusters import Cluster, Clusters
from identikit.auditing._layers import layers
from identikit.auditing._models import audit_models
from identikit.auditing._verdict import SLACK, choose_rung
from identikit.auditing.batches_result import BatchAudit
from identikit.auditing.layers_result import Layers, Match
from identikit.auditing.models_result import ModelPair, ModelReport, ModelsAudit, Slice
from identikit.auditing.result import Audit, Check, Pair, RungError, Verdict, View

__all__ = [
    "SLACK",
    "Audit",
    "BatchAudit",
    "Check",
    "Cluster",
    "Clusters",
    "Layers",
    "Match",
    "ModelPair",
    "ModelReport",
    "ModelsAudit",
    "Pair",
    "RungError",
    "Slice",
    "Verdict",
    "View",
    "audit",
    "audit_batches",
    "audit_models",
    "choose_rung",
    "layers",
]
