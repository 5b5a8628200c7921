"""The VAE with a fixed decoder variance: its bound against closed forms and quadrature."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, logistic, multivariate_normal, norm

from conftest import close
from identikit.errors import InputError
from identikit.recover import linear_elbo_gap, self_consistent_variance

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from identikit.learn import (  # noqa: E402
    Beta,
    SoftmaxNet,
    best_posterior,
    codes,
    decoder_jacobian,
    gaussian_kl,
    log_normal,
    negative_elbo,
    posterior,
    prior_curvature,
    shuffled,
    train,
    vae,
    with_noise,
)
from identikit.learn._vae import log_prior  # noqa: E402

W = np.random.default_rng(0).normal(size=(5, 3))
PRIORS = ["uniform", "gaussian", Beta(2.0, 5.0), Beta([2.0, 7.0, 3.5], [1.5, 2.0, 9.0])]


class Fixed(nn.Module):
    """A posterior N(x Mᵀ, diag v), the same v for all x."""

    def __init__(self, mean_map: np.ndarray, variances: np.ndarray) -> None:
        super().__init__()
        self.map, self.log = torch.from_numpy(mean_map), torch.from_numpy(np.log(variances))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        means = x @ self.map.T
        return torch.cat([means, self.log.expand_as(means)], dim=-1)


def linear(matrix: np.ndarray) -> nn.Module:
    layer = nn.Linear(matrix.shape[1], matrix.shape[0], bias=False).double()
    layer.weight.data = torch.from_numpy(np.ascontiguousarray(matrix))
    return layer


def second_moments(d: int) -> np.ndarray:
    """Points ±√d e_k: their mean is that of the normal law for every quadratic function."""
    return np.vstack([d**0.5 * np.eye(d), -(d**0.5) * np.eye(d)])


@pytest.mark.parametrize("precision", [1.0, 1e2, 1e4])
def test_the_bound_of_the_linear_case_is_exact(precision, rng):
    """With the best posterior, log p(x) less the gap, for each x."""
    best = linear_elbo_gap(W, precision)
    net = SoftmaxNet(Fixed(best.mean_map, best.variances), linear(W))
    noise = torch.from_numpy(second_moments(3))
    for x in rng.normal(size=(5, 5)):
        rows = torch.from_numpy(np.tile(x, (6, 1)))
        log_p = multivariate_normal(cov=W @ W.T + np.eye(5) / precision).logpdf(x)
        found = -negative_elbo(net, rows, noise, precision, "gaussian").item()
        close(found, log_p - best.value, 1e-6)


@pytest.mark.parametrize(("mean", "sd"), [(0.0, 1.0), (2.5, 0.3), (-4.0, 2.0)])
@pytest.mark.parametrize(
    ("prior", "law"),
    [("uniform", beta(1, 1)), ("gaussian", norm()), (Beta(2.0, 5.0), beta(2, 5))],
    ids=["uniform", "gaussian", "beta"],
)
def test_divergence_from_the_prior(mean, sd, prior, law):
    """One latent, by integration over the code itself; the decoder knows nothing of it."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    net = SoftmaxNet(Fixed(np.zeros((1, 2)), np.array([sd**2])), linear(np.zeros((2, 1))))
    net.f.map = torch.full((1, 2), mean / 2, dtype=torch.float64)
    x = torch.ones(1, 2, dtype=torch.float64)
    each = [
        negative_elbo(net, x, torch.tensor([[node]], dtype=torch.float64), 1.0, prior).item()
        for node in nodes
    ]
    found = np.average(each, weights=weights) + norm.logpdf(1.0) * 2
    if prior == "gaussian":
        density = law.pdf
    else:

        def density(u):
            s = logistic.cdf(u)
            return law.pdf(s) * s * (1 - s)

    def integrand(u):
        q = norm.pdf(u, mean, sd)
        return q * (norm.logpdf(u, mean, sd) - np.log(density(u)))

    expected, _ = quad(integrand, mean - 12 * sd, mean + 12 * sd, epsabs=1e-10, limit=200)
    close(found, expected, 1e-6)


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_saturated_sigmoids_cost_a_finite_loss(prior):
    """At u = ±300 a sigmoid is 0 or 1 in every type; a log of it would be infinite."""
    u = torch.tensor([[-300.0, 0.0, 300.0]], requires_grad=True)
    total = log_prior(u, prior).sum()
    total.backward()
    assert total.isfinite()
    assert u.grad.isfinite().all()
    # Towards the middle.
    assert u.grad[0, 0] > 0 > u.grad[0, 2]


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_curvature_of_the_prior(prior):
    u = torch.linspace(-3, 3, 21, dtype=torch.float64)[:, None].expand(21, 3)
    h = 1e-4
    second = (log_prior(u + h, prior) - 2 * log_prior(u, prior) + log_prior(u - h, prior)) / h**2
    close(prior_curvature(u, prior), second, 1e-6)


