"""Weights of kernels by projected gradient around a kernel machine, for a sum of kernels with l1 regularisation.

The method is that of Varma and Babu ("More generality in efficient multiple kernel learning", 2009). With
K_d = sum_t d_t K_t and C_i the cost of a row's loss, the problem and its dual are

    min_{w, b, d >= 0}  sum_i C_i l(y_i, f_i) + 1/2 sum_t |w_t|^2 / d_t + sum_t d_t,      f = sum_t phi_t w_t + b,
    min_{d >= 0} T(d),  T(d) = max_a { L(a) - 1/2 a'K_d a : a feasible, sum(a) = 0 } + sum_t d_t,

with w_t = d_t phi_t'a, and dT/dd_t = 1 - 1/2 a'K_t a. Two bounds certify a solution. Minimised over d alone, the problem is
a group lasso, so that sum_i C_i l(y_i, f_i) + sqrt(2) sum_t |w_t| is an upper bound, and d_t = |w_t| / sqrt(2) at the
optimum. Maximised over a last, it is max { L(a) : 1/2 a'K_t a <= 1 for all t }, so that any a scaled down to that is a lower
bound.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg
from scipy.optimize import minimize_scalar
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, SVR

from bochner.arrays import Array
from bochner.errors import InputError
from bochner.solvers.normal_equations import factorise
from bochner.solvers.result import Result

INNER_SHARE = 0.1
"""The inner problem is solved to this part of the gap that is allowed."""
CHANGES = 100
"""Most changes of the set of rows inside the box, each of which solves a system of its size."""
LEAST_STEPS, STEPS_A_ROW = 50_000, 1000
"""Most steps of LIBSVM, which goes on for very long where single precision cannot meet its conditions."""
LOOSER = (1000.0, 30.0, 1.0)
"""Conditions that hold up to tol give a gap of at most tol sum(C), mostly far less: LIBSVM is first asked for less."""
LARGEST_FLOOR = 1e-2
"""The smallest weight of a kernel while others are sought is at most this part of its first one."""
MEMORY = 4
"""A step must improve on the worst of this many values (Grippo, Lampariello and Lucidi, 1986)."""
DECREASE, SHORTEST_STEP, SHORT = 1e-4, 1e-10, 0.3
INDEFINITE = 1e-6
"""A kernel matrix is refused where a'K_t a is below minus this part of |a|^2 times the mean of its diagonal."""


Solution = tuple[Array, float]
"""Dual coefficients (n,) and intercept."""


@dataclass(frozen=True)
class Loss(ABC):
    """A loss sum_i C_i l(y_i, f_i), and the machine that minimises it with 1/2 a'Ka."""

    y: Array
    """Targets (n,), or classes as -1 and +1."""
    costs: Array
    """C_i (n,), positive."""

    @abstractmethod
    def value(self, scores: Array) -> float:
        """The loss of scores (n,)."""

    @abstractmethod
    def conjugate(self, dual: Array) -> tuple[float, float]:
        """Numbers p and q with L(s a) = s p - s^2 q, for s between zero and :attr:`longest`."""

    @abstractmethod
    def solve(self, gram: Array, gap: float, near: Solution | None = None) -> Solution:
        """The solution that maximises L(a) - 1/2 a'Ka with sum(a) = 0, to a gap about as small.

        ``near`` is that of a kernel matrix nearby, to start from.
        """

    @property
    def longest(self) -> float:
        """How far feasible dual coefficients may be stretched."""
        return 1.0

    def best_constant(self) -> tuple[float, float]:
        """The constant score of least loss, and that loss."""
        ends = float(self.y.min()), float(self.y.max())
        found = minimize_scalar(
            lambda score: self.value(np.full(len(self.y), score)),
            bounds=ends,
            method="bounded",
            options={"xatol": 1e-10 * np.ptp(self.y)},
        )
        return min(((x, self.value(np.full(len(self.y), x))) for x in (*ends, float(found.x))), key=lambda pair: pair[1])

    def spread(self) -> float:
        """Root of the mean squared deviation of the targets."""
        share = self.costs / self.costs.sum()
        return float(np.sqrt(share @ (self.y - share @ self.y) ** 2))


