"""Learning rates over time and by parameter, cut gradients, and stacks with running averages."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conftest import close
from identikit.errors import InputError

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from identikit.learn import (  # noqa: E402
    MLP,
    Lookup,
    SoftmaxNet,
    npair,
    shuffled,
    supervised,
    train,
)
from identikit.learn._descent import SCHEDULES, Descent  # noqa: E402
from learning import data, gap, one_thread  # noqa: E402, F401

doubles = partial(data, 256, torch.float64)


def normed() -> SoftmaxNet:
    return SoftmaxNet(MLP([5, 16, 12, 3], batch_norm=True), Lookup(7, 3), bias=7).double()


def plain() -> SoftmaxNet:
    return SoftmaxNet(MLP([5, 8, 3]), Lookup(7, 3)).double()


def one_tower() -> SoftmaxNet:
    """Its norm is met twice in a step."""
    return SoftmaxNet(MLP([5, 8, 3], batch_norm=True, last_bias=False)).double()


# Schedules


def test_schedules_are_their_formulas() -> None:
    def rates(schedule: str, warmup: int = 0) -> list[float]:
        descent = Descent(10, 2.0, schedule=schedule, warmup=warmup)
        return [descent.rate(step) for step in range(10)]

    assert rates("constant") == [2.0] * 10
    assert rates("step") == [2.0] * 7 + [0.2] * 3
    close(rates("linear"), 2 * np.arange(10, 0, -1) / 10, 1e-12)
    close(rates("cosine"), 2 * np.cos(np.pi * np.arange(10) / 20) ** 2, 1e-12)
    # Up to 2 along a line, which the sixth step is the first to have; then down along another.
    expected = 2 * np.r_[np.arange(1, 6) / 6, np.arange(5, 0, -1) / 5]
    close(rates("linear", warmup=5), expected, 1e-12)
    for schedule in SCHEDULES:
        assert max(rates(schedule, warmup=3)) == rates(schedule, warmup=3)[3] == 2.0


class Torch:
    """The same training by torch's own parts, one seed, as an independent reference."""

    def __init__(self, net: SoftmaxNet, groups: list[dict[str, Any]], scheduler: Any) -> None:
        self.net = net.train()
        self.adam = torch.optim.AdamW(groups, lr=0.02, weight_decay=0.1)
        self.scheduler = scheduler(self.adam)

    def run(self, batches: Any, steps: int, clip: float | None = None) -> None:
        for step in range(steps):
            self.adam.zero_grad()
            supervised(self.net, *batches(step, 4)).backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(self.net.parameters(), clip)
            self.adam.step()
            self.scheduler.step()


LR = torch.optim.lr_scheduler
STEPS = 40


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    ("schedule", "scheduler"),
    [
        ("constant", lambda adam: LR.ConstantLR(adam, 1.0)),
        ("cosine", lambda adam: LR.CosineAnnealingLR(adam, STEPS)),
        ("linear", lambda adam: LR.LinearLR(adam, 1.0, 0.0, STEPS)),
        ("step", lambda adam: LR.StepLR(adam, 28, 0.1)),
    ],
)
def test_a_training_is_torchs_own(schedule: str, scheduler: Any, together: bool) -> None:
    """With factors for two groups of parameters, cut gradients, and running averages."""
    batches = shuffled(doubles(), 32)
    run = train(
        normed,
        supervised,
        batches,
        STEPS,
        seeds=(1, 4),
        lr=0.02,
        weight_decay=0.1,
        schedule=schedule,
        rates={"f.": 0.5, "f.layers.0": 3.0},
        clip=0.3,
        snapshots=(0,),
        together=together,
    )
    net = run.net(4, step=0).requires_grad_(True)
    f, first = list(net.f.layers[1:].parameters()), list(net.f.layers[0].parameters())
    groups = [
        {"params": first, "lr": 0.06},
        {"params": f, "lr": 0.01},
        {"params": [*net.g.parameters(), net.bias], "lr": 0.02},
    ]
    reference = Torch(net, groups, scheduler)
    reference.run(batches, STEPS, clip=0.3)
    ours = run.net(4)
    for name, tensor in reference.net.state_dict().items():
        close(ours.state_dict()[name], tensor, 1e-9)
        # It moved.
        if name.endswith(("weight", "running_mean")):
            assert (tensor - run.net(4, step=0).state_dict()[name]).abs().max() > 1e-3


