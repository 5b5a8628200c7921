"""Clusters on the sphere and images of shapes: classifiers of them, compared with the truth."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from identikit._linalg import Array
from identikit.factors import r2
from identikit.family import (
    SoftmaxModel,
    diet_floor,
    other_solution,
    sphere_conditions,
    supervised_floor,
)
from identikit.studies._dsprites import SHAPES, SIZES, classes_of, images, truth
from identikit.studies._study import Record, Settings
from identikit.studies._torch import learn, nn, torch
from identikit.worlds import LeakyReLU, Sample, SphereClusters, score

#: Where the bound on classes is tried: 9 in 3 dimensions, with clusters that overlap.
SMALL: dict[str, Any] = {"d": 3, "kappa": 3.0, "case": "C3"}


@dataclass(frozen=True)
class Arm:
    """A world and a learner in it; the defaults are those of the paper's first row."""

    d: int = 5
    classes: int = 100
    kappa: float = 10.0
    law: str = "vmf"
    noise: float = 0.0
    case: str = "C4"
    diet: bool = False

    def __str__(self) -> str:
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        return ",".join(f"{k}={v}" for k, v in own.items() if v != getattr(Arm, k)) or "first"

    def world(self, seed: int, settings: Settings) -> SphereClusters:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # too few classes are a control
            return SphereClusters(
                self.d, self.classes, self.kappa, seed=seed, law=self.law, label_noise=self.noise,
                mixing=LeakyReLU(self.d, layers=4, seed=seed, draws=settings.draws),
                instances=settings.instances * self.classes if self.diet else None,
            )  # fmt: skip

    def build(self, settings: Settings) -> learn.SoftmaxNet:
        """The network; without batch norm, a short training does not reach a low loss."""
        hidden = [width * (self.d if settings.per_d else 1) for width in settings.hidden]
        encoder = learn.MLP([self.d, *hidden, self.d], "leaky_relu", batch_norm=True, init="he")
        labels = self.classes * (settings.instances if self.diet else 1)
        return learn.case_net(self.case, encoder, labels, self.d)


def arms(s: Settings) -> list[Arm]:
    """One change at a time from the first row, for classes and for instances."""
    found = [Arm(), *(Arm(d=d) for d in s.dims), *(Arm(classes=c) for c in s.classes)]
    found += [Arm(kappa=kappa) for kappa in s.kappas] + [Arm(law=law) for law in s.laws]
    found += [Arm(noise=r) for r in s.noises] + [Arm(case=case, diet=True) for case in s.cases]
    found += [Arm(d=d, diet=True) for d in s.diet_dims]
    found += [Arm(kappa=kappa, diet=True) for kappa in s.diet_kappas]
    found += [Arm(classes=c, **SMALL) for c in s.quadric]
    return list(dict.fromkeys(found))


def measure(arm: Arm, settings: Settings, first: int = 0) -> Record:
    """Train one network per seed and compare it with the truth on new data (a unit of work)."""
    worlds = {seed: arm.world(seed, settings) for seed in range(first, first + settings.seeds)}

    def draw(world: SphereClusters, rows: int, rng: np.random.Generator) -> tuple[Any, Any]:
        sample = world.sample(rows, rng).torch()
        return sample.observations, sample.instances if arm.diet else sample.labels

    batches = {
        seed: learn.fresh(partial(draw, own), settings.batch) for seed, own in worlds.items()
    }
    run = learn.train(
        partial(arm.build, settings), learn.diet if arm.diet else learn.supervised,
        lambda step, seed: batches[seed](step, seed), settings.steps, seeds=list(worlds),
        lr=settings.lr, schedule=settings.schedule,
    )  # fmt: skip
    rows = []
    for seed, world in worlds.items():
        sample = world.sample(settings.test, np.random.default_rng([seed, 1]))
        model = run.model(seed, sample.torch().observations)
        rows.append(asdict(arm) | {"seed": seed} | compared(arm, world, sample, model))
    return Record(rows)


