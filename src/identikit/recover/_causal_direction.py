"""Which of two variables is the cause, inferred from environments that differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.recover._environments import Environments, read_environments
from identikit.recover._kci import conditional_independence, independence

#: In the order in which ties are broken.
STRUCTURES = ("x->y", "y->x", "none")
SILENT = "silent"
#: With fewer environments the gamma approximation of the tests is unreliable.
FEWEST = 10
#: Number of splits into two halves. Singular values of ranks below this share are rounding errors.
PAIRS, SHORTEST = 20, 1e-6
#: Smaller p-values are reported as below this.
SMALL = 1e-4


class PValues(NamedTuple):
    """p-values of the independence that each structure implies.

    The indices 1 and 2 denote two samples of the same environment.

    Attributes
    ----------
    x_to_y : float
        p-value of X₁ ⟂ Y₂ | X₂, which holds if x causes y.
    y_to_x : float
        p-value of Y₁ ⟂ X₂ | Y₂, which holds if y causes x.
    none : float
        p-value of X₁ ⟂ Y₁, which holds if neither causes the other.
    """

    x_to_y: float
    y_to_x: float
    none: float


@dataclass(frozen=True)
class CausalDirection:
    """The causal direction between two variables, and the evidence for it.

    Attributes
    ----------
    direction : str
        "x->y", "y->x", "none" (x and y are independent) or "silent": x and y are dependent, but no
        difference between environments is detected, so that the data do not show the direction.
    p_values : PValues
        The three p-values on which the decision is based.
    rule : str
        The decision from the three p-values alone; if the direction is "silent", this is a guess.
    clear : bool
        Whether the p-values have the pattern of one structure; if not, the largest one decided.
    variation : float
        p-value of (X₁, Y₁) ⟂ (X₂, Y₂): the two samples of an environment are independent if and
        only if nothing varies between environments.
    shares : dict of str to float
        The share of random halves of the environments that give each answer.
    environments : int
        The number of environments, each with one pair of samples.
    level : float
        The significance level of the tests.
    """

    direction: str
    p_values: PValues
    rule: str
    clear: bool
    variation: float
    shares: dict[str, float]
    environments: int
    level: float

    @property
    def agreement(self) -> float:
        """The share of random halves of the environments that give the same answer."""
        return self.shares[self.direction]

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        found = {
            "x->y": "x causes y",
            "y->x": "y causes x",
            "none": "x and y are independent, so neither causes the other",
            SILENT: "x and y are dependent, but environments are not seen to differ: samples that "
            "are i.i.d. across environments are silent about the direction",
        }[self.direction]
        why = ""
        if not self.clear and self.direction != SILENT:
            why = "; no pattern of the p-values is clear, and the largest of them decided"
        return f"{found} ({self.agreement:.0%} of random halves of the environments agree){why}"

    def summary(self) -> str:
        """The result in one sentence, followed by the tests."""
        # The gamma distribution is an approximation, and small p-values are not exact.
        a, b, c, d = (
            f"p {f'= {p:.3g}' if p >= SMALL else f'< {SMALL:g}'}"
            for p in (*self.p_values, self.variation)
        )
        return "\n".join(
            [
                f"{self.direction}: {self.sentence}.",
                f"  x₁ ⟂ y₂ | x₂   {a}   holds if x causes y",
                f"  y₁ ⟂ x₂ | y₂   {b}   holds if y causes x",
                f"  x₁ ⟂ y₁        {c}   holds if neither causes the other",
                f"  (x₁, y₁) ⟂ (x₂, y₂)   {d}   holds if nothing varies between environments",
                f"Kernel tests on {self.environments} pairs of samples, one an environment; level "
                f"{self.level:g}.",
            ]
        )


def causal_direction(
    x: ArrayLike,
    y: ArrayLike,
    environments: ArrayLike,
    *,
    level: float = 0.05,
    seed: int | np.random.Generator = 0,
) -> CausalDirection:
    """Decide whether x causes y or y causes x, from two samples of each environment.

    In p(x, y) = ∫∫ Π p(y_n | x_n, ψ) p(x_n | θ) dμ(θ) dν(ψ) the distribution of the cause has a
    parameter θ and the mechanism a parameter ψ, drawn independently for every environment (causal
    de Finetti; Guo et al. 2023). If θ or ψ varies, then X₁ ⟂ Y₂ | X₂ holds and Y₁ ⟂ X₂ | Y₂ does
    not; one of the two is enough (Reizinger et al. 2025). If neither varies, the samples are i.i.d.
    and carry no information about the direction.

    The tests are KCI (Zhang et al. 2011) with the gamma approximation, and with the kernels and
    p-values of causal-learn. The pattern of the p-values decides; if it fits no structure, the
    largest p-value does, as in the paper. A direction is reported only if (X₁, Y₁) ⟂ (X₂, Y₂) is
    rejected too, which is tested by HSIC on decorrelated ranks.

    As a measure of confidence, `agreement` is the share of 40 random halves of the environments
    (20 splits) that give the same answer. A half drawn without replacement varies around the whole
    as much as the whole varies around the truth, whereas a bootstrap draws environments twice,
    which a kernel test takes for dependence. Halves reuse the kernels, the regressions and the
    pairs of the whole. Since they have half of the data, the share is conservative.

    The method assumes that there is no hidden common cause, and that values are continuous. Memory
    and time grow with the square of the number of environments.

    Parameters
    ----------
    x, y : array (rows,)
        One value per row.
    environments : array (rows,)
        One label per row. If an environment has two samples, these form the pair, in their order;
        if it has more, two of them are drawn.
    level : float
        The significance level of the tests.
    seed : int or Generator
        Seed for drawing pairs and halves.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat(np.arange(200), 2)
    >>> x = rng.uniform(-5, 5, size=200)[labels] + rng.laplace(size=400)
    >>> y = 2 * x + rng.laplace(size=400)
    >>> found = causal_direction(x, y, labels)
    >>> found.direction, found.p_values.x_to_y > 0.05, found.p_values.y_to_x < 0.05
    ('x->y', True, True)
    >>> causal_direction(y, x, labels).direction
    'y->x'
    >>> causal_direction(y, x, rng.permutation(labels)).direction
    'silent'
    """
    if not 0 < level < 1:
        raise InputError(f"the level is {level}; give a number between 0 and 1, such as 0.05")
    first, second = _series(x, "x"), _series(y, "y")
    if len(first) != len(second):
        raise InputError(f"x has {len(first)} rows and y has {len(second)}; give the same number")
    # A separate random stream, in case the data were drawn with the same seed.
    rng = np.random.default_rng(seed).spawn(1)[0]
    pairs = _pairs(read_environments(environments, len(first)), rng)
    X, Y = first[pairs], second[pairs]
    for name, both in (("x", X), ("y", Y)):
        if (both.min(axis=0) == both.max(axis=0)).any():
            raise InputError(
                f"{name} is constant over environments: nothing can be inferred from a variable "
                "that does not vary"
            )
    one, two = (_ranks(np.stack([X[:, k], Y[:, k]], axis=1)) for k in (0, 1))
    if min(one.shape[1], two.shape[1]) < 2:
        raise InputError(
            "y is a monotone function of x without any noise: cause and effect cannot be "
            "distinguished"
        )
    n = len(pairs)
    halves = np.zeros((n, PAIRS))
    for column in halves.T:
        column[rng.permutation(n)[: n // 2]] = 1
    p = np.stack(
        [
            conditional_independence(X[:, 0], Y[:, 1], X[:, 1], halves),
            conditional_independence(Y[:, 0], X[:, 1], Y[:, 1], halves),
            independence(X[:, 0], Y[:, 0], halves),
        ]
    )
    variation = independence(one, two, halves, width=1.0)
    rules, clear = decide(p, level)
    silent = (rules != "none") & (variation > level)
    answers = np.where(silent, SILENT, rules)
    return CausalDirection(
        str(answers[0]),
        PValues(*map(float, p[:, 0])),
        str(rules[0]),
        bool(clear[0]),
        float(variation[0]),
        {name: float((answers[1:] == name).mean()) for name in (*STRUCTURES, SILENT)},
        n,
        level,
    )


def decide(p_values: ArrayLike, level: float = 0.05) -> tuple[NDArray[Any], NDArray[Any]]:
    """The structure that three p-values favour, and whether their pattern is clear.

    The p-values are those of X₁ ⟂ Y₂ | X₂, Y₁ ⟂ X₂ | Y₂ and X₁ ⟂ Y₁. The answer is x->y if only the
    first independence is not rejected, y->x if only the second is not, none if all three are not,
    and otherwise the structure with the largest p-value (the rule of Guo et al. 2023). This
    fallback compares p-values of different tests, and is a guess.

    Examples
    --------
    >>> decide([[0.5, 0.01, 0.5, 0.01], [0.01, 0.5, 0.5, 0.02], [0.01, 0.01, 0.5, 0.01]])[0]
    array(['x->y', 'y->x', 'none', 'y->x'], ...)
    """
    p = np.asarray(p_values, float)
    kept, rejected = p >= level, p <= level
    patterns = np.stack(
        [
            kept[0] & rejected[1] & rejected[2],
            rejected[0] & kept[1] & rejected[2],
            kept[0] & kept[1] & kept[2],
        ]
    )
    clear = np.asarray(patterns.any(axis=0))
    place = np.where(clear, patterns.argmax(axis=0), p.argmax(axis=0))
    return np.array(STRUCTURES)[place], clear


def _series(values: ArrayLike, name: str) -> Array:
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.dtype.kind not in "fiub":
        raise InputError(
            f"{name} has the shape {array.shape} and dtype {array.dtype}; expected one real number "
            "per row"
        )
    finite = np.isfinite(array)
    if not finite.all():
        raise InputError(
            f"{name} has NaN or infinity in {np.count_nonzero(~finite)} rows, the first is row "
            f"{int(np.argmin(finite))} (counting from 0); drop these rows"
        )
    series = array.astype(np.float64)
    # Units do not matter, but squares must neither overflow nor underflow.
    return series / (np.abs(series).max(initial=0.0) or 1.0)


def _pairs(found: Environments, rng: np.random.Generator) -> NDArray[np.intp]:
    """Two rows of each environment, (environments, 2)."""
    counts = found.counts
    if len(counts) < FEWEST:
        raise InputError(
            f"there {'is 1 environment' if len(counts) == 1 else f'are {len(counts)} environments'}"
            f"; at least {FEWEST} are needed to see what varies between environments, and "
            "preferably hundreds"
        )
    single = np.flatnonzero(counts < 2)
    if len(single):
        raise InputError(
            f"environment {found.labels[single[0]]!s} has 1 sample ({len(single)} of "
            f"{len(counts)} environments have no more); each needs 2 or more, so leave out those "
            "with fewer"
        )
    first, step = rng.integers(counts), rng.integers(1, counts)
    first[counts == 2] = 0
    places = np.stack([first, (first + step) % counts], axis=1)
    starts = np.cumsum(counts) - counts
    rows: NDArray[np.intp] = np.argsort(found.codes, kind="stable")[starts[:, None] + places]
    return rows


def _ranks(columns: Array) -> NDArray[np.float32]:
    """Ranks of each column, decorrelated, with variance 1; ties share their mean rank."""
    ranks = np.empty_like(columns)
    for place, column in enumerate(columns.T):
        _, codes, counts = np.unique(column, return_inverse=True, return_counts=True)
        ranks[:, place] = (np.cumsum(counts) - counts / 2)[codes]
    ranks -= ranks.mean(axis=0)
    left, values, _ = np.linalg.svd(ranks / ranks.std(axis=0), full_matrices=False)
    kept = left[:, values > SHORTEST * values[0]] * np.sqrt(len(columns))
    # float32 takes a third of the time for exponentials, and is precise enough here.
    axes: NDArray[np.float32] = kept.astype(np.float32)
    return axes
