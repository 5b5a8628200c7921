"""Which views of an audit belong together: a tree of their errors, cut where the views part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.alignment import RUNGS

if TYPE_CHECKING:
    from identikit.auditing.result import Pair

#: The verdicts on a pair, from the strictest rung to none.
VERDICTS = (*RUNGS, "related", "unrelated")

#: A gap in the tree is clear if the height grows by this factor across it: the share of the
#: variance that is not explained then more than doubles.
CLEAR = 1.5

#: Gaps are about as wide as the widest if the logarithm of their factor is this share of its.
ABOUT = 2 / 3

Range = tuple[float, float]


@dataclass(frozen=True)
class Cluster:
    """Views that belong together, with what holds for all of their pairs.

    `group` is the loosest verdict on these pairs, `error` the smallest and the largest error, and
    `variance` the smallest and the largest share of the variance that is explained. All three are
    None for a view on its own.
    """

    views: tuple[str, ...]
    group: str | None
    error: Range | None
    variance: Range | None


@dataclass(frozen=True, eq=False)
class Clusters:
    """Which views of an audit belong together.

    The distance of two views is the error of their pair, at most 1, and 1 if they are unrelated or
    were not compared; it is at least the tolerance if they are not the same. Average linkage joins
    the views to a tree, whose branches are the clusters.

    Attributes
    ----------
    at_tolerance : tuple of Cluster
        The largest branches all of whose pairs are the same within the tolerance. Each view is in
        one of them, maybe on its own; larger clusters come first.
    at_gap : tuple of Cluster
        The branches below the widest gap in the tree: the largest ratio of two successive heights,
        where heights below the tolerance count as the tolerance, and 1, the height of views that
        share nothing, comes last. If others are about as wide (the logarithm of the ratio is two
        thirds of the largest or more), it is the highest of them. Empty if the gap is not clear,
        with a ratio below 1.5. A branch with an unrelated pair is divided further.
    gap : tuple of two floats or None
        The heights on both sides of that gap, if it is clear.
    order : tuple of str
        All views in the order of the leaves, in which no branches cross.
    tree : array (views − 1, 4)
        The linkage, as SciPy has it: the two branches that are joined, the height, the number of
        views. Branches below the number of views are views, in the order of the audit.
    coordinates : array (views, 2)
        The views in a plane, in the order of the audit, by classical scaling of the distances.
    in_plane : float
        The share of the squared distances that the plane shows.
    """

    at_tolerance: tuple[Cluster, ...]
    at_gap: tuple[Cluster, ...]
    gap: Range | None
    order: tuple[str, ...]
    tree: Array
    coordinates: Array
    in_plane: float

    @property
    def best(self) -> tuple[Cluster, ...]:
        """The clusters that answer the question: those at the gap, or else at the tolerance."""
        return self.at_gap or self.at_tolerance

    @property
    def alone(self) -> tuple[str, ...]:
        """The views that agree with none of the others: those on their own in `best`."""
        return tuple(name for one in self.best if len(one.views) == 1 for name in one.views)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "at_tolerance": [_plain(one) for one in self.at_tolerance],
            "at_gap": [_plain(one) for one in self.at_gap],
            "gap": None if self.gap is None else list(self.gap),
            "alone": list(self.alone),
            "order": list(self.order),
            "tree": self.tree.tolist(),
            "coordinates": self.coordinates.tolist(),
            "in_plane": self.in_plane,
        }


def clusters_of(names: Sequence[str], pairs: Sequence[Pair], tolerance: float) -> Clusters:
    """The clusters of all views of an audit.

    Parameters
    ----------
    names : sequence of str
        The views.
    pairs : sequence of Pair
        Their comparisons; a pair that is missing counts as unrelated.
    tolerance : float
        The largest error that counts as the same.
    """
    place = {name: number for number, name in enumerate(names)}
    at = {frozenset((place[pair.a], place[pair.b])): pair for pair in pairs}
    distances = np.ones((len(names), len(names))) - np.eye(len(names))
    for (i, j), pair in ((sorted(key), pair) for key, pair in at.items()):
        distances[i, j] = distances[j, i] = _distance(pair, tolerance)
    tree = _linkage(names, distances)
    members = _members(tree, len(names))

    def cluster(numbers: Sequence[int]) -> Cluster:
        inside = [at[key] for key in _keys(numbers)]
        views = tuple(names[number] for number in sorted(numbers))
        if not inside:
            return Cluster(views, None, None, None)
        errors, shares = ([getattr(p, what) for p in inside] for what in ("error", "variance"))
        return Cluster(
            views,
            max((pair.group for pair in inside), key=VERDICTS.index),
            (min(errors), max(errors)),
            (min(shares), max(shares)),
        )

    def cut(together: Callable[[float, Sequence[str]], bool]) -> tuple[Cluster, ...]:
        """The largest branches that belong together, by height and the relations of pairs."""

        def holds(branch: int) -> bool:
            height = 0.0 if branch < len(names) else float(tree[branch - len(names), 2])
            found = (at.get(key) for key in _keys(members[branch]))
            return together(height, ["unrelated" if p is None else p.relation for p in found])

        branches = [members[branch] for branch in _largest(tree, len(names), holds)]
        return tuple(map(cluster, sorted(branches, key=lambda some: (-len(some), min(some)))))

    gap = _gap(tree[:, 2], tolerance)
    coordinates, in_plane = _plane(distances)
    return Clusters(
        cut(lambda _, found: set(found) <= {"same"}),
        () if gap is None else cut(lambda h, found: h <= gap[0] and "unrelated" not in found),
        gap,
        tuple(names[number] for number in _leaves(tree, members, len(names))),
        tree,
        coordinates,
        in_plane,
    )


def _plain(cluster: Cluster) -> dict[str, Any]:
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(cluster).items()
    }


def _distance(pair: Pair, tolerance: float) -> float:
    """The error, at most 1; not below the tolerance for views that are not the same."""
    if pair.relation == "unrelated":  # its error may be small by the order of the rows alone
        return 1.0
    # A few rows may decide that an error is small.
    return min(pair.error if pair.relation == "same" else max(pair.error, tolerance), 1.0)


def _keys(numbers: Sequence[int]) -> Iterator[frozenset[int]]:
    for place, i in enumerate(numbers):
        for j in numbers[place + 1 :]:
            yield frozenset((i, j))


def _linkage(names: Sequence[str], distances: Array) -> Array:
    """The tree of average linkage, the same whatever the order of the views."""
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    # Where distances are equal, the tree depends on the order of the views: so they get one.
    by_name = np.array(sorted(range(len(names)), key=names.__getitem__))
    found = linkage(squareform(distances[np.ix_(by_name, by_name)], checks=False), "average")
    numbers = np.concatenate([by_name, np.arange(len(names), 2 * len(names) - 1)])
    found[:, :2] = np.sort(numbers[found[:, :2].astype(int)], axis=1)
    return np.asarray(found)


def _members(tree: Array, count: int) -> list[list[int]]:
    """The views of every branch: first each view on its own, then those of the joins."""
    members = [[number] for number in range(count)]
    for a, b in tree[:, :2].astype(int):
        members.append([*members[a], *members[b]])
    return members


def _largest(tree: Array, count: int, holds: Callable[[int], bool]) -> Iterator[int]:
    """The largest branches for which something holds; of those for which nothing does, views."""
    todo = [2 * count - 2]
    while todo:
        branch = todo.pop()
        if branch < count or holds(branch):
            yield branch
        else:
            todo += [int(part) for part in tree[branch - count, :2]]


def _gap(heights: Array, tolerance: float) -> Range | None:
    """The heights on both sides of the widest gap, or of the highest of those about as wide."""
    ends = [*heights.tolist(), 1.0]
    # A difference below the tolerance is none; at tolerance 0, rounding is still no difference.
    least = min(max(tolerance, 0.01), 1.0)
    widths = np.diff(np.log(np.clip(ends, least, 1.0)))
    clear = np.flatnonzero(widths >= max(np.log(CLEAR), ABOUT * widths.max()))
    if not len(clear):
        return None
    gap = int(clear[-1])
    return ends[gap], ends[gap + 1]


def _leaves(tree: Array, members: Sequence[Sequence[int]], count: int) -> list[int]:
    """The views from the first leaf to the last: of two branches, the larger one comes first."""
    order, todo = list[int](), [2 * count - 2]
    while todo:
        branch = todo.pop()
        if branch < count:
            order.append(branch)
            continue
        parts: list[int] = tree[branch - count, :2].astype(int).tolist()
        # The last one of the list is the next to be looked at.
        todo += sorted(parts, key=lambda part: (len(members[part]), -min(members[part])))
    return order


def _plane(distances: Array) -> tuple[NDArray[np.float64], float]:
    """Classical scaling to two dimensions (Torgerson 1952), and the share that they show."""
    count = len(distances)
    centre = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-0.5 * centre @ distances**2 @ centre)
    sizes = np.clip(values[::-1][:2], 0.0, None)
    axes = vectors[:, ::-1][:, :2]
    # Of each axis either direction would do: the view that is furthest out is on the positive side.
    furthest = np.abs(axes.round(9)).argmax(axis=0)
    axes = axes * np.where(axes[furthest, np.arange(axes.shape[1])] < 0, -1.0, 1.0)
    total = float(np.abs(values).sum())
    return axes * np.sqrt(sizes), float(sizes.sum()) / total if total else 1.0
