"""The result of `audit_models`: records of the models and of their pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identikit._result import Result, report_package
from identikit.auditing.result import Interval, Pair
from identikit.family import Distances, Divergences, Diversity, Gauge, UpTo

if TYPE_CHECKING:
    import pandas as pd

#: The findings that a pair may have.
SAME = "same distribution"
BLOCKS = "same distribution, a map a block"
TEMPERATURE = "same up to a temperature"
ORDER = "same up to label order"
CLOSE = "close in KL only"
TWO_MAPS = "not by one map"
DIFFERENT = "different"

#: Below this KL, in nats, two models make nearly the same predictions.
SMALL_KL = 1e-2


@dataclass(frozen=True)
class ModelReport:
    """A model: its n inputs, K labels and width M, and how much of it is identified."""

    name: str
    n: int
    K: int
    M: int
    bias: bool
    diversity: Diversity

    @property
    def diverse(self) -> bool:
        """Whether its distribution identifies all of f and of g."""
        return self.diversity.ok and self.diversity.inputs_ok

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        complexity = {f"{share:g}": count for share, count in self.diversity.complexity.items()}
        return {
            "name": self.name,
            "inputs": self.n,
            "labels": self.K,
            "dims": self.M,
            "bias": self.bias,
            "diversity": _plain(self.diversity) | {"complexity": complexity},
        }


@dataclass(frozen=True)
class Slice:
    """Two models on some of the inputs.

    `logit_gap` = √(E_slice‖Z_c − Z'_c‖² / E‖Z_c‖²) for the label-centred logits, relative to the
    spread of the first model's logits on *all* inputs. So the gaps of slices can be compared, and
    the mean of their squares over inputs is the square of the pair's gap. `kl` (a to b),
    `kl_reverse` and `tv` are means over the slice. Intervals are 95 % intervals by Student's t for
    the logarithm, over the inputs of the slice or over their groups; None where there are fewer
    than three, or where KL is infinite.

    `finding` is "same distribution" if logit gap and total variation are within the tolerance,
    else "close in KL only" below 0.01 nats in both directions, else "different".
    """

    name: str
    inputs: int
    logit_gap: float
    logit_gap_interval: Interval | None
    kl: float
    kl_interval: Interval | None
    kl_reverse: float
    tv: float
    finding: str

    @property
    def same(self) -> bool:
        """Whether logit gap and total variation are both within the tolerance."""
        return self.finding == SAME

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        rest: dict[str, Any] = _plain(self)
        return {"name": self.name, "inputs": self.inputs, "finding": self.finding} | rest


@dataclass(frozen=True, repr=False)
class ModelPair(Result):
    """The comparison of two models.

    `embedding` is the audit of f against f', each projected on the subspace that its distribution
    identifies. `finding` is one of "same distribution", "same distribution, a map a block", "same
    up to a temperature", "same up to label order", "close in KL only", "not by one map" and
    "different", and `sentence` is the finding in words. `log_odds` (points, 2) are
    log p(y|x) − log p(y'|x) of both models for random inputs and labels. `up_to` is the
    temperature, or the order of the labels, that brings the two closer, if there is one. `slices`
    has the comparison on every slice of the inputs, sorted by label, if there are any.
    """

    a: str
    b: str
    models: tuple[ModelReport, ModelReport]
    tolerance: float
    gauge: Gauge
    distances: Distances | Divergences
    embedding: Pair
    finding: str
    notes: tuple[str, ...]
    log_odds: NDArray[np.float64]
    up_to: UpTo | None = None
    slices: tuple[Slice, ...] = ()

    def __repr__(self) -> str:
        found = self.gauge
        numbers = f"logit gap {found.logit_gap:.3g}, κ {found.kappa:.3g}"
        return f"ModelPair({self.a!r}, {self.b!r}: {self.finding}, {numbers})"

    @property
    def sentence(self) -> str:
        """The finding in words, without the names of the models."""
        return str(report_package().words.models.pair(self))

    @property
    def same(self) -> bool:
        """Whether relative logit gap and κ are both within the tolerance."""
        return self.finding == SAME

    def __bool__(self) -> bool:
        """Whether the two are the same within the tolerance."""
        return self.same

    @property
    def table(self) -> pd.DataFrame:
        """One row: the finding and its numbers."""
        import pandas as pd

        return pd.DataFrame([self._row()])

    def _row(self) -> dict[str, Any]:
        document, pair = self.to_dict(), self.embedding
        kept = ("a", "b", "finding", "logit_gap", "kappa", "label_error")
        apart = {name: document["distances"][name] for name in document["distances"]["kinds"]}
        own = {"rung": pair.group, "error": pair.error}
        return {name: document[name] for name in kept} | apart | own

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON, without the matrices A, which are in `gauge`."""
        found, apart = self.gauge, self.distances
        measured = {name: _plain(getattr(apart, name)) for name in apart.kinds}
        if isinstance(apart, Distances):
            measured |= {"M": apart.M, "terms": _plain(apart.terms), "pivot": apart.labels[0]}
            measured |= {"left_out": list(apart.left_out), "inputs": list(apart.inputs)}
        of_gauge = ("kappa_raw", "logit_gap_absolute", "identified", "free", "error")
        return {
            "a": self.a,
            "b": self.b,
            "finding": self.finding,
            "sentence": self.sentence,
            "logit_gap": _plain(found.logit_gap),
            "kappa": _plain(found.kappa),
            "gauge": {name: _plain(getattr(found, name)) for name in of_gauge},
            "distances": measured | {"kinds": dict(apart.kinds)},
            "embedding": self.embedding.to_dict(),
            "label_error": found.label_error,
            "up_to": _plain(self.up_to),
            "slices": [each.to_dict() for each in self.slices],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, repr=False)
class ModelsAudit(Result):
    """The result of `audit_models`: the models, every pair, and the worst of the pairs."""

    version: str
    models: tuple[ModelReport, ...]
    pairs: tuple[ModelPair, ...]
    tolerance: float
    seed: int
    folds: int

    def __repr__(self) -> str:
        first = self.models[0]
        return (
            f"ModelsAudit({len(self.models)} models, {first.n:,} inputs, {first.K:,} labels; "
            f"worst {self.worst!r})"
        )

    @property
    def worst(self) -> ModelPair:
        """The pair with the largest relative logit gap."""
        return max(self.pairs, key=lambda pair: pair.gauge.logit_gap)

    @property
    def same(self) -> bool:
        """Whether every pair is the same within the tolerance."""
        return all(pair.same for pair in self.pairs)

    def __bool__(self) -> bool:
        """Whether all models are the same within the tolerance."""
        return self.same

    @property
    def table(self) -> pd.DataFrame:
        """One row per pair: the finding and its numbers."""
        import pandas as pd

        return pd.DataFrame([pair._row() for pair in self.pairs])

    def to_dict(self) -> dict[str, Any]:
        """The result as one JSON-ready document."""
        worst, kept = self.worst.to_dict(), ("a", "b", "finding", "sentence", "logit_gap", "kappa")
        return {
            "identikit": self.version,
            "inputs": self.models[0].n,
            "labels": self.models[0].K,
            "models": [model.to_dict() for model in self.models],
            "pairs": [pair.to_dict() for pair in self.pairs],
            "verdict": {name: worst[name] for name in kept} | {"within_tolerance": self.same},
            "settings": {"tolerance": self.tolerance, "seed": self.seed, "folds": self.folds},
        }


def _plain(value: Any) -> Any:
    """Values for JSON: records as mappings, arrays and tuples as lists, null for infinities."""
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
