"""Columns to zero mean and unit spread, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from bochner.arrays import Array, fetch64, place


@dataclass(frozen=True)
class Standardiser:
    """x -> (x - centre) / spread, column by column; sparse rows are not centred, so that they stay sparse."""

    centre: Array
    spread: Array

    @classmethod
    def of(cls, X: Array, weights: Array) -> Standardiser:
        """Weighted mean and standard deviation of the columns of X (n, m); constant columns keep a spread of one."""
        share = weights / weights.sum()
        if sparse.issparse(X):
            mean = X.T @ share
            square = X.multiply(X).T @ share
            spread = np.sqrt(np.maximum(square - mean**2, 0))
            return cls(np.zeros(X.shape[1]), np.where(spread > 0, spread, 1.0))
        values = fetch64(X)
        largest = np.max(np.abs(values), axis=0)
        unit = np.where(largest > 0, largest, 1.0)  # columns of 1e200 must not overflow when squared
        mean = (share @ (values / unit)) * unit
        deviation = (values - mean) / unit
        spread = np.sqrt(share @ deviation**2) * unit
        return cls(mean, np.where(spread > 1e-12 * unit, spread, 1.0))

    @classmethod
    def identity(cls, n_columns: int) -> Standardiser:
        """Columns as they are."""
        return cls(np.zeros(n_columns), np.ones(n_columns))

    def __call__(self, X: Array) -> Array:
        if sparse.issparse(X):
            return (X @ sparse.diags_array((1 / self.spread).astype(X.dtype))).tocsr()
        return (X - place(self.centre, like=X)) / place(self.spread, like=X)

    def undo(self, X: Array) -> Array:
        """The columns as they were."""
        return X * self.spread + self.centre
