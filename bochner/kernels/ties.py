"""Columns that share a scale: fewer free parameters than columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bochner.arrays import Array


@dataclass(frozen=True)
class SharedScales:
    """A kernel's parameters theta (m scales, then the others) from fewer free ones: one scale for each group of columns.

    ``groups`` (m,) holds the group of each column, numbered from zero.
    """

    groups: Array

    @property
    def n_groups(self) -> int:
        """Number of free scales."""
        return int(self.groups.max()) + 1

    def expand(self, free: Array) -> Array:
        """theta from the free parameters."""
        return np.concatenate([free[: self.n_groups][self.groups], free[self.n_groups :]])

    def reduce(self, gradient: Array) -> Array:
        """The gradient in the free parameters from that in theta: the adjoint of :meth:`expand`."""
        m = len(self.groups)
        return np.concatenate([np.bincount(self.groups, weights=gradient[:m]), gradient[m:]])

    def project(self, theta: Array) -> Array:
        """Free parameters near theta: the mean of each group."""
        m = len(self.groups)
        means = np.bincount(self.groups, weights=theta[:m]) / np.bincount(self.groups)
        return np.concatenate([means, theta[m:]])
