"""Encoders of token sequences: at every position, a vector of what has been read so far."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from identikit.errors import InputError
from identikit.learn._modules import Lookup


class LSTM(nn.Module):
    """A recurrent language model's f: (n, T) tokens to (n, T, width).

    Parameters
    ----------
    vocabulary, width, layers : int
        Tokens, entries of the state and of a token's vector, and layers.
    """

    def __init__(self, vocabulary: int, width: int, layers: int = 1) -> None:
        super().__init__()
        self.tokens = Lookup(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        """The state after each token."""
        out: Tensor = self.lstm(self.tokens(tokens))[0]
        return out


class Transformer(nn.Module):
    """A pre-norm Transformer's f: (n, T) tokens to (n, T, width), after the final norm.

    ``SoftmaxNet(f, f.tokens)`` ties the unembedding to the embedding, as GPT-2 does.

    Parameters
    ----------
    vocabulary, width, layers, heads : int
        Tokens, entries of the state, blocks, and attention heads of a block.
    context : int
        The most tokens of a sequence.
    causal : bool
        A position sees only itself and what is before it.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        layers: int,
        heads: int,
        context: int,
        causal: bool = True,
    ) -> None:
        if width % heads:
            raise InputError(f"a width of {width} cannot be split into {heads} heads")
        super().__init__()
        self.context = context
        self.tokens = Lookup(vocabulary, width)
        self.positions = nn.Parameter(0.02 * torch.randn(context, width))
        self.blocks = nn.Sequential(*(_Block(width, heads, layers, causal) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """The state at each token."""
        length = tokens.shape[-1]
        if length > self.context:
            raise InputError(
                f"a sequence of {length} tokens does not fit the context of {self.context}; cut it "
                "or build the Transformer with a longer one"
            )
        out: Tensor = self.norm(self.blocks(self.tokens(tokens) + self.positions[:length]))
        return out


class _Block(nn.Module):
    """x + attention(norm x), then x + MLP(norm x)."""

    def __init__(self, width: int, heads: int, layers: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.activation = nn.GELU()
        for linear in (self.query_key_value, self.out, self.up, self.down):
            # What is added to the stream is scaled down, as there are 2 · layers such terms.
            added = linear in (self.out, self.down)
            nn.init.normal_(linear.weight, std=0.02 / ((2 * layers) ** 0.5 if added else 1))
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Of (n, T, width) to the same."""
        x = x + self.attention(self.norm_1(x))
        out: Tensor = x + self.down(self.activation(self.up(self.norm_2(x))))
        return out

    def attention(self, x: Tensor) -> Tensor:
        """softmax(q kᵀ / √d) v, head by head."""
        length, width = x.shape[-2:]
        split = self.query_key_value(x).unflatten(-1, (3, self.heads, width // self.heads))
        query, key, value = split.movedim(-3, 0).transpose(-2, -3)
        scores = query @ key.transpose(-1, -2) / (width // self.heads) ** 0.5
        if self.causal:
            later = torch.ones(length, length, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, -torch.inf)
        mixed = scores.softmax(-1) @ value
        out: Tensor = self.out(mixed.transpose(-2, -3).flatten(-2))
        return out
