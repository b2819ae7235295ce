"""A ridge penalty for each kernel, learned by the gradient of the error on held-out rows.

The coefficients of kernel t have the penalty alpha_t: the same as the plain ridge regression on the sum of kernels with
weights in proportion to 1 / alpha_t. Group lasso weighs kernels by how well they fit; here those that fit the rows they
have seen and not others, such as what tells one image or one person from the rest, lose their weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bochner.arrays import Array
from bochner.fold_problems import FoldMoments
from bochner.solvers.lbfgs import minimise
from bochner.solvers.normal_equations import CentredMoments, Factor, factorise_fresh
from bochner.statistics import Moments

RANGE = 1e5
"""The largest and the smallest penalty, as a multiple and a part of the one at the start."""
MAX_ITER, TOL = 15, 1e-4
"""Steps of the descent, and the part of the error below which a step is not worth taking."""


@dataclass(frozen=True)
class KernelPenalties:
    """Regressions with a penalty for each kernel, from the moments of every part of the rows."""

    moments: FoldMoments
    sizes: Sequence[int]
    """Columns of each kernel."""
    validated: tuple[int, ...]

    def learn(self, start: Array) -> Array:
        """Penalties (r,) of a low held-out error, the mean over parts and targets, from those to start with."""
        low, high = np.log(start / RANGE), np.log(start * RANGE)
        found = minimise(self.error_and_gradient, np.log(start), bounds=(low, high), max_iter=MAX_ITER, tol=TOL)
        return np.exp(found.coef)

    def error_and_gradient(self, log_penalties: Array) -> tuple[float, Array]:
        """The mean squared error of validated parts, and its derivatives in the logarithms of penalties (r,).

        With P the diagonal matrix of W alpha_t, beta = (A + P)^-1 B: a change dP changes it by -(A + P)^-1 dP beta.
        """
        penalties = np.exp(log_penalties)
        errors, gradient = [], np.zeros(len(penalties))
        for k in self.validated:
            part, centred = self.moments.parts[k], self.moments.centred(k)
            factor, coef, intercept = self._solve(centred, penalties)
            unit = part.weight * coef.shape[1]
            errors.append(float(part.squared_error(coef, intercept).sum()) / unit)
            with_features, with_one = part.residual_products(coef, intercept)
            adjoint = factor.solve(with_features - centred.mean[:, None] * with_one)
            products = np.add.reduceat(np.sum(adjoint * coef, axis=1), self._starts)
            gradient -= 2 / unit * centred.weight * penalties * products
        return float(np.mean(errors)), gradient / len(self.validated)

    def model(self, without: int | None, penalties: Array) -> tuple[Array, Array]:
        """Coefficients (D, c) and intercept (c,) of all rows to fit, or of all but a part."""
        return self._solve(self.moments.centred(without), penalties)[1:]

    def of_target(self, index: int) -> KernelPenalties:
        """The same for one of the targets."""
        parts: list[Moments] = [part.target(index) for part in self.moments.parts]
        moments = FoldMoments(parts, self.moments.fitted, self.moments.total.target(index))
        return replace(self, moments=moments)

    @property
    def _starts(self) -> Array:
        """The first column of each kernel."""
        return np.cumsum((0, *self.sizes[:-1]))

    def _solve(self, centred: CentredMoments, penalties: Array) -> tuple[Factor, Array, Array]:
        diagonal = centred.weight * np.repeat(penalties, self.sizes)

        def matrix() -> Array:
            gram = centred.gram()
            gram[np.diag_indices_from(gram)] += diagonal
            return gram

        factor = factorise_fresh(matrix, 0.0)
        coef = factor.solve(centred.cross)
        return factor, coef, centred.target_mean - centred.mean @ coef
