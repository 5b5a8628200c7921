"""Softmax heads on the sphere: f and w normalised or not, and a learned temperature.

The four cases of Reizinger et al. 2025: both have unit norm (C1), only the features (C2), only the
weights (C3), or neither (C4). Vectors are normalised in the forward pass, so that Adam's moments
belong to the weights that it moves. The factor β, the inverse temperature, multiplies the weights,
so that it is part of g in a `SoftmaxNet`, in its scores and in the model of a run.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from identikit.errors import InputError
from identikit.learn._modules import Lookup, SoftmaxNet

__all__ = ["Normalised", "Tempered", "case_net"]

#: Whether f, and whether w, has unit norm.
NORMALISED = {"C1": (True, True), "C2": (True, False), "C3": (False, True), "C4": (False, False)}


class Normalised(nn.Module):
    """A module whose output is scaled to unit norm.

    Parameters
    ----------
    module : Module
        An encoder or a table of labels; the wrapper of a table is a table of labels too.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        _take_labels(self, module)

    def forward(self, *inputs: Tensor) -> Tensor:
        """The module's output divided by its norm."""
        return functional.normalize(self.module(*inputs), dim=-1)


class Tempered(nn.Module):
    """A module whose output is multiplied by a learned positive number β = exp(θ).

    Parameters
    ----------
    module : Module
        An encoder or a table of labels; the wrapper of a table is a table of labels too.
    beta : float
        The initial value of β.
    """

    def __init__(self, module: nn.Module, beta: float = 1.0) -> None:
        if not 0 < beta < math.inf:
            raise InputError(f"beta is {beta}; expected a number above zero")
        super().__init__()
        self.module = module
        self.log_beta = nn.Parameter(torch.tensor(math.log(beta)))
        _take_labels(self, module)

    @property
    def beta(self) -> Tensor:
        """The factor β, the inverse of the temperature."""
        return self.log_beta.exp()

    def forward(self, *inputs: Tensor) -> Tensor:
        """The module's output times β."""
        out: Tensor = self.beta * self.module(*inputs)
        return out


def case_net(
    case: str,
    encoder: nn.Module,
    labels: int,
    width: int,
    *,
    bias: bool = False,
    beta: float = 1.0,
) -> SoftmaxNet:
    """A classifier of classes or instances in one of the four cases: scores β w_iᵀ f(x).

    β is learned where the features have unit norm (C1, C2); elsewhere their length is β.

    Parameters
    ----------
    case : {"C1", "C2", "C3", "C4"}
        Which vectors have unit norm: both, only the features, only the weights, or neither.
    encoder : Module
        f, before any normalisation: inputs to (n, width).
    labels, width : int
        The number of labels, and of entries of a vector.
    bias : bool
        Whether there is one bias per label, which absorbs the log of unequal class frequencies.
    beta : float
        The initial value of β, in C1 and C2.

    Examples
    --------
    >>> from identikit.learn import MLP
    >>> net = case_net("C1", MLP([8, 32, 5]), labels=100, width=5, beta=10.0)
    >>> net.f(torch.ones(3, 8)).norm(dim=1).allclose(torch.ones(3))
    True
    >>> net.unembeddings().norm(dim=1).allclose(torch.full((100,), 10.0))
    True
    """
    if case not in NORMALISED:
        raise InputError(f"there is no case {case!r}; choose one of {', '.join(NORMALISED)}")
    of_f, of_w = NORMALISED[case]
    g: nn.Module = Lookup(labels, width)
    if of_w:
        g = Normalised(g)
    if of_f:
        g = Tempered(g, beta)
    return SoftmaxNet(Normalised(encoder) if of_f else encoder, g, labels if bias else None)


def _take_labels(wrapper: nn.Module, module: nn.Module) -> None:
    """Make the wrapper of a label table a label table too (see `SoftmaxNet.unembeddings`)."""
    if hasattr(module, "labels"):
        wrapper.labels = module.labels
