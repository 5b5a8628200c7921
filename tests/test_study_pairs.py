"""The networks that studies train in pairs: orthogonal layers, autoencoders, the layer inside."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import close

torch = pytest.importorskip("torch")

from identikit.learn import ResNet, bilipschitz  # noqa: E402
from identikit.studies._pairs import (  # noqa: E402
    Orthogonal,
    classifier,
    inside,
    orthogonal_autoencoder,
    reconstruction,
    unexplained,
)


@pytest.mark.parametrize(("width", "out"), [(7, 4), (4, 7), (5, 5)])
def test_a_layer_is_the_gram_schmidt_basis_of_any_weight(
    width: int, out: int, rng: np.random.Generator
) -> None:
    layer = Orthogonal(width, out).double()
    tall = rng.normal(size=(max(width, out), min(width, out)))
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(tall))
        matrix = layer(torch.eye(width, dtype=torch.float64)).numpy()
    basis: list[np.ndarray] = []
    for column in tall.T:
        rest = column - sum((b * (b @ column) for b in basis), np.zeros(len(column)))
        basis.append(rest / np.linalg.norm(rest))
    expected = np.stack(basis, axis=1)
    close(matrix, expected if out < width else expected.T, 1e-10)


@pytest.mark.parametrize("leak", [0.1, 0.5, 1.0])
def test_singular_values_of_the_decoder_lie_between_the_cube_of_the_leak_and_one(
    leak: float, seed: int
) -> None:
    torch.manual_seed(seed)
    decoder = orthogonal_autoencoder([20, 12, 8, 4], leak).double().g
    found = bilipschitz(decoder, 5 * torch.randn(300, 4, dtype=torch.float64))
    assert leak**3 * (1 - 1e-9) <= found.smallest <= found.largest <= 1 + 1e-9
    # Something of the range is used, or the bound would be tested by nothing.
    assert leak == 1 or found.largest / found.smallest > 1.2


def test_with_leak_one_the_decoder_is_an_isometry(seed: int) -> None:
    torch.manual_seed(seed)
    decoder = orthogonal_autoencoder([20, 12, 8, 4], 1.0).double().g
    z = torch.randn(50, 4, dtype=torch.float64)
    with torch.no_grad():
        close(torch.pdist(decoder(z)).numpy(), torch.pdist(z).numpy(), 1e-9)


def test_unexplained_variance_of_known_autoencoders(rng: np.random.Generator) -> None:
    x = torch.from_numpy(rng.normal(size=(200, 6)) * [3, 2, 1, 1, 1, 1] + 5)
    net = orthogonal_autoencoder([6, 6, 6, 6], 1.0).double()
    with torch.no_grad():
        for part in (net.f, net.g):
            for layer in part:
                if isinstance(layer, Orthogonal):
                    layer.weight.copy_(torch.eye(6))
        close(float(reconstruction(net, x)), 0.0, 1e-12)
        net.g[-2].bias.fill_(2.0)
        close(float(reconstruction(net, x)), 24.0, 1e-9)
    total = float((x - x.mean(0)).square().sum(-1).mean())
    close(unexplained(net, x), 24.0 / total, 1e-9)


def test_the_layer_of_a_classifier_is_what_enters_its_last_block(seed: int) -> None:
    torch.manual_seed(seed)
    net = classifier(8, [1, 1], 10)
    images = torch.randn(5, 3, 16, 16)
    assert isinstance(net.f, ResNet)
    heard = []
    net.f.stages[-1].register_forward_hook(lambda _module, given, _out: heard.append(given[0]))
    with torch.no_grad():
        net.f(images)
    close(inside(net, images), heard[0].numpy().mean(axis=(2, 3)), 1e-6)