def test_gradients_are_cut_seed_by_seed() -> None:
    """With clip at work, the gradients' norms that Adam sees are at most that; few are below."""
    batches = shuffled(doubles(), 32)
    call = partial(train, plain, supervised, batches, 30, seeds=(0, 1, 2), lr=0.01)
    cut, alone = call(clip=0.05, together=True), call(clip=0.05, together=False)
    assert gap(cut, alone) < 1e-9
    # Adam is invariant to a constant factor, but not to one that changes; a wide bar is none.
    assert gap(cut, call(together=True)) > 1e-3
    assert gap(call(clip=1e9, together=True), call(together=True)) < 1e-9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": "sine"}, "no schedule 'sine'; choose one of constant, cosine, linear, step"),
        ({"warmup": -1}, "warm-up of -1 steps does not fit a training of 10; choose from 0 to 9"),
        ({"warmup": 10}, "warm-up of 10 steps does not fit"),
        ({"rates": {"h.": 2.0}}, r"no parameter's name begins with it; there are f\.layers"),
        ({"rates": {"g.": 0.0}}, r"rate of 'g\.' is 0.0; it must be positive"),
        ({"rates": {"g.": math.inf}}, r"rate of 'g\.' is inf"),
        ({"clip": 0.0}, "clipped to a norm of 0.0; give a positive one"),
        ({"clip": math.nan}, "clipped to a norm of nan"),
        ({"lr": math.inf}, "learning rate is inf"),
    ],
)
def test_wrong_calls(changes: dict[str, Any], message: str) -> None:
    call = partial(train, plain, supervised, shuffled(doubles(), 32), 10)
    assert call(warmup=9, rates={"g.": 2.0}, clip=1.0).steps == 10
    with pytest.raises(InputError, match=message):
        call(**changes)


# Stacks with buffers


@pytest.mark.parametrize("early", [False, True])
def test_running_averages_are_each_seeds_own(early: bool) -> None:
    """A stack gives what one by one does, also where seeds stop at different steps."""
    x, y = doubles()
    stopping = {"validate_every": 5, "patience": 2, "lr": 0.03} if early else {}
    call = partial(
        train,
        normed,
        supervised,
        shuffled((x[:64], y[:64]), 32),
        60,
        seeds=(4, 0, 7),
        schedule="cosine",
        warmup=5,
        validation=(x[150:], y[150:]),
        snapshots=(0, 1, 35),
        **stopping,
    )
    a, b = call(together=True), call(together=False)
    assert np.allclose(a.history, b.history, atol=1e-9, equal_nan=True)
    assert gap(a, b) < 1e-9
    assert (a.history.groupby("seed").step.max().nunique() > 1) == early
    mean, count = (
        a.weights[60][f"f.layers.1.{n}"] for n in ("running_mean", "num_batches_tracked")
    )
    assert (mean[0] - mean[1]).abs().max() > 0.01
    assert count.dtype == torch.int64
    assert a.weights[35]["f.layers.1.num_batches_tracked"].tolist()[0] <= 35
    if not early:
        assert count.tolist() == [60, 60, 60]
        # In eval mode a seed has its own averages: the held-out loss is that of its network.
        last = a.history[a.history.step == 60].set_index("seed").validation
        pieces = [(x[at : at + 32], y[at : at + 32]) for at in range(150, 225, 32)]
        for seed in a.seeds:
            net = a.net(seed)
            losses = [supervised(net, *piece).item() for piece in pieces]
            assert last[seed] == pytest.approx(np.mean(losses), abs=1e-9)


def test_a_norm_that_is_met_twice_in_a_step() -> None:
    x, _ = doubles()
    call = partial(
        train, one_tower, npair, shuffled((x, x + 0.1 * x.flip(0)), 16), 12, seeds=(0, 1)
    )
    a, b = call(together=True), call(together=False)
    assert a.weights[12]["f.layers.1.num_batches_tracked"].tolist() == [24, 24]
    assert gap(a, b) < 1e-9


