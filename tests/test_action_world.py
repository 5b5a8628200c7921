"""Actions that control some factors: law of transitions, true posterior, promises."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from conftest import close
from identikit.errors import InputError
from identikit.family import SoftmaxModel, diversity, variability
from identikit.worlds import ActionWorld, LeakyReLU, Linear, score


def test_transitions_have_their_law(seed: int):
    world = ActionWorld(3, 2, actions=5, seed=seed)
    sample = world.sample(200_000, seed)
    now, after = sample.latents, sample.positive_latents
    close(now.std(axis=0), [1.5, 1.5, 1.5, 1, 1], 0.02)
    close(after[:, 3:].std(axis=0), [1, 1], 0.02)
    close([np.corrcoef(now[:, k], after[:, k])[0, 1] for k in (3, 4)], [0.9, 0.9], 0.005)
    left = (after - now)[:, :3] - world.vectors[sample.labels]
    close(np.cov(left.T), 0.25 * np.eye(3), 0.005)
    close(np.bincount(sample.labels) / len(now), np.full(5, 0.2), 0.005)
    # What no action controls does not depend on which was taken.
    means = [after[sample.labels == a, 3:].mean() for a in range(5)]
    close(means, np.zeros(5), 0.02)


def test_both_states_are_seen_through_one_mixing():
    mixing = LeakyReLU(4, seed=1, draws=20)
    sample = ActionWorld(2, 2, mixing=mixing).sample(50, 3)
    close(mixing.inverse(sample.observations), sample.latents, 1e-9)
    close(mixing.inverse(sample.positives), sample.positive_latents, 1e-9)
    bare = ActionWorld(2, 2).sample(50, 3)
    assert bare.observations is bare.latents
    again = ActionWorld(2, 2).sample(50, 3)
    close(again.positives, bare.positives, 0)


def test_the_posterior_is_that_of_normal_densities():
    world = ActionWorld(3, 3, seed=2)
    sample = world.sample(100, 0)
    moved = (sample.positive_latents - sample.latents)[:, None, :3] - world.vectors
    density = norm(scale=0.5).pdf(moved).prod(axis=2)
    expected = density / density.sum(axis=1, keepdims=True)
    close(np.exp(world.log_posterior(sample)), expected, 1e-12)


def test_the_floor_of_two_actions_is_that_of_quadrature():
    """−E log p(a|s' − s) over a mixture of two normal laws."""
    world = ActionWorld(1, actions=2, seed=0)
    first, second = world.vectors[:, 0]

    def loss(x: float) -> float:
        own, other = (norm(v, 0.5).pdf(x) for v in (first, second))
        return -own * np.log(own / (own + other))

    expected = quad(loss, first - 6, first + 6)[0]
    found = world.floor(world.sample(400_000, 0))
    assert abs(found.value - expected) < 4 * found.error
    assert found.error < 2e-3


def test_nine_actions_have_a_floor_as_in_the_reference():
    """1.220 for one draw of nine actions; others are around it, and below ln 9 = 2.197."""
    floors = [ActionWorld(3, 3, seed=k) for k in range(30)]
    values = [world.floor(world.sample(5000, 0)).value for world in floors]
    assert min(values) < 1.22 < max(values) < np.log(9)
    assert 1.2 < np.mean(values) < 1.5


def test_nobody_beats_the_posterior():
    """A tempered or a shifted posterior has a larger cross-entropy."""
    world = ActionWorld(3, 3, seed=4)
    sample = world.sample(20_000, 1)
    logs, rows = world.log_posterior(sample), np.arange(20_000)
    floor = world.floor(sample)
    close(floor.value, -logs[rows, sample.labels].mean(), 1e-12)
    for other in (1.3 * logs, 0.7 * logs, logs + 0.3 * np.arange(9)):
        shares = other - np.log(np.exp(other).sum(axis=1, keepdims=True))
        assert -shares[rows, sample.labels].mean() > floor.value + 0.01


def test_three_dimensions_of_actions_although_features_have_eight():
    world = ActionWorld(3, 3, seed=0)
    assert variability(world.vectors).rank == 3
    assert world.check()["diversity"].value == 3
    padded = np.hstack([world.vectors, np.zeros((9, 5))])
    rng = np.random.default_rng(0)
    found = diversity(SoftmaxModel(rng.normal(size=(50, 8)), padded))
    assert (found.rank, found.needed, found.ok) == (3, 8, False)


def test_the_logits_are_linear_in_the_change_of_state():
    """So that a softmax of a linear map of [s; s'] is the truth, and affine maps are what is left.

    The latents themselves score affine on the controllable block.
    """
    world = ActionWorld(3, 3, seed=1)
    sample = world.sample(2000, 0)
    odds = world.log_posterior(sample)
    odds = odds - odds[:, :1]
    both = np.hstack([sample.latents, sample.positive_latents, np.ones((2000, 1))])
    close(both @ np.linalg.lstsq(both, odds, rcond=None)[0], odds, 1e-9)
    found = score(odds[:, 1:4], (sample.positive_latents - sample.latents)[:, :3])
    assert found.r2["latents"] > 0.999


def test_promises_follow_from_the_actions():
    world = ActionWorld(3, 3)
    rungs = {p.learner: p.rung for p in world.identified}
    assert rungs == {
        "inverse dynamics, controllable": "affine",
        "inverse dynamics, exogenous": None,
    }
    assert "span all 3" in world.identified[0].why
    few = ActionWorld(3, actions=3)
    assert [p.rung for p in few.identified] == [None]
    assert few.check().failed == ("diversity",)
    assert world.blocks == {"controllable": [0, 1, 2], "exogenous": [3, 4, 5]}
    assert few.blocks == {"controllable": [0, 1, 2]}
    mixed = ActionWorld(2, 1, mixing=LeakyReLU(3, draws=20)).check()
    assert mixed.ok
    assert [item.name for item in mixed.items] == ["diversity", "injective", "condition"]
    lost = ActionWorld(2, 1, mixing=Linear(np.diag([1.0, 1.0, 1e-9]))).check()
    assert "condition" in lost.failed


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"controllable": 0}, "controllable is 0; give a whole number, 1 or more"),
        ({"exogenous": -1}, "exogenous is -1; give a whole number, 0 or more"),
        ({"actions": 1}, "actions is 1; give a whole number, 2 or more"),
        ({"actions": True}, "actions is True"),
        ({"step": 0.0}, "the step is 0.0; give a number above 0"),
        ({"noise": np.nan}, "the noise is nan"),
        ({"correlation": 1.5}, "the correlation is 1.5; give a number from -1 to 1"),
        ({"mixing": LeakyReLU(5, draws=2)}, "5"),
    ],
)
def test_wrong_worlds_are_refused(given: dict, says: str):
    with pytest.raises(InputError, match=says):
        ActionWorld(**{"controllable": 3, **given})
