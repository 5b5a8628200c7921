"""Weight Reinitialization and Weight Shuffling of Reizinger and Gyires-Tóth 2019, by derivation.

The operations, their use in `learn.train`, and SGD with Nesterov momentum, which the paper uses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import identikit as ik
from conftest import close
from identikit.errors import InputError

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from identikit.learn import (  # noqa: E402
    MLP,
    Lookup,
    Run,
    SoftmaxNet,
    shuffled,
    supervised,
    train,
    weight_entropy,
    weight_reinitialization,
    weight_shuffling,
)
from identikit.learn._batches import mix  # noqa: E402
from learning import one_thread  # noqa: E402, F401

BOTH = (weight_reinitialization, weight_shuffling)
SEEDS = st.integers(0, 2**32)
SHARES = st.floats(0, 1)
SIZES = st.integers(1, 12)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def holder(*shape: int) -> nn.Module:
    """A module whose only parameter is a weight of all different numbers, from 1 on."""
    module = nn.Module()
    count = int(np.prod(shape))
    module.weight = nn.Parameter(torch.arange(1.0, count + 1).view(shape))
    return module


def kicked(module: nn.Module, kick: Any, seed: int) -> tuple[Tensor, Tensor]:
    """The weight before and after."""
    before = module.weight.detach().clone()
    kick(module, seeded(seed))
    return before, module.weight.detach()


def span(mask: Tensor, dim: int) -> int:
    """How many places there are from the first to the last row, or column, with a True."""
    found = mask.any(1 - dim).nonzero().flatten()
    return int(found[-1] - found[0]) + 1 if len(found) else 0


# Weight Shuffling


@given(rows=SIZES, columns=SIZES, p=SHARES, coverage=SHARES, seed=SEEDS)
def test_shuffling_permutes_one_window(
    rows: int, columns: int, p: float, coverage: float, seed: int
) -> None:
    before, after = kicked(holder(rows, columns), weight_shuffling(p, coverage), seed)
    assert torch.equal(after.flatten().sort().values, before.flatten())
    moved = (after != before).flatten()[None]
    assert span(moved, 1) <= max(2, int(coverage * rows * columns)) - 1
    assert weight_entropy(after) == weight_entropy(before)


@given(out=st.integers(1, 4), inputs=st.integers(1, 3), side=st.integers(1, 4), seed=SEEDS)
def test_kernels_are_shuffled_each_by_itself(out: int, inputs: int, side: int, seed: int) -> None:
    module = holder(out, inputs, side, side)
    before, after = kicked(module, weight_shuffling(1.0, 1.0), seed)
    assert torch.equal(after.flatten(2).sort().values, before.flatten(2))


def test_each_kernel_has_a_chance_of_its_own() -> None:
    """1,000 kernels with p = .3: the number that moves is binomial, but for trivial windows."""
    module = holder(40, 25, 5, 5)
    before, after = kicked(module, weight_shuffling(0.3, 1.0), 0)
    count = int((after != before).flatten(2).any(-1).sum())
    assert 220 < count < 340
    every = kicked(holder(40, 25, 5, 5), weight_shuffling(1.0, 1.0), 0)
    assert int((every[0] != every[1]).flatten(2).any(-1).sum()) > 850


def test_another_layout_of_memory_changes_nothing() -> None:
    one = nn.Conv2d(3, 4, 5)
    for operation in BOTH:
        conv = nn.Conv2d(3, 4, 5).to(memory_format=torch.channels_last)
        conv.load_state_dict(one.state_dict())
        assert not conv.weight.is_contiguous()
        _, laid_out = kicked(conv, operation(0.8, 0.6), 3)
        plain = nn.Conv2d(3, 4, 5)
        plain.load_state_dict(one.state_dict())
        before, after = kicked(plain, operation(0.8, 0.6), 3)
        assert torch.equal(laid_out, after)
        assert not torch.equal(before, after)


def test_small_kernels_need_a_coverage() -> None:
    """For 25 weights lengths are 1 to max(2, ⌊25 · coverage⌋) − 1: 1 below .12, then 1 or 2."""
    for seed in range(200):
        before, after = kicked(holder(5, 5), weight_shuffling(1.0, 0.1188), seed)
        assert torch.equal(before, after)
    moved = set()
    for seed in range(200):
        before, after = kicked(holder(5, 5), weight_shuffling(1.0, 0.12), seed)
        moved.add(int((before != after).sum()))
    assert moved == {0, 2}


def test_a_shuffle_is_uniform() -> None:
    """All 6 orders of a window of 3 come up equally often, and windows of 2 and 3 alike.

    A matrix of 1 × 4 with coverage 1: lengths 1 to 3 from 4 starts, cut at the end. Starts 0 and 1
    leave 3 where 3 were asked: 2/12 of all windows, and 1/6 of them in each order.
    """
    counts: dict[tuple[float, ...], int] = {}
    for seed in range(6000):
        _, after = kicked(holder(1, 4), weight_shuffling(1.0, 1.0), mix(seed, 7))
        key = tuple(after.flatten().tolist())
        counts[key] = counts.get(key, 0) + 1
    cycles = [(2, 3, 1, 4), (3, 1, 2, 4), (1, 3, 4, 2), (1, 4, 2, 3)]
    expected = 6000 / 12 / 6
    for cycle in cycles:
        assert abs(counts[cycle] - expected) < 4.5 * expected**0.5


# Weight Reinitialization


@given(rows=SIZES, columns=SIZES, p=SHARES, coverage=SHARES, seed=SEEDS)
def test_reinitialization_stays_in_one_rectangle(
    rows: int, columns: int, p: float, coverage: float, seed: int
) -> None:
    before, after = kicked(holder(rows, columns), weight_reinitialization(p, coverage), seed)
    new = after != before
    assert span(new, 0) <= max(2, int(coverage * rows))
    assert span(new, 1) <= max(2, int(coverage * columns))
    assert (after[new].abs() <= columns**-0.5 * (1 + 1e-6)).all()


@given(rows=SIZES, columns=SIZES, coverage=SHARES, seed=SEEDS)
def test_with_p_of_1_the_whole_rectangle_is_new_and_with_0_nothing(
    rows: int, columns: int, coverage: float, seed: int
) -> None:
    module = holder(rows, columns)
    with torch.no_grad():
        module.weight += 1  # so that no draw is equal to what it replaces
    before, after = kicked(module, weight_reinitialization(1.0, coverage), seed)
    new = after != before
    assert int(new.sum()) == span(new, 0) * span(new, 1) >= 1
    before, after = kicked(module, weight_reinitialization(0.0, coverage), seed)
    assert torch.equal(before, after)


def test_reinitialised_weights_are_binomial_and_uniform() -> None:
    """p times the area, within five standard deviations; the same seeds have the same areas."""
    area = count = 0
    values = []
    for seed in range(300):
        one = kicked(holder(20, 30), weight_reinitialization(1.0, 0.5), seed)
        area += int((one[0] != one[1]).sum())
        some = kicked(holder(20, 30), weight_reinitialization(0.3, 0.5), seed)
        new = some[0] != some[1]
        count += int(new.sum())
        values.append(some[1][new])
    assert abs(count - 0.3 * area) < 5 * (area * 0.3 * 0.7) ** 0.5
    drawn = torch.cat(values) * 30**0.5
    assert drawn.abs().max() <= 1
    assert abs(drawn.mean()) < 5 * (1 / 3 / len(drawn)) ** 0.5
    close(float(drawn.square().mean()), 1 / 3, 0.02)


def test_convolutions_have_their_fan_in_and_rectangles_of_channels() -> None:
    """Weights of (20, 10, 5, 5): 1/√250 = .063, not 1/√5 = .447; blocks of channels by coverage."""
    rows = columns = 0
    for seed in range(100):
        before, after = kicked(holder(20, 10, 5, 5), weight_reinitialization(1.0, 0.5), seed)
        new = after != before
        assert 0 < float(after[new].abs().max()) <= 250**-0.5 * (1 + 1e-6)
        kernels = new.flatten(2)
        assert torch.equal(kernels.any(-1), kernels.all(-1))
        rows = max(rows, span(kernels.all(-1), 0))
        columns = max(columns, span(kernels.all(-1), 1))
    assert (rows, columns) == (10, 5)


# Which weights


def test_the_chosen_gate_of_an_lstm_changes_and_all_of_its_rows_can() -> None:
    for place, gate in enumerate(("input", "forget", "cell", "output")):
        for operation in BOTH:
            ever = {name: torch.zeros(28, dtype=torch.bool) for name in ("ih", "hh")}
            for seed in range(150):
                lstm = nn.LSTM(5, 7)
                before = {name: t.detach().clone() for name, t in lstm.named_parameters()}
                operation(1.0, 0.9, gate=gate)(lstm, seeded(seed))
                for name, tensor in lstm.named_parameters():
                    changed = tensor.detach() != before[name]
                    if "bias" in name:
                        assert not changed.any()
                    else:
                        ever[name[7:9]] |= changed.any(1)
            for rows in ever.values():
                expected = torch.zeros(28, dtype=torch.bool)
                expected[7 * place : 7 * (place + 1)] = True
                assert torch.equal(rows, expected), gate


def test_without_a_gate_named_each_is_a_matrix_of_its_own() -> None:
    cell = nn.LSTMCell(4, 6)
    before = cell.weight_ih.detach().clone()
    weight_shuffling(1.0, 1.0)(cell, seeded(1))
    changed = cell.weight_ih.detach() != before
    for block, old, new in zip(changed.chunk(4), before.chunk(4), cell.weight_ih.chunk(4)):
        assert block.any()
        assert torch.equal(old.flatten().sort().values, new.detach().flatten().sort().values)


@pytest.mark.parametrize("operation", BOTH)
def test_only_matrices_called_weight_and_chosen_by_name(operation: Any) -> None:
    def build() -> nn.Module:
        torch.manual_seed(0)
        parts = (nn.Linear(6, 9), nn.BatchNorm1d(9), nn.ReLU(), nn.Linear(9, 4))
        return nn.Sequential(*parts)

    def changed(**options: Any) -> set[str]:
        net = build()
        before = {name: t.detach().clone() for name, t in net.named_parameters()}
        operation(1.0, 1.0, **options)(net, seeded(2))
        return {n for n, t in net.named_parameters() if not torch.equal(t.detach(), before[n])}

    assert changed() == {"0.weight", "3.weight"}
    assert changed(layers="3.") == {"3.weight"}
    assert changed(layers=["0.", "3.w"]) == {"0.weight", "3.weight"}
    # A buffer, a gradient, and the flag that asks for one stay.
    net = build()
    net(torch.randn(8, 6)).sum().backward()
    operation(1.0, 1.0)(net, seeded(2))
    assert net[0].weight.requires_grad
    assert net[0].weight.grad is not None


def test_the_same_generator_gives_the_same_kick() -> None:
    for operation in BOTH:
        (_, a), (_, b), (_, c) = (kicked(holder(9, 9), operation(1.0, 0.9), s) for s in (4, 4, 5))
        assert torch.equal(a, b)
        assert not torch.equal(a, c)


@pytest.mark.parametrize("operation", BOTH)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"p": -0.1}, "p is -0.1; it must be a number from 0 to 1"),
        ({"p": float("nan")}, "p is nan"),
        ({"coverage": 1.5}, "coverage is 1.5"),
        ({"gate": "update"}, "no gate 'update'; choose one of input, forget, cell, output"),
    ],
)
def test_wrong_settings(operation: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        operation(**{"p": 0.1, "coverage": 0.1, **changes})


@pytest.mark.parametrize("operation", BOTH)
def test_modules_without_such_a_weight(operation: Any) -> None:
    with pytest.raises(InputError, match=r"no weight of this BatchNorm1d .* its weights are: none"):
        operation(0.1, 0.1)(nn.BatchNorm1d(3), seeded(0))
    net = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(InputError, match=r"begins with '1\.'; its weights are: 0\.weight"):
        operation(0.1, 0.1, layers=["0.", "1."])(net, seeded(0))
    with pytest.raises(InputError, match="no LSTM with a cell gate among the chosen weights"):
        operation(0.1, 0.1, gate="cell")(nn.GRU(2, 2), seeded(0))


# Entropy


def test_entropies_by_hand() -> None:
    assert weight_entropy(torch.full((50, 3), 2.5)) == 0
    # 20 · 8 numbers in a row have 8 bins of 20; 60 have the least number of bins, 5, of 12.
    close(weight_entropy(torch.arange(160.0)), 3.0, 1e-12)
    close(weight_entropy(torch.arange(60.0)), np.log2(5), 1e-12)
    # Two values, one three times as often.
    close(weight_entropy(torch.tensor([0.0, 1, 1, 1])), 2 - 0.75 * np.log2(3), 1e-12)
    # One of 200,000 is a share of 5e-6, which does not count.
    rare = torch.zeros(200_000)
    rare[0] = 1
    assert weight_entropy(rare) == abs(0.999995 * np.log2(0.999995))
    close(weight_entropy(torch.arange(10.0)), np.log2(5), 1e-12)
    shares = np.histogram(np.arange(48 * 64), 153)[0] / (48 * 64)
    close(weight_entropy(torch.arange(48.0 * 64)), -shares @ np.log2(shares), 1e-12)


def test_the_entropy_of_a_module_is_the_sum_over_its_weights() -> None:
    net = nn.Sequential(nn.Linear(8, 40), nn.BatchNorm1d(40), nn.Linear(40, 5))
    expected = weight_entropy(net[0].weight) + weight_entropy(net[2].weight)
    close(weight_entropy(net), expected, 1e-12)
    with pytest.raises(InputError, match="no weight of this ReLU"):
        weight_entropy(nn.ReLU())
    for bad, message in (([], "got 0 weights"), ([1.0, np.nan], "1 of them not finite")):
        with pytest.raises(InputError, match=message):
            weight_entropy(torch.tensor(bad))


@given(scale=st.sampled_from([-2.0, 0.5, 4.0]), shift=st.integers(-8, 8), seed=SEEDS)
def test_entropy_knows_neither_scale_nor_order(scale: float, shift: int, seed: int) -> None:
    values = torch.randn(300, generator=seeded(seed), dtype=torch.float64)
    changed = scale * values[torch.randperm(300, generator=seeded(seed))] + shift
    close(weight_entropy(changed), weight_entropy(values), 1e-12)


# A symmetry, for comparison: whole units


def test_permuting_whole_units_changes_weights_and_not_the_function(seed: int) -> None:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 4)).double()
    x = torch.randn(400, 6, dtype=torch.float64)
    with torch.no_grad():
        out, features, weight = net(x), net[:2](x), net[0].weight.clone()
        order = torch.randperm(12)
        net[0].weight.copy_(net[0].weight[order])
        net[0].bias.copy_(net[0].bias[order])
        net[2].weight.copy_(net[2].weight[:, order])
        close(net(x), out, 1e-12)
        assert not torch.equal(net[0].weight, weight)
        verdict = ik.audit([features.numpy(), net[:2](x).numpy()]).verdict
        assert verdict.group == "permutation"
        assert verdict.error < 1e-6
        # Shuffling inside a matrix is none.
        weight_shuffling(1.0, 1.0, layers="0.")(net, seeded(seed))
        assert (net(x) - out).abs().max() > 0.1


# In a training


def data() -> tuple[Tensor, Tensor]:
    some = seeded(3)
    x = torch.randn(256, 5, generator=some, dtype=torch.float64)
    return x, (x @ torch.randn(5, 7, generator=some, dtype=torch.float64)).argmax(1)


def build() -> SoftmaxNet:
    return SoftmaxNet(MLP([5, 8, 3]), Lookup(7, 3)).double()


def fitted(steps: int = 60, seeds: Any = range(3), **options: Any) -> Run:
    return train(build, supervised, shuffled(data(), 32), steps, seeds=seeds, lr=0.02, **options)


def gap(a: Run, b: Run, step: int | None = None) -> float:
    one, other = (run.weights[run.steps if step is None else step] for run in (a, b))
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def scaled(module: nn.Module, generator: torch.Generator) -> None:
    """A plain function is a perturbation too."""
    for weight in module.parameters():
        weight.mul_(1 + 0.01 * torch.rand((), generator=generator, dtype=weight.dtype))


KICKS = {
    "reinitialization": weight_reinitialization(0.3, 0.5),
    "shuffling": weight_shuffling(0.3, 0.5, layers="f."),
    "function": scaled,
}


@pytest.mark.parametrize("kick", KICKS.values(), ids=KICKS)
def test_a_stack_is_kicked_as_its_seeds_one_by_one(kick: Any) -> None:
    stack = fitted(after_step=kick, together=True)
    alone = fitted(after_step=kick, together=False)
    assert gap(stack, alone) < 1e-9
    assert gap(stack, fitted(together=True)) > 1e-3
    one = fitted(seeds=[2], after_step=kick)
    close(one.weights[60]["g.weight"][0], stack.weights[60]["g.weight"][2], 1e-9)


@pytest.mark.parametrize("operation", BOTH)
def test_with_p_of_0_training_is_what_it_was(operation: Any) -> None:
    assert gap(fitted(after_step=operation(0.0, 0.5)), fitted()) == 0
    # A window of a single weight does nothing either.
    assert gap(fitted(after_step=weight_shuffling(1.0, 0.0)), fitted()) == 0


def test_training_is_a_loop_of_torch_with_kicks() -> None:
    """By torch's own parts, as an independent reference."""
    kick = weight_shuffling(0.5, 0.5)
    run = fitted(20, seeds=[4], after_step=kick, after_step_until=15)
    torch.manual_seed(4)
    net, batches = build(), shuffled(data(), 32)
    adam = torch.optim.Adam(net.parameters(), 0.02)
    for step in range(20):
        adam.zero_grad()
        supervised(net, *batches(step, 4)).backward()
        adam.step()
        if step < 15:
            kick(net, seeded(mix(4, step, 1)))
    for name, tensor in net.state_dict().items():
        close(run.weights[20][name][0], tensor, 1e-9)


