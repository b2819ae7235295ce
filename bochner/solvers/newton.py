"""A smooth convex loss of linear scores with a squared penalty: Newton's method, and the inverse Hessian at its end.

The problem is f(B, b) = (1/W) sum_i w_i loss(phi_i B + b, y_i) + alpha |B|^2, W the sum of the weights, with an intercept
b that is free for all practical purposes. Coefficients (d, c) and intercept (c,) travel as one array (d + 1, c), the
intercept last. Newton steps are solved for by conjugate gradients, each of whose steps is one pass over the rows. Their
preconditioner is the part of the Hessian that does not mix columns: for column k, with v_ik the second derivative of row
i's loss in its score k,

    P_k = (1/W) sum_i w_i v_ik [phi_i 1]' [phi_i 1] + 2 alpha I,

followed, for losses that only see differences of scores, by taking the mean over the columns away. (Without that it would
be useless there: the Hessian vanishes along the mean and P does not.) It is built anew when the steps taken with the old one
have cost as much as building it, so that the whole costs at most twice what it would have to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from bochner.arrays import Array
from bochner.losses import Loss
from bochner.solvers.normal_equations import factorise
from bochner.solvers.result import Result
from bochner.statistics import Moments

TOLERANCE = 1e-9
"""A solution is done when its distance from the minimum, in the norm of the Hessian, is this part of f^(1/2), and a system
with the Hessian when its residual is this part of its right side."""
MOST_NEWTON_STEPS = 100
MOST_CG_STEPS = 1000
INTERCEPT_PENALTY = 1e-10
"""The penalty of the intercept, too small to matter where there is a best one. It keeps the intercept finite, at scores of
twenty or so, where a class has no rows."""
STEPS_A_BUILD = 8, 1 / 16
"""Building a preconditioner for d features costs about as much as 8 + d / 16 steps, products being faster in bulk."""
MOST_BYTES = 2**29
"""Where the matrices of all columns would be larger than this, they share the one of their mean curvature."""


class Passes(Protocol):
    """Passes over the features Phi (n, d) of some rows."""

    def there_and_back(self, coef: Array, between: Callable[..., Array], *rows: Array) -> tuple[Array, Array]:
        """[Phi 1]' between([Phi 1] coef, *rows), block by block of ``rows`` (n, ...), and [Phi 1] coef.

        For coef (d + 1, c), these are (d + 1, c) and (n, c).
        """

    def moments(self, weights: Array) -> list[Moments]:
        """Moments of the features under each column of weights (n, k)."""


@dataclass(frozen=True)
class Point:
    """Some coefficients at some penalty."""

    alpha: float
    coef: Array
    """Coefficients and intercept: (d + 1, c)."""
    scores: Array
    """(n, c)."""


class Centred:
    """Weighted sums over rows of [phi 1]' [phi 1], ``penalty`` added to the last entry, with the intercept eliminated."""

    def __init__(self, moments: Moments, penalty: float) -> None:
        self.weight = moments.weight + penalty
        self.mean = moments.feature_sum / self.weight
        """(d,)."""
        self.gram = moments.gram - np.outer(moments.feature_sum, self.mean)
        """(d, d)."""


class Preconditioner:
    """P^-1 from the sums of every column (or one for all of them), weighted by w v."""

    def __init__(self, columns: list[Centred], total: float, alpha: float, *, shift_free: bool) -> None:
        self.columns = columns
        self.total = total
        self.shift_free = shift_free
        self.factors = [factorise(column.gram, 2 * alpha * total) for column in columns]

    def __call__(self, right: Array) -> Array:
        """P^-1 right: (d + 1, c)."""
        result = np.empty_like(right)
        width = right.shape[1] // len(self.columns)
        for k, (column, factor) in enumerate(zip(self.columns, self.factors, strict=True)):
            some = slice(k * width, (k + 1) * width)
            coef = factor.solve(right[:-1, some] - np.outer(column.mean, right[-1, some]))
            result[:-1, some] = coef
            result[-1, some] = right[-1, some] / column.weight - column.mean @ coef
        result *= self.total
        return without_mean(result) if self.shift_free else result


