"""Kernels of ratios between columns, for histograms: skewed chi-squared and skewed intersection.

Both are product kernels of the differences of log(x + c). The input map subtracts log c, which changes no difference and
keeps zero at zero, so that sparse rows stay sparse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bochner.arrays import Array, namespace
from bochner.errors import InputError
from bochner.kernels.base import ProductKernel
from bochner.kernels.stationary import Laplacian


@dataclass(frozen=True, kw_only=True, eq=False)
class SkewedKernel(ProductKernel):
    """A product kernel of log(1 + x/c), for values above -c; c > 0 tempers the ratios of small values."""

    c: float = 1.0
    learnable = ("scale", "c")

    def __post_init__(self) -> None:
        super().__post_init__()
        if np.ndim(self.c):
            raise InputError(f"{type(self).__name__}.c must be one number, got {np.size(self.c)} of them: give a number.")

    @property
    def lower(self) -> float:
        return -self.c

    @property
    def open_below(self) -> bool:
        return True

    def transform(self, X: Array) -> Array:
        xp = namespace(X)
        if self.c < 1:  # of larger numbers the quotient would overflow
            X = xp.clip(X, max=0.9 * self.c * float(xp.finfo(X.dtype).max))
        return xp.log1p(X / self.c)

    def transform_derivatives(self, X: Array) -> dict[str, Array]:
        return {"c": -X / (self.c * (X + self.c))}


class SkewedChi2(SkewedKernel):
    """k(x, z) = prod_i 2 a_i b_i / (a_i^2 + b_i^2), with a = (x + c)^s and b = (z + c)^s.

    The same as prod_i sech(s_i (log(x_i + c) - log(z_i + c))). Frequencies follow the hyperbolic secant law.
    scikit-learn's ``skewedness`` is c, and its kernel has s = 1/2.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import SkewedChi2
    >>> float(SkewedChi2(c=1.0)(np.array([[0.0]]), np.array([[2.0]]))[0, 0])
    0.6
    """

    def quantile(self, u: Array) -> Array:
        return 2 / np.pi * np.log(np.tan(np.pi / 2 * u))

    def profile(self, t: Array) -> Array:
        xp = namespace(t)
        decay = xp.exp(-xp.abs(t))
        return 2 * decay / (1 + decay * decay)

    def slope(self, t: Array) -> Array:
        return -namespace(t).tanh(t) * self.profile(t)


class SkewedIntersection(SkewedKernel):
    """k(x, z) = prod_i min(a_i / b_i, b_i / a_i), with a = (x + c)^s and b = (z + c)^s. Frequencies are Cauchy.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import SkewedIntersection
    >>> round(float(SkewedIntersection(c=1.0)(np.array([[0.0]]), np.array([[3.0]]))[0, 0]), 15)
    0.25
    """

    quantile = Laplacian.quantile
    profile = Laplacian.profile
    slope = Laplacian.slope
