"""Inverse dynamics in a world of known factors and on Pong, and actor-critics on CartPole."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.errors import require
from identikit.factors import r2
from identikit.family import variability
from identikit.studies._study import Record, Settings
from identikit.studies._torch import Tensor, learn, nn, torch
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
    encoder = learn.MLP([d, *s.hidden, FEATURES], "leaky_relu", slope=0.2, init="he")
    return learn.SoftmaxNet(
        learn.ICM(
            encoder, FEATURES, ACTIONS, arm.attention, rescaled=arm.rescaled, rational=arm.rational,
            hidden=64, beta=arm.beta,
        )
    )  # fmt: skip


def objective(net: learn.SoftmaxNet, now: Tensor, after: Tensor, action: Tensor) -> Tensor:
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
        partial(build, arm, s), objective,
        lambda step, number: draws[number // 2 - first](step, number),
        s.collapse_steps if arm.beta == 1 else steps, seeds=numbers, lr=s.lr, schedule="cosine",
        snapshots=[0], together=True,
    )  # fmt: skip
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
    z, kinds = sample.positive_latents, world.blocks

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


#: The gates of an agent's heads; "curious" has none, and an ICM with gates instead.
AGENTS: dict[str, str | None] = {
    "baseline": None,
    "attention": "plain",
    "rescaled": "rescaled",
    "curious": None,
}
PONG, BUTTONS, STACK = "PongNoFrameskip-v4", 6, 4
#: The scale on which pictures vary around their mean.
CONTRAST = 15.0


def actor_critic(arm: str, width: int) -> learn.ActorCritic:
    """A small recurrent agent for CartPole."""
    encoder = nn.Sequential(nn.Linear(4, width), nn.LeakyReLU())
    return learn.ActorCritic(encoder, width, actions=2, attention=AGENTS[arm])


def curiosity(width: int) -> learn.ICM:
    """An ICM with a gate on each part of its inputs, for CartPole."""
    encoder = nn.Sequential(nn.Linear(4, width), nn.LeakyReLU(), nn.Linear(width, 16))
    return learn.ICM(encoder, 16, actions=2, attention="double", hidden=64, eta=0.1)


def agent(arm: str, seed: int, s: Settings) -> Record:
    """Train an agent on CartPole: features of its last updates and scores of its last quarter."""
    run = learn.a2c(
        "CartPole-v1", partial(actor_critic, arm, s.width), s.updates, seed=seed,
        curiosity=partial(curiosity, s.width) if arm == "curious" else None,
        reward_scale=s.reward_scale,
    )  # fmt: skip
    ended = run.episodes[run.episodes["update"] >= 0.75 * s.updates]
    row: dict[str, Any] = {"arm": arm, "seed": seed, "score": ended["score"].mean()}
    row["std"] = run.history["feature_std"].tail(s.last).mean()
    if arm == "curious":
        row["intrinsic"] = run.history["intrinsic"].mean()
    return Record([row])


def picture(frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """84 × 84 pixels of Atari's 210 × 160: every other pixel below the first rows of the score."""
    return np.pad(frame[26:194:2, ::2], ((0, 0), (2, 2)), mode="edge")


def watched(
    steps: int, seed: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Pictures of Pong under random actions, the actions, and the steps with a whole history.

    Action t leads from picture t to t + 1. A step counts if all pictures from t − 3 to t + 1 are of
    one game; from a game's end to the next game's start there is no action.
    """
    ale = require("ale_py", "rl", "Pong")
    ale.ALEInterface.setLoggerMode(ale.LoggerMode.Error)  # or it greets on standard error
    actions = np.random.default_rng(seed).integers(BUTTONS, size=steps)
    pictures = np.empty((steps + 1, 84, 84), dtype=np.uint8)
    game = np.zeros(steps + 1, dtype=int)
    pong = learn.environment(PONG, frameskip=4, obs_type="grayscale")
    pictures[0], over = picture(pong.reset(seed=seed)[0]), False
    for t, action in enumerate(actions.tolist()):
        game[t + 1] = game[t] + over
        if over:
            frame, over = pong.reset()[0], False
        else:
            frame, _, terminated, truncated, _ = pong.step(action)
            over = terminated or truncated
        pictures[t + 1] = picture(frame)
    pong.close()
    places = np.arange(STACK - 1, steps)
    return pictures, actions, places[game[places - STACK + 1] == game[places + 1]]


def pixels(seed: int, s: Settings) -> Record:
    """Train the inverse model on pictures of Pong, and test it on later ones (a unit of work)."""
    pictures, actions, places = watched(s.frames, seed)
    cut = int(0.75 * len(places))
    # No picture is used for both training and testing.
    train, test = (torch.from_numpy(part) for part in (places[: cut - STACK], places[cut:]))
    mean = torch.from_numpy(pictures[: places[cut] - STACK].mean(axis=0)).float()
    every, chosen = torch.from_numpy(pictures), torch.from_numpy(actions)
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        icm = learn.ICM(learn.PixelEncoder(STACK), 288, BUTTONS, beta=0.0)
    adam = torch.optim.Adam(icm.parameters(), s.pixel_lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, s.pixel_steps)

    def stacked(at: Tensor) -> Tensor:
        frames = torch.stack([every[at - back] for back in range(STACK)], 1)
        return (frames.float() - mean) / CONTRAST

    for _ in range(s.pixel_steps):
        at = train[torch.randint(len(train), (s.pixel_batch,), generator=generator)]
        adam.zero_grad()
        torch.autograd.backward(icm.loss(icm(stacked(at), stacked(at + 1), chosen[at]), chosen[at]))
        adam.step()
        schedule.step()
    with torch.no_grad():
        logits = torch.cat(
            [icm(stacked(at), stacked(at + 1), chosen[at]).logits for at in torch.split(test, 250)]
        )
    truth = chosen[test]
    row = {
        "seed": seed, "loss": nn.functional.cross_entropy(logits, truth).item(),
        "accuracy": (logits.argmax(1) == truth).float().mean().item(),
        "uniform": float(np.log(BUTTONS)),
        "most": float(np.bincount(truth.numpy()).max() / len(truth)),
    }  # fmt: skip
    return Record([row])