def test_kicks_end_where_they_are_told_to() -> None:
    kick = weight_reinitialization(0.5, 0.8)
    some = fitted(after_step=kick, after_step_until=20, snapshots=[20])
    every = fitted(after_step=kick, snapshots=[20])
    assert gap(some, every, 20) == 0
    assert gap(some, every) > 1e-3
    assert gap(fitted(after_step=kick, after_step_until=0), fitted()) == 0


def test_each_seed_and_step_has_its_own_kick() -> None:
    drawn: list[float] = []
    fitted(5, after_step=lambda _, some: drawn.append(float(torch.rand((), generator=some))))
    assert len(set(drawn)) == 5 * 3
    assert mix(1, 2) != mix(1, 2, 1)


class EnoughError(Exception):
    """What a training is stopped by."""


class Stops:
    """A loss that may be asked for so many times."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def __call__(self, net: SoftmaxNet, *batch: Tensor) -> Tensor:
        self.limit -= 1
        if self.limit < 0:
            raise EnoughError
        return supervised(net, *batch)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_kicked_training_is_resumed_to_the_same_numbers(
    tmp_path: Path, together: bool, optimizer: str
) -> None:
    momentum = 0.75 if optimizer == "sgd" else 0.0
    options: dict[str, Any] = {"optimizer": optimizer, "momentum": momentum, "together": together}
    options |= {"after_step": weight_shuffling(0.3, 0.5), "after_step_until": 40}
    whole = fitted(**options)
    stopped = 0
    for limit in (20, 50, 90, 10_000):
        try:
            resumed = train(
                build, Stops(limit), shuffled(data(), 32), 60, seeds=range(3), lr=0.02,
                folder=tmp_path, save_seconds=0.0, **options,
            )  # fmt: skip
            break
        except EnoughError:
            stopped += 1
    assert stopped >= 1
    assert gap(resumed, whole) == 0


def test_kicks_are_part_of_what_a_folder_must_agree_on(tmp_path: Path) -> None:
    fitted(4, after_step=weight_shuffling(0.3, 0.5), folder=tmp_path)
    fitted(4, after_step=weight_shuffling(0.3, 0.5), folder=tmp_path)
    for changes, message in (
        ({"after_step": weight_shuffling(0.3, 0.6)}, r"coverage=0\.6"),
        ({"after_step": weight_reinitialization(0.3, 0.5)}, 'after_step was "Shuffling'),
        ({"after_step": scaled}, 'is now "scaled'),
        ({}, "is now null"),
        ({"after_step": weight_shuffling(0.3, 0.5), "after_step_until": 2}, "after_step_until was"),
        ({"after_step": weight_shuffling(0.3, 0.5), "optimizer": "sgd"}, 'optimizer was "adam"'),
    ):
        with pytest.raises(InputError, match=message):
            fitted(4, folder=tmp_path, **changes)


@pytest.mark.parametrize("together", [True, False])
def test_what_replaces_a_weight_is_refused(together: bool) -> None:
    def replaces(net: nn.Module, _: torch.Generator) -> None:
        net.g.weight = nn.Parameter(torch.zeros(7, 3, dtype=torch.float64))

    with pytest.raises(InputError, match="replaced the tensor 'weight'; let it write"):
        fitted(4, after_step=replaces, together=together)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"after_step_until": 5}, "together with after_step"),
        ({"after_step": scaled, "after_step_until": 61}, "after_step_until is 61; .* from 0 to 60"),
        ({"after_step": scaled, "after_step_until": -1}, "after_step_until is -1"),
        ({"optimizer": "adagrad"}, "no optimizer 'adagrad'; choose one of adam, sgd, lbfgs"),
        ({"momentum": 0.9}, "a momentum of 0.9 does not fit optimizer='adam'"),
        ({"momentum": 1.0, "optimizer": "sgd"}, "a momentum of 1.0 does not fit"),
    ],
)
def test_wrong_calls(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fitted(**changes)


@pytest.mark.parametrize("momentum", [0.0, 0.75])
@pytest.mark.parametrize("together", [True, False])
def test_sgd_is_torchs(together: bool, momentum: float) -> None:
    options = {"optimizer": "sgd", "momentum": momentum, "weight_decay": 0.01}
    run = fitted(40, together=together, rates={"g.": 0.5}, **options)
    for place, seed in enumerate(run.seeds):
        torch.manual_seed(seed)
        net, batches = build(), shuffled(data(), 32)
        groups = [{"params": net.f.parameters()}, {"params": net.g.parameters(), "lr": 0.01}]
        sgd = torch.optim.SGD(
            groups, 0.02, momentum=momentum, nesterov=momentum > 0, weight_decay=0.01
        )
        for step in range(40):
            sgd.zero_grad()
            supervised(net, *batches(step, seed)).backward()
            sgd.step()
        for name, tensor in net.state_dict().items():
            close(run.weights[40][name][place], tensor, 1e-9)


def test_early_stopping_keeps_the_kicks_of_those_that_go_on() -> None:
    x, y = data()
    options: dict[str, Any] = {"validation": (x[:64], y[:64]), "validate_every": 5, "patience": 2}
    options |= {"after_step": weight_shuffling(0.5, 0.8), "optimizer": "sgd", "momentum": 0.5}
    stack, alone = (fitted(200, seeds=range(5), together=t, **options) for t in (True, False))
    lengths = stack.history.groupby("seed")["step"].max()
    assert lengths.nunique() > 1
    assert gap(stack, alone) < 1e-9