def compared(
    arm: Arm, world: SphereClusters, sample: Sample, model: SoftmaxModel
) -> dict[str, Any]:
    """Compare a trained model with the truth.

    `r2` is R² of z from f, `observed` that from x, `missing` that along directions that the
    differences of the v_c do not span, `weights` that of v from w. `spread` and `off` are of the
    singular values of the map from f to z, in units of the theorem's: 1/κ, or 1 for unit f.
    """
    z, f, w, v = sample.latents, model.f.astype(float), model.g.astype(float), world.vectors
    floor = np.nan
    if arm.law == "vmf" and arm.diet:
        floor = diet_floor(v, arm.kappa, z, len(w)).value
    elif arm.law == "vmf":
        floor = supervised_floor(v, arm.kappa, z, noise=arm.noise).value
    labels = sample.instances if arm.diet else sample.labels
    scales = np.linalg.svd(np.linalg.lstsq(f, z, rcond=None)[0], compute_uv=False)
    scales *= 1.0 if arm.case in ("C1", "C2") else arm.kappa
    # The directions that the differences of the v_c do not span come last.
    turned = z @ np.linalg.svd(v - v.mean(axis=0))[2].T
    rank = sphere_conditions(v).affine.rank
    true = v[np.arange(len(w)) % arm.classes]
    return {
        "r2": r2(f, z, permutations=1).value,
        "observed": r2(sample.observations, z, permutations=1).value,
        "missing": r2(f, turned[:, rank:], permutations=1).value if rank < arm.d else np.nan,
        "weights": r2(w, true, preset="reference", permutations=1).value,
        "loss": -float(model.log_prob()[np.arange(len(z)), labels].mean()),
        "floor": floor,
        "spread": float(np.ptp(scales)),
        "off": float(np.abs(scales - 1).mean()),
        "beta": float(np.linalg.norm(w, axis=1).mean()) if arm.case == "C1" else np.nan,
        "rung": score(f, z).group if arm.case != "C4" else None,
    }


def another(classes: int, seed: int) -> dict[str, Any]:
    """Another optimum of C3, if there is one: the rank, and its deviation from optimality."""
    world = SphereClusters(SMALL["d"], classes, SMALL["kappa"], seed=seed)
    v, z, found = world.vectors, world.sample(200, seed).latents, other_solution(world.vectors)
    quadric = sphere_conditions(v).quadric
    row = {"classes": classes, "seed": seed, "rank": quadric.rank, "needed": quadric.needed}
    if found is None:
        return row | {"gap": np.nan, "spread": 0.0}
    M, b = found
    w = v @ M.T + b
    other = SoftmaxModel(world.kappa * z @ np.linalg.inv(M), w).log_prob()
    gaps = other - SoftmaxModel(z, world.kappa * v).log_prob(), np.linalg.norm(w, axis=1) - 1
    spread = float(np.ptp(np.linalg.svd(M, compute_uv=False)))
    return row | {"gap": max(float(np.abs(each).max()) for each in gaps), "spread": spread}


#: What the classifier is never told.
UNTOLD = ("scale", "posX", "posY")


def shape_net(pixels: int, width: int) -> learn.SoftmaxNet:
    """Three layers with batch norm and ReLU, and a linear classifier of the shape."""
    layers = learn.MLP([pixels, width, width, width], batch_norm=True, init="he")
    f = nn.Sequential(layers, nn.BatchNorm1d(width), nn.ReLU())
    return learn.SoftmaxNet(f, learn.Lookup(len(SHAPES), width), bias=len(SHAPES))


def decode(seed: int, settings: Settings) -> Record:
    """Train on shapes, and decode the other factors from pixels and features (a unit of work).

    A row has Pearson's r of a linear probe without an intercept (as published) and with one, on
    images that neither the network nor the probe has seen.
    """
    known = settings.images
    drawn = np.random.default_rng([seed, 2]).choice(
        int(np.prod(SIZES)), known + known // 4, replace=False
    )
    classes = classes_of(drawn)
    x, shape = torch.from_numpy(images(classes)), torch.from_numpy(classes[:, 0])
    run = learn.train(
        partial(shape_net, x.shape[1], settings.features), learn.supervised,
        learn.shuffled((x[:known], shape[:known]), settings.image_batch), settings.image_steps,
        seeds=(seed,), lr=settings.image_lr, schedule="cosine", snapshots=(0,),
    )  # fmt: skip
    sources: dict[str, Any] = {"pixels": x.numpy()}
    for source, step in (("untrained", 0), ("trained", settings.image_steps)):
        sources[source] = run.embed(x, step)[f"seed {seed}"]
    guessed = run.model(seed, x[known:]).log_prob().argmax(axis=1)
    factors = truth(classes)[1][list(UNTOLD)].to_numpy()
    # Around zero: the published readings have no intercept, and their pixels' r is that of these.
    factors = factors - factors[:known].mean(axis=0)
    rows = []
    for source, features in sources.items():
        plain, shifted = (correlations(features, factors, known, shift) for shift in (False, True))
        for factor, r, with_intercept in zip(UNTOLD, plain, shifted):
            row = {"seed": seed, "source": source, "factor": factor, "r": r}
            rows.append(row | {"with_intercept": with_intercept})
    accuracy = float(np.mean(guessed == classes[known:, 0]))
    return Record([row | {"accuracy": accuracy} for row in rows])


def correlations(features: Array, factors: Array, known: int, shift: bool) -> list[float]:
    """Pearson's r of factors with a fit to the first `known` rows, on the rows after them."""
    x = features.astype(np.float64)
    if shift:
        x = np.column_stack([x, np.ones(len(x))])
    guesses = x[known:] @ np.linalg.lstsq(x[:known], factors[:known], rcond=None)[0]
    return [float(np.corrcoef(*pair)[0, 1]) for pair in zip(guesses.T, factors[known:].T)]