class PenalisedLoss:
    """The problem of the module, for rows behind ``passes`` with targets (n, c) and weights (n,).

    Keeps what the latest preconditioner was made of from one penalty to the next.
    """

    def __init__(self, passes: Passes, loss: Loss, targets: Array, weights: Array) -> None:
        self.passes = passes
        self.loss = loss
        self.targets = targets
        self.total = float(weights.sum())
        self.share = (weights / self.total)[:, None]
        self.cg_steps = 0
        """Steps of conjugate gradients so far."""
        self._moments: list[Centred] = []
        self._built_at = 0

    def solve(self, alpha: float, start: Array, *, tol: float = TOLERANCE) -> tuple[Result, Point]:
        """Minimise from ``start`` (d + 1, c), or from zero where that is lower.

        The result's ``violation`` is the distance from the minimum, in the norm of the Hessian and in units of f^(1/2): the
        length of the last step, times the inexactness of its direction plus the largest change of any score. (That change
        bounds the change of a row's second derivatives, in units of themselves.)
        """
        point, value, gradient = self._at(without_mean(start) if self.loss.shift_free else start, alpha)
        if not value <= float(self.share[:, 0] @ self.loss.values(np.zeros_like(point.scores), self.targets)):
            point, value, gradient = self._at(np.zeros_like(start), alpha)
        precondition = self._preconditioner(point)
        violation, steps = np.inf, 0
        while violation > tol and steps < MOST_NEWTON_STEPS:
            if steps > 0:
                point, value, gradient = self._at(point.coef, alpha)
            if self._is_worn():
                precondition = self._preconditioner(point)
            unit = max(value, np.finfo(np.float64).tiny)
            guess = (max(float(np.sum(gradient * precondition(gradient))), 0.0) / unit) ** 0.5
            inexact = max(min(0.1, guess), 0.1 * tol / max(guess, tol))
            direction, change = self._solve_hessian(point, -gradient, precondition, inexact)
            size = self._line_search(point, gradient, direction, change)
            length = (max(-float(np.sum(gradient * direction)), 0.0) / unit) ** 0.5
            distance = length * (abs(1 - size) + inexact + size * float(np.max(np.abs(change))))
            if size == 0:  # rounding is all that is left, and the point is as far as it was
                violation = min(violation, distance)
                break
            violation = distance
            point = Point(alpha, point.coef + size * direction, point.scores + size * change)
            steps += 1
        return Result(point.coef, self._value(point), violation, steps, violation <= tol), point

    def solve_hessian(self, point: Point, right: Array, *, tol: float = TOLERANCE) -> Array:
        """The inverse of the Hessian at a point times ``right`` (d + 1, c): (d + 1, c)."""
        return self._solve_hessian(point, right, self._preconditioner(point), tol)[0]

    def _value(self, point: Point) -> float:
        losses = self.loss.values(point.scores, self.targets)
        return float(self.share[:, 0] @ losses) + float(np.sum(_ridge(point.alpha, point.coef) * point.coef**2))

    def _at(self, coef: Array, alpha: float) -> tuple[Point, float, Array]:
        """A point, its value and its gradient (d + 1, c)."""
        slopes, scores = self.passes.there_and_back(coef, partial(weighted_slopes, self.loss), self.targets, self.share)
        gradient = slopes + 2 * _ridge(alpha, coef) * coef
        point = Point(alpha, coef, scores)
        return point, self._value(point), gradient

    def _product(self, point: Point, direction: Array) -> tuple[Array, Array]:
        """The Hessian times a direction (d + 1, c), and the change of the scores along it (n, c)."""
        rows = point.scores, self.targets, self.share
        bent, change = self.passes.there_and_back(direction, partial(_curves, self.loss), *rows)
        return bent + 2 * _ridge(point.alpha, direction) * direction, change

    def _solve_hessian(self, point: Point, right: Array, precondition: Preconditioner, tol: float) -> tuple[Array, Array]:
        """Preconditioned conjugate gradients: the solution (d + 1, c), and the change of the scores along it (n, c)."""
        solution, change = np.zeros_like(right), np.zeros(self.targets.shape)
        residual = right
        step = improved = precondition(residual)
        first = norm = float(np.sum(residual * improved))
        for _ in range(MOST_CG_STEPS):
            if norm <= tol**2 * first:
                break
            product, step_change = self._product(point, step)
            self.cg_steps += 1
            bend = float(np.sum(step * product))
            if bend <= 0:  # rounding is all that is left
                break
            size = norm / bend
            solution, change = solution + size * step, change + size * step_change
            residual = residual - size * product
            improved = precondition(residual)
            before, norm = norm, float(np.sum(residual * improved))
            step = improved + norm / before * step
        return solution, change

    def _line_search(self, point: Point, gradient: Array, direction: Array, change: Array) -> float:
        """How far to go along a direction: until half of the slope is gone or more. Costs no pass over the rows."""
        ridge = 2 * _ridge(point.alpha, direction)
        penalty, bend = float(np.sum(ridge * point.coef * direction)), float(np.sum(ridge * direction**2))
        weighted = self.share * change
        first = float(np.sum(gradient * direction))
        low, size, high = 0.0, 1.0, np.inf
        for _ in range(60):
            scores = point.scores + size * change
            slope = float(np.sum(weighted * self.loss.slopes(scores, self.targets))) + penalty + size * bend
            if 0.5 * first <= slope <= -0.1 * first:
                return size
            low, high = (size, high) if slope < 0 else (low, size)
            curve = float(np.sum(weighted * self.loss.curve(scores, self.targets, change))) + bend
            size -= slope / curve
            if not low < size < high:
                size = 4 * low if high == np.inf else (low + high) / 2
        return low  # downhill all the way from zero to here

    def _preconditioner(self, point: Point) -> Preconditioner:
        if self._is_worn():
            curvature = self.loss.curvature(point.scores, self.targets)
            if 8 * curvature.shape[1] * len(point.coef) ** 2 > MOST_BYTES:
                curvature = curvature.mean(axis=1, keepdims=True)
            columns = self.passes.moments(self.total * self.share * curvature)
            self._moments = [Centred(column, 2 * INTERCEPT_PENALTY * self.total) for column in columns]
            self._built_at = self.cg_steps
        return Preconditioner(self._moments, self.total, point.alpha, shift_free=self.loss.shift_free)

    def _is_worn(self) -> bool:
        """Whether there is no preconditioner, or the steps since it was built have cost as much as building it."""
        fixed, per_feature = STEPS_A_BUILD
        return not self._moments or self.cg_steps - self._built_at > fixed + per_feature * len(self._moments[0].mean)


def weighted_slopes(loss: Loss, scores: Array, targets: Array, share: Array) -> Array:
    """Shares times the slopes of a loss: (n, c)."""
    return share * loss.slopes(scores, targets)


def _curves(loss: Loss, change: Array, scores: Array, targets: Array, share: Array) -> Array:
    """Shares times second derivatives of a loss times a change of the scores: (n, c)."""
    return share * loss.curve(scores, targets, change)


def without_mean(coef: Array) -> Array:
    """Coefficients (d + 1, c) less their mean over the columns: the same differences of scores, and a smaller norm."""
    return coef - coef.mean(axis=1, keepdims=True)


def _ridge(alpha: float, coef: Array) -> Array:
    """The penalty of every row of coefficients (d + 1, c): (d + 1, 1)."""
    ridge = np.full((len(coef), 1), alpha)
    ridge[-1] = INTERCEPT_PENALTY
    return ridge
