"""Independent mechanisms: worlds, stacks of VAEs, their scores, and the gap of the ELBO."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from identikit._linalg import Array
from identikit.moments import accumulate
from identikit.recover import ima_contrast, linear_elbo_gap, self_consistent_variance
from identikit.similarity import mcc
from identikit.studies._study import Record, Settings
from identikit.studies._torch import Tensor, learn, nn, torch
from identikit.worlds import Chain, Linear, Mixing, Moebius, Orthogonal, Sources, score

#: The paper's γ² of 10, 1e4, 1e5 and 1e6 in units of 1/Var(x).
SMALL, USUAL, HIGH, LARGEST = 0.03, 30.0, 300.0, 3000.0
#: The initial γ² if it is raised during training (in the first half of the steps).
START = 3.0


class Part(NamedTuple):
    """A condition: its name, C_IMA of what was done to the sources, data, sources, two γ²."""

    name: str
    contrast: float
    x: Array
    z: Array
    start: float
    gamma2: float


def mixing(seed: int, contrast: float, d: int) -> Mixing:
    """A Möbius map; with a contrast, a linear map of that C_IMA after it."""
    first = Moebius(d, seed)
    if contrast == 0:
        return first
    # Another seed: with the same one, the two would share their random numbers.
    return Chain(first, Linear.with_contrast(d, contrast, seed + 10_000))


def standard(x: Array) -> tuple[Array, float]:
    """Rows with mean 0 and variance 1 over all entries, and what they were divided by."""
    centred = x - x.mean(axis=0)
    scale = float(np.sqrt((centred**2).mean()))
    return centred / scale, scale


def drawn(seed: int, contrast: float, s: Settings) -> tuple[Array, Array]:
    sample = Sources("uniform", mixing(seed, contrast, s.d)).sample(s.rows + s.test, seed)
    return standard(sample.observations)[0], sample.latents


def learned(
    parts: Sequence[Part], prior: str, seed: int, s: Settings, kind: str = ""
) -> list[dict[str, Any]]:
    """Train every part with several restarts, as one stack: a row each, the best ELBO marked."""
    restarts, steps = s[f"{kind}restarts"], s[f"{kind}steps"]
    every = [part for part in parts for _ in range(restarts)]
    first, (_, D), (_, d) = seed * len(every), every[0].x.shape, every[0].z.shape
    data = [torch.from_numpy(part.x.astype(np.float32)) for part in parts]
    draws = [learn.shuffled((x[: -s.test],), s.batch, learn.with_noise(d)) for x in data]

    def batches(step: int, number: int) -> tuple[Tensor, ...]:
        place = (number - first) // restarts
        start, last = every[number - first].start, every[number - first].gamma2
        gamma2 = start * (last / start) ** min(1.0, 2 * step / steps)
        return (*draws[place](step, number), torch.tensor(gamma2))

    run = learn.train(
        partial(learn.vae, d, D, s[f"{kind}hidden"], s.activation),
        partial(learn.negative_elbo, prior=prior), batches, steps,
        seeds=range(first, first + len(every)), lr=s[f"{kind}lr"], schedule=s.schedule,
        together=len(every) > 1,
    )  # fmt: skip
    rows = []
    for place, (part, x) in enumerate(zip(parts, data)):
        nets = [run.net(first + place * restarts + k) for k in range(restarts)]
        found = [measured(net, x[-s.test :], part, prior) for net in nets]
        best = int(np.argmin([row["loss"] for row in found]))
        found[best] |= judged(nets[best], x[-s.test :], part, prior)
        known = {"part": part.name, "seed": seed, "true_contrast": part.contrast}
        known |= {"start": part.start, "gamma2": part.gamma2}
        rows += [{**known, "restart": k, "chosen": k == best, **row} for k, row in enumerate(found)]
    return rows


def measured(net: learn.SoftmaxNet, x: Tensor, part: Part, prior: str) -> dict[str, float]:
    """Held-out loss, MCC, the decoder's contrast, its error at the means, and posterior variances.

    Variances are of the codes, means over rows and codes. A code is active if its posterior
    variance is less than half its prior's.
    """
    sources, generator = part.z[-len(x) :], torch.Generator().manual_seed(0)
    with torch.no_grad():
        noise = torch.randn(4, *sources.shape, generator=generator)
        losses = [learn.negative_elbo(net, x, each, part.gamma2, prior).item() for each in noise]
        found, (mean, log_variance) = learn.codes(net, x, prior), learn.posterior(net, x)
        error = ((net.g(found) - x) ** 2).mean().item()
        bent, slopes = learn.prior_curvature(mean, prior), learn.decoder_jacobian(net, found)
    tensors = log_variance.exp(), bent, slopes, found
    variance, curvature, jacobian, z = (each.double().numpy() for each in tensors)
    # dz/du, by which a variance of the latent u becomes one of the code z.
    slope = np.ones_like(z) if prior == "gaussian" else 0.25 - z**2
    predicted = self_consistent_variance(jacobian * slope[:, None], part.gamma2, curvature)
    variance, predicted = variance * slope**2, predicted * slope**2
    return {
        "loss": float(np.mean(losses)),
        "mcc": mcc(accumulate([z, sources])).value or 0.0,
        "contrast": float(ima_contrast(jacobian).mean()), "mse": error,
        "variance": float(variance.mean()), "predicted": float(predicted.mean()),
        "active": int((variance.mean(axis=0) < (0.5 if prior == "gaussian" else 1 / 24)).sum()),
    }  # fmt: skip


def judged(net: learn.SoftmaxNet, x: Tensor, part: Part, prior: str) -> dict[str, Any]:
    """The ladder's verdict on codes against sources, and MCC of random rotations of the sources."""
    with torch.no_grad():
        found = score(learn.codes(net, x, prior).double().numpy(), part.z[-len(x) :])
    permuted = next(rung.error for rung in found.ladder if rung.group == "permutation")
    known = {"group": found.group, "error": found.error, "permutation": permuted}
    return {**known, "rotation": found.rotation}


