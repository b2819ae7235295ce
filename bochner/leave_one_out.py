"""Leave-one-out error of ridge regression on features, in closed form: value, gradient, best penalty.

The prediction of a row by the regression that has not seen it needs no refit: its residual is r_i / (1 - h_i), with h_i the
leverage w_i (1/W + c_i' S^-1 c_i), c_i = phi_i - mean and S = A_c + W alpha I. (The penalty W alpha stays as it is when a
row is left out.) One eigendecomposition A_c = V diag(l) V' gives the error of every penalty, from P = C V. With g = dJ/dr,
q = dJ/dh, Z = P (l + W alpha)^-1, coefficients b and adjoint a = -(l + W alpha)^-1 P' g, all in the eigenbasis,

    dJ/dPhi = {-g b' + w [r a' - (P a - sum(g)/W) b'] + 2 w [q Z - P Z' diag(q w) Z - (q w)' Z / W]} V'.

All features are held at once, n d numbers; the time is that of a few products of n d^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from bochner.arrays import Array, dense
from bochner.criteria import Evaluation, Fit, fit_ridge
from bochner.engines import forward, pull_back
from bochner.features import FeatureGradient, FeatureMap
from bochner.folds import Folds, HeldOut, Rows
from bochner.solvers.penalty_search import PENALTIES, PenaltySearch
from bochner.span import Span, few_rows
from bochner.statistics import Moments
from bochner.tiled import add_squares, product


class LeaveOneOutError:
    """Mean squared error of leave-one-out predictions, as a function of a feature map."""

    def __init__(self, folds: Folds, *, penalty: float | None = None) -> None:
        self.folds = folds
        self.penalty = penalty
        self.rows = Rows.stack(list(folds.parts))

    def evaluate(
        self,
        feature_map: FeatureMap,
        log_alpha: Any = None,
        *,
        gradient: bool = True,
        bounds: tuple[float, float] = PENALTIES,
    ) -> Evaluation:
        """The criterion of a map, its penalty chosen: near ``log_alpha``, or anywhere in ``bounds``."""
        features = dense(forward(feature_map, self.rows.X))
        basis = Span.of(features) if few_rows(*features.shape) else None
        features = features if basis is None else basis.coordinates
        ridge = LeaveOneOutRidge(features, self.rows)
        best = ridge.best(log_alpha, bounds=bounds) if self.penalty is None else ridge.at(float(np.log(self.penalty)))
        pulled_back = self._gradient(feature_map, ridge.gradient(best), basis) if gradient else None
        totals = Moments.of(features, self.rows.targets, self.rows.weights)
        return Evaluation(best.value, best.log_alpha, pulled_back, totals, {}, basis)

    def fit(self, feature_map: FeatureMap, evaluation: Evaluation) -> Fit:
        """The model of all rows, with the penalty of an evaluation."""
        return fit_ridge(evaluation)

    def held_out(self, feature_map: FeatureMap, evaluation: Evaluation) -> HeldOut:
        """Every row with its prediction by the regression that has not seen it."""
        basis = evaluation.basis
        features = dense(forward(feature_map, self.rows.X)) if basis is None else basis.coordinates
        solution = LeaveOneOutRidge(features, self.rows).at(evaluation.log_alpha)
        return HeldOut(self.rows, self.rows.targets - solution.left_out)

    def _gradient(self, feature_map: FeatureMap, gradient: Array, basis: Span | None) -> FeatureGradient:
        def of_block(block: slice, _features: Array) -> Array:
            return gradient[block] if basis is None else basis.expand_gradient(gradient[block])

        return pull_back(feature_map, self.rows.X, of_block)


@dataclass(frozen=True)
class LeaveOneOutSolution:
    """The leave-one-out error at one penalty, its derivative in log alpha, and what its gradient is made of."""

    value: float
    slope: float
    log_alpha: float
    inverse: Array
    """(l + W alpha)^-1: (d,)."""
    coef: Array
    """Coefficients in the eigenbasis: (d, c)."""
    residual: Array
    left_out: Array
    """Residuals of all rows, and of each row left out: (n, c)."""
    residual_slope: Array
    """g: (n, c)."""
    leverage_slope: Array
    """q: (n,)."""
    curvature: None = None


class LeaveOneOutRidge(PenaltySearch):
    """Leave-one-out error as a function of the penalty alone, from one eigendecomposition."""

    def __init__(self, features: Array, rows: Rows) -> None:
        self.weights = rows.weights
        self.total = float(rows.weights.sum())
        share = rows.weights / self.total
        self.targets = rows.targets - share @ rows.targets
        centred = features - share @ features
        gram = np.zeros((centred.shape[1], centred.shape[1]), order="F")
        add_squares(gram, np.sqrt(rows.weights)[:, None] * centred)
        eigenvalues, self.vectors = linalg.eigh(gram, check_finite=False)  # of the lower triangle
        self.eigenvalues = np.maximum(eigenvalues, 0)
        self.rotated = product(centred, self.vectors)
        self.squares = self.rotated**2
        self.cross = self.rotated.T @ (self.targets * rows.weights[:, None])

    def at(self, log_alpha: float) -> LeaveOneOutSolution:
        """Every row predicted without itself, with penalty exp(log_alpha)."""
        shift = self.total * float(np.exp(log_alpha))
        inverse = 1 / (self.eigenvalues + shift)
        coef = inverse[:, None] * self.cross
        residual = self.targets - self.rotated @ coef
        leverage = self.weights * (1 / self.total + self.squares @ inverse)
        stretch = 1 / np.maximum(1 - leverage, 1e-12)
        left_out = stretch[:, None] * residual
        scale = 2 / (self.total * self.targets.shape[1]) * self.weights
        g = (scale * stretch**2)[:, None] * residual
        q = scale * stretch**3 * np.sum(residual**2, axis=1)
        steps = shift * inverse**2
        slope = np.sum(g * (self.rotated @ (steps[:, None] * self.cross))) - np.sum(
            q * self.weights * (self.squares @ steps)
        )
        value = 0.5 * float(np.sum(scale[:, None] * left_out**2))
        return LeaveOneOutSolution(value, float(slope), log_alpha, inverse, coef, residual, left_out, g, q)

    def gradient(self, solution: LeaveOneOutSolution) -> Array:
        """Gradient of the error in the features: (n, d)."""
        P, w = self.rotated, self.weights[:, None]
        g, q, coef = solution.residual_slope, solution.leverage_slope, solution.coef
        adjoint = -solution.inverse[:, None] * (P.T @ g)
        Z = P * solution.inverse
        by_leverage = q * self.weights
        through_residuals = -g @ coef.T + w * (
            solution.residual @ adjoint.T - (P @ adjoint - g.sum(axis=0) / self.total) @ coef.T
        )
        across = product((Z * by_leverage[:, None]).T, Z)
        through_leverage = q[:, None] * Z - product(P, across) - (by_leverage @ Z) / self.total
        return product(through_residuals + 2 * w * through_leverage, self.vectors.T)
