"""A Gaussian kernel of some columns plus a linear one of the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bochner.arrays import Array, dense, fetch64, namespace, place
from bochner.kernels.base import Gradient, Kernel
from bochner.kernels.checks import flags
from bochner.kernels.stationary import Gaussian


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianPlusLinear(Kernel):
    """k(x, z) = exp(-1/2 sum_i s_i^2 (x_i - z_i)^2) + sum_j s_j^2 x_j z_j, j the ``linear`` columns and i the others.

    Its functions are smooth ones of the first columns plus a weighted sum of the others. The features of the linear part are
    its columns, without approximation, so that many columns may be in it. ``linear`` says of each column whether it is.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import GaussianPlusLinear
    >>> k = GaussianPlusLinear(linear=(False, True))
    >>> float(k(np.array([[1.0, 2.0]]), np.array([[1.0, 3.0]]))[0, 0])
    7.0
    """

    linear: tuple[bool, ...]

    geometry = "with_linear"
    has_bandwidth = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "linear", flags(self.linear, "GaussianPlusLinear.linear"))

    @property
    def columns(self) -> tuple[Array, Array]:
        """Columns of the Gaussian part, and of the linear one."""
        linear = np.asarray(self.linear)
        return np.flatnonzero(~linear), np.flatnonzero(linear)

    @property
    def gaussian(self) -> Gaussian:
        """The Gaussian part, on its columns."""
        return Gaussian(scale=self.scales(len(self.linear))[self.columns[0]])

    def scales(self, n_columns: int) -> Array:
        if n_columns != len(self.linear):
            told = f"linear has {len(self.linear)} entries and the rows have {n_columns} columns"
            raise ValueError(f"{told}: give one for each column.")
        return super().scales(n_columns)

    def exact(self, X: Array, Z: Array) -> Array:
        return self.between(self.embed(X), self.embed(Z))

    def embed(self, X: Array) -> Array:
        X = dense(X)
        return X * place(self.scales(X.shape[1]), like=X)

    def between(self, U: Array, V: Array) -> Array:
        smooth, linear = self.columns
        return Gaussian().exact(U[:, smooth], V[:, smooth]) + U[:, linear] @ V[:, linear].T

    def exact_adjoint(self, X: Array, Z: Array, G: Array) -> Gradient:
        smooth, linear = self.columns
        result = np.empty(X.shape[1])
        result[smooth] = self.gaussian.exact_adjoint(X[:, smooth], Z[:, smooth], G)["scale"]
        sums = namespace(X, Z, G).sum(X[:, linear] * (G @ Z[:, linear]), axis=0)
        result[linear] = 2 * self.scales(X.shape[1])[linear] * fetch64(sums)
        return {"scale": result}

    def frequencies(self, points: Array) -> Any:
        raise NotImplementedError("A linear kernel has no frequencies; those of the Gaussian part are in its own map.")
