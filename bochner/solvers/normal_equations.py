"""Ridge regression with a free intercept from moments, and the adjoint of its solution.

The problem is (1/W) sum_i w_i (phi_i . beta + b - y_i)^2 + alpha |beta|^2, W the sum of the weights. Eliminating the
intercept leaves (A_c + W alpha I) beta = B_c with centred moments A_c and B_c.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from bochner.arrays import Array
from bochner.statistics import Moments


@dataclass(frozen=True)
class CentredMoments:
    """Moments around their means, ready to be solved for any penalty."""

    moments: Moments

    @cached_property
    def mean(self) -> Array:
        """Mean of the features: (d,)."""
        return self.moments.feature_sum / self.moments.weight

    @cached_property
    def target_mean(self) -> Array:
        """Mean of the targets: (c,)."""
        return self.moments.target_sum / self.moments.weight

    @cached_property
    def gram(self) -> Array:
        """Centred second moments of the features: (d, d)."""
        return self.moments.gram - np.outer(self.mean, self.moments.feature_sum)

    @cached_property
    def cross(self) -> Array:
        """Centred products of features and targets: (d, c)."""
        return self.moments.cross - np.outer(self.mean, self.moments.target_sum)

    def solve(self, alpha: float) -> RidgeSolution:
        """The ridge regression of penalty ``alpha``."""
        factor = factorise(self.gram, self.moments.weight * alpha)
        coef = factor.solve(self.cross)
        return RidgeSolution(self, alpha, factor, coef, self.target_mean - self.mean @ coef)


@dataclass(frozen=True)
class RidgeSolution:
    """Coefficients (d, c), intercept (c,), and the factor that made them."""

    centred: CentredMoments
    alpha: float
    factor: Factor
    coef: Array
    intercept: Array

    def adjoint(self, with_features: Array, with_one: Array) -> tuple[Array, Array]:
        """Q^-1 (w, w_0) for the bordered matrix Q of the problem with its intercept: (d, c) and (c,)."""
        mean = self.centred.mean
        solution = self.factor.solve(with_features - np.outer(mean, with_one))
        return solution, with_one / self.centred.moments.weight - mean @ solution


@dataclass(frozen=True)
class Factor:
    """A factorisation of a symmetric positive definite matrix."""

    triangle: Array
    jitter: float
    """What had to be added to the diagonal, beyond the penalty, before the factorisation went through."""

    def solve(self, right: Array) -> Array:
        """The matrix inverse times ``right``."""
        return linalg.cho_solve((self.triangle, True), right, check_finite=False)


def factorise(gram: Array, shift: float) -> Factor:
    """Cholesky factor of gram + shift I. Where rounding has made it indefinite, the diagonal grows until it is not."""
    scale = max(float(np.trace(gram)) / len(gram), np.finfo(np.float64).tiny)
    if not np.isfinite(scale + shift):
        raise ValueError("Sums over the rows are not finite: standardise the columns and targets, or look for huge values.")
    jitter = 0.0
    while True:
        matrix = np.array(gram, order="F")
        matrix[np.diag_indices_from(matrix)] += shift + jitter
        try:
            return Factor(linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False), jitter)
        except linalg.LinAlgError:
            jitter = max(10 * jitter, 1e-14 * scale)
