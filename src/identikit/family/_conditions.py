"""Two rank conditions under which cross-entropy on clusters of a sphere identifies the latents.

Classes c have unit vectors v_c, and p(z|c) ∝ exp(κ v_cᵀz) on the sphere. A classifier with the
right distribution has β (w_i − w_k)ᵀ h(z) = κ (v_i − v_k)ᵀ z, so that the linear map h exists and
is invertible if the differences of the v_c span R^d (Reizinger et al. 2025, assumption 1). With the
rows of W normalised and f free (case C3), h = (κ/β) O needs more: all w_c = M v_c + b are unit
vectors exactly if the v_c lie on the quadric |M v + b| = 1, so M must be orthogonal if and only if
the sphere is the only quadric through the v_c.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array, span, triangle
from identikit.errors import InputError
from identikit.family._reading import matrix

#: The rungs that theory guarantees for latents and for weights if f and w are normalised (C1), only
#: f (C2), only w (C3) or neither (C4), and for classes instead of instances. The theorem says
#: nothing about the weights of a supervised head.
CASES: dict[str, tuple[str, str | None]] = {
    "C1": ("rigid", "rigid"),
    "C2": ("rigid", "similarity"),
    "C3": ("similarity", "rigid"),
    "C4": ("linear", "affine"),
    "supervised": ("linear", None),
}
#: How far the norm of a unit vector may be from 1: far above the rounding errors of float32.
UNIT = 1e-4


@dataclass(frozen=True)
class Rank:
    """A rank, the rank that is needed, and a sentence that says what this means."""

    rank: int
    needed: int
    sentence: str

    @property
    def ok(self) -> bool:
        """Whether the rank is as large as needed."""
        return self.rank == self.needed

    @property
    def missing(self) -> int:
        """By how much the rank is too small."""
        return self.needed - self.rank


@dataclass(frozen=True)
class Rungs:
    """The rungs up to which latents and weights are identified; None if there is no guarantee.

    `ok` is whether the guarantee of the case itself holds, and `why` says which condition is met or
    missing.
    """

    latents: str | None
    weights: str | None
    ok: bool
    why: str


@dataclass(frozen=True)
class SphereConditions:
    """The conditions on the class vectors of a sphere: see `sphere_conditions`.

    All cases need `affine`, and case C3 needs `quadric` as well. `paper` is the weaker condition
    that is printed for C3 (assumption 5). It may hold or fail depending on a rotation of the v_c,
    so it is reported but not used.
    """

    affine: Rank
    quadric: Rank
    paper: Rank

    def identified(self, case: str) -> Rungs:
        """What a learner identifies at its optimum, and why.

        Parameters
        ----------
        case : {"C1", "C2", "C3", "C4", "supervised"}
            Whether f and w are normalised (C1), only f (C2), only w (C3), or neither.
        """
        if case not in CASES:
            raise InputError(f"there is no case {case!r}; choose one of {', '.join(CASES)}")
        if not self.affine.ok:
            return Rungs(None, None, False, self.affine.sentence)
        if case == "C3" and not self.quadric.ok:
            # C3 is a special case of C4, whose guarantee still holds.
            return Rungs(*CASES["C4"], False, self.quadric.sentence)
        why = self.quadric.sentence if case == "C3" else self.affine.sentence
        return Rungs(*CASES[case], True, why)


def sphere_conditions(vectors: ArrayLike) -> SphereConditions:
    """Check the rank conditions on the class vectors for identification on the sphere.

    Parameters
    ----------
    vectors : array (C, d)
        The unit vectors v_c, one per row.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> v = rng.normal(size=(19, 5))
    >>> found = sphere_conditions(v / np.linalg.norm(v, axis=1, keepdims=True))
    >>> found.affine.ok, found.paper.ok, (found.quadric.rank, found.quadric.needed)
    (True, True, (19, 20))
    >>> found.identified("C1").latents, found.identified("C3").latents
    ('rigid', 'linear')
    """
    v, eps = _vectors(vectors)
    norms = np.linalg.norm(v, axis=1)
    worst = int(np.abs(norms - 1).argmax())
    if abs(norms[worst] - 1) > UNIT:
        raise InputError(
            f"row {worst} of the vectors has norm {norms[worst]:.6g}; class vectors on a sphere "
            "must have norm 1: divide each row by its norm"
        )
    paper = np.column_stack([v * v, v])
    rank, needed = _rank(paper, eps), paper.shape[1]
    said = f"the rows [v_c², v_c] have rank {rank} of {needed}, the condition printed for case C3"
    return SphereConditions(affine_rank(vectors), quadric_rank(vectors), Rank(rank, needed, said))


def affine_rank(vectors: ArrayLike) -> Rank:
    """Rank of the differences v_c − v_a, out of d: are the v_c an affine generator system?

    Parameters
    ----------
    vectors : array (C, d)
        The class vectors, one per row.
    """
    v, eps = _vectors(vectors)
    classes, d = v.shape
    rank = _rank(v - v.mean(axis=0), eps)
    if rank == d:
        says = f"the differences of the {classes} class vectors span all {d} dimensions"
    else:
        says = (
            f"the differences of the {classes} class vectors span {rank} of {d} dimensions, so "
            f"{d - rank} dimensions of the latents are not identified; at least {d + 1} classes "
            "are needed, with vectors that do not lie in a common hyperplane"
        )
    return Rank(rank, d, says)


def quadric_rank(vectors: ArrayLike) -> Rank:
    """Rank of the rows [v_i v_j for i ≤ j, v_i], out of d(d+3)/2: is only the sphere a quadric?

    The rank is full if and only if the sphere is the only quadric through the class vectors.

    Parameters
    ----------
    vectors : array (C, d)
        Unit vectors, one per row.
    """
    v, eps = _vectors(vectors)
    rows = _quadric_rows(v)
    rank, needed = _rank(rows, eps), rows.shape[1]
    if rank == needed:
        says = f"no quadric but the sphere passes through the {len(v)} class vectors"
    else:
        says = (
            f"{needed - rank} independent quadrics besides the sphere pass through the {len(v)} "
            f"class vectors (rank {rank} of {needed}), so unit weights do not make the map "
            f"orthogonal; at least {needed} classes in general position are needed"
        )
    return Rank(rank, needed, says)


def other_solution(vectors: ArrayLike, size: float = 0.5) -> tuple[Array, Array] | None:
    """M and b with |M v_c + b| = 1 for all c and M not orthogonal; None if there are none.

    They come from a quadric vᵀSv + sᵀv = 0 through the v_c: MᵀM = λ (I + εS) and 2Mᵀb = λεs, with
    λ = 1/(1 + ε²q/4) and q = sᵀ(I + εS)⁻¹s. With κM⁻ᵀz as latents, the weights M v_c + b give the
    true probabilities, so they are another optimum of case C3.

    Parameters
    ----------
    vectors : array (C, d)
        Unit vectors, one per row.
    size : float
        The larger of ε|S| and ε|s|, between 0 and 1: how far M is from a rotation.
    """
    if not 0 < size < 1:
        raise InputError(f"size is {size}; expected a number between 0 and 1")
    v, _ = _vectors(vectors)
    d = v.shape[1]
    if quadric_rank(vectors).ok:
        return None
    last = np.linalg.svd(_quadric_rows(v))[2][-1]
    first, second = np.triu_indices(d)
    S = np.zeros((d, d))
    S[first, second] = last[: len(first)]
    S = (S + S.T) / 2
    # A plane through all v_c is a quadric too, with S = 0; only b is then free.
    scale = size / float(max(np.linalg.norm(S, 2), np.linalg.norm(last[len(first) :])))
    S, s = scale * S, scale * last[len(first) :]
    values, axes = np.linalg.eigh(np.eye(d) + S)
    lam = 1 / (1 + float(((axes.T @ s) ** 2 / values).sum()) / 4)
    M: Array = (lam * values) ** 0.5 * axes @ axes.T
    b: Array = np.linalg.solve(M.T, lam * s / 2)
    return M, b


def _quadric_rows(v: Array) -> Array:
    first, second = np.triu_indices(v.shape[1])
    return np.column_stack([v[:, first] * v[:, second], v])


def _rank(rows: Array, eps: float) -> int:
    return int(span(triangle(rows), len(rows), eps).shape[1])


def _vectors(given: ArrayLike) -> tuple[Array, float]:
    """The vectors in float64, and the machine epsilon of their original type."""
    array, eps = matrix(given, "the table of vectors", "classes × dimensions")
    if len(array) < 2:
        raise InputError("there is one class vector; a classification needs at least two classes")
    return array.astype(np.float64), eps
