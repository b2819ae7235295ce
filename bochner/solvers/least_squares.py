"""The mean squared error of B regressions on the same features, seen through one matrix of second moments.

f_b(w) = (1/W) sum_i w_i |phi_i w + intercept - y_ib|^2, the intercept eliminated. With H twice the centred second moments
of the features and g twice those of features and targets, f(w) = (1/2) w' H w - g . w + (1/2) s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bochner.arrays import Array
from bochner.solvers.groups import GroupPenalty
from bochner.solvers.line_search import best_step
from bochner.solvers.normal_equations import CentredMoments
from bochner.solvers.problem import State, times

ROUNDING = 1e-14
"""A target whose variance is below this part of its squared mean is constant but for rounding."""


@dataclass(frozen=True)
class LeastSquares:
    """The smooth part of B group lasso problems of c outputs each."""

    matrix: Array
    """H: (D, D)."""
    linear: Array
    """g: (D, B, c)."""
    square: Array
    """s, twice the mean square of the centred targets of each problem: (B,)."""

    single = True

    @classmethod
    def of(cls, centred: CentredMoments, *, together: bool) -> LeastSquares:
        """One problem of all targets ``together``, or one of each target.

        Curvature that is lost in rounding is made up for, so that no direction has a negative one and no end.
        """
        unit = 2 / centred.weight
        matrix = unit * centred.gram()
        matrix[np.diag_indices_from(matrix)] += 2 * centred.least_alpha
        square = unit * centred.target_square
        constant = square <= ROUNDING * centred.target_mean**2
        linear = unit * np.where(constant, 0.0, centred.cross)
        if together:
            return cls(matrix, linear[:, None, :], square.sum(keepdims=True))
        return cls(matrix, linear[:, :, None], square)

    def zero(self) -> Array:
        """Coefficients of zero: (D, B, c)."""
        return np.zeros_like(self.linear)

    def repeat(self, times: int) -> LeastSquares:
        """The problems over again, for as many penalties."""
        return LeastSquares(self.matrix, np.tile(self.linear, (1, times, 1)), np.tile(self.square, times))

    def take(self, problems: Array) -> LeastSquares:
        """Some of the problems."""
        return LeastSquares(self.matrix, self.linear[:, problems], self.square[problems])

    def at(self, coef: Array) -> State:
        """The problems at coefficients (D, B, c)."""
        return State(coef, self.linear - times(self.matrix, coef))

    def values(self, state: State) -> Array:
        """f of each problem: (B,)."""
        return 0.5 * (self.square - np.sum(state.coef * (self.linear + state.slopes), axis=(0, 2)))

    def model_scale(self, state: State) -> Array:
        """The second derivatives of each problem in units of ``matrix``: (B,)."""
        return np.ones(len(self.square))

    def curvature(self, state: State, used: Array, matrix: Array) -> MatrixCurvature:
        """Second derivatives among the columns ``used``, a mask (D,): ``matrix``."""
        return MatrixCurvature(matrix)

    def follow_model(self, state: State, direction: Array, penalty: GroupPenalty) -> State:
        """The end of a direction (D, B, c) that lowers the quadratic model, which is exact."""
        return State(state.coef + direction, state.slopes - times(self.matrix, direction))

    def move(self, state: State, direction: Array, penalty: GroupPenalty) -> State:
        """The least objective along a direction (D, B, c)."""
        product = times(self.matrix, direction)
        slope = -np.sum(direction * state.slopes, axis=(0, 2))
        bend = np.sum(direction * product, axis=(0, 2))
        size = best_step(state.coef, direction, penalty, lambda s: (slope + s * bend, bend))[:, None]
        return State(state.coef + size * direction, state.slopes - size * product)

    def gaps(self, state: State, penalty: GroupPenalty) -> Array:
        """How far the objective is from its minimum at most: (B,).

        The dual point is a multiple of the residuals: as they are, which leaves the gap of the penalty and its conjugate, or
        shrunk until the penalty's constraints hold (the ridge taken for rows of its own, with targets of zero).
        """
        as_they_are = penalty.conjugate_gap(state.coef, state.slopes)
        ridged = state.slopes - penalty.ridge[:, None] * state.coef
        with_linear = np.sum(state.coef * self.linear, axis=(0, 2))
        residual = self.square - with_linear - np.sum(state.coef * ridged, axis=(0, 2))
        with_target = self.square - with_linear
        least = np.maximum(1e-300 * np.abs(with_target), np.finfo(np.float64).tiny)  # of which the ratio is a number
        factor = np.clip(with_target / np.maximum(residual, least), 0.0, penalty.largest_factor(ridged))
        dual = factor * with_target - 0.5 * factor**2 * residual
        shrunk = self.values(state) + penalty.value(state.coef) - dual
        return np.maximum(np.minimum(as_they_are, shrunk), 0.0)


@dataclass(frozen=True)
class MatrixCurvature:
    """One matrix for all problems."""

    matrix: Array

    def __call__(self, direction: Array) -> Array:
        return times(self.matrix, direction)

    def take(self, problems: Array) -> MatrixCurvature:
        """The same for some of the problems."""
        return self
