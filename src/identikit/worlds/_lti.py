"""Linear systems driven by unobserved controls, whose variances differ by environment."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array, svd
from identikit.errors import InputError
from identikit.family import variability
from identikit.worlds._mixing import whole
from identikit.worlds._world import Assumption, Promise, Sample, World, one_of, same_in_each

VARIABILITIES = ("random", "maximum")
MATRICES = ("gaussian", "identity")
#: For maximum variability: the variance of all controls, and what is added to one of them.
QUIET, LOUD = 1e-4, 0.9999
#: Ratios of variances that differ by less than this, relatively, count as equal.
SAME_RATIO = 1e-8
#: Directions of a block below this share of its norm have been reached before, up to rounding.
NOTHING_NEW = 1e-10
#: The motor of Rajendran et al. 2024: resistance 1, inductance 0.5, K and J 0.01, damping 0.1. Its
#: state is (current, speed), and its control is the voltage. In textbooks the speed has the
#: opposite sign.
MOTOR = np.array([[-2.0, 0.02], [-1.0, -10.0]])
VOLTAGE = np.array([[2.0], [0.0]])
MOTOR_STEP = 0.01


class ControlledSystem(World):
    """Base class of systems x_{t+1} = A x_t + B u_t, y_t = C x_t + ε_t with x_0 = 0.

    Subclasses are frozen data classes that set these in `__post_init__`; `variances` and `means`
    are those of the controls in each environment, (environments, d_u).
    """

    environments: int
    steps: int
    noise: float = 0.0
    A: Array
    B: Array
    C: Array
    variances: Array
    means: Array

    def sample(self, rows: int | None = None, seed: int | np.random.Generator = 0) -> Sample:
        """Draw one trajectory per environment, one after the other.

        `latents` are the controls u_t, and `observations` are the y_t in the same row, so that the
        effect of a control is seen in the next row; `environments` are the labels.

        Parameters
        ----------
        rows : int, optional
            The total number of rows, equally many in each environment: a multiple of their number.
            By default environments × steps.
        seed : int or Generator
            Seed for the draw.
        """
        total = self.environments * self.steps if rows is None else rows
        return super().sample(total, seed)

    def _draw(self, rows: int, rng: np.random.Generator) -> Sample:
        k = self.environments
        steps = same_in_each(rows, k, f"all {k} environments have equally many rows")
        scale = np.sqrt(self.variances)
        u = np.stack([rng.standard_normal((steps, scale.shape[1])) for _ in range(k)])
        u = self.means[:, None] + scale[:, None] * u
        pushed, turned = (u @ self.B.T).transpose(1, 0, 2), self.A.T
        x = np.zeros((steps, k, len(self.A)))
        for t in range(steps - 1):
            x[t + 1] = x[t] @ turned + pushed[t]
        y = x.transpose(1, 0, 2).reshape(rows, -1) @ self.C.T
        if self.noise:
            y += np.sqrt(self.noise) * rng.standard_normal(y.shape)
        labels = np.repeat(np.arange(k), steps)
        return Sample(u.reshape(rows, -1), y, environments=labels)

    @property
    def identified(self) -> tuple[Promise, ...]:
        """What `recover.LTI` can find about the controls."""
        if self.noise:
            why = "observation noise remains in the recovered controls; the system is identified"
            return (Promise("lti", None, why),)
        tied = tied_variances(self.variances)
        if not tied:
            why = (
                "no two controls have the same ratio of variances in all environments (Rajendran "
                "et al. 2024 require differences of precisions of full rank, which is stronger)"
            )
            return (Promise("lti", "monomial", why),)
        first, second = tied[0]
        why = (
            f"controls {first} and {second} have the same ratio of variances in all environments: "
            "such Gaussian controls are identified only up to a linear map among them"
        )
        return (Promise("lti", "linear", why),)

    def _assumptions(self, rows: int, seed: int) -> list[Assumption]:  # noqa: ARG002
        """Stability, controllability, observability and variability, from the true parameters."""
        radius = float(np.abs(np.linalg.eigvals(self.A)).max())
        varied = variability(1 / self.variances)
        needed, ok = len(self.A), varied.rank == varied.needed
        reached, seen = _reach(self.A, self.B), _reach(self.A.T, self.C.T)
        says, limit = f"A has spectral radius {radius:.3g}", f"≤ {varied.largest_condition:g}"
        reach = f"the controls reach {reached} of {needed} states"
        shows = f"the observations show {seen} of {needed} states"
        return [
            Assumption("stability", radius < 1, radius, "< 1", says),
            Assumption("controllability", reached == needed, reached, f"{needed}", reach),
            Assumption("observability", seen == needed, seen, f"{needed}", shows),
            Assumption("variability", ok, varied.rank, f"{varied.needed}", varied.sentence),
            Assumption("condition", ok and varied.ok, varied.condition, limit, varied.sentence),
        ]


@dataclass(frozen=True, eq=False)
class LinearSystem(ControlledSystem):
    """A random linear system of d states, d independent Gaussian controls and d observations.

    A has normal entries and is scaled to the given spectral radius. If the variances of the
    controls vary enough over environments, the controls are identified up to order and scale. These
    are the synthetic systems of Rajendran, Reizinger, Brendel and Ravikumar (2024).

    Parameters
    ----------
    d : int
        The number of states, of controls and of observed columns.
    environments : int
        The number of environments; the theorem requires d + 1.
    steps : int
        The length of each trajectory, unless `sample` is given `rows`.
    seed : int
        Seed for A, B, C, the variances and the means, in this order.
    variability : {"random", "maximum"} or array (environments, d)
        "random": variances |N(0, 1)|/2, whose precisions may be badly conditioned. "maximum": all
        variances are 1e-4, except for control e − 1 in environment e, which has 1; the condition
        number is 1. An array gives the variances themselves.
    input, output : {"gaussian", "identity"}
        How B and C are chosen.
    mean : float or "random"
        The mean of the controls: the same for all, or N(0, 1) for each control and environment.
    noise : float
        The variance (not the standard deviation) of the observation noise.
    radius : float
        The spectral radius of A, below 1.

    Examples
    --------
    >>> world = LinearSystem(3, environments=4, steps=1000, variability="maximum")
    >>> world.sample(seed=1)
    Sample(4,000 rows; latents, observations, environments)
    >>> world.check().ok, world.identified[0].rung
    (True, 'monomial')
    """

    d: int
    environments: int
    steps: int
    seed: int = 0
    variability: str | ArrayLike = field(default="random", kw_only=True)
    input: str = field(default="gaussian", kw_only=True)
    output: str = field(default="gaussian", kw_only=True)
    mean: float | str = field(default=0.0, kw_only=True)
    noise: float = field(default=0.0, kw_only=True)
    radius: float = field(default=0.9, kw_only=True)

    def __post_init__(self) -> None:
        d, k = whole(self.d, "d"), whole(self.environments, "environments")
        whole(self.steps, "steps")
        if isinstance(self.variability, str):
            one_of(self.variability, VARIABILITIES, "the variability")
        one_of(self.input, MATRICES, "the input matrix")
        one_of(self.output, MATRICES, "the output matrix")
        if not 0 <= self.noise < np.inf:
            raise InputError(f"the noise is {self.noise}; give a variance, 0 or more")
        if not 0 < self.radius < 1:
            raise InputError(
                f"the spectral radius is {self.radius}, so A is unstable or 0: trajectories would "
                "grow without bound, or have no memory; give a number between 0 and 1"
            )
        rng = np.random.default_rng(self.seed)
        A, B, C = rng.standard_normal((3, d, d))
        A *= self.radius / np.abs(np.linalg.eigvals(A)).max()
        variances = np.abs(rng.standard_normal((k, d))) / 2
        if not isinstance(self.variability, str):
            variances = _table(self.variability, (k, d))
        elif self.variability == "maximum":
            variances = np.full((k, d), QUIET)
            variances[1 : d + 1] += LOUD * np.eye(d)[: k - 1]
        self._set(
            A=A,
            B=np.eye(d) if self.input == "identity" else B,
            C=np.eye(d) if self.output == "identity" else C,
            variances=variances,
            means=_means(self.mean, (k, d), rng),
        )


@dataclass(frozen=True, eq=False)
class DCMotor(ControlledSystem):
    """A direct-current motor: current and speed are observed, the voltage that drives it is not.

    The system is discretised by a zero-order hold over steps of 0.01 s; variances are |N(0, 1)|/2.
    There is only one control, so that the order of controls plays no role (Rajendran et al. 2024).

    Parameters
    ----------
    environments, steps, seed
        As in `LinearSystem`; the seed is for the variances and means.
    mean : float or "random"
        The mean of the voltage.

    Examples
    --------
    >>> motor = DCMotor(environments=3, steps=5000)
    >>> motor.A.round(3)
    array([[ 0.98 ,  0.   ],
           [-0.009,  0.905]])
    >>> motor.sample(300).latents.shape
    (300, 1)
    """

    environments: int
    steps: int
    seed: int = 0
    mean: float | str = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        from scipy.linalg import expm

        k = whole(self.environments, "environments")
        whole(self.steps, "steps")
        rng = np.random.default_rng(self.seed)
        # The voltage is constant over a step, like a state that does not change.
        both = expm(MOTOR_STEP * np.block([[MOTOR, VOLTAGE], [np.zeros((1, 3))]]))
        variances = np.abs(rng.standard_normal((k, 1))) / 2
        means = _means(self.mean, (k, 1), rng)
        self._set(A=both[:2, :2], B=both[:2, 2:], C=np.eye(2), variances=variances, means=means)


def tied_variances(variances: Array) -> list[tuple[int, int]]:
    """Pairs of columns with the same ratio in all rows (environments)."""
    profiles = variances / variances.mean(axis=0)
    gaps = np.abs(profiles[:, :, None] - profiles[:, None, :]).max(axis=0)
    return [(i, j) for i, j in zip(*np.nonzero(gaps <= SAME_RATIO)) if i < j]


def _table(variances: ArrayLike, shape: tuple[int, int]) -> Array:
    table = np.array(variances, dtype=np.float64)
    if table.shape != shape or not ((table > 0) & (table < np.inf)).all():
        raise InputError(
            f"the variability has the shape {table.shape}; give variances above 0, a row for each "
            f"of {shape[0]} environments and a column for each of {shape[1]} controls"
        )
    return table


def _means(mean: float | str, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    if mean == "random":
        return rng.standard_normal(shape)
    if isinstance(mean, str) or not np.isfinite(mean):
        raise InputError(f"the mean is {mean!r}; give a finite number, or 'random'")
    return np.full(shape, float(mean))


def _reach(A: Array, B: Array) -> int:
    """The rank of [B, AB, A²B, …]: how many states the columns of B reach.

    Only the new directions of each block are carried on, so that powers of A neither overflow nor
    vanish.
    """
    basis, block = np.empty((len(A), 0)), B
    while block.shape[1]:
        left, values, _ = svd(block - basis @ (basis.T @ block))
        new = left[:, values > NOTHING_NEW * np.linalg.norm(block)]
        basis, block = np.hstack([basis, new]), A @ new
    return int(basis.shape[1])
