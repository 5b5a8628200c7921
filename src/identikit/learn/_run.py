"""The result of training: the weights of every seed at every snapshot, as networks and views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from identikit.errors import InputError
from identikit.family import SoftmaxModel
from identikit.learn._learner import Weights, build_seeded, weights_of
from identikit.learn._modules import SoftmaxNet

__all__ = ["Run", "rows"]

#: The number of input entries that go through a network at a time.
PIECE = 2**20


@dataclass(frozen=True, eq=False)
class Run:
    """The result of `train`: the networks of all seeds, and the history of their losses.

    Attributes
    ----------
    seeds : tuple of int
        The seed of each network.
    steps : int
        The number of steps that were asked for.
    history : DataFrame
        With columns seed, step, loss (the mean over the steps since the previous line) and
        validation (NaN where there was none).
    snapshots : tuple of int
        Steps whose weights are stored. With early stopping, the last one holds the best weights,
        and a seed that has stopped has its best weights in all later ones.
    """

    seeds: tuple[int, ...]
    steps: int
    history: pd.DataFrame
    build: Callable[[], SoftmaxNet] = field(repr=False)
    #: By step, then by name; the first axis is the seeds.
    weights: dict[int, Weights] = field(repr=False)

    @property
    def snapshots(self) -> tuple[int, ...]:
        """Steps whose weights are stored."""
        return tuple(sorted(self.weights))

    def net(self, seed: int, step: int | None = None) -> SoftmaxNet:
        """The network of a seed, in evaluation mode.

        Parameters
        ----------
        seed : int
            One of `seeds`.
        step : int, optional
            One of `snapshots`; the last by default.
        """
        step = self.steps if step is None else step
        if seed not in self.seeds:
            raise InputError(f"there is no seed {seed} in this run; it has {list(self.seeds)}")
        if step not in self.weights:
            raise InputError(
                f"no weights were stored at step {step}; there are snapshots at "
                f"{list(self.snapshots)}; ask for others with train(..., snapshots=...)"
            )
        net = build_seeded(self.build, seed)
        own = weights_of(net)
        for name, tensor in self.weights[step].items():
            own[name].copy_(tensor[self.seeds.index(seed)])
        return net.eval().requires_grad_(False)

    def embed(self, x: Tensor, step: int | None = None) -> dict[str, NDArray[np.float32]]:
        """f(x) of every seed, as views named "seed 0", ...; positions of sequences become rows."""
        return {f"seed {seed}": rows(self.net(seed, step).f, x) for seed in self.seeds}

    def unembed(
        self, y: Tensor | None = None, step: int | None = None
    ) -> dict[str, NDArray[np.float32]]:
        """g(y) of every seed; without y, g of all labels."""
        return {f"seed {seed}": _unembed(self.net(seed, step), y) for seed in self.seeds}

    def model(
        self, seed: int, x: Tensor, y: Tensor | None = None, step: int | None = None
    ) -> SoftmaxModel:
        """A seed as a `SoftmaxModel` on these inputs and labels (all labels without y)."""
        net = self.net(seed, step)
        bias = net.bias if net.bias is None or y is None else net.bias[y]
        return SoftmaxModel(
            rows(net.f, x),
            _unembed(net, y),
            None if bias is None else bias.numpy(),
            name=f"seed {seed}",
        )


@torch.no_grad()
def rows(encoder: nn.Module, data: Tensor) -> NDArray[np.float32]:
    """The outputs of an encoder as float32 rows, computed in pieces."""
    size = max(1, PIECE // max(1, data[0].numel()))
    return np.concatenate(
        [_flat(encoder(data[at : at + size])) for at in range(0, len(data), size)]
    )


def _unembed(net: SoftmaxNet, y: Tensor | None) -> NDArray[np.float32]:
    return _flat(net.unembeddings()) if y is None else rows(net.g, y)


def _flat(out: Tensor) -> NDArray[np.float32]:
    return out.flatten(0, -2).to(torch.float32).numpy()
