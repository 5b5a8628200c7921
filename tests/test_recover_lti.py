"""LTI systems from trajectories: the published claim by least squares, its controls, bad input."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import identikit as ik
from conftest import close
from identikit.errors import InputError
from identikit.family import concentration_blocks
from identikit.recover import LTI, variability, within_correlation
from identikit.worlds import DCMotor, LinearSystem
from test_recover_joint import amari


class Fixture:
    """Systems drawn as for the measured values: A, B, C, variances, means, then the controls.

    Written apart from `worlds.LinearSystem`, step by step.
    """

    def __init__(self, d, environments, steps, seed, *, means=False, maximum=False, noise=0.0):
        rng = np.random.default_rng(seed)
        self.A, self.B, self.C = rng.normal(size=(3, d, d))
        self.A *= 0.9 / np.abs(np.linalg.eigvals(self.A)).max()
        self.variances = np.abs(rng.normal(size=(environments, d))) / 2
        self.means = rng.normal(size=(environments, d)) * means
        if maximum:
            self.variances = np.full((environments, d), 1e-4)
            for e in range(1, min(environments, d + 1)):
                self.variances[e, e - 1] += 0.9999
        u, y = [], []
        for mean, variance in zip(self.means, self.variances):
            x = np.zeros(d)
            for push in mean + variance**0.5 * rng.normal(size=(steps, d)):
                u.append(push)
                y.append(self.C @ x)
                x = self.A @ x + self.B @ push
        self.u, self.y = np.array(u), np.array(y)
        self.y += noise**0.5 * rng.normal(size=self.y.shape)
        self.labels = np.repeat(np.arange(environments), steps)

    @property
    def transition(self):
        return self.C @ self.A @ np.linalg.inv(self.C)

    def scores(self, found):
        """MCC within, MCC pooled, Amari error of CB, relative error of C A C⁻¹."""
        kept = np.isfinite(found.sources_).all(axis=1)
        pooled = ik.mcc(ik.accumulate([self.u[kept], found.sources_[kept]], folds=1, sample=0))
        error = np.linalg.norm(found.transition_ - self.transition)
        return (
            within_correlation(self.u, found.sources_, self.labels).value,
            pooled.value,
            amari(found.unmixing_ @ self.C @ self.B),
            error / np.linalg.norm(self.transition),
        )


# The measured fixtures


def test_the_inverse_of_a_known_system_is_exact():
    """u_t = B⁻¹C⁻¹ y_{t+1} − B⁻¹AC⁻¹ y_t, to rounding."""
    world = LinearSystem(4, 3, 500, seed=3, mean="random")
    sample = world.sample(seed=1)
    B, C = np.linalg.inv(world.B), np.linalg.inv(world.C)
    y, u = sample.observations[:500], sample.latents[:499]
    close(y[1:] @ (B @ C).T - y[:-1] @ (B @ world.A @ C).T, u, 1e-10, np.abs(u).max())


@pytest.mark.parametrize("means", [False, True])
def test_controls_are_recovered_within_and_over_environments(means):
    """d = 5, 6 environments of 6,000 steps, seeds 0 to 4; measured beforehand: MCC 1.000 and 1.000,
    Amari error 0.006, relative error of the transition 0.011."""
    scores = []
    for seed in range(5):
        system = Fixture(5, 6, 6000, seed, means=means)
        found = LTI().fit(system.y, system.labels)
        scores.append(system.scores(found))
        assert found.identified_.all()
        assert found.errors_.max() < 0.1
    within, pooled, axes, transition = np.mean(scores, axis=0)
    assert min(within, pooled) > 0.9995
    assert axes == pytest.approx(0.006, abs=0.003)
    assert transition == pytest.approx(0.011, abs=0.006)


@pytest.mark.parametrize("d", [2, 3, 10])
def test_maximum_variability_is_exact_as_good_as(d):
    system = Fixture(d, d + 1, 3000, 0, means=True, maximum=True)
    found = LTI().fit(system.y, system.labels)
    within, pooled, axes, transition = system.scores(found)
    assert min(within, pooled) > 0.9999
    assert axes < 0.001
    assert transition < 0.01
    assert found.variability_.ok
    assert found.variability_.condition < 1.5


def test_maximum_variability_with_two_environments_fails_and_says_so():
    """All ratios but one coincide: within-environment MCC about .69 at d = 8."""
    values = []
    for seed in range(5):
        system = Fixture(8, 2, 6000, seed, maximum=True)
        with pytest.warns(
            UserWarning, match="controls 1, 2, 3, 4, 5, 6, 7 cannot be distinguished"
        ):
            found = LTI().fit(system.y, system.labels)
        assert found.identified_.tolist() == [True] + [False] * 7
        assert (found.variability_.rank, found.variability_.needed) == (1, 8)
        values.append(system.scores(found)[0])
    assert np.mean(values) == pytest.approx(0.69, abs=0.06)


@pytest.mark.parametrize(
    ("d", "measured"), [(2, 0.917), (3, 0.850), (5, 0.748), (8, 0.651), (10, 0.628)]
)
def test_one_environment_is_a_random_rotation(d, measured):
    """20 seeds of 4,000 steps. What one environment scores is what a random rotation does, and
    near what was measured before with another rotation of the same whitened axes."""
    values = []
    for seed in range(20):
        world = LinearSystem(d, 1, 4000, seed)
        sample = world.sample(seed=seed)
        with pytest.warns(UserWarning, match="cannot be distinguished: there is 1 environment"):
            found = LTI().fit(sample.observations, sample.environments)
        assert not found.identified_.any()
        assert found.variability_.rank == 0
        values.append(within_correlation(sample.latents, found.sources_, sample.environments).value)
    level = concentration_blocks(np.ones(d)).mcc_level(2000)
    assert np.mean(values) == pytest.approx(level, abs=3.5 * np.std(values) / 20**0.5)
    assert np.mean(values) == pytest.approx(measured, abs=0.06)


def test_two_environments_suffice_if_their_ratios_differ():
    system = Fixture(5, 2, 6000, 1)
    found = LTI().fit(system.y, system.labels)
    assert found.identified_.all()
    assert system.scores(found)[0] > 0.99
    # The rank condition of the theorem is sufficient, and not necessary.
    assert not found.variability_.ok
    assert "it takes 6 rows or more" in found.variability_.sentence


def released_loss(W, system):
    """What the released code maximises, with its sign turned: no log |det W| in it."""
    z = np.hstack([system.y[1:], system.y[:-1]])
    kept = system.labels[1:] == system.labels[:-1]
    gap = z[kept] @ W.T - system.means[system.labels[:-1][kept]]
    return 0.5 * (gap**2 / system.variances[system.labels[:-1][kept]]).mean()


def test_the_released_objective_collapses_without_means():
    system = Fixture(3, 4, 2000, 0)
    B, C = np.linalg.inv(system.B), np.linalg.inv(system.C)
    true = np.hstack([B @ C, -B @ system.A @ C])
    losses = [released_loss(scale * true, system) for scale in (1.0, 0.5, 0.1, 0.01, 0.0)]
    assert (np.diff(losses) < 0).all()
    assert losses[-1] == 0


def test_the_released_objective_with_means_regresses_on_environments():
    """Its optimum in closed form, on pairs that do not overlap: the pooled MCC is above the one
    within environments (measured: .935 against .831 at d = 5)."""
    pooled, within = [], []
    for seed in range(5):
        system = Fixture(5, 6, 6000, seed, means=True)
        first = np.arange(0, len(system.y), 2)
        z = np.hstack([system.y[first + 1], system.y[first]])
        labels = system.labels[first]
        W = []
        for i in range(5):
            weight = 1 / system.variances[labels, i]
            inner = (z.T * weight) @ z
            W.append(np.linalg.solve(inner, (z.T * weight) @ system.means[labels, i]))
        guess = z @ np.array(W).T
        u = system.u[first]
        pooled.append(ik.mcc(ik.accumulate([u, guess], folds=1, sample=0)).value)
        within.append(within_correlation(u, guess, labels).value)
    assert np.mean(pooled) == pytest.approx(0.935, abs=0.03)
    assert np.mean(within) == pytest.approx(0.831, abs=0.03)
    assert (np.array(pooled) > within).all()


def test_equal_columns_of_variances_lack_rank():
    variances = LinearSystem(3, 5, 10).variances.copy()
    variances[:, 2] = variances[:, 1]
    found = variability(1 / variances)
    assert not found.ok
    assert "2 of 3 dimensions, 1 is missing" in found.sentence
    few = variability(1 / LinearSystem(4, 4, 10).variances)
    assert "3 of 4 dimensions, 1 is missing: it takes 5 rows or more" in few.sentence


# What the estimator promises


@pytest.mark.parametrize(("d", "k", "steps"), [(1, 1, 50), (2, 3, 60), (3, 5, 400)])
def test_it_is_weighted_least_squares_and_a_joint_diagonalisation(rng, d, k, steps):
    """The normal equations of the weights that it ends with hold, and residual covariances are as
    diagonal as joint diagonalisation makes them; without rounds, it is plain least squares."""
    system = Fixture(d, k, steps, 5, means=True)
    now = np.delete(np.arange(k * steps), np.arange(steps - 1, k * steps, steps))
    labels = system.labels[now]
    dummies = np.eye(k)[labels]
    design = np.hstack([system.y[now], dummies])
    plain = np.linalg.lstsq(design, system.y[now + 1], rcond=None)[0][:d].T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        close(LTI(rounds=0).fit(system.y, system.labels).transition_, plain, 1e-9)
        found = LTI(rounds=50).fit(system.y, system.labels)
    s = found.sources_[now]
    inside = s - np.stack([s[labels == e].mean(axis=0) for e in range(k)])[labels]
    weights = 1 / found.variances_[labels]
    centred = system.y[now] - np.stack(
        [system.y[now][labels == e].mean(axis=0) for e in range(k)]
    )[labels]  # fmt: skip
    size = np.sqrt((weights * centred[:, :1] ** 2).sum(axis=0) * (weights * inside**2).sum(axis=0))
    close(centred.T @ (weights * inside), np.zeros((d, d)), 1e-4, size)
    again = ik.recover.joint_diagonalise(
        [np.atleast_2d(np.cov(inside[labels == e].T)) for e in range(k)]
    )
    close(again.variances, found.variances_, 1e-6)
    close(np.sort(np.abs(again.unmixing).max(axis=1)), np.ones(d), 1e-6)


def test_sources_solve_the_system_and_the_last_row_is_nan():
    system = Fixture(3, 4, 500, 2, means=True)
    found = LTI().fit(system.y, system.labels)
    ends = np.arange(499, 2000, 500)
    assert np.flatnonzero(np.isnan(found.sources_).any(axis=1)).tolist() == ends.tolist()
    now = np.setdiff1d(np.arange(2000), ends)
    answer = system.y[now] @ found.transition_.T + found.sources_[now] @ found.input_.T
    close(answer, system.y[now + 1], 1e-9, np.abs(system.y).max())
    close(found.unmixing_ @ found.input_, np.eye(3), 1e-9)
    # Held-out trajectories are read by the same system, and the same rows give the same.
    close(found.transform(system.y, system.labels)[now], found.sources_[now], 1e-12)
    other = Fixture(3, 4, 500, 2, means=True)
    assert np.isnan(found.transform(other.y[:40], np.repeat([7, 8], 20))).any(axis=1).sum() == 2


def test_units_of_the_observations_do_not_matter(rng):
    system = Fixture(3, 4, 800, 4)
    units = np.array([1e-6, 1.0, 1e5])
    found = LTI().fit(system.y, system.labels)
    moved = LTI().fit(system.y * units + 100 * units, system.labels)
    close(moved.transition_ / units[:, None] * units, found.transition_, 1e-6)
    # An offset of y stays in the sources as a constant, and the sign of an axis may be another.
    both = within_correlation(found.sources_, moved.sources_, system.labels)
    assert both.value == pytest.approx(1, abs=1e-9)
    assert both.columns.tolist() == [[0, 0], [1, 1], [2, 2]]


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(2, 5))
def test_coordinates_of_y_and_the_order_of_environments_do_not_matter(seed, d, k):
    """y → T y turns Φ into T Φ T⁻¹ and leaves the sources, up to their signs."""
    rng = np.random.default_rng(seed)
    sample = LinearSystem(d, k, 150, seed).sample(seed=seed)
    y, labels = sample.observations.reshape(k, 150, d), np.arange(k)
    T = np.linalg.qr(rng.normal(size=(d, d)))[0] * 2.0 ** rng.integers(-3, 3, size=d)
    order = rng.permutation(k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = LTI().fit(y.reshape(-1, d), np.repeat(labels, 150))
        moved = LTI().fit((y[order] @ T.T).reshape(-1, d), np.repeat(labels[order], 150))
    close(np.linalg.solve(T, moved.transition_ @ T), found.transition_, 1e-4)
    assert moved.environments_.tolist() == order.tolist()
    sure = found.identified_
    assert moved.identified_.tolist() == sure.tolist()
    back = np.argsort(order)
    close(moved.variances_[back][:, sure], found.variances_[:, sure], 1e-3)
    ours = found.sources_.reshape(k, 150, d)[:, :-1, sure]
    theirs = moved.sources_.reshape(k, 150, d)[back][:, :-1, sure]
    signs = np.sign((ours * theirs).sum(axis=(0, 1)))
    close(theirs * signs, ours, 1e-2, np.abs(ours).max() if sure.any() else 1.0)


def test_markov_parameters_state_space_and_transfer_function_agree():
    """G_k = C A^(k−1) B, H(z) = C (zI − A)⁻¹ B, both up to order and scale of the controls."""
    system = Fixture(3, 4, 4000, 1)
    found = LTI().fit(system.y, system.labels)
    match = within_correlation(system.u, found.sources_, system.labels)
    order = match.columns[:, 1]
    scale = np.array(
        [np.nanstd(system.u[:, i]) / np.nanstd(found.sources_[:, j]) for i, j in match.columns]
    ) * np.sign(match.correlations)
    for power, G in enumerate(found.markov_):
        true = system.C @ np.linalg.matrix_power(system.A, power) @ system.B
        close(G[:, order] / scale, true, 0.15, np.abs(true).max())
    space = found.state_space()
    assert space.A.shape == (3, 3)
    close(space.markov(len(found.markov_)), found.markov_, 1e-9)
    values = [np.sort_complex(np.linalg.eigvals(A)) for A in (space.A, found.transition_)]
    close(*values, 1e-8)
    z = np.exp(1j * np.array([0.1, 1.0, 2.5]))
    H = found.transfer_function(z)
    assert H.shape == (3, 3, 3)
    for point, value in zip(z, H):
        inner = np.linalg.inv(point * np.eye(3) - space.A)
        close(value, space.C @ inner @ space.B, 1e-8)
        true = system.C @ np.linalg.inv(point * np.eye(3) - system.A) @ system.B
        close(value[:, order] / scale, true, 0.2, np.abs(true).max())
    assert found.state_space(order=2).A.shape == (2, 2)
    for order in (4, 0, "all"):
        with pytest.raises(InputError, match=f"order is {order}; the Hankel matrix has rank 3"):
            found.state_space(order=order)
    with pytest.raises(InputError, match="finite z other than 0"):
        found.transfer_function([1.0, 0.0])


def test_more_lags_find_a_state_that_one_observation_does_not_show(rng):
    """y_{t+1} = Φ₁ y_t + Φ₂ y_{t−1} + M u_t: a state of four, two of them seen at a time."""
    phi = np.array([[[0.5, 0.2], [0.0, 0.4]], [[-0.3, 0.0], [0.2, -0.4]]])
    M = rng.normal(size=(2, 2))
    scale = np.array([[1.0, 1.0], [2.0, 0.5], [0.5, 2.0]])
    u = rng.normal(size=(3, 4000, 2)) * scale[:, None]
    y = np.zeros((3, 4000, 2))
    for t in range(1, 3999):
        y[:, t + 1] = y[:, t] @ phi[0].T + y[:, t - 1] @ phi[1].T + u[:, t] @ M.T
    labels = np.repeat(np.arange(3), 4000)
    found = LTI(lags=2).fit(y.reshape(-1, 2), labels)
    close(found.coefficients_, phi, 0.05)
    assert found.transition_.shape == (4, 4)
    close(found.transition_[:2, 2:], phi[1], 0.05)
    close(found.transition_[2:], np.eye(2, 4), 1e-12)
    assert within_correlation(u.reshape(-1, 2), found.sources_, labels).value > 0.999
    assert np.isnan(found.sources_[0]).all()
    space = found.state_space()
    assert space.A.shape == (4, 4)
    close(space.markov(len(found.markov_)), found.markov_, 1e-8)
    z = np.exp(0.7j)
    inner = np.linalg.inv(z * np.eye(4) - space.A)
    close(found.transfer_function(z), space.C @ inner @ space.B, 1e-8)
    # One lag alone leaves what the second explains in the sources.
    one = LTI().fit(y.reshape(-1, 2), labels)
    assert within_correlation(u.reshape(-1, 2), one.sources_, labels).value < 0.99


def test_the_motor_has_one_control_and_two_observations():
    motor = DCMotor(3, 5000, seed=2)
    sample = motor.sample(seed=1)
    found = LTI().fit(sample.observations, sample.environments)
    assert found.sources_.shape == (15_000, 1)
    assert found.identified_.tolist() == [True]
    assert within_correlation(sample.latents, found.sources_, sample.environments).value > 0.999
    close(found.input_[1] / found.input_[0], motor.B[1] / motor.B[0], 1e-6)
    close(found.transition_, motor.A, 0.05)
    space = found.state_space()
    assert space.A.shape == (2, 2)
    close(space.markov(4), found.markov_[:4], 1e-10, np.abs(found.markov_).max())
    single = LTI().fit(sample.observations.astype(np.float32), sample.environments)
    assert single.input_.shape == (2, 1)


def test_a_column_without_a_control_of_its_own_is_exact(rng):
    """Position follows from speed without error: rounding is no second control."""
    u = rng.normal(size=(2, 1000)) * [[1.0], [3.0]]
    speed = np.zeros((2, 1000))
    for t in range(999):
        speed[:, t + 1] = 0.9 * speed[:, t] + u[:, t]
    place = np.zeros((2, 1000))
    for t in range(999):
        place[:, t + 1] = 0.95 * place[:, t] + 0.01 * speed[:, t]
    found = LTI().fit(np.stack([speed, place], axis=2).reshape(-1, 2), np.repeat([0, 1], 1000))
    assert found.input_.shape == (2, 1)
    close(found.transition_[1], [0.01, 0.95], 1e-9)
    assert abs(found.input_[1, 0]) < 1e-9 * abs(found.input_[0, 0])


def test_noisy_observations_bias_least_squares_and_not_the_instruments():
    """Observation noise of variance 0.1 in y: errors of C A C⁻¹ and of CB, medians over seeds."""
    plain, instruments, leaks, predicted = [], [], [], []
    for seed in range(5):
        system = Fixture(3, 4, 6000, seed, noise=0.1)
        plain.append(system.scores(LTI().fit(system.y, system.labels))[2:])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            found = LTI(noise=True).fit(system.y, system.labels)
            assert LTI(noise=2).fit(system.y, system.labels).transition_.shape == (3, 3)
        instruments.append(system.scores(found)[2:])
        P = np.abs(found.unmixing_ @ system.C @ system.B * np.sqrt(system.variances.mean(axis=0)))
        P /= np.linalg.norm(P, axis=1, keepdims=True)
        leaks.append(np.sqrt(1 - P.max(axis=1) ** 2).mean())
        predicted.append(found.errors_.mean())
    assert np.median(plain, axis=0)[1] > 5 * np.median(instruments, axis=0)[1]
    assert np.median(instruments, axis=0)[1] < 0.05
    assert np.median(instruments, axis=0)[0] < np.median(plain, axis=0)[0]
    assert np.median(predicted) == pytest.approx(np.median(leaks), rel=1)


def test_without_noise_the_instruments_cost_little():
    system = Fixture(3, 4, 6000, 0)
    found = LTI(noise=True).fit(system.y, system.labels)
    assert found.identified_.all()
    assert system.scores(found)[0] > 0.99
    with pytest.warns(UserWarning, match="there are 2 environments, and 3 or more"):
        LTI(noise=True).fit(system.y[:12_000], system.labels[:12_000])


def test_it_is_an_estimator():
    system = Fixture(2, 3, 200, 0)
    found = LTI(lags=1, rounds=2).fit(system.y.tolist(), ["a"] * 200 + ["b"] * 200 + ["c"] * 200)
    assert found.environments_.tolist() == ["a", "b", "c"]
    assert clone(found).get_params() == {"lags": 1, "noise": False, "rounds": 2}
    for method, argument in (("state_space", None), ("transfer_function", 1.0)):
        with pytest.raises(NotFittedError, match="call fit"):
            getattr(LTI(), method)(argument)
    with pytest.raises(NotFittedError, match="call fit"):
        LTI().transform(system.y, system.labels)


# Bad input


def test_equal_variances_are_named(rng):
    y = LinearSystem(3, 1, 6000).sample(seed=3).observations
    with pytest.warns(UserWarning, match=r"controls 0, 1, 2 .* is the same in all environments"):
        found = LTI().fit(y, np.repeat([0, 1, 2], 2000))
    assert not found.identified_.any()
    assert not found.variability_.ok
    # What does not depend on the axes is identified nevertheless.
    world = LinearSystem(3, 1, 6000)
    close(found.transition_, world.C @ world.A @ np.linalg.inv(world.C), 0.05)


def test_heavy_tails_of_controls_make_ratios_uncertain(rng):
    """Variances of such controls vary by far more than 2/n: taken as normal, they look apart."""
    wrong = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(60):
            y = rng.laplace(size=(1800, 2)) ** 3
            wrong += LTI().fit(y, np.repeat(np.arange(6), 300)).identified_.any()
    assert wrong <= 12


def test_an_environment_in_which_nothing_moves_adds_nothing():
    system = Fixture(3, 4, 1000, 6)
    found = LTI().fit(system.y, system.labels)
    still = np.vstack([system.y, np.ones((100, 3))])
    more = LTI().fit(still, np.append(system.labels, np.full(100, 9)))
    assert more.identified_.all()
    assert np.isfinite(more.variability_.condition)
    both = within_correlation(found.sources_, more.sources_[:4000], system.labels)
    assert both.value == pytest.approx(1, abs=1e-6)
    close(more.variances_[4], np.zeros(3), 1e-12)


def test_unstable_systems_are_named(rng):
    y = np.zeros((2, 60, 1))
    for t in range(59):
        y[:, t + 1] = 1.2 * y[:, t] + rng.normal(size=(2, 1))
    with pytest.warns(UserWarning, match=r"unstable: its spectral radius is 1\.2"):
        LTI().fit(y.reshape(-1, 1), np.repeat([0, 1], 60))


@pytest.mark.parametrize(
    ("change", "options", "says"),
    [
        ("alternate", {}, "environment 0 begins again at row 2: each environment is one traj"),
        (
            "short",
            {},
            "environment 1 has too few rows: 4, and 7 are needed for 2 observed columns",
        ),
        ("none", {"lags": 40}, r"environment 0 has too few rows: 50, and \d+ are needed"),
        ("constant", {}, "column 1 of the observations is constant in every environment"),
        ("free", {}, "no control drives them"),
        ("nan", {}, "NaN or infinity in 1 rows, the first is row 3"),
        ("own", {}, "each of the 100 rows has its own environment"),
        ("one", {}, "environment 1 has too few rows: 1, and 7 are needed"),
        (
            "kinds",
            {},
            "the environment labels have the types NoneType, str, which cannot be sorted",
        ),
        ("lists", {}, "give one label per row"),
        ("huge", {}, r"column 1 of the observations reaches 1e\+200, and its squares overflow"),
        ("tiny", {}, "column 1 of the observations reaches 1e-200, and its squares overflow"),
        ("grown", {}, "the system is unstable and the controls are lost"),
        ("none", {"lags": 0}, "give 1 lag or more"),
        ("none", {"lags": True}, "lags is True"),
        ("none", {"rounds": -1}, "0 or more of the others"),
        ("none", {"noise": 0.1}, "noise 0.1"),
        ("none", {"lags": 2, "noise": True}, "noise cannot be combined with 2 lags"),
    ],
)
def test_bad_input(rng, change, options, says):
    y, labels = rng.normal(size=(100, 2)), np.repeat([0, 1], 50)
    if change == "alternate":
        labels = np.arange(100) % 2
    elif change == "short":
        y, labels = y[:54], labels[:54]
    elif change == "one":
        y, labels = y[:51], labels[:51]
    elif change == "kinds":
        labels = np.array([None] * 50 + ["a"] * 50, dtype=object)
    elif change == "lists":
        labels = [[0]] * 50 + [[0, 1]] * 50
    elif change in ("huge", "tiny"):
        y[:, 1] = np.append(y[:-1, 1] / 1e9, 1.0) * (1e200 if change == "huge" else 1e-200)
    elif change == "grown":
        y = np.tile(3.0 ** np.arange(50), 2)[:, None] + y
    elif change == "constant":
        y[:, 1] = 2.0
    elif change == "free":
        y = np.tile(0.9 ** np.arange(50), 2)[:, None] * [1.0, 2.0]
    elif change == "nan":
        y[3, 0] = np.nan
    elif change == "own":
        labels = np.arange(100)
    with pytest.raises(InputError, match=says):
        LTI(**options).fit(y, labels)


# The worlds


def test_a_system_obeys_its_equations_and_the_order_of_its_draws():
    for world in (LinearSystem(3, 4, 50, 5, mean="random"), DCMotor(4, 50, 5, mean="random")):
        sample = world.sample(seed=2)
        y, u = sample.observations, sample.latents
        assert sample.environments.tolist() == np.repeat(range(4), 50).tolist()
        for e in range(4):
            x = np.zeros(len(world.A))
            for t in range(50):
                close(y[50 * e + t], world.C @ x, 1e-9)
                x = world.A @ x + world.B @ u[50 * e + t]
    drawn, world = Fixture(3, 4, 5, 5, means=True), LinearSystem(3, 4, 5, 5, mean="random")
    for name in ("A", "B", "C", "variances", "means"):
        close(getattr(world, name), getattr(drawn, name), 1e-12)
    world, drawn = LinearSystem(3, 4, 5, variability="maximum"), Fixture(3, 4, 5, 0, maximum=True)
    close(world.variances, drawn.variances, 0)
    table = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 4.0]])
    chosen = LinearSystem(3, 2, 5, 5, variability=table, mean="random")
    close(chosen.variances, table, 0)
    assert chosen.identified[0].rung == "monomial"
    # Whatever the variances are, the rest of the world is that of its seed.
    close(chosen.A, LinearSystem(3, 2, 5, 5, mean="random").A, 0)
    close(chosen.means, LinearSystem(3, 2, 5, 5, mean="random").means, 0)


def test_controls_have_the_moments_they_say():
    plain = {"mean": "random", "input": "identity", "output": "identity"}
    world = LinearSystem(2, 3, 20_000, 1, noise=0.5, **plain)
    sample = world.sample(seed=0)
    for e in range(3):
        u = sample.latents[sample.environments == e]
        close(u.mean(axis=0), world.means[e], 0.02)
        close(u.var(axis=0), world.variances[e], 0.02)
    close(world.B, np.eye(2), 0)
    quiet = LinearSystem(2, 3, 20_000, 1, **plain)
    noise = sample.observations - quiet.sample(seed=0).observations
    # The noise is a variance, and not a standard deviation.
    close(noise.var(axis=0), [0.5, 0.5], 0.02)
    assert world.sample(30, seed=0).latents.shape == (30, 2)
    close(world.sample(30, np.random.default_rng(4)).latents, world.sample(30, 4).latents, 0)


def test_the_motor_is_the_exact_solution_over_a_step():
    from scipy.integrate import solve_ivp

    motor = DCMotor(1, 10)
    volts, start = 1.7, np.array([0.3, -0.2])
    flow = solve_ivp(
        lambda _, x: [-2 * x[0] + 0.02 * x[1] + 2 * volts, -x[0] - 10 * x[1]],
        (0, 0.01), start, rtol=1e-12, atol=1e-14,
    )  # fmt: skip
    close(motor.A @ start + motor.B[:, 0] * volts, flow.y[:, -1], 1e-9)


def test_promises_and_assumptions_follow_the_variances():
    random, most = LinearSystem(3, 4, 10), LinearSystem(3, 4, 10, variability="maximum")
    for world in (random, most, DCMotor(2, 10)):
        assert world.check().ok
        assert world.identified[0].rung == "monomial"
    assert most.check()["condition"].value == pytest.approx(1)
    two = LinearSystem(3, 2, 10)
    assert two.check().failed == ("variability", "condition")
    assert two.identified[0].rung == "monomial"
    for tied in (LinearSystem(3, 1, 10), LinearSystem(3, 2, 10, variability="maximum")):
        assert tied.identified[0].rung == "linear"
        with pytest.raises(InputError, match="are missing: it takes 4 rows or more"):
            tied.check().require()
    assert LinearSystem(3, 4, 10, noise=0.1).identified[0].rung is None
    assert random.check()["stability"].value == pytest.approx(0.9)


def test_states_that_no_control_reaches_are_counted():
    world = LinearSystem(3, 4, 10)
    object.__setattr__(world, "A", np.diag([0.5, 0.4, 0.3]))
    object.__setattr__(world, "B", np.array([[1.0, 0, 0], [1, 0, 0], [0, 0, 0]]))
    checked = world.check()
    assert checked.failed == ("controllability",)
    assert checked["controllability"].value == 2
    object.__setattr__(world, "C", np.array([[1.0, 1, 1], [0, 0, 0], [0, 0, 0]]))
    assert world.check()["observability"].ok


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: LinearSystem(0, 2, 10), "d is 0"),
        (lambda: LinearSystem(2, 0, 10), "environments is 0"),
        (lambda: LinearSystem(2, 2, True), "steps is True"),
        (lambda: LinearSystem(2, 2, 10, radius=1.0), "A is unstable"),
        (lambda: LinearSystem(2, 2, 10, noise=-1), "give a variance"),
        (lambda: LinearSystem(2, 2, 10, variability="some"), "choose one of random, maximum"),
        (lambda: LinearSystem(2, 3, 10, variability=np.ones((2, 3))), r"\(2, 3\); give variances"),
        (lambda: LinearSystem(2, 1, 10, variability=[[1.0, 0.0]]), "give variances above 0"),
        (lambda: LinearSystem(2, 2, 10, input="none"), "the input matrix is 'none'"),
        (lambda: LinearSystem(2, 2, 10, output="none"), "the output matrix is 'none'"),
        (lambda: LinearSystem(2, 2, 10, mean="none"), "a finite number, or 'random'"),
        (lambda: DCMotor(2, 10, mean=np.nan), "a finite number, or 'random'"),
        (lambda: DCMotor(0, 10), "environments is 0"),
        (lambda: LinearSystem(2, 3, 10).sample(10), "give a multiple of 3"),
    ],
)
def test_bad_worlds(make, says):
    with pytest.raises(InputError, match=says):
        make()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("d", "means", "maximum"),
    [*product((2, 3, 5, 8, 10), (False, True), (False,)), (8, True, True)],
)
def test_every_cell_of_the_published_table(d, means, maximum):
    """Within-environment MCC of 0.999 or more in every cell; published: .414 to 1.000."""
    for seed in range(5):
        system = Fixture(d, d + 1, 6000, seed, means=means, maximum=maximum)
        found = LTI().fit(system.y, system.labels)
        assert system.scores(found)[0] > 0.999
        assert found.identified_.all()
