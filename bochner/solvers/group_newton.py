"""Newton systems of group lasso problems, many at a time, by conjugate gradients; and their preconditioners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from bochner.arrays import Array
from bochner.solvers.groups import GroupPenalty, Groups
from bochner.solvers.normal_equations import Factor, factorise_fresh
from bochner.solvers.problem import Curvature, Problem, State, times
from bochner.solvers.spectra import LowRank

MOST_CG_STEPS = 30
LOWEST_RANK, HIGHEST_RANK = 50, 200
"""Ranks of the part of the matrix that the preconditioner of a single problem has: a twentieth of the columns between."""
REFACTORISE = 0.7
"""Change of the logarithm of a group's mean curvature from which on the preconditioner is made anew."""
DAMPING = 1e-4
"""Curvature that the length of a group is given along itself, where it has none, in units of that across: without it, some
directions have no curvature at all (all classes of a softmax together, by groups of one column)."""


class Inverse(Protocol):
    """The inverses of the matrices of B systems, roughly."""

    def __call__(self, right: Array) -> Array:
        """Times right sides (q, B, c)."""

    def take(self, problems: Array) -> Self:
        """Those of some of the problems."""


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

    def solve(self, precondition: Inverse, tol: float) -> tuple[Array, bool]:
        """Conjugate gradients until the residual, in the norm of the preconditioner, is ``tol`` of the first.

        The solution (q, B, c), and whether the steps have sufficed.
        """
        solution = np.zeros_like(self.right)
        system, to_do = self, np.arange(self.right.shape[1])
        residual = self.right.copy()
        step = self.masked(precondition(residual))
        norm: Array = np.sum(residual * step, axis=(0, 2), dtype=np.float64)
        enough = tol**2 * norm
        for _ in range(MOST_CG_STEPS):
            going = norm > enough
            if not going.any():
                return solution, True
            if going.mean() < 0.8:
                system, precondition, to_do = system.take(going), precondition.take(going), to_do[going]
                residual, step, norm, enough = residual[:, going], step[:, going], norm[going], enough[going]
                going = going[going]
            product = system.product(step)
            bend: Array = np.sum(step * product, axis=(0, 2), dtype=np.float64)
            moving = going & (bend > 0)  # what is done stays where it is: its norm is but rounding
            size = np.where(moving, norm / np.where(moving, bend, 1.0), 0.0).astype(step.dtype)[:, None]
            solution[:, to_do] += size * step
            residual -= size * product
            improved = system.masked(precondition(residual))
            before, norm = norm, np.sum(residual * improved, axis=(0, 2), dtype=np.float64)
            ratio = np.where(going, norm / np.where(going, before, 1.0), 0.0).astype(step.dtype)
            step = improved + ratio[:, None] * step
        return solution, False


