"""Held-out error of kernel ridge regression on the full kernel matrix: value, gradient, best penalty (KRR-GD).

The same criterion as :mod:`bochner.criteria`, without features: each validated part is predicted by the ridge regression
on all the others, (K + W alpha D^-1) a + b = Y with sum(a) = 0, D the weights and W their sum. With the residuals F of the
held-out predictions K_v a + b and the adjoint (p, p_0) of the bordered system,

    dJ/dK_v = F a',   dJ/dK = -p a'.

The cost is cubic in the number of rows, and a matrix of all pairs of rows is held.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bochner import tiled
from bochner.arrays import Array
from bochner.folds import Folds, Rows
from bochner.kernels import Kernel
from bochner.solvers.normal_equations import factorise
from bochner.solvers.penalty_search import PENALTIES, PenaltySearch


@dataclass(frozen=True)
class ExactEvaluation:
    """The criterion at one kernel and its best penalty, with the gradient by parameter name."""

    value: float
    log_alpha: float
    gradient: dict[str, Array]
    gram: Array


class ExactHeldOutError:
    """Mean squared error of held-out predictions, as a function of a kernel."""

    def __init__(self, folds: Folds, *, penalty: float | None = None) -> None:
        self.penalty = penalty
        self.rows = Rows.stack(list(folds.parts))
        ends = np.cumsum([part.n for part in folds.parts])
        self.validated = [np.arange(ends[k] - folds.parts[k].n, ends[k]) for k in folds.validated]

    def evaluate(
        self,
        kernel: Kernel,
        log_alpha: float | None = None,
        *,
        gradient: bool = True,
        bounds: tuple[float, float] = PENALTIES,
    ) -> ExactEvaluation:
        """The criterion of a kernel, its penalty chosen: near ``log_alpha``, or anywhere in ``bounds``."""
        gram = kernel.exact(self.rows.X, self.rows.X)
        ridge = ExactFolds(gram, self.rows, self.validated)
        best = ridge.best(log_alpha, bounds=bounds) if self.penalty is None else ridge.at(float(np.log(self.penalty)))
        slope = kernel.exact_adjoint(self.rows.X, self.rows.X, best.gradient()) if gradient else {}
        return ExactEvaluation(best.value, best.log_alpha, slope, gram)


@dataclass(frozen=True)
class ExactSolution:
    """All parts predicted at one penalty: the error, its derivative in log alpha, and what its gradient is made of."""

    value: float
    slope: float
    log_alpha: float
    n_rows: int
    pieces: list[tuple[Array, Array, Array, Array, Array]]
    """For each part: held-out rows, training rows, weighted residuals F, dual coefficients a, adjoint p."""
    curvature: None = None

    def gradient(self) -> Array:
        """Gradient in the kernel matrix of all rows: (n, n)."""
        result = np.zeros((self.n_rows, self.n_rows))
        for held, train, residual, dual, adjoint in self.pieces:
            result[np.ix_(held, train)] += residual @ dual.T
            result[np.ix_(train, train)] -= adjoint @ dual.T
        return result


class ExactFolds(PenaltySearch):
    """Held-out error as a function of the penalty alone, from the kernel matrix of all rows."""

    def __init__(self, gram: Array, rows: Rows, validated: list[Array]) -> None:
        self.gram = gram
        self.rows = rows
        self.validated = validated
        self.normaliser = rows.targets.shape[1] * float(sum(rows.weights[held].sum() for held in validated))

    def at(self, log_alpha: float) -> ExactSolution:
        value = slope = 0.0
        pieces = []
        alpha = float(np.exp(log_alpha))
        for held in self.validated:
            train = np.setdiff1d(np.arange(self.rows.n), held)
            ridge = ExactRidge.of(self.gram[np.ix_(train, train)], self.rows.take(train), alpha)
            across = self.gram[np.ix_(held, train)]
            residual = across @ ridge.dual + ridge.intercept - self.rows.targets[held]
            weighted = 2 / self.normaliser * self.rows.weights[held, None] * residual
            value += 0.5 * float(np.sum(weighted * residual))
            adjoint = ridge.adjoint(across.T @ weighted, weighted.sum(axis=0))
            slope -= float(np.sum(adjoint * ridge.dual * ridge.diagonal[:, None]))
            pieces.append((held, train, weighted, ridge.dual, adjoint))
        return ExactSolution(value, slope, log_alpha, self.rows.n, pieces)


@dataclass(frozen=True)
class ExactRidge:
    """Kernel ridge regression with a free intercept: dual coefficients (n, c), which sum to zero, and intercept (c,)."""

    dual: Array
    intercept: Array
    diagonal: Array
    """What the penalty adds to the diagonal of the kernel matrix: W alpha / w."""
    triangle: Array
    border: Array
    """The solution of the system for a column of ones."""

    @classmethod
    def of(cls, gram: Array, rows: Rows, alpha: float) -> ExactRidge:
        """The regression of penalty ``alpha`` on the rows whose kernel matrix is ``gram``."""
        diagonal = rows.weights.sum() * alpha / rows.weights
        factor = factorise(gram + np.diag(diagonal), 0.0)
        border = factor.solve(np.ones(rows.n))
        solution = factor.solve(rows.targets)
        intercept = solution.sum(axis=0) / border.sum()
        return cls(solution - np.outer(border, intercept), intercept, diagonal, factor.triangle, border)

    def adjoint(self, right: Array, right_sum: Array) -> Array:
        """The first block of the inverse of the bordered matrix times (right, right_sum): (n, c)."""
        solution = tiled.solve(self.triangle, right)
        return solution - np.outer(self.border, (solution.sum(axis=0) - right_sum) / self.border.sum())