def moebius(seed: int, s: Settings) -> Record:
    """Sources that can be found: γ² fixed at each of its values, or raised."""
    x, z = drawn(seed, 0.0, s)
    fixed = [Part("fixed", 0.0, x, z, gamma2, gamma2) for gamma2 in s.gammas]
    raised = [Part("raised", 0.0, x, z, START, gamma2) for gamma2 in s.raised]
    return Record(learned([*fixed, *raised], "uniform", seed, s))


def broken(seed: int, s: Settings) -> Record:
    """A linear map after the Möbius map: γ² as in the paper, or raised until it fits all of x."""
    data = {contrast: drawn(seed, contrast, s) for contrast in s.contrasts}
    parts = [Part("broken", c, *data[c], HIGH, HIGH) for c in s.contrasts]
    parts += [Part("broken, raised", c, *data[c], START, LARGEST) for c in s.contrasts if c <= 1]
    return Record(learned(parts, "uniform", seed, s))


def gaussian(seed: int, s: Settings) -> Record:
    """A Gaussian prior: with Gaussian sources through a rotation, and with those of `moebius`."""
    sample = Sources("gaussian", Orthogonal(s.d, seed)).sample(s.rows + s.test, seed)
    own = Part("gaussian", 0.0, standard(sample.observations)[0], sample.latents, START, HIGH)
    wrong = Part("wrong prior", 0.0, *drawn(seed, 0.0, s), START, HIGH)
    return Record(learned([own, wrong], "gaussian", seed, s))


def pictures(seed: int, s: Settings) -> Record:
    """Discs of three colours, γ² raised; and of the paper's colour at fixed values of γ²."""
    z = np.random.default_rng(seed).uniform(-0.5, 0.5, size=(s.picture_rows + s.test, 4))
    x = {colour: standard(sprites(z, s.side, colour))[0] for colour in COLOURS}
    true = {c: ima_contrast(sprite_jacobian(z[:500], s.side, c)).mean() for c in COLOURS}
    first, last = s.picture_raised
    parts = [Part(colour, true[colour], x[colour], z, first, last) for colour in COLOURS]
    parts += [Part("pictures", true["channel"], x["channel"], z, g, g) for g in s.picture_gammas]
    return Record(learned(parts, "uniform", seed, s, "picture_"))


def gaps(seed: int, s: Settings) -> Record:
    """The gap of the ELBO with the true mixing as decoder and its best posteriors."""
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
    slope = 0.25 - z**2
    variances = self_consistent_variance(jacobian * slope[:, None], gamma2, -2 * slope)
    # At the edges of the cube the posterior of u is too wide for the formula, which is local.
    first = np.log(0.5 + z) - np.log(0.5 - z), np.log(np.minimum(variances, 0.5))
    mean, log_variance = (torch.from_numpy(each) for each in first)
    truth = decoder(f, scale)
    x = truth(torch.from_numpy(z))
    best = partial(learn.best_posterior, mean=mean, log_variance=log_variance, steps=steps)
    return best(truth, x, gamma2).loss


def decoder(f: Mixing, scale: float) -> nn.Module:
    """f/scale on tensors: a Möbius map, possibly followed by a linear one."""
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


# Small pictures of one disc, drawn from four factors: place, size, and one of three colours. Edges
# are soft, so that pixels change smoothly with every factor. The disc is symmetric, so that moving
# it across changes pixels in other directions than moving it up or making it larger.

#: The fourth factor: "hue" shifts light from one channel to the other and keeps the sum of squares,
#: so that its direction is orthogonal to a change in size at every pixel; "channel" lights one
#: channel and leaves the other; "brightness" lights both, which a larger disc does as well.
COLOURS = ("hue", "channel", "brightness")
#: As shares of the picture: how far the disc moves, its radii, and the softness of its edge.
MOVES, RADII, EDGE = 0.4, (0.12, 0.3), 0.0625


def sprites(z: Array, side: int, colour: str) -> Array:
    """Pictures (rows, 2 · side²) of two channels from 0 to 1, by factors from −½ to ½."""
    across, up, size, light = z.T[:, :, None, None]
    pixels = (np.arange(side) + 0.5) / side - 0.5
    distance = np.hypot(pixels - MOVES * across, pixels[:, None] - MOVES * up)
    radius = RADII[0] + (RADII[1] - RADII[0]) * (size + 0.5)
    disc = 1 / (1 + np.exp((distance - radius) / EDGE))
    strength = 0.65 + 0.7 * light
    if colour == "hue":
        channels = np.cos(np.pi / 4 + 1.2 * light), np.sin(np.pi / 4 + 1.2 * light)
    elif colour == "channel":
        channels = strength, np.ones_like(strength)
    else:
        channels = strength / 2**0.5, strength / 2**0.5
    return np.stack([channel * disc for channel in channels], axis=1).reshape(len(z), -1)


def sprite_jacobian(z: Array, side: int, colour: str, step: float = 1e-5) -> Array:
    """How pixels change with factors, (rows, 2 · side², 4), by central differences."""
    shifts = step * np.eye(z.shape[1])
    both = [[sprites(z + sign * shift, side, colour) for sign in (1, -1)] for shift in shifts]
    return np.stack([(above - below) / (2 * step) for above, below in both], axis=2)
