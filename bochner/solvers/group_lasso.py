"""Group lasso: problems f_b(w) + P_b(w), many at a time, each solution with a bound on its distance from the best.

Problems that share their features (several penalties, several targets) are solved side by side, so that nearly all work is
products of matrices. A round has two steps, each to the best point along its direction:

1. *Sweep*: group after group is set to its minimum with the others held fixed, in a quadratic model of the problem. This
   finds which groups are in.
2. *Newton*: among the groups that are in, the objective is smooth, with second derivatives
   H + mu I + (lambda_t / |w_t|) (I - u_t u_t'), u_t = w_t / |w_t|. The system is solved by conjugate gradients, with one
   Cholesky factor for all problems as preconditioner, in single precision where its rounding is small beside the bends
   lambda_t / |w_t|: a direction need not be exact, for what is gained along it is counted in double. Groups that the step
   would send through zero are taken out, where that is better.

A problem is done when its duality gap is small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bochner.arrays import Array
from bochner.blas import one_blas_pool
from bochner.solvers.groups import SLACK, GroupPenalty, Groups, block_minimum
from bochner.solvers.normal_equations import Factor, factorise_fresh
from bochner.solvers.problem import Curvature, Problem, State, times
from bochner.solvers.spectra import Spectra

CG_TOLERANCES = 1e-1, 3e-2, 1e-2, 1e-3
"""How exactly the Newton systems are solved, in one round after the other."""
MOST_CG_STEPS = 30
MOST_ROUNDS = 100
REFACTORISE = 0.7
"""Change of the logarithm of a group's mean curvature from which on the preconditioner is made anew."""
DAMPING = 1e-4
"""Curvature that the length of a group is given along itself, where it has none, in units of that across: without it, some
directions have no curvature at all (all classes of a softmax together, by groups of one column)."""
LEAVING = 0.1
"""A group whose length a Newton step would bring below this part of what it is may be on its way out."""
SINGLE = 10 * float(np.finfo(np.float32).eps)
"""Smallest bend in units of the matrix's largest eigenvalue for which single precision does."""
SMALL = 1e-2
"""Where an objective is smaller than this part of what it is at zero, gaps are measured by the latter."""


@dataclass(frozen=True)
class Solution:
    """Coefficients (D, B, c); objective, duality gap and whether it is small enough for each problem (B,); rounds taken."""

    coef: Array
    intercept: Array
    """(1, B, c); zero where the problems have eliminated it."""
    value: Array
    gap: Array
    converged: Array
    n_iter: int


