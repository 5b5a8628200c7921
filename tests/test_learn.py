"""Encoders, objectives, batches, and the training of several seeds."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, log_expit, log_softmax
from scipy.stats import norm

from conftest import close
from identikit.errors import InputError
from identikit.family import SoftmaxModel

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from identikit.learn import (  # noqa: E402
    LSTM,
    MLP,
    OBJECTIVES,
    LogBilinear,
    Lookup,
    OneHot,
    ResNet,
    SoftmaxNet,
    Transformer,
    _units,
    autoregressive,
    fresh,
    infonce,
    masked,
    nce,
    negative_sampling,
    npair,
    nplm,
    rows,
    shuffled,
    supervised,
    train,
)
from learning import data, gap, one_thread, same  # noqa: E402, F401


@pytest.fixture
def generator(seed: int) -> torch.Generator:
    """Of the numbers of a test; the networks' are torch's own."""
    torch.manual_seed(seed)
    return torch.Generator().manual_seed(seed)


def classifier(dtype: torch.dtype = torch.float32) -> SoftmaxNet:
    """Without a bias in g's last layer: its gradient is zero, and Adam follows its rounding."""
    g = OneHot(7, MLP([7, 16, 3], last_bias=False, init="he"))
    return SoftmaxNet(MLP([5, 16, 16, 3], init="he"), g).to(dtype)


def biased() -> SoftmaxNet:
    return SoftmaxNet(MLP([5, 16, 3]), Lookup(7, 3), bias=7)


def with_dropout() -> SoftmaxNet:
    return SoftmaxNet(nn.Sequential(MLP([5, 16]), nn.Dropout(0.5), MLP([16, 3])), Lookup(7, 3))


def with_batch_norm() -> SoftmaxNet:
    return SoftmaxNet(nn.Sequential(MLP([5, 16]), nn.BatchNorm1d(16), MLP([16, 3])), Lookup(7, 3))