class Preconditioner:
    """Rough inverses of one system after the other: one for each problem, or once that has failed, one for all of them."""

    def __init__(self, matrix: Array, groups: Groups) -> None:
        self.own = True
        """Whether each problem gets one of its own."""
        self._matrix, self._groups = matrix, groups
        self._shared: SharedInverse | None = None

    @cached_property
    def _low_rank(self) -> LowRank:
        """The part of the matrix that single problems get; its products L_t' L_t take no more room than the matrix."""
        n_columns, n_groups = len(self._matrix), len(self._groups)
        rank = min(int(np.clip(n_columns // 20, LOWEST_RANK, HIGHEST_RANK)), int(n_columns / np.sqrt(n_groups)))
        return LowRank.of(self._matrix, self._groups, rank)

    def __call__(self, system: NewtonSystem, scale: Array) -> Inverse:
        """Those of some systems, whose smooth parts are ``scale`` (B,) times the matrix."""
        if self.own:
            return OwnInverses.of(system, scale, self._low_rank.take(system.used, self._groups.starts_in(system.used)))
        bends = np.where(system.inside, (system.bends + system.ridge) / scale[:, None], 1.0)
        bends = np.log(np.maximum(bends, np.finfo(np.float64).tiny))
        bends = np.sum(bends, axis=(1, 2)) / system.inside.sum(axis=(1, 2))
        if self._shared is None or not self._shared.serves(system, bends):
            self._shared = SharedInverse.of(system, bends)
        return self._shared


@dataclass(frozen=True)
class OwnInverses:
    """The inverse of K + scale L L' for each problem: L L' is a part of the matrix, K all bends and what L L' leaves out.

    What it leaves out counts as a multiple of the identity in each group, so that K^-1 is across_t (I + along_t u_t u_t'),
    and the inverse is K^-1 - K^-1 L (I / scale + L' K^-1 L)^-1 L' K^-1. Where outputs share their groups, u_t u_t' would mix
    them, and along_t is zero.
    """

    groups: Groups
    units: Array
    """u_t: (q, B, c)."""
    across: Array
    """For each column, zero where its group is out: (q, B, c) or (q, B, 1)."""
    along: Array
    """For each group: (r, B, c) or (r, B, 1)."""
    columns: Array
    """L: (q, k)."""
    inner: Array
    """(I / scale + L' K^-1 L)^-1: (B, c, k, k) or (B, 1, k, k)."""

    @classmethod
    def of(cls, system: NewtonSystem, scale: Array, part: LowRank) -> OwnInverses:
        """Those of some systems, whose smooth parts are ``scale`` (B,) times the matrix of which this is a part."""
        groups, dtype, inside = system.groups, system.matrix.dtype, system.inside
        smallest = np.sqrt(np.finfo(dtype).eps) * np.mean(np.diag(system.matrix))  # where K is less, digits cancel
        unbent = scale[:, None] * np.maximum(part.rest, smallest)[:, None, None] + system.ridge
        bent = np.where(inside, unbent + system.bends, 1.0)
        across = np.where(inside, 1 / bent, 0.0).astype(dtype)
        along = bent / np.where(inside, unbent + (1 if groups.shared else DAMPING) * system.bends, 1.0) - 1
        along, columns = along.astype(dtype), part.columns.astype(dtype)
        inner = np.tensordot(across, part.grams.astype(dtype), axes=(0, 0))
        if not groups.shared:
            seen = np.stack([times(columns[some].T, system.units[some]) for some in groups.slices])
            seen = (seen * np.sqrt(across * along)[:, None]).transpose(2, 3, 1, 0)
            inner += seen @ seen.swapaxes(2, 3)
        inner += np.eye(inner.shape[2], dtype=dtype) / scale.astype(dtype)[:, None, None, None]
        return cls(groups, system.units, groups.spread(across), along, columns, np.linalg.inv(inner))

    def __call__(self, right: Array) -> Array:
        outer = self._outer(right)
        seen = times(self.columns.T, outer).transpose(1, 2, 0)[..., None]
        inner = (self.inner @ seen)[..., 0].transpose(2, 0, 1)
        return outer - self._outer(times(self.columns, inner))

    def _outer(self, right: Array) -> Array:
        """K^-1 times right sides (q, B, c)."""
        if self.groups.shared:
            return self.across * right
        along = self.along * self.groups.dots(self.units, right)
        return self.across * (right + self.units * self.groups.spread(along))

    def take(self, problems: Array) -> OwnInverses:
        """Those of some of the problems."""
        units, across, along = (array[:, problems] for array in (self.units, self.across, self.along))
        return OwnInverses(self.groups, units, across, along, self.columns, self.inner[problems])


@dataclass(frozen=True)
class SharedInverse:
    """That of the matrix plus the mean bend of each group over the problems, kept while the bends change little."""

    used: Array
    """The columns that are in: a mask (D,)."""
    bends: Array
    """The logarithms of the bends: (r,)."""
    factor: Factor

    @classmethod
    def of(cls, system: NewtonSystem, bends: Array) -> SharedInverse:
        """That of the columns and the precision of some systems."""
        shift = system.groups.spread(np.exp(bends)).astype(system.matrix.dtype)
        return cls(system.used, bends, factorise_fresh(lambda: _plus_diagonal(system.matrix, shift), 0.0))

    def serves(self, system: NewtonSystem, bends: Array) -> bool:
        """Whether it will do for other systems."""
        return (
            self.factor.triangle.dtype == system.matrix.dtype
            and np.array_equal(self.used, system.used)
            and bool(np.max(np.abs(bends - self.bends)) <= REFACTORISE)
        )

    def __call__(self, right: Array) -> Array:
        return self.factor.solve(right.reshape(len(right), -1)).reshape(right.shape)

    def take(self, problems: Array) -> SharedInverse:
        """The same for some of the problems."""
        return self


def _plus_diagonal(matrix: Array, diagonal: Array) -> Array:
    """A symmetric matrix plus a diagonal (q,), in columns."""
    total = matrix.T.copy(order="F")
    total[np.diag_indices_from(total)] += diagonal
    return total