class GroupLasso:
    """A solver for problems with one ``matrix`` (D, D), of which it keeps what it has found out.

    ``single``: Newton systems may be solved in single precision, which pays where products with the matrix are their work.
    ``spectra``: those of this matrix, or of any that is not below it, for problems that differ little.
    """

    def __init__(self, matrix: Array, groups: Groups, *, single: bool = False, spectra: Spectra | None = None) -> None:
        self.single = single
        self.matrix = matrix if matrix.flags.c_contiguous else np.ascontiguousarray(matrix.T)  # which is the same
        self.groups = groups
        self._spectra = Spectra(matrix, groups) if spectra is None else spectra
        self._largest = float(np.linalg.norm(matrix))  # no eigenvalue is above it
        self._preconditioner = Preconditioner()
        self._part = np.ones(len(matrix), dtype=bool), self.matrix

    def solve(
        self, problem: Problem, penalty: GroupPenalty, start: Array, *, tol: float = 1e-6, max_iter: int = MOST_ROUNDS
    ) -> Solution:
        """Minimise from ``start`` (D, B, c) until each gap is at most ``tol`` of its objective.

        Objectives below a hundredth of what they are at zero count as that much: a perfect fit has no scale of its own.
        """
        with one_blas_pool():
            return self._solve(problem, penalty, start, tol, max_iter)

    def _solve(self, problem: Problem, penalty: GroupPenalty, start: Array, tol: float, max_iter: int) -> Solution:
        coef, intercept, n_problems = np.array(start), np.zeros((1, *start.shape[1:])), start.shape[1]
        value, gap = np.empty(n_problems), np.empty(n_problems)
        enough = tol * SMALL * problem.values(problem.at(np.zeros_like(coef)))
        to_do, state, rounds = np.arange(n_problems), problem.at(coef), 0
        while True:
            state = problem.follow_model(state, self._sweep(problem, state, penalty), penalty)
            rounds += 1
            coef[:, to_do] = state.coef
            if state.intercept is not None:
                intercept[:, to_do] = state.intercept
            value[to_do] = problem.values(state) + penalty.value(state.coef)
            gap[to_do] = problem.gaps(state, penalty)
            going = np.flatnonzero(gap[to_do] > np.maximum(tol * value[to_do], enough[to_do]))
            if len(going) == 0 or rounds >= max_iter:
                break
            if len(going) < len(to_do):
                to_do, problem, penalty, state = to_do[going], problem.take(going), penalty.take(going), state.take(going)
            state = self._newton(problem, state, penalty, CG_TOLERANCES[min(rounds, len(CG_TOLERANCES)) - 1])
        return Solution(coef, intercept, value, gap, gap <= np.maximum(tol * value, enough), rounds)

    def _sweep(self, problem: Problem, state: State, penalty: GroupPenalty) -> Array:
        """The way to where each group in turn has its minimum, in the quadratic model: (D, B, c)."""
        scale, ridge = problem.model_scale(state)[:, None], penalty.ridge[:, None]
        coef, slopes = state.coef.copy(), state.slopes - ridge * state.coef
        for group, (some, length) in enumerate(zip(self.groups.slices, penalty.lengths, strict=True)):
            old = coef[some]
            if not old.any() and np.all(self._sizes(slopes[some]) <= (1 + SLACK) * length[:, None]):
                continue
            values, vectors = self._spectra[group]
            curvature = scale * values[:, None, None] + ridge
            pull = times(vectors.T, slopes[some]) + curvature * times(vectors.T, old)
            change = times(vectors, self._block_minimum(curvature, pull, length)) - old
            coef[some] += change
            slopes -= scale * times(self.matrix[some].T, change)  # rows, which lie side by side, instead of columns
            slopes[some] -= ridge * change
        return coef - state.coef

    def _matrix_of(self, used: Array, bends: Array) -> Array:
        """The matrix of the columns ``used``, a mask (D,): in single precision if these bends allow it."""
        smallest = float(np.min(bends, where=bends > 0, initial=np.inf))
        single = self.single and smallest >= SINGLE * self._largest
        dtype = np.dtype(np.float32 if single else np.float64)
        before, matrix = self._part
        if not np.array_equal(before, used) or matrix.dtype != dtype:
            rows = self.matrix if used.all() else self.matrix[np.ix_(used, used)]
            self._part = used, rows.astype(dtype, copy=False)
        return self._part[1]

    def _block_minimum(self, curvature: Array, pull: Array, length: Array) -> Array:
        """The minimum over one group (q, B, c), of all outputs of a problem together or of each by itself."""
        if self.groups.shared:
            return block_minimum(curvature, pull, length)
        flat = (len(pull), -1, 1)
        each = block_minimum(
            np.broadcast_to(curvature, pull.shape).reshape(flat), pull.reshape(flat), np.repeat(length, pull.shape[2])
        )
        return each.reshape(pull.shape)

    def _sizes(self, values: Array) -> Array:
        """Lengths over one group: (B, c) or (B, 1)."""
        squares = np.sum(values**2, axis=0)
        return np.sqrt(squares.sum(axis=1, keepdims=True) if self.groups.shared else squares)

    def _newton(self, problem: Problem, state: State, penalty: GroupPenalty, tol: float) -> State:
        """A Newton step among the groups that are in, without those that it sends through zero where that is better."""
        norms = self.groups.norms(state.coef)
        is_in = norms > 0
        if not is_in.any():
            return state
        system = NewtonSystem.of(problem, state, penalty, self._matrix_of)
        precondition = self._preconditioner(system, problem.model_scale(state))
        direction = np.zeros_like(state.coef)
        direction[system.used] = system.solve(precondition, tol)
        best = problem.move(state, direction, penalty)
        ahead = norms**2 + self.groups.dots(state.coef, direction)
        leaving = is_in & (ahead < LEAVING * norms**2)
        some = np.flatnonzero(leaving.any(axis=(0, 2)))
        if len(some):
            rest, fewer, stay = problem.take(some), penalty.take(some), ~self.groups.spread(leaving[:, some])
            without, within = rest.at((state.coef + direction)[:, some] * stay), best.take(some)
            better = _objective(rest, without, fewer) < _objective(rest, within, fewer)
            best = best.replaced(some[better], without.take(better))
        return best


def _objective(problem: Problem, state: State, penalty: GroupPenalty) -> Array:
    return problem.values(state) + penalty.value(state.coef)


