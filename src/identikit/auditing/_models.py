"""Softmax models in, a verdict out: the same distribution, the same embedding, or neither."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identikit import _files
from identikit._linalg import Array, one_thread
from identikit._version import __version__
from identikit.alignment import ladder
from identikit.auditing._audit import SAMPLE, Progress, compare
from identikit.auditing._result import Pair
from identikit.auditing._verdict import UNRELATED
from identikit.errors import InputError
from identikit.family._distances import Distances, Divergences, distances
from identikit.family._diversity import Diversity, diversity
from identikit.family._gauge import Gauge, _identified, check_pair, gauge
from identikit.family._model import SoftmaxModel
from identikit.moments import accumulate

FOLDS = 5
#: Below this KL, in nats, two models are close for whoever looks at predictions only.
SMALL_KL = 1e-2
#: Above this held-out error one embedding says little of the other.
LARGE_ERROR = 0.5
#: Log-odds drawn in the report: an input and two labels each.
POINTS = 300
#: Checks whose complaint a projection on the identified subspace brings about by design.
OF_PROJECTION = ("rank", "widths")

#: What a pair may be found to be.
SAME = "same distribution"
CLOSE = "close in KL only"
TWO_MAPS = "not by one map"
DIFFERENT = "different"


@dataclass(frozen=True)
class ModelReport:
    """A model: how many inputs n and labels K, its width M, and how much of it is identified."""

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
        found = self.diversity
        return {
            "name": self.name,
            "inputs": self.n,
            "labels": self.K,
            "dims": self.M,
            "bias": self.bias,
            "diversity": {
                "ok": found.ok,
                "rank": found.rank,
                "needed": found.needed,
                "condition": _finite(found.condition),
                "condition_whitened": _finite(found.condition_whitened),
                "condition_random": _finite(found.condition_random),
                "inputs_ok": found.inputs_ok,
                "inputs_rank": found.inputs_rank,
                "complexity": {f"{share:g}": count for share, count in found.complexity.items()},
                "components": found.components,
                "singular_values": found.singular_values.tolist(),
                "pivots": found.pivots.tolist(),
                "reasons": list(found.reasons),
            },
        }


@dataclass(frozen=True)
class ModelPair:
    """All that is said of two models.

    `embedding` is the audit of f against f', each projected on what its distribution identifies;
    `label_error` the held-out error of the best affine map between g and g' (absent if there are
    too few labels to hold any out). `finding` is one of "same distribution", "close in KL only",
    "not by one map" and "different", `sentence` says it in words. `log_odds` (points, 2) are
    log p(y|x) − log p(y'|x) of both models for random inputs and labels.
    """

    a: str
    b: str
    gauge: Gauge
    distances: Distances | Divergences
    embedding: Pair
    label_error: float | None
    finding: str
    sentence: str
    notes: tuple[str, ...]
    log_odds: NDArray[np.float64]

    @property
    def same(self) -> bool:
        """Whether relative logit gap and κ are both within the tolerance."""
        return self.finding == SAME

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; the matrices A are left to `gauge`."""
        found, apart = self.gauge, self.distances
        measured: dict[str, Any] = {name: _finite(getattr(apart, name)) for name in apart.kinds}
        if isinstance(apart, Distances):
            measured |= {
                "M": apart.M,
                "terms": [_finite(term) for term in apart.terms],
                "pivot": apart.labels[0],
                "left_out": list(apart.left_out),
                "inputs": list(apart.inputs),
            }
        return {
            "a": self.a,
            "b": self.b,
            "finding": self.finding,
            "sentence": self.sentence,
            "logit_gap": _finite(found.logit_gap),
            "kappa": _finite(found.kappa),
            "gauge": {
                "kappa_raw": _finite(found.kappa_raw),
                "logit_gap_absolute": _finite(found.logit_gap_absolute),
                "identified": found.identified,
                "free": list(found.free),
                "error": _finite(found.error),
            },
            "distances": measured | {"kinds": dict(apart.kinds)},
            "embedding": self.embedding.to_dict(),
            "label_error": self.label_error,
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class ModelsAudit:
    """The result of `audit_models`: the models, every pair, and the worst of the pairs."""

    version: str
    models: tuple[ModelReport, ...]
    pairs: tuple[ModelPair, ...]
    tolerance: float
    seed: int

    @property
    def worst(self) -> ModelPair:
        """The pair with the largest relative logit gap."""
        return max(self.pairs, key=lambda pair: pair.gauge.logit_gap)

    @property
    def same(self) -> bool:
        """Whether every pair is the same within the tolerance."""
        return all(pair.same for pair in self.pairs)

    def to_dict(self) -> dict[str, Any]:
        """The result as one JSON-ready document."""
        worst = self.worst
        return {
            "identikit": self.version,
            "inputs": self.models[0].n,
            "labels": self.models[0].K,
            "models": [model.to_dict() for model in self.models],
            "pairs": [pair.to_dict() for pair in self.pairs],
            "verdict": {
                "a": worst.a,
                "b": worst.b,
                "finding": worst.finding,
                "sentence": worst.sentence,
                "logit_gap": _finite(worst.gauge.logit_gap),
                "kappa": _finite(worst.gauge.kappa),
                "within_tolerance": self.same,
            },
            "settings": {"tolerance": self.tolerance, "seed": self.seed, "folds": FOLDS},
        }

    def to_json(self) -> str:
        """The document of `to_dict` as text; strict JSON, so absent values are null."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON document, atomically."""
        _files.write_text(path, self.to_json())

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the one-page HTML report, atomically."""
        from identikit.report._models_html import models_html

        _files.write_text(path, models_html(self))


def audit_models(
    models: Sequence[SoftmaxModel],
    tolerance: float = 0.1,
    seed: int = 0,
    progress: Progress | None = None,
    *,
    groups: ArrayLike | None = None,
) -> ModelsAudit:
    """Compare every pair of softmax models as what they are: f, g and a distribution.

    Parameters
    ----------
    models : sequence of SoftmaxModel
        Two or more models of the same inputs and labels, in the same order.
    tolerance : float
        The largest relative logit gap and κ that count as the same.
    seed : int
        Of the sets of inputs that d_LLV is taken over, and of the points that are drawn.
    progress : callable, optional
        Called with (what is being done, done, of how many).
    groups : array (inputs,), optional
        A label an input; inputs that share one share a fold of the held-out error of f. Without
        it, folds are runs of consecutive inputs.

    Returns
    -------
    ModelsAudit

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> f, g, A = rng.normal(size=(200, 3)), rng.normal(size=(9, 3)), rng.normal(size=(3, 3))
    >>> other = SoftmaxModel(f @ A.T, g @ np.linalg.inv(A) + 5.0, name="other")
    >>> audit_models([SoftmaxModel(f, g), other]).worst.finding
    'same distribution'
    """
    _check(models, tolerance)
    found = [diversity(model, seed) for model in models]
    bases = [_basis(model, each) for model, each in zip(models, found)]
    views = [_projected(model, basis) for model, basis in zip(models, bases)]
    moments = accumulate(
        views, FOLDS, groups, names=[model.name for model in models], seed=seed, sample=SAMPLE
    )
    reports = tuple(
        ModelReport(name, model.n, model.K, model.M, model.bias is not None, each)
        for name, model, each in zip(moments.names, models, found)
    )
    every = list(combinations(range(len(models)), 2))
    pairs = []
    for done, (i, j) in enumerate(every):
        if progress is not None:
            progress("comparing", done, len(every))
        with one_thread(max(models[i].M, models[j].M)):
            embedding = compare(moments, i, j, tolerance, grouped=groups is not None)
            related = gauge(models[i], models[j])
        apart = distances(models[i], models[j], seed=seed)
        labels = _label_error(*(models[at].centred_g @ bases[at] for at in (i, j)))
        both = (reports[i], reports[j])
        partial = bool(len(models[i].impossible) or len(models[j].impossible))
        finding = _finding(related, apart, embedding, labels, tolerance, partial=partial)
        pairs.append(
            ModelPair(
                moments.names[i],
                moments.names[j],
                related,
                apart,
                embedding,
                labels,
                finding,
                _sentence(finding, both, related, apart, embedding, labels, tolerance),
                _notes(models[i], related, apart, embedding),
                _log_odds(models[i], models[j], seed),
            )
        )
    return ModelsAudit(__version__, reports, tuple(pairs), tolerance, seed)


def _check(models: Sequence[SoftmaxModel], tolerance: float) -> None:
    if len(models) < 2:
        raise InputError(
            f"models are compared with each other: give at least two, not {len(models)}"
        )
    if not tolerance >= 0:
        raise InputError(f"the tolerance is {tolerance}; it must not be negative")
    for other in models[1:]:
        check_pair(models[0], other)
    if models[0].n < 2 * FOLDS:
        raise InputError(
            f"{FOLDS} folds of two inputs or more need at least {2 * FOLDS} inputs; the models "
            f"have {models[0].n}"
        )


def _basis(model: SoftmaxModel, found: Diversity) -> Array:
    """What the distribution identifies of f-space; an error if that is nothing at all."""
    basis = _identified(model) if found.rank else np.empty((model.M, 0))
    if not basis.shape[1]:
        raise InputError(
            f"model {model.name!r}: its logits f(x)ᵀg(y) tell no two labels apart (all g are "
            "equal, or f is zero where they differ), so there is nothing to compare; check its "
            "arrays"
        )
    return basis


def _projected(model: SoftmaxModel, basis: Array) -> Array:
    """The identified part of f, in the model's own axes, so that all rungs keep their meaning."""
    if basis.shape[1] == model.M:
        return model.f
    projected: Array = model.f.astype(np.float64) @ basis @ basis.T
    return projected


def _label_error(ga: Array, gb: Array) -> float | None:
    """Held-out error of the best affine map between label embeddings, the worse direction."""
    labels = len(ga)
    folds = min(FOLDS, labels)
    # An affine map of r dimensions goes through any r + 1 points: fewer cannot fix it.
    if labels - math.ceil(labels / folds) < max(ga.shape[1], gb.shape[1]) + 1:
        return None
    both = ladder(accumulate([ga, gb], folds, sample=0), 0, 1, ("affine",))["affine"]
    return max(side.error for side in both)


def _finding(
    related: Gauge,
    apart: Divergences,
    embedding: Pair,
    labels: float | None,
    tolerance: float,
    *,
    partial: bool,
) -> str:
    # A label that is impossible somewhere has no logits; its probabilities are all there is of it.
    agree = apart.tv <= tolerance or not partial
    if agree and max(related.logit_gap, related.kappa) <= tolerance:
        return SAME
    poor = embedding.group == UNRELATED or embedding.error > LARGE_ERROR
    if poor and max(apart.kl, apart.kl_reverse) < SMALL_KL:
        return CLOSE
    sides = labels is not None and max(labels, embedding.error) <= tolerance
    if sides and related.kappa > tolerance:
        return TWO_MAPS
    return DIFFERENT


def _sentence(
    finding: str,
    models: tuple[ModelReport, ModelReport],
    related: Gauge,
    apart: Divergences,
    embedding: Pair,
    labels: float | None,
    tolerance: float,
) -> str:
    """What matters of a pair, in words and without names, which may be anything."""
    gap, kl, error = map(_short, (related.logit_gap, apart.kl, embedding.error))
    kappa = f"κ = {_short(related.kappa)}".replace("= <", "< ")
    kind = "an affine" if any(model.bias for model in models) else "a linear"
    if finding == SAME:
        where = f" on the {related.identified} identified dimensions" if any(related.free) else ""
        says = (
            f"the same distribution up to relative logit gap {gap} (total variation "
            f"{_short(apart.tv)}), so the same embedding up to {kind} map{where}: {kappa}"
        )
    elif finding == CLOSE and embedding.group == UNRELATED:
        says = (
            f"close in KL ({kl}) and yet unrelated embeddings: no map explains one from the other "
            f"beyond chance (held-out error {error}); the relative logit gap is {gap}"
        )
    elif finding == CLOSE:
        says = (
            f"close in KL ({kl}) and yet dissimilar embeddings: the best map between them leaves a "
            f"held-out error of {error}; the relative logit gap is {gap}"
        )
    elif finding == TWO_MAPS:
        assert labels is not None
        says = (
            f"each side is related (held-out error {error} for f, {_short(labels)} for g), but not "
            f"by one map ({kappa}): the distributions differ, as after a counter-rotation of f "
            f"and g (relative logit gap {gap}, KL {kl})"
        )
    else:
        agree = (
            "the embeddings are unrelated"
            if embedding.group == UNRELATED
            else f"the embeddings agree best up to the group {embedding.group}, with a held-out "
            f"error of {error}"
        )
        says = (
            f"not the same within {tolerance:g}: relative logit gap {gap}, {kappa}, KL {kl}, "
            f"total variation {_short(apart.tv)}; {agree}"
        )
    free = _what_is_free(models)
    says = says[0].upper() + says[1:] + "."
    return f"{free} {says}" if free else says


def _what_is_free(models: tuple[ModelReport, ModelReport]) -> str:
    reasons = ["; ".join(m.diversity.reasons) if not m.diverse else "" for m in models]
    if reasons[0] and reasons[0] == reasons[1]:
        return f"In both models {reasons[0]}."
    places = ("first", "second")
    return " ".join(f"In the {place} model {why}." for place, why in zip(places, reasons) if why)


def _notes(a: SoftmaxModel, related: Gauge, apart: Divergences, embedding: Pair) -> tuple[str, ...]:
    notes = [*related.notes, *apart.notes]
    if a.candidates is not None:
        notes.append("the relative logit gap is over all labels, candidates or not")
    expected = OF_PROJECTION if any(related.free) else ()
    notes += [c.message for c in embedding.checks if not c.ok and c.name not in expected]
    return tuple(notes)


def _log_odds(a: SoftmaxModel, b: SoftmaxModel, seed: int) -> Array:
    """log p(y|x) − log p(y'|x) of both models, for random inputs and pairs of labels."""
    rng = np.random.default_rng(seed)
    labels = np.setdiff1d(np.arange(a.K), np.union1d(a.impossible, b.impossible))
    rows = rng.integers(a.n, size=POINTS)
    first = rng.integers(len(labels), size=POINTS)
    second = (first + rng.integers(1, len(labels), size=POINTS)) % len(labels)
    y, other = labels[first], labels[second]
    columns = []
    for model in (a, b):
        f, gap = model.f[rows].astype(np.float64), model.centred_g[y] - model.centred_g[other]
        odds = np.einsum("ij,ij->i", f, gap)
        columns.append(odds if model.bias is None else odds + model.bias[y] - model.bias[other])
    return np.column_stack(columns)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _short(value: float) -> str:
    """Two digits; what is below a millionth is rounding.

    >>> _short(0.0321), _short(1.04e-4), _short(35.2), _short(3e-15), _short(float("inf"))
    ('0.032', '0.0001', '35', '<1e-06', 'infinite')
    """
    if math.isinf(value):
        return "infinite"
    if value < 1e-6:
        return "<1e-06"
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