def test_the_prior_integrates_to_one():
    for prior in PRIORS[:3]:

        def density(u, prior=prior):
            return log_prior(torch.tensor(u, dtype=torch.float64), prior).exp().item()

        close(quad(density, -40, 40)[0], 1.0, 1e-8)


def test_codes_have_the_range_of_their_prior(rng):
    net = vae(3, 4)
    x = torch.from_numpy(100 * rng.normal(size=(500, 4))).float()
    mean, log_variance = posterior(net, x)
    assert mean.shape == log_variance.shape == (500, 3)
    close(codes(net, x, "gaussian").detach(), mean.detach(), 0)
    inside = codes(net, x).detach()
    assert 0.4 < inside.abs().max() <= 0.5
    close(inside, mean.detach().sigmoid() - 0.5, 0)


def test_jacobian_of_the_decoder(rng):
    """Against central differences; of a linear one, its matrix at every code."""
    net = vae(3, 5, [16, 16]).double()
    z = torch.from_numpy(rng.uniform(-0.5, 0.5, size=(7, 3)))
    h = 1e-6 * torch.eye(3, dtype=torch.float64)
    with torch.no_grad():
        numeric = [(net.g(z + h[k]) - net.g(z - h[k])) / 2e-6 for k in range(3)]
    close(decoder_jacobian(net, z), torch.stack(numeric, dim=2), 1e-6)
    straight = SoftmaxNet(nn.Identity(), linear(W))
    close(decoder_jacobian(straight, z), np.tile(W, (7, 1, 1)), 1e-14)


def test_the_exact_posterior_is_where_the_gradient_vanishes(rng):
    """Of a linear encoder with a linear decoder; and its variances are the self-consistent ones."""
    precision = 4.0
    best = linear_elbo_gap(W, precision)
    encoder = nn.Linear(5, 6).double()
    with torch.no_grad():
        encoder.weight.copy_(torch.from_numpy(np.vstack([best.mean_map, 0 * best.mean_map])))
        encoder.bias.copy_(torch.from_numpy(np.append(np.zeros(3), np.log(best.variances))))
    net = SoftmaxNet(encoder, linear(W).requires_grad_(False))
    x = torch.from_numpy(np.repeat(rng.normal(size=(20, 5)), 6, axis=0))
    noise = torch.from_numpy(np.tile(second_moments(3), (20, 1)))
    negative_elbo(net, x, noise, precision, "gaussian").backward()
    assert max(part.grad.abs().max() for part in encoder.parameters()) < 1e-12
    mean, log_variance = posterior(net, x[:1])
    jacobian = decoder_jacobian(net, mean)
    predicted = self_consistent_variance(jacobian, precision, prior_curvature(mean, "gaussian"))
    close(log_variance.exp().detach(), predicted, 1e-12)
    with torch.no_grad():
        encoder.bias[3:] += 0.1
    negative_elbo(net, x, noise, precision, "gaussian").backward()
    assert encoder.bias.grad[3:].min() > 1e-3


