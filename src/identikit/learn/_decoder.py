"""A small decoder-only Transformer: RMSNorm, rotary positions, SwiGLU, no biases."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from identikit.errors import InputError
from identikit.learn._modules import Lookup
from identikit.learn._sequences import attend

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
        self.blocks = nn.Sequential(*(_Block(width, heads, hidden) for _ in range(layers)))
        self.norm = nn.RMSNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        """The state at each token."""
        out: Tensor = self.norm(self.blocks(self.tokens(tokens)))
        return out


class _Block(nn.Module):
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
