"""Do these rows look like those of the model that a map was fitted on?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from identikit._linalg import Array

#: Axes of a cloud whose variances are kept one by one; the others share their mean.
AXES = 32

#: Rows look like the target's if they are not far from it, and if the two log-likelihoods differ by
#: more than this per column and than so many standard errors. A copy in int8 differs from its model
#: by .002 per column; two models of the collections in `docs/predicting.md` differ by .7 and more.
MARGIN, ERRORS = 0.05, 3.0

#: Rows are far if their distance is so many times that of rows left out of the cloud's fit, and
#: displaced if their mean has moved by such a share of the cloud's own variance. Queries that are
#: compared to documents differ from them anyway (up to 2.2 and .4), and get more room.
FAR, FAR_QUERIES = 1.5, 2.5
DISPLACED, DISPLACED_QUERIES = 0.15, 0.5


@dataclass(frozen=True, eq=False)
class Cloud:
    """What the rows of one model look like: a Gaussian with a few axes of their own variance.

    Every other direction has the same variance, as in probabilistic principal components (Tipping
    and Bishop 1999), so that a cloud of a thousand columns stays small in a file.

    Attributes
    ----------
    model : dict of str
        What the user said about the model: its name, revision, prefix and so on.
    rows : int
        Rows that it was fitted on.
    mean : array (d,)
    axes : array (r, d)
        The leading principal axes.
    variances : array (r,)
        The variance along each of them.
    rest : float
        The variance along every other direction.
    typical : float
        The mean distance of rows that were left out of the fit.
    """

    model: dict[str, str]
    rows: int
    mean: Array
    axes: Array
    variances: Array
    rest: float
    typical: float = field(default=1.0)

    @property
    def name(self) -> str:
        """What to call the model in a sentence."""
        return self.model.get("model", "the model")

    @property
    def spread(self) -> float:
        """The total variance."""
        return float(self.variances.sum() + self.rest * (len(self.mean) - len(self.variances)))

    @property
    def fingerprint(self) -> str:
        """A digest of the moments, the same for the same rows."""
        digest = blake2b(f"{self.rows} {len(self.mean)} {self.rest:.9e} ".encode(), digest_size=8)
        for array in (self.mean, self.variances):
            digest.update(" ".join(f"{value:.9e}" for value in array).encode())
        return digest.hexdigest()

    def distances(self, rows: Array) -> Array:
        """The squared Mahalanobis distance of every row from the mean, per column."""
        gaps = rows - self.mean
        along = gaps @ self.axes.T
        beside = np.square(gaps).sum(axis=1) - np.square(along).sum(axis=1)
        inside = (np.square(along) / self.variances).sum(axis=1)
        return np.asarray((inside + np.maximum(beside, 0.0) / self.rest) / len(self.mean))

    def surprise(self, rows: Array) -> Array:
        """Minus twice the log-likelihood of every row per column, up to a constant."""
        others = len(self.mean) - len(self.variances)
        volume = float(np.log(self.variances).sum() + others * np.log(self.rest))
        return np.asarray(self.distances(rows) + volume / len(self.mean))


def cloud(rows: Array, model: Mapping[str, str] | None = None) -> Cloud:
    """Fit a cloud, with the typical distance of rows that had no part in a fit."""
    halves = rows[::2], rows[1::2]
    typical = _fitted(halves[0], {}).distances(halves[1]).mean()
    made = _fitted(rows, dict(model or {}))
    # Half as many rows were fitted here as there are in all: the truth lies between this and one.
    return Cloud(**{**made.__dict__, "typical": float((1 + typical) / 2)})


def _fitted(rows: Array, model: dict[str, str]) -> Cloud:
    from scipy.linalg import eigh

    n, width = rows.shape
    mean = rows.mean(axis=0)
    gaps = rows - mean
    covariance = gaps.T @ gaps / max(n - 1, 1)
    kept = max(0, min(AXES, (n - 1) // 4, width - 1))
    total = float(np.trace(covariance))
    variances, axes = np.zeros(0), np.zeros((0, width))
    if kept:
        variances, columns = eigh(covariance, subset_by_index=[width - kept, width - 1])
        axes = np.ascontiguousarray(columns.T)
    # A direction without variance would put every other row infinitely far away.
    floor = max(1e-6 * total / width, 1e-300)
    rest = max((total - float(variances.sum())) / (width - kept), floor)
    return Cloud(model, n, mean, axes, np.maximum(variances, floor), rest)


@dataclass(frozen=True)
class Look:
    """How rows compare with the clouds of a map: an error, a warning, or neither."""

    error: str = ""
    warning: str = ""


def look(
    rows: Array, source: Cloud, target: Cloud, queries: Cloud | None, *, side: str, name: str
) -> Look:
    """Compare rows with what the map was fitted on.

    Parameters
    ----------
    rows : array (n, p)
        Normalised as the map does it.
    source, target : Cloud
        Of the documents that the map was fitted on, in both models.
    queries : Cloud, optional
        Of queries in the source model.
    side : str
        Whether the map is for queries or for documents.
    name : str
        What to call the rows.
    """
    if len(source.mean) == len(target.mean):
        gap = source.surprise(rows) - target.surprise(rows)
        noise = float(gap.std(ddof=1)) / len(gap) ** 0.5 if len(gap) > 1 else 0.0
        near = float(target.distances(rows).mean()) <= FAR_QUERIES * target.typical
        if near and gap.mean() > MARGIN + ERRORS * noise:
            return Look(
                error=f"{name} looks like rows of {target.name}, which this map leads to, and not "
                f"like rows of {source.name}, which it starts from; it was fitted in the other "
                "direction: fit a map from the model of these rows"
            )
    compared = queries if side == "queries" and queries is not None else source
    loose = side == "queries" and queries is None
    far, displaced = (FAR_QUERIES, DISPLACED_QUERIES) if loose else (FAR, DISPLACED)
    distance = float(compared.distances(rows).mean()) / compared.typical
    gaps = rows.mean(axis=0) - compared.mean
    spread = max(compared.spread, 1e-300)
    moved = float(gaps @ gaps) / spread - 1 / len(rows) - 1 / compared.rows
    if distance <= far and moved <= displaced:
        return Look()
    what = "the queries" if compared is queries else "the documents"
    return Look(
        warning=f"{name} does not look like {what} that this map knows from {compared.name}: rows "
        f"are {distance:.3g} times as far from their mean, which has moved by {max(moved, 0):.2g} "
        "of their variance; is this another model, another kind of text, or a missing prefix?"
    )
