"""Networks of agents: gates on features, an actor and a critic, and a curiosity module."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from identikit.errors import InputError

__all__ = ["ICM", "ActorCritic", "Attention", "PixelEncoder", "Transition", "rational_forward_loss"]


class Attention(nn.Module):
    """Att(x; c) = x · softmax(W c + b), entry by entry; Att(x) = Att(x; x).

    Reizinger and Szemenyei 2020. The gate sums to 1 over d features, so it multiplies them by about
    1/d; rescaled by d, it multiplies them by 1 on average, and only selects.

    Parameters
    ----------
    d : int
        The number of features of x and of the context c.
    rescaled : bool
        Whether the gate is multiplied by d.

    Examples
    --------
    >>> import torch
    >>> gate = Attention(4)
    >>> x = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    >>> torch.allclose(gate.weights(x).sum(-1), torch.ones(1))
    True
    """

    def __init__(self, d: int, rescaled: bool = False) -> None:
        if d < 1:
            raise InputError(f"d is {d}; a gate needs one feature or more")
        super().__init__()
        self.linear = nn.Linear(d, d)
        self.factor = d if rescaled else 1

    def weights(self, context: Tensor) -> Tensor:
        """softmax(W c + b), times d if rescaled."""
        shares: Tensor = self.linear(context).softmax(-1)
        return self.factor * shares

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """x times the gate; the context is x itself if none is given."""
        return x * self.weights(x if context is None else context)


def rational_forward_loss(predicted: Tensor, actual: Tensor, attention: Attention) -> Tensor:
    """Rational curiosity: the mean of (φ̂ − φ')² · softmax(W φ' + b).

    Reizinger and Szemenyei 2020. With a gate that is the same for all d features it is the mean
    squared error divided by d. It can be lowered without predicting anything better, by moving the
    gate to features that are predicted well.

    Parameters
    ----------
    predicted, actual : Tensor (rows, d)
        φ̂, and the features φ' of the next state.
    attention : Attention
        The gate, of d features.
    """
    return ((predicted - actual) ** 2 * attention.weights(actual)).mean()


GATES = (None, "plain", "rescaled")
State = tuple[Tensor, Tensor]


class Judged(NamedTuple):
    """Logits (rows, actions), values (rows,), and the LSTM's state (h, c); both heads share h."""

    logits: Tensor
    value: Tensor
    state: State


class ActorCritic(nn.Module):
    """An encoder, an LSTM cell, and two linear heads on its state h: the policy and the value.

    With attention it is AttA2C (Reizinger and Szemenyei 2020): π = actor(Att_π(h)) and
    V = critic(Att_V(h)), each head with its own gate.

    Parameters
    ----------
    encoder : Module
        Maps observations to (rows, features).
    features, actions : int
        The number of entries of h, and of actions.
    attention : None, "plain" or "rescaled"
        No gates, softmax gates, or softmax gates times the number of features.

    Examples
    --------
    >>> net = ActorCritic(nn.Linear(4, 16), features=16, actions=2, attention="plain")
    >>> judged = net(torch.zeros(8, 4), net.start(8))
    >>> judged.logits.shape, judged.value.shape, judged.state[0].shape
    (torch.Size([8, 2]), torch.Size([8]), torch.Size([8, 16]))
    """

    def __init__(
        self, encoder: nn.Module, features: int, actions: int, attention: str | None = None
    ) -> None:
        if attention not in GATES:
            raise InputError(f"the attention is {attention!r}; choose None, 'plain' or 'rescaled'")
        super().__init__()
        self.encoder, self.features = encoder, features
        self.cell = nn.LSTMCell(features, features)
        self.actor, self.critic = nn.Linear(features, actions), nn.Linear(features, 1)
        for head in (self.actor, self.critic):
            nn.init.orthogonal_(head.weight)
            nn.init.zeros_(head.bias)
        self.gates = nn.ModuleList(
            Attention(features, attention == "rescaled") for _ in range(2 if attention else 0)
        )

    def start(self, rows: int) -> State:
        """The LSTM's state before the first observation."""
        return torch.zeros(rows, self.features), torch.zeros(rows, self.features)

    def forward(self, observation: Tensor, state: State) -> Judged:
        """Take one step in several environments, one per row."""
        h, c = self.cell(self.encoder(observation), state)
        for_actor, for_critic = (gate(h) for gate in self.gates) if self.gates else (h, h)
        return Judged(self.actor(for_actor), self.critic(for_critic).squeeze(-1), (h, c))


class PixelEncoder(nn.Sequential):
    """Four convolutions of 32 filters, 3 × 3 with stride 2, and average pooling.

    (rows, channels, 84, 84) becomes (rows, 288). Weights are initialised orthogonally.

    Parameters
    ----------
    channels : int
        Channels of the images, for example the number of stacked frames.
    """

    def __init__(self, channels: int) -> None:
        layers: list[nn.Module] = []
        for width in (channels, 32, 32, 32):
            convolution = nn.Conv2d(width, 32, 3, stride=2, padding=1)
            nn.init.orthogonal_(convolution.weight, nn.init.calculate_gain("leaky_relu", 0.01))
            nn.init.zeros_(convolution.get_parameter("bias"))
            layers += [convolution, nn.LeakyReLU()]
        super().__init__(*layers, nn.AvgPool2d(2), nn.Flatten())


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
