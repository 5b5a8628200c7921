"""An initialisation of MLPs at which the network is linear, so that it folds nothing."""

from __future__ import annotations

import torch
from torch import nn

from identikit.errors import InputError
from identikit.learn._modules import MLP


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