class Counter(nn.Module):
    """Has another tensor in its buffer's place after each call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls = self.calls + 1
        return x


def counting() -> SoftmaxNet:
    return SoftmaxNet(nn.Sequential(MLP([5, 3]), Counter()), Lookup(7, 3))


def recurrent() -> SoftmaxNet:
    return SoftmaxNet(LSTM(11, 6), Lookup(11, 6))


def test_two_runs_are_the_same_only_if_they_are() -> None:
    call = partial(train, biased, supervised, shuffled(data(), 32), 2)
    run, other = call(), call()
    same(run, other)
    other.weights[2]["bias"][0, 1] += 1e-7
    with pytest.raises(AssertionError, match="bias"):
        same(run, other)


# Encoders


@pytest.mark.parametrize(
    ("activation", "slope"), [("relu", 0.0), ("leaky_relu", 0.01), ("leaky_relu", 0.2)]
)
def test_mlp_is_its_formula(generator: torch.Generator, activation: str, slope: float) -> None:
    mlp = MLP([6, 4, 3, 2], activation, last_bias=False, slope=slope)
    x = torch.randn(8, 2, 3, generator=generator)
    h = x.numpy().reshape(8, 6)
    layers = [layer for layer in mlp.layers if isinstance(layer, nn.Linear)]
    for layer in layers:
        nn.init.normal_(layer.weight)
    for layer in layers[:-1]:
        nn.init.normal_(layer.bias)
        h = h @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
        h = np.where(h > 0, h, slope * h)
    assert layers[-1].bias is None
    close(mlp(x).detach(), h @ layers[-1].weight.detach().numpy().T, 1e-5)
    assert MLP([2, 3, 2], bias=False).layers[0].bias is None


def test_mlp_keeps_the_spread_of_its_input(generator: torch.Generator) -> None:
    """He: E[y²] = E[x²] · 2 after a first layer and each ReLU halves it."""
    x = torch.randn(500, 400, generator=generator)
    for depth in (1, 4):
        mean_square = MLP([400] * (depth + 1), init="he")(x).square().mean().item()
        assert 1.4 < mean_square < 2.8
    assert not any(layer.bias.any() for layer in MLP([3, 3, 3], init="he").layers[::2])


@pytest.mark.parametrize(
    ("activation", "formula"),
    [
        ("tanh", np.tanh),
        ("gelu", lambda h: h * norm.cdf(h)),
        ("silu", lambda h: h * expit(h)),
    ],
)
def test_other_activations(
    generator: torch.Generator, activation: str, formula: Callable[[np.ndarray], np.ndarray]
) -> None:
    mlp, x = MLP([3, 4, 2], activation, init="he"), torch.randn(8, 3, generator=generator)
    first, last = (layer.weight.detach().double().numpy() for layer in mlp.layers[::2])
    close(mlp(x).detach(), formula(x.double().numpy() @ first.T) @ last.T, 1e-5)


def test_mlp_with_batch_norm_and_the_usual_initialisation(generator: torch.Generator) -> None:
    mlp = MLP([400, 50, 30, 2], batch_norm=True)
    kinds = [nn.Linear, nn.BatchNorm1d, nn.ReLU]
    assert [type(layer) for layer in mlp.layers] == [*kinds, *kinds, nn.Linear]
    # The norm has a bias, and would subtract another.
    assert [layer.bias is None for layer in mlp.layers[::3]] == [True, True, False]
    hidden = mlp.layers[:2](torch.randn(90, 400, generator=generator) + 7).detach()
    close(hidden.mean(0), np.zeros(50), 1e-5)
    close(hidden.var(0, unbiased=False), np.ones(50), 1e-3)
    # Weights and biases of nn.Linear start from U(−1/√in, 1/√in).
    for layer, width in zip(mlp.layers[::3], (400, 50, 30)):
        for tensor in layer.parameters():
            assert 0 < tensor.abs().max() <= width**-0.5
    assert mlp.layers[0].weight.std().item() == pytest.approx((3 * 400) ** -0.5, rel=0.02)
    torch.manual_seed(5)
    usual = nn.Linear(4, 3)
    torch.manual_seed(5)
    assert torch.equal(MLP([4, 3]).layers[0].bias, usual.bias)


def test_tables_and_one_hot_labels(generator: torch.Generator) -> None:
    table, y = Lookup(5, 3), torch.tensor([4, 0, 4])
    assert torch.equal(table(y), table()[y])
    assert table().shape == (5, 3)
    mlp = MLP([5, 4, 2])
    codes = OneHot(5, mlp)
    assert torch.equal(codes(), mlp(torch.eye(5)))
    assert torch.equal(codes(y), mlp(torch.eye(5)[y]))
    short = OneHot(5, MLP([4, 32, 2], init="he"), truncated=True)
    close(short(y).detach(), short().detach()[y], 1e-6)
    # The last label is the zero vector, and biases start from zero.
    assert not short()[4].any()
    assert short()[3].any()


@pytest.mark.parametrize("diagonal", [False, True])
def test_log_bilinear_is_its_formula(generator: torch.Generator, diagonal: bool) -> None:
    net = LogBilinear(9, 4, 3, diagonal)
    h = torch.randint(9, (7, 3), generator=generator)
    r, C = net.words.weight.detach().numpy(), net.weights.detach().numpy()
    if diagonal:
        C = np.stack([np.diag(row) for row in C])
    expected = np.stack([sum(C[i] @ r[w] for i, w in enumerate(row)) for row in h.tolist()])
    close(net(h).detach(), expected, 1e-6)


def test_transformer_is_torchs_own_pre_norm_encoder(generator: torch.Generator) -> None:
    """The same weights in nn.TransformerEncoderLayer(norm_first=True) give the same states."""
    net = Transformer(13, 8, 2, 4, context=6).double()
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.5)
    tokens = torch.randint(13, (3, 6), generator=generator)
    x = net.tokens(tokens) + net.positions
    hidden = nn.Transformer.generate_square_subsequent_mask(6, dtype=torch.float64)
    for block in net.blocks:
        layer = nn.TransformerEncoderLayer(
            8, 4, 32, 0.0, "gelu", batch_first=True, norm_first=True, dtype=torch.float64
        )
        pairs = {
            "self_attn.in_proj_": block.query_key_value,
            "self_attn.out_proj.": block.out,
            "linear1.": block.up,
            "linear2.": block.down,
            "norm1.": block.norm_1,
            "norm2.": block.norm_2,
        }
        names = {
            f"{name}{part}": getattr(module, part)
            for name, module in pairs.items()
            for part in ("weight", "bias")
        }
        layer.load_state_dict(names)
        x = layer(x, src_mask=hidden)
    close(net(tokens).detach(), net.norm(x).detach(), 1e-10)


@pytest.mark.parametrize(
    ("net", "sees_later"),
    [
        (lambda: Transformer(9, 8, 2, 2, 6), False),
        (lambda: Transformer(9, 8, 2, 2, 6, causal=False), True),
        (lambda: LSTM(9, 8, layers=2), False),
    ],
)
def test_language_models_see_only_what_came_before(
    generator: torch.Generator, net: Callable[[], nn.Module], sees_later: bool
) -> None:
    f = net()
    tokens = torch.randint(9, (4, 6), generator=generator)
    other = tokens.clone()
    other[:, 3] = (tokens[:, 3] + 1) % 9
    change = (f(tokens) - f(other)).detach().abs().amax((0, 2))
    assert f(tokens).shape == (4, 6, 8)
    assert (change[:3].max() > 1e-4) == sees_later
    assert change[3:].min() > 1e-6


def test_transformer_states_come_after_the_norm(generator: torch.Generator) -> None:
    states = Transformer(9, 16, 1, 2, 5)(torch.randint(9, (4, 5), generator=generator)).detach()
    close(states.mean(-1), np.zeros((4, 5)), 1e-5)
    close(states.square().mean(-1), np.ones((4, 5)), 0.1)


def test_resnet_of_width_64_is_the_usual_resnet_18() -> None:
    """11,173,962 parameters: the count that the CIFAR-10 ResNet-18 is known by (10 outputs)."""
    net = ResNet(64, 10, norm="batch")
    assert sum(parameter.numel() for parameter in net.parameters()) == 11_173_962


def test_resnet(generator: torch.Generator) -> None:
    net, images = ResNet(4, 3, (1, 2, 1)), torch.randn(6, 3, 32, 32, generator=generator)
    assert net(images).shape == (6, 3)
    assert net.stages(images).shape == (6, 16, 8, 8)
    # Group norm: an image does not depend on the others, and there is no state.
    close(net(images[:2]).detach(), net(images)[:2].detach(), 1e-5)
    assert not list(net.buffers())
    other = ResNet(4, 3, (1,), norm="batch")
    assert list(other.buffers())
    assert (other(images[:2]) - other(images)[:2]).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MLP([3]), "at least an input and an output"),
        (lambda: MLP([3, 2], "sine"), "'sine'; choose one of relu"),
        (lambda: MLP([3, 2], init="glorot"), "'glorot'; choose torch or he"),
        (lambda: ResNet(4, 2, norm="layer"), "'layer' here; choose group or batch"),
        (lambda: Transformer(9, 10, 1, 4, 8), "10 cannot be split into 4 heads"),
        (lambda: Transformer(9, 8, 1, 2, 4)(torch.zeros(1, 5).long()), "5 tokens.*context of 4"),
        (lambda: shuffled((torch.zeros(4), torch.zeros(5)), 2), r"one length; these have \[4, 5\]"),
        (lambda: shuffled((torch.zeros(4),), 5), "5 rows cannot be drawn from 4"),
        (lambda: fresh(lambda n, _: (torch.zeros(n),), 0), "at least one row, not 0"),
    ],
)
def test_wrong_parts(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


# Objectives


def numbers(net: SoftmaxNet, x: Tensor, y: Tensor | None = None) -> tuple[np.ndarray, ...]:
    """f and g as float64 rows."""
    with torch.no_grad():
        f, g = net.f(x), net.g() if y is None else net.g(y)
    return f.flatten(0, -2).double().numpy(), g.detach().double().numpy()


@pytest.mark.parametrize("bias", [None, 7])
def test_supervised_is_the_models_likelihood(generator: torch.Generator, bias: int | None) -> None:
    net = SoftmaxNet(MLP([5, 8, 3]), Lookup(7, 3), bias)
    if net.bias is not None:
        nn.init.normal_(net.bias)
    x, y = data(40)
    f, g = numbers(net, x)
    b = None if net.bias is None else net.bias.detach().numpy()
    table = log_softmax(f @ g.T + (0 if b is None else b), axis=1)
    expected = -table[np.arange(40), y].mean()
    close(supervised(net, x, y).item(), expected, 1e-5)
    close(SoftmaxModel(f, g, b).log_prob(), table, 1e-10)
    # Without a label a row does not count.
    y[10:] = -100
    close(supervised(net, x, y).item(), -table[np.arange(10), y[:10]].mean(), 1e-5)


def test_infonce_has_the_batch_as_candidates(generator: torch.Generator) -> None:
    net = SoftmaxNet(MLP([5, 8, 3]), MLP([4, 8, 3]))
    x = torch.randn(12, 5, generator=generator)
    y = torch.randn(12, 4, generator=generator)
    f, g = numbers(net, x, y)
    each_its_set = np.array([np.roll(np.arange(12), -i) for i in range(12)])
    model = SoftmaxModel(f, g, candidates=each_its_set)
    close(infonce(net, x, y).item(), -model.log_prob()[:, 0].mean(), 1e-5)
    assert OBJECTIVES["cpc"] is OBJECTIVES["quickthought"] is infonce


def test_npair_has_one_tower(generator: torch.Generator) -> None:
    tower = MLP([5, 8, 3])
    net = SoftmaxNet(tower)
    x, y = torch.randn(2, 12, 5, generator=generator)
    assert net.g is net.f
    assert npair(net, x, y) == infonce(net, x, y) == npair(SoftmaxNet(tower, MLP([5, 3])), x, y)
    f, g = numbers(net, x, y)
    z = f @ g.T
    # Sohn 2016: log(1 + Σ_{j≠i} exp(z_ij − z_ii)).
    expected = np.log1p(np.exp(z - np.diag(z)[:, None]).sum(1) - 1).mean()
    close(npair(net, x, y).item(), expected, 1e-5)


def test_language_models_predict_the_vocabulary(generator: torch.Generator) -> None:
    f = Transformer(11, 8, 1, 2, 6)
    net = SoftmaxNet(f, f.tokens)
    tokens = torch.randint(11, (3, 7), generator=generator)
    with torch.no_grad():
        states, table = net.f(tokens[:, :-1]).numpy(), f.tokens.weight.numpy()
    logs = log_softmax(np.einsum("btm,km->btk", states, table).astype(float), axis=2)
    right = tokens[:, 1:].numpy()
    chosen = np.take_along_axis(logs, right[..., None], 2)
    close(autoregressive(net, tokens).item(), -chosen.mean(), 1e-5)
    # Masked: only where there is a target; a batch without any has no loss.
    targets = torch.full((3, 6), -100)
    targets[0, 2], targets[2, 5] = 4, 9
    expected = -(logs[0, 2, 4] + logs[2, 5, 9]) / 2
    close(masked(net, tokens[:, :-1], targets).item(), expected, 1e-5)
    assert masked(net, tokens[:, :-1], torch.full((3, 6), -100)) == 0


def test_noise_objectives_are_their_formulas(generator: torch.Generator) -> None:
    net = SoftmaxNet(LogBilinear(9, 4, 2), Lookup(9, 4), bias=9)
    nn.init.normal_(net.bias)
    h = torch.randint(9, (6, 2), generator=generator)
    w = torch.randint(9, (6,), generator=generator)
    noise = torch.randint(9, (6, 5), generator=generator)
    pmf = torch.rand(9, generator=generator).softmax(0)
    f, g = numbers(net, h)
    s = f @ g.T + net.bias.detach().double().numpy()
    rows, k = np.arange(6), 5
    right, wrong = s[rows, w], s[rows[:, None], noise]
    expected = -(log_expit(right) + log_expit(-wrong).mean(1)).mean()
    close(negative_sampling(net, h, w, noise).item(), expected, 1e-5)
    shift = np.log(k * pmf.double().numpy())
    up, down = right - shift[w], wrong - shift[noise]
    expected = -(log_expit(up) + log_expit(-down).sum(1)).mean()
    close(nce(net, h, w, noise, pmf.log()).item(), expected, 1e-5)
    assert nplm(net, h, w) == supervised(net, h, w)


COUNTS = torch.tensor([[4, 2, 1, 1], [1, 1, 5, 1], [2, 2, 2, 2]])


def noise_batch(_step: int, _seed: int) -> tuple[Tensor, ...]:
    """Every word as often as it is likely in its context, beside each noise word once."""
    context = torch.arange(3).repeat_interleave(8).unsqueeze(1)
    word = torch.cat([torch.arange(4).repeat_interleave(row) for row in COUNTS])
    return context, word, torch.arange(4).expand(24, 4)


def tabular() -> SoftmaxNet:
    return SoftmaxNet(LogBilinear(3, 4, 1), Lookup(4, 4))


@pytest.mark.parametrize(
    ("objective", "shift"),
    [
        (partial(nce, log_noise=torch.full((4,), math.log(1 / 4))), 0.0),
        (negative_sampling, math.log(1 / 4)),
    ],
)
def test_noise_objectives_end_at_the_log_density_ratio(objective: Any, shift: float) -> None:
    """NCE at log p(w|h), negative sampling at log p(w|h) − log p_noise(w), uniform noise here."""
    run = train(tabular, objective, noise_batch, 800, seeds=range(2), lr=0.02)
    expected = np.log(COUNTS.numpy() / 8) - shift
    for seed in run.seeds:
        model = run.model(seed, torch.arange(3).unsqueeze(1))
        close(model.logits(), expected, 2e-3)


# Batches


def test_an_epoch_has_every_row_once() -> None:
    rows = torch.arange(10)
    batches = shuffled((rows, rows * 2), 3)
    for epoch in (0, 1):
        parts = [batches(3 * epoch + i, 5) for i in range(3)]
        assert all(torch.equal(2 * x, y) for x, y in parts)
        seen = torch.cat([x for x, _ in parts]).tolist()
        assert len(set(seen)) == len(seen) == 9
    assert not torch.equal(batches(0, 5)[0], batches(0, 6)[0])
    assert not torch.equal(batches(0, 5)[0], batches(3, 5)[0])


def jitter(batch: tuple[Tensor, ...], generator: torch.Generator) -> tuple[Tensor, ...]:
    return (batch[0] + torch.randn(batch[0].shape, generator=generator), *batch[1:])


def normal(rows: int, rng: np.random.Generator) -> tuple[Tensor, ...]:
    x = torch.from_numpy(rng.normal(size=(rows, 5)).astype(np.float32))
    return x, x[:, :3].argmax(1)


@pytest.mark.parametrize(
    "make", [lambda: shuffled(data(50), 8, jitter), lambda: fresh(normal, 8)], ids=["set", "fresh"]
)
def test_batches_depend_on_step_and_seed_alone(make: Callable[[], Any]) -> None:
    batches, wanted = make(), [(40, 1), (3, 0), (17, 1), (3, 1), (40, 1), (0, 0)]
    seen = {at: batches(*at)[0].clone() for at in wanted}
    sent = pickle.loads(pickle.dumps(batches))
    for at in sorted(wanted, reverse=True):
        for other in (make(), sent, batches):
            assert torch.equal(other(*at)[0], seen[at])
    distinct = {tuple(x.flatten().tolist()) for x in seen.values()}
    assert len(distinct) == 5


def test_fresh_rows_are_never_seen_again() -> None:
    batches = fresh(normal, 4)
    rows = torch.cat([batches(step, seed)[0] for step in range(40) for seed in range(3)])
    assert len(rows.unique(dim=0)) == 40 * 3 * 4


# Training


EARLY = {"validate_every": 5, "patience": 2, "lr": 0.03}


@pytest.mark.parametrize("data_seed", [None, 3])
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize(("dtype", "tol"), [(torch.float64, 1e-9), (torch.float32, 2e-4)])
def test_together_is_one_by_one(
    dtype: torch.dtype, tol: float, early: bool, data_seed: int | None
) -> None:
    x, y = data()
    x = x.to(dtype)
    batches, held_out = shuffled((x[:64], y[:64]), 32), (x[300:], y[300:])
    call = partial(
        train,
        partial(classifier, dtype),
        supervised,
        batches,
        120,
        seeds=(4, 0, 7),
        data_seed=data_seed,
        snapshots=(0, 1, 35, 90),
        validation=held_out,
        **(EARLY if early else {}),
    )
    a, b = call(together=True), call(together=False)
    assert a.snapshots == b.snapshots == (0, 1, 35, 90, 120)
    close(a.history.to_numpy()[:, :2], b.history.to_numpy()[:, :2], 0)
    assert np.allclose(a.history, b.history, atol=tol, equal_nan=True)
    assert gap(a, b) < tol
    ends = a.history.groupby("seed").step.max()
    # The comparison is of seeds that stop at different steps, and of some that go to the end.
    assert (ends.nunique() > 1) == early
    # Weights that started apart, and learned.
    for weights in (a.weights[0], a.weights[120]):
        assert (weights["f.layers.0.weight"][0] - weights["f.layers.0.weight"][1]).abs().max() > 0.1
    assert a.history[a.history.step == ends.min()].loss.max() < a.history.loss.iloc[0]


@pytest.mark.parametrize(
    ("build", "objective", "batch"),
    [
        (lambda: SoftmaxNet(MLP([5, 8, 3]), MLP([4, 8, 3], last_bias=False)), infonce, "pairs"),
        (lambda: SoftmaxNet(MLP([5, 8, 3])), npair, "same"),
        (lambda: tied(), autoregressive, "tokens"),
        (lambda: tied(), masked, "masked"),
        (lambda: SoftmaxNet(LogBilinear(11, 3, 2), Lookup(11, 3), 11), nplm, "words"),
        (lambda: tied_words(), nplm, "words"),
        (lambda: SoftmaxNet(LogBilinear(11, 3, 2), Lookup(11, 3), 11), negative_sampling, "noise"),
        (
            lambda: SoftmaxNet(LogBilinear(11, 3, 2, True), Lookup(11, 3), 11),
            partial(nce, log_noise=torch.full((11,), -math.log(11.0))),
            "noise",
        ),
        (lambda: SoftmaxNet(ResNet(4, 2, (1, 1)), Lookup(3, 2)), supervised, "images"),
    ],
)
def test_every_member_can_be_stacked(
    build: Callable[[], SoftmaxNet], objective: Any, batch: str
) -> None:
    """And gives what it gives alone, as log-probabilities: the gauge is free in some of these."""
    some = torch.Generator().manual_seed(0)
    words = torch.randint(11, (60, 8), generator=some)
    x = torch.randn(60, 5, generator=some, dtype=torch.float64)
    tensors = {
        "pairs": (x, x[:, :4] ** 2),
        "same": (x, x + 0.1),
        "tokens": (words,),
        "masked": (words, torch.where(words < 3, words, -100)),
        "words": (words[:, :2], words[:, 2]),
        "noise": (words[:, :2], words[:, 2], words[:, 3:]),
        "images": (x.repeat(1, 60).reshape(60, 3, 10, 10)[:12], words[:12, 0] % 3),
    }[batch]
    call = partial(
        train, lambda: build().double(), objective, shuffled(tensors, 6), 5, seeds=range(3)
    )
    a, b = call(together=True), call(together=False)
    assert np.allclose(a.history.loss, b.history.loss, rtol=1e-9)
    assert a.weights[5].keys() == dict(build().named_parameters()).keys()
    with torch.no_grad():
        for seed in a.seeds:
            close(objective(a.net(seed), *tensors), objective(b.net(seed), *tensors), 1e-9)


def tied() -> SoftmaxNet:
    f = Transformer(11, 8, 1, 2, 8)
    return SoftmaxNet(f, f.tokens)


def tied_words() -> SoftmaxNet:
    net = SoftmaxNet(LogBilinear(11, 3, 2), Lookup(11, 3))
    net.g.weight = net.f.words.weight
    return net


def test_one_step_is_adams_first(generator: torch.Generator) -> None:
    """The first step of Adam is lr · sign(gradient), after the decay of the weights."""
    x, y = data(64)
    batches = shuffled((x, y), 64)
    run = train(biased, supervised, batches, 1, lr=1e-3, weight_decay=0.1, snapshots=(0,))
    net = run.net(0, step=0).requires_grad_(True)
    supervised(net, *batches(0, 0)).backward()
    for name, parameter in net.named_parameters():
        clear = parameter.grad.abs() > 1e-4
        expected = (parameter * (1 - 1e-4) - 1e-3 * parameter.grad.sign()).detach()
        assert clear.any()
        assert (run.weights[1][name][0] - expected)[clear].abs().max() < 1e-6


def test_seeds_of_initialisation_and_data_are_apart() -> None:
    batches = shuffled(data(), 32)
    call = partial(train, biased, supervised, batches, 10, snapshots=(0,), together=False)
    both, one = call(seeds=(0, 1)), call(seeds=(1,))
    # A seed is the same in any company, and the same again.
    assert torch.equal(
        both.weights[10]["f.layers.0.weight"][1], one.weights[10]["f.layers.0.weight"][0]
    )
    same(both, call(seeds=(0, 1)))
    other = call(seeds=(1,), data_seed=0)
    assert torch.equal(one.weights[0]["f.layers.0.weight"], other.weights[0]["f.layers.0.weight"])
    assert not torch.equal(
        one.weights[10]["f.layers.0.weight"], other.weights[10]["f.layers.0.weight"]
    )
    same(other, call(seeds=(1,), data_seed=0))


@pytest.mark.parametrize("together", [True, False])
def test_generators_and_threads_are_left_alone(
    together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_num_threads(2)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    threads = set()

    def noted(net: SoftmaxNet, *batch: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            threads.add(torch.get_num_threads())
        return supervised(net, *batch)

    call = partial(train, biased, noted, shuffled(data(), 32), 3, seeds=range(2), together=together)
    call().net(1)
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == 2
    assert 1 in threads
    # Large networks keep the threads that they are given.
    threads.clear()
    monkeypatch.setattr(_units, "LARGE", 0)
    call()
    assert threads == {2}


@pytest.mark.parametrize("together", [True, False])
def test_early_stopping_keeps_the_best(together: bool) -> None:
    x, y = data()
    held_out = (x[300:], y[300:])
    run = train(
        classifier,
        supervised,
        shuffled((x[:64], y[:64]), 32),
        400,
        seeds=range(4),
        lr=0.03,
        validation=held_out,
        validate_every=10,
        patience=3,
        snapshots=(200,),
        together=together,
    )
    for seed, lines in run.history.groupby("seed"):
        looks = lines[lines.validation.notna()]
        best = looks.validation.to_numpy().argmin()
        # Three looks after the best one it stopped.
        assert len(looks) == best + 4
        with torch.no_grad():
            # Whole pieces of a batch's size.
            pieces = [tuple(t[at : at + 32] for t in held_out) for at in range(0, 192, 32)]
            net = run.net(seed)
            losses = [supervised(net, *piece).item() for piece in pieces]
        close(np.mean(losses), looks.validation.min(), 1e-6)
        if looks.step.max() < 200:
            assert torch.equal(run.net(seed, 200).f.layers[0].weight, net.f.layers[0].weight)
    assert run.history.groupby("seed").step.max().nunique() > 1


def test_history_is_the_mean_since_the_line_before() -> None:
    batches = shuffled(data(), 32)
    every = train(biased, supervised, batches, 150)
    assert every.history.step.tolist() == list(range(1, 151))
    some = train(biased, supervised, batches, 400).history
    assert some.step.tolist() == list(range(2, 401, 2))
    close(some.loss[:75], every.history.loss.to_numpy().reshape(75, 2).mean(1), 1e-6)
    assert some.validation.isna().all()
    # Looks at held-out data have a line of their own; without more words, there is one at the end.
    looked = train(biased, supervised, batches, 400, validation=data(), validate_every=7).history
    assert looked[looked.validation.notna()].step.tolist() == [*range(7, 400, 7), 400]
    once = train(biased, supervised, batches, 4, validation=data()).history
    assert once.validation.notna().tolist() == [False, False, False, True]


@pytest.mark.parametrize("together", [True, False])
def test_progress_goes_to_the_end(together: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_units, "REPORT", 0.0)
    told: list[tuple[str, int, int]] = []
    train(
        biased,
        supervised,
        shuffled(data(), 32),
        5,
        seeds=range(3),
        together=together,
        progress=lambda *what: told.append(what),
    )
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert told[-1][1:] == (15, 15)
    assert all(of == 15 and what.startswith("training, loss ") for what, _, of in told)


def test_what_is_random_in_a_network_follows_the_seed() -> None:
    call = partial(train, with_dropout, supervised, shuffled(data(), 32), 8, data_seed=0)
    a, b = call(seeds=(1, 2)), call(seeds=(2,))
    assert torch.equal(
        a.weights[8]["f.2.layers.0.weight"][1], b.weights[8]["f.2.layers.0.weight"][0]
    )
    x = data()[0]
    # As a network it is in eval mode: nothing is random.
    assert np.array_equal(a.embed(x)["seed 1"], a.embed(x)["seed 1"])


def frozen() -> SoftmaxNet:
    net = biased()
    net.f.layers[0].requires_grad_(False)
    return net


@pytest.mark.parametrize("together", [True, False])
def test_what_is_frozen_stays(together: bool) -> None:
    batches = shuffled(data(), 32)
    call = partial(train, frozen, supervised, batches, 9, seeds=range(3), together=together)
    run = call(snapshots=(0,), weight_decay=0.1)
    for name, first in run.weights[0].items():
        assert torch.equal(first, run.weights[9][name]) == name.startswith("f.layers.0."), name


def test_running_averages_are_weights_too() -> None:
    run = train(with_batch_norm, supervised, shuffled(data(), 32), 8, seeds=range(2))
    net = run.net(1)
    assert net.f[1].num_batches_tracked == 8
    assert net.f[1].running_mean.abs().max() > 0.01


def test_what_stacks_by_itself(tmp_path_factory: pytest.TempPathFactory) -> None:
    def choice(build: Callable[[], SoftmaxNet], batches: Any, objective: Any = supervised) -> bool:
        folder = tmp_path_factory.mktemp("run")
        train(build, objective, batches, 1, seeds=range(2), folder=folder)
        return (folder / "stack.safetensors").exists()

    x, y = data()
    assert choice(classifier, shuffled((x, y), 32))
    assert not choice(with_dropout, shuffled((x, y), 32))
    assert not choice(counting, shuffled((x, y), 32))
    assert choice(with_batch_norm, shuffled((x, y), 32))
    tokens = shuffled((torch.randint(11, (20, 9)),), 4)
    assert not choice(recurrent, tokens, autoregressive)
    # A weight, or something in between, that is large by itself.
    wide = partial(SoftmaxNet, MLP([5, 2**16]), Lookup(7, 2**16))
    assert not choice(wide, shuffled((x, y), 32))
    assert choice(partial(SoftmaxNet, MLP([5, 100]), Lookup(7, 100)), shuffled((x, y), 32))
    assert not choice(partial(SoftmaxNet, MLP([5, 200]), Lookup(7, 200)), shuffled((x, y), 512))


# What a run gives


def test_a_run_gives_views_and_models() -> None:
    run = train(biased, supervised, shuffled(data(), 32), 5, seeds=(2, 5), snapshots=(0,))
    x = data()[0][:20]
    net = run.net(5)
    assert not net.training
    assert not any(parameter.requires_grad for parameter in net.parameters())
    views, labels = run.embed(x), run.unembed()
    assert list(views) == list(labels) == ["seed 2", "seed 5"]
    assert views["seed 5"].dtype == labels["seed 5"].dtype == np.float32
    close(views["seed 5"], net.f(x), 1e-6)
    close(run.unembed(torch.tensor([3]))["seed 2"], labels["seed 2"][3:4], 0)
    assert not np.array_equal(run.embed(x, step=0)["seed 5"], views["seed 5"])
    model = run.model(5, x)
    logits = net.f(x) @ net.g().T + net.bias
    close(model.log_prob(), logits.log_softmax(1), 1e-5)
    assert model.name == "seed 5"
    some = run.model(5, x, torch.tensor([6, 1]))
    close(some.log_prob(), logits[:, [6, 1]].log_softmax(1), 1e-5)
    pairs = train(lambda: SoftmaxNet(MLP([5, 3])), npair, lambda *_: (x, x + 1), 1)
    assert pairs.unembed(x)["seed 0"].shape == (20, 3)
    with pytest.raises(InputError, match="g is a MLP, which has no set of labels"):
        pairs.model(0, x)
    with pytest.raises(InputError, match=r"no seed 3 in this run; it has \[2, 5\]"):
        run.net(3)
    with pytest.raises(InputError, match=r"at step 4; there are snapshots at \[0, 5\]"):
        run.embed(x, step=4)


def test_positions_of_sequences_are_rows() -> None:
    tokens = torch.randint(11, (9, 8), generator=torch.Generator().manual_seed(0))
    run = train(tied, autoregressive, shuffled((tokens,), 3), 2)
    whole = run.embed(tokens)["seed 0"]
    assert whole.shape == (72, 8)
    close(whole[8:16], run.net(0).f(tokens[1:2])[0], 1e-6)


def test_many_entries_go_through_a_network_in_pieces() -> None:
    sizes = []

    class Ends(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            sizes.append(len(x))
            return x[:, -2:]

    data = torch.arange(3 * 2**19, dtype=torch.float32).reshape(3, -1)
    close(rows(Ends(), data), data[:, -2:].numpy(), 0.0)
    assert sizes == [2, 1]


# Wrong calls


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": []}, "at least one seed"),
        ({"seeds": (1, 1)}, r"different numbers from 0 on, not \[1, 1\]"),
        ({"seeds": (-1, 1)}, "different numbers from 0 on"),
        ({"steps": 0}, "at least one step, not 0"),
        ({"lr": 0.0}, "learning rate is 0.0; it must be positive"),
        ({"lr": math.nan}, "learning rate is nan"),
        ({"snapshots": (3, 11)}, "from 0 to the last, 10; these go from 3 to 11"),
        ({"snapshots": (-1,)}, "these go from -1 to 10"),
        ({"patience": 2}, "early stopping needs"),
        ({"patience": 2, "validation": data()}, "early stopping needs"),
        ({"patience": 0, "validation": data(), "validate_every": 1}, "early stopping needs"),
        ({"validation": data()[:1]}, r"have shapes \[\(512, 5\)\], but a batch has \[\(32, 5\)"),
        ({"validation": (data()[0][:, :4], data()[1])}, r"shapes \[\(512, 4\), \(512,\)\]"),
        ({"validation": (data()[0], data()[1][:9])}, r"shapes \[\(512, 5\), \(9,\)\]"),
        ({"validation": (data()[0][:0], data()[1][:0])}, r"shapes \[\(0, 5\), \(0,\)\]"),
        ({"build": lambda: MLP([5, 2])}, r"must return a SoftmaxNet\(f, g\), but .* returned MLP"),
        ({"batches": lambda _step, _seed: data()[0]}, "a tuple of tensors, not a Tensor"),
        ({"batches": lambda _step, _seed: (1, 2)}, "a tuple of tensors"),
        ({"objective": lambda *_: 3.0}, "a tensor of one number, not float"),
        ({"objective": lambda net, x, _: net.f(x)}, r"a tensor of one number, not \(32, 3\)"),
        (
            {"build": counting, "together": True, "seeds": (0, 1)},
            "cannot be trained as one stack: the buffer 'calls' is replaced",
        ),
        (
            {"build": with_dropout, "together": True, "seeds": (0, 1)},
            "cannot be trained as one stack: vmap: called random operation",
        ),
    ],
)
def test_wrong_calls(changes: dict[str, Any], message: str) -> None:
    right = {
        "build": biased,
        "objective": supervised,
        "batches": shuffled(data(), 32),
        "steps": 10,
    }
    assert train(**right).steps == 10
    with pytest.raises(InputError, match=message):
        train(**{**right, **changes})


@pytest.mark.parametrize("together", [True, False])
def test_a_loss_that_explodes_is_said(together: bool) -> None:
    def explosive(net: SoftmaxNet, x: Tensor, y: Tensor) -> Tensor:
        return supervised(net, x, y) * torch.where(x[0, 0] < -5, torch.nan, 1.0)

    def batches(step: int, seed: int) -> tuple[Tensor, ...]:
        x, y = data(8)
        x[0, 0] = -9.0 if (step, seed) == (417, 6) else 0.0
        return x, y

    # A line of the history is the mean of several steps; the step that is named is the first bad.
    with pytest.raises(InputError, match=r"the loss of seed 6 is nan at step 417; .* lr=0.001"):
        train(biased, explosive, batches, 1000, seeds=(5, 6), together=together)


def test_a_validation_loss_that_explodes_is_said() -> None:
    x, y = data()
    x[3, 2] = torch.inf
    batches = shuffled(data(), 32)
    with pytest.raises(InputError, match="the validation loss of seed 0 is nan at step 5"):
        train(biased, supervised, batches, 10, validation=(x, y), validate_every=5)


def test_without_torch_the_pip_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib
    import sys

    from identikit import learn
    from identikit.errors import MissingExtraError

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"learning needs torch.*identikit\[torch\]"):
        importlib.reload(learn)
