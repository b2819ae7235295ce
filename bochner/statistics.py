"""Additive summaries of blocks of rows: what is left of the rows once their features are gone."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from scipy.linalg import blas

from bochner.arrays import Array, dense


@dataclass(frozen=True)
class Moments:
    """Weighted sums over rows that determine every ridge regression on their features Phi (n, d) and targets Y (n, c).

    Sums, not means; those of several blocks of rows add up. All float64.
    """

    gram: Array
    """Phi' W Phi: (d, d)."""
    cross: Array
    """Phi' W Y: (d, c)."""
    feature_sum: Array
    """Phi' w: (d,)."""
    target_sum: Array
    """Y' w: (c,)."""
    target_square: Array
    """Sum of w y^2 for each target: (c,)."""
    weight: float
    """Sum of the weights w."""

    @classmethod
    def of(cls, features: Array, targets: Array, weights: Array) -> Moments:
        """The moments of one block: features (b, d), dense or sparse, targets (b, c) and weights (b,) in float64.

        Features of float32 stay so; all others become float64.
        """
        total = MomentSum(features.shape[1], targets.shape[1])
        dtype = np.float32 if features.dtype == np.float32 else np.float64
        total.add(np.array(dense(features), dtype=dtype), targets, weights)
        return total.moments()

    def __add__(self, other: Moments) -> Moments:
        return Moments(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def squared_error(self, coef: Array, intercept: Array) -> Array:
        """Sum of w (phi . coef + intercept - y)^2 over the rows, for each target: (c,)."""
        quadratic = np.sum(coef * (self.gram @ coef - 2 * self.cross), axis=0)
        linear = 2 * intercept * (self.feature_sum @ coef - self.target_sum)
        return self.target_square + quadratic + linear + self.weight * intercept**2

    def square(self, coef: Array, intercept: Array) -> Array:
        """Sum of w (phi . coef + intercept)^2 over the rows, for each column of coef: (c,)."""
        quadratic = np.sum(coef * (self.gram @ coef), axis=0)
        return quadratic + 2 * intercept * (self.feature_sum @ coef) + self.weight * intercept**2

    def scaled(self, used: Array, factors: Array) -> Moments:
        """The moments of some features, a mask (d,), times factors (q, 1)."""
        gram = self.gram[np.ix_(used, used)] * factors * factors.T
        return replace(self, gram=gram, cross=factors * self.cross[used], feature_sum=factors[:, 0] * self.feature_sum[used])

    def target(self, index: int) -> Moments:
        """The moments with one of the targets."""
        column = slice(index, index + 1)
        some = {name: getattr(self, name)[column] for name in ("target_sum", "target_square")}
        return replace(self, cross=self.cross[:, column], **some)

    def residual_products(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Phi' W R (d, c) and w' R (c,) for the residuals R = Phi coef + intercept - Y."""
        with_features = self.gram @ coef + np.outer(self.feature_sum, intercept) - self.cross
        return with_features, self.feature_sum @ coef + self.weight * intercept - self.target_sum


class MomentSum:
    """Moments on their way: blocks of rows are added to one matrix in place, and only to its lower triangle."""

    def __init__(self, n_features: int, n_targets: int) -> None:
        self._gram = np.zeros((n_features, n_features), order="F")
        self._with_features = np.zeros((n_features, n_targets + 1))
        self._target_sum = np.zeros(n_targets)
        self._target_square = np.zeros(n_targets)
        self._weight = 0.0

    def add(self, features: Array, targets: Array, weights: Array) -> None:
        """One more block: features (b, d), which are used up, targets (b, c) and weights (b,) in float64.

        Features are float32 or float64; products of float32 ones are taken in float32, and summed over blocks in float64.
        """
        root = np.sqrt(weights)
        if not np.all(weights == 1):
            features *= root.astype(features.dtype)[:, None]
        if features.dtype == np.float64:
            blas.dsyrk(1.0, features.T, beta=1.0, c=self._gram, lower=1, overwrite_c=1)
        else:
            self._gram += blas.ssyrk(1.0, features.T, lower=1)
        beside = np.concatenate([targets * root[:, None], root[:, None]], axis=1).astype(features.dtype)
        self._with_features += features.T @ beside
        self._target_sum += weights @ targets
        self._target_square += weights @ targets**2
        self._weight += float(weights.sum())

    def moments(self) -> Moments:
        """The sums so far; nothing may be added after that."""
        _mirror(self._gram)
        return Moments(
            gram=self._gram,
            cross=self._with_features[:, :-1],
            feature_sum=self._with_features[:, -1],
            target_sum=self._target_sum,
            target_square=self._target_square,
            weight=self._weight,
        )


def _mirror(matrix: Array, block: int = 256) -> None:
    """Copy the lower triangle of a matrix to the upper one, block by block."""
    for start in range(0, len(matrix), block):
        stop = start + block
        square = matrix[start:stop, start:stop]
        square[...] = np.tril(square) + np.tril(square, -1).T
        matrix[start:stop, stop:] = matrix[stop:, start:stop].T
