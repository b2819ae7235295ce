"""Group lasso: problems f_b(w) + P_b(w), many at a time, each solution with a bound on its distance from the best.

Problems that share their features (several penalties, several targets) are solved side by side, so that nearly all work is
products of matrices. A round has two steps, each to the best point along its direction:

1. *Sweep*: group after group is set to its minimum with the others held fixed, in a quadratic model of the problem. This
   finds which groups are in.
2. *Newton*: among the groups that are in, the objective is smooth, with second derivatives
   H + mu I + (lambda_t / |w_t|) (I - u_t u_t'), u_t = w_t / |w_t|. The system is solved by conjugate gradients, in
   single precision where its rounding is small beside the bends lambda_t / |w_t|: a direction need not be exact, for what
   is gained along it is counted in double. The preconditioner has all of a problem's bends, and of H a part of low rank;
   where bends are too small for that, it is one Cholesky factor of H with mean bends for all problems. Groups that the
   step would send through zero are taken out, where that is better.

A problem is done when its duality gap is small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bochner.arrays import Array
from bochner.blas import same_bits
from bochner.solvers.group_newton import NewtonSystem, Preconditioner
from bochner.solvers.groups import SLACK, GroupPenalty, Groups, block_minimum
from bochner.solvers.problem import Problem, State, times
from bochner.solvers.spectra import Spectra

CG_TOLERANCES = 1e-1, 3e-2, 1e-2, 1e-3
"""How exactly the Newton systems are solved, in one round after the other."""
MOST_ROUNDS = 100
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
        self._preconditioner = Preconditioner(self.matrix, groups)
        self._part = np.ones(len(matrix), dtype=bool), self.matrix

    def solve(
        self, problem: Problem, penalty: GroupPenalty, start: Array, *, tol: float = 1e-6, max_iter: int = MOST_ROUNDS
    ) -> Solution:
        """Minimise from ``start`` (D, B, c) until each gap is at most ``tol`` of its objective.

        Objectives below a hundredth of what they are at zero count as that much: a perfect fit has no scale of its own.
        """
        with same_bits():
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
        direction[system.used], solved = system.solve(precondition, tol)
        self._preconditioner.own &= solved
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
