"""Singular values of decoders' Jacobians: known ones, invariances, and what is left untouched."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
import pytest

from conftest import close
from identikit.errors import InputError

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from identikit.learn import (  # noqa: E402
    BiLipschitz,
    bilipschitz,
)
from learning import one_thread  # noqa: E402, F401


@pytest.fixture(autouse=True)
def seeded(seed: int) -> None:
    torch.manual_seed(seed)


DTYPES = pytest.mark.parametrize(
    ("dtype", "tol"), [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=["float32", "float64"]
)


def orthogonal(out: int, into: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.linalg.qr(torch.randn(out, into, dtype=torch.float64))[0].to(dtype)


def linear(weight: Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
    layer.weight.data.copy_(weight)
    return layer


def curved() -> nn.Module:
    layers = [nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 30), nn.Unflatten(1, (2, 3, 5))]
    return nn.Sequential(*layers).double()


# Known answers


@DTYPES
def test_a_linear_decoder_has_its_singular_values_everywhere(
    dtype: torch.dtype, tol: float
) -> None:
    values = torch.tensor([5.0, 2.0, 1.25], dtype=dtype)
    decoder = linear(orthogonal(20, 3, dtype) * values @ orthogonal(3, 3, dtype))
    found = bilipschitz(decoder, torch.randn(40, 3))
    close(found.spectra, np.tile([5.0, 2.0, 1.25], (40, 1)), tol, 5.0)
    assert found.largest == pytest.approx(5.0, rel=tol)
    assert found.smallest == pytest.approx(1.25, rel=10 * tol)
    assert pytest.approx(1.0, abs=20 * tol) == found.L  # √(5/1.25) − 1
    assert found.scale == pytest.approx(2.5, rel=10 * tol)
    assert found.root_law == pytest.approx(math.sqrt(3), rel=20 * tol)
    assert found.linear_law == pytest.approx(3 * (1 + math.log(3)), rel=20 * tol)
    assert (found.dims, found.outputs) == (3, 20)


@DTYPES
@pytest.mark.parametrize("scale", [1.0, 1e-3, 70.0])
def test_a_scaled_isometry_has_no_distortion(dtype: torch.dtype, tol: float, scale: float) -> None:
    found = bilipschitz(linear(scale * orthogonal(12, 5, dtype)), torch.randn(30, 5))
    assert pytest.approx(0.0, abs=tol) == found.L
    assert found.scale == pytest.approx(scale, rel=tol)
    assert found.root_law == pytest.approx(0.0, abs=math.sqrt(4 * tol))
    assert found.linear_law == pytest.approx(0.0, abs=20 * tol)


@pytest.mark.parametrize("alpha", [0.9, 0.5, 0.1])
def test_orthogonal_leaky_layers_stay_within_their_constant(alpha: float) -> None:
    """Slopes α and 1: K of them keep σ within [α^K, 1], so that σ_max/σ_min ≤ α^−K."""
    layers: list[nn.Module] = []
    for _ in range(3):
        layers += [linear(orthogonal(8, 8)), nn.LeakyReLU(alpha)]
    found = bilipschitz(nn.Sequential(*layers), 3 * torch.randn(500, 8))
    assert alpha**3 * (1 - 1e-9) <= found.smallest
    assert found.largest <= 1 + 1e-9
    assert found.largest / found.smallest <= alpha**-3 * (1 + 1e-9)
    assert found.L > 0


def test_a_diagonal_curve_is_its_derivative() -> None:
    z = torch.tensor([[0.5, -1.0], [2.0, 0.25]])
    found = bilipschitz(lambda x: x**2, z, rows=None)
    close(found.spectra, [[2.0, 1.0], [4.0, 0.5]], 1e-6)
    assert pytest.approx(math.sqrt(8) - 1, rel=1e-6) == found.L


def test_spectra_are_those_of_the_jacobian_by_reverse_mode() -> None:
    decoder, z = curved(), torch.randn(7, 4, dtype=torch.float64)
    found = bilipschitz(decoder, z, rows=None)
    for row, values in zip(z, found.spectra):
        J = torch.func.jacrev(lambda x: decoder(x[None])[0].flatten())(row)
        close(values, torch.linalg.svdvals(J).detach().numpy(), 1e-12)
    assert found.outputs == 30


def test_rotations_of_either_side_change_nothing() -> None:
    decoder, z = curved(), torch.randn(20, 4, dtype=torch.float64)
    turn, out = orthogonal(4, 4), orthogonal(30, 30)
    found = bilipschitz(decoder, z)
    turned = bilipschitz(lambda x: decoder(x @ turn).flatten(1) @ out, z @ turn.T)
    close(turned.spectra, found.spectra, 1e-10)
    # And a shear does.
    shear = torch.eye(4, dtype=torch.float64)
    shear[0, 1] = 2.0
    sheared = bilipschitz(lambda x: decoder(x @ shear), z @ torch.linalg.inv(shear))
    assert np.abs(sheared.spectra - found.spectra).max() > 1e-2


def test_latents_may_have_any_shape() -> None:
    flat, z = curved(), torch.randn(6, 2, 2, dtype=torch.float64)
    found = bilipschitz(lambda x: flat(x.flatten(1)), z)
    close(found.spectra, bilipschitz(flat, z.flatten(1)).spectra, 1e-14)


# Where it is flat


def test_a_decoder_that_is_flat_in_a_direction_has_no_finite_constant() -> None:
    decoder = linear(torch.diag(torch.tensor([1.0, 0.5, 0.0])))
    found = bilipschitz(decoder, torch.randn(9, 3))
    assert found.smallest == 0.0
    assert math.isinf(found.L)
    assert math.isinf(found.root_law)
    assert "not bi-Lipschitz" in found.sentence()
    document = found.to_dict()
    assert (document["L"], document["laws"]["root"]["value"]) == (None, None)


@DTYPES
def test_rounding_is_not_a_direction(dtype: torch.dtype, tol: float) -> None:
    """A product of rank two, in whose third direction only rounding is left."""
    thin = nn.Sequential(
        linear(torch.randn(2, 3, dtype=dtype)), linear(torch.randn(9, 2).to(dtype))
    )
    assert bilipschitz(thin, torch.randn(9, 3)).smallest == 0.0


def test_fewer_outputs_than_latents_are_never_injective() -> None:
    found = bilipschitz(linear(orthogonal(5, 3).T), torch.randn(4, 5))
    close(found.spectra, np.tile([1.0, 1, 1, 0, 0], (4, 1)), 1e-12)
    assert math.isinf(found.L)


# Rows and batches


def test_the_batch_does_not_matter() -> None:
    decoder, z = curved(), torch.randn(23, 4, dtype=torch.float64)
    whole = bilipschitz(decoder, z, rows=None)
    for batch in (1, 5, 23, 100):
        close(bilipschitz(decoder, z, rows=None, batch=batch).spectra, whole.spectra, 1e-12)
    sizes: list[int] = []
    bilipschitz(lambda x: (sizes.append(len(x)), decoder(x))[1], z, rows=None, batch=6)
    assert list(dict.fromkeys(sizes)) == [1, 6, 5]  # the first to see what it gives


def test_rows_are_drawn_by_the_seed() -> None:
    decoder, z = curved(), torch.randn(50, 4, dtype=torch.float64)
    everywhere = bilipschitz(decoder, z, rows=None).spectra
    some = bilipschitz(decoder, z, rows=10, seed=3)
    assert some.spectra.shape == (10, 4)
    rows = [int(np.abs(everywhere - row).sum(axis=1).argmin()) for row in some.spectra]
    assert len(set(rows)) == 10
    close(everywhere[rows], some.spectra, 1e-12)
    close(bilipschitz(decoder, z, rows=10, seed=3).spectra, some.spectra, 0)
    assert not np.array_equal(bilipschitz(decoder, z, rows=10, seed=4).spectra, some.spectra)
    # More rows can only find more distortion.
    assert some.L <= bilipschitz(decoder, z, rows=None).L + 1e-12


def test_arrays_and_tensors_of_another_type_serve() -> None:
    decoder, z = curved(), torch.randn(5, 4, dtype=torch.float64)
    expected = bilipschitz(decoder, z).spectra
    close(bilipschitz(decoder, z.numpy()).spectra, expected, 0)
    close(bilipschitz(decoder, z.float()).spectra, expected, 1e-5)
    close(bilipschitz(lambda x: 3 * x, [[1, 2], [3, 4]]).spectra, np.full((2, 2), 3.0), 1e-6)


# What is left as it was


class Noisy(nn.Module):
    """Dropout and batch statistics: random and mixing rows, unless in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 12)
        self.norm = nn.BatchNorm1d(12)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(12, 9)

    def forward(self, z: Tensor) -> Tensor:
        return self.last(self.drop(self.norm(self.first(z))))


