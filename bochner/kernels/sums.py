"""A mean of Gaussian kernels, one for each group of columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bochner.arrays import Array, dense, fetch64, namespace, place, squared_distances
from bochner.kernels.base import Gradient, Kernel
from bochner.kernels.checks import group_numbers

BLOCK = 1024
"""Rows of a kernel matrix whose gradient is computed at a time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianSum(Kernel):
    """k(x, z) = (1/g) sum_t exp(-1/2 sum_(i in t) s_i^2 (x_i - z_i)^2), t = 1 ... g the groups of columns.

    Functions of this kernel are sums of functions of one group each. A frequency is normal in the columns of one group and
    zero in all others, each group having as many of them; random features therefore have few columns to explore at a time,
    and come closer to this kernel than to the Gaussian one on all columns together. ``groups`` holds the number of the
    group of each column, from zero.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import GaussianSum
    >>> k = GaussianSum(groups=(0, 0, 1))
    >>> round(float(k(np.zeros((1, 3)), np.array([[0.0, 0.0, 2.0]]))[0, 0]), 6)
    0.567668
    """

    groups: tuple[int, ...]

    geometry = "grouped"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "groups", group_numbers(self.groups, "GaussianSum.groups"))

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return max(self.groups) + 1

    def columns(self) -> Iterator[Array]:
        """The columns of each group."""
        groups = np.asarray(self.groups)
        return (np.flatnonzero(groups == t) for t in range(self.n_groups))

    def scales(self, n_columns: int) -> Array:
        if n_columns != len(self.groups):
            raise ValueError(
                f"groups has {len(self.groups)} entries and the rows have {n_columns} columns: give one for each."
            )
        return super().scales(n_columns)

    def exact(self, X: Array, Z: Array) -> Array:
        return self.between(self.embed(X), self.embed(Z))

    def embed(self, X: Array) -> Array:
        X = dense(X)
        return X * place(self.scales(X.shape[1]), like=X)

    def between(self, U: Array, V: Array) -> Array:
        xp = namespace(U, V)
        parts = (xp.exp(-0.5 * squared_distances(U[:, index], V[:, index])) for index in self.columns())
        result = next(parts)
        for part in parts:
            result = result + part
        return result / self.n_groups

    def exact_adjoint(self, X: Array, Z: Array, G: Array) -> Gradient:
        scales = self.scales(X.shape[1])
        U, V = fetch64(self.embed(X)), fetch64(self.embed(Z))
        G = fetch64(G)
        sums = np.zeros(len(scales))
        for start in range(0, len(U), BLOCK):
            rows = slice(start, start + BLOCK)
            for index in self.columns():
                u, v = U[rows, index], V[:, index]
                weight = np.exp(-0.5 * squared_distances(u, v)) * G[rows]  # times (u - v)^2, in matrix products
                own = weight.sum(axis=1) @ (u * u) + weight.sum(axis=0) @ (v * v)
                sums[index] -= own - 2 * np.sum(u * (weight @ v), axis=0)
        return {"scale": sums / scales / self.n_groups}
