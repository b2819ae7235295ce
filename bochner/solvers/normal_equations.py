"""Ridge regression with a free intercept from moments, and the adjoint of its solution.

The problem is (1/W) sum_i w_i (phi_i . beta + b - y_i)^2 + alpha |beta|^2, W the sum of the weights. Eliminating the
intercept leaves (A_c + W alpha I) beta = B_c with centred moments A_c and B_c.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg
from scipy.linalg import blas, lapack

from bochner import tiled
from bochner.arrays import Array, cholesky, dtype_of, is_foreign, namespace
from bochner.errors import InputError
from bochner.statistics import Moments

ROUNDINGS = 10
"""Roundings of the largest square of the features that sums over rows may be off by."""


@dataclass(frozen=True)
class CentredMoments:
    """Moments around their means, ready to be solved for any penalty.

    ``moments`` less those of ``left_out`` rows, if there are any; the matrix of what remains is made where it is
    factorised, and nowhere else.
    """

    moments: Moments
    left_out: Moments | None = None

    @cached_property
    def weight(self) -> float:
        """Sum of the weights."""
        return self.moments.weight - (self.left_out.weight if self.left_out else 0.0)

    @cached_property
    def mean(self) -> Array:
        """Mean of the features: (d,)."""
        return self._remaining("feature_sum") / self.weight

    @cached_property
    def target_mean(self) -> Array:
        """Mean of the targets: (c,)."""
        return self._remaining("target_sum") / self.weight

    @cached_property
    def cross(self) -> Array:
        """Centred products of features and targets: (d, c); zero for features that are constant but for rounding."""
        cross = self._remaining("cross") - self.mean[:, None] * (self.weight * self.target_mean)
        xp = namespace(cross)
        total = xp.linalg.diagonal(self.moments.gram)
        squares = total if self.left_out is None else total - xp.linalg.diagonal(self.left_out.gram)
        constant = squares - self.weight * self.mean**2 <= ROUNDINGS * float(np.finfo(np.float64).eps) * total
        return xp.where(constant[:, None], xp.zeros_like(cross), cross)

    @cached_property
    def target_square(self) -> Array:
        """Sums of the squares of the centred targets: (c,)."""
        return self._remaining("target_square") - self.weight * self.target_mean**2

    def gram(self) -> Array:
        """Centred second moments of the features, (d, d), as a fresh matrix."""
        if is_foreign(self.moments.gram):
            return self._remaining("gram") - self.mean[:, None] * (self.weight * self.mean)
        gram = np.array(self.moments.gram) if self.left_out is None else self.moments.gram - self.left_out.gram
        return blas.dger(-self.weight, self.mean, self.mean, a=np.asfortranarray(gram), overwrite_a=1)

    def spectrum(self) -> Spectrum:
        """The eigendecomposition of :meth:`gram`."""
        gram = self.gram()
        if is_foreign(gram):
            values, vectors = namespace(gram).linalg.eigh(gram)
            return Spectrum(namespace(gram).clip(values, min=0.0), vectors)
        values, vectors = linalg.eigh(gram, check_finite=False)
        return Spectrum(np.maximum(values, 0), vectors)

    def coefficients(self, alpha: float | Array) -> tuple[Array, Array]:
        """Coefficients (d, c) and intercept (c,) of one penalty, or of one for each target (c,)."""
        if np.ndim(alpha) == 0:
            solution = self.solve(float(alpha))
            return solution.coef, solution.intercept
        spectrum = self.spectrum()
        columns = zip(np.maximum(alpha, self.least_alpha), self.cross.T, strict=True)
        solved = [spectrum.shifted(self.weight * each).solve(cross) for each, cross in columns]
        coef = namespace(self.cross).stack(solved, axis=1)
        return coef, self.target_mean - self.mean @ coef

    @cached_property
    def least_alpha(self) -> float:
        """The penalty below which rounding errors of the moments count for more: next to nothing for features of length one.

        Of long features that hardly differ, as those of additive kernels far from zero, centring leaves little but rounding.
        """
        squares = namespace(self.moments.gram).linalg.diagonal(self.moments.gram)
        return ROUNDINGS * float(np.finfo(np.float64).eps) * float(squares.max()) / float(self.moments.weight)

    def solve(self, alpha: float, spectrum: Spectrum | None = None) -> RidgeSolution:
        """The ridge regression of penalty ``alpha``, from a factorisation or from the ``spectrum`` of these moments."""
        alpha = max(alpha, self.least_alpha)
        shift = self.weight * alpha
        factor = factorise_fresh(self.gram, shift) if spectrum is None else spectrum.shifted(shift)
        coef = factor.solve(self.cross)
        return RidgeSolution(self, alpha, factor, coef, self.target_mean - self.mean @ coef)

    def _remaining(self, name: str) -> Array:
        value = getattr(self.moments, name)
        return value if self.left_out is None else value - getattr(self.left_out, name)


@dataclass(frozen=True)
class RidgeSolution:
    """Coefficients (d, c) and intercept (c,)."""

    centred: CentredMoments
    alpha: float
    factor: Any
    """What made them: it has ``solve``."""
    coef: Array
    intercept: Array

    def adjoint(self, with_features: Array, with_one: Array) -> tuple[Array, Array]:
        """Q^-1 (w, w_0) for the bordered matrix Q of the problem with its intercept: (d, c) and (c,)."""
        return self._bordered(self.factor.solve(self._centre(with_features, with_one)), with_one)

    def adjoint_and_change(self, with_features: Array, with_one: Array) -> tuple[Array, Array, Array]:
        """The adjoint, and the derivative of the coefficients in log alpha (d, c), by one solve."""
        xp, c = namespace(self.coef), self.coef.shape[1]
        both = self.factor.solve(xp.concat([self._centre(with_features, with_one), self.coef], axis=1))
        return *self._bordered(both[:, :c], with_one), -self.centred.weight * self.alpha * both[:, c:]

    def _centre(self, with_features: Array, with_one: Array) -> Array:
        return with_features - self.centred.mean[:, None] * with_one

    def _bordered(self, solution: Array, with_one: Array) -> tuple[Array, Array]:
        return solution, with_one / self.centred.weight - self.centred.mean @ solution


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues (d,) and eigenvectors (d, d) of a matrix, with a shift of the former."""

    values: Array
    vectors: Array

    def shifted(self, shift: float) -> Spectrum:
        """That of the matrix plus shift I."""
        return Spectrum(self.values + shift, self.vectors)

    def solve(self, right: Array) -> Array:
        """The matrix inverse times ``right``."""
        values = self.values if right.ndim == 1 else self.values[:, None]
        return self.vectors @ ((self.vectors.T @ right) / values)