@dataclass(frozen=True)
class SquaredLoss(Loss):
    """l(y, f) = (f - y)^2 and L(a) = y'a - sum_i a_i^2 / (4 C_i): (K + diag(1 / 2C)) a + b = y, by Cholesky."""

    def value(self, scores: Array) -> float:
        return float(self.costs @ (scores - self.y) ** 2)

    def conjugate(self, dual: Array) -> tuple[float, float]:
        return float(self.y @ dual), float(np.sum(dual**2 / (4 * self.costs)))

    @property
    def longest(self) -> float:
        return np.inf

    def solve(self, gram: Array, gap: float, near: Solution | None = None) -> Solution:
        factor = factorise(gram + np.diag(1 / (2 * self.costs)), 0.0)
        solution = factor.solve(np.stack([self.y, np.ones(len(self.y))], axis=1))
        intercept = float(solution[:, 0].sum() / solution[:, 1].sum())
        return solution[:, 0] - intercept * solution[:, 1], intercept


@dataclass(frozen=True)
class SupportVectorLoss(Loss):
    """A loss with support vectors, by LIBSVM; L(a) = y'a - epsilon |a|_1 in a box."""

    epsilon: float = 0.0

    @abstractmethod
    def _machine(self, tol: float) -> Any:
        """scikit-learn's estimator for one precomputed kernel."""

    def conjugate(self, dual: Array) -> tuple[float, float]:
        return float(self.y @ dual - self.epsilon * np.abs(dual).sum()), 0.0

    def solve(self, gram: Array, gap: float, near: Solution | None = None) -> Solution:
        best, smallest = (np.zeros(len(self.y)), 0.0), np.inf
        refined = None if near is None else self._refine(gram, near[0])
        if refined is not None and self._gap(gram, *refined) <= gap:
            return refined
        for factor in LOOSER:
            tol = max(factor * gap / self.costs.sum(), 1e-12 * self.spread(), np.finfo(np.float64).tiny)
            found = self._solve(gram, tol)
            for candidate in (found, self._refine(gram, found[0])):
                if candidate is not None and (its_gap := self._gap(gram, *candidate)) < smallest:
                    best, smallest = candidate, its_gap
                if smallest <= gap:
                    return best
        return best

    def _solve(self, gram: Array, tol: float) -> Solution:
        """The solution of LIBSVM, whose conditions hold up to ``tol`` for a kernel in single precision."""
        machine = self._machine(tol).set_params(max_iter=max(LEAST_STEPS, STEPS_A_ROW * len(self.y)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the gap says how good a solution is
            machine.fit(gram, self.y, sample_weight=self.costs)
        dual = np.zeros(len(self.y))
        dual[machine.support_] = machine.dual_coef_[0]
        return dual, float(machine.intercept_[0])

    def _gap(self, gram: Array, dual: Array, intercept: float) -> float:
        product = gram @ dual
        return self.value(product + intercept) + float(dual @ product) - self.conjugate(dual)[0]

    @abstractmethod
    def _ways(self, residual: Array) -> Array:
        """The sign (n,) with which a row's coefficient may leave zero, by its residual y - f."""

    def _refine(self, gram: Array, dual: Array) -> Solution | None:
        """The solution in double precision from a feasible point, by a primal active set method; None if it takes too long.

        Rows inside the box have f = y - epsilon sign(a). Going there, the first row at a bound or at zero stays there; where
        none is in the way, the rows whose residuals ask for it most go inside.
        """
        dual, signs = dual.copy(), np.sign(dual)
        inside = (dual != 0) & (np.abs(dual) < self.costs)
        for _ in range(CHANGES):
            found = self._between(gram, np.flatnonzero(inside), self.y - self.epsilon * signs, np.where(inside, 0.0, dual))
            if found is None:
                return None
            aim, intercept = signs * found[0], found[1]
            change, size = aim - signs * dual, signs * dual
            room = np.where(change > 0, self.costs - size, size)
            blocked = inside & ((aim < 0) | (aim > self.costs))
            share = np.where(blocked, room / np.where(blocked, np.abs(change), 1.0), 1.0)
            if blocked.any():
                first = blocked & (share <= share.min())
                dual = np.where(inside, signs * np.clip(size + share.min() * change, 0, self.costs), dual)
                dual = np.where(first, np.where(change > 0, signs * self.costs, 0.0), dual)
                inside &= ~first
                continue
            dual = found[0]
            residual = self.y - gram @ dual - intercept
            ways = np.where(dual == 0, self._ways(residual), -signs)  # into the box
            push = np.where(inside, 0.0, ways * residual - np.where(dual == 0, self.epsilon, -self.epsilon))
            if push.max() <= 1e-10 * self.spread():
                return dual, intercept
            enter = push >= 0.5 * push.max()
            signs = np.where(enter & (dual == 0), ways, signs)
            inside |= enter
        return None

    def _between(self, gram: Array, inside: Array, targets: Array, bounded: Array) -> Solution | None:
        """Dual coefficients with these entries at bounds that have f = target for the rows ``inside``, and the intercept."""
        if not len(inside):
            return None
        system = np.ones((len(inside) + 1, len(inside) + 1))
        system[:-1, :-1] = gram[np.ix_(inside, inside)]
        system[-1, -1] = 0
        right = np.append((targets - gram @ bounded)[inside], -bounded.sum())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", linalg.LinAlgWarning)
                solution = linalg.solve(system, right, assume_a="sym")
        except (linalg.LinAlgError, linalg.LinAlgWarning):  # kernels of low rank have many solutions
            return None
        dual = bounded.copy()
        dual[inside] = solution[:-1]
        return dual, float(solution[-1])


@dataclass(frozen=True)
class EpsilonInsensitiveLoss(SupportVectorLoss):
    """l(y, f) = max(|f - y| - epsilon, 0); |a_i| <= C_i."""

    def value(self, scores: Array) -> float:
        return float(self.costs @ np.maximum(np.abs(scores - self.y) - self.epsilon, 0))

    def _ways(self, residual: Array) -> Array:
        return np.sign(residual)

    def _machine(self, tol: float) -> Any:
        return SVR(kernel="precomputed", C=1.0, epsilon=self.epsilon, tol=tol)


@dataclass(frozen=True)
class HingeLoss(SupportVectorLoss):
    """l(y, f) = max(1 - y f, 0) for y = -1 or +1; 0 <= y_i a_i <= C_i."""

    def value(self, scores: Array) -> float:
        return float(self.costs @ np.maximum(1 - self.y * scores, 0))

    def _ways(self, residual: Array) -> Array:
        return self.y

    def _machine(self, tol: float) -> Any:
        return SVC(kernel="precomputed", C=1.0, tol=tol)


@dataclass(frozen=True)
class Point:
    """T(d) at weights d (r,), with its gradient (r,), and the two bounds that its dual solution gives."""

    weights: Array
    dual: Array
    intercept: float
    value: float
    gradient: Array
    upper: float
    lower: float


@dataclass(frozen=True)
class KernelSum(Result):
    """Weights (r,) of kernels with the machine on their sum; ``value`` is the upper bound, ``violation`` the duality gap."""

    dual: Array
    intercept: float


class WeightProblem:
    """T(d) of one loss on kernel matrices (r, n, n); ``names`` are for errors."""

    def __init__(self, grams: Array, loss: Loss, names: Any) -> None:
        self.grams = grams
        self.loss = loss
        self.names = names
        self.diagonals = np.array([float(np.mean(np.diagonal(gram))) for gram in grams])

    def start(self) -> Array:
        """Weights (r,) at which each kernel alone could spread scores like the targets."""
        spread = self.loss.spread() or 1.0
        return spread / np.sqrt(np.where(self.diagonals > 0, self.diagonals, 1.0)) / len(self.grams)

    def at(self, weights: Array, gap: float, near: Point | None = None) -> Point:
        """T at weights (r,), its inner problem solved to a gap about as small."""
        gram = np.zeros(self.grams.shape[1:])
        for t in np.flatnonzero(weights):
            gram += weights[t] * self.grams[t]
        dual, intercept = self.loss.solve(gram, gap, None if near is None else (near.dual, near.intercept))
        products = self.grams @ dual
        squares = products @ dual
        self._refuse_indefinite(squares, dual)
        squares = np.maximum(squares, 0)
        linear, quadratic = self.loss.conjugate(dual)
        value = linear - quadratic - 0.5 * float(weights @ squares) + float(weights.sum())
        scores = weights @ products + intercept
        upper = self.loss.value(scores) + np.sqrt(2) * float(weights @ np.sqrt(squares))
        lower = self._lower_bound(linear, quadratic, float(squares.max()))
        return Point(weights, dual, intercept, value, 1 - 0.5 * squares, upper, lower)

    def _lower_bound(self, linear: float, quadratic: float, largest: float) -> float:
        """The largest L(s a) with 1/2 s^2 a'K_t a <= 1 for all kernels."""
        longest = min(self.loss.longest, np.sqrt(2 / largest) if largest > 0 else np.inf)
        best = linear / (2 * quadratic) if quadratic > 0 else np.inf
        s = min(longest, best) if linear > 0 else 0.0
        return s * linear - s * s * quadratic if np.isfinite(s) else 0.0

    def _refuse_indefinite(self, squares: Array, dual: Array) -> None:
        bad = np.flatnonzero(squares < -INDEFINITE * float(dual @ dual) * np.abs(self.diagonals))
        if len(bad):
            raise InputError(
                f"Kernel {self.names[bad[0]]!r} is not positive semidefinite: a'Ka = {squares[bad[0]]:.3g} for some a. Give "
                "the matrix of a kernel, or shift its diagonal by its lowest eigenvalue."
            )


def minimise(problem: WeightProblem, *, tol: float, max_iter: int) -> KernelSum:
    """The minimum of T(d) over d >= 0 by spectral projected gradient, to a duality gap of ``tol`` times the objective.

    The step along P(d - step * gradient) - d is shortened until T falls below the worst of the last few values (Birgin,
    Martinez and Raydan, 2000). P leaves every kernel a small weight, which costs less than the gap, because a need not be
    unique where the sum of kernels is singular: small weights choose the one whose a'K_t a is right. They end as zero.
    """
    constant, without = problem.loss.best_constant()
    start = problem.start()
    allowed = INNER_SHARE * tol * without
    point = problem.at(start, INNER_SHARE * allowed)
    best, lower, recent = point, point.lower, [point.value]
    step = float(start.max()) / _steepness(point)
    n_iter, converged, floor = 0, False, np.zeros_like(start)
    while n_iter < max_iter:
        n_iter += 1
        upper = min(best.upper, without)
        converged = upper - lower <= tol * upper
        if converged:
            break
        allowed = INNER_SHARE * max(upper - lower, tol * upper)
        floor = start * min(allowed / start.sum(), LARGEST_FLOOR)
        new = _line_search(problem, point, step, (max(recent), INNER_SHARE * allowed, floor))
        if new is None:
            break
        step = min(_spectral_step(point, new, step), 1e3 * float(max(start.max(), new.weights.max())) / _steepness(new))
        point, recent = new, [*recent[1 - MEMORY :], new.value]
        best = min(best, point, key=lambda candidate: candidate.upper)
        lower = max(lower, point.lower)
    best = _without_idle(problem, best, floor, max(best.upper, lower + tol * best.upper), INNER_SHARE * allowed)
    if without <= best.upper:
        best = replace(best, weights=np.zeros_like(start), upper=without, intercept=constant)
    gap = max(best.upper - lower, 0.0)
    return KernelSum(best.weights, best.upper, gap, n_iter, converged, best.dual, best.intercept)


def _without_idle(problem: WeightProblem, point: Point, floor: Array, upper: float, gap: float) -> Point:
    """A point without the kernels that have little more than the smallest weight, if its objective is at most ``upper``."""
    point = replace(point, weights=np.where(point.gradient == 1, 0.0, point.weights))  # a'K_t a = 0: it changes nothing
    for factor in (100, 10, 1.001):
        idle = (point.weights <= factor * floor) & (point.gradient > 0)
        if idle.any() and not idle.all():
            clean = problem.at(np.where(idle, 0.0, point.weights), gap, point)
            if clean.upper <= upper:
                return clean
    return point


def _line_search(problem: WeightProblem, point: Point, step: float, limits: tuple[float, float, Array]) -> Point | None:
    """The first point along the projected gradient that lowers T enough, or None where steps become too short.

    ``limits`` are the value to compare with, the gap of inner problems, and the smallest weights.
    """
    reference, gap, floor = limits
    direction = np.maximum(point.weights - step * point.gradient, floor) - point.weights
    slope = float(point.gradient @ direction)
    length = 1.0
    while length >= SHORTEST_STEP:
        new = problem.at(np.maximum(point.weights + length * direction, floor), gap, point)
        if new.value <= reference + DECREASE * length * slope + gap:
            return new
        curvature = new.value - point.value - length * slope
        length *= float(np.clip(-0.5 * length * slope / curvature, 0.1, 0.5)) if curvature > 0 else 0.5
    return None


def _spectral_step(point: Point, new: Point, step: float) -> float:
    """The long step of Barzilai and Borwein, or the short one where it is much shorter (Zhou, Gao and Dai, 2006).

    T bends sharply near d_t = 0 and little elsewhere, so that long steps alone would throw weights back and forth.
    """
    moved, bent = new.weights - point.weights, new.gradient - point.gradient
    curvature = float(moved @ bent)
    if curvature <= 0:
        return 10 * step
    long, short = float(moved @ moved) / curvature, curvature / float(bent @ bent)
    return short if short < SHORT * long else long


def _steepness(point: Point) -> float:
    """The largest entry of the gradient, or what rounding may leave of it where that is larger."""
    return max(float(np.abs(point.gradient).max()), 1e-10)
