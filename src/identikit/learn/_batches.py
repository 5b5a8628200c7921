"""Batches as a function of (step, seed), without any state.

A training that was interrupted can resume without the state of a random generator, because
``batches(step, seed)`` always returns the same batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from identikit.errors import InputError

__all__ = ["Batches", "fresh", "shuffled"]

Built = TypeVar("Built")
Batch = tuple[Tensor, ...]
Batches = Callable[[int, int], Batch]
Sample = Callable[[int, np.random.Generator], Batch]
Change = Callable[[Batch, torch.Generator], Batch]

#: The number of steps whose data `fresh` draws at once, because a call has a fixed cost.
AHEAD = 16


def mix(*numbers: int) -> int:
    """A seed for torch from several numbers; different numbers give unrelated seeds."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def seeded(build: Callable[[], Built], seed: int) -> Built:
    """Call `build` with torch's generator set to `seed`, and restore the generator afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


def shuffled(tensors: Sequence[Tensor], size: int, change: Change | None = None) -> Batches:
    """Go through a data set in epochs, each in its own random order.

    Epoch e of seed s is the permutation by ``default_rng([s, e])``; rows at its end that do not
    fill a batch are left out of that epoch.

    Parameters
    ----------
    tensors : sequence of Tensor
        Tensors of the same length: x, y, ...
    size : int
        The number of rows of a batch.
    change : callable, optional
        ``change(batch, generator)`` returns the batch to learn from (augmentation); the
        generator is seeded by [seed, step].
    """
    lengths = sorted({len(tensor) for tensor in tensors})
    if len(lengths) != 1:
        raise InputError(f"the tensors of a data set must have one length; these have {lengths}")
    if not 1 <= size <= lengths[0]:
        raise InputError(
            f"a batch of {size} rows cannot be drawn from {lengths[0]}; choose 1 to {lengths[0]}"
        )
    return _Shuffled(tuple(tensors), size, change)


def fresh(sample: Sample, size: int) -> Batches:
    """Draw new data at every step.

    Parameters
    ----------
    sample : callable
        ``sample(rows, generator)`` draws independent rows with a NumPy generator and returns a
        tuple of tensors. It is called for the rows of several steps at once.
    size : int
        The number of rows of a batch.
    """
    if size < 1:
        raise InputError(f"a batch needs at least one row, not {size}")
    return _Fresh(sample, size)


@dataclass(frozen=True, eq=False)
class _Shuffled:
    tensors: Batch
    size: int
    change: Change | None
    # A cache: the order of the current epoch, by seed.
    orders: dict[int, tuple[int, NDArray[np.intp]]] = field(default_factory=dict)

    def __call__(self, step: int, seed: int) -> Batch:
        rows = len(self.tensors[0])
        epoch, at = divmod(step, rows // self.size)
        kept = self.orders.get(seed)
        if kept is None or kept[0] != epoch:
            kept = epoch, np.random.default_rng([seed, epoch]).permutation(rows)
            self.orders[seed] = kept
        chosen = torch.from_numpy(kept[1][at * self.size : (at + 1) * self.size])
        batch = tuple(tensor[chosen] for tensor in self.tensors)
        if self.change is None:
            return batch
        return self.change(batch, torch.Generator().manual_seed(mix(seed, step)))

    def __reduce__(self) -> tuple[object, ...]:
        return _Shuffled, (self.tensors, self.size, self.change)


@dataclass(frozen=True, eq=False)
class _Fresh:
    sample: Sample
    size: int
    drawn: dict[int, tuple[int, Batch]] = field(default_factory=dict)

    def __call__(self, step: int, seed: int) -> Batch:
        block, at = divmod(step, AHEAD)
        kept = self.drawn.get(seed)
        if kept is None or kept[0] != block:
            generator = np.random.default_rng([seed, block])
            drawn = self.sample(AHEAD * self.size, generator)
            # Copied into memory aligned by torch, because products may round differently otherwise.
            kept = block, tuple(tensor.clone() for tensor in drawn)
            self.drawn[seed] = kept
        return tuple(tensor[at * self.size : (at + 1) * self.size] for tensor in kept[1])

    def __reduce__(self) -> tuple[object, ...]:
        return _Fresh, (self.sample, self.size)
