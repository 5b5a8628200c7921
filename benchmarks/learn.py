"""How much faster many seeds are trained together than one after another, in one run.

python benchmarks/learn.py [--quick] [--check]

The student of Roeder et al., Figure 2: f 22-64-64-2, g 18-64-64-2 on one-hot labels, ReLU, batches
of 256 fresh samples (two Gaussian inputs, twenty of noise) with labels drawn from a teacher, each
seed with its own. Sixteen seeds, one thread. Beside it, the share of the time that drawing the
samples takes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from identikit.learn import MLP, OneHot, SoftmaxNet, fresh, supervised, train

SEEDS = range(16)


def student() -> SoftmaxNet:
    return SoftmaxNet(MLP([22, 64, 64, 2]), OneHot(18, MLP([18, 64, 64, 2])))


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


def timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main() -> None:
    """Print each ratio beside its bar."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the steps")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bar is missed")
    options = parser.parse_args()
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
    faster, share = min(alone) / min(stack), min(data) / min(stack)
    print(f"16 seeds, {steps} steps: one by one {min(alone):.2f} s, together {min(stack):.2f} s")
    print(f"times faster together            {faster:6.2f}   bar ≥ 2")
    print(f"share of it spent on samples     {share:6.2f}   bar ≤ 0.5")
    if options.check and (faster < 2 or share > 0.5):
        sys.exit(1)


if __name__ == "__main__":
    main()
