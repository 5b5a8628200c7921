"""Perturbations of the weights after a step of learning: some are redrawn, or change places.

Reizinger and Gyires-Tóth 2019 (arXiv 1909.11977). Weights are always changed in place, so that an
optimiser continues with the same tensors; its own state and all biases are unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Generator, Tensor, nn

from identikit.errors import InputError

__all__ = [
    "AfterStep",
    "Shuffling",
    "weight_entropy",
    "weight_reinitialization",
    "weight_shuffling",
]

#: Called after a step as ``after_step(module, generator)``; changes the weights in place.
AfterStep = Callable[[nn.Module, Generator], None]

#: The blocks of rows of an LSTM's matrices, in PyTorch's order.
GATES = ("input", "forget", "cell", "output")
#: The approximate number of weights per histogram bin, and the smallest number of bins.
PER_BIN, FEWEST_BINS = 20, 5
#: Bins with at most this share of the weights do not count towards the entropy.
NEGLIGIBLE = 1e-5


def weight_reinitialization(
    p: float, coverage: float, *, layers: str | Iterable[str] | None = None, gate: str | None = None
) -> AfterStep:
    """Redraw some of the weights in a random rectangle of every weight matrix.

    In each of the two dimensions (outputs and inputs), of size n, the rectangle starts at a
    uniformly random index and extends over 1 to max(2, ⌊coverage · n⌋) − 1 more rows or columns,
    also uniformly random; it is cut at the border. Each weight inside is replaced with probability
    p by a draw from U(−1/√m, 1/√m), where m is the number of weights of one output (fan-in). For a
    convolution (outputs, inputs, *kernel) the rectangle is over the channels and contains whole
    kernels, so that its size follows the coverage whatever the size of the kernels.

    Parameters
    ----------
    p : float
        Probability, from 0 to 1.
    coverage : float
        Share of a dimension, from 0 to 1, that bounds the rectangle.
    layers : str or iterable of str, optional
        Only weights whose names in the module begin with this, as in "f.layers.0."; all by default.
    gate : {"input", "forget", "cell", "output"}, optional
        Only this gate of LSTMs. Each of the four gates is treated as a matrix in any case.

    Returns
    -------
    callable
        ``f(module, generator)``, for any loop (see `weight_shuffling`) and for `after_step` of
        `train`. It acts on parameters called "weight" with two or more dimensions.

    Examples
    --------
    >>> import torch
    >>> layer = torch.nn.Linear(4, 3)
    >>> before = layer.weight.clone()
    >>> kick = weight_reinitialization(1.0, 0.5)
    >>> kick(layer, torch.Generator().manual_seed(0))
    >>> int((layer.weight != before).sum()), bool((layer.weight.abs() <= 0.5).all())
    (2, True)
    """
    return Reinitialization(*_checked(p, coverage, layers, gate))


def weight_shuffling(
    p: float, coverage: float, *, layers: str | Iterable[str] | None = None, gate: str | None = None
) -> AfterStep:
    """Permute the weights in a random window of every weight matrix.

    With probability p for each matrix, and for each kernel of a convolution, a window of its
    flattened weights is permuted at random. The window starts at a uniformly random index, has from
    1 to max(2, ⌊coverage · size⌋) − 1 weights, also uniformly random, and is cut off at the end.
    The values of the weights stay exactly the same, and with them their histogram and its entropy.
    (The authors' code overwrites weights with copies of others instead of exchanging them.) A
    window of a single weight changes nothing: kernels of 5 × 5 need a coverage of at least .12.

    Parameters
    ----------
    p : float
        Probability, from 0 to 1.
    coverage : float
        Share of a matrix or kernel, from 0 to 1, that bounds the window.
    layers, gate
        As for `weight_reinitialization`.

    Returns
    -------
    callable
        ``f(module, generator)``, as for `weight_reinitialization`.

    Examples
    --------
    In a PyTorch training loop, call it after the optimiser's step, with your own generator:

    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    >>> kick, generator = weight_shuffling(0.3, 0.5), torch.Generator().manual_seed(0)
    >>> x = torch.randn(64, 2)
    >>> for step in range(10):
    ...     optimizer.zero_grad()
    ...     torch.nn.functional.mse_loss(net(x), x[:, :1]).backward()
    ...     optimizer.step()
    ...     before = net[0].weight.clone()
    ...     kick(net, generator)
    >>> sorted(net[0].weight.flatten().tolist()) == sorted(before.flatten().tolist())
    True
    """
    return Shuffling(*_checked(p, coverage, layers, gate))


def weight_entropy(weights: nn.Module | Tensor) -> float:
    """The entropy of a histogram of the weights, in bits; for a module, the sum over its weights.

    H = −Σ q log₂ q over max(5, ⌊size / 20⌋) equal bins from the lowest to the highest weight of a
    tensor, leaving out bins whose share q is 1e-5 or less.

    Parameters
    ----------
    weights : Module or Tensor
        For a module, the tensors that `weight_shuffling` acts on, each with its own histogram.

    Examples
    --------
    >>> import torch
    >>> weight_entropy(torch.ones(8)), weight_entropy(torch.arange(160.0))
    (0.0, 3.0)
    """
    if isinstance(weights, nn.Module):
        return sum(weight_entropy(tensor) for _, tensor in _weights(weights, None))
    values = weights.detach().flatten().double().cpu().numpy()
    if not values.size or not np.isfinite(values).all():
        raise InputError(
            "the entropy needs at least one weight, and finite weights only; got "
            f"{values.size} weights, {int((~np.isfinite(values)).sum())} of them not finite"
        )
    counts, _ = np.histogram(values, bins(values.size))
    shares = counts / values.size
    shares = shares[shares > NEGLIGIBLE]
    return abs(float(shares @ np.log2(shares)))


def bins(size: int) -> int:
    """The number of bins in the histogram of this many weights."""
    return max(FEWEST_BINS, size // PER_BIN)


@dataclass(frozen=True)
class Kick:
    """What both perturbations share; as plain data it can be sent to processes and has a repr."""

    p: float
    coverage: float
    layers: tuple[str, ...] | None
    gate: str | None

    @torch.no_grad()
    def __call__(self, module: nn.Module, generator: Generator) -> None:
        for matrix in self.matrices(module):
            self.kick(matrix, generator)

    def matrices(self, module: nn.Module) -> Iterator[Tensor]:
        """Views of the weights to perturb; those of LSTMs gate by gate."""
        gated = dict(_lstm_weights(module))
        found = _weights(module, self.layers)
        if self.gate is not None:
            found = [(name, tensor) for name, tensor in found if name in gated]
            if not found:
                raise InputError(
                    f"there is no LSTM with a {self.gate} gate among the chosen weights of this "
                    f"{type(module).__name__}; leave gate out, or choose other layers"
                )
        for name, tensor in found:
            if name not in gated:
                yield tensor
                continue
            for gate, block in zip(GATES, tensor.chunk(len(GATES))):
                if self.gate in (None, gate):
                    yield block

    def kick(self, matrix: Tensor, generator: Generator) -> None:
        raise NotImplementedError


class Reinitialization(Kick):
    """See `weight_reinitialization`."""

    def kick(self, matrix: Tensor, generator: Generator) -> None:
        (top, rows), (left, columns) = (
            _window(size, self.coverage, generator) for size in matrix.shape[:2]
        )
        # One more than the window's length, because the end is included.
        block = matrix[top : top + rows + 1, left : left + columns + 1]
        chosen, new = (
            torch.rand(block.shape, generator=generator, device=generator.device) for _ in range(2)
        )
        bound = matrix[0].numel() ** -0.5
        new = (bound * (2 * new - 1)).to(block)
        block.copy_(torch.where((chosen < self.p).to(block.device), new, block))


class Shuffling(Kick):
    """See `weight_shuffling`."""

    def kick(self, matrix: Tensor, generator: Generator) -> None:
        places = list(product(*map(range, matrix.shape[:2]))) if matrix.dim() > 2 else [()]
        drawn = torch.rand(len(places), generator=generator, device=generator.device) < self.p
        for place in drawn.nonzero().flatten().tolist():
            self._shuffle(matrix[places[place]], generator)

    def _shuffle(self, values: Tensor, generator: Generator) -> None:
        flat = values.flatten()
        start, length = _window(len(flat), self.coverage, generator)
        window = flat[start : start + length]
        window.copy_(window[self.order(len(window), generator).to(window.device)])
        # If the weights are not contiguous in memory, `flat` is a copy.
        values.copy_(flat.view(values.shape))

    def order(self, count: int, generator: Generator) -> Tensor:
        """Which weight goes to each place of a window."""
        return torch.randperm(count, generator=generator, device=generator.device)


def _window(size: int, coverage: float, generator: Generator) -> tuple[int, int]:
    """A random start, and a random length from 1 to max(2, ⌊coverage · size⌋) − 1."""
    highs = (size, max(2, int(coverage * size)) - 1)
    start, more = (
        int(torch.randint(high, (), generator=generator, device=generator.device)) for high in highs
    )
    return start, 1 + more


def _weights(module: nn.Module, layers: tuple[str, ...] | None) -> list[tuple[str, Tensor]]:
    """The weights of a module, by name: all, or those whose names begin with one of `layers`."""
    found = [
        (name, tensor)
        for name, tensor in module.named_parameters()
        if tensor.dim() > 1 and "weight" in name.rpartition(".")[2]
    ]
    for prefix in layers or ("",):
        if not any(name.startswith(prefix) for name, _ in found):
            names = ", ".join(name for name, _ in found) or "none"
            raise InputError(
                f"no weight of this {type(module).__name__} has two dimensions or more and a name "
                f"that begins with {prefix!r}; its weights are: {names}"
            )
    return [pair for pair in found if pair[0].startswith(layers or "")]


def _lstm_weights(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The matrices of LSTMs, in which the four gates are stacked as blocks of rows."""
    for path, part in module.named_modules():
        if isinstance(part, nn.LSTM | nn.LSTMCell):
            for name, tensor in part.named_parameters(recurse=False):
                if name.startswith(("weight_ih", "weight_hh")):
                    yield f"{path}.{name}".lstrip("."), tensor


def _checked(
    p: float, coverage: float, layers: str | Iterable[str] | None, gate: str | None
) -> tuple[float, float, tuple[str, ...] | None, str | None]:
    for name, value in (("p", p), ("coverage", coverage)):
        if not 0 <= value <= 1:
            raise InputError(f"{name} is {value}; it must be a number from 0 to 1")
    if gate is not None and gate not in GATES:
        raise InputError(f"there is no gate {gate!r}; choose one of {', '.join(GATES)}")
    chosen = (layers,) if isinstance(layers, str) else None if layers is None else tuple(layers)
    return float(p), float(coverage), chosen, gate
