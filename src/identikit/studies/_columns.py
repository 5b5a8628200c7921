"""Columns of a study's tables, with one value per seed, and the checks that claims apply to them.

Most claims compare a column with a bar:
``column("worlds", "r2", "Held-out R²", arm="a").least(0.95)`` is a check, and its comment is
"Held-out R²; 0.95 or more counts."
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from identikit.studies import _checks as check
from identikit.studies._estimates import Share
from identikit.studies._study import Finding, Tables

if TYPE_CHECKING:
    import pandas as pd

Check = Callable[[Tables], Finding]


def where(table: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """The rows of a table with these values; for a tuple, the rows with any of its values.

    >>> import pandas as pd
    >>> where(pd.DataFrame({"k": [1, 2, 3], "r": [0.5, 0.7, 0.9]}), k=(2, 3))["r"].to_list()
    [0.7, 0.9]
    """
    for name, value in values.items():
        kept = table[name].isin(value) if isinstance(value, tuple) else table[name] == value
        table = table[kept]
    return table


@dataclass(frozen=True)
class Column:
    """One value per seed from a study's tables, and a description of it.

    `less` and `reached` return another Column. Every other method returns a check, which is a
    function from tables to a Finding.

    `values` is a function from tables to one value per seed, in the order of the seeds, or to none
    if the column was not measured. `words` describes them, or is a function from tables to that.
    """

    values: Callable[[Tables], Any]
    words: str | Callable[[Tables], str]

    def least(self, bar: float) -> Check:
        """Check that the mean is the bar or more."""
        return self._judged(check.above, (bar,), f"{bar:g} or more counts")

    def most(self, bar: float) -> Check:
        """Check that the mean is the bar or less."""
        return self._judged(check.below, (bar,), f"{bar:g} or less counts")

    def between(self, low: float, high: float) -> Check:
        """Check that the mean lies between `low` and `high`."""
        return self._judged(check.within, (low, high), f"{low:g} to {high:g} counts")

    def positive(self) -> Check:
        """Check that the mean is above 0."""
        return self._judged(check.above, (check.POSITIVE,), "above 0 counts")

    def holds(self, bound: float) -> Check:
        """Check that no value is above the bound."""
        return self._judged(check.holds, (bound,), f"{bound:g} or less holds")

    def often(self, bar: float) -> Check:
        """Check that a share of seeds, the bar or more, has a true value (or one that is not 0)."""
        return self._judged(check.often, (bar,), f"a share of {bar:g} or more counts")

    def less(self, other: Column, words: str) -> Column:
        """This column minus another, seed by seed; empty if one of them was not measured."""
        return Column(lambda t: check.differences(self.values(t), other.values(t)), words)

    def reached(self, loss: Column, floor: Column, slack: float) -> Column:
        """The column of the seeds whose loss is within `slack` of its floor (see `best`).

        Only these seeds are judged. The words say so, and which share of all seeds they are, with
        Wilson's interval.
        """

        def kept(t: Tables) -> tuple[list[Any], float]:
            values = np.asarray(self.values(t), float).tolist()
            return check.best(values, loss.values(t), floor.values(t), slack)

        def words(t: Tables) -> str:
            (values, share), of = kept(t), len(loss.values(t))
            counted = f" ({Share(len(values), of)})" if of else ""
            return (
                f"{self._said(t)}, of the {share:.0%} of seeds within {slack} of the floor{counted}"
            )

        return Column(lambda t: kept(t)[0], words)

    def _said(self, t: Tables) -> str:
        return self.words if isinstance(self.words, str) else self.words(t)

    def _judged(self, test: Callable[..., Finding], bars: tuple[float, ...], counts: str) -> Check:
        return lambda t: test(self.values(t), *bars, f"{self._said(t)}; {counts}.")


def column(table: str, name: str, words: str, **at: Any) -> Column:
    """A column of a table: its mean for every seed over the rows where `at` holds."""

    def values(t: Tables) -> pd.Series[float]:
        rows = where(t[table], **at)
        return rows[name].astype(float).groupby(rows["seed"]).mean()

    return Column(values, words)


def trend(
    test: Callable[..., Finding], table: Callable[[Tables], pd.DataFrame], words: str, step: str
) -> Check:
    """Check by `rises` or `falls` how values change from one column of a table to the next.

    `table` is a function from the study's tables to one with a row per seed and a column per x;
    `words` and `step` describe the values and x.
    """
    sign = "below" if test is check.falls else "above"
    comment = f"{words}: the slope from one {step} to the next; {sign} 0 counts."

    def over(t: Tables) -> Finding:
        found = table(t)
        return test(found.columns.to_numpy(float), found.to_numpy(float), comment)

    return over