def test_eval_mode_is_for_the_probe_only() -> None:
    decoder, z = Noisy(), torch.randn(30, 4)
    decoder.drop.eval()  # a part in another mode than the whole
    found = bilipschitz(decoder, z)
    assert (decoder.training, decoder.norm.training, decoder.drop.training) == (True, True, False)
    close(found.spectra, bilipschitz(decoder.eval(), z).spectra, 0)
    # In eval mode it is affine: the same everywhere.
    close(found.spectra, np.tile(found.spectra[0], (30, 1)), 1e-5)
    assert torch.equal(decoder.norm.running_mean, torch.zeros(12))


def test_modes_come_back_after_an_error() -> None:
    class Breaks(nn.Linear):
        def forward(self, z: Tensor) -> Tensor:
            raise ValueError(f"no {len(z)}")

    decoder = Breaks(3, 3)
    with pytest.raises(ValueError, match="no"):
        bilipschitz(decoder, torch.randn(2, 3))
    assert decoder.training


def test_no_gradients_are_left_behind() -> None:
    decoder, z = curved(), torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    bilipschitz(decoder, z)
    assert z.grad is None
    assert all(weight.grad is None and weight.requires_grad for weight in decoder.parameters())
    assert torch.is_grad_enabled()


class Square(torch.autograd.Function):
    """An operation with a backward mode only."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return 2 * ctx.saved_tensors[0] * gradient


def test_operations_without_a_forward_mode() -> None:
    decoder, z = curved(), torch.randn(6, 4, dtype=torch.float64)
    found = bilipschitz(lambda x: Square.apply(decoder(x)), z)
    close(found.spectra, bilipschitz(lambda x: decoder(x) ** 2, z).spectra, 1e-12)
    assert all(weight.grad is None for weight in decoder.parameters())


# Words and numbers


def test_the_result_in_numbers_and_words() -> None:
    spectra = np.array([[4.0, 2.0], [3.0, 1.0], [5.0, 2.0]])
    found = BiLipschitz(spectra, 10)
    close(found.quantiles["50%"], [4.0, 2.0], 1e-12)
    close(found.quantiles["5%"], np.quantile(spectra, 0.05, axis=0), 1e-12)
    assert list(found.quantiles.index) == [1, 2]
    assert pytest.approx(math.sqrt(5) - 1) == found.L
    # (1+L)² = 1 + (2L+L²): the laws in closed form.
    assert found.root_law == pytest.approx(2.0)
    assert found.linear_law == pytest.approx(4 * (1 + math.log(2)))
    words = found.sentence(0.15)
    assert "scaling laws with unknown constants" in words
    assert words.endswith("; measured: 0.15.")
    assert "measured" not in found.sentence()
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["laws"]["root"]["value"] == pytest.approx(2.0)
    assert "unknown" in document["laws"]["root"]["law"]
    assert document["quantiles"]["50%"] == [4.0, 2.0]


# Wrong input


def short(z: Tensor) -> Tensor:
    return z.sum(0)


@pytest.mark.parametrize(
    ("decoder", "latents", "options", "words"),
    [
        (nn.Identity(), torch.randn(5), {}, r"shape \(5,\); expected rows"),
        (nn.Identity(), torch.empty(0, 3), {}, r"shape \(0, 3\)"),
        (nn.Identity(), torch.randn(5, 3) + 0j, {}, "complex64; expected real"),
        (nn.Identity(), torch.randn(5, 3), {"rows": 0}, "rows is 0"),
        (nn.Identity(), torch.randn(5, 3), {"batch": 0}, "batch is 0"),
        (nn.Identity(), [[1.0, 2.0], [math.nan, 0.0]], {}, "in 1 of 2 rows, the first is row 1"),
        (lambda z: (z, z), torch.randn(5, 3), {}, "gave tuple for one latent"),
        (short, torch.randn(5, 3), {}, r"gave \(3,\) for one latent"),
        (lambda z: z.detach() * 0 + 1, torch.randn(5, 3), {}, "does not change with its latents"),
        (torch.sqrt, torch.zeros(5, 3), {}, "Jacobian has NaN or infinity"),
    ],
)
def test_wrong_input_is_named(
    decoder: Callable[[Tensor], Tensor], latents: object, options: dict, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        bilipschitz(decoder, latents, **options)
