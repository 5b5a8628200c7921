"""The units of the study of linear systems: our estimates, and those of the released code."""

from __future__ import annotations

import warnings
from itertools import accumulate as powers_of
from itertools import product, repeat
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from identikit._linalg import Array
from identikit.auditing import audit
from identikit.moments import accumulate
from identikit.recover import LTI, variability, within_correlation
from identikit.similarity import mcc
from identikit.studies._study import Record, Settings
from identikit.worlds import DCMotor, LinearSystem, Sample

#: B and C by the letters of the published table: I for the identity, G for a Gaussian matrix.
LETTERS = {"I": "identity", "G": "gaussian"}
#: The factor by which W is shrunk, to see whether an objective improves.
SHRUNK = 0.5
#: Of two environments with distinct ratios: from one control to the next.
RATIO = 8.0
#: Where transfer functions are compared: halfway round the unit circle.
POINTS = np.exp(1j * np.linspace(0.05, np.pi, 24))
#: A world and its sample with one seed would share their random numbers.
APART = 10_000

Row = dict[str, Any]


def drawn(world: LinearSystem | DCMotor) -> Sample:
    """The sample of a world, whose seed is its own."""
    return world.sample(seed=world.seed + APART)


def fitted(sample: Sample, **options: Any) -> LTI:
    """An LTI system estimated from a sample, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return LTI(**options).fit(sample.observations, sample.environments)


def line(d: int, seed: int, s: Settings) -> float:
    """MCC from one environment, which identifies nothing: the reference for every other MCC."""
    sample = drawn(LinearSystem(d, 1, s.steps, seed))
    return float(correlations(sample, fitted(sample).sources_)["within"])


def correlations(sample: Sample, sources: Array) -> Row:
    """MCC within environments, and pooled over them."""
    kept = np.isfinite(sources).all(axis=1)
    both = accumulate([sample.latents[kept], sources[kept]], folds=1, sample=0)
    within = within_correlation(sample.latents, sources, sample.environments)
    return {"within": within.value, "pooled": mcc(both).value}


def amari(product_: Array) -> float:
    """0 for a scaled permutation: what of W C B is beside the largest entries of rows and columns.

    The mean of Σ_j p_ij/max_j p_ij − 1 over rows and, after that, of the same over columns, divided
    by d − 1; of absolute values.
    """
    P, d = np.abs(product_), len(product_)
    P = P / P.max(axis=1, keepdims=True)
    columns = P.sum(axis=0) / P.max(axis=0) - 1
    return float(((P.sum(axis=1) - 1).sum() + columns.sum()) / (2 * d * (d - 1)))


def relative(found: ArrayLike, true: ArrayLike) -> float:
    """‖found − true‖ / ‖true‖, over all entries."""
    size = np.linalg.norm(np.ravel(true))
    return float(np.linalg.norm(np.ravel(found) - np.ravel(true)) / size)


def transition(world: LinearSystem | DCMotor) -> Array:
    """C A C⁻¹."""
    found: Array = world.C @ world.A @ np.linalg.inv(world.C)
    return found


def released(world: LinearSystem, sample: Sample) -> Row:
    """The optimum of the released objective, on its non-overlapping pairs (y_2k, y_2k+1).

    The objective is Σ_e Σ_t Σ_i (w_iᵀz_t − μ_ei)²/2v_ei with z_t = (y_{t+1}, y_t), without
    log |det W|: for each row of W, weighted least squares of the environments' means on z. If all
    means are 0, its optimum is W = 0, and gradient descent approaches it as
    w_i ∝ exp(−H_i time) w_i(0), where H_i = Σ_e S_e/v_ei and S_e are the second moments of z. MCC
    does not depend on scale, and is that of the eigenvector of H_i with the smallest eigenvalue.
    """
    k, steps = world.environments, world.steps // 2 * 2
    y, u = (a.reshape(k, world.steps, -1)[:, :steps] for a in (sample.observations, sample.latents))
    z = np.concatenate([y[:, 1::2], y[:, ::2]], axis=2)
    S, means = np.einsum("kti,ktj->kij", z, z) / z.shape[1], z.mean(axis=1)
    weights = 1 / world.variances
    H = np.tensordot(weights.T, S, 1)
    if world.means.any():
        goal = (weights * world.means).T @ means
        W = np.linalg.solve(H, goal[:, :, None])[:, :, 0]
    else:
        W = np.linalg.eigh(H)[1][:, :, 0]
    labels = np.repeat(np.arange(k), z.shape[1])
    taken = Sample(u[:, ::2].reshape(-1, world.d), z.reshape(-1, 2 * world.d), environments=labels)
    scores = correlations(taken, taken.observations @ W.T)
    return {f"released_{name}": value for name, value in scores.items()}


def objectives(world: LinearSystem, sample: Sample, W: Array) -> tuple[float, float]:
    """Of W: the released objective, and the log-likelihood, but for constants; means over steps."""
    u, labels = pairs(sample) @ W.T, sample.environments
    squares = (u - world.means[labels]) ** 2 / world.variances[labels]
    released = -0.5 * float(np.nanmean(squares, axis=0).sum())
    return released, released + float(np.linalg.slogdet(W[:, : world.d])[1])


def shrunk(world: LinearSystem, sample: Sample) -> Row:
    """The gain of both objectives if the true W is halved."""
    W = inverse_of(world)
    before, after = (objectives(world, sample, scale * W) for scale in (1.0, SHRUNK))
    return {"gain": after[0] - before[0], "gain_likelihood": after[1] - before[1]}


def inverse_of(world: LinearSystem) -> Array:
    """W with u_t = W (y_{t+1}, y_t)."""
    first = np.linalg.inv(world.C @ world.B)
    return np.hstack([first, -first @ transition(world)])


def cells(d: int, seed: int, s: Settings) -> Record:
    """A row of the published table, d + 1 environments: by our estimator, and as released."""
    level, rows = line(d, seed, s), []
    columns: dict[str, Row] = {
        f"{'μ=0' if mean == 0.0 else 'μ≠0'} {B}/{C}":
            {"mean": mean, "input": LETTERS[B], "output": LETTERS[C]}
        for mean, B, C in product((0.0, "random"), "IG", "IG")
    }  # fmt: skip
    columns["maximum"] = {"mean": "random", "variability": "maximum"}
    for name, column in columns.items():
        world = LinearSystem(d, d + 1, s.steps, seed, **column)
        sample = drawn(world)
        plain, found = fitted(sample, rounds=0), fitted(sample)
        true = transition(world)
        rows.append(
            {"seed": seed, "d": d, "cell": name}
            | correlations(sample, found.sources_)
            | {"line": level, "plain": correlations(sample, plain.sources_)["within"]}
            | {"amari": amari(found.unmixing_ @ world.C @ world.B)}
            | {"transition": relative(found.transition_, true)}
            | {"plain_transition": relative(plain.transition_, true)}
            | {"identified": float(found.identified_.mean())}
            | {"condition": variability(1 / world.variances).condition}
            | released(world, sample)
            | (shrunk(world, sample) if world.mean == 0.0 else {})
        )
    return Record(rows)


def numbers(seed: int, s: Settings) -> Record:
    """Few and many environments, with variances of several kinds; the verdict of the ladder.

    `found` and `mixed` are mean correlations of controls that are called identified, and of others.
    """
    few, many = s.d_random, s.d_maximum
    distinct = np.stack([np.ones(few), RATIO ** np.arange(few)])
    worlds: list[tuple[str, Any, int, int]] = [("distinct", distinct, few, 2)]
    for kind, d in (("random", few), ("maximum", many)):
        worlds += [(kind, kind, d, k) for k in sorted({1, 2, 3, d - 1, d, d + 1})]
    rows = []
    for kind, variances, d, k in worlds:
        sample = drawn(LinearSystem(d, k, s.steps, seed, variability=variances))
        found = fitted(sample)
        match = within_correlation(sample.latents, found.sources_, sample.environments)
        sure, each = found.identified_[match.columns[:, 1]], np.abs(match.correlations)
        kept = np.isfinite(found.sources_).all(axis=1)
        pair = audit([found.sources_[kept], sample.latents[kept]]).comparisons[0]
        rows.append(
            {"seed": seed, "variances": kind, "d": d, "environments": k, "short": d + 1 - k}
            | correlations(sample, found.sources_)
            | {"identified": float(sure.mean())}
            | {"found": float(each[sure].mean()) if sure.any() else None}
            | {"mixed": float(each[~sure].mean()) if not sure.all() else None}
            | {"group": pair.group, "error": pair.error, "rank": found.variability_.rank}
            | {"monomial": float(pair.group == "monomial")}
            | {"linear": float(pair.group in ("linear", "affine"))}
        )
    return Record(rows)


def conditions(seed: int, s: Settings) -> Record:
    """Many systems with d + 1 environments: condition number of Δ, estimated error, and mixing."""
    rows = []
    for place in range(s.systems):
        world = LinearSystem(s.d_random, s.d_random + 1, s.steps, seed * s.systems + place)
        sample = drawn(world)
        found = fitted(sample)
        P = found.unmixing_ @ world.C @ world.B * np.sqrt(world.variances.mean(axis=0))
        P /= np.linalg.norm(P, axis=1, keepdims=True)
        leak = float(np.sqrt((1 - (P**2).max(axis=1)).mean()))
        predicted = float(np.sqrt((found.errors_**2).mean()))
        rows.append(
            {"seed": seed, "system": place, **correlations(sample, found.sources_)}
            | {"condition": variability(1 / world.variances).condition}
            | {"leak": leak, "predicted": predicted, "log_ratio": float(np.log10(leak / predicted))}
        )
    return Record(rows)


def noisy(d: int, seed: int, s: Settings) -> Record:
    """Observation noise, with five ways of estimating the controls.

    The released code uses the standard deviation as a variance. The "true system" is inverted as if
    there were no noise; the "best reading" is the best linear map of (y_{t+1}, y_t).
    """
    level, rows = line(d, seed, s), []
    for nominal in s.noise:
        world = LinearSystem(d, d + 1, s.steps, seed, mean="random", noise=nominal**0.5)
        sample = drawn(world)
        true = transition(world)
        known = {"seed": seed, "d": d, "nominal": nominal, "variance": world.noise, "line": level}
        for way, options in (("least squares", {}), ("instruments", {"noise": True})):
            found = fitted(sample, **options)
            rows.append(
                {**known, "way": way, **correlations(sample, found.sources_)}
                | {"amari": amari(found.unmixing_ @ world.C @ world.B)}
                | {"transition": relative(found.transition_, true)}
            )
        readings = {"true system": inverse_of(world), "best reading": best_reading(sample)}
        for way, W in readings.items():
            rows.append({**known, "way": way, **correlations(sample, pairs(sample) @ W.T)})
        scores = released(world, sample)
        rows.append({**known, "way": "released"} | {k[9:]: v for k, v in scores.items()})
    return Record(rows)


def pairs(sample: Sample) -> Array:
    """(y_{t+1}, y_t) of every row; NaN in the last one of an environment, which has no answer."""
    y, labels = sample.observations, sample.environments
    z = np.hstack([np.roll(y, -1, axis=0), y])
    z[np.append(labels[1:] != labels[:-1], True)] = np.nan
    return z


def best_reading(sample: Sample) -> Array:
    """Least squares of the controls on pairs, both centred within environments: (d, 2d)."""
    z, kept = pairs(sample), np.isfinite(pairs(sample)).all(axis=1)
    z, u, labels = z[kept], sample.latents[kept].copy(), sample.environments[kept]
    for label in np.unique(labels):
        own = labels == label
        z[own] -= z[own].mean(axis=0)
        u[own] -= u[own].mean(axis=0)
    found: Array = np.linalg.lstsq(z, u, rcond=None)[0].T
    return found


def systems(d: int, seed: int, s: Settings) -> Record:
    """Markov parameters, A, B, C and transfer function beside the true ones, order and scale free.

    The similarity transform T takes the true observability matrix to that of the realisation.
    """
    rows = []
    for environments in (1, d + 1):
        world = LinearSystem(d, environments, s.steps, seed)
        sample = drawn(world)
        found = fitted(sample)
        match = within_correlation(sample.latents, found.sources_, sample.environments)
        order = match.columns[np.argsort(match.columns[:, 0]), 1]
        true = np.stack([world.C @ power @ world.B for power in powers(world.A, 2 * d)])
        markov = found.markov_[:, :, order]
        # The scale of a control that fits its Markov parameters best.
        scale = (markov * true).sum(axis=(0, 1)) / (markov**2).sum(axis=(0, 1))
        space = found.state_space()
        seen, shown = (
            np.vstack([C @ power for power in powers(A, d)])
            for A, C in ((world.A, world.C), (space.A, space.C))
        )
        T = np.linalg.lstsq(shown, seen, rcond=None)[0]
        back = np.linalg.inv(T)
        inner = np.linalg.inv(POINTS[:, None, None] * np.eye(d) - world.A)
        response = found.transfer_function(POINTS)[..., order] * scale
        matrices = {
            "A": relative(back @ space.A @ T, world.A),
            "B": relative(back @ space.B[:, order] * scale, world.B),
            "C": relative(space.C @ T, world.C),
        }
        rows.append(
            {"seed": seed, "d": d, "environments": environments, "short": d + 1 - environments}
            | {"markov": relative(markov * scale, true), **matrices}
            | {"realisation": max(matrices.values())}
            | {"transfer": relative(response, world.C @ inner @ world.B)}
        )
    return Record(rows)


def powers(A: Array, count: int) -> list[Array]:
    """I, A, A², …"""
    return list(powers_of(repeat(A, count - 1), lambda power, A: A @ power, initial=np.eye(len(A))))


def motors(seed: int, s: Settings) -> Record:
    """The DC motor with means of 0 and random ones, in three environments and in one."""
    rows = []
    means: tuple[float | str, ...] = (0.0, "random")
    for mean, environments in product(means, (1, 3)):
        motor = DCMotor(environments, s.motor_steps, seed, mean=mean)
        sample = drawn(motor)
        found = fitted(sample)
        rows.append(
            {"seed": seed, "mean": str(mean), "environments": environments}
            | correlations(sample, found.sources_)
            | {"transition": relative(found.transition_, motor.A)}
        )
    return Record(rows)


# The published tables, cell by cell. B and C are the identity (I) or a Gaussian matrix (G).
DIMENSIONS = (2, 3, 5, 8, 10)
#: Table 1: MCC, mean and standard deviation over five runs, by column; a pair for each dimension.
TABLE_1 = {
    "μ≠0 I/I": ((0.866, 0.033), (0.901, 0.054), (0.892, 0.057), (0.943, 0.006), (0.939, 0.011)),
    "μ≠0 I/G": ((0.767, 0.158), (0.910, 0.061), (0.929, 0.025), (0.940, 0.008), (0.915, 0.023)),
    "μ≠0 G/I": ((0.730, 0.191), (0.916, 0.044), (0.928, 0.026), (0.941, 0.009), (0.925, 0.017)),
    "μ≠0 G/G": ((0.697, 0.090), (0.861, 0.062), (0.911, 0.045), (0.867, 0.039), (0.924, 0.042)),
    "μ=0 I/I": ((0.633, 0.104), (0.659, 0.201), (0.657, 0.116), (0.585, 0.144), (0.708, 0.042)),
    "μ=0 I/G": ((0.675, 0.132), (0.618, 0.241), (0.618, 0.079), (0.479, 0.129), (0.611, 0.043)),
    "μ=0 G/I": ((0.734, 0.158), (0.633, 0.110), (0.620, 0.025), (0.523, 0.016), (0.604, 0.063)),
    "μ=0 G/G": ((0.725, 0.115), (0.667, 0.109), (0.539, 0.078), (0.414, 0.031), (0.525, 0.097)),
    "maximum": ((0.968, 0.055), (1.000, 0.000), (0.995, 0.009), (0.977, 0.011), (0.996, 0.006)),
}
#: The same runs on unshuffled batches, from the results in the authors' repository (Table 1 is of
#: the last training batch); None where there is none.
VALIDATION = {
    "maximum": (0.864, 0.997, 0.824, 0.436, 0.733),
    "μ≠0 G/G": (0.596, 0.792, 0.745, 0.663, None),
}
#: Table 2: G/G, random means, three runs; by the noise variance that is named there.
NOISE = (0.0, 1e-4, 1e-2, 1e-1, 1.0)
TABLE_2 = {
    2: ((0.627, 0.090), (0.679, 0.162), (0.643, 0.068), (0.590, 0.034), (0.625, 0.038)),
    3: ((0.886, 0.057), (0.823, 0.052), (0.718, 0.168), (0.637, 0.194), (0.796, 0.022)),
}


def table_1() -> pd.DataFrame:
    """One row per cell of Table 1: cell (its column), d, published, published_sd, validation."""
    rows = [
        (column, d, *cell, other)
        for column, cells in TABLE_1.items()
        for d, cell, other in zip(DIMENSIONS, cells, VALIDATION.get(column, [None] * len(cells)))
    ]
    return pd.DataFrame(rows, columns=["cell", "d", "published", "published_sd", "validation"])


def table_2() -> pd.DataFrame:
    """One row per cell of Table 2: d, nominal, published, published_sd."""
    rows = [
        (d, nominal, *cell) for d, cells in TABLE_2.items() for nominal, cell in zip(NOISE, cells)
    ]
    return pd.DataFrame(rows, columns=["d", "nominal", "published", "published_sd"])
