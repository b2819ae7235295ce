"""What is kept of a matrix: eigendecompositions of what groups have on its diagonal, and a part of low rank."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy import linalg

from bochner.arrays import Array
from bochner.solvers.groups import Groups
from bochner.solvers.normal_equations import factorise
from bochner.solvers.problem import times

FLATTEST = 1e-12
"""Smallest eigenvalue of a group, in units of its largest: a model that is flat in some direction has no minimum."""


@dataclass(frozen=True)
class Spectra:
    """Those of ``factor`` times a matrix (D, D), each made when it is first asked for."""

    matrix: Array
    groups: Groups
    factor: float = 1.0
    _found: dict[int, tuple[Array, Array]] = field(default_factory=dict)

    def __getitem__(self, group: int) -> tuple[Array, Array]:
        """Eigenvalues (q,) and eigenvectors (q, q) of one group."""
        if group not in self._found:
            some = self.groups.slices[group]
            values, vectors = linalg.eigh(self.matrix[some, some], check_finite=False)
            smallest = max(FLATTEST * float(values[-1]), np.finfo(np.float64).tiny ** 0.5)
            self._found[group] = np.maximum(values, smallest), vectors
        values, vectors = self._found[group]
        return self.factor * values, vectors

    def times(self, factor: float) -> Spectra:
        """Those of the matrix times another factor, without decomposing anything again."""
        return replace(self, factor=factor)


@dataclass(frozen=True)
class LowRank:
    """A part L L' of a matrix (D, D), no larger than the matrix."""

    columns: Array
    """L: (D, k)."""
    grams: Array
    """L_t' L_t of each group: (r, k, k)."""
    rest: Array
    """What is left of the diagonal, on average over each group: (r,)."""

    @classmethod
    def of(cls, matrix: Array, groups: Groups, rank: int) -> LowRank:
        """Nystrom's approximation, from the images of ``rank`` directions that lean towards the largest eigenvalues."""
        start = np.random.default_rng(0).standard_normal((len(matrix), min(rank, len(matrix))))
        basis = linalg.qr(times(matrix, start), mode="economic", check_finite=False)[0]
        image = times(matrix, basis)
        size = max(float(np.linalg.norm(image)), np.finfo(np.float64).tiny ** 0.5)
        triangle = factorise(basis.T @ image, np.sqrt(np.finfo(np.float64).eps) * size).triangle  # far above rounding
        columns = np.ascontiguousarray(linalg.solve_triangular(triangle, image.T, lower=True, check_finite=False).T)
        grams = np.stack([columns[some].T @ columns[some] for some in groups.slices])
        left = np.add.reduceat(np.diag(matrix) - np.sum(columns**2, axis=1), groups.starts)
        return cls(columns, grams, np.maximum(left / groups.sizes, 0.0))

    def take(self, used: Array, which: Array) -> LowRank:
        """That of the columns ``used``, a mask (D,), which are those of the groups ``which``, a mask (r,)."""
        return LowRank(self.columns[used], self.grams[which], self.rest[which])
