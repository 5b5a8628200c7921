"""Blocks of latents with equal concentration, which can be rotated among themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from identikit.errors import InputError

#: Two values differ with 95 % confidence if they are more than this many standard errors apart.
Z = 1.959964

#: Number of random rotations that the MCC level is averaged over.
ROTATIONS = 1000


@dataclass(frozen=True)
class Blocks:
    """Blocks of latents with equal concentration, and what two solutions may differ by.

    Attributes
    ----------
    blocks : tuple of tuples of int
        Positions of the concentrations that count as equal, in increasing order of concentration.
    rung : str
        The rung of the ladder: "permutation" if every block has one latent, otherwise "rigid".
    """

    blocks: tuple[tuple[int, ...], ...]
    rung: str

    @property
    def sentence(self) -> str:
        """A sentence that says what is identified."""
        sizes = [len(block) for block in self.blocks]
        if self.rung == "permutation":
            return (
                "All concentrations differ by more than their errors: latents are identified up "
                "to order and sign (rung permutation)."
            )
        if len(sizes) == 1:
            return (
                "No two concentrations differ by more than their errors: latents are identified "
                "up to a rotation of all of them (rung rigid)."
            )
        return (
            f"The concentrations form {len(sizes)} blocks, of {', '.join(map(str, sizes))} latents "
            "in increasing order: latents are identified up to a rotation inside each block (rung "
            "rigid), so R² may be 1 where MCC is not."
        )

    def mcc_level(self, rotations: int = ROTATIONS, seed: int = 0) -> float:
        """The mean MCC of solutions that are rotated at random inside the blocks.

        For uncorrelated latents of equal variance, as on the sphere, the correlation of latent i
        with the j-th latent after a rotation O is O_ji, and MCC is the mean of |O_ji| after the
        best matching.

        Parameters
        ----------
        rotations : int
            Number of random rotations.
        seed : int
            Seed of the rotations.
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

    A solution is f = Oz with O orthogonal and OΛOᵀ = Λ̂ (Rusak et al. 2025), so O mixes only latents
    with the same concentration. After sorting, neighbours whose gap is at most 1.96 √(e_i² + e_j²)
    are in one block; two values that differ clearly may therefore be linked by values between them.

    Parameters
    ----------
    values : array (M,)
        The diagonal of Λ, or an estimate of it.
    errors : float or array (M,)
        Standard errors of the values, over seeds for instance; 0 where the values are known.

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
