"""Gates, curiosity and actor-critics: fixtures of the reference, and pitfalls that stay out."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from conftest import close  # noqa: E402
from identikit.errors import InputError, MissingExtraError  # noqa: E402
from identikit.learn import (  # noqa: E402
    ICM,
    MLP,
    ActorCritic,
    Attention,
    PixelEncoder,
    SoftmaxNet,
    a2c,
    environment,
    fresh,
    n_step_returns,
    rational_forward_loss,
    train,
)
from identikit.learn._a2c import (  # noqa: E402
    Copies,
    Rollout,
    _curious,
    _roll,
)
from identikit.worlds import ActionWorld  # noqa: E402


def zeroed(gate: Attention) -> Attention:
    for tensor in gate.parameters():
        nn.init.zeros_(tensor)
    return gate


def on_one(d: int, place: int) -> Attention:
    """A gate with all of its mass on one feature."""
    gate = zeroed(Attention(d))
    gate.linear.bias.data[place] = 1000.0
    return gate


# The gate


def test_a_gate_of_zeros_divides_by_d_and_times_d_is_nothing():
    x = torch.randn(5, 7)
    close(zeroed(Attention(7))(x).detach(), x / 7, 1e-7)
    for d in (7, 8):
        x = torch.randn(5, d)
        close(zeroed(Attention(d, rescaled=True))(x).detach(), x, 0 if d == 8 else 1e-6)


@given(d=st.integers(1, 20), scale=st.floats(1e-3, 1e3), seed=st.integers(0, 2**31))
def test_the_gate_sums_to_one(d: int, scale: float, seed: int):
    torch.manual_seed(seed)
    x = scale * torch.randn(4, d)
    gate = Attention(d)
    close(gate.weights(x).sum(-1).detach(), np.ones(4), 1e-5)
    times = Attention(d, rescaled=True)
    times.load_state_dict(gate.state_dict())
    close(times(x).detach(), d * gate(x).detach(), 1e-4, scale * d)


def test_the_gate_of_another_context():
    x, c, gate = torch.randn(3, 4), torch.randn(3, 4), Attention(4)
    expected = x * torch.softmax(c @ gate.linear.weight.T + gate.linear.bias, -1)
    close(gate(x, c).detach(), expected.detach(), 1e-6)
    close(gate(x, x).detach(), gate(x).detach(), 0)
    with pytest.raises(InputError, match="d is 0"):
        Attention(0)


# The rational loss


def test_the_rational_loss_of_an_even_gate_is_the_squared_error_over_d():
    a, b = torch.randn(6, 5), torch.randn(6, 5)
    close(rational_forward_loss(a, b, zeroed(Attention(5))).item(), ((a - b) ** 2).mean() / 5, 1e-6)
    even = zeroed(Attention(5, rescaled=True))
    close(rational_forward_loss(a, b, even).item(), ((a - b) ** 2).mean(), 1e-6)


def test_the_rational_loss_of_a_gate_on_one_feature_is_that_of_the_feature_over_d():
    a, b = torch.randn(6, 5), torch.randn(6, 5)
    expected = ((a - b) ** 2)[:, 2].mean() / 5
    close(rational_forward_loss(a, b, on_one(5, 2)).item(), expected, 1e-6)


# The curiosity module


class Constant(nn.Module):
    """φ = const."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.randn(d))

    def forward(self, x: Any) -> Any:
        return self.value.expand(len(x), -1)


def test_constant_features_have_no_forward_loss_and_know_nothing_of_nine_actions():
    icm = ICM(Constant(4), 4, 9)
    for model in (icm.inverse, icm.forward_model):
        for tensor in model.parameters():
            nn.init.zeros_(tensor)
    icm.forward_model[1].bias.data = icm.encoder.value.data.clone()
    action = torch.arange(90) % 9
    found = icm(torch.randn(90, 3), torch.randn(90, 3), action)
    inverse, forward = icm.losses(found, action)
    assert forward.item() == 0
    close(inverse.item(), 2.197, 5e-4)
    close(inverse.item(), np.log(9), 1e-6)
    # No head on constant features does better.
    icm = ICM(Constant(4), 4, 9)
    assert icm.losses(icm(torch.randn(90, 3), torch.randn(90, 3), action), action)[0] > np.log(9)


