"""Components across runs: which atoms or axes recur, how well, and compared with chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit._progress import Progress, silent
from identikit._version import __version__
from identikit.axes._components_chance import (
    SCHEMES,
    discovery_cut,
    largest,
    null_reports,
    permuted,
    random_directions,
    shuffled,
)
from identikit.axes._components_match import Assigner, Matching, match, pairwise_mcc, uniqueness
from identikit.axes._components_result import Components, RunReport, Settings
from identikit.axes._components_runs import Vectors, open_runs, paired, read_activations, read_atoms
from identikit.axes._components_subspace import shared_subspace
from identikit.errors import InputError
from identikit.inference import jackknife_interval
from identikit.moments import default_memory

Mask = NDArray[np.bool_]


def match_components(
    runs: Sequence[object] | Mapping[str, object],
    *,
    kind: str = "atoms",
    axis: str | None = None,
    signed: bool | None = None,
    threshold: float | None = None,
    fdr: float = 0.05,
    assignment: str = "auto",
    candidates: int = 32,
    names: Sequence[str] | None = None,
    seed: int = 0,
    memory: int | None = None,
    progress: Progress | None = None,
) -> Components:
    """Match the components of several runs, at most one per run, and report which of them recur.

    Components are matched over all runs at once. The sum of similarities within components is
    maximised by reassigning one run at a time, which reaches a local optimum (for two runs, the
    optimum). The similarity of a member is its mean cosine with its matches; the stability of a
    component is the mean over all pairs of its members.

    The chance level is the best match among equally many vectors that are unrelated to the member.
    For atoms it is the strictest of three null models, chosen for each member: random directions,
    in as many dimensions as the other runs' atoms fill around the member (in closed form); the
    other runs' entries permuted within atoms, which keeps their sparsity and heavy tails; and
    permuted within coordinates, so that a coordinate that is large in all atoms stays large. For
    activations, the rows of a run are shuffled.

    A component replicates if it has a member in every run and each of them is above chance, where
    the false discovery rate over all members is controlled by the step-up procedure of Benjamini
    and Hochberg; or, if a `threshold` is given, if each of them reaches it. In many dimensions
    "above chance" is a low bar: set a threshold to demand more.

    Parameters
    ----------
    runs : sequence or mapping
        Two or more runs, as a list or by name: arrays, tensors, data frames or paths
        (``"file.safetensors::decoder.weight"``).
        Atoms: dictionaries with the same number of coordinates; the number of atoms may differ.
        Activations: rows × components with the same rows; the number of components may differ.
    kind : {"atoms", "activations"}
        Compare atoms by their cosine, or columns by their correlation over the rows.
    axis : {"rows", "columns"}, optional
        Whether the atoms are rows (the default) or columns, as in PyTorch's linear decoders.
    signed : bool, optional
        Whether opposite vectors count as different. By default they do for atoms (dictionaries of
        sparse autoencoders) and do not for activations (axes of ICA). If they do not, each member
        gets one sign, which holds in all its pairs.
    threshold : float, optional
        The smallest similarity that every member must reach, instead of the chance level.
    fdr : float
        The false discovery rate, used if no threshold is given.
    assignment : {"auto", "dense", "sparse"}
        "dense" is the exact assignment with all similarities in memory; "sparse" considers only the
        nearest neighbours of each vector and bounds the loss; "auto" is dense if memory allows.
    candidates : int
        How many nearest neighbours a sparse assignment considers.
    names : sequence of str, optional
        Names of the runs.
    seed : int
        Seed for sampling the atoms behind the chance level and for shuffling rows.
    memory : int, optional
        Bytes of memory for similarities; half of the machine's memory by default.
    progress : callable, optional
        Called with (the current step, how much is done, the total).

    Returns
    -------
    Components

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> atoms = rng.normal(size=(40, 64))
    >>> runs = [(atoms + 0.3 * rng.normal(size=(40, 64)))[rng.permutation(40)] for _ in range(3)]
    >>> found = match_components(runs)
    >>> found.fraction, round(float(found.stability.mean()), 2)
    (1.0, 0.92)
    """
    _check(kind, axis, threshold, fdr)
    signed = kind == "atoms" if signed is None else signed
    room = default_memory() if memory is None else memory
    assigner = Assigner(signed, room, assignment, candidates)
    tell = progress or silent
    with ExitStack() as stack:
        tell("reading", 0, 1)
        sources = open_runs(runs, names, stack)
        if kind == "atoms":
            read = read_atoms(sources, axis or "rows", signed)
        else:
            read = read_activations(sources, room, signed)
        done = 0

        def assigned() -> None:
            nonlocal done
            done += 1
            tell("matching", done, max(done + 1, 2 * len(read)))

        vectors = [run.vectors for run in read]
        found, cosines = _ordered(vectors, match(vectors, assigner, assigned))
        there = found.index >= 0
        tell("pairs of runs", 0, 1)
        pw_mcc = pairwise_mcc(vectors, found, assigner)
        unique, unique_chance = uniqueness(vectors, signed, room)
        tell("chance", 0, 1)
        if kind == "atoms":
            nulls = [random_directions(read, found.index, signed, seed)]
            nulls += [permuted(read, found.index, signed, name, seed) for name in SCHEMES]
        else:
            nulls = [shuffled(read, signed, room, seed)]
    similarity = similarities(cosines, there)

    def chance(values: Array) -> Array:
        return largest(null.p_values(values) for null in nulls)

    p_values = np.where(there, chance(np.where(there, similarity, 0.0)), np.nan)
    cut = -1.0 if threshold is not None else discovery_cut(p_values[there], fdr)

    def passes(values: Array) -> Mask:
        values = np.where(np.isnan(values), -2.0, values)
        good = chance(values) <= cut if threshold is None else values >= threshold
        return np.asarray(good & (values > -2.0))

    sizes = [len(run.used) for run in read]
    good = passes(similarity)
    fraction = float(good.all(axis=1).sum() / min(sizes))
    numbers = np.stack([run.used[column] for run, column in zip(read, found.index.T)], axis=1)
    levels = np.where(there, largest(null.level for null in nulls), np.nan)
    reports = tuple(
        RunReport(
            run.name,
            run.atoms,
            run.dims,
            tuple(np.setdiff1d(np.arange(run.atoms), run.used).tolist()),
            run.tied,
            int(column.sum()),
            float(share),
        )
        for run, column, share in zip(read, there.T, unique)
    )
    tell("subspaces", 0, 1)
    span = None
    if kind == "atoms":
        recurring = found.index[good.all(axis=1)].T
        rest = [np.delete(run.matrix, members, axis=0) for run, members in zip(read, recurring)]
        span = shared_subspace(rest, seed)
    return Components(
        __version__,
        Settings(kind, signed, threshold, fdr, seed),
        reports,
        np.where(there, numbers, -1),
        found.sign,
        similarity,
        levels,
        p_values,
        good,
        np.nanmean(similarity, axis=1),
        stability_intervals(cosines, there),
        fraction,
        fraction_interval(cosines, there, sizes, passes, fraction),
        null_reports(nulls, similarity, fdr),
        pw_mcc,
        float(np.nanmean(levels)),
        float(unique.mean()),
        float(unique_chance.mean()),
        span,
        found.methods,
        found.gap,
        found.sweeps,
    )


def _check(kind: str, axis: str | None, threshold: float | None, fdr: float) -> None:
    if kind not in ("atoms", "activations"):
        raise InputError(f"kind is {kind!r}; choose 'atoms' or 'activations'")
    if axis is not None and kind == "activations":
        raise InputError("axis is for atoms; activations have their components in columns")
    if axis not in (None, "rows", "columns"):
        raise InputError(f"axis is {axis!r}; atoms lie in 'rows' or in 'columns'")
    if threshold is not None and not 0 <= threshold <= 1:
        raise InputError(f"threshold is {threshold}; expected a similarity from 0 to 1")
    if not 0 < fdr < 1:
        raise InputError(f"fdr is {fdr}; expected a rate between 0 and 1")


def _ordered(vectors: Sequence[Vectors], found: Matching) -> tuple[Matching, Array]:
    """Components with at least two members, the most stable first, and their `pair_cosines`.

    The first member of each component has a positive sign.
    """
    several = (found.index >= 0).sum(axis=1) > 1
    found = replace(found, index=found.index[several], sign=found.sign[several])
    cosines = pair_cosines(vectors, found)
    stability = np.nanmean(similarities(cosines, found.index >= 0), axis=1)
    order = np.argsort(-stability, kind="stable")
    index, sign = found.index[order], found.sign[order]
    first = sign[np.arange(len(sign)), np.argmax(index >= 0, axis=1)]
    return replace(found, index=index, sign=sign * first[:, None]), cosines[order]


def pair_cosines(runs: Sequence[Vectors], found: Matching) -> Array:
    """[c, r, s]: signed inner product of two members of a component; 0 if one is missing."""
    components, count = found.index.shape
    cosines = np.zeros((components, count, count))
    for r in range(count):
        for s in range(r):
            both = np.flatnonzero((found.index[:, [r, s]] >= 0).all(axis=1))
            products = paired(runs[r], runs[s], found.index[both, r], found.index[both, s])
            products *= found.sign[both, r] * found.sign[both, s]
            cosines[both, r, s] = cosines[both, s, r] = np.clip(products, -1.0, 1.0)
    return cosines


def similarities(cosines: Array, there: Mask) -> Array:
    """[c, r]: mean cosine with the other members; NaN where there is no member."""
    others = there.sum(axis=1, keepdims=True) - 1
    means = cosines.sum(axis=2) / np.maximum(others, 1)
    return np.where(there & (others > 0), means, np.nan)


def stability_intervals(cosines: Array, there: Mask) -> Array:
    """95 % intervals (components, 2), leaving out one run at a time; NaN below three members.

    Without run r the stability is the mean over the remaining pairs. This is `jackknife_interval`
    for all components at once.
    """
    from scipy.special import stdtrit

    members = there.sum(axis=1)
    pairs, own = cosines.sum(axis=(1, 2)), cosines.sum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = pairs / (members * (members - 1))
        rest = (pairs[:, None] - 2 * own) / ((members - 1) * (members - 2))[:, None]
        rest = np.where(there, rest, 0.0)
        spread = np.where(there, rest - (rest.sum(axis=1) / members)[:, None], 0.0)
        error = np.sqrt((members - 1) / members * np.square(spread).sum(axis=1))
        half = stdtrit(np.maximum(members - 1, 1), 0.975) * error
    ends = np.stack([np.maximum(value - half, -1.0), np.minimum(value + half, 1.0)], axis=1)
    return np.where((members > 2)[:, None], ends, np.nan)


def fraction_interval(
    cosines: Array,
    there: Mask,
    sizes: Sequence[int],
    passes: Callable[[Array], Mask],
    fraction: float,
) -> tuple[float, float] | None:
    """95 % interval of the share that replicates, by leaving out one run at a time."""
    runs = len(sizes)
    if runs < 3:
        return None
    without = []
    for left_out in range(runs):
        kept, part = there.copy(), cosines.copy()
        kept[:, left_out] = part[:, left_out] = False
        part[:, :, left_out] = 0.0
        good = passes(similarities(part, kept)) & kept
        good[:, left_out] = True
        rest = [size for run, size in enumerate(sizes) if run != left_out]
        without.append(good.all(axis=1).sum() / min(rest))
    low, high = jackknife_interval(fraction, np.array(without), floor=0.0)
    return low, min(high, 1.0)
