"""How far a decoder is from an isometry, from the singular values of its Jacobian on data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.autograd import forward_ad, functional

from identikit.errors import InputError

__all__ = ["BiLipschitz", "bilipschitz"]

#: By default, the number of rows to use, and of Jacobian entries to hold in memory at a time.
ROWS, PIECE = 1000, 2**24

#: Quantiles of each singular value over the rows.
QUANTILES = (0.05, 0.5, 0.95)

#: Singular values below this many machine epsilons times the largest of their row count as 0.
ROUNDING = 32


@dataclass(frozen=True, eq=False)
class BiLipschitz:
    """Singular values of a decoder's Jacobian, and the laws of near-identifiability for them.

    Extremes over rows are those of a sample: a larger sample can only raise L. The two laws say how
    the error ε of the best rigid map between two encoders scales with L and the diameter Δ of the
    latents; they hold up to unknown constants that depend on D, so that they are not bounds to
    compare a measured error with.

    Attributes
    ----------
    spectra : array (rows, D)
        Singular values at every row, largest first.
    outputs : int
        The number of entries of an output.
    """

    spectra: NDArray[np.float64]
    outputs: int

    @property
    def dims(self) -> int:
        """D, the number of entries of a latent."""
        return int(self.spectra.shape[1])

    @property
    def largest(self) -> float:
        """The largest singular value at any row: the decoder's Lipschitz constant on the data."""
        return float(self.spectra.max())

    @property
    def smallest(self) -> float:
        """The smallest singular value at any row; 0 where the decoder is not locally injective."""
        return float(self.spectra.min())

    @property
    def scale(self) -> float:
        """√(σ_max σ_min): what the decoder is divided by, so that a scaled isometry has L = 0."""
        return math.sqrt(self.largest * self.smallest)

    @property
    def L(self) -> float:  # noqa: N802 - the theorem's own letter
        """√(σ_max/σ_min) − 1: the scaled decoder is locally (1+L)-bi-Lipschitz; may be infinite."""
        return math.sqrt(self.largest / self.smallest) - 1 if self.smallest > 0 else math.inf

    @property
    def root_law(self) -> float:
        """√(2L+L²): ε ≤ c_D √(2L+L²) Δ (Nelson et al. 2026, Theorem 1), c_D unknown."""
        return math.sqrt(2 * self.L + self.L**2)

    @property
    def linear_law(self) -> float:
        """(1+log D)(2L+L²): ε ≤ C (1+log D)(2L+L²) Δ on balls (Kalton 2003), C unknown."""
        return (1 + math.log(self.dims)) * (2 * self.L + self.L**2)

    @property
    def quantiles(self) -> pd.DataFrame:
        """Quantiles over rows (5 %, 50 %, 95 %) of each singular value, the largest first."""
        values = np.quantile(self.spectra, QUANTILES, axis=0).T
        index = pd.RangeIndex(1, self.dims + 1, name="singular value")
        return pd.DataFrame(values, index=index, columns=[f"{q:.0%}" for q in QUANTILES])

    def sentence(self, error: float | None = None) -> str:
        """A summary in words.

        Parameters
        ----------
        error : float, optional
            The error measured between two runs after the best rigid map, divided by the diameter;
            it is reported beside the laws.
        """
        if math.isinf(self.L):
            found = (
                f"At some of {len(self.spectra):,} rows the decoder is flat in a direction (its "
                f"largest singular value is {self.largest:.3g}): it is not bi-Lipschitz, and the "
                "laws say nothing"
            )
        else:
            found = (
                f"Over {len(self.spectra):,} rows the decoder's singular values lie between "
                f"{self.smallest:.3g} and {self.largest:.3g}: 1+L is {1 + self.L:.3g} after "
                f"removing the scale {self.scale:.3g}. As scaling laws with unknown constants, "
                f"ε/Δ grows like √(2L+L²) = {self.root_law:.3g}, on ball-like supports like "
                f"(1+log D)(2L+L²) = {self.linear_law:.3g}"
            )
        return found + ("." if error is None else f"; measured: {error:.3g}.")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; null where L is infinite."""
        return {
            "rows": len(self.spectra),
            "dims": self.dims,
            "outputs": self.outputs,
            "largest": self.largest,
            "smallest": self.smallest,
            "scale": self.scale,
            "L": _finite(self.L),
            "laws": {
                "root": {
                    "value": _finite(self.root_law),
                    "law": "error/diameter <= c_D sqrt(2L+L^2), c_D unknown",
                },
                "linear": {
                    "value": _finite(self.linear_law),
                    "law": "error/diameter <= C (1+log D)(2L+L^2) on balls, C unknown",
                },
            },
            "quantiles": {str(name): column.tolist() for name, column in self.quantiles.items()},
        }


def bilipschitz(
    decoder: Callable[[Tensor], Tensor],
    latents: Tensor | ArrayLike,
    *,
    rows: int | None = ROWS,
    batch: int | None = None,
    seed: int = 0,
) -> BiLipschitz:
    """Singular values of a decoder's Jacobian at some latents.

    With σ the singular values over all rows, 1 + L = √(σ_max/σ_min), after dividing the decoder by
    √(σ_max σ_min). The Jacobian is taken column by column in forward mode: D passes of the decoder
    for a batch of rows, however many outputs there are.

    Parameters
    ----------
    decoder : Module or callable
        Maps latents (n, ...) to outputs (n, ...), each row by itself; a module is put into
        evaluation mode meanwhile.
    latents : tensor or array (n, ...)
        Points at which to compute the Jacobian: latents of data, not draws from a prior.
    rows : int or None
        How many of them to use, drawn without replacement; None for all.
    batch : int, optional
        Rows at a time; by default as many as have Jacobians of 16 million entries in total.
    seed : int
        Seed of the choice of rows.

    Examples
    --------
    >>> import torch
    >>> linear = torch.nn.Linear(2, 3, bias=False)
    >>> _ = linear.weight.data.copy_(torch.tensor([[2.0, 0.0], [0.0, 0.5], [0.0, 0.0]]))
    >>> found = bilipschitz(linear, torch.randn(10, 2))
    >>> found.largest, found.smallest, found.L
    (2.0, 0.5, 1.0)
    """
    points = _chosen(decoder, latents, rows, seed)
    if batch is not None and batch < 1:
        raise InputError(f"batch is {batch}; give at least 1 row")
    dims = points[0].numel()
    with _evaluating(decoder):
        outputs = _outputs(decoder, points[:1])
        size = batch or max(1, PIECE // (dims * outputs))
        spectra = [_spectra(decoder, piece) for piece in torch.split(points, size)]
    found = np.concatenate(spectra)
    if not found.any():
        raise InputError("the decoder's output does not change with its latents at any row")
    return BiLipschitz(found, outputs)


def _chosen(decoder: object, latents: Tensor | ArrayLike, rows: int | None, seed: int) -> Tensor:
    """The chosen latents, in the decoder's dtype and on its device."""
    given = latents if isinstance(latents, Tensor) else torch.as_tensor(np.asarray(latents))
    given = given.detach()
    if given.dim() < 2 or given.numel() == 0:
        raise InputError(f"latents have shape {tuple(given.shape)}; expected rows × entries")
    if given.is_complex():
        raise InputError(f"latents are {given.dtype}; expected real numbers")
    if rows is not None and rows < 1:
        raise InputError(f"rows is {rows}; give at least 1, or None for all")
    bad = torch.nonzero(~torch.isfinite(given).flatten(1).all(1)).flatten()
    if len(bad):
        raise InputError(
            f"latents have NaN or infinity in {len(bad)} of {len(given)} rows, the first is row "
            f"{int(bad[0])} (counting from 0); leave them out"
        )
    if rows is not None and rows < len(given):
        picked = np.sort(np.random.default_rng(seed).permutation(len(given))[:rows])
        given = given[torch.from_numpy(picked).to(given.device)]
    weights = decoder.parameters() if isinstance(decoder, nn.Module) else iter(())
    weight = next((w for w in weights if w.is_floating_point()), None)
    if weight is not None:
        return given.to(weight.device, weight.dtype)
    return given if given.is_floating_point() else given.to(torch.get_default_dtype())


