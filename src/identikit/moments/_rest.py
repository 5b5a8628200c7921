"""Moments of all folds but one: what a jackknife looks at."""

from __future__ import annotations

from dataclasses import dataclass

from identikit._linalg import Array
from identikit.moments._moments import Moments
from identikit.moments.memory import NARROW_PAIR


@dataclass(frozen=True, eq=False)
class Rest(Moments):
    """Moments that are kept a fold."""

    def _stored(self, i: int, j: int, without: int | None = None, only: int | None = None) -> Array:
        if i != j or without is not None or only is not None:
            return super()._stored(i, j, without, only)
        own: dict[int, Array] = self._cache.setdefault("own", {})
        if i not in own:
            if len(own) > 1:  # of the last pair
                del own[next(iter(own))]
            own[i] = self._pooled(i, i, None, None)
        return own[i]

    def canonical_correlations(self, i: int, j: int) -> Array:
        """Those of `canonical`, since others need the directions too."""
        return self.canonical(i, j)[1]

    def release(self) -> None:
        """Forget all but the whitenings, if views are wide: the next fold needs the room."""
        if max(self.widths) > NARROW_PAIR:
            for key in [key for key in self._cache if key[0] not in ("whiten", "scales")]:
                del self._cache[key]
