"""How far apart two models are on each input."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from identikit._linalg import Array
from identikit.family._pair import Pair


class PerInput(NamedTuple):
    """One number per input; their means over all inputs are the numbers of the pair.

    `gap` = ‖Z_c(x) − Z'_c(x)‖² / E‖Z_c‖² of the label-centred logits: its mean is the square of the
    relative logit gap. `kl`, `kl_reverse` (in nats) and `tv` compare p(·|x) and p'(·|x).
    """

    gap: Array
    kl: Array
    kl_reverse: Array
    tv: Array


def per_input(pair: Pair) -> PerInput:
    """Gap, divergences and total variation of every input, in one pass over the blocks.

    The spread E‖Z_c‖² is that of the first model over all inputs, so that inputs can be compared
    with each other.
    """
    finite = pair.K == pair.models[0].K

    def rows(ours: Array, theirs: Array) -> Array:
        p, q = np.exp(ours), np.exp(theirs)
        known = (ours, theirs) if finite else (ours[:, pair.labels], theirs[:, pair.labels])
        gap = np.subtract(*known)
        gap -= gap.mean(axis=1, keepdims=True)
        return np.stack(
            [
                np.einsum("ij,ij->i", gap, gap),
                _kl(p, ours, theirs),
                _kl(q, theirs, ours),
                np.abs(p - q).sum(axis=1) / 2,
            ]
        )

    gap, kl, kl_reverse, tv = np.concatenate(pair.over_blocks(rows), axis=1)
    spread = pair.logit_norms[1] ** 2 / pair.n
    return PerInput(gap / spread if spread > 0 else np.sign(gap), kl, kl_reverse, tv)


def _kl(p: Array, log_p: Array, log_q: Array) -> Array:
    """Σ p log(p/q) of each row: terms with p = 0 are 0; infinite if q = 0 where p > 0."""
    gap = np.subtract(log_p, log_q, out=np.zeros_like(p), where=p > 0)
    kl: Array = np.einsum("ij,ij->i", p, gap)
    return np.maximum(kl, 0.0)  # negative values are rounding errors
