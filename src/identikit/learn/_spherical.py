"""Heads on the sphere: f and w normalised or not, and a temperature that is learned.

The four cases of Reizinger et al. 2025: both at unit norm (C1), only the features (C2), only the
weights (C3), neither (C4). Norms are taken in the forward pass, so that Adam's moments belong to
the weights they move; the temperature β multiplies the weights, so that a `SoftmaxNet`, its scores
and the model of a run have it in g.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from identikit.errors import InputError
from identikit.learn._modules import Lookup, SoftmaxNet

#: Whether f, and whether w, is at unit norm.
NORMALISED = {"C1": (True, True), "C2": (True, False), "C3": (False, True), "C4": (False, False)}


class Normalised(nn.Module):
    """What a module gives, at unit norm.

    Parameters
    ----------
    module : Module
        An encoder, or a table of labels, which this then is as well.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        _take_labels(self, module)

    def forward(self, *inputs: Tensor) -> Tensor:
        """The module's output over its norm."""
        return functional.normalize(self.module(*inputs), dim=-1)


class Tempered(nn.Module):
    """What a module gives, times a positive number β = exp(θ) that is learned.

    Parameters
    ----------
    module : Module
        An encoder, or a table of labels, which this then is as well.
    beta : float
        What β starts from.
    """

    def __init__(self, module: nn.Module, beta: float = 1.0) -> None:
        if not 0 < beta < math.inf:
            raise InputError(f"beta is {beta}; expected a number above zero to start from")
        super().__init__()
        self.module = module
        self.log_beta = nn.Parameter(torch.tensor(math.log(beta)))
        _take_labels(self, module)

    @property
    def beta(self) -> Tensor:
        """The factor, 1 over the temperature."""
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

    β is learned where the features are at unit norm (C1, C2); elsewhere their length is β.

    Parameters
    ----------
    case : {"C1", "C2", "C3", "C4"}
        Both at unit norm, only the features, only the weights, neither.
    encoder : Module
        f, before any normalisation: inputs to (n, width).
    labels, width : int
        Labels, and entries of a vector.
    bias : bool
        A bias a label, which takes up the logarithm of unequal class frequencies.
    beta : float
        What β starts from, in C1 and C2.

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
    """A table of labels stays one (see `SoftmaxNet.unembeddings`)."""
    if hasattr(module, "labels"):
        wrapper.labels = module.labels
