"""Pairs on the sphere and a contrastive learner of them: trained, and compared with the truth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array
from identikit.family import concentration_blocks
from identikit.studies._study import Record, Settings
from identikit.studies._torch import Tensor, learn, nn, torch
from identikit.worlds import AnisotropicPairs, LeakyReLU, score

#: Held-out batches that a loss is the mean of, and batches that a fit at the truth is made on.
LOSS_BATCHES, FIT_BATCHES = 40, 80


@dataclass(frozen=True)
class Arm:
    """Which world, by its concentrations, and which learner in it."""

    world: str = "repeated"
    learnable: str | None = "diagonal"


#: By name: AnInfoNCE, InfoNCE with both temperatures, and what else is tried.
ARMS = {
    "aninfonce": Arm(),
    "tau-1": Arm(learnable=None),
    "tau-learned": Arm(learnable="scalar"),
    "distinct": Arm(world="distinct"),
    "hard": Arm(world="hard"),
}


def world(kind: str, seed: int, s: Settings, sampler: str = "exact") -> AnisotropicPairs:
    """The world of a seed: its concentrations, content first, and a mixing of its own."""
    given = np.array(s.distinct[::-1]) if kind == "distinct" else np.repeat(s[kind], s.block)
    values = given.tolist()
    negatives = len(values) * [s.negatives] if kind == "hard" else None
    mixing = LeakyReLU(len(values), layers=3, seed=seed, draws=s.draws)
    return AnisotropicPairs(values, mixing, seed, sampler, negatives)


def pairs(source: AnisotropicPairs, rows: int, rng: np.random.Generator) -> tuple[Tensor, ...]:
    """What a learner sees: anchors, positives, and negatives if there are any."""
    sample = source.sample(rows, rng).torch()
    seen = sample.observations, sample.positives, sample.negatives
    return tuple(part for part in seen if part is not None)


def build(arm: Arm, d: int, s: Settings) -> learn.SoftmaxNet:
    """An MLP to the sphere, and concentrations that all start from 1, the τ = 1 of InfoNCE."""
    encoder = learn.MLP([d, *s.hidden, d], "leaky_relu", init="he")
    if s.linear_start:
        learn.linear_start(encoder)
    return learn.SoftmaxNet(learn.Normalised(encoder), learn.Concentrations(d, arm.learnable))


def measure(name: str, seed: int, settings: Settings) -> Record:
    """Train one network, and compare it with the truth on new data (see `compared`): a unit."""
    s, arm = settings, ARMS[name]
    own = world(arm.world, seed, s)
    run = learn.train(
        partial(build, arm, own.d, s), learn.aninfonce,
        learn.fresh(partial(pairs, own), s.hard_batch if arm.world == "hard" else s.batch), s.steps,
        seeds=(seed,), lr=s.lr, rates={"g.": s.rate}, schedule=s.schedule, warmup=s.warmup,
    )  # fmt: skip
    row, learned = compared(arm, own, run.net(seed), seed, s)
    return Record([{"arm": name, "seed": seed} | row], {"concentrations": learned})


def compared(
    arm: Arm, own: AnisotropicPairs, net: learn.SoftmaxNet, seed: int, s: Settings
) -> tuple[dict[str, Any], Array]:
    """Compare a network with the true latents: its scores, its loss and its concentrations.

    `content` (the latents with the larger concentrations) and `style` are held-out R² from f,
    `seen_...` from x. `rotation` and `inside` are the MCC of random rotations, of all latents and
    inside blocks. `truth` is the loss of the true latents with the best concentrations of the arm's
    kind. `high` and `low` are mean ratios of learned to true ones, for content and style.
    """
    held_out = own.sample(s.test, np.random.default_rng([seed, 1]))
    with torch.no_grad():
        f = net.f(held_out.torch().observations).numpy().astype(float)
    d, z, half = own.d, held_out.latents, own.d // 2
    blocks = {"content": range(half), "style": range(half, d)}
    found, seen = (score(codes, z, blocks=blocks) for codes in (f, held_out.observations))
    assert isinstance(net.g, learn.Concentrations)
    learned = np.sort(net.g.values.numpy()).astype(float)
    ratios = learned / np.sort(own.effective)
    rigid, permuted = (
        next(rung.error for rung in found.ladder if rung.group == group)
        for group in ("rigid", "permutation")
    )
    row = {
        **found.r2, **{f"seen_{name}": value for name, value in seen.r2.items()},
        "mcc": found.mcc, "rotation": found.rotation,
        "inside": concentration_blocks(own.effective).mcc_level(),
        "rung": found.group, "rigid": rigid, "permutation": permuted,
        "high": ratios[-half:].mean(), "low": ratios[:-half].mean(),
        "loss": _loss(own, net, seed, s), "truth": true_loss(arm, own, seed, s),
        "degree": degree(net, own, z, held_out.observations),
    }  # fmt: skip
    return row, learned


def _loss(own: AnisotropicPairs, net: learn.SoftmaxNet, seed: int, s: Settings) -> float:
    """The mean loss over batches of new pairs; the same pairs for every network of a seed."""
    size = s.hard_batch if own.negatives is not None else s.batch
    batch = pairs(own, LOSS_BATCHES * size, np.random.default_rng([seed, 2]))
    with torch.no_grad():
        parts = zip(*(torch.split(part, size) for part in batch))
        return float(np.mean([learn.aninfonce(net, *part).item() for part in parts]))


def truth(d: int, concentrations: ArrayLike) -> learn.SoftmaxNet:
    """A network whose input is the latents themselves, with given concentrations."""
    start = np.broadcast_to(concentrations, d).tolist()
    return learn.SoftmaxNet(learn.Normalised(nn.Identity()), learn.Concentrations(d, None, start))


def true_loss(arm: Arm, own: AnisotropicPairs, seed: int, s: Settings) -> float:
    """The loss of the true latents, with Λ, with τ = 1, or with the temperature that is best."""
    from scipy.optimize import minimize_scalar

    bare = replace(own, mixing=None)

    def at(concentrations: ArrayLike) -> float:
        return _loss(bare, truth(own.d, concentrations), seed, s)

    if arm.learnable == "diagonal":
        return at(own.effective)
    if arm.learnable is None:
        return at(1.0)
    best = minimize_scalar(
        lambda log: at(np.exp(log)), bounds=(-3, 4), method="bounded", options={"xatol": 0.01}
    )
    return float(best.fun)


def degree(net: learn.SoftmaxNet, own: AnisotropicPairs, z: Array, x: Array) -> float:
    """The degree of f∘g as a map of the sphere: the mean determinant of its derivative.

    It is ±1 for a map that can be deformed continuously into an orthogonal one, and 0 for one that
    folds the sphere.
    """
    assert own.mixing is not None
    points = torch.from_numpy(x).float()
    outer = learn.decoder_jacobian(learn.SoftmaxNet(net.f), points).numpy().astype(float)
    with torch.no_grad():
        f = net.f(points).numpy().astype(float)
    along = np.eye(own.d) - z[:, :, None] * z[:, None, :]
    # The radius is mapped to the radius, so that a d × d determinant is that on the sphere.
    whole = outer @ own.mixing.jacobian(z) @ along + f[:, :, None] * z[:, None, :]
    return float(np.linalg.det(whole).mean())


def fit_at_truth(seed: int, settings: Settings) -> Record:
    """Λ̂ for the true latents under both samplers, and two symmetries of the loss: a unit."""
    from scipy.stats import ortho_group

    s, rows = settings, []
    rng = np.random.default_rng([seed, 3])
    turns = [ortho_group.rvs(s.block, random_state=rng) for _ in range(2)]
    inside = np.kron(np.diag([1, 0]), turns[0]) + np.kron(np.diag([0, 1]), turns[1])
    across = ortho_group.rvs(2 * s.block, random_state=rng)
    for sampler in ("exact", "approximate"):
        bare = replace(world("repeated", seed, s, sampler), mixing=None)
        batch = pairs(bare, FIT_BATCHES * s.batch, rng)
        ratios = _fitted(batch, s) / bare.effective
        row = {"sampler": sampler, "seed": seed}
        row |= {"high": ratios[: s.block].mean(), "low": ratios[s.block :].mean()}
        turned = {"inside": _turned(batch, inside, s), "across": _turned(batch, across, s)}
        rows.append(row | turned)
    return Record(rows)


def _fitted(batch: tuple[Tensor, ...], s: Settings) -> Array:
    """The concentrations that are best for these latents, by L-BFGS from the true ones."""
    values = learn.Concentrations(2 * s.block, start=np.repeat(s.repeated, s.block).tolist())
    net = learn.SoftmaxNet(learn.Normalised(nn.Identity()), values).double()
    parts = list(zip(*(torch.split(part.double(), s.batch) for part in batch)))
    solver = torch.optim.LBFGS(values.parameters(), max_iter=40, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        loss = torch.stack([learn.aninfonce(net, *part) for part in parts]).mean()
        torch.autograd.backward(loss)
        return loss

    solver.step(closure)  # type: ignore[no-untyped-call]
    fitted: Array = values.values.detach().numpy()
    return fitted


def _turned(batch: tuple[Tensor, ...], turn: Array, s: Settings) -> float:
    """The change of the loss of a batch under a rotation of the true latents."""
    net = truth(2 * s.block, np.repeat(s.repeated, s.block)).double()
    first = [part[: s.batch].double() for part in batch]
    with torch.no_grad():
        losses = [learn.aninfonce(net, *(part @ torch.from_numpy(o.T) for part in first))
                  for o in (np.eye(2 * s.block), turn)]  # fmt: skip
    return float(abs(losses[1] - losses[0]))
