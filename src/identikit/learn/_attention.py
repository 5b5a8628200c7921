"""A gate that multiplies each feature by its weight in a softmax."""

from __future__ import annotations

from torch import Tensor, nn

from identikit.errors import InputError


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
