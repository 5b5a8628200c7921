"""What every metric states about itself, and where the metrics are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from identikit.factors._result import Score


@dataclass(frozen=True)
class Metric:
    """A metric under one of its names.

    Parameters
    ----------
    name : str
    function : callable
        ``function(codes, factors, *, names, kinds, seed, preset, **options)`` returns a Score.
    options : mapping
        What tells this name from the function's others.
    title : str
        What tables call it.
    question : str
        What it asks, in one sentence.
    invariant_to : str
        What may act on the codes without changing it.
    reference : str
        Where it comes from.
    place : int
        Where it stands in tables; the same place is shared in the order of names.
    by_name : bool
        Left out unless asked for by name.
    """

    name: str
    function: Callable[..., Score]
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

F = TypeVar("F", bound=Callable[..., Score])


def metric(
    title: str,
    question: str,
    *,
    invariant_to: str,
    reference: str,
    name: str | None = None,
    place: int = 100,
    by_name: bool = False,
    **options: Any,
) -> Callable[[F], F]:
    """Register a function of codes and factors as a metric.

    Parameters
    ----------
    name : str, optional
        If not the function's own; a function may have several names, each with its `options`.
    """

    def register(function: F) -> F:
        key = function.__name__ if name is None else name
        METRICS[key] = Metric(
            key, function, title, question, invariant_to, reference, options, place, by_name
        )
        return function

    return register


def listed() -> list[Metric]:
    """All metrics, in the order of tables."""
    return sorted(METRICS.values(), key=lambda each: (each.place, each.name))
