"""How much faster many seeds are trained together than one after another, in one run.

python benchmarks/learn.py [--quick] [--check]

The student of Roeder et al., Figure 2: f 22-64-64-2, g 18-64-64-2 on one-hot labels, ReLU, batches
of 256 fresh samples (two Gaussian inputs, twenty of noise) with labels drawn from a teacher, each
seed with its own. Sixteen seeds, one thread. Beside it, the share of the time that drawing the
samples takes.

Then eight seeds of a classifier in the world of clusters on the sphere (d = 5, 100 classes, κ = 10,
through a network of LeakyReLU): f 5-64-64-64-5 with batch norm, a table of 100 labels, processor
time. A stack saves the overhead of operations; in larger batches more of a step is arithmetic,
which is the same either way, so that the gain depends on the batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

import identikit as ik
from identikit.learn import MLP, Lookup, OneHot, SoftmaxNet, fresh, supervised, train
from table import arguments, finish, record

SEEDS = range(16)


def student() -> SoftmaxNet:
    return SoftmaxNet(MLP([22, 64, 64, 2], init="he"), OneHot(18, MLP([18, 64, 64, 2], init="he")))


def teacher_samples() -> Callable[[int, np.random.Generator], tuple[torch.Tensor, torch.Tensor]]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(99)
        teacher = student().requires_grad_(False)
    g = teacher.g().T

    def sample(rows: int, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        x = rng.standard_normal((rows, 22), np.float32)
        x[:, :2] *= 3
        inputs = torch.from_numpy(x)
        # The label is how many of the cumulated probabilities a uniform number exceeds.
        cumulated = (teacher.f(inputs) @ g).softmax(1)[:, :-1].cumsum(1)
        return inputs, (torch.from_numpy(rng.random((rows, 1), np.float32)) > cumulated).sum(1)

    return sample


def classifier() -> SoftmaxNet:
    return SoftmaxNet(MLP([5, 64, 64, 64, 5], batch_norm=True, init="he"), Lookup(100, 5))


def clustered() -> Callable[[int, np.random.Generator], tuple[torch.Tensor, torch.Tensor]]:
    world = ik.worlds.SphereClusters(5, 100, 10.0, ik.worlds.LeakyReLU(5, layers=4))

    def sample(rows: int, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        drawn = world.sample(rows, rng).torch()
        return drawn.observations, drawn.labels

    return sample


def in_a_world(batch: int, steps: int, rounds: int) -> float:
    """How many times faster eight seeds with batch norm are together, in processor time."""
    sample = clustered()

    def trained(together: bool) -> float:
        start = time.process_time()
        data = fresh(sample, batch)
        train(classifier, supervised, data, steps, seeds=range(8), together=together)
        return time.process_time() - start

    trained(True)
    alone, stack = zip(*[(trained(False), trained(True)) for _ in range(rounds)])
    return min(alone) / min(stack)


def timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main() -> None:
    """Print each ratio beside its bar."""
    options = arguments(__doc__, "a tenth of the steps")
    torch.set_num_threads(1)
    steps, rounds = (50, 1) if options.quick else (500, 3)
    samples = teacher_samples()

    def trained(together: bool) -> float:
        batches = fresh(samples, 256)
        return timed(
            lambda: train(student, supervised, batches, steps, seeds=SEEDS, together=together)
        )

    def drawn() -> float:
        batches = fresh(samples, 256)
        return timed(lambda: [batches(step, seed) for step in range(steps) for seed in SEEDS])

    trained(True)
    # In turn, so that what else the machine does falls on both.
    alone, stack, data = zip(*[(trained(False), trained(True), drawn()) for _ in range(rounds)])
    record("16 students", "times faster together", min(alone) / min(stack), "≥", 2)
    record("16 students", "share of it spent on samples", min(data) / min(stack), "≤", 0.5)
    for batch, bar in ((128, 2.0), (512, 1.0)):
        faster = in_a_world(batch, steps // 2, rounds)
        record(f"8 seeds in a world, batches of {batch}", "times faster together", faster, "≥", bar)
    finish(options.check)


if __name__ == "__main__":
    main()
