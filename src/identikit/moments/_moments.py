"""The sufficient statistics of stacked views, for each fold; they form a monoid under +."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from identikit._linalg import (
    Array,
    Whitening,
    eigh,
    inverse_or_zero,
    polar,
    rank_tolerance,
    rounding_shares,
    singular_values,
    standard_deviations,
    svd,
    thin_svd,
    whitening,
)
from identikit._threads import one_thread
from identikit.errors import InputError
from identikit.moments._distinct import Distinct
from identikit.moments._extremes import Extremes
from identikit.moments._folds import RULES
from identikit.moments._part import Part, StackLayout, merge, moved
from identikit.moments.memory import NARROW_PAIR
from identikit.moments.sample import RowSample

__all__ = ["Moments", "Shard"]

T = TypeVar("T")


@dataclass(frozen=True)
class Shard:
    """A set of rows that was read in one go: their number, and a digest of each view."""

    rows: int
    digests: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Moments:
    """Count, mean and centred scatter of k stacked views for each fold; ``a + b`` merges two.

    Compute them with `accumulate`. Methods use all folds by default, all folds but one with
    ``without=f``, and a single fold with ``only=f``.

    Parameters
    ----------
    names, eps : tuples
        The name of each view, and the machine epsilon of the type its numbers were stored in.
    layout : StackLayout
        The columns of each view, and the coordinates of the scatter. (An ill-conditioned view is
        stored in well-conditioned coordinates; the methods convert them.)
    parts : tuple of Part
        The statistics of each fold.
    sample : RowSample
        A few rows, for the measures that need rows.
    dropped : int
        Number of rows that were left out because of values that are not finite.
    shards : tuple of Shard
        The shards that were read, if digests were computed, so that none is counted twice.
    rule : str or None
        How rows were assigned to folds, a key of `RULES`; None if unknown.
    seed : int or None
        Seed of the row sample; None if unknown, or if merged moments had different seeds.
    extremes : Extremes or None
        The largest rows of each view; None if they were not kept.
    distinct : Distinct or None
        A sketch of the number of distinct rows; None if there is none that covers all rows.
    exponents : tuple of int
        For each view an exponent e: its numbers are stored in units of 2^e. Empty if all are 0,
        which is the case unless squares of the numbers exceed the range of float64 (`rescaled`).
    roomy : bool or None
        Whether there is memory to remember what is computed without each fold; by default, if no
        view is wider than 256.
    """

    names: tuple[str, ...]
    eps: tuple[float, ...]
    layout: StackLayout
    parts: tuple[Part, ...]
    sample: RowSample
    dropped: int = 0
    shards: tuple[Shard, ...] = ()
    rule: str | None = None
    seed: int | None = None
    extremes: Extremes | None = None
    distinct: Distinct | None = None
    exponents: tuple[int, ...] = ()
    roomy: bool | None = None
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False)  # of single views
    _pair: dict[Any, Any] = field(default_factory=dict, repr=False)  # of the last pair of views

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of columns of each view."""
        return self.layout.widths

    @property
    def keeps(self) -> bool:
        """Whether what is computed without a fold is remembered."""
        return max(self.widths) <= NARROW_PAIR if self.roomy is None else self.roomy

    @property
    def folds(self) -> int:
        """Number of folds."""
        return len(self.parts)

    @property
    def grouped(self) -> bool | None:
        """Whether folds are whole groups of rows; None if unknown."""
        return None if self.rule is None else self.rule == "groups"

    @property
    def rows(self) -> int:
        """Number of rows in all folds."""
        return self.n()

    def resolve(self, view: int | str) -> int:
        """The number of a view given by number or name."""
        if isinstance(view, str):
            if view not in self.names:
                raise InputError(f"no view is called {view!r}; there are {', '.join(self.names)}")
            return self.names.index(view)
        if not -len(self.names) <= view < len(self.names):
            raise InputError(f"there is no view {view}; the moments hold {len(self.names)} views")
        return view % len(self.names)

    def _chosen(self, without: int | None, only: int | None) -> list[Part]:
        return [
            part
            for fold, part in enumerate(self.parts)
            if part.count and fold != without and only in (None, fold)
        ]

    def __repr__(self) -> str:
        views = ", ".join(f"{name!r} ({width})" for name, width in zip(self.names, self.widths))
        return f"Moments({views}; {self.rows:,} rows in {self.folds} folds)"

    def n(self, without: int | None = None, only: int | None = None) -> int:
        """Number of rows."""
        return sum(part.count for part in self._chosen(without, only))

    def centre(self, view: int, without: int | None = None, only: int | None = None) -> Array:
        """Mean of a view."""
        columns, n = self.layout.columns[view], self.n(without, only)
        centre = np.zeros(self.widths[view])
        for part in self._chosen(without, only):
            centre += (part.count / n) * part.mean[columns]
        return centre

    def for_pair(self) -> Moments:
        """The same moments with their own memory of a pair of views, for a thread that compares it.

        What is computed of single views is shared with all other threads.
        """
        return replace(self, _pair={})

    def of_pair(self, name: str, i: int, j: int, compute: Callable[[], T]) -> T:
        """A result for two views, computed once; only those of the last pair are kept."""
        views = (min(i, j), max(i, j))
        if self._pair.get("views") != views:
            self._pair.clear()
            self._pair["views"] = views
        if (name, i, j) not in self._pair:
            self._pair[name, i, j] = compute()
        result: T = self._pair[name, i, j]
        return result

    def of_view(self, name: str, view: int, compute: Callable[[], T]) -> T:
        """A result for one view, computed once."""
        if (name, view) not in self._cache:
            self._cache[name, view] = compute()
        result: T = self._cache[name, view]
        return result

    def _stored(self, i: int, j: int, without: int | None = None, only: int | None = None) -> Array:
        """Scatter block in the stored coordinates: within folds, plus between their means."""
        if only is not None:
            return self._pooled(i, j, without, only)
        if without is not None:
            return self.without(without)._stored(i, j)
        if i == j:
            return self.of_view("block", i, lambda: self._pooled(i, i, None, None))
        return self.of_pair("block", i, j, lambda: self._pooled(i, j, None, None))

    def _pooled(self, i: int, j: int, without: int | None, only: int | None) -> Array:
        parts, a, b = self._chosen(without, only), self.layout.columns[i], self.layout.columns[j]
        if not parts:
            return np.zeros((self.widths[i], self.widths[j]))
        if len(parts) == 1:
            return parts[0].scatter[a, b]
        left = np.stack([part.mean[a] for part in parts]) - self.centre(i, without, only)
        right = np.stack([part.mean[b] for part in parts]) - self.centre(j, without, only)
        if self.layout.roots is not None:
            left, right = left @ self.layout.inverses[i], right @ self.layout.inverses[j]
        block: Array = (left.T * [part.count for part in parts]) @ right
        for part in parts:
            block += part.scatter[a, b]
        return block

    def block(self, i: int, j: int, without: int | None = None, only: int | None = None) -> Array:
        """Centred scatter ``X_iᵀ X_j``, in the views' own coordinates."""
        block, roots = self._stored(i, j, without, only), self.layout.roots
        return block if roots is None else roots[i].T @ block @ roots[j]

    def scales(self, view: int, without: int | None = None) -> Array:
        """Root of the diagonal of a view's scatter; 0 for a constant column."""
        if without is not None:
            return self.without(without).scales(view)
        return self.of_view("scales", view, lambda: self._scales(view))

    def _scales(self, view: int) -> Array:
        block = self._stored(view, view)
        diagonal = np.diagonal(block)
        if self.layout.roots is not None:
            root = self.layout.roots[view]
            diagonal = np.einsum("ij,ij->j", root, block @ root)
        return standard_deviations(diagonal, self.centre(view), self.rows, self.eps[view])

    def varies(self, view: int) -> bool:
        """Whether the rows of a view differ by more than the rounding of their mean."""
        return bool(self.scales(view).any())

    def correlations(self, i: int, j: int) -> Array:
        """Pearson correlation of every column of view i with every column of view j."""
        left, right = inverse_or_zero(self.scales(i)), inverse_or_zero(self.scales(j))
        return self.block(i, j) * left[:, None] * right

    def principal(self, view: int) -> tuple[Array, Array]:
        """Eigenvalues of a view's scatter, largest first, and its principal axes in columns."""
        return self.of_view("principal", view, lambda: eigh(self.block(view, view)))

    def without(self, fold: int) -> Rest:
        """The moments of all folds but one, cached for the next pair of views.

        The row sample does not store folds, so that a random part of the same share is left out.
        """
        if (key := ("without", fold)) in self._pair:
            rest: Rest = self._pair[key]
            return rest
        rest = Rest(
            self.names,
            self.eps,
            self.layout,
            self.parts[:fold] + self.parts[fold + 1 :],
            self.sample.without(fold, self.folds, keep=self.keeps),
            rule=self.rule,
            exponents=self.exponents,
            roomy=self.keeps,
            _cache=self._cache.setdefault(key, {}),  # of single views: shared by all pairs
        )
        if "views" in self._pair:
            self._pair[key] = rest
        return rest

    def sample_of(self, view: int) -> Array:
        """The stored row sample of one view."""
        return self.sample.rows[:, self.layout.columns[view]]

    def whiten(self, view: int, without: int | None = None) -> Whitening:
        """Rank-aware whitening of a view, in the *stored* coordinates."""
        if without is not None:
            return self.without(without).whiten(view)
        return self.of_view("whiten", view, lambda: self._whiten(view))

    def _whiten(self, view: int) -> Whitening:
        n, eps, scales = self.rows, self.eps[view], self.scales(view)
        return whitening(
            self._stored(view, view),
            None if self.layout.roots is None else self.layout.roots[view],
            scales,
            rank_tolerance(n, self.widths[view], eps),
            rounding_shares(self.centre(view), scales, n, eps),
        )

    def whitening_map(self, view: int, without: int | None = None) -> Array:
        """W such that ``X @ W`` has orthonormal columns (X centred), in the view's coordinates."""
        stored = self.whiten(view, without).map
        return stored if self.layout.roots is None else self.layout.inverses[view] @ stored

    def loadings(self, view: int, without: int | None = None) -> Array:
        """``UᵀX``: the centred view in its whitened coordinates (rank × width)."""
        if without is not None:
            return self.without(without).loadings(view)
        return self.of_view("loadings", view, lambda: self._from_white(view, view, self))

    def coherence(
        self, i: int, j: int, without: int | None = None, only: int | None = None
    ) -> Array:
        """``U_iᵀ U_j`` of the whitened views; its singular values are the canonical correlations.

        With `only`, the views are whitened on all folds but `without`, and the sum is over that
        single fold.
        """
        white = self._but(without)
        if only is None:
            return white.of_pair("coherence", i, j, lambda: white._to_white(i, j, white))
        if i == j:
            name = _of_fold("coherence", only)
            return white.of_view(name, i, lambda: self._to_white(i, i, white, only))
        return self._to_white(i, j, white, only)

    def from_white(
        self, i: int, j: int, without: int | None = None, only: int | None = None
    ) -> Array:
        """``WᵀX_iᵀX_j`` with view i whitened on all folds but `without`.

        The sum is over the same folds, or over the fold `only`.
        """
        white = self._but(without)
        rows = white if only is None else self
        return white.of_pair(
            _of_fold("from white", only), i, j, lambda: rows._from_white(i, j, white, only)
        )

    def _but(self, fold: int | None) -> Moments:
        return self if fold is None else self.without(fold)

    def _from_white(self, i: int, j: int, white: Moments, only: int | None = None) -> Array:
        left, roots, block = white.whiten(i).map, self.layout.roots, self._stored(i, j, None, only)
        with one_thread(max(block.shape)):
            product: Array = left.T @ block
            return product if roots is None else product @ roots[j]

    def _to_white(self, i: int, j: int, white: Moments, only: int | None = None) -> Array:
        """``WᵀX_iᵀX_jW`` with the views whitened on other folds."""
        right = white.whiten(j).map
        with one_thread(max(self.widths[i], self.widths[j])):
            if self.layout.roots is not None or i == j:
                return white.whiten(i).map.T @ self._stored(i, j, None, only) @ right
            half = white.of_pair(
                _of_fold("from white", only), i, j, lambda: self._from_white(i, j, white, only)
            )
            return half @ right

    def canonical(self, i: int, j: int) -> tuple[Array, Array, Array]:
        """Thin SVD of the coherence: canonical directions of view i, correlations, those of j.

        The directions are in whitened coordinates.
        """
        # With fewer rows than directions many correlations are 1, and their directions arbitrary.
        free = self.whiten(i).rank + self.whiten(j).rank < self.rows
        decompose = thin_svd if free else svd
        return self.of_pair("canonical", i, j, lambda: decompose(self.coherence(i, j)))

    def canonical_correlations(self, i: int, j: int) -> Array:
        """Singular values of the coherence, without the directions."""
        return singular_values(self.coherence(i, j))

    def polar(self, i: int, j: int) -> Array:
        """UVᵀ of the cross-scatter UΣVᵀ: the rotation that solves the Procrustes problem."""
        return self.of_pair("polar", i, j, lambda: polar(self.block(i, j)))

    def nuclear_norm(self, i: int, j: int) -> float:
        """The sum of the singular values of the cross-scatter, over the norms of both views."""
        sizes = [np.sqrt(np.trace(self.block(view, view))) for view in (i, j)]
        return float(singular_values(self.block(i, j) / sizes[0] / sizes[1]).sum())

    def norm_products(self) -> Array:
        """[i, j] = Σ ‖x_i‖² ‖x_j‖² over all rows, centred on the overall means."""
        if "norms" not in self._cache:
            parts, n = self._chosen(None, None), self.rows
            centre = sum((part.count / n) * part.mean for part in parts)
            self._cache["norms"] = sum(
                moved(part, part.mean - centre, self.layout)[1] for part in parts
            )
        products: Array = self._cache["norms"]
        return products

    def __add__(self, other: Moments) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        if self.widths != other.widths or self.folds != other.folds:
            raise InputError(
                f"these moments do not fit together: widths {self.widths} and {other.widths}, "
                f"{self.folds} and {other.folds} folds; widths and folds must be the same"
            )
        if self.rule is not None and other.rule is not None and self.rule != other.rule:
            raise InputError(
                f"these moments do not fit together: the folds of one are {RULES[self.rule]}, "
                f"those of the other {RULES[other.rule]}; read both in the same way, with groups "
                "or without"
            )
        from identikit.moments._changes import in_layout, with_exponents

        if any(self.exponents) or any(other.exponents):
            tops = [max(both) for both in zip(self.units, other.units)]
            if tops != list(self.units) or tops != list(other.units):
                return with_exponents(self, tops) + with_exponents(other, tops)
        if self.layout.roots is None and other.layout.roots is not None:
            return replace(other + self, names=self.names)
        twice = set(self.shards) & set(other.shards)
        if twice:
            raise InputError(
                f"these moments share {len(twice)} shard(s), the first of "
                f"{min(shard.rows for shard in twice)} rows, whose rows would be counted twice; "
                "merge each shard once"
            )
        other = in_layout(other, self.layout)
        whole = None not in (self.distinct, other.distinct)
        merged = Moments(
            self.names,
            tuple(max(pair) for pair in zip(self.eps, other.eps)),
            self.layout,
            tuple(merge(a, b, self.layout) for a, b in zip(self.parts, other.parts)),
            self.sample + other.sample,
            self.dropped + other.dropped,
            self.shards + other.shards,
            self.rule if self.rule == other.rule else None,
            self.seed if self.seed == other.seed else None,
            distinct=self.distinct + other.distinct if whole else None,  # type: ignore[operator]
            exponents=self.exponents,
        )
        return replace(merged, extremes=merged._larger(self.extremes, other.extremes))

    def _larger(self, a: Extremes | None, b: Extremes | None) -> Extremes | None:
        """The largest rows among those that the two merged moments have kept."""
        if a is None or b is None:
            return b if a is None else a
        centre = np.concatenate([self.centre(view) for view in range(len(self.names))])
        return a.merged(b, centre, self.layout, self.rows)

    @property
    def units(self) -> tuple[int, ...]:
        """The exponent of each view, even if all are 0."""
        return self.exponents or (0,) * len(self.names)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Write a ``.moments`` file atomically, including the row sample if there is one."""
        from identikit.moments._file import save_moments

        save_moments(self, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Moments:
        """Read a file that `save` wrote; everything in it is checked before it is used."""
        from identikit.moments._file import load_moments

        return load_moments(path)


@dataclass(frozen=True, eq=False)
class Rest(Moments):
    """The moments of all folds but one, for the jackknife; see `Moments.without`."""

    def canonical_correlations(self, i: int, j: int) -> Array:
        """Those of `canonical`, because other measures need the directions too."""
        return self.canonical(i, j)[1]

    def nuclear_norm(self, i: int, j: int) -> float:
        """By `polar`, because the ladder needs that rotation too."""
        sizes = [np.sqrt(np.trace(self.block(view, view))) for view in (i, j)]
        return float(np.vdot(self.polar(i, j), self.block(i, j) / sizes[0] / sizes[1]))

    def release(self) -> None:
        """Free all but the whitenings if there is no room, as the next fold needs the memory."""
        if not self.keeps:
            self._pair.clear()
            for key in [key for key in self._cache if key[0] not in ("whiten", "scales")]:
                del self._cache[key]


def _of_fold(name: str, only: int | None) -> str:
    return name if only is None else f"{name} of fold {only}"
