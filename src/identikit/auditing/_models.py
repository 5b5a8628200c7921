"""The audit of softmax models: do they have the same distribution, the same embedding, neither?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array
from identikit._progress import Progress
from identikit._text import brief
from identikit._version import __version__
from identikit.auditing._compare import compare
from identikit.auditing._evidence import Context
from identikit.auditing._models_slices import by_slice, read_slices
from identikit.auditing._verdict import UNRELATED
from identikit.auditing._windows import read_windows
from identikit.auditing.models_result import (
    BLOCKS,
    CLOSE,
    DIFFERENT,
    ORDER,
    SAME,
    SMALL_KL,
    TEMPERATURE,
    TWO_MAPS,
    ModelPair,
    ModelReport,
    ModelsAudit,
    Slice,
)
from identikit.auditing.result import Pair as EmbeddingPair
from identikit.errors import InputError
from identikit.family import (
    Divergences,
    Gauge,
    Pair,
    SoftmaxModel,
    Stored,
    UpTo,
    check_pair,
    diversity,
    pair_distances,
    pair_gauge,
    up_to,
)
from identikit.moments import FOLDS, LEAST_GROUPS, SAMPLE, accumulate, duplicate_groups, in_units
from identikit.sources import open_sources

#: The number of log-odds that are plotted in the report, each of an input and two labels.
POINTS = 300
#: The power of two that logits must stay below, so that their fourth powers are finite.
LARGEST_LOGIT = 400
#: Above this held-out error, one embedding says little about the other.
LARGE_ERROR = 0.5
#: Checks that a projection on the identified subspace is expected to fail.
OF_PROJECTION = ("rank", "widths")


def audit_models(
    models: Sequence[SoftmaxModel],
    *,
    tolerance: float = 0.1,
    seed: int = 0,
    progress: Progress | None = None,
    groups: ArrayLike | None = None,
    slices: ArrayLike | None = None,
) -> ModelsAudit:
    """Compare every pair of softmax models: their embeddings f and g, and their distributions.

    Parameters
    ----------
    models : sequence of SoftmaxModel
        Two or more models of the same inputs and labels, in the same order.
    tolerance : float
        The largest relative logit gap and κ that count as the same.
    seed : int
        The seed of the sets of inputs over which d_LLV is computed, and of the plotted points.
    progress : callable, optional
        Called with (the name of the step, steps done, steps in all).
    groups : array (inputs,), optional
        One label per input; inputs that share a label share a fold of the held-out error of f.
        Without it, folds are scattered blocks of inputs.
    slices : array (inputs,), optional
        One label per input (in the data or not, a domain, a length): every pair is also compared on
        the inputs of each label, and its sentence says where the two are the same.

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

    Two models that agree where the data are, and nowhere else:

    >>> moved = f + np.where(np.arange(200) < 150, 0.0, 1.0)[:, None] * rng.normal(size=f.shape)
    >>> where = ["in the data"] * 150 + ["off the data"] * 50
    >>> pair = audit_models([SoftmaxModel(f, g), SoftmaxModel(moved, g)], slices=where).worst
    >>> [(each.name, each.inputs, each.finding) for each in pair.slices]
    [('in the data', 150, 'same distribution'), ('off the data', 50, 'different')]
    """
    _check(models, tolerance)
    parts = None if slices is None else read_slices(slices, models[0].n)
    models = [_balanced(model) for model in models]
    found = [diversity(model, seed=seed) for model in models]
    affine = any(model.bias is not None for model in models)
    views = [_projected(model, affine=affine) for model in models]
    moments = accumulate(
        views,
        folds=FOLDS,
        groups=groups,
        names=[model.name for model in models],
        seed=seed,
        sample=SAMPLE,
    )
    if parts is not None and isinstance(groups, str):
        groups = duplicate_groups(open_sources(views))
    windows = read_windows(in_units(open_sources(views), moments), moments)
    context = Context(tolerance, grouped=groups is not None, windows=windows)
    reports = tuple(
        ModelReport(name, model.n, model.K, model.M, model.bias is not None, each)
        for name, model, each in zip(moments.names, models, found)
    )
    every = list(combinations(range(len(models)), 2))
    pairs = []
    for done, (i, j) in enumerate(every):
        if progress is not None:
            progress("comparing", done, len(every))
        pair = Pair(models[i], models[j])
        embedding = compare(moments, i, j, context)
        related = pair_gauge(pair, None if pair.K < models[i].K else found[i].pivots)
        apart = pair_distances(pair, seed=seed)
        both = (reports[i], reports[j])
        partial = pair.K < models[i].K
        # Labels that are impossible for an input have a probability of 0, but no logit.
        near = (
            up_to(pair, tolerance, seed) if related.logit_gap > tolerance and not partial else None
        )
        finding = _find(both, related, apart, embedding, near, tolerance, partial=partial)
        sliced = () if parts is None else by_slice(pair, parts, tolerance, groups)
        kept = near is not None and (finding == TEMPERATURE or near.order is not None)
        pairs.append(
            ModelPair(
                moments.names[i],
                moments.names[j],
                both,
                tolerance,
                related,
                apart,
                embedding,
                finding,
                _notes(finding, related, apart, embedding, near, sliced),
                _log_odds(pair, seed),
                near if kept else None,
                sliced,
            )
        )
    return ModelsAudit(__version__, reports, tuple(pairs), tolerance, seed, moments.folds)


def _check(models: Sequence[SoftmaxModel], tolerance: float) -> None:
    if len(models) < 2:
        raise InputError(
            f"models are compared with each other: give at least two, not {len(models)}"
        )
    if not 0 <= tolerance < float("inf"):
        raise InputError(f"the tolerance is {tolerance}; give a finite number, 0 or larger")
    for other in models[1:]:
        check_pair(models[0], other)
    if models[0].n < 2 * FOLDS:
        raise InputError(
            f"{FOLDS} folds of two inputs or more need at least {2 * FOLDS} inputs; the models "
            f"have {models[0].n}"
        )


def _balanced(model: SoftmaxModel) -> SoftmaxModel:
    """The same model with f divided and g multiplied by a constant, if squares would overflow."""
    sizes = [int(np.frexp(np.abs(side).max())[1]) for side in (model.f, model.g)]
    if sum(sizes) > LARGEST_LOGIT:
        raise InputError(
            f"model {model.name!r}: its logits f(x)ᵀg(y) are of the size "
            f"1e{sum(sizes) * np.log10(2.0):.0f}, too large to compute with; check the scales of f "
            "and g"
        )
    if max(map(abs, sizes)) <= LARGEST_LOGIT // 2 or model.table is not None:
        return model
    step = (sizes[0] - sizes[1]) // 2
    f = Stored(np.ldexp(model.f.astype(np.float64), -step), model.eps_f)
    g = Stored(np.ldexp(model.g.astype(np.float64), step), model.eps_g)
    return SoftmaxModel(f, g, model.bias, candidates=model.candidates, name=model.name)


def _projected(model: SoftmaxModel, *, affine: bool) -> Array:
    """The identified part of f, in the model's own axes, so that all rungs keep their meaning."""
    seen = model.identified(affine=affine)
    if not seen.rank:
        raise InputError(
            f"model {model.name!r}: its logits f(x)ᵀg(y) are the same for all labels (all g are "
            "equal, or f is zero where they differ), so there is nothing to compare; check its "
            "arrays"
        )
    if seen.rank == model.M:
        return model.f
    return np.asarray(model.f.astype(np.float64) @ seen.to_f @ seen.axes.T)


