"""What every result can do: a JSON document, words, a page, and a view in a notebook."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from identikit import _files

if TYPE_CHECKING:
    import pandas as pd


class Result:
    """The base of results. A subclass has a `table`, `to_dict`, a truth value, a short `__repr__`.

    Words and pictures are not made here: `report` knows them by the type of a result.
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
        from identikit.report import _notebook

        return _notebook.shown(self).says

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the one-page HTML report, atomically."""
        from identikit.report import _pages

        _files.write_text(path, _pages.page(self))

    def _repr_html_(self) -> str:
        from identikit.report import _notebook

        return _notebook.notebook_html(_notebook.shown(self))
