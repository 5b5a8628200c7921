"""A small residual network for images of 32 × 32 pixels."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from identikit.errors import InputError

__all__ = ["ResNet"]


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
