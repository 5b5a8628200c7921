"""What all metrics share: the registry, the `Trial` that they get, and how their score is built.

A metric is one function decorated by `@metric`. It takes a `Trial` (codes, factors, folds, permuted
rows) and its own options, and returns `trial.score(...)`. The decorated function, which users call,
takes codes and factors instead of a trial.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.factors._data import Data, prepare
from identikit.factors._factor import Factor, Kinds
from identikit.factors._resample import Rows, Splits, orders, pooled
from identikit.factors._result import (
    HELD_OUT,
    IN_SAMPLE,
    Excluded,
    Part,
    Score,
    made_by,
    named,
    part_of,
)
from identikit.moments import FOLDS

#: Called as (codes, factors, *, names, kinds, seed, preset, permutations, **options).
Scorer = Callable[..., Score]

#: What the documentation of every metric says of the options that all have.
SHARED = """codes, factors, names, kinds, seed
    As in `prepare`.
preset : None or "reference"
    Held out, or as in the published implementation.
permutations : int, optional
    Number of permutations for the chance level; by default {}.
"""


@dataclass(frozen=True)
class Metric:
    """A metric under one of its names.

    `options` are the arguments that this name passes to the `function`. Tables show its `title`,
    sorted by `place` and then by name. `question` says what it asks, `invariant_to` which maps of
    the codes leave it unchanged, and `reference` which paper it is from. A metric with `by_name` is
    computed only if it is named explicitly.
    """

    name: str
    function: Scorer
    title: str
    question: str
    invariant_to: str
    reference: str
    options: Mapping[str, Any] = field(default_factory=dict)
    place: int = 100
    by_name: bool = False

    def __call__(self, codes: object, factors: object = None, **options: Any) -> Score:
        """The score of codes against factors."""
        return self.function(codes, factors, **self.options, **options)


METRICS: dict[str, Metric] = {}


def listed() -> list[Metric]:
    """All metrics, in the order in which tables show them."""
    return sorted(METRICS.values(), key=lambda each: (each.place, each.name))


def is_reference(preset: str | None) -> bool:
    """Whether the preset asks to reproduce the published implementation."""
    if preset not in (None, "reference"):
        raise InputError(f"preset is {preset!r}; expected None (held out) or 'reference'")
    return preset == "reference"


@dataclass(frozen=True)
class Refits:
    """What repeated fits return, an array (…) for each fit of K factors.

    `true` (S, K, …) is for the S splits, `null` (P, S', K, …) for permuted rows, and `without`
    (F, K, …) for the true order without each fold (empty if folds are held out). `n` (S, K) counts
    the scored rows, and `rows` is the largest number of rows used for a factor.
    """

    true: Array
    null: Array
    without: Array
    n: Array
    rows: int

    @property
    def orders(self) -> Array:
        """All orders of rows, the true one first: (S, 1 + P, K, …)."""
        return np.concatenate([self.true[:, None], self.null.swapaxes(0, 1)], axis=1)

    def means(self) -> tuple[Array, Array]:
        """Means over scored rows for all orders (1 + P, K, …), and without each fold (F, K, …)."""
        every = self.orders
        if len(self.without):
            return every[0], self.without
        n = self.n.reshape(len(self.n), 1, -1, *[1] * (every.ndim - 3))
        weight = np.broadcast_to(n, every.shape)
        return pooled(every * weight, weight)


@dataclass(frozen=True)
class Trial:
    """The input of a metric: codes, the factors to score, and the settings.

    `reference` says whether to follow the published implementation, which is mostly in sample;
    otherwise rows are held out. `called` is the metric's name in messages, and `excluded` lists
    what is not scored. `permutations` is the number that the caller `asked` for, or the metric's
    default.
    """

    name: str
    called: str
    data: Data
    factors: Sequence[Factor]
    excluded: tuple[Excluded, ...]
    reference: bool
    permutations: int
    asked: int | None = None

    @property
    def titles(self) -> tuple[str, ...]:
        """The names of the factors that are scored."""
        return tuple(factor.name for factor in self.factors)

    @property
    def width(self) -> int:
        """Number of codes."""
        return int(self.data.codes.shape[1])

    def only(self, factors: Sequence[Factor]) -> Trial:
        """The same trial with only these factors."""
        return replace(self, factors=factors)

    def numeric(self, what: str | None = None) -> Trial:
        """The same trial with only the numeric factors; those with words are excluded."""
        some, excluded = self.data.numeric(what or self.called)
        return replace(self, factors=some, excluded=excluded)

    def needs_several(self) -> None:
        """Raise an error if there is only one factor."""
        if len(self.factors) < 2:
            raise InputError(f"{self.called} compares factors, so it needs at least two of them")

    def needs_folds(self) -> None:
        """Raise an error if there are too few rows for folds, for the reference as well."""
        check_held_out(self.data.rows, self.called)

    def refit(
        self,
        fit: Callable[[Array, NDArray[Any], Rows, Rows], Any],
        splits: Callable[[int], tuple[Splits, Splits]],
        *,
        most: int | None = None,
        values: Callable[[Factor], NDArray[Any]] = attrgetter("target"),
        look: Callable[[Array], Array] | None = None,
        null_splits: int | None = None,
    ) -> Refits:
        """Fit each factor anew, for every split and order of rows.

        ``fit(codes, values, train, test)`` returns an array of the same shape each time. `splits`,
        one of `held_out`, `in_sample` and `one_split`, is called with the number of rows, which is
        no larger than `most`. `values` returns the values of a factor to fit: by default its
        classes, or its numbers if it is continuous. `look` is applied to the codes first. Permuted
        rows use the first `null_splits` of the splits only.
        """
        true, null, without, n, rows = [], [], [], [], 0
        for factor in self.factors:
            ((z, used, _),) = self.data.blocks([factor], most)
            target, z = values(factor)[used], z if look is None else look(z)
            every, rest = splits(len(z))
            shuffled = orders(len(z), self.permutations, self.data.seed)
            next(shuffled)
            true.append([fit(z, target, *each) for each in every])
            some = every[:null_splits]
            null.append([[fit(z, target[order], *each) for each in some] for order in shuffled])
            without.append([fit(z, target, *each) for each in rest])
            n.append([len(test) for _, test in every])
            rows = max(rows, len(np.union1d(*every[0])))
        found = np.array(true, dtype=np.float64)
        shape = found.shape[2:]
        permuted = np.array(null, dtype=np.float64).reshape(
            len(null), self.permutations, found[:, :null_splits].shape[1], *shape
        )
        return Refits(
            found.swapaxes(0, 1),
            np.moveaxis(permuted, 0, 2),
            np.array(without, dtype=np.float64).reshape(len(without), -1, *shape).swapaxes(0, 1),
            np.array(n, dtype=np.float64).T,
            rows,
        )

    def mean_part(self, name: str, values: Array, without: Array, least: float = -np.inf) -> Part:
        """A mean over factors, from one value per factor.

        `values` (1 + P, K) are those for the true order of rows and for permuted ones, `without`
        (F, K) those for the true order without each fold. No value is smaller than `least`.
        """
        titles = named(self.titles, values[0])
        return part_of(name, values.mean(-1), without.mean(-1), least, per_factor=titles)

    def score(
        self,
        parts: Part | tuple[Part, ...],
        words: str,
        where: str | None = None,
        *,
        rows: int | None = None,
        matrix: Array | None = None,
        matrix_of: str | None = None,
        codes: tuple[str, ...] | None = None,
        excluded: tuple[Excluded, ...] = (),
        warnings: tuple[str, ...] = (),
    ) -> Score:
        """The metric's score, whose value is that of the first of its `parts`.

        `words` are a sentence on how they were computed, and `where` says on which rows: by default
        held out, or in sample for the reference. `rows` of them were used (by default all in which
        a factor is known). `matrix`, of codes × factors, shows the quantity `matrix_of`. `codes`
        are those that were scored, if not all, and `excluded` is what was left out besides factors.
        `warnings` say why these data are a hard case for the metric.
        """
        parts = (parts,) if isinstance(parts, Part) else parts
        where = where or (IN_SAMPLE if self.reference else HELD_OUT)
        return Score(
            self.name,
            parts,
            self.data.known_rows(self.factors) if rows is None else rows,
            self.data.code_names if codes is None else codes,
            self.titles,
            self.excluded + excluded,
            made_by(words, parts, where),
            matrix,
            None if matrix is None else matrix_of,
            warnings,
        )


def check_held_out(rows: int, metric: str) -> None:
    """Raise an error if a fold would have fewer than two rows."""
    if rows < 2 * FOLDS:
        raise InputError(
            f"{metric} holds out one of {FOLDS} folds of at least two rows each, so it needs "
            f"{2 * FOLDS} rows; there are {rows}"
        )


def check_noise(noise: float) -> None:
    """Raise an error unless the noise is a valid standard deviation."""
    if not 0 <= noise < np.inf:
        raise InputError(f"noise is {noise}; expected a standard deviation, 0 or larger")


def metric(
    title: str,
    question: str,
    *,
    invariant_to: str,
    reference: str,
    permutations: int | tuple[int, int] = 20,
    called: str | None = None,
    place: int = 100,
) -> Callable[[Callable[..., Score]], Scorer]:
    """Turn a function of a `Trial` and options into a metric of codes and factors.

    The arguments are those of `Metric`. `permutations` is the default number of permutations for
    the chance level; a pair gives the numbers for held-out scores and for the reference. Messages
    use the name `called`, by default the title.
    """
    counts = (permutations, permutations) if isinstance(permutations, int) else permutations

    def register(function: Callable[..., Score]) -> Scorer:
        name = function.__name__

        @wraps(function, assigned=("__module__", "__name__", "__qualname__"))
        def scorer(
            codes: object,
            factors: object = None,
            *,
            names: Sequence[str] | None = None,
            kinds: Kinds = None,
            seed: int = 0,
            preset: str | None = None,
            permutations: int | None = None,
            **options: Any,
        ) -> Score:
            published = is_reference(preset)
            data = prepare(codes, factors, names=names, kinds=kinds, seed=seed)
            if not published:
                check_held_out(data.rows, called or title)
            trial = Trial(
                name,
                called or title,
                data,
                data.factors,
                data.excluded,
                published,
                counts[published] if permutations is None else permutations,
                permutations,
            )
            return function(trial, **options)

        del scorer.__wrapped__  # the wrapped function has another signature
        shared = [p for p in _parameters(scorer) if p.kind != p.VAR_KEYWORD]
        own = _parameters(function)[1:]
        several = counts[0] != counts[1]
        said = f"{counts[0]}, or {counts[1]} for the reference" if several else f"{counts[0]}"
        scorer.__doc__ = _documented(function, SHARED.format(said))
        scorer.__signature__ = inspect.Signature(shared + own)  # type: ignore[attr-defined]
        # Doctest skips functions that were defined in another module, as `scorer` was.
        function.__globals__.setdefault("__test__", {})[name] = function
        METRICS[name] = Metric(name, scorer, title, question, invariant_to, reference, place=place)
        return scorer

    return register


def also(
    name: str, title: str, question: str, *, by_name: bool = False, **given: Any
) -> Callable[[Scorer], Scorer]:
    """Register a metric under another name, with some options fixed.

    `invariant_to`, `reference` and `place` are given if they differ; all other arguments of `given`
    are options.
    """
    stated = {key: given.pop(key) for key in ("invariant_to", "reference", "place") if key in given}

    def register(function: Scorer) -> Scorer:
        METRICS[name] = replace(
            METRICS[function.__name__],
            name=name, title=title, question=question, by_name=by_name, options=given, **stated,
        )  # fmt: skip
        return function

    return register


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def _documented(function: Callable[..., Score], shared: str) -> str:
    """The documentation of a metric, with the options that all metrics have."""
    heading = "Parameters\n----------\n"
    text = inspect.cleandoc(function.__doc__ or "")
    if heading in text:
        return text.replace(heading, heading + shared)
    before, example, after = text.partition("\n\nExamples\n")
    return f"{before}\n\n{heading}{shared}{example[1:]}{after}"
