"""When cross-entropy on clusters of a sphere identifies the latents: two ranks of the vectors.

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

#: What theory promises of latents and of weights where f and w are normalised (C1), only f (C2),
#: only w (C3), neither (C4), and of classes instead of instances. Of the weights of a supervised
#: head the theorem does not speak.
CASES: dict[str, tuple[str, str | None]] = {
    "C1": ("rigid", "rigid"),
    "C2": ("rigid", "similarity"),
    "C3": ("similarity", "rigid"),
    "C4": ("linear", "affine"),
    "supervised": ("linear", None),
}
#: How far a norm may be from 1 in what is called a unit vector: far above float32's rounding.
UNIT = 1e-4


@dataclass(frozen=True)
class Rank:
    """A rank beside the one that is needed, and a sentence of what that means."""

    rank: int
    needed: int
    sentence: str

    @property
    def ok(self) -> bool:
        """Whether nothing is missing."""
        return self.rank == self.needed

    @property
    def missing(self) -> int:
        """How much of the rank is missing."""
        return self.needed - self.rank


@dataclass(frozen=True)
class Rungs:
    """Up to what latents and weights are identified; None of what is not, or is not spoken of.

    `ok` is whether the promise of the case itself holds, and `why` says what it rests on or what it
    lacks.
    """

    latents: str | None
    weights: str | None
    ok: bool
    why: str


@dataclass(frozen=True)
class SphereConditions:
    """The conditions on the class vectors of a sphere: see `sphere_conditions`.

    `affine` is the one of all cases. `quadric` is the one that case C3 has besides, and `paper`
    the weaker one that is printed for it (assumption 5), which a rotation of the v_c may undo: it
    is shown, and decides nothing.
    """

    affine: Rank
    quadric: Rank
    paper: Rank

    def identified(self, case: str) -> Rungs:
        """What a learner identifies at its optimum, or why it does not.

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
            # Nothing stands in the way of case C4, of which C3 is a part.
            return Rungs(*CASES["C4"], False, self.quadric.sentence)
        why = self.quadric.sentence if case == "C3" else self.affine.sentence
        return Rungs(*CASES[case], True, why)


def sphere_conditions(vectors: ArrayLike) -> SphereConditions:
    """Which ranks the class vectors have, of those that identification on the sphere needs.

    Parameters
    ----------
    vectors : array (C, d)
        The unit vectors v_c, one a row.

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
            f"row {worst} of the vectors has norm {norms[worst]:.6g}; the class vectors of a "
            "sphere have norm 1: divide each by its own"
        )
    paper = np.column_stack([v * v, v])
    rank, needed = _rank(paper, eps), paper.shape[1]
    said = f"the rows [v_c², v_c] have rank {rank} of {needed}, the condition printed for case C3"
    return SphereConditions(affine_rank(vectors), quadric_rank(vectors), Rank(rank, needed, said))


def affine_rank(vectors: ArrayLike) -> Rank:
    """Rank of the differences v_c − v_a, of d: are the v_c an affine generator system?

    Parameters
    ----------
    vectors : array (C, d)
        One a row.
    """
    v, eps = _vectors(vectors)
    classes, d = v.shape
    rank = _rank(v - v.mean(axis=0), eps)
    if rank == d:
        says = f"the differences of the {classes} class vectors span all {d} dimensions"
    else:
        says = (
            f"the differences of the {classes} class vectors span {rank} of {d} dimensions, so "
            f"{d - rank} of the latents' are free; it takes {d + 1} classes or more whose vectors "
            "lie in no common hyperplane"
        )
    return Rank(rank, d, says)


def quadric_rank(vectors: ArrayLike) -> Rank:
    """Rank of the rows [v_i v_j for i ≤ j, v_i], of d(d+3)/2: is the sphere their only quadric?

    Parameters
    ----------
    vectors : array (C, d)
        Unit vectors, one a row.
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
            f"orthogonal; it takes {needed} classes or more in general position"
        )
    return Rank(rank, needed, says)


def other_solution(vectors: ArrayLike, size: float = 0.5) -> tuple[Array, Array] | None:
    """M and b with |M v_c + b| = 1 for all c and M not orthogonal; None if there are none.

    From a quadric vᵀSv + sᵀv = 0 through the v_c: MᵀM = λ (I + εS) and 2Mᵀb = λεs, with
    λ = 1/(1 + ε²q/4) and q = sᵀ(I + εS)⁻¹s. With κM⁻ᵀz for latents, the weights M v_c + b have
    the probabilities of the truth: another optimum of case C3.

    Parameters
    ----------
    vectors : array (C, d)
        Unit vectors, one a row.
    size : float
        The larger of ε|S| and ε|s|, below 1: how far M is from a rotation.
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
    # A plane through all v_c has S = 0, and is a quadric as well: b alone is then free.
    scale = size / float(max(np.linalg.norm(S, 2), np.linalg.norm(last[len(first) :])))
    S, s = scale * S, scale * last[len(first) :]
    values, turn = np.linalg.eigh(np.eye(d) + S)
    share = 1 / (1 + float(((turn.T @ s) ** 2 / values).sum()) / 4)
    M: Array = (share * values) ** 0.5 * turn @ turn.T
    b: Array = np.linalg.solve(M.T, share * s / 2)
    return M, b


def _quadric_rows(v: Array) -> Array:
    first, second = np.triu_indices(v.shape[1])
    return np.column_stack([v[:, first] * v[:, second], v])


def _rank(rows: Array, eps: float) -> int:
    return int(span(triangle(rows), len(rows), eps).shape[1])


def _vectors(given: ArrayLike) -> tuple[Array, float]:
    """The vectors in float64, and the machine epsilon of the type they came in."""
    array, eps = matrix(given, "the table of vectors", "classes × dimensions")
    if len(array) < 2:
        raise InputError("there is one class vector; a classification needs at least two classes")
    return array.astype(np.float64), eps
