"""Eigendecompositions of what groups of columns have on the diagonal of a matrix."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy import linalg

from bochner.arrays import Array
from bochner.solvers.groups import Groups

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