def test_two_linear_layers_are_one_whose_rows_are_the_action_vectors():
    icm = ICM(nn.Linear(3, 6), 6, 5, "double", hidden=32)
    now, after, action = torch.randn(20, 3), torch.randn(20, 3), torch.arange(20) % 5
    found = icm(now, after, action)
    second, first = icm.inverse[1], icm.inverse[0]
    bias = second.weight @ first.bias + second.bias
    close(found.logits.detach(), (found.pair @ icm.action_vectors().T + bias).detach(), 1e-5)
    assert icm.action_vectors().shape == (5, 12)
    # No activation anywhere in the forward model either.
    x = torch.randn(2, 11)
    middle = icm.forward_model(x.mean(0))
    close(middle.detach(), icm.forward_model(x).mean(0).detach(), 1e-6)


def test_the_loss_and_the_reward_are_those_of_the_formulas():
    icm = ICM(nn.Linear(3, 6), 6, 5, eta=0.5, beta=0.2)
    now, after, action = torch.randn(20, 3), torch.randn(20, 3), torch.arange(20) % 5
    found = icm(now, after, action)
    phi, actual = icm.encoder(now), icm.encoder(after)
    chosen = nn.functional.one_hot(action, 5).float()
    predicted = icm.forward_model(torch.cat([phi, chosen], 1))
    logits = icm.inverse(torch.cat([phi, actual], 1))
    forward = ((predicted - actual) ** 2).mean()
    inverse = nn.functional.cross_entropy(logits, action)
    close(icm.loss(found, action).item(), (0.8 * inverse + 0.2 * forward).item(), 1e-6)
    expected = 0.25 * ((predicted - actual) ** 2).sum(1)
    close(icm.reward(found), expected.detach(), 1e-6)
    assert not icm.reward(found).requires_grad


@pytest.mark.parametrize(("attention", "gates"), [(None, 0), ("single", 1), ("double", 2)])
def test_gates_of_the_curiosity_module_are_on_and_learn(attention: str | None, gates: int):
    """In the released code the target of attention is never set, so that no gate has a gradient."""
    icm = ICM(nn.Linear(3, 6), 6, 5, attention)
    assert [len(icm.inverse_gates), len(icm.forward_gates)] == [gates, gates]
    now, after, action = torch.randn(20, 3), torch.randn(20, 3), torch.arange(20) % 5
    icm.loss(icm(now, after, action), action).backward()
    for name, tensor in icm.named_parameters():
        assert tensor.grad is not None, name
        assert tensor.grad.abs().max() > 0, name


def test_single_and_double_gates_are_on_what_they_should_be_on():
    now, after, action = torch.randn(4, 3), torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    for attention, scales in (("single", [12, 12]), ("double", [6, 6])):
        icm = ICM(nn.Linear(3, 6), 6, 3, attention)
        for gate in icm.inverse_gates:
            zeroed(gate)
        parts = icm(now, after, action).pair.split(6, 1)
        for part, x, scale in zip(parts, (now, after), scales):
            close(part.detach(), icm.encoder(x).detach() / scale, 1e-6)
    icm = ICM(nn.Linear(3, 6), 6, 3, "double", rescaled=True)
    for gate in icm.inverse_gates:
        zeroed(gate)
    pair = icm(now, after, action).pair
    close(pair[:, :6].detach(), icm.encoder(now).detach(), 1e-6)


def test_the_rational_gate_is_on_and_learns():
    """With 288 features, where the released code would have had a gate of 256."""
    icm = ICM(nn.Linear(3, 288), 288, 6, rational=True)
    now, after, action = torch.randn(8, 3), torch.randn(8, 3), torch.arange(8) % 6
    found = icm(now, after, action)
    expected = rational_forward_loss(found.predicted, found.actual, icm.rational)
    close(icm.losses(found, action)[1].item(), expected.item(), 0)
    icm.loss(found, action).backward()
    for tensor in icm.rational.parameters():
        assert tensor.grad.abs().max() > 0


