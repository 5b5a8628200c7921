"""AnnData objects: the matrix X, and the table obs that describes its rows."""

from __future__ import annotations

from typing import Any

from identikit.errors import InputError

#: The name of the pseudo-column that holds the names of the rows.
NAMES = "obs_names"


def is_anndata(view: object) -> bool:
    """Whether this is an AnnData object; anndata is not imported to find out."""
    return type(view).__module__.split(".")[0] == "anndata" and hasattr(view, "obs")


def matrix_of(view: Any, label: str) -> object:
    """The matrix X of an AnnData object."""
    if view.X is None:
        raise InputError(
            f"{label} is an AnnData without a matrix X; pass one of its arrays, for example "
            "adata.obsm['X_pca']"
        )
    matrix: object = view.X
    return matrix


def obs_columns(view: Any) -> dict[str, Any]:
    """The columns of obs by name, and the names of the rows as one more column."""
    return {NAMES: view.obs_names, **{str(name): view.obs[name] for name in view.obs.columns}}
