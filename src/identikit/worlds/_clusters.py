"""Clusters on the sphere: a world in which a classifier, or DIET, finds the latents."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.family import sphere_conditions
from identikit.worlds import _sphere as sphere
from identikit.worlds._mixing import Mixing, whole
from identikit.worlds._world import Assumption, Promise, Sample, World, one_of

#: Distributions of z given its cluster; all but the first are projected and violate the theorem.
LAWS = ("vmf", "laplace", "normal", "truncated")
CENTRES = ("uniform", "laplace", "normal")
#: Cases of Reizinger et al. 2025: which of f and of the weights W have unit length.
CASES = {
    "supervised": "a classifier with f and W free",
    "C4": "DIET with f and W free",
    "C3": "DIET with W normalised",
    "C2": "DIET with f normalised",
    "C1": "DIET with f and W normalised and a learnable temperature",
}


@dataclass(frozen=True, eq=False)
class SphereClusters(World):
    """Latents on the unit sphere around class vectors: p(z|c) ∝ exp(κ ⟨v_c, z⟩).

    A network trained by cross-entropy on the classes, or on one label per instance (DIET), finds z
    up to a linear map if the v_c are an affine generator system, which takes at least d + 1 of them
    (Reizinger et al. 2025). Instance i belongs to class i mod `classes`, and each of its draws is
    another view of it.

    Parameters
    ----------
    d : int
        The number of latents, which lie on the unit sphere in d dimensions.
    classes : int
        How many class vectors there are.
    kappa : float
        Concentration around a class vector.
    mixing : Mixing, optional
        The map from latents to observations; by default the observations are the latents.
    seed : int
        Seed for the class vectors.
    law : {"vmf", "laplace", "normal", "truncated"}
        The distribution of z given its class. The last three add noise of that distribution to v_c
        ("truncated": Laplace, truncated at one scale) and project, which violates the theorem.
    scale : float
        The scale of that noise.
    instances : int, optional
        The number of instance labels of DIET; at least as many as classes.
    centres : {"uniform", "laplace", "normal"}
        How the class vectors are drawn: over the whole sphere, or around the first axis.
    label_noise : float
        The share of labels and instances that are drawn at random.

    Examples
    --------
    >>> world = SphereClusters(5, classes=100, kappa=10.0)
    >>> world.sample(1000, seed=1)
    Sample(1,000 rows; latents, observations, labels)
    >>> world.identified[0].learner, world.identified[0].rung
    ('supervised', 'linear')
    """

    d: int
    classes: int
    kappa: float
    mixing: Mixing | None = None
    seed: int = 0
    law: str = "vmf"
    scale: float = 1.0
    instances: int | None = None
    centres: str = "uniform"
    label_noise: float = 0.0
    #: The true v_c, (classes, d).
    vectors: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        whole(self.d, "d", 2)
        one_of(self.law, LAWS, "the law of the latents")
        one_of(self.centres, CENTRES, "the law of the class vectors")
        if isinstance(self.classes, bool) or self.classes < 2:
            raise InputError(f"classes is {self.classes}; clusters need 2 or more")
        if not 0 < self.kappa < np.inf:
            raise InputError(f"kappa is {self.kappa}; a concentration is a finite number above 0")
        if not 0 < self.scale < np.inf:
            raise InputError(f"the scale is {self.scale}; give a finite number above 0")
        if not 0 <= self.label_noise <= 1:
            raise InputError(f"the label noise is {self.label_noise}; give a share from 0 to 1")
        if self.instances is not None and self.instances < self.classes:
            raise InputError(
                f"{self.instances} instances leave some of {self.classes} classes empty; give at "
                "least as many instances as classes"
            )
        self._fits(self.d)
        rng = np.random.default_rng(self.seed)
        vectors = sphere.uniform(self.classes, self.d, rng)
        if self.centres != "uniform":
            first = np.eye(1, self.d)
            noise = rng.laplace if self.centres == "laplace" else rng.normal
            vectors = sphere.project(first + noise(size=vectors.shape))
        self._set(vectors=vectors)
        affine = sphere_conditions(vectors).affine
        if not affine.ok:
            warnings.warn(
                f"the latents are not identified by these classes: {affine.sentence}", stacklevel=3
            )

    def _draw(self, rows: int, rng: np.random.Generator) -> Sample:
        count = self.classes if self.instances is None else self.instances
        drawn = rng.integers(count, size=rows)
        true = drawn % self.classes
        z = self._latents(self.vectors[true], rng)
        told = drawn
        if self.label_noise:
            random = rng.integers(count, size=rows)
            told = np.where(rng.random(rows) < self.label_noise, random, drawn)
        if self.instances is None:
            return Sample(z, self._seen(z), labels=told)
        return Sample(z, self._seen(z), labels=true, instances=told)

    def _latents(self, v: Array, rng: np.random.Generator) -> Array:
        if self.law == "vmf":
            return sphere.von_mises_fisher(v, self.kappa, rng)
        if self.law == "normal":
            return sphere.project(v + self.scale * rng.standard_normal(v.shape))
        # Inverse-transform sampling, so that truncation means truncating the uniform numbers.
        reach = 1.0 if self.law == "laplace" else 1 - np.exp(-1.0)
        uniform = rng.uniform(-reach, reach, size=v.shape)
        noise = -np.sign(uniform) * np.log1p(-np.abs(uniform))
        return sphere.project(v + self.scale * noise)

    @property
    def identified(self) -> tuple[Promise, ...]:
        """What theory promises: the rung for each case, if the class vectors are diverse enough."""
        if self.law != "vmf":
            why = f"the latents are {self.law} around their class and not von Mises–Fisher"
            return tuple(Promise(case, None, f"{what}: {why}") for case, what in CASES.items())
        found = sphere_conditions(self.vectors)
        promises = []
        for case, what in CASES.items():
            promise = found.identified(case)
            promises.append(Promise(case, promise.latents, f"{what}: {promise.why}"))
        return tuple(promises)

    def _assumptions(self, rows: int, seed: int) -> list[Assumption]:  # noqa: ARG002
        affine = sphere_conditions(self.vectors).affine
        is_vmf, noise = self.law == "vmf", self.label_noise
        law = "von Mises–Fisher" if is_vmf else f"{self.law}, where theory needs von Mises–Fisher"
        law = f"the law of z given its class is {law}"
        wrong = f"{noise:.0%} of the labels are random, and theory assumes none"
        right = "every label is right" if noise == 0 else wrong
        return [
            Assumption("law", is_vmf, float(is_vmf), "vmf", law),
            Assumption("diversity", affine.ok, affine.rank, f"{affine.needed}", affine.sentence),
            Assumption("labels", noise == 0, noise, "0", right),
        ]
