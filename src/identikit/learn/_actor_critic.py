"""An actor and a critic on shared recurrent features, with or without a gate before each head."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from identikit.errors import InputError
from identikit.learn._attention import Attention

GATES = (None, "plain", "rescaled")
State = tuple[Tensor, Tensor]


class Judged(NamedTuple):
    """The output of an actor-critic for a batch of observations.

    Attributes
    ----------
    logits : Tensor (rows, actions)
        Logits of the policy.
    value : Tensor (rows,)
        The critic's value of the state.
    state : (Tensor, Tensor)
        h and c of the LSTM, (rows, features) each; h is the feature that both heads share.
    """

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