def test_the_precision_may_come_with_the_batch(rng):
    """So seeds of one stack can have one each; and the noise is a function of seed and step."""
    x = torch.from_numpy(rng.normal(size=(40, 4))).float()
    batches = shuffled((x,), 10, with_noise(2))
    first, again = batches(3, 1), batches(3, 1)
    close(first[1], again[1], 0)
    assert not torch.equal(first[1], batches(3, 2)[1])
    net = vae(2, 4, [8])
    as_number = negative_elbo(net, *first, 100.0)
    close(negative_elbo(net, *first, torch.tensor(100.0)).item(), as_number.item(), 0)

    def both(step, seed):
        return (*batches(step, seed), torch.tensor([10.0, 1000.0])[seed])

    run = train(partial(vae, 2, 4, [8]), negative_elbo, both, 3, seeds=range(2), together=True)
    alone = [
        train(partial(vae, 2, 4, [8]), negative_elbo, both, 3, seeds=[seed]) for seed in (0, 1)
    ]
    for seed, one in enumerate(alone):
        close(run.net(seed).g.layers[0].weight, one.net(seed).g.layers[0].weight, 1e-5)


def test_the_densities_are_scipys(rng):
    mean, log_variance, z = (torch.from_numpy(rng.normal(size=(6, 3))) for _ in range(3))
    sd = (0.5 * log_variance).exp()
    close(log_normal(z, mean, log_variance), norm.logpdf(z, mean, sd), 1e-12)
    zero = torch.zeros(1, 3, dtype=torch.float64)
    close(gaussian_kl(zero, zero), [0.0], 0)


def test_bad_calls():
    net, x = vae(2, 4, [8]), torch.zeros(5, 4)
    noise = torch.zeros(5, 2)
    with pytest.raises(InputError, match=r"noise has shape \(5, 3\).*have \(5, 2\)"):
        negative_elbo(net, x, torch.zeros(5, 3), 1.0)
    with pytest.raises(InputError, match="no prior 'cauchy'; choose uniform, gaussian or Beta"):
        negative_elbo(net, x, noise, 1.0, "cauchy")
    with pytest.raises(InputError, match="precision γ² must be positive, not 0"):
        negative_elbo(net, x, noise, 0.0)
    for wrong in ((0.0, 1.0), (1.0, [2.0, -1.0]), (float("nan"), 1.0)):
        with pytest.raises(InputError, match="parameters of a beta prior must be positive"):
            Beta(*wrong)


# The best posteriors under a fixed decoder


@pytest.mark.long
def test_best_posteriors_of_the_linear_case(rng):
    """From a start that is off in means and variances, to the exact posterior and gap."""
    precision = 4.0
    best = linear_elbo_gap(W, precision)
    x = rng.normal(size=(30, 5))
    means = x @ best.mean_map.T
    start = {
        "mean": torch.from_numpy(means + best.variances**0.5),
        "log_variance": torch.from_numpy(np.tile(np.log(best.variances) + 0.5, (30, 1))),
    }
    found = best_posterior(
        linear(W), torch.from_numpy(x), precision, "gaussian", steps=300, pairs=16, **start
    )
    log_p = multivariate_normal(cov=W @ W.T + np.eye(5) / precision).logpdf(x).mean()
    close(-found.loss, log_p - best.value, 0.02)
    close(found.mean, means, 0.15, best.variances**0.5)
    close(found.log_variance.exp().mean(0), best.variances, 0.05, best.variances)
    before = best_posterior(
        linear(W), torch.from_numpy(x), precision, "gaussian", steps=0, pairs=16, **start
    )
    assert before.loss > found.loss + 0.3


def test_best_posteriors_need_a_start_for_each_row():
    x, start = torch.zeros(4, 5), torch.zeros(3, 3)
    with pytest.raises(InputError, match="expected one row of each for all 4 rows of x"):
        best_posterior(linear(W), x, 1.0, mean=start, log_variance=start)