def _find(
    models: tuple[ModelReport, ModelReport],
    related: Gauge,
    apart: Divergences,
    embedding: EmbeddingPair,
    nearest: UpTo | None,
    tolerance: float,
    *,
    partial: bool,
) -> str:
    """The finding that applies to a pair."""
    # A label that is impossible for some inputs has no logits there, so probabilities must agree.
    agree = apart.tv <= tolerance or not partial
    if agree and max(related.logit_gap, related.kappa) <= tolerance:
        return SAME
    if related.logit_gap <= tolerance and all(model.diversity.components > 1 for model in models):
        return BLOCKS
    if nearest is not None and nearest.logit_gap <= tolerance:
        return TEMPERATURE if nearest.order is None else ORDER
    poor = embedding.group == UNRELATED or embedding.error > LARGE_ERROR
    if poor and max(apart.kl, apart.kl_reverse) < SMALL_KL:
        return CLOSE
    labels = related.label_error
    sides = labels is not None and max(labels, embedding.error) <= tolerance
    if sides and related.kappa > tolerance:
        return TWO_MAPS
    return DIFFERENT


def _notes(
    finding: str,
    related: Gauge,
    apart: Divergences,
    embedding: EmbeddingPair,
    nearest: UpTo | None,
    slices: Sequence[Slice],
) -> tuple[str, ...]:
    """What else a reader must know about a pair."""
    found = [*related.notes, *apart.notes]
    if finding != ORDER and nearest is not None and nearest.order is not None:
        found.append(
            f"in another order of the labels the relative logit gap would be "
            f"{brief(nearest.logit_gap)} and not {brief(related.logit_gap)}: check that both "
            "models list their labels in the same order"
        )
    short = sum(each.logit_gap_interval is None for each in slices)
    if short:
        found.append(
            f"{short} of {len(slices)} slices {'has' if short == 1 else 'have'} fewer than "
            f"{LEAST_GROUPS} inputs, or groups of them, and so no intervals"
        )
    expected = OF_PROJECTION if any(related.free) else ()
    found += [c.message for c in embedding.checks if not c.ok and c.name not in expected]
    return tuple(found)


def _log_odds(pair: Pair, seed: int) -> Array:
    """log p(y|x) − log p(y'|x) of both models, for random inputs and two random labels of each."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(pair.n, size=POINTS)
    candidates = pair.models[0].candidates
    sets = pair.labels[None] if candidates is None else candidates[rows]
    size = sets.shape[1]
    first = rng.integers(size, size=POINTS)
    second = (first + rng.integers(1, size, size=POINTS)) % size
    place = np.zeros(POINTS, dtype=np.intp) if candidates is None else np.arange(POINTS)
    y, other = sets[place, first], sets[place, second]
    columns = []
    for model in pair.models:
        f, gap = model.f[rows].astype(np.float64), model.centred_g[y] - model.centred_g[other]
        odds = np.einsum("ij,ij->i", f, gap)
        columns.append(odds if model.bias is None else odds + model.bias[y] - model.bias[other])
    return np.column_stack(columns)
