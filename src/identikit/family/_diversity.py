"""The diversity condition: whether a model satisfies it, and how well conditioned it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array, singular_values, span, triangle
from identikit.family._model import SoftmaxModel, log_softmax
from identikit.family._variability import variability
from identikit.moments import accumulate

#: Tolerances for the rank of the logits, relative to their largest singular value.
TOLERANCES = (1e-2, 1e-4, 1e-6, 1e-8)
RANDOM_TUPLES = 100
#: Number of labels per dimension that may enter the tuple: those of largest whitened norm.
COMPETITORS = 8


@dataclass(frozen=True)
class Diversity:
    """The diversity condition of a model (Roeder et al. 2021, Section 3 and Appendix C).

    `ok` is whether M label differences of g are linearly independent: whether the `rank` of the
    centred g is the `needed` M. `pivots` are M + 1 labels whose differences from the first are the
    columns of L; `condition` is cond(L), `condition_whitened` the same for whitened g, and
    `condition_random` its median over random tuples. `inputs_rank`, the rank of [−log Z(x), f(x)],
    should be M + 1 for g to be identified (`inputs_ok`). `complexity` counts the singular values of
    the centred logits above each tolerance. `components` is the number of sets of labels that never
    share a candidate set; each of them has its own linear map. `reasons` say in words what is
    wrong, or that nothing is.
    """

    ok: bool
    rank: int
    needed: int
    condition: float | None
    condition_whitened: float | None
    condition_random: float | None
    inputs_ok: bool
    inputs_rank: int
    complexity: dict[float, int]
    components: int
    singular_values: Array
    pivots: NDArray[np.intp]
    reasons: tuple[str, ...]


def diversity(model: SoftmaxModel, *, seed: int = 0) -> Diversity:
    """Whether labels and inputs are diverse enough for the embeddings to be identified.

    Pivots are chosen by column-pivoted QR on whitened g, which is deterministic, rank revealing,
    and far better conditioned than random tuples.

    Parameters
    ----------
    model : SoftmaxModel
    seed : int
        Seed of the random tuples that the chosen one is compared with.
    """
    moments = accumulate([model.g], folds=1, sample=0)
    varied = variability(moments)
    rank, needed = varied.rank, varied.needed
    pivots = np.empty(0, dtype=np.intp)
    conditions: tuple[float | None, float | None, float | None] = (None, None, None)
    if rank == needed:
        whitened = model.centred_g @ moments.whitening_map(0)
        pivots = choose_tuple(whitened)
        conditions = (
            _condition(model.centred_g[pivots]),
            _condition(whitened[pivots]),
            _random_condition(whitened, needed, seed),
        )
    inputs_rank, own_rank = _inputs_ranks(model)
    logits = singular_values(model.input_factor @ model.label_factor.T)
    complexity = {t: int(np.count_nonzero(logits > t * logits[0])) for t in TOLERANCES}
    components = 1 if model.candidates is None else _components(model)
    reasons = _reasons(model, rank, inputs_rank, own_rank, components)
    return Diversity(
        ok=rank == needed and components == 1,
        rank=rank,
        needed=needed,
        singular_values=varied.singular_values,
        condition=conditions[0],
        condition_whitened=conditions[1],
        condition_random=conditions[2],
        pivots=pivots,
        inputs_rank=inputs_rank,
        inputs_ok=inputs_rank == needed + 1,
        complexity=complexity,
        components=components,
        reasons=tuple(reasons),
    )


def choose_tuple(whitened: Array) -> NDArray[np.intp]:
    """M + 1 labels with well-conditioned differences; the first is the one nearest to the mean.

    They are chosen by column-pivoted QR of the differences. In a large vocabulary only the labels
    of largest norm are considered, because QR would choose among those anyway.
    """
    from scipy.linalg import qr

    width = whitened.shape[1]
    norms = np.einsum("ij,ij->i", whitened, whitened)
    centre = int(norms.argmin())
    order = np.argsort(-norms, kind="stable")
    order = order[order != centre][: max(COMPETITORS * width, 64)]
    _, chosen = qr((whitened[order] - whitened[centre]).T, mode="r", pivoting=True)
    return np.concatenate([[centre], order[chosen[:width]]]).astype(np.intp)


def _condition(points: Array) -> float:
    """Condition number of the differences from the first of M + 1 points."""
    values = singular_values(points[1:] - points[0])
    return float(values[0] / values[-1]) if values[-1] > 0 else float("inf")


def _random_condition(whitened: Array, width: int, seed: int) -> float:
    rng = np.random.default_rng(seed)
    # Large tuples are costly, and their condition numbers vary little.
    draws = RANDOM_TUPLES if width <= 64 else 5
    tuples = [rng.choice(len(whitened), width + 1, replace=False) for _ in range(draws)]
    return float(np.median([_condition(whitened[chosen]) for chosen in tuples]))


def _inputs_ranks(model: SoftmaxModel) -> tuple[int, int]:
    """Ranks of [−log Z(x), f(x)] and of f(x) alone, from about twice as many inputs as needed."""
    step = max(1, model.n // (2 * (model.M + 1)))
    rows = []
    for start in range(0, model.n, 64 * step):
        where = slice(start, start + 64 * step, step)
        logits = model.logits(where)
        first = logits[:, 0].copy()
        rows.append(np.column_stack([log_softmax(logits)[:, 0] - first, model.f[where]]))
    whole = np.concatenate(rows).astype(np.float64)
    whole /= np.maximum(np.linalg.norm(whole, axis=0), 1e-300)
    both, own = (span(triangle(part), len(part), model.eps_f) for part in (whole, whole[:, 1:]))
    return both.shape[1], own.shape[1]


def _components(model: SoftmaxModel) -> int:
    """The number of connected components of labels that are linked by shared candidate sets."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    assert model.candidates is not None
    first = np.repeat(model.candidates[:, 0], model.candidates.shape[1])
    edges = coo_array(
        (np.ones(first.size, dtype=np.int8), (first, model.candidates.ravel())),
        shape=(model.K, model.K),
    )
    _, labels = connected_components(edges, directed=False)
    return len(np.unique(labels[np.unique(model.candidates)]))


def _reasons(
    model: SoftmaxModel, rank: int, inputs_rank: int, own_rank: int, components: int
) -> list[str]:
    reasons = []
    if model.K < model.M + 1:
        reasons.append(
            f"K = {model.K} labels leave {model.M - rank} of {model.M} dimensions of f free: M "
            f"linearly independent differences need at least {model.M + 1} labels"
        )
    elif rank < model.M:
        reasons.append(
            f"the label embeddings span {rank} of {model.M} dimensions, so {model.M - rank} "
            "dimensions of f are free"
        )
    if inputs_rank == own_rank + 1 == model.M <= model.n / 2:
        reasons.append(
            f"f lies in a hyperplane ({own_rank} of {model.M} dimensions), as after a final "
            "LayerNorm, which is harmless: the part of g orthogonal to it changes no logit and is "
            "left out"
        )
    elif inputs_rank < model.M + 1:
        reasons.append(
            f"[log Z, f] spans {inputs_rank} of {model.M + 1} dimensions over the inputs, so g is "
            "not identified beyond its constant; more varied inputs are needed"
        )
    if components > 1:
        reasons.append(
            f"the candidate sets fall into {components} blocks of labels that never occur "
            "together: each block has its own linear map, and there need not be a common one"
        )
    if model.candidates is not None:
        unseen = model.K - len(np.unique(model.candidates))
        if unseen:
            reasons.append(f"{unseen} labels are never candidates: nothing is known about them")
    return reasons or ["the labels and the inputs are diverse enough: f and g are identified"]
