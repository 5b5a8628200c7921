"""Which latents equal concentrations leave rotatable: the blocks of Λ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from identikit.errors import InputError

#: Two values differ, with 95 % confidence, if so many standard errors lie between them.
Z = 1.959964

#: Rotations that a level is the mean of.
ROTATIONS = 1000


@dataclass(frozen=True)
class Blocks:
    """Latents by equal concentration, and what is left open between two solutions.

    Attributes
    ----------
    blocks : tuple of tuples of int
        Places of the concentrations that count as one, from the smallest concentration on.
    rung : str
        Of the ladder: "permutation" if every latent has a block of its own, otherwise "rigid".
    """

    blocks: tuple[tuple[int, ...], ...]
    rung: str

    @property
    def sentence(self) -> str:
        """What is identified, in words."""
        sizes = [len(block) for block in self.blocks]
        if self.rung == "permutation":
            return (
                "All concentrations differ by more than their errors: latents are identified up "
                "to order and sign (rung permutation)."
            )
        if len(sizes) == 1:
            return (
                "No two concentrations differ by more than their errors: latents are identified "
                "up to one rotation of all (rung rigid)."
            )
        return (
            f"The concentrations form {len(sizes)} blocks, of {', '.join(map(str, sizes))} latents "
            "from the smallest on: latents are identified up to a rotation inside each block (rung "
            "rigid), so R² may be 1 where MCC is not."
        )

    def mcc_level(self, rotations: int = ROTATIONS, seed: int = 0) -> float:
        """The mean MCC of solutions that are turned at random inside the blocks.

        For latents that are uncorrelated and of one variance, as on the sphere, the correlation
        of latent i with row j of a rotation O is O_ji: MCC is the mean of |O_ji| after the best
        matching.

        Parameters
        ----------
        rotations : int
            How many are drawn.
        seed : int
            Of these.
        """
        from scipy.optimize import linear_sum_assignment
        from scipy.stats import ortho_group

        rng = np.random.default_rng(seed)
        total, latents = 0.0, sum(map(len, self.blocks))
        for size in map(len, self.blocks):
            # Every 1 × 1 rotation is ±1.
            drawn = ortho_group.rvs(size, rotations, rng) if size > 1 else np.ones((1, 1, 1))
            entries = np.abs(drawn.reshape(-1, size, size))
            matched = [each[linear_sum_assignment(-each)].sum() for each in entries]
            total += float(np.mean(matched))
        return total / latents


def concentration_blocks(values: ArrayLike, errors: ArrayLike = 0.0) -> Blocks:
    """The blocks of equal concentration that AnInfoNCE leaves rotatable.

    A solution is f = Oz with O orthogonal and OΛOᵀ = Λ̂ (Rusak et al. 2025): O maps latents of one
    concentration to latents of the same one. In order of size, neighbours whose gap is within
    1.96 √(e_i² + e_j²) are in one block; so two that differ clearly can be joined by those between.

    Parameters
    ----------
    values : array (M,)
        The diagonal of Λ, or an estimate of it.
    errors : float or array (M,)
        Their standard errors, over seeds for instance; 0 where the values are known.

    Examples
    --------
    >>> found = concentration_blocks([25, 3, 25, 3, 25, 3])
    >>> found.blocks, found.rung
    (((1, 3, 5), (0, 2, 4)), 'rigid')
    >>> concentration_blocks([2.9, 8.1, 12.0], errors=[0.2, 0.5, 1.1]).rung
    'permutation'
    """
    lam = np.asarray(values, dtype=np.float64)
    if lam.ndim != 1 or lam.size == 0:
        raise InputError(f"concentrations have shape {lam.shape}; expected one for each latent")
    if not (np.isfinite(lam) & (lam > 0)).all():
        raise InputError(f"concentrations are {lam.tolist()}; all must be finite and above zero")
    wrong = np.asarray(errors, dtype=np.float64)
    if wrong.shape not in ((), lam.shape):
        raise InputError(f"there are {lam.size} concentrations, but errors of shape {wrong.shape}")
    if not (np.isfinite(wrong) & (wrong >= 0)).all():
        raise InputError(f"errors are {wrong.tolist()}; all must be finite and 0 or more")
    order = np.argsort(lam, kind="stable")
    lam, wrong = lam[order], np.broadcast_to(wrong, lam.shape)[order]
    apart = np.diff(lam) > Z * np.hypot(wrong[1:], wrong[:-1])
    parts = np.split(order, np.flatnonzero(apart) + 1)
    blocks = tuple(tuple(sorted(map(int, part))) for part in parts)
    return Blocks(blocks, "permutation" if len(blocks) == lam.size else "rigid")
