"""Batch norm of a stack of seeds, as one batch norm over the channels of all of them.

The rule of `vmap` itself applies weight and bias in separate passes over the data, which takes
longer.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn
from torch._C import _functorch
from torch.nn import functional


def join_channels(net: nn.Module) -> None:
    """Let a network's batch norms process a stack at once; without a stack they are unchanged."""
    for module in net.modules():
        if type(module) is nn.BatchNorm1d:
            module.forward = partial(_forward, module)  # type: ignore[method-assign]


def _forward(norm: nn.BatchNorm1d, x: Tensor) -> Tensor:
    own = [norm.running_mean, norm.running_var, norm.weight, norm.bias]
    stacked = [t for t in (x, *own) if t is not None and _functorch.is_batchedtensor(t)]
    # torch's own: without running averages, weights or a stack; for images; for plain averages.
    if len(stacked) < 5 or x.dim() != 2 or norm.momentum is None:
        return nn.BatchNorm1d.forward(norm, x)
    level = _functorch.maybe_get_level(x)
    values, *rest = (_seeds_first(t, level) for t in stacked)
    seeds, rows, channels = values.shape
    if norm.training and norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    mean, var, weight, bias = (t.view(-1) for t in rest)
    joined = values.movedim(0, 1).reshape(rows, seeds * channels)
    out = functional.batch_norm(
        joined, mean, var, weight, bias, norm.training, norm.momentum, norm.eps
    )
    return _functorch._add_batch_dim(out.view(rows, seeds, channels), 1, level)


def _seeds_first(tensor: Tensor, level: int) -> Tensor:
    value, dim = _functorch._unwrap_batched(tensor, level)
    return value.movedim(dim, 0) if dim else value
