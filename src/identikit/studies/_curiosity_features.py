"""Inverse dynamics in a world of controllable and exogenous factors: trained, and compared."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from identikit._linalg import Array
from identikit.factors import r2
from identikit.family import variability
from identikit.studies._store import Record
from identikit.studies._study import Settings
from identikit.studies._torch import Tensor, learn, torch
from identikit.worlds import ActionWorld, LeakyReLU, Sample

CONTROLLABLE, EXOGENOUS, ACTIONS, FEATURES = 3, 3, 9, 8


class Arm(NamedTuple):
    """A way to learn features: the gates, the share β of the forward loss, and for how long."""

    attention: str | None = None
    rescaled: bool = False
    beta: float = 0.0
    rational: bool = False
    longer: bool = False


ARMS = {
    "inverse": Arm(),
    "gated": Arm("double"),
    "longer": Arm("double", longer=True),
    "rescaled": Arm("double", rescaled=True),
    "both": Arm(beta=0.2),
    "forward": Arm(beta=1.0),
    "rational": Arm(beta=1.0, rational=True),
}


def world_of(seed: int) -> ActionWorld:
    """The world of a seed: its own actions, and its own mixing."""
    d = CONTROLLABLE + EXOGENOUS
    # Another seed: with the same one, actions and mixing would share their random numbers.
    mixing = LeakyReLU(d, layers=3, seed=seed + 10_000, slope=0.3)
    return ActionWorld(CONTROLLABLE, EXOGENOUS, ACTIONS, mixing, seed)


def build(arm: Arm, s: Settings) -> learn.SoftmaxNet:
    """The network: an ICM with an MLP for its φ."""
    d = CONTROLLABLE + EXOGENOUS
    encoder = learn.MLP([d, *s.hidden, FEATURES], "leaky_relu", slope=0.2)
    return learn.SoftmaxNet(
        learn.ICM(
            encoder, FEATURES, ACTIONS, arm.attention, rescaled=arm.rescaled, rational=arm.rational,
            hidden=64, beta=arm.beta,
        )
    )  # fmt: skip


def objective(net: learn.SoftmaxNet, now: Tensor, after: Tensor, action: Tensor) -> Tensor:
    """The ICM's loss."""
    icm = cast("learn.ICM", net.f)
    return icm.loss(icm(now, after, action), action)


def features(name: str, s: Settings, first: int = 0) -> Record:
    """Two networks in the world of each seed, all as one stack: a unit of work."""
    arm = ARMS[name]
    seeds, steps = (s.long_seeds, s.long_steps) if arm.longer else (s.seeds, s.steps)
    worlds = [world_of(first + seed) for seed in range(seeds)]

    def draw(world: ActionWorld, rows: int, rng: np.random.Generator) -> tuple[Tensor, ...]:
        sample = world.sample(rows, rng).torch()
        return sample.observations, sample.positives, sample.labels

    draws = [learn.fresh(partial(draw, world), s.batch) for world in worlds]
    # Networks 2 k and 2 k + 1 learn in world k.
    numbers = range(2 * first, 2 * (first + seeds))
    run = learn.train(
        partial(build, arm, s),
        objective,
        lambda step, number: draws[number // 2 - first](step, number),
        s.collapse_steps if arm.beta == 1 else steps,
        seeds=numbers,
        lr=s.lr,
        schedule="cosine",
        snapshots=[0],
        together=True,
    )
    rows = []
    for seed, world in enumerate(worlds, first):
        sample = world.sample(s.test, np.random.default_rng([seed, 1]))
        pair, start = (
            [cast("learn.ICM", run.net(number, step).f) for number in (2 * seed, 2 * seed + 1)]
            for step in (None, 0)
        )
        rows.append({"arm": name, "seed": seed} | compared(world, sample, pair, start))
    return Record(rows)


def compared(
    world: ActionWorld, sample: Sample, pair: list[learn.ICM], start: list[learn.ICM]
) -> dict[str, Any]:
    """Compare two networks with the truth and with each other; means over the two.

    `excess` is the cross-entropy above that of the true posterior, and `beats` by how many standard
    errors it is lower. φ(s') is taken after the gate: all of it, or the part on which logits depend
    (`read_...`). `shrunk` is the standard deviation of φ relative to that before training.
    """
    found = [seen(icm, sample) for icm in pair]
    before = [seen(icm, sample) for icm in start]
    rank = variability(world.vectors).rank
    read = [read_out(each, icm, rank) for each, icm in zip(found, pair)]
    bayes = world.log_posterior(sample)[np.arange(len(sample.labels)), sample.labels]
    gaps = [bayes + each.losses for each in found]
    z = sample.positive_latents
    kinds = world.blocks

    def explained(codes: Array, kind: str) -> float:
        # If features are almost constant, only rounding errors are left.
        return r2(codes, z[:, kinds[kind]], permutations=1).value or 0.0

    row: dict[str, Any] = {
        "excess": float(np.mean(gaps)),
        "beats": float(max(-g.mean() / g.std() * len(g) ** 0.5 for g in gaps)),
        "forward": float(np.mean([each.forward for each in found])),
        "shrunk": float(np.mean([b.phi.std() / a.phi.std() for a, b in zip(before, found)])),
        "rank": rank,
        "share": float(np.mean([share for _, share in read])),
        "agreement": agreement(found[0].after, found[1].after),
        "read_agreement": agreement(read[0][0], read[1][0]),
    }
    for kind in kinds:
        row[kind] = float(np.mean([explained(each.after, kind) for each in found]))
        row[f"read_{kind}"] = float(np.mean([explained(codes, kind) for codes, _ in read]))
    return row


class Seen(NamedTuple):
    """The outputs of an ICM on a sample: φ(s'), before and after the gate, and losses."""

    phi: Array
    after: Array
    losses: Array
    forward: float


def seen(icm: learn.ICM, sample: Sample) -> Seen:
    """Features and losses on a sample."""
    tensors = sample.torch()
    with torch.no_grad():
        found = icm(tensors.observations, tensors.positives, tensors.labels)
        chosen = found.logits.log_softmax(1).gather(1, tensors.labels[:, None])[:, 0]
        phi, after, losses = (
            each.double().numpy() for each in (found.actual, found.pair[:, FEATURES:], -chosen)
        )
        forward = ((found.predicted - found.actual) ** 2).mean().item()
    return Seen(phi, after, losses, forward)


def read_out(found: Seen, icm: learn.ICM, rank: int) -> tuple[Array, float]:
    """The `rank` directions in which φ(s') moves log-odds most, and their share of the variance."""
    vectors = icm.action_vectors().detach().double().numpy()[:, FEATURES:]
    odds = (found.after - found.after.mean(axis=0)) @ (vectors - vectors.mean(axis=0)).T
    left, values, _ = np.linalg.svd(odds, full_matrices=False)
    share = float((values[:rank] ** 2).sum() / max((values**2).sum(), np.finfo(float).tiny))
    return left[:, :rank] * values[:rank], share


def agreement(a: Array, b: Array) -> float:
    """Held-out R² of an affine map, weighted by variance, in the worse of the two directions.

    A mean over coordinates would be meaningless if some are almost constant.
    """
    half, worst = len(a) // 2, 1.0
    for x, y in ((a, b), (b, a)):
        x, y = x - x[:half].mean(axis=0), y - y[:half].mean(axis=0)
        left = y[half:] - x[half:] @ np.linalg.lstsq(x[:half], y[:half], rcond=None)[0]
        worst = min(worst, 1 - float((left**2).sum() / (y[half:] ** 2).sum()))
    return worst
