"""Games of the study of curiosity: actor-critics on CartPole, and inverse dynamics on Pong."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import require
from identikit.studies._store import Record
from identikit.studies._study import Settings
from identikit.studies._torch import Tensor, learn, nn, torch

#: The gates of an agent's heads; "curious" has none, and an ICM with gates instead.
AGENTS: dict[str, str | None] = {
    "baseline": None,
    "attention": "plain",
    "rescaled": "rescaled",
    "curious": None,
}
PONG, ACTIONS, STACK = "PongNoFrameskip-v4", 6, 4
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
        "CartPole-v1",
        partial(actor_critic, arm, s.width),
        s.updates,
        curiosity=partial(curiosity, s.width) if arm == "curious" else None,
        seed=seed,
        reward_scale=s.reward_scale,
    )
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
    actions = np.random.default_rng(seed).integers(ACTIONS, size=steps)
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
        icm = learn.ICM(learn.PixelEncoder(STACK), 288, ACTIONS, beta=0.0)
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
    shares = np.bincount(truth.numpy(), minlength=ACTIONS) / len(truth)
    row = {
        "seed": seed,
        "loss": nn.functional.cross_entropy(logits, truth).item(),
        "accuracy": (logits.argmax(1) == truth).float().mean().item(),
        "uniform": float(np.log(ACTIONS)),
        "most": float(shares.max()),
    }
    return Record([row])
