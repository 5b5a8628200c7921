"""AnnData objects, without importing anndata: the matrix X, and the table obs of its rows."""

from __future__ import annotations

from typing import Any

from identikit.errors import InputError

#: What the names of the rows are called where a column is asked for.
NAMES = "obs_names"


def is_anndata(view: object) -> bool:
    """Whether this is an AnnData object."""
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
    """The columns of obs by name, and the names of the rows."""
    return {NAMES: view.obs_names, **{str(name): view.obs[name] for name in view.obs.columns}}
