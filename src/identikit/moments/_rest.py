"""Moments of all folds but one: what a jackknife looks at."""

from __future__ import annotations

from dataclasses import dataclass

from identikit._linalg import Array, eigh, svd
from identikit.moments._memory import NARROW_PAIR
from identikit.moments._moments import Moments


@dataclass(frozen=True, eq=False)
class Rest(Moments):
    """Moments that are kept a fold: of wide views they keep the whitenings and nothing else."""

    def _stored(self, i: int, j: int, without: int | None = None, only: int | None = None) -> Array:
        if max(self.widths[i], self.widths[j]) > NARROW_PAIR:
            return self._pooled(i, j, without, only)
        if i != j or without is not None or only is not None:
            return super()._stored(i, j, without, only)
        own: dict[int, Array] = self._cache.setdefault("own", {})
        if i not in own:
            if len(own) > 1:  # of the last pair
                del own[next(iter(own))]
            own[i] = self._pooled(i, i, None, None)
        return own[i]

    def principal(self, view: int) -> tuple[Array, Array]:
        """Eigenvalues of a view's scatter, largest first, and its principal axes in columns."""
        if self.widths[view] > NARROW_PAIR:
            return eigh(self.block(view, view))
        return super().principal(view)

    def canonical(self, i: int, j: int) -> tuple[Array, Array, Array]:
        """Thin SVD of the coherence: canonical directions of view i whitened, r, those of j."""
        if max(self.widths[i], self.widths[j]) > NARROW_PAIR:
            return svd(self.coherence(i, j))
        return super().canonical(i, j)

    def canonical_correlations(self, i: int, j: int) -> Array:
        """Those of `canonical`, where that is kept: others need the directions too."""
        if max(self.widths[i], self.widths[j]) > NARROW_PAIR:
            return super().canonical_correlations(i, j)
        return self.canonical(i, j)[1]
