"""Small, plain encoders and label tables; any `nn.Module` can take their place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from identikit.errors import InputError

__all__ = ["MLP", "LogBilinear", "Lookup", "OneHot", "ResNet", "SoftmaxNet", "linear_start"]

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}


class SoftmaxNet(nn.Module):
    """p(y|x, S) ∝ exp(f(x)ᵀ g(y) + bias(y)): two encoders, and optionally one bias per label.

    Parameters
    ----------
    f : Module
        Encoder of inputs, to (..., M).
    g : Module, optional
        Encoder of labels or candidates, to (..., M); without it, f is used for both (one tower).
        A g with an attribute ``labels``, such as `Lookup` or `OneHot`, returns the vectors of all
        labels when it is called without an argument.
    bias : int, optional
        The number of labels, for a bias that is added to their logits.
    """

    def __init__(self, f: nn.Module, g: nn.Module | None = None, bias: int | None = None) -> None:
        super().__init__()
        self.f = f
        self.g = f if g is None else g
        self.bias = None if bias is None else nn.Parameter(torch.zeros(bias))

    def unembeddings(self) -> Tensor:
        """g of all labels, (K, M)."""
        if not hasattr(self.g, "labels"):
            raise InputError(
                f"g is a {type(self.g).__name__}, which has no set of labels of its own: pass y, "
                "or use a Lookup or OneHot"
            )
        out: Tensor = self.g()
        return out


class MLP(nn.Module):
    """Linear layers with an activation between them.

    Parameters
    ----------
    sizes : sequence of int
        Widths from the input to the output. Inputs are flattened to rows of the first width.
    activation : {"relu", "leaky_relu", "tanh", "gelu", "silu"}
        The activation between the layers.
    bias, last_bias : bool
        Whether the hidden layers, and the last one, have a bias.
    batch_norm : bool
        Whether a `BatchNorm1d` comes before each activation. The hidden layers then have no bias of
        their own: the norm would subtract it, and has its own bias.
    slope : float
        The slope of "leaky_relu" below zero.
    init : {"torch", "he"}
        The initialisation of `nn.Linear`, or He's with zero biases.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        activation: str = "relu",
        bias: bool = True,
        last_bias: bool = True,
        *,
        batch_norm: bool = False,
        slope: float = 0.01,
        init: str = "torch",
    ) -> None:
        if len(sizes) < 2:
            raise InputError(f"an MLP needs at least an input and an output width, not {sizes}")
        if activation not in ACTIVATIONS:
            raise InputError(
                f"there is no activation {activation!r}; choose one of {', '.join(ACTIVATIONS)}"
            )
        if init not in ("he", "torch"):
            raise InputError(f"there is no initialisation {init!r}; choose torch or he")
        super().__init__()
        self.layers = nn.Sequential()
        last = len(sizes) - 2
        for layer, (width, out) in enumerate(pairwise(sizes)):
            biased = last_bias if layer == last else bias and not batch_norm
            linear = nn.Linear(width, out, bias=biased)
            if init == "he":
                nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
                if linear.bias is not None:
                    nn.init.zeros_(linear.bias)
            self.layers.append(linear)
            if layer < last:
                if batch_norm:
                    self.layers.append(nn.BatchNorm1d(out))
                options = {"negative_slope": slope} if activation == "leaky_relu" else {}
                self.layers.append(ACTIVATIONS[activation](**options))

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, ...) to (n, out)."""
        out: Tensor = self.layers(x.flatten(1))
        return out


class Lookup(nn.Module):
    """One vector per label: g as a table whose row y is g(y).

    Parameters
    ----------
    labels, width : int
        K and M. Entries start from N(0, 1/M), so that a logit has the same spread as f's entries.
    """

    def __init__(self, labels: int, width: int) -> None:
        super().__init__()
        self.labels = labels
        self.weight = nn.Parameter(torch.randn(labels, width) / width**0.5)

    def forward(self, y: Tensor | None = None) -> Tensor:
        """The vectors of some labels, or of all labels without an argument."""
        return self.weight if y is None else functional.embedding(y, self.weight)


class OneHot(nn.Module):
    """A module on one-hot labels: g(y) = module(e_y).

    Parameters
    ----------
    labels : int
        K.
    module : Module
        Takes rows of K entries, or of K − 1 if `truncated`.
    truncated : bool
        Whether the last label is encoded as the zero vector.
    """

    def __init__(self, labels: int, module: nn.Module, truncated: bool = False) -> None:
        super().__init__()
        self.labels = labels
        self.module = module
        self.entries = labels - truncated

    def forward(self, y: Tensor | None = None) -> Tensor:
        """The vectors of some labels, or of all labels without an argument."""
        weight = next(self.module.parameters())
        codes = torch.eye(self.labels, self.entries, dtype=weight.dtype)
        out: Tensor = self.module(codes if y is None else codes[y])
        return out


class LogBilinear(nn.Module):
    """The context side of the log-bilinear language model: q̂(h) = Σ_i C_i r_{w_i}.

    Mnih and Teh 2012. Takes (n, context) words to (n, width).

    Parameters
    ----------
    vocabulary, width, context : int
        The number of words, of entries of a word's vector r, and of words in a context h.
    diagonal : bool
        Whether C_i = diag(c_i).
    """

    def __init__(self, vocabulary: int, width: int, context: int, diagonal: bool = False) -> None:
        super().__init__()
        self.words = Lookup(vocabulary, width)
        shape = (context, width) if diagonal else (context, width, width)
        # In both cases a term C_i r has the same spread as r.
        self.weights = nn.Parameter(torch.randn(shape) / (1 if diagonal else width**0.5))

    def forward(self, context: Tensor) -> Tensor:
        """Map words (n, context) to (n, width)."""
        r: Tensor = self.words(context)
        if self.weights.dim() == 2:
            diagonal: Tensor = (r * self.weights).sum(-2)
            return diagonal
        # One product for all positions: [r_1 … r_c] times the stacked C_iᵀ.
        return r.flatten(-2) @ self.weights.transpose(-1, -2).flatten(0, 1)


def linear_start(mlp: MLP) -> MLP:
    """Set the weights of an MLP so that it starts as x ↦ the first entries of x.

    Layers are mirrored, [b; −b] after [c, −c]. Since s(t) − s(−t) is linear in t for ReLU and
    LeakyReLU, the network is linear until learning makes the two halves differ (Balduzzi et al.
    2017, the looks-linear initialisation; here with orthogonal b). A random network folds its
    inputs, so that its degree as a map of spheres is mostly 0; if learning does not unfold it, the
    fold hides a latent. A linear network has degree ±1, like the inverse of a mixing.

    Parameters
    ----------
    mlp : MLP
        With even hidden widths, at least twice the input's; it is changed in place and returned.

    Examples
    --------
    >>> import torch
    >>> net = linear_start(MLP([3, 8, 8, 3], "leaky_relu"))
    >>> x = torch.randn(5, 3)
    >>> torch.allclose(net(x), x, atol=1e-5)
    True
    """
    layers = [layer for layer in mlp.layers if isinstance(layer, nn.Linear)]
    inputs, outputs = layers[0].in_features, layers[-1].out_features
    widths = [layer.out_features for layer in layers[:-1]]
    if any(width % 2 or width < 2 * inputs for width in widths):
        raise InputError(
            f"the hidden widths are {widths}; to start as a linear map of {inputs} inputs they "
            f"must be even, and {2 * inputs} or more"
        )
    slopes = [layer.negative_slope for layer in mlp.layers if isinstance(layer, nn.LeakyReLU)]
    gain = 1 + (slopes[0] if slopes else 0.0)
    so_far = torch.eye(inputs)
    with torch.no_grad():
        for layer, width in zip(layers, [*widths, None]):
            if width is None:
                block = torch.eye(outputs, inputs) @ torch.linalg.pinv(so_far)
            else:
                block = nn.init.orthogonal_(torch.empty(width // 2, len(so_far)))
                so_far = block @ so_far
            if layer is not layers[0]:
                block = torch.cat([block, -block], 1) / gain
            layer.weight.copy_(block if width is None else torch.cat([block, -block]))
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return mlp


class ResNet(nn.Module):
    """Residual network for small images: (n, 3, H, W) to (n, out).

    A 3 × 3 stem, stages of basic blocks that double the channels and halve the image, the mean over
    the image, and a linear layer (He et al. 2016). ``ResNet(64, M, norm="batch")`` is the ResNet-18
    that is commonly used on CIFAR-10.

    Parameters
    ----------
    width : int
        Channels of the first stage.
    out : int
        The number of entries of the output, M.
    blocks : sequence of int
        The number of basic blocks in each stage.
    norm : {"group", "batch"}
        Group norm treats each image by itself; batch norm keeps running averages and depends on the
        other images of the batch.
    """

    def __init__(
        self, width: int, out: int, blocks: Sequence[int] = (2, 2, 2, 2), norm: str = "group"
    ) -> None:
        if norm not in ("group", "batch"):
            raise InputError(f"there is no norm {norm!r} here; choose group or batch")
        super().__init__()
        stages: list[nn.Module] = [_conv(3, width), _norm(norm, width), nn.ReLU()]
        channels = width
        for stage, count in enumerate(blocks):
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                stages.append(_Basic(channels, width * 2**stage, stride, norm))
                channels = width * 2**stage
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(channels, out)

    def forward(self, images: Tensor) -> Tensor:
        """Map images (n, 3, H, W) to (n, out)."""
        out: Tensor = self.head(self.stages(images).mean((-1, -2)))
        return out


class _Basic(nn.Module):
    """Two 3 × 3 convolutions with a shortcut around them."""

    def __init__(self, channels: int, out: int, stride: int, norm: str) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            _conv(channels, out, stride), _norm(norm, out), nn.ReLU(), _conv(out, out)
        )
        self.norm = _norm(norm, out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != out:
            projection = nn.Conv2d(channels, out, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, _norm(norm, out))

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.norm(self.inner(x)) + self.shortcut(x))


def _conv(channels: int, out: int, stride: int = 1) -> nn.Conv2d:
    conv = nn.Conv2d(channels, out, 3, stride, padding=1, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return conv


def _norm(norm: str, channels: int) -> nn.Module:
    if norm == "batch":
        return nn.BatchNorm2d(channels)
    groups = next(count for count in (8, 4, 2, 1) if channels % count == 0)
    return nn.GroupNorm(groups, channels)