def test_wrong_curiosity_is_refused():
    with pytest.raises(InputError, match="the attention is 'triple'; choose None, 'single' or"):
        ICM(nn.Linear(3, 6), 6, 5, "triple")
    with pytest.raises(InputError, match=r"beta is 1.5; the share of the forward loss must be"):
        ICM(nn.Linear(3, 6), 6, 5, beta=1.5)


def test_many_curiosity_modules_learn_as_one_stack():
    world = ActionWorld(2, 1, actions=4)

    def draw(rows: int, rng: np.random.Generator) -> tuple:
        sample = world.sample(rows, rng).torch()
        return sample.observations, sample.positives, sample.labels

    def build() -> SoftmaxNet:
        return SoftmaxNet(ICM(MLP([3, 16, 4]), 4, 4, "double", rational=True, hidden=8))

    def objective(net: SoftmaxNet, *batch: Any) -> Any:
        return net.f.loss(net.f(*batch), batch[2])

    both = [
        train(build, objective, fresh(draw, 32), 5, seeds=range(3), together=together)
        for together in (True, False)
    ]
    for one, other in zip(*(run.net(2).parameters() for run in both)):
        close(one, other, 1e-5)


# The actor-critic


def test_two_gates_of_their_own_between_features_and_heads():
    net = ActorCritic(nn.Linear(4, 8), 8, 3, "plain")
    x, state = torch.randn(5, 4), (torch.randn(5, 8), torch.randn(5, 8))
    judged = net(x, state)
    h, c = net.cell(net.encoder(x), state)
    close(judged.state[0].detach(), h.detach(), 0)
    close(judged.state[1].detach(), c.detach(), 0)
    close(judged.logits.detach(), net.actor(net.gates[0](h)).detach(), 0)
    close(judged.value.detach(), net.critic(net.gates[1](h))[:, 0].detach(), 0)
    assert net.gates[0] is not net.gates[1]
    (judged.logits[:, 0].sum() + judged.value.sum()).backward()
    for gate in net.gates:
        assert gate.linear.weight.grad.abs().max() > 0


def test_gates_off_and_gates_times_d():
    torch.manual_seed(0)
    x = torch.randn(5, 4)
    bare, times = (ActorCritic(nn.Linear(4, 8), 8, 3, kind) for kind in (None, "rescaled"))
    assert not bare.gates
    times.load_state_dict(bare.state_dict(), strict=False)
    for gate in times.gates:
        zeroed(gate)
    for one, other in zip(bare(x, bare.start(5))[:2], times(x, times.start(5))[:2]):
        close(one.detach(), other.detach(), 1e-6)
    close((bare.actor.weight @ bare.actor.weight.T).detach(), np.eye(3), 1e-5)
    with pytest.raises(InputError, match="the attention is 'single'; choose None, 'plain' or"):
        ActorCritic(nn.Linear(4, 8), 8, 3, "single")


def test_pictures_of_84_by_84_become_288_features():
    encoder = PixelEncoder(4)
    assert encoder(torch.randn(2, 4, 84, 84)).shape == (2, 288)
    weight = encoder[2].weight.flatten(1)
    close((weight @ weight.T).detach(), 2 / (1 + 1e-4) * np.eye(32), 1e-4)


# Returns


def test_a_done_masks_its_own_environment_and_no_other():
    """masked_scatter, as released, would give (0, 10, 11, 12)."""
    values, done = torch.tensor([10.0, 11, 12, 13]), torch.tensor([[True, False, False, False]])
    found = n_step_returns(torch.zeros(1, 4), done, values, 1.0)
    assert found.tolist() == [[0, 11, 12, 13]]
    released = torch.zeros(4).masked_scatter(~done[0], values)
    assert released.tolist() == [0, 10, 11, 12]


def test_no_reward_crosses_the_end_of_an_episode():
    rewards, dones = torch.zeros(5, 2), torch.zeros(5, 2, dtype=torch.bool)
    rewards[3, 0], dones[2, 0] = 7.0, True
    found = n_step_returns(rewards, dones, torch.tensor([100.0, 100.0]), 0.5)
    assert found[:3, 0].tolist() == [0, 0, 0]
    assert found[3, 0] == 7 + 0.25 * 100
    assert found[:, 1].tolist() == [100 * 0.5**k for k in (5, 4, 3, 2, 1)]


