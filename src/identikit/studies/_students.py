"""A teacher, students that learn from its labels, and all pairs of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.auditing import audit_models
from identikit.family import SoftmaxModel, distances
from identikit.moments import accumulate
from identikit.similarity import cca
from identikit.studies._angles import points, sectors
from identikit.studies._study import Record, Settings
from identikit.studies._torch import Tensor, learn, torch

M, HIDDEN = 2, 64
# Seeds that no student has: of the teacher, and of the points on which models are compared.
TEACHER, TEST = 2**20, 2**21


def by_angle(rows: int, rng: np.random.Generator, settings: Settings) -> tuple[Tensor, Tensor]:
    """Points, and the sectors that they lie in."""
    x = points(rows, rng, settings.noise)
    return torch.from_numpy(x), torch.from_numpy(sectors(x, settings.classes, 2 * np.pi))


def by_teacher(
    rows: int, rng: np.random.Generator, settings: Settings, teacher: learn.SoftmaxNet
) -> tuple[Tensor, Tensor]:
    """Points with labels of the teacher: drawn from its softmax, or its most likely ones."""
    x = torch.from_numpy(points(rows, rng, settings.noise))
    with torch.no_grad():
        logits = teacher.f(x) @ teacher.g().T
    if settings.labels == "argmax":
        return x, logits.argmax(1)
    # The label at which the distribution function passes a uniform number.
    steps = logits.softmax(1).cumsum(1)[:, :-1].contiguous()
    uniform = torch.from_numpy(rng.random((rows, 1), dtype=np.float32))
    return x, torch.searchsorted(steps, uniform).squeeze(1)


def build(settings: Settings) -> learn.SoftmaxNet:
    """f is 22-64-64-2, and g is 18-64-64-2 on one-hot labels."""
    g = learn.MLP([settings.classes, HIDDEN, HIDDEN, M], init="he")
    f = learn.MLP([2 + settings.noise, HIDDEN, HIDDEN, M], init="he")
    return learn.SoftmaxNet(f, learn.OneHot(settings.classes, g))


def trained(sample: Any, steps: int, settings: Settings, **kwargs: Any) -> learn.Run:
    """Train by maximum likelihood on points that are new at every step."""
    batches = learn.fresh(partial(sample, settings=settings), settings.batch)
    return learn.train(partial(build, settings), learn.supervised, batches, steps, **kwargs)


def held_out_points(settings: Settings) -> NDArray[np.float32]:
    """The inputs on which all models are compared."""
    return points(settings.rows, np.random.default_rng(TEST), settings.noise)


def fit_teacher(settings: Settings, **kwargs: Any) -> Record:
    """The teacher's weights, its accuracy and its mean entropy: a unit of work."""
    steps, lr = settings.teacher_steps, settings.teacher_lr
    run = trained(by_angle, steps, settings, seeds=(TEACHER,), lr=lr, **kwargs)
    x = held_out_points(settings)
    logs = run.model(TEACHER, torch.from_numpy(x)).log_prob()
    right = logs.argmax(axis=1) == sectors(x, settings.classes, 2 * np.pi)
    entropy = -(np.exp(logs) * logs).sum(axis=1).mean()
    weights = {name: w.numpy() for name, w in run.net(TEACHER).state_dict().items()}
    return Record([{"accuracy": right.mean(), "entropy": entropy}], weights)


def teach(lr: float, folder: str, weights: dict[str, Array], settings: Settings) -> Record:
    """Train the students of one learning rate (a unit of work).

    The arrays are f (snapshots, seeds, rows, M) and g (snapshots, seeds, classes, M). A row has the
    KL divergence from the teacher, and the mean CCA of f with the plain input, with another seed's
    untrained f, and with the teacher's f.
    """
    teacher = build(settings)
    teacher.load_state_dict({name: torch.from_numpy(w) for name, w in weights.items()})
    steps, count = snapshots(settings), settings.seeds
    run = trained(
        partial(by_teacher, teacher=teacher), steps[-1], settings,
        seeds=range(count), lr=lr, snapshots=steps, folder=folder,
    )  # fmt: skip
    plain = held_out_points(settings)
    x = torch.from_numpy(plain)
    f = np.stack([list(run.embed(x, step).values()) for step in steps])
    g = np.stack([list(run.unembed(None, step).values()) for step in steps])
    with torch.no_grad():
        truth = SoftmaxModel(teacher.f(x).numpy(), teacher.g().numpy(), name="teacher")
    rows = []
    for (at, step), seed in ((each, seed) for each in enumerate(steps) for seed in range(count)):
        student = SoftmaxModel(f[at, seed], g[at, seed], name=f"seed {seed}")
        untrained = f[0, (seed + 1) % count]
        moments = accumulate([student.f, plain[:, :2], untrained, truth.f])
        names = ("cca_input", "cca_untrained", "cca_teacher")
        similar = {name: cca(moments, 0, other).mean for other, name in enumerate(names, 1)}
        kl = distances(truth, student).kl
        rows.append({"lr": lr, "step": step, "seed": seed, "kl": kl, **similar})
    return Record(rows, {"f": f, "g": g})


def snapshots(settings: Settings) -> list[int]:
    """Steps at which students are compared: before training, and those of the preset."""
    return sorted({0, *settings.snapshots})


def compare(lr: float, step: int, f: Array, g: Array) -> Record:
    """Every pair of students at one snapshot, as `identikit models` audits them: a unit of work."""
    models = [SoftmaxModel(*both, name=str(seed)) for seed, both in enumerate(zip(f, g))]
    labels = accumulate(list(g))
    rows = []
    for pair in audit_models(models).pairs:
        a, b, found = int(pair.a), int(pair.b), pair.embedding
        row: dict[str, Any] = {"lr": lr, "step": step, "a": a, "b": b, "cca_f": found.cca.mean}
        row |= {"cca_f_held_out": found.cca.held_out, "cca_g": cca(labels, a, b).mean}
        row |= {key: getattr(pair.gauge, key) for key in ("kappa", "kappa_raw", "logit_gap")}
        row |= {"kl": pair.distances.kl, "group": found.group, "error": found.error}
        row |= {"low": found.interval[0], "high": found.interval[1], "finding": pair.finding}
        rows.append(row)
    return Record(rows)
