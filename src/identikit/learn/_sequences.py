"""Encoders of token sequences, which give one vector per position."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from identikit.errors import InputError
from identikit.learn._modules import Lookup

__all__ = ["LSTM", "Decoder", "Transformer"]


class LSTM(nn.Module):
    """The f of a recurrent language model: (n, T) tokens to (n, T, width).

    Parameters
    ----------
    vocabulary, width, layers : int
        The number of tokens, entries of the state, and layers.
    embedding : int, optional
        The number of entries of a token's vector; by default the same as of the state.
    """

    def __init__(
        self, vocabulary: int, width: int, layers: int = 1, embedding: int | None = None
    ) -> None:
        super().__init__()
        embedding = width if embedding is None else embedding
        self.tokens = Lookup(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, width, layers, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        """The state after each token."""
        out: Tensor = self.lstm(self.tokens(tokens))[0]
        return out


class Transformer(nn.Module):
    """The f of a pre-norm Transformer: (n, T) tokens to (n, T, width), after the final norm.

    ``SoftmaxNet(f, f.tokens)`` ties the unembedding to the embedding, as GPT-2 does.

    Parameters
    ----------
    vocabulary, width, layers, heads : int
        The number of tokens, entries of the state, blocks, and attention heads per block.
    context : int, optional
        The largest number of tokens in a sequence. With None there are no position embeddings
        (NoPE), and sequences may have any length; the order of tokens then shows only through the
        causal mask.
    causal : bool
        Whether a position sees only itself and earlier positions.
    hidden : int, optional
        The width of the MLP's hidden layer; 4 · width by default.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        layers: int,
        heads: int,
        context: int | None,
        causal: bool = True,
        hidden: int | None = None,
    ) -> None:
        if width % heads:
            raise InputError(f"a width of {width} cannot be split into {heads} heads")
        super().__init__()
        self.context = context
        self.tokens = Lookup(vocabulary, width)
        if context is not None:
            self.positions = nn.Parameter(0.02 * torch.randn(context, width))
        hidden = 4 * width if hidden is None else hidden
        self.blocks = nn.Sequential(
            *(_Block(width, heads, layers, causal, hidden) for _ in range(layers))
        )
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """The state at each token."""
        length, x = tokens.shape[-1], self.tokens(tokens)
        if self.context is not None and length > self.context:
            raise InputError(
                f"a sequence of {length} tokens does not fit the context of {self.context}; cut it "
                "or build the Transformer with a longer context"
            )
        out: Tensor = self.norm(
            self.blocks(x if self.context is None else x + self.positions[:length])
        )
        return out


class _Block(nn.Module):
    """x + attention(norm x), then x + MLP(norm x)."""

    def __init__(self, width: int, heads: int, layers: int, causal: bool, hidden: int) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.activation = nn.GELU()
        for linear in (self.query_key_value, self.out, self.up, self.down):
            # Terms added to the residual stream are scaled down, as there are 2 · layers of them.
            added = linear in (self.out, self.down)
            nn.init.normal_(linear.weight, std=0.02 / ((2 * layers) ** 0.5 if added else 1))
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, T, width) to the same shape."""
        x = x + self.attention(self.norm_1(x))
        out: Tensor = x + self.down(self.activation(self.up(self.norm_2(x))))
        return out

    def attention(self, x: Tensor) -> Tensor:
        """Self-attention between the positions."""
        out: Tensor = self.out(attend(self.query_key_value(x), self.heads, self.causal))
        return out


def attend(
    projected: Tensor,
    heads: int,
    causal: bool = True,
    turn: Callable[[Tensor], Tensor] = lambda x: x,
) -> Tensor:
    """softmax(q kᵀ / √d) v, head by head.

    `projected` (n, T, 3 · width) has q, k and v side by side; `turn` is applied to q and k first.
    """
    length, size = projected.shape[-2], projected.shape[-1] // (3 * heads)
    split = projected.reshape(*projected.shape[:-1], 3, heads, size)
    query, key, value = split.movedim(-3, 0).transpose(-2, -3)
    scores = turn(query) @ turn(key).transpose(-1, -2) / size**0.5
    if causal:
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    mixed: Tensor = (scores.softmax(-1) @ value).transpose(-2, -3).flatten(-2)
    return mixed


#: The slowest pair of coordinates rotates once in about 2π · BASE tokens.
BASE = 10_000.0


class Decoder(nn.Module):
    """The f of a language model like LLaMA: (n, T) tokens to (n, T, width), for any T.

    x + attention(norm x), then x + W_down(silu(W_gate norm x) * W_up norm x), RMSNorm at the end;
    queries and keys are rotated by angles proportional to their position, so that a score depends
    on positions only through the distance of two tokens (Su et al. 2021; Zhang and Sennrich 2019;
    Shazeer 2020; Touvron et al. 2023).

    Parameters
    ----------
    vocabulary, width, layers, heads : int
        The number of tokens, entries of the state, blocks, and attention heads per block.
    hidden : int, optional
        The width of the SwiGLU's hidden layer; 8/3 · width by default, rounded.
    """

    def __init__(
        self, vocabulary: int, width: int, layers: int, heads: int, hidden: int | None = None
    ) -> None:
        if width % (2 * heads):
            raise InputError(
                f"a width of {width} cannot be split into {heads} heads of rotating pairs; choose "
                f"a multiple of {2 * heads}"
            )
        super().__init__()
        hidden = round(8 * width / 3) if hidden is None else hidden
        self.tokens = Lookup(vocabulary, width)
        self.blocks = nn.Sequential(*(_GatedBlock(width, heads, hidden) for _ in range(layers)))
        self.norm = nn.RMSNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        """The state at each token."""
        out: Tensor = self.norm(self.blocks(self.tokens(tokens)))
        return out


class _GatedBlock(nn.Module):
    """x + attention(norm x), then x + SwiGLU(norm x)."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, T, width) to the same shape."""
        x = x + self.attention(self.norm_1(x))
        normed = self.norm_2(x)
        out: Tensor = x + self.down(functional.silu(self.gate(normed)) * self.up(normed))
        return out

    def attention(self, x: Tensor) -> Tensor:
        """Causal self-attention with rotated queries and keys."""
        out: Tensor = self.out(attend(self.query_key_value(x), self.heads, turn=turned))
        return out


def turned(x: Tensor) -> Tensor:
    """Rotate the pairs (x_i, x_{i+s/2}) of (..., T, s) by t · BASE^(−2i/s) at position t."""
    length, half = x.shape[-2], x.shape[-1] // 2
    speeds = BASE ** (-torch.arange(half, dtype=x.dtype) / half)
    angles = torch.arange(length, dtype=x.dtype)[:, None] * speeds
    cos, sin = angles.cos(), angles.sin()
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)
