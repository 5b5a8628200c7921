"""How far apart two models are on each input."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from identikit._linalg import Array

if TYPE_CHECKING:
    from identikit.family._pair import Ints, Pair


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
    """Gap, divergences and total variation of every input.

    The spread E‖Z_c‖² is that of the first model over all inputs, so that inputs can be compared
    with each other.
    """
    gap, kl, kl_reverse, _, tv = pair.compared[:5]
    spread = pair.logit_norms[1] ** 2 / pair.n
    return PerInput(gap / spread if spread > 0 else np.sign(gap), kl, kl_reverse, tv)


def compare_rows(ours: Array, theirs: Array, labels: Ints | slice) -> Array:
    """Seven numbers per input, from log-probabilities that are finite for these labels.

    ‖Z_c − Z'_c‖², KL both ways, Jensen–Shannon, total variation, and both log p of label 0.
    """
    p, q = np.exp(ours), np.exp(theirs)
    half = (p + q) / 2
    middle = np.log(half, out=np.zeros_like(half), where=half > 0)
    gap = ours[:, labels] - theirs[:, labels]
    gap -= gap.mean(axis=1, keepdims=True)
    return np.stack(
        [
            np.einsum("ij,ij->i", gap, gap),
            _kl(p, ours, theirs),
            _kl(q, theirs, ours),
            (_kl(p, ours, middle) + _kl(q, theirs, middle)) / 2,
            np.abs(p - q).sum(axis=1) / 2,
            ours[:, 0],
            theirs[:, 0],
        ]
    )


def _kl(p: Array, log_p: Array, log_q: Array) -> Array:
    """Σ p log(p/q) of each row: terms with p = 0 are 0; infinite if q = 0 where p > 0."""
    with np.errstate(invalid="ignore"):
        gap = log_p - log_q
    gap[p == 0] = 0.0
    # Negative values are rounding errors.
    return np.asarray(np.maximum(np.einsum("ij,ij->i", p, gap), 0.0))
