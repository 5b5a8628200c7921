"""AnInfoNCE: contrastive learning with one concentration for each latent."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from identikit.errors import InputError
from identikit.learn._modules import SoftmaxNet
from identikit.learn._objectives import OBJECTIVES, log_likelihood

__all__ = ["Concentrations", "aninfonce", "aninfonce_ensemble"]

LEARNABLE = ("diagonal", "scalar", None)


class Concentrations(nn.Module):
    """Λ̂ = softplus(θ), a positive diagonal matrix: the g(x') = Λ̂ f(x') of a contrastive network.

    AnInfoNCE and InfoNCE differ only in which Λ̂ may be learned. On the sphere Λ̂ = I/τ is InfoNCE
    with the temperature τ, learned ("scalar") or fixed (None).

    Parameters
    ----------
    width : int
        M, the number of entries of f.
    learnable : {"diagonal", "scalar", None}
        Learn one concentration per latent, one for all, or none: Λ̂ then stays at `start`.
    start : float or sequence of float
        Concentrations before training: one number for all (1/τ), or one per latent.
    """

    def __init__(
        self,
        width: int,
        learnable: str | None = "diagonal",
        start: float | Sequence[float] = 1.0,
    ) -> None:
        if learnable not in LEARNABLE:
            raise InputError(f"learnable is {learnable!r}; choose diagonal, scalar or None")
        first = torch.as_tensor(start, dtype=torch.float64)
        if first.shape not in ((), (1 if learnable == "scalar" else width,)):
            raise InputError(
                f"concentrations start from {start}; give one number, or one for each of {width} "
                "latents, unless they share one concentration"
            )
        if not ((first > 0) & first.isfinite()).all():
            raise InputError(f"concentrations start from {start}; give numbers above zero")
        super().__init__()
        self.width = width
        if learnable == "diagonal":
            first = first.expand(width)
        theta = first + torch.log(-torch.expm1(-first))
        # A parameter even if it is not learned, because a buffer would prevent stacking seeds.
        self.theta = nn.Parameter(
            theta.to(torch.get_default_dtype()).clone(), requires_grad=learnable is not None
        )

    @property
    def values(self) -> Tensor:
        """The diagonal of Λ̂, (M,)."""
        return functional.softplus(self.theta).expand(self.width)

    def forward(self, f: Tensor) -> Tensor:
        """Λ̂ f for embedded candidates f (..., M)."""
        return self.values * f


def aninfonce(
    net: SoftmaxNet, x: Tensor, positive: Tensor, negatives: Tensor | None = None
) -> Tensor:
    """AnInfoNCE: which x' is the positive partner of x, by −½ Σ_k λ̂_k (f(x') − f(x))²_k.

    Rusak et al. 2025. Without `negatives` this has the form of SimCLR: each of the 2n rows is an
    anchor, and its candidates are the 2n − 1 other rows of both views. With z uniform on the sphere
    and p(z'|z) ∝ exp(−½ δᵀΛδ), δ = z' − z, a minimiser has f(x) = Oz with O orthogonal and
    OΛOᵀ = Λ̂, to the extent that z' is uniform too (`identikit.family.concentration_blocks` says
    what O may be). The papers write the loss without the ½; with it Λ̂ is directly comparable with
    a Λ whose noise has variance 1/λ.

    With `negatives` drawn around each x, p⁻(z'|z) ∝ exp(−½ δᵀΛ⁻δ), the best critic is
    log p⁺ − log p⁻ + c(x) = −½ δᵀ(Λ⁺ − Λ⁻)δ + c(x), and c(x) cancels in the softmax: then Λ̂
    estimates Λ⁺ − Λ⁻. Since Λ̂ is positive by construction, all entries of this difference must be
    positive: latents that vary less in the negatives than in the positives are lost.

    Parameters
    ----------
    net : SoftmaxNet
        f gives unit vectors (`Normalised`), g is a `Concentrations`.
    x, positive : Tensor
        Pairs (n, ...), (n, ...).
    negatives : Tensor, optional
        One per x (n, ...), or several (n, m, ...). The candidates of x are then its own partner and
        its negatives only.

    Examples
    --------
    >>> import torch
    >>> from identikit.learn import Concentrations, Normalised, SoftmaxNet, aninfonce
    >>> net = SoftmaxNet(Normalised(torch.nn.Identity()), Concentrations(3))
    >>> x = torch.eye(3)
    >>> f"{aninfonce(net, x, x):.4f}"  # each has one partner at distance 0, four at √2
    '0.9048'
    """
    n = len(x)
    if negatives is None:
        return _simclr(net.f(torch.cat([x, positive])), _of(net.g))
    rows = negatives if negatives.dim() == x.dim() else negatives.flatten(0, 1)
    f, right, wrong = net.f(torch.cat([x, positive, rows])).tensor_split((n, 2 * n))
    candidates = torch.cat([right.unsqueeze(1), wrong.unflatten(0, (n, -1))], 1)
    g, bias = _of(net.g)(candidates), _bias(candidates, _of(net.g))
    logits = (g @ f.unsqueeze(-1)).squeeze(-1) + bias
    return -log_likelihood(logits, torch.zeros(n, dtype=torch.long)).mean()


def aninfonce_ensemble(net: SoftmaxNet, x: Tensor, *positives: Tensor) -> Tensor:
    """The sum of `aninfonce` over families of augmentations, with one f and one Λ̂ per family.

    Parameters
    ----------
    net : SoftmaxNet
        f gives unit vectors, g is a ModuleList with one `Concentrations` per family.
    x : Tensor
        (n, ...).
    *positives : Tensor
        Partners of x, (n, ...), one tensor per family.
    """
    families = net.g if isinstance(net.g, nn.ModuleList) else nn.ModuleList([net.g])
    if len(families) != len(positives):
        raise InputError(
            f"the network has concentrations for {len(families)} families of augmentations, but a "
            f"batch has the positives of {len(positives)}; give one Concentrations for each"
        )
    f, *partners = net.f(torch.cat([x, *positives])).unflatten(0, (-1, len(x))).unbind(0)
    terms = [
        _simclr(torch.cat([f, right]), _of(own))
        for own, right in zip(families, partners, strict=True)
    ]
    return torch.stack(terms).sum()


def _simclr(f: Tensor, concentrations: Concentrations) -> Tensor:
    """The loss over the rows of both views, given one view above the other.

    One table holds every pair of the 2n rows, so that each anchor, also one of the second view, is
    judged by the distances from itself.
    """
    rows = len(f)
    logits = f @ concentrations(f).transpose(-1, -2) + _bias(f, concentrations)
    logits = logits.masked_fill(torch.eye(rows, dtype=torch.bool), -torch.inf)
    return -log_likelihood(logits, torch.arange(rows).roll(rows // 2)).mean()


def _bias(f: Tensor, concentrations: Concentrations) -> Tensor:
    """−½ f'ᵀΛ̂f' of each candidate; the anchor's own term is the same for all candidates."""
    own: Tensor = (f * concentrations(f)).sum(-1)
    return -own / 2


def _of(module: nn.Module) -> Concentrations:
    if not isinstance(module, Concentrations):
        raise InputError(
            f"AnInfoNCE compares by learned concentrations, but the network's g is a "
            f"{type(module).__name__}; build it as SoftmaxNet(Normalised(f), Concentrations(M))"
        )
    return module


OBJECTIVES |= {"aninfonce": aninfonce, "aninfonce_ensemble": aninfonce_ensemble}
