"""The intrinsic curiosity module: models of the action between two states and of the next state."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from identikit.errors import InputError
from identikit.learn._attention import Attention, rational_forward_loss

ATTENTIONS = (None, "single", "double")


class Transition(NamedTuple):
    """The output of an ICM for a batch of transitions.

    Attributes
    ----------
    pair : Tensor (rows, 2 d)
        [φ(s), φ(s')] as the inverse model's linear head receives it: after the gate, if
        there is one.
    logits : Tensor (rows, actions)
        The inverse model's logits of the action.
    predicted, actual : Tensor (rows, d)
        The forward model's prediction φ̂, and φ(s').
    """

    pair: Tensor
    logits: Tensor
    predicted: Tensor
    actual: Tensor


class ICM(nn.Module):
    """Features φ of states, learned with two linear models of what actions do to them.

    The inverse model p(a|s, s') ∝ exp(g(a)ᵀ[φ(s); φ(s')] + b_a) belongs to the softmax family,
    with the actions as labels; the forward model predicts φ(s') from φ(s) and the action. Its
    prediction error is the intrinsic reward η/2 ‖φ̂ − φ(s')‖² (Pathak et al. 2017). Gates on the
    inputs of both models, and the re-weighted forward loss, are those of Reizinger and Szemenyei
    2020. The forward loss alone is minimised by constant features.

    Parameters
    ----------
    encoder : Module
        φ, from observations to (rows, d); not shared with another network.
    features, actions : int
        d, and the number of actions.
    attention : None, "single" or "double"
        No gate; one on the whole input of each model; or one on each part of it (the two features,
        or feature and action).
    rescaled : bool
        Whether gates are multiplied by their width.
    rational : bool
        Whether the forward loss is `rational_forward_loss`.
    hidden : int
        The width between the two linear layers of a model; there is no activation between them.
    eta, beta : float
        η, and β in the loss (1 − β) L_inverse + β L_forward.

    Examples
    --------
    >>> icm = ICM(nn.Linear(3, 8), features=8, actions=4)
    >>> now, after, action = torch.zeros(5, 3), torch.ones(5, 3), torch.arange(5) % 4
    >>> icm.reward(icm(now, after, action)).shape, icm.action_vectors().shape
    (torch.Size([5]), torch.Size([4, 16]))
    """

    def __init__(
        self,
        encoder: nn.Module,
        features: int,
        actions: int,
        attention: str | None = None,
        *,
        rescaled: bool = False,
        rational: bool = False,
        hidden: int = 256,
        eta: float = 0.01,
        beta: float = 0.2,
    ) -> None:
        if attention not in ATTENTIONS:
            raise InputError(f"the attention is {attention!r}; choose None, 'single' or 'double'")
        if not 0 <= beta <= 1:
            raise InputError(f"beta is {beta}; the share of the forward loss must be from 0 to 1")
        super().__init__()
        self.encoder, self.actions, self.eta, self.beta = encoder, actions, eta, beta
        self.inverse = _linear(2 * features, hidden, actions)
        self.forward_model = _linear(features + actions, hidden, features)
        parts: dict[str | None, list[list[int]]] = {
            None: [[], []],
            "single": [[2 * features], [features + actions]],
            "double": [[features, features], [features, actions]],
        }
        self.inverse_gates, self.forward_gates = (
            nn.ModuleList(Attention(width, rescaled) for width in widths)
            for widths in parts[attention]
        )
        self.rational = Attention(features, rescaled) if rational else None

    def forward(self, now: Tensor, after: Tensor, action: Tensor) -> Transition:
        """Apply both models to observations s and s' and actions (rows,)."""
        phi, actual = self.encoder(now), self.encoder(after)
        pair = _gated([phi, actual], self.inverse_gates)
        chosen = torch.eye(self.actions, dtype=phi.dtype, device=phi.device)[action]
        predicted = self.forward_model(_gated([phi, chosen], self.forward_gates))
        return Transition(pair, self.inverse(pair), predicted, actual)

    def losses(self, found: Transition, action: Tensor) -> tuple[Tensor, Tensor]:
        """The inverse model's cross-entropy and the forward model's (re-weighted) squared error."""
        inverse = functional.cross_entropy(found.logits, action)
        if self.rational is None:
            return inverse, functional.mse_loss(found.predicted, found.actual)
        return inverse, rational_forward_loss(found.predicted, found.actual, self.rational)

    def loss(self, found: Transition, action: Tensor) -> Tensor:
        """(1 − β) L_inverse + β L_forward."""
        inverse, forward = self.losses(found, action)
        return (1 - self.beta) * inverse + self.beta * forward

    def reward(self, found: Transition) -> Tensor:
        """η/2 ‖φ̂ − φ(s')‖², without a gradient, (rows,)."""
        error = (found.predicted - found.actual).detach()
        return self.eta / 2 * (error**2).sum(-1)

    def action_vectors(self) -> Tensor:
        """g(a) of all actions, (actions, 2 d): the product of the inverse model's two layers."""
        first, second = (layer.get_parameter("weight") for layer in self.inverse)
        return second @ first


def _linear(width: int, hidden: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.Linear(hidden, out))


def _gated(parts: list[Tensor], gates: nn.ModuleList) -> Tensor:
    """The parts side by side, with no gate, one gate over all of them, or one gate each."""
    if len(gates) == len(parts):
        return torch.cat([gate(part) for gate, part in zip(gates, parts)], -1)
    joined = torch.cat(parts, -1)
    return gates[0](joined) if len(gates) else joined