@dataclass(frozen=True)
class NewtonSystem:
    """The Newton systems of B problems, each among the groups that are in; q columns are in for some problem."""

    used: Array
    """Those columns: a mask (D,)."""
    groups: Groups
    """Their groups."""
    matrix: Array
    """The matrix of those columns (q, q); its precision is that of the system."""
    curvature: Curvature
    """Second derivatives of the smooth part."""
    ridge: Array
    """mu: (B, 1)."""
    inside: Array
    """Which groups are in: (r, B, c) or (r, B, 1)."""
    bends: Array
    """lambda_t / |w_t| where a group is in: (r, B, c) or (r, B, 1)."""
    units: Array
    """u_t: (q, B, c)."""
    right: Array
    """Minus the gradient of the objective: (q, B, c), zero where a group is out."""

    @classmethod
    def of(
        cls, problem: Problem, state: State, penalty: GroupPenalty, matrix_of: Callable[[Array, Array], Array]
    ) -> NewtonSystem:
        """The systems at some coefficients; ``matrix_of`` gives the matrix of some columns (D,) for bends (r, B, c)."""
        some = np.any(state.coef != 0, axis=(1, 2))
        groups, used = penalty.groups.take(np.maximum.reduceat(some, penalty.groups.starts))
        coef, lengths = state.coef[used], penalty.lengths[penalty.groups.starts_in(used)][:, :, None]
        norms = groups.norms(coef)
        safe = np.where(norms > 0, norms, 1.0)
        units, ridge = coef / groups.spread(safe), penalty.ridge[:, None]
        bends = np.where(norms > 0, lengths / safe, 0.0)
        right = state.slopes[used] - ridge * coef - groups.spread(np.broadcast_to(lengths, bends.shape)) * units
        right *= groups.spread(norms > 0)
        matrix = matrix_of(used, bends + np.where(norms > 0, ridge, 0.0))
        ridge, bends, units, right = (array.astype(matrix.dtype, copy=False) for array in (ridge, bends, units, right))
        return cls(used, groups, matrix, problem.curvature(state, used, matrix), ridge, norms > 0, bends, units, right)

    def take(self, problems: Array) -> NewtonSystem:
        """The systems of some of the problems."""
        return NewtonSystem(
            self.used,
            self.groups,
            self.matrix,
            self.curvature.take(problems),
            self.ridge[problems],
            self.inside[:, problems],
            self.bends[:, problems],
            self.units[:, problems],
            self.right[:, problems],
        )

    def masked(self, columns: Array) -> Array:
        """Columns (q, B, c) with zeros where groups are out."""
        return columns * self.groups.spread(self.inside)

    def product(self, direction: Array) -> Array:
        """The matrices times a direction (q, B, c) that is zero where groups are out."""
        bent = direction - (1 - DAMPING) * self.units * self.groups.spread(self.groups.dots(self.units, direction))
        product = self.curvature(direction) + self.ridge * direction + self.groups.spread(self.bends) * bent
        return self.masked(product)

    def solve(self, precondition: Callable[[Array], Array], tol: float) -> Array:
        """Conjugate gradients until the residual, in the norm of the preconditioner, is ``tol`` of the first: (q, B, c)."""
        solution = np.zeros_like(self.right)
        system, to_do = self, np.arange(self.right.shape[1])
        residual = self.right.copy()
        step = self.masked(precondition(residual))
        norm: Array = np.sum(residual * step, axis=(0, 2), dtype=np.float64)
        enough = tol**2 * norm
        for _ in range(MOST_CG_STEPS):
            going = norm > enough
            if not going.any():
                break
            if going.mean() < 0.8:
                system, to_do = system.take(going), to_do[going]
                residual, step, norm, enough = residual[:, going], step[:, going], norm[going], enough[going]
            product = system.product(step)
            bend: Array = np.sum(step * product, axis=(0, 2), dtype=np.float64)
            size = np.where(bend > 0, norm / np.where(bend > 0, bend, 1.0), 0.0).astype(step.dtype)[:, None]
            solution[:, to_do] += size * step
            residual -= size * product
            improved = system.masked(precondition(residual))
            before, norm = norm, np.sum(residual * improved, axis=(0, 2), dtype=np.float64)
            ratio = (norm / np.maximum(before, np.finfo(np.float64).tiny)).astype(step.dtype)
            step = improved + ratio[:, None] * step
        return solution


class Preconditioner:
    """The inverse of a matrix plus the mean bends of the problems, by a factor that is kept while they change little."""

    def __init__(self) -> None:
        self._used: Array = np.empty(0, dtype=bool)
        self._bends: Array = np.empty(0)
        self._factor: Factor | None = None

    def __call__(self, system: NewtonSystem, scale: Array) -> Callable[[Array], Array]:
        """The preconditioner of some systems, whose smooth parts are ``scale`` (B,) times the matrix."""
        inside = system.inside
        bends = np.where(inside, (system.bends + system.ridge) / scale[:, None], 1.0)
        bends = np.log(np.maximum(bends, np.finfo(np.float64).tiny))
        bends = np.sum(bends, axis=(1, 2)) / inside.sum(axis=(1, 2))
        if (
            self._factor is None
            or self._factor.triangle.dtype != system.matrix.dtype
            or not np.array_equal(self._used, system.used)
            or np.max(np.abs(bends - self._bends)) > REFACTORISE
        ):
            self._used, self._bends = system.used, bends
            shift = system.groups.spread(np.exp(bends)).astype(system.matrix.dtype)
            self._factor = factorise_fresh(lambda: _plus_diagonal(system.matrix, shift), 0.0)
        factor = self._factor
        return lambda right: factor.solve(right.reshape(len(right), -1)).reshape(right.shape)


def _plus_diagonal(matrix: Array, diagonal: Array) -> Array:
    """A symmetric matrix plus a diagonal (q,), in columns."""
    total = matrix.T.copy(order="F")
    total[np.diag_indices_from(total)] += diagonal
    return total
