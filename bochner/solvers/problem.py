"""What a solver of penalised problems sees of their smooth parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from scipy.linalg import blas

from bochner.arrays import Array
from bochner.solvers.groups import GroupPenalty


@dataclass(frozen=True)
class State:
    """B problems of c outputs each at some coefficients; the second axis of every array counts problems."""

    coef: Array
    """(D, B, c)."""
    slopes: Array
    """-grad f: (D, B, c)."""
    scores: Array | None = None
    """What the coefficients predict for each row, for problems that see rows: (n, B, c)."""
    intercept: Array | None = None
    """(1, B, c), likewise."""

    def take(self, problems: Array) -> State:
        """The state of some of the problems."""
        return State(*(None if array is None else array[:, problems] for array in self._arrays))

    def replaced(self, problems: Array, other: State) -> State:
        """This state with some of the problems at another."""
        return State(*(_replaced(mine, problems, new) for mine, new in zip(self._arrays, other._arrays, strict=True)))

    @property
    def _arrays(self) -> tuple[Any, ...]:
        return self.coef, self.slopes, self.scores, self.intercept


def _replaced(array: Array | None, problems: Array, new: Array) -> Array | None:
    """A copy with some of the problems replaced."""
    if array is None:
        return None
    copy = np.array(array)
    copy[:, problems] = new
    return copy


class Curvature(Protocol):
    """Second derivatives of B problems among some of the columns."""

    def __call__(self, direction: Array) -> Array:
        """Times a direction (q, B, c): (q, B, c)."""

    def take(self, problems: Array) -> Self:
        """Those of some of the problems."""


class Problem(Protocol):
    """The smooth parts f_b of B problems of c outputs each."""

    @property
    def matrix(self) -> Array:
        """Second derivatives (D, D) up to a factor for each problem, exactly or roughly."""

    @property
    def single(self) -> bool:
        """Whether Newton systems may be solved in single precision: it pays where products with ``matrix`` are the work."""

    def take(self, problems: Array) -> Self:
        """Some of the problems."""

    def at(self, coef: Array) -> State:
        """The problems at coefficients (D, B, c)."""

    def values(self, state: State) -> Array:
        """f of each problem: (B,)."""

    def model_scale(self, state: State) -> Array:
        """The second derivatives of each problem in units of ``matrix``: (B,)."""

    def curvature(self, state: State, used: Array, matrix: Array) -> Curvature:
        """Second derivatives among the columns ``used``, a mask (D,); ``matrix`` (q, q) is that of those columns."""

    def follow_model(self, state: State, direction: Array, penalty: GroupPenalty) -> State:
        """The end of a direction (D, B, c) that lowers the quadratic model, or as far as it lowers the objective."""

    def move(self, state: State, direction: Array, penalty: GroupPenalty) -> State:
        """The least objective along a direction (D, B, c)."""

    def gaps(self, state: State, penalty: GroupPenalty) -> Array:
        """How far each objective is from its minimum at most: (B,)."""


def times(matrix: Array, columns: Array) -> Array:
    """matrix (p, q) times columns (q, B, c), both float64 or both float32: (p, B, c).

    By SciPy's BLAS, in whose pool of threads the factorisations are: two pools would be in each other's way.
    """
    flat = columns.reshape(columns.shape[0], -1).T
    rows = matrix.flags.c_contiguous
    gemm = blas.sgemm if matrix.dtype == np.float32 else blas.dgemm
    product = gemm(1.0, flat, matrix.T if rows else matrix, trans_b=not rows)
    return product.T.reshape(matrix.shape[0], *columns.shape[1:])
