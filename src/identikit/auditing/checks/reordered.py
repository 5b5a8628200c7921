"""Are the rows the same in another order?

Both statistics compare rows that could be partners with rows that cannot, so neither needs a
pairing of the rows, or a model of independent views.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import GRAM_FLOOR, Array, svd
from identikit.auditing._evidence import Answer, Evidence
from identikit.auditing._verdict import UNRELATED

#: The fewest and the most rows for which the check is made; it uses all rows.
FEWEST, MOST = 60, 2000

#: The numbers of standard deviations above which the two statistics are beyond chance.
TWINS, PARTNERS = 5.0, 8.0

#: Numbers of leading whitened principal axes in which distances between rows are compared, besides
#: all axes unwhitened; and numbers of components of the distance profiles that are compared.
SPACES, COMPONENTS = (5, 20), (4, 10)

#: Quantiles of the distances of a row from all others that make up its profile.
QUANTILES: Array = np.sin(np.linspace(0, np.pi / 2, 26)[1:-1]) ** 2

#: Axes along which partners are searched for, and following axes in which they are compared.
LEAD, REST = 3, 20

#: Neighbours whose mean is subtracted, rounds in which a rotation is fitted, the least number of
#: rows among which partners are exchanged, and the number of exchanges.
NEAR, ROUNDS, CELL, DRAWS = 12, 4, 8, 40

#: The least share of the later axes that the leading ones must leave unexplained, measured by half
#: the squared distance of nearest neighbours divided by the variance. Independent samples of the
#: same surface that would fail the check are below this share, and other views are above it.
UNEXPLAINED = 0.75


def check(evidence: Evidence, threshold: float = 1.0) -> Answer | None:
    """The larger of two statistics, each divided by a level that chance does not reach.

    `twins` detects exact maps, and rotations with an error of up to 0.1; `partners` detects
    rotations with an error of up to 0.3, if the variances along the leading axes differ. By
    simulation (tests/test_reordered.py), of 1200 pairs of independent views that are Gaussian,
    heavy-tailed, uniform, sparse, in classes or curved, with 100 to 600 rows and 2 to 100 columns,
    none is above 1. Views that share only some information, such as different features of the same
    wells, may go undetected.
    """
    if evidence.group != UNRELATED or min(evidence.cca.ranks) < 2:
        return None
    views = [_rows(evidence, view) for view in evidence.views]
    if any(rows is None or len(rows) < FEWEST for rows in views):
        return None
    x, y = (
        _scores(evidence, v, rows) for v, rows in zip(evidence.views, views) if rows is not None
    )
    value = twins(x, y) / TWINS
    if value <= threshold:
        value = max(value, partners(x, y) / PARTNERS)
    a, b = (evidence.name(view) for view in evidence.views)
    return Answer(
        value,
        threshold,
        value <= threshold,
        f"in the given order views {a} and {b} are unrelated, but rows of one have partners among "
        "the rows of the other: the rows may be in another order; pair them by id with --id "
        "(ids=).",
    )


def _rows(evidence: Evidence, view: int) -> Array | None:
    """All finite rows of a view, if there are few enough and they are available."""
    moments = evidence.moments
    if moments.rows <= len(moments.sample.keys):
        return moments.sample_of(view)
    if evidence.context.rows is None or moments.rows > MOST:
        return None
    rows: Array = evidence.context.rows(view).astype(np.float64)
    finite: Array = rows[np.isfinite(rows.sum(axis=1))]
    return finite


def _scores(evidence: Evidence, view: int, rows: Array) -> Array:
    """The rows along the principal axes of their view, without those that are rounding error."""
    values, axes = evidence.moments.principal(view)
    kept = values > GRAM_FLOOR * values[0]
    scores: Array = (rows - evidence.moments.centre(view)) @ axes[:, kept]
    return scores


def twins(x: Array, y: Array) -> float:
    """How many more rows than by chance have a twin in the other view, in standard deviations.

    The sorted distances of a row from all others, its profile, do not depend on the order of the
    rows, and no rotation changes them; in whitened coordinates, no affine map does. If the rows of
    the views are the same, each profile has a twin in the other view, which is nearer than its
    neighbours in its own view. If they are independent samples of the same distribution, the
    nearest profile is in the other view with probability ½, and if the distributions differ, with
    less: the smaller share of the two views counts.

    Parameters
    ----------
    x, y : array (n, k)
        Scores along the principal axes, largest first.
    """
    most = -np.inf
    ranks = min(x.shape[1], y.shape[1])
    for size in (None, *SPACES):
        if size is None or size == SPACES[0] or ranks > SPACES[0]:
            a, b = (profiles(_space(view, size)) for view in (x, y))
            both = np.concatenate([a, b])
            values, axes = np.linalg.eigh(both.T @ both / len(both))
            for m in COMPONENTS:
                whiten = axes[:, -m:] / np.sqrt(np.maximum(values[-m:], 1e-9))
                share = min(_nearer(a @ whiten, b @ whiten), _nearer(b @ whiten, a @ whiten))
                most = max(most, 2 * (share - 0.5) * np.sqrt(min(len(a), len(b))))
    return float(most)


def _space(scores: Array, size: int | None) -> Array:
    unit: Array = np.sqrt(np.square(scores).sum(keepdims=True) / len(scores))
    result: Array = scores[:, :size] / (unit if size is None else scores[:, :size].std(axis=0))
    return result


def profiles(scores: Array) -> Array:
    """Quantiles of the distances of each row from all others, in units of their spread."""
    scores = scores.astype(np.float32)
    squares = np.einsum("ij,ij->i", scores, scores)
    distances = squares[:, None] + squares - 2 * (scores @ scores.T)
    distances.sort(axis=1)
    places = 1 + np.round(QUANTILES * (len(scores) - 2)).astype(int)
    chosen = np.sqrt(np.maximum(distances[:, places], 0.0)).astype(np.float64)
    chosen = np.log(chosen + 1e-3 * np.median(chosen))
    chosen -= chosen.mean(axis=0)
    spread = chosen.std(axis=0)
    result: Array = chosen / np.where(spread > 0, spread, 1.0)
    return result


def _nearer(a: Array, b: Array) -> float:
    """Share of the rows of a that are nearer to one of b than to another of a; ties count half."""
    within, across = _squared(a, a), _squared(a, b)
    np.fill_diagonal(within, np.inf)
    own, other = (np.maximum(each.min(axis=1), 0.0) for each in (within, across))
    same = np.abs(own - other) <= 1e-6 * np.maximum(own, other) + 1e-12
    return float(np.where(same, 0.5, other < own).mean())


def _squared(a: Array, b: Array) -> Array:
    """Squared distances of all rows, up to rounding."""
    squares: Array = (-2 * a) @ b.T
    squares += np.square(a).sum(axis=1)[:, None]
    squares += np.square(b).sum(axis=1)
    return squares


def partners(x: Array, y: Array, seed: int = 0) -> float:
    """How well rows that match along the leading axes agree in the others, in standard deviations.

    The three leading axes of one view are rotated to those of the other, starting from all eight
    choices of signs, by alternately matching each row with the nearest one and fitting a rotation
    (ICP: Besl and McKay 1992). The following axes are not used for that. In these, the mean of each
    row's neighbours along the leading axes is subtracted, and T = ‖AᵀB‖² of the remainders shows
    whether matched rows agree. T is compared with its values after matches are exchanged among rows
    nearby, which are as good as the original matches unless some of those are the very same row.

    If the leading axes determine the others, rows nearby agree in any case, and the result is −∞.

    Parameters
    ----------
    x, y : array (n, k)
        Scores along the principal axes, largest first.
    seed : int
        The seed of the exchanges.
    """
    from scipy.spatial import cKDTree

    most, rng = -np.inf, np.random.default_rng(seed)
    if min(x.shape[1], y.shape[1]) < LEAD + 2:
        return most
    lead, rest = zip(*(_split(view) for view in (x, y)))
    left, right = (_unexplained(*both) for both in zip(lead, rest))
    if left is None or right is None:
        return most
    tree = cKDTree(lead[1])
    for signs in product((1.0, -1.0), repeat=LEAD):
        turned = lead[0] * signs
        for _ in range(ROUNDS):
            matched = np.asarray(tree.query(turned)[1])
            u, _, v = svd(lead[0].T @ lead[1][matched])
            turned = lead[0] @ (u @ v)
        matched = np.asarray(tree.query(turned)[1])
        cells = _cells(turned)
        nearby = np.argsort(cells, kind="stable")
        agreed, by_chance = _agreement(left, right[matched]), []
        for _ in range(DRAWS):
            exchanged = np.empty_like(matched)
            exchanged[nearby] = matched[np.lexsort((rng.random(len(cells)), cells))]
            by_chance.append(_agreement(left, right[exchanged]))
        spread = max(float(np.std(by_chance)), 1e-300)
        most = max(most, (agreed - float(np.mean(by_chance))) / spread)
    return float(most)


def _split(scores: Array) -> tuple[Array, Array]:
    """The leading axes and the following ones, at unit variance."""
    white = scores[:, : LEAD + REST] / scores[:, : LEAD + REST].std(axis=0)
    return white[:, :LEAD], white[:, LEAD:]


def _unexplained(lead: Array, rest: Array) -> Array | None:
    """The rest less its mean over neighbours along the leading axes, each row at unit length."""
    from scipy.spatial import cKDTree

    near = np.asarray(cKDTree(lead).query(lead, k=NEAR + 1)[1])[:, 1:]
    # Only the nearest neighbour is used, since with few rows the others are far away.
    if np.square(rest - rest[near[:, 0]]).sum() < 2 * UNEXPLAINED * np.square(rest).sum():
        return None
    left = rest - rest[near].mean(axis=1)
    lengths = np.sqrt(np.square(left).sum(axis=1, keepdims=True))
    left /= np.where(lengths > 0, lengths, 1.0)
    result: Array = left - left.mean(axis=0)
    return result


def _agreement(a: Array, b: Array) -> float:
    return float(np.square(a.T @ b).sum())


def _cells(points: Array) -> NDArray[np.intp]:
    """A cell number for each point, by repeated halving into cells of 8 to 15 nearby points."""
    numbers, left, count = np.zeros(len(points), dtype=np.intp), [np.arange(len(points))], 0
    while left:
        some = left.pop()
        if len(some) < 2 * CELL:
            numbers[some] = count
            count += 1
            continue
        axis = int(np.argmax(points[some].var(axis=0)))
        some = some[np.argsort(points[some, axis], kind="stable")]
        left += [some[: len(some) // 2], some[len(some) // 2 :]]
    return numbers