@given(
    steps=st.integers(1, 8),
    copies=st.integers(1, 4),
    gamma=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_returns_are_discounted_sums_up_to_the_end_of_the_episode(steps, copies, gamma, seed):
    rng = np.random.default_rng(seed)
    rewards, dones = rng.normal(size=(steps, copies)), rng.random((steps, copies)) < 0.3
    last = rng.normal(size=copies)
    found = n_step_returns(*map(torch.from_numpy, (rewards, dones, last)), gamma)
    for k in range(copies):
        for t in range(steps):
            ends = np.flatnonzero(dones[t:, k])
            stop = t + ends[0] + 1 if len(ends) else steps
            total = sum(gamma ** (u - t) * rewards[u, k] for u in range(t, stop))
            expected = total + (0 if len(ends) else gamma ** (steps - t) * last[k])
            assert found[t, k].item() == pytest.approx(expected, abs=1e-9)


# The loop. What needs gymnasium takes the fixture.


@pytest.fixture
def gymnasium() -> Any:
    return pytest.importorskip("gymnasium")


def counting(gymnasium: Any, end: int = 3, cut: int | None = None, reward: Any = None) -> Any:
    """Makes environments that show how many steps an episode has had; action 1 is worth 1."""

    class Counting(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, **_: Any) -> Any:
            super().reset(seed=seed)
            self.time = 0
            return np.zeros(1, np.float32), {}

        def step(self, action: int) -> Any:
            self.time += 1
            seen = np.full(1, self.time, np.float32)
            worth = float(action) if reward is None else reward
            return seen, worth, self.time == end, self.time == cut, {}

    return Counting


def small(attention: str | None = None) -> ActorCritic:
    return ActorCritic(nn.Linear(1, 8), 8, 2, attention)


def curious(eta: float = 0.1) -> ICM:
    return ICM(nn.Linear(1, 3), 3, 2, "double", hidden=8, eta=eta)


def rolled(make: Any, net: ActorCritic, steps: int, gamma: float = 0.9) -> Rollout:
    world = Copies(make, 2, 0)
    generator = torch.Generator().manual_seed(0)
    return _roll(world, net, net.start(2), steps, gamma, 1.0, generator)[0]


def test_episodes_begin_in_the_step_in_which_others_end(gymnasium: Any):
    found = rolled(counting(gymnasium, reward=1.0), small(), 7)
    assert found.observations[:, 0, 0].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert found.successors[:, 0, 0].tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert found.dones[:, 1].tolist() == [False, False, True, False, False, True, False]
    assert found.rewards.unique().tolist() == [1]


def test_the_lstm_starts_anew_with_each_episode(gymnasium: Any):
    features = rolled(counting(gymnasium), small(), 7).features.detach()
    close(features[3:6], features[:3], 0)
    assert (features[1] - features[0]).abs().max() > 0.01


def test_an_episode_without_time_left_is_not_over(gymnasium: Any):
    net = small()
    make = counting(gymnasium, end=99, cut=3, reward=1.0)
    found = rolled(make, net, 4)
    with torch.no_grad():
        state = net.start(2)
        for t in range(4):
            value, state = net(torch.full((2, 1), float(t)), state)[1:]
    close(found.rewards[:, 0], [1, 1, 1 + 0.9 * value[0], 1], 1e-6)
    assert found.dones[2].all()
    # One that is over in the step in which time runs out is over.
    both = rolled(counting(gymnasium, end=3, cut=3, reward=1.0), net, 4)
    assert both.rewards.unique().tolist() == [1]


def test_an_intrinsic_reward_is_added(gymnasium: Any):
    found, icm = rolled(counting(gymnasium, reward=1.0), small(), 5), curious()
    rewards, loss, line = _curious(icm, found)
    for t, k in ((0, 0), (2, 1), (4, 0)):
        parts = (part[t, k : k + 1] for part in (found.observations, found.successors))
        seen = icm(*parts, found.actions[t, k : k + 1])
        close(rewards[t, k].item(), 1 + icm.reward(seen).item(), 1e-6)
    assert (rewards > 1).all()
    close(line["intrinsic"], (rewards - 1).mean().item(), 1e-6)
    assert loss.requires_grad
    assert _curious(None, found)[0] is found.rewards


def test_curiosity_acts_on_the_policy_by_its_reward_alone(gymnasium: Any):
    make = counting(gymnasium, reward=0.0)
    bare, still, eager = (
        a2c(make, small, 3, copies=2, curiosity=each)
        for each in (None, partial(curious, 0.0), partial(curious, 10.0))
    )
    for one, other in zip(bare.net.parameters(), still.net.parameters()):
        close(one.detach(), other.detach(), 0)
    moved = [
        (a - b).abs().max().item() for a, b in zip(bare.net.parameters(), eager.net.parameters())
    ]
    assert max(moved) > 1e-4
    assert eager.history["intrinsic"].gt(0).all()
    assert bare.icm is None
    assert "intrinsic" not in bare.history


@pytest.mark.long
@pytest.mark.parametrize("attention", [None, "plain", "rescaled"])
def test_the_better_action_is_learned(gymnasium: Any, attention: str | None):
    run = a2c(counting(gymnasium), partial(small, attention), 250, lr=0.01, entropy=0.0)
    first, last = run.episodes["score"].head(50).mean(), run.episodes["score"].tail(50).mean()
    assert first < 2.5
    assert last > 2.9
    assert (run.episodes["length"] == 3).all()
    assert len(run.history) == 250
    assert run.history["feature_std"].between(0, 1).all()


@pytest.mark.long
def test_the_same_seed_gives_the_same_numbers(gymnasium: Any):
    before = torch.random.get_rng_state()

    def build() -> ActorCritic:
        return ActorCritic(nn.Linear(4, 8), 8, 2, "plain")

    def icm() -> ICM:
        return ICM(nn.Linear(4, 3), 3, 2)

    told: list[Any] = []
    runs = [
        a2c("CartPole-v1", build, 100, seed=seed, curiosity=icm, copies=2,
            progress=lambda *said: told.append(said))
        for seed in (3, 3, 4)
    ]  # fmt: skip
    assert runs[0].history.equals(runs[1].history)
    assert runs[0].episodes.equals(runs[1].episodes)
    assert not runs[0].history.equals(runs[2].history)
    assert torch.equal(before, torch.random.get_rng_state())
    assert told == 3 * [("updates", 100, 100)]
    assert (runs[0].episodes["score"] == runs[0].episodes["length"]).all()


def test_no_two_seeds_share_an_environment(gymnasium: Any):
    starts = [Copies("CartPole-v1", 3, seed).observations for seed in range(3)]
    assert len(torch.cat(starts).unique(dim=0)) == 9


def test_an_unknown_id_names_the_extra(gymnasium: Any):
    with pytest.raises(InputError, match=r"no environment 'Pung-v1' here .*identikit\[rl\]"):
        environment("Pung-v1")
    with pytest.raises(InputError, match=r"identikit\[rl\]"):
        a2c("NoSuchGame/Pong-v9", small, 1)
    with pytest.raises(InputError, match=r"no environment 'nowhere:Pong-v1'"):
        environment("nowhere:Pong-v1")


def test_a_missing_gymnasium_names_the_pip_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'identikit\[rl\]'"):
        a2c("CartPole-v1", small, 1)
    with pytest.raises(MissingExtraError, match=r"pip install 'identikit\[rl\]'"):
        environment("CartPole-v1")


def test_wrong_calls_are_refused(gymnasium: Any):
    with pytest.raises(InputError, match="updates is 0; give a whole number, 1 or more"):
        a2c("CartPole-v1", small, 0)
    with pytest.raises(InputError, match=r"the actions are Box.*expected Discrete"):
        a2c("Pendulum-v1", small, 1)
    with pytest.raises(InputError, match="the loss is nan at update 0; try a smaller learning"):
        a2c(counting(gymnasium, reward=float("nan")), small, 1)