def around(norm: Callable[[], nn.Module]) -> SoftmaxNet:
    last = MLP([8, 3], last_bias=False)
    return SoftmaxNet(nn.Sequential(MLP([5, 8], last_bias=False), norm(), last), Lookup(7, 3))


@pytest.mark.parametrize(
    "norm",
    [
        lambda: nn.BatchNorm1d(8, affine=False),
        lambda: nn.BatchNorm1d(8, track_running_stats=False),
        lambda: nn.BatchNorm1d(8, momentum=0.3, eps=0.1),
        lambda: nn.Sequential(
            nn.Unflatten(1, (4, 2)), nn.BatchNorm1d(4), nn.Unflatten(1, (2, 2)), nn.BatchNorm2d(2),
            nn.Flatten(),
        ),
    ],
)  # fmt: skip
def test_other_norms_in_a_stack(norm: Callable[[], nn.Module]) -> None:
    x, y = doubles()
    call = partial(
        train,
        lambda: around(norm).double(),
        supervised,
        shuffled((x, y), 32),
        9,
        seeds=(0, 1, 2),
        validation=(x, y),
    )
    a, b = call(together=True), call(together=False)
    assert gap(a, b) < 1e-9
    assert np.allclose(a.history, b.history, atol=1e-9, equal_nan=True)


def test_averages_over_all_steps_cannot_be_stacked() -> None:
    build = partial(around, lambda: nn.BatchNorm1d(8, momentum=None))
    x, y = doubles()
    with pytest.raises(InputError, match=r"cannot be trained as one stack: .*item"):
        train(build, supervised, shuffled((x.float(), y), 32), 2, seeds=(0, 1), together=True)


@pytest.mark.parametrize("together", [True, False])
def test_a_look_at_held_out_data_changes_nothing(together: bool) -> None:
    call = partial(
        train,
        normed,
        supervised,
        shuffled(doubles(), 32),
        12,
        seeds=(0, 1),
        together=together,
    )
    assert gap(call(), call(validation=doubles(), validate_every=2)) == 0


class Stop(Exception):  # noqa: N818
    """As if the training were killed."""


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("stops", [(1,), (17, 37)])
def test_stopped_it_goes_on_exactly(together: bool, stops: tuple[int, ...], tmp_path: Path) -> None:
    """Schedule, rates, cut gradients and running averages; seeds that stop early among them."""
    x, y = doubles()
    batches = shuffled((x[:64], y[:64]), 32)
    call = partial(
        train,
        normed,
        supervised,
        steps=60,
        seeds=(3, 0, 1),
        lr=0.01,
        schedule="cosine",
        warmup=7,
        rates={"g.": 2.0},
        clip=0.5,
        validation=(x[64:], y[64:]),
        validate_every=5,
        patience=4,
        snapshots=(0, 10, 55),
        together=together,
    )
    whole = call(batches=batches)
    assert whole.history.groupby("seed").step.max().nunique() > 1
    for stop in stops:

        def until(step: int, seed: int, stop: int = stop) -> tuple[Tensor, ...]:
            if step == stop:
                raise Stop
            return batches(step, seed)

        with pytest.raises(Stop):
            call(batches=until, folder=tmp_path, save_seconds=0.0)
    resumed = call(batches=batches, folder=tmp_path)
    pd.testing.assert_frame_equal(resumed.history, whole.history, check_exact=True)
    assert gap(resumed, whole) == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": "linear"}, 'schedule was "cosine" and is now "linear"'),
        ({"warmup": 3}, "warmup was 2 and is now 3"),
        ({"rates": {"g.": 3.0}}, r'rates was \[\["g.", 2.0\]\] and is now \[\["g.", 3.0\]\]'),
        ({"clip": None}, "clip was 1.0 and is now null"),
    ],
)
def test_a_folder_of_another_schedule_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    right = {"schedule": "cosine", "warmup": 2, "rates": {"g.": 2.0}, "clip": 1.0}
    call = partial(train, plain, supervised, shuffled(doubles(), 32), 5, folder=tmp_path)
    call(**right)
    with pytest.raises(InputError, match=f"different settings: .*{message}.*give another folder"):
        call(**{**right, **changes})
    assert call(**right).steps == 5
