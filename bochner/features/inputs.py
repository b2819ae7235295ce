"""Input maps: what a row becomes before it meets the frequencies.

A stationary kernel looks at its rows through its own transform, one value a column. An exponentiated kernel looks at them
through the homogeneous map of its additive kernel, 2 p + 1 values a column. Sparse rows stay sparse where zero maps to zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from bochner.arrays import Array, dense, namespace
from bochner.features.trigonometry import cos_sin
from bochner.kernels import AdditiveKernel, Kernel


class InputMap(Protocol):
    """A map of each value to ``width`` values: (n, m) to (n, width * m), all first values before all second ones."""

    @property
    def width(self) -> int:
        """Values made of each value."""

    def __call__(self, X: Array) -> Array:
        """The mapped rows."""

    def derivatives(self, X: Array) -> dict[str, Array]:
        """Derivatives of the mapped rows in the kernel's parameters that the map uses."""

    def with_kernel(self, kernel: Kernel) -> InputMap:
        """The same map for another kernel of the same family."""


@dataclass(frozen=True)
class TransformInput:
    """The transform of a stationary kernel, one value a column."""

    kernel: Kernel
    width: int = 1

    def __call__(self, X: Array) -> Array:
        return _valuewise(self.kernel.transform, X)

    def derivatives(self, X: Array) -> dict[str, Array]:
        return self.kernel.transform_derivatives(dense(X))

    def with_kernel(self, kernel: Kernel) -> TransformInput:
        return TransformInput(kernel)


@dataclass(frozen=True)
class HomogeneousInput:
    """psi(x) = sqrt(x) [sqrt(L k(0)), sqrt(2 L k(jL)) cos(j L log x), sqrt(2 L k(jL)) sin(j L log x)], j = 1 ... p.

    k is the spectrum of the additive kernel, sampled at steps of L; <psi(x), psi(z)> approximates the kernel of one column
    (Vedaldi and Zisserman, 2012). Nothing here is random.
    """

    kernel: AdditiveKernel
    order: int
    interval: float

    @property
    def width(self) -> int:
        return 2 * self.order + 1

    def __call__(self, X: Array) -> Array:
        if sparse.issparse(X):
            columns = self(X.data[:, None])
            parts = [sparse.csr_matrix((columns[:, j], X.indices, X.indptr), shape=X.shape) for j in range(self.width)]
            return sparse.hstack(parts, format="csr")
        xp = namespace(X)
        root = xp.sqrt(X)
        log = xp.log(xp.where(X > 0, X, xp.ones_like(X)))
        weights = np.sqrt(self.interval * self.kernel.spectrum(self.interval * np.arange(self.width)))
        parts = [root * float(weights[0])]
        for j in range(1, self.order + 1):
            weighted = root * float(2**0.5 * weights[j])
            cosine, sine = cos_sin(log * (j * self.interval))
            parts += [weighted * cosine, weighted * sine]
        return xp.concat(parts, axis=1)

    def derivatives(self, X: Array) -> dict[str, Array]:
        return {}

    def with_kernel(self, kernel: Kernel) -> HomogeneousInput:
        return self


def best_interval(kernel: AdditiveKernel, order: int) -> float:
    """The step L at which the homogeneous map of that order has the smallest worst error over all x, z in [0, 1].

    The error at the ratio exp(-w) is exp(-w/2) |K(w) - sum_j L k(jL) cos(jLw)|, and homogeneity makes one side of the
    ratio one; the step is a compromise between reach in frequency (large L) and period in log x (small L).
    """
    return _best_interval(kernel.replace(scale=1.0), order)


@lru_cache(maxsize=256)
def _best_interval(kernel: AdditiveKernel, order: int) -> float:
    w = np.linspace(0, 30, 1501)
    target = kernel.signature(w)

    def worst_error(interval: float) -> float:
        steps = interval * np.arange(order + 1)
        weights = interval * kernel.spectrum(steps) * np.where(steps > 0, 2, 1)
        return float(np.max(np.exp(-w / 2) * np.abs(target - np.cos(np.outer(w, steps)) @ weights)))

    grid = np.geomspace(0.02, 2.0, 60)
    for _ in range(2):  # the error has kinks but one valley: a finer grid around the best point of a coarse one
        best = int(np.argmin([worst_error(interval) for interval in grid]))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        grid = np.linspace(low, high, 40)
    return float(grid[np.argmin([worst_error(interval) for interval in grid])])


def _valuewise(function: Any, X: Array) -> Array:
    """``function`` of every value; a sparse X stays sparse where zero maps to zero."""
    if not sparse.issparse(X):
        return function(X)
    if np.any(function(np.zeros((1, X.shape[1]), dtype=X.dtype))):
        return function(X.toarray())
    result = X.copy()
    result.data = function(X.data[:, None])[:, 0]
    return result
