"""Heads on the sphere: norms, temperature, bias, stacks, and the model that a run has of them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.special import log_softmax

from conftest import close
from identikit.errors import InputError
from identikit.family import SoftmaxModel

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from identikit.learn import (  # noqa: E402
    MLP,
    OBJECTIVES,
    Lookup,
    Normalised,
    SoftmaxNet,
    Tempered,
    case_net,
    diet,
    shuffled,
    supervised,
    train,
)
from learning import one_thread  # noqa: E402, F401

CASES = ("C1", "C2", "C3", "C4")
#: Whether f, and whether w, is at unit norm.
UNIT = {"C1": (True, True), "C2": (True, False), "C3": (False, True), "C4": (False, False)}


def data(labels: int = 7) -> tuple[Tensor, Tensor]:
    some = torch.Generator().manual_seed(3)
    x = torch.randn(256, 5, generator=some)
    return x, (x @ torch.randn(5, labels, generator=some)).argmax(1)


def build(case: str, bias: bool = False) -> SoftmaxNet:
    return case_net(case, MLP([5, 16, 3], "leaky_relu"), 7, 3, bias=bias, beta=2.0)


def norms(rows: np.ndarray) -> np.ndarray:
    return np.linalg.norm(rows, axis=1)


@pytest.mark.parametrize("case", CASES)
def test_what_is_normalised_stays_so_through_training(case):
    """Whatever Adam makes of the weights: norms are taken where they are used."""
    x, y = data()
    run = train(partial(build, case), diet, shuffled((x, y), 32), 30, lr=3e-2, together=False)
    before, after = partial(build, case)(), run.net(0)
    of_f, of_w = UNIT[case]
    f, g = run.embed(x)["seed 0"], run.unembed()["seed 0"]
    beta = after.g.beta.item() if of_f else 1.0
    for unit, lengths in ((of_f, norms(f)), (of_w, norms(g) / beta)):
        if unit:
            close(lengths, np.ones(len(lengths)), 1e-6)
        else:
            assert np.ptp(lengths) > 0.1
    if of_f:
        assert beta > 2.1
    # The rows behind the unit vectors are free: Adam moves them, and nothing sets them back.
    table = after.g
    while not isinstance(table, Lookup):
        table = table.module
    assert np.ptp(norms(table.weight.numpy())) > 0.1
    assert isinstance(before.g, Lookup) == (case == "C4")


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_model_of_a_run_has_its_probabilities(case, bias):
    x, y = data()
    run = train(partial(build, case, bias), diet, shuffled((x, y), 32), 40, seeds=(0, 4), lr=3e-2)
    for seed in run.seeds:
        net, model = run.net(seed), run.model(seed, x)
        assert isinstance(model, SoftmaxModel)
        f = net.f.module(x) if UNIT[case][0] else net.f(x)
        f = f.numpy().astype(float)
        table = net.g
        while not isinstance(table, Lookup):
            table = table.module
        w = table.weight.numpy().astype(float)
        if UNIT[case][0]:
            f = f / norms(f)[:, None]
        if UNIT[case][1]:
            w = w / norms(w)[:, None]
        beta = net.g.log_beta.exp().item() if UNIT[case][0] else 1.0
        logits = beta * f @ w.T + (net.bias.numpy() if bias else 0)
        close(model.log_prob(), log_softmax(logits, axis=1), 2e-5)
        # The loss of the objective is that of the model.
        right = -model.log_prob()[np.arange(len(x)), y.numpy()].mean()
        close(diet(net, x, y).item(), right, 1e-5)
        some = run.model(seed, x, torch.tensor([2, 5]))
        close(some.g, model.g[[2, 5]], 1e-6)
        assert (model.bias is not None) == bias


@pytest.mark.parametrize("case", CASES)
def test_a_stack_of_seeds_learns_what_each_would_alone(case):
    call = partial(train, partial(build, case), diet, shuffled(data(), 32), 20, seeds=range(3))
    together, alone = call(together=True), call(together=False)
    for name, tensor in together.weights[20].items():
        close(tensor, alone.weights[20][name], 1e-4)


def test_diet_is_cross_entropy_on_instances():
    x, y = data()
    net = build("C4")
    assert OBJECTIVES["diet"] is diet
    assert torch.equal(diet(net, x, y), supervised(net, x, y))
    logits = (net.f(x) @ net.g.weight.T).detach()
    close(diet(net, x, y).item(), torch.nn.functional.cross_entropy(logits, y).item(), 1e-6)


def test_a_temperature_is_positive_and_learned():
    net = Tempered(MLP([5, 3]), 4.0)
    close(net.beta.item(), 4.0, 1e-6)
    x = data()[0]
    close(net(x).detach(), 4 * net.module(x).detach(), 1e-5)
    with torch.no_grad():
        net.log_beta -= 100
    assert net.beta > 0
    assert "log_beta" in dict(net.named_parameters())


def test_a_wrapped_table_is_a_table_and_a_wrapped_encoder_is_none():
    table = Tempered(Normalised(Lookup(7, 3)), 2.0)
    assert table.labels == 7
    assert torch.equal(table(torch.tensor([4, 1])), table()[[4, 1]])
    assert not hasattr(Normalised(MLP([5, 3])), "labels")
    with pytest.raises(InputError, match="Normalised, which has no set of labels"):
        SoftmaxNet(MLP([5, 3]), Normalised(MLP([5, 3]))).unembeddings()


def test_unequal_classes_need_a_bias_and_it_is_the_log_prior(rng):
    """p(c|z) ∝ π_c exp(κ v_cᵀz) has log-odds of rank d + 1: no head of width d without a bias."""
    d, classes = 3, 12
    v, z = (rng.normal(size=(rows, d)) for rows in (classes, 400))
    v, z = v / norms(v)[:, None], z / norms(z)[:, None]
    prior = rng.dirichlet(np.ones(classes))
    truth = log_softmax(10 * z @ v.T + np.log(prior), axis=1)
    close(SoftmaxModel(z, 10 * v, np.log(prior)).log_prob(), truth, 1e-12)
    odds = truth - truth.mean(axis=1, keepdims=True)
    values = np.linalg.svd(odds, compute_uv=False)
    assert values[d] > 1e-2 * values[0]
    assert values[d + 1] < 1e-12 * values[0]
    balanced = log_softmax(10 * z @ v.T, axis=1)
    values = np.linalg.svd(balanced - balanced.mean(axis=1, keepdims=True), compute_uv=False)
    assert values[d] < 1e-12 * values[0]
    # With d + 1 classes a shift of the features takes the prior up: there is room for any.
    few = log_softmax(10 * z @ v[: d + 1].T + np.log(prior[: d + 1]), axis=1)
    values = np.linalg.svd(few - few.mean(axis=1, keepdims=True), compute_uv=False)
    assert values[d] < 1e-12 * values[0]


def test_what_is_no_case_and_no_temperature():
    with pytest.raises(InputError, match=r"no case 'C5'; choose one of C1, C2, C3, C4"):
        case_net("C5", MLP([5, 3]), 7, 3)
    for beta in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match=r"beta is .* above zero"):
            case_net("C1", MLP([5, 3]), 7, 3, beta=beta)