@contextmanager
def _evaluating(decoder: object) -> Iterator[None]:
    """Put every part of a module into evaluation mode, and restore each part's mode afterwards."""
    modules = list(decoder.modules()) if isinstance(decoder, nn.Module) else []
    modes = [module.training for module in modules]
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module, mode in zip(modules, modes):
            module.training = mode


def _outputs(decoder: Callable[[Tensor], Tensor], one: Tensor) -> int:
    with torch.no_grad():
        out = decoder(one)
    if not isinstance(out, Tensor) or out.dim() < 1 or len(out) != 1:
        shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise InputError(
            f"the decoder gave {shape} for one latent; expected a tensor of one row: wrap it in a "
            "function that returns the output alone"
        )
    return out.numel()


def _spectra(decoder: Callable[[Tensor], Tensor], points: Tensor) -> NDArray[np.float64]:
    """Singular values of the Jacobians at some points, (points, D), largest first."""
    rows, dims = len(points), points[0].numel()
    columns = []
    for entry in range(dims):
        along = torch.zeros(rows, dims, dtype=points.dtype, device=points.device)
        along[:, entry] = 1.0
        # Rows do not mix, so one product gives this column of the Jacobian at every row.
        columns.append(_directional(decoder, points, along.view_as(points)).flatten(1))
    jacobian = torch.stack(columns, dim=2).to(torch.float64)
    if not bool(torch.isfinite(jacobian).all()):
        raise InputError("the decoder's Jacobian has NaN or infinity at some row")
    values = torch.linalg.svdvals(jacobian).cpu().numpy()
    spectra = np.zeros((rows, dims))
    spectra[:, : values.shape[1]] = values
    # Values this small are rounding errors of the decoder's own arithmetic.
    eps = torch.finfo(columns[0].dtype).eps
    spectra[spectra <= ROUNDING * eps * spectra[:, :1]] = 0.0
    return spectra


@torch.no_grad()
def _directional(decoder: Callable[[Tensor], Tensor], points: Tensor, along: Tensor) -> Tensor:
    """Derivative of the outputs along a direction, in forward mode where all operations have it."""
    try:
        with forward_ad.dual_level():
            with warnings.catch_warnings():
                # The first call imports parts of torch that warn of their own deprecation.
                warnings.simplefilter("ignore", DeprecationWarning)
                both = forward_ad.make_dual(points, along)  # type: ignore[no-untyped-call]
            out = decoder(both)
            tangent: Tensor | None
            tangent = forward_ad.unpack_dual(out).tangent  # type: ignore[no-untyped-call]
        # An output that does not depend on the latents has no tangent.
        return torch.zeros_like(out) if tangent is None else tangent
    except (NotImplementedError, RuntimeError):
        # Custom operations may support backward mode only, which is then differentiated once more.
        derivative: Tensor
        _, derivative = functional.jvp(decoder, points, along)  # type: ignore[no-untyped-call]
        return derivative


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
