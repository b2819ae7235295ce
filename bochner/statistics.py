"""Additive summaries of blocks of rows: what is left of the rows once their features are gone."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from bochner.arrays import Array, dense, fetch64


@dataclass(frozen=True)
class Moments:
    """Weighted sums over rows that determine every ridge regression on their features Phi (n, d) and targets Y (n, c).

    Sums, not means; those of several blocks of rows add up, and the rows of a fold can be taken out again. All float64.
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
        """The moments of one block: features (b, d) of any dtype or sparse, targets (b, c) and weights (b,) in float64."""
        features = dense(features)
        weighted = features * np.sqrt(weights).astype(features.dtype)[:, None]
        return cls(
            gram=fetch64(weighted.T @ weighted),
            cross=fetch64(features.T @ (targets * weights[:, None]).astype(features.dtype)),
            feature_sum=fetch64(features.T @ weights.astype(features.dtype)),
            target_sum=weights @ targets,
            target_square=weights @ targets**2,
            weight=float(weights.sum()),
        )

    def __add__(self, other: Moments) -> Moments:
        return Moments(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __sub__(self, other: Moments) -> Moments:
        return Moments(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))

    def squared_error(self, coef: Array, intercept: Array) -> Array:
        """Sum of w (phi . coef + intercept - y)^2 over the rows, for each target: (c,)."""
        quadratic = np.sum(coef * (self.gram @ coef - 2 * self.cross), axis=0)
        linear = 2 * intercept * (self.feature_sum @ coef - self.target_sum)
        return self.target_square + quadratic + linear + self.weight * intercept**2

    def residual_products(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Phi' W R (d, c) and w' R (c,) for the residuals R = Phi coef + intercept - Y."""
        with_features = self.gram @ coef + np.outer(self.feature_sum, intercept) - self.cross
        return with_features, self.feature_sum @ coef + self.weight * intercept - self.target_sum
