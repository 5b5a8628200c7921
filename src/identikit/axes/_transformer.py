"""The common base of estimators of independent axes: an unmixing matrix and its inverse."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError

from identikit._linalg import Array
from identikit.alignment.given import check_names, given_rows


class AxesTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """s = (x − mean_) components_ᵀ and back, x = s mixing_ + mean_; subclasses fit them."""

    mean_: Array
    components_: Array
    mixing_: Array
    n_features_in_: int

    def transform(self, X: ArrayLike) -> Array:
        """Map rows to the independent axes."""
        self._fitted()
        owner = type(self).__name__
        check_names(X, getattr(self, "feature_names_in_", None), owner)
        rows = given_rows(X, owner, self.n_features_in_, self._source)
        result: Array = np.subtract(rows, self.mean_, dtype=np.float64) @ self.components_.T
        return result

    def inverse_transform(self, S: ArrayLike) -> Array:
        """Map rows from the independent axes back to X; exact if the full rank was kept."""
        self._fitted()
        rows = given_rows(S, type(self).__name__, len(self.components_), self._target)
        result: Array = rows @ self.mixing_ + self.mean_
        return result

    @property
    def _source(self) -> str:
        """The name of the space of X in error messages."""
        return "X"

    @property
    def _target(self) -> str:
        return f"{self._source} (independent axes)"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "components_")

    def _fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first")