@dataclass(frozen=True)
class Factor:
    """A factorisation of a symmetric positive definite matrix."""

    triangle: Array
    jitter: float
    """What had to be added to the diagonal, beyond the penalty, before the factorisation went through."""

    def solve(self, right: Array) -> Array:
        """The matrix inverse times ``right``."""
        if is_foreign(self.triangle):
            return namespace(self.triangle).cholesky_solve(right, self.triangle)
        return tiled.solve(self.triangle, right)

    def inverse_trace(self) -> float:
        """Trace of the inverse of the matrix."""
        return float(np.sum(np.tril(lapack.dtrtri(self.triangle, lower=1)[0]) ** 2))


def factorise(gram: Array, shift: float) -> Factor:
    """Cholesky factor of gram + shift I. Where rounding has made it indefinite, the diagonal grows until it is not."""
    return factorise_fresh(lambda: gram.T.copy(order="A"), shift)


def factorise_fresh(make: Callable[[], Array], shift: float) -> Factor:
    """The same for a matrix that is made anew by every call of ``make`` and overwritten by its factor."""
    jitter = 0.0
    while True:
        matrix = make()
        matrix = matrix if is_foreign(matrix) else np.asfortranarray(matrix)
        xp = namespace(matrix)
        scale = max(float(xp.sum(xp.linalg.diagonal(matrix))) / len(matrix), np.finfo(np.float64).tiny)
        if not np.isfinite(scale + shift):
            raise InputError(
                "Sums over the rows are not finite: standardise the columns and targets, or look for huge values."
            )
        triangle, failed = cholesky(matrix, shift + jitter)
        if not failed:
            return Factor(triangle, jitter)
        jitter = max(10 * jitter, 50 * float(np.finfo(dtype_of(matrix)).eps) * scale)
        del matrix, triangle  # before the next one is made
