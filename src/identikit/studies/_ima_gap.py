"""The gap between likelihood and ELBO where the decoder is the true mixing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from identikit._linalg import Array
from identikit.recover import ima_contrast, linear_elbo_gap, self_consistent_variance
from identikit.studies._ima_fits import mixing, standard
from identikit.studies._store import Record
from identikit.studies._study import Settings
from identikit.worlds import Chain, Linear, Mixing, Moebius, Sources

if TYPE_CHECKING:
    from torch import Tensor, nn


def gaps(seed: int, s: Settings) -> Record:
    """With the true mixing as the decoder: what the best posteriors lose, by C_IMA and γ²."""
    rows = []
    for contrast in (0.0, *s.contrasts):
        world = Sources("uniform", mixing(seed, contrast, s.d))
        sample = world.sample(s.rows + s.test, seed)
        scale = standard(sample.observations)[1]
        z = sample.latents[-s.gap_points :]
        jacobian = world.mixing.jacobian(z) / scale
        log_p = -float(np.linalg.slogdet(jacobian)[1].mean())
        local = float(ima_contrast(jacobian).mean())
        matrix = Linear.with_contrast(s.d, contrast, seed).matrix
        known = {"seed": seed, "true_contrast": contrast, "local": local, "log_p": log_p}
        known["linear"] = linear_elbo_gap(matrix, 1e12).value - contrast
        for gamma2 in s.gap_gammas:
            loss = best_loss(world.mixing, scale, z, jacobian, gamma2, s.gap_steps)
            rows.append({**known, "gamma2": gamma2, "floor": loss, "gap": log_p + loss})
    return Record(rows)


def best_loss(
    f: Mixing, scale: float, z: Array, jacobian: Array, gamma2: float, steps: int
) -> float:
    """−ELBO* of x = f(z)/scale with that as the decoder; posteriors start self-consistent."""
    import torch

    from identikit.learn import best_posterior

    slope = 0.25 - z**2
    variances = self_consistent_variance(jacobian * slope[:, None], gamma2, -2 * slope)
    # At the edges of the cube u is so wide that the formula, which is local, no longer holds.
    first = np.log(0.5 + z) - np.log(0.5 - z), np.log(np.minimum(variances, 0.5))
    mean, log_variance = (torch.from_numpy(each) for each in first)
    truth = decoder(f, scale)
    x = truth(torch.from_numpy(z))
    return best_posterior(truth, x, gamma2, mean=mean, log_variance=log_variance, steps=steps).loss


def decoder(f: Mixing, scale: float) -> nn.Module:
    """f/scale on tensors: a Möbius map, and maybe a linear one after it."""
    import torch

    inner, outer = (f.first, f.then) if isinstance(f, Chain) else (f, Linear(np.eye(f.d)))
    assert isinstance(inner, Moebius)
    assert isinstance(outer, Linear)
    pole = torch.from_numpy(inner.pole)
    out = torch.from_numpy(outer.matrix @ inner.rotation / scale)

    class Decoder(torch.nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            away = z - pole
            return away / (away**2).sum(1, keepdim=True) @ out.T

    return Decoder()
