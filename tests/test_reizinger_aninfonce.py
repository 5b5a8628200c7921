"""AnInfoNCE: the loss, its symmetries, and the blocks of equal concentration.

Fixtures of Rusak et al. 2025 and of the derivation that a minimiser is f = Oz with OΛOᵀ = Λ̂.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import block_diag
from scipy.special import logsumexp
from scipy.stats import ortho_group

import identikit as ik
from conftest import close
from identikit.errors import InputError
from identikit.family import concentration_blocks

TWO_VALUED = np.repeat([25.0, 3.0], 3)


def sphere(rows: int, width: int, rng: np.random.Generator) -> np.ndarray:
    drawn = rng.normal(size=(rows, width))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def around(z: np.ndarray, lam: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Some partners; not of any exact law."""
    moved = z + rng.normal(size=z.shape) / np.sqrt(lam)
    return moved / np.linalg.norm(moved, axis=1, keepdims=True)


def squared(a: np.ndarray, b: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """(a − b)ᵀΛ(a − b) of all pairs."""
    apart = a[:, None] - b[None]
    return np.einsum("ijk,k->ij", apart**2, lam)


def turn_inside(rng: np.random.Generator, sizes: tuple[int, ...] = (3, 3)) -> np.ndarray:
    return block_diag(*(ortho_group.rvs(size, random_state=rng) for size in sizes))


# The blocks


def test_repeated_concentrations_form_blocks():
    found = concentration_blocks(TWO_VALUED)
    assert found.blocks == ((3, 4, 5), (0, 1, 2))
    assert found.rung == "rigid"
    assert "2 blocks, of 3, 3 latents" in found.sentence


def test_distinct_concentrations_leave_order_and_sign():
    found = concentration_blocks(np.linspace(5, 25, 10))
    assert found.blocks == tuple((i,) for i in range(10))
    assert found.rung == "permutation"
    assert "order and sign" in found.sentence


@pytest.mark.parametrize("values", [[4.0, 4.0, 4.0], [4.0, 4.1, 4.2]])
def test_equal_ones_leave_a_rotation_of_all(values):
    found = concentration_blocks(values, errors=0.1)
    assert found.blocks == ((0, 1, 2),)
    assert found.rung == "rigid"
    assert "a rotation of all of them" in found.sentence


def test_a_gap_counts_against_the_errors_of_both_sides():
    """1.96 √(3² + 4²) = 9.8."""
    assert concentration_blocks([10.0, 19.79], errors=[3, 4]).rung == "rigid"
    assert concentration_blocks([10.0, 19.81], errors=[3, 4]).rung == "permutation"
    # The two at the ends differ clearly, and are joined by the one between.
    assert len(concentration_blocks([10.0, 15.0, 20.0], errors=2.0).blocks) == 1
    assert len(concentration_blocks([10.0, 20.0], errors=2.0).blocks) == 2


@given(st.permutations(range(6)), st.floats(0, 3))
def test_blocks_do_not_depend_on_the_order_of_the_latents(order, error):
    lam = np.array([2.0, 2.5, 9.0, 9.1, 20.0, 24.0])
    straight = concentration_blocks(lam, error)
    turned = concentration_blocks(lam[order], error)
    back = tuple(tuple(sorted(order[i] for i in block)) for block in turned.blocks)
    assert back == straight.blocks
    assert turned.rung == straight.rung


@pytest.mark.parametrize(
    ("width", "level"), [(2, 0.900), (3, 0.829), (5, 0.729), (6, 0.695), (10, 0.593)]
)
def test_the_mcc_of_a_random_rotation(width, level):
    """Levels as measured elsewhere over many draws; the standard deviation is at most .09."""
    assert concentration_blocks(np.ones(width)).mcc_level() == pytest.approx(level, abs=0.009)


def test_the_mcc_of_rotations_inside_blocks():
    assert concentration_blocks(TWO_VALUED).mcc_level() == pytest.approx(0.829, abs=0.009)
    assert concentration_blocks([1.0, 2.0, 3.0]).mcc_level() == 1
    assert concentration_blocks([1.0, 1.0, 3.0]).mcc_level() == pytest.approx(2.8 / 3, abs=0.009)


@pytest.mark.parametrize(
    ("values", "errors", "message"),
    [
        ([[1.0]], 0, "shape (1, 1); expected one for each latent"),
        ([], 0, "shape (0,)"),
        ([1.0, 0.0], 0, "finite and above zero"),
        ([1.0, np.nan], 0, "finite and above zero"),
        ([1.0, 2.0], [0.1], "2 concentrations, but errors of shape (1,)"),
        ([1.0, 2.0], -1, "0 or more"),
    ],
)
def test_what_are_no_concentrations(values, errors, message):
    with pytest.raises(InputError) as caught:
        concentration_blocks(values, errors)
    assert message in str(caught.value)


# Symmetries of the optimum, and their rungs


def test_rotations_inside_blocks_keep_all_distances_and_others_do_not(rng):
    z = sphere(200, 6, rng)
    R, Q = turn_inside(rng), ortho_group.rvs(6, random_state=rng)
    before = squared(z, z, TWO_VALUED)
    close(squared(z @ R.T, z @ R.T, TWO_VALUED), before, 1e-12)
    assert np.abs(squared(z @ Q.T, z @ Q.T, TWO_VALUED) - before).max() > 10


def test_distinct_concentrations_mean_a_permutation(rng):
    z = sphere(2000, 6, rng)
    P = np.eye(6)[rng.permutation(6)] * rng.choice([-1, 1], 6)
    audit = ik.audit([z, z @ P.T])
    assert audit.verdict.group == "permutation"
    assert audit.verdict.error < 1e-10
    assert ik.mcc(ik.accumulate([z, z @ P.T])).value == pytest.approx(1)


def test_a_rotation_inside_blocks_is_rigid_with_full_r2_and_the_mcc_of_chance(rng):
    z = sphere(2000, 6, rng)
    assert ik.audit([z, z @ turn_inside(rng).T]).verdict.group == "rigid"
    turned = [z @ turn_inside(rng).T for _ in range(60)]
    assert min(ik.r2(ik.accumulate([z, each])).value for each in turned) == pytest.approx(1)
    scores = [ik.mcc(ik.accumulate([z, each])).value for each in turned]
    assert np.mean(scores) == pytest.approx(0.829, abs=0.03)
    assert max(scores) < 0.99


# The world


def test_the_score_of_a_world_says_the_same(rng):
    """Distinct: permutation and MCC 1. Two blocks of 3: rigid, R² 1, and the MCC of chance."""
    distinct = ik.worlds.AnisotropicPairs(np.linspace(5, 25, 6))
    z = distinct.sample(2000, rng).latents
    P = np.eye(6)[rng.permutation(6)] * rng.choice([-1, 1], 6)
    found = ik.worlds.score(z @ P.T, z)
    assert (found.group, round(found.mcc, 6)) == ("permutation", 1)
    assert distinct.identified[0].rung == "permutation"
    repeated = ik.worlds.AnisotropicPairs(TWO_VALUED)
    blocks = {"content": range(3), "style": range(3, 6)}
    found = ik.worlds.score(z @ turn_inside(rng).T, z, blocks=blocks)
    assert found.group == repeated.identified[0].rung == "rigid"
    close([found.r2["content"], found.r2["style"]], [1, 1], 1e-9)
    assert found.mcc < 0.99


@pytest.mark.parametrize("sampler", ["exact", "approximate"])
def test_partners_lie_on_the_sphere(rng, sampler):
    world = ik.worlds.AnisotropicPairs(TWO_VALUED, sampler=sampler)
    sample = world.sample(2000, rng)
    close(np.linalg.norm(sample.positive_latents, axis=1), np.ones(2000), 1e-12)
    spread = ((sample.positive_latents - sample.latents) ** 2).mean(axis=0)
    assert spread[:3].max() < 0.05 < 0.1 < spread[3:].min()


def test_the_approximate_sampler_keeps_points_near_the_sphere_only(rng):
    """What is projected had a norm from .9 to 1.1: so said again by the authors' rule itself."""
    z = sphere(1, 6, rng).repeat(20_000, axis=0)
    drawn = z + rng.normal(size=z.shape) / np.sqrt(TWO_VALUED)
    norms = np.linalg.norm(drawn, axis=1)
    kept = (norms > 0.9) & (norms < 1.1)
    expected = drawn[kept] / norms[kept, None]
    from identikit.worlds._sphere import near_by_projection

    found = near_by_projection(z, TWO_VALUED, rng)
    error = 5 * expected.std(axis=0) * np.sqrt(1 / kept.sum() + 1 / len(z))
    assert (np.abs(found.mean(axis=0) - expected.mean(axis=0)) < error).all()


def test_the_mixing_alone_is_the_baseline(rng):
    """Committed logs of the authors, n = 10 and layers of condition 3.4: R² .69/.66, MCC .49."""
    mixing = ik.worlds.LeakyReLU(10, layers=3, seed=0, draws=25_000)
    world = ik.worlds.AnisotropicPairs(np.repeat([25.0, 5.0], 5), mixing)
    sample = world.sample(4096, rng)
    blocks = {"content": range(5), "style": range(5, 10)}
    found = ik.worlds.score(sample.observations, sample.latents, blocks=blocks)
    close([found.r2["content"], found.r2["style"], found.mcc], [0.69, 0.66, 0.49], 0.08)


# The loss

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from identikit.learn import (  # noqa: E402
    MLP,
    OBJECTIVES,
    Concentrations,
    Normalised,
    SoftmaxNet,
    aninfonce,
    aninfonce_ensemble,
    fresh,
    linear_start,
    train,
)


def network(lam: np.ndarray, learnable: str | None = "diagonal") -> SoftmaxNet:
    """The identity as f, and these concentrations, in float64."""
    own = Concentrations(len(lam), learnable).double()
    with torch.no_grad():
        theta = np.log(np.expm1(lam if learnable == "diagonal" else lam[0]))
        own.theta.copy_(torch.as_tensor(theta))
    return SoftmaxNet(Normalised(nn.Identity()), own)


def loss(lam: np.ndarray, *batch: np.ndarray, learnable: str | None = "diagonal") -> float:
    net = network(lam, learnable)
    return aninfonce(net, *map(torch.from_numpy, batch)).item()


def by_hand(lam: np.ndarray, first: np.ndarray, second: np.ndarray) -> float:
    """Anchor by anchor: −½|δ|²_Λ of the partner against all but the anchor itself."""
    both, n = np.concatenate([first, second]), len(first)
    scores = -squared(both, both, lam) / 2
    terms = []
    for i in range(2 * n):
        others = [scores[i, j] for j in range(2 * n) if j != i]
        terms.append(logsumexp(others) - scores[i, (i + n) % (2 * n)])
    return float(np.mean(terms))


def test_the_loss_against_its_definition(rng):
    z = sphere(20, 6, rng)
    positive = around(z, TWO_VALUED, rng)
    close(loss(TWO_VALUED, z, positive), by_hand(TWO_VALUED, z, positive), 1e-12)
    # Negatives so far away that they do not count: what is left is the positive term itself.
    far = [np.array([[1.0, 0, 0]]), np.array([[0.96, 0.28, 0]]), np.array([[-1.0, 0, 0]])]
    lam = np.array([30.0, 20.0, 10.0])
    gap = squared(far[0], far[2], lam) - squared(far[0], far[1], lam)
    close(loss(lam, *far), np.log1p(np.exp(-gap[0, 0] / 2)), 1e-12)


def test_both_views_are_anchors_by_their_own_distances(rng):
    """With the untransposed table of the first view, exchanging the views changes the loss."""
    z = sphere(20, 6, rng)
    positive = around(z, TWO_VALUED, rng)
    close(loss(TWO_VALUED, z, positive), loss(TWO_VALUED, positive, z), 1e-12)

    def wrong(first: np.ndarray, second: np.ndarray) -> float:
        one, two, cross = (
            -squared(a, b, TWO_VALUED) / 2
            for a, b in ((first, first), (second, second), (first, second))
        )
        np.fill_diagonal(one, -np.inf)
        np.fill_diagonal(two, -np.inf)
        tables = np.block([[one, cross], [cross, two]])
        return float((logsumexp(tables, axis=1) - np.tile(np.diag(cross), 2)).mean())

    assert abs(wrong(z, positive) - wrong(positive, z)) > 1e-6


def test_the_symmetries_of_the_loss(rng):
    z = sphere(40, 6, rng)
    positive = around(z, TWO_VALUED, rng)
    before = loss(TWO_VALUED, z, positive)
    R, Q = turn_inside(rng), ortho_group.rvs(6, random_state=rng)
    close(loss(TWO_VALUED, z @ R.T, positive @ R.T), before, 1e-12)
    assert abs(loss(TWO_VALUED, z @ Q.T, positive @ Q.T) - before) > 0.01
    order = rng.permutation(6)
    close(loss(TWO_VALUED[order], z[:, order], positive[:, order]), before, 1e-12)
    swapped = [3, 1, 2, 0, 4, 5]
    assert abs(loss(TWO_VALUED, z[:, swapped], positive[:, swapped]) - before) > 0.01


@pytest.mark.parametrize("learnable", ["diagonal", "scalar", None])
@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_equal_concentrations_are_infonce_with_a_temperature(rng, temperature, learnable):
    """NT-Xent as Chen et al. 2020 write it: cosines over τ, without the own one."""
    z = sphere(20, 6, rng)
    positive = around(z, TWO_VALUED, rng)
    both = np.concatenate([z, positive])
    cosines = both @ both.T / temperature
    np.fill_diagonal(cosines, -np.inf)
    right = cosines[np.arange(40), np.roll(np.arange(40), 20)]
    expected = (logsumexp(cosines, axis=1) - right).mean()
    lam = np.full(6, 1 / temperature)
    close(loss(lam, z, positive, learnable=learnable), expected, 1e-12)


def circle(points: int) -> np.ndarray:
    angle = 2 * np.pi * np.arange(points) / points
    return np.column_stack([np.cos(angle), np.sin(angle)])


@pytest.mark.parametrize("hard", [np.zeros(2), np.array([2.0, 1.5])])
def test_the_true_concentrations_are_optimal(hard):
    """On a finite circle the expectation is a sum: no sampler, and the gradient is 0 at Λ⁺ − Λ⁻."""
    z, lam = circle(16), np.array([9.0, 2.0])
    positives, negatives = (
        np.exp(-squared(z, z, each) / 2) / np.exp(-squared(z, z, each) / 2).sum(1, keepdims=True)
        for each in (lam, hard)
    )
    i, j, k = (index.ravel() for index in np.indices((16, 16, 16)))
    weights = torch.from_numpy(positives[i, j] * negatives[i, k] / 16)
    batch = [torch.from_numpy(z[index])[:, None] for index in (i, j, k)]

    def gradient(at: np.ndarray) -> np.ndarray:
        net = network(at)
        terms = torch.func.vmap(lambda *rows: aninfonce(net, *rows))(*batch)
        (slope,) = torch.autograd.grad((weights * terms).sum(), net.g.theta)
        return slope.numpy()

    close(gradient(lam - hard), np.zeros(2), 1e-12)
    assert np.abs(gradient(1.2 * (lam - hard))).min() > 1e-4


def test_several_negatives_of_each_row(rng):
    z, lam = sphere(5, 3, rng), np.array([9.0, 4.0, 1.0])
    positive, negatives = around(z, lam, rng), around(np.repeat(z, 4, axis=0), lam, rng)
    negatives = negatives.reshape(5, 4, 3)
    terms = [
        logsumexp(-squared(z[[i]], np.vstack([positive[[i]], negatives[i]]), lam) / 2)
        + squared(z[[i]], positive[[i]], lam)[0, 0] / 2
        for i in range(5)
    ]
    close(loss(lam, z, positive, negatives), np.mean(terms), 1e-12)
    close(loss(lam, z, positive, negatives[:, 0]), loss(lam, z, positive, negatives[:, :1]), 1e-12)


def test_an_ensemble_is_the_sum_of_its_families(rng):
    z, lam = sphere(20, 6, rng), [TWO_VALUED, TWO_VALUED[::-1].copy()]
    positives = [around(z, each, rng) for each in lam]
    net = SoftmaxNet(Normalised(nn.Identity()), nn.ModuleList([network(each).g for each in lam]))
    together = aninfonce_ensemble(net, *map(torch.from_numpy, [z, *positives]))
    apart = [by_hand(each, z, positive) for each, positive in zip(lam, positives)]
    close(together.item(), sum(apart), 1e-12)
    with pytest.raises(InputError, match=r"for 2 families.*positives of 1"):
        aninfonce_ensemble(net, *map(torch.from_numpy, [z, positives[0]]))


def test_the_objectives_have_their_names():
    assert OBJECTIVES["aninfonce"] is aninfonce
    assert OBJECTIVES["aninfonce_ensemble"] is aninfonce_ensemble


@pytest.mark.parametrize("start", [1e-3, 1.0, 500.0])
def test_where_concentrations_start(start):
    close(Concentrations(3, start=start).double().values.tolist(), np.full(3, start), 1e-5, start)
    close(Concentrations(2, None, (start, 2.0)).values.tolist(), [start, 2.0], 1e-5, start + 2)
    assert Concentrations(3, "scalar").theta.shape == ()
    assert not Concentrations(3, None).theta.requires_grad


def test_what_concentrations_refuse():
    with pytest.raises(InputError, match="learnable is 'full'; choose diagonal, scalar or None"):
        Concentrations(3, "full")
    for start in (0.0, -1.0, np.inf):
        with pytest.raises(InputError, match="give numbers above zero"):
            Concentrations(3, start=start)
    for learnable, start in (("diagonal", [1.0, 2.0]), ("scalar", [1.0, 2.0, 3.0])):
        with pytest.raises(InputError, match="one for each of 3 latents"):
            Concentrations(3, learnable, start)
    x = torch.ones(2, 3)
    with pytest.raises(InputError, match=r"g is a Identity.*Concentrations\(M\)"):
        aninfonce(SoftmaxNet(Normalised(nn.Identity()), nn.Identity()), x, x)


# Learning


def pairs(rows: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    lam = np.array([25.0, 25.0, 3.0, 3.0])
    z = sphere(rows, 4, rng)
    return torch.from_numpy(z).float(), torch.from_numpy(around(z, lam, rng)).float()


@pytest.mark.parametrize("learnable", ["diagonal", "scalar", None])
def test_seeds_learn_as_a_stack_and_give_unit_vectors(learnable):
    def build() -> SoftmaxNet:
        return SoftmaxNet(Normalised(MLP([4, 16, 4])), Concentrations(4, learnable))

    runs = [
        train(build, aninfonce, fresh(pairs, 32), 40, seeds=range(3), lr=0.01, together=together)
        for together in (True, False)
    ]
    x, _ = pairs(100, np.random.default_rng(0))
    for views in zip(*(run.embed(x).values() for run in runs)):
        close(views[0], views[1], 1e-3)
        close(np.linalg.norm(views[0], axis=1), np.ones(100), 1e-5)
    values = runs[0].net(1).g.values
    assert values.shape == (4,)
    assert (values > 0).all()
    assert (len(set(values.tolist())) == 1) is (learnable != "diagonal")
    assert (values != 1).all().item() is (learnable is not None)


def test_an_ensemble_learns_as_a_stack():
    def build() -> SoftmaxNet:
        own = nn.ModuleList([Concentrations(4), Concentrations(4)])
        return SoftmaxNet(Normalised(MLP([4, 16, 4])), own)

    def views(rows: int, rng: np.random.Generator) -> tuple[Tensor, ...]:
        x, positive = pairs(rows, rng)
        return x, positive, x.flip(1)

    run = train(build, aninfonce_ensemble, fresh(views, 32), 5, seeds=range(2), together=True)
    assert len(run.net(0).g) == 2


@pytest.mark.parametrize("activation", ["relu", "leaky_relu"])
def test_a_network_can_start_as_a_linear_map_and_learn_from_there(activation):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        # A narrower layer after a wider one may be ill conditioned.
        net = linear_start(MLP([4, 8, 12, 3], activation))
    x = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    close(net(x).detach().numpy(), x[:, :3].numpy(), 1e-5)
    net(x).square().sum().backward()
    # The mirrored halves get other gradients, so that they part.
    first, second = net.layers[0].weight.grad.split(4)
    assert (first + second).abs().max() > 0.01


@pytest.mark.parametrize("hidden", [7, 6])
def test_a_linear_start_needs_room_for_both_signs(hidden):
    with pytest.raises(InputError, match=r"hidden widths are \[8, \d\].*even, and 8 or more"):
        linear_start(MLP([4, 8, hidden, 4]))
