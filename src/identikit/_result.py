"""What every result can do: a JSON document, words, a page, and a view in a notebook."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from identikit import _files

if TYPE_CHECKING:
    import pandas as pd


class Result:
    """The base of results. A subclass has a `table`, `to_dict`, a truth value, a short `__repr__`.

    What is said and drawn of it is registered in `identikit.report`, by its type.
    """

    @property
    def table(self) -> pd.DataFrame:
        """The result as a data frame."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        """Whether the answer is yes: what a script gates on."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The result as one JSON-ready document."""
        raise NotImplementedError

    def to_json(self) -> str:
        """The document of `to_dict` as text; strict JSON, so absent values are null."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON document, atomically."""
        _files.write_text(path, self.to_json())

    def summary(self) -> str:
        """What was found, in a sentence or two."""
        return str(report_package().shown(self).says)

    def report(self, path: str | os.PathLike[str], story: Sequence[str] = ()) -> None:
        """Write the one-page HTML report, atomically.

        Parameters
        ----------
        path : path
        story : sequence of str
            A headline and paragraphs to open the page with, before the result's own sentences.
        """
        _files.write_text(path, report_package().html(self, story))

    def _repr_html_(self) -> str:
        return str(report_package().notebook(self))


def report_package() -> Any:
    """`identikit.report`, where the words, tables and pages of all results are.

    It is imported by name, and only when it is called: report knows every type of result, so it
    stands above the packages that have results, and none of them may depend on it.
    """
    return import_module("identikit.report")
