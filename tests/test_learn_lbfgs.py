"""L-BFGS on the whole data: torch's own iterations, the optimum, resuming, and what is refused."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sklearn.linear_model import LogisticRegression

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
    weight_shuffling,
)
from learning import data, one_thread, same  # noqa: E402, F401


def doubles() -> tuple[Tensor, Tensor]:
    """Rows of which every label has some."""
    x, y = data(256, torch.float64)
    return x, y.unique(return_inverse=True)[1]


whole = partial(shuffled, size=256)


def linear() -> SoftmaxNet:
    """Logistic regression: the loss is convex."""
    return SoftmaxNet(nn.Identity(), Lookup(6, 5)).double()


def small() -> SoftmaxNet:
    return SoftmaxNet(MLP([5, 8, 3], "tanh"), Lookup(7, 3), bias=7).double()


def with_state() -> SoftmaxNet:
    """With a generator and running averages to get wrong."""
    inner = nn.Sequential(MLP([5, 16]), nn.BatchNorm1d(16), nn.Dropout(0.2), MLP([16, 3]))
    return SoftmaxNet(inner, Lookup(7, 3)).double()


def fitted(build: Any = small, steps: int = 30, **options: Any) -> Run:
    given = {"batches": whole(doubles()), "objective": supervised, "optimizer": "lbfgs"} | options
    return train(build, steps=steps, **given)


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_a_step_is_an_iteration_of_torchs(decay: float) -> None:
    run = fitted(seeds=(1, 4), weight_decay=decay, snapshots=(0,))
    batch = whole(doubles())(0, 4)
    net = run.net(4, step=0).requires_grad_(True)
    solver = torch.optim.LBFGS(
        net.parameters(), max_iter=30, max_eval=1000, history_size=100, tolerance_grad=0,
        tolerance_change=0, line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure() -> Tensor:
        solver.zero_grad()
        loss = supervised(net, *batch)
        loss = loss + decay / 2 * sum(p.square().sum() for p in net.parameters())
        loss.backward()
        return loss

    solver.step(closure)
    for name, tensor in net.state_dict().items():
        close(run.weights[30][name][1], tensor.detach(), 1e-9)
    # Every line is the objective before its step, penalty included; steps lower it.
    losses = run.history.query("seed == 4")["loss"].to_numpy()
    close(losses[0], closure_at(run.net(4, step=0), batch, decay), 1e-12)
    assert (losses[1:] < losses[:-1]).all()


def closure_at(net: SoftmaxNet, batch: tuple[Tensor, ...], decay: float) -> float:
    squares = sum(p.detach().square().sum() for p in net.parameters())
    return float(supervised(net, *batch).detach() + decay / 2 * squares)


def test_all_seeds_end_at_the_optimum_of_logistic_regression_and_stop_there() -> None:
    x, y = doubles()
    run = fitted(linear, 500, seeds=range(3), weight_decay=0.01)
    found = LogisticRegression(C=1 / (256 * 0.01), fit_intercept=False, tol=1e-10, max_iter=10_000)
    expected = found.fit(x.numpy(), y.numpy()).coef_
    for weight in run.weights[500]["g.weight"]:
        close(weight - weight.mean(0), expected - expected.mean(axis=0), 1e-5)
    ends = run.history.groupby("seed")["step"].max()
    assert ends.max() < 100
    net = run.net(1).requires_grad_(True)
    loss = supervised(net, x, y) + 0.005 * net.g.weight.square().sum()
    loss.backward()
    assert net.g.weight.grad.abs().max() <= 1e-7
    rough = fitted(linear, 500, seeds=range(3), weight_decay=0.01, tolerance=1e-2)
    assert (rough.history.groupby("seed")["step"].max() < ends).all()


def test_single_precision_stops_where_rounding_ends_it() -> None:
    run = fitted(
        lambda: linear().float(),
        500,
        batches=whole((doubles()[0].float(), doubles()[1])),
        weight_decay=0.01,
    )
    assert run.history["step"].max() < 200
    exact = fitted(linear, 500, weight_decay=0.01)
    assert run.history["loss"].min() == pytest.approx(exact.history["loss"].min(), rel=1e-5)


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


@pytest.mark.parametrize("build", [small, with_state, linear])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_stopped_it_goes_on_exactly(build: Any, dtype: torch.dtype, tmp_path: Path) -> None:
    x, y = doubles()
    options: dict[str, Any] = {"batches": whole((x.to(dtype), y)), "seeds": (2, 0)}
    options |= {"snapshots": (0, 7, 25), "weight_decay": 1e-3, "save_seconds": 0.0}
    options |= {"validation": (x.to(dtype)[:64], y[:64]), "validate_every": 4}

    def build_as() -> SoftmaxNet:
        return build().to(dtype)

    straight = fitted(build_as, 40, **options)
    stopped = 0
    for limit in (3, 5, 8, 17, 40, 10_000):
        try:
            resumed = fitted(build_as, 40, objective=Stops(limit), folder=tmp_path, **options)
            break
        except EnoughError:
            stopped += 1
    assert stopped >= 3
    same(straight, resumed)
    same(straight, fitted(build_as, 40, objective=Stops(9), folder=tmp_path, **options))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": "cosine"}, "schedule cannot be used with optimizer='lbfgs'"),
        ({"warmup": 3, "clip": 1.0}, "warmup, clip cannot be used"),
        ({"rates": {"f.": 2.0}}, "rates cannot be used"),
        ({"momentum": 0.5}, "a momentum of 0.5 does not fit optimizer='lbfgs'"),
        ({"together": True}, "together=True cannot be used"),
        ({"after_step": weight_shuffling(0.3, 0.5)}, "after_step cannot be used"),
        ({"batches": shuffled(doubles(), 64)}, "the whole data in every batch"),
        ({"tolerance": -1.0}, "a tolerance of -1.0 does not fit"),
        ({"tolerance": 1e-5, "optimizer": "adam"}, "does not fit optimizer='adam'; give .* lbfgs"),
    ],
)
def test_wrong_calls(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fitted(**changes)
