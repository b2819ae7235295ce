"""Features from data centres: the kernel between a row and some rows that were chosen (Nyström)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from array_api_compat import device

from bochner.arrays import Array, cholesky, dense, double, dtype_of, is_foreign, is_plain, namespace, place, solve_rows
from bochner.errors import InputError
from bochner.features.base import FEW_ROWS, FeatureGradient
from bochner.kernels import Kernel
from bochner.threads import row_blocks

CACHE_BYTES = 2**20
"""Size of the part of a kernel matrix that NumPy makes at a time: about a core's own cache."""
DEVICE_BYTES = 2**29
"""The same of the kernel between all centres on a device."""
SOLVED_ROWS = 256
"""Rows for which a triangular solve costs more than reading the triangle does."""
TEMPORARIES = 4
"""Matrices of the size of the features that evaluating a kernel takes beside them."""


@dataclass(frozen=True)
class CentreKernels:
    """phi(x) = [k(c_1, x), ..., k(c_M, x)] for centres c, (M, m): what a :class:`CentreMap` is before it is whitened.

    phi(x) . dual is the function f(x) = sum_j dual_j k(x, c_j). These features do not approximate the kernel.
    """

    kernel: Kernel
    centres: Array

    @property
    def n_columns(self) -> int:
        return self.centres.shape[1]

    @property
    def n_features(self) -> int:
        return self.centres.shape[0]

    @property
    def widest(self) -> int:
        return max(TEMPORARIES * self.n_features, self.n_columns)

    @property
    def least_rows(self) -> int:
        return FEW_ROWS

    @cached_property
    def _embedded(self) -> Array:
        return self.kernel.embed(self.centres)

    def place(self, like: Array) -> Self:
        centres = place(self.centres, like)
        return self if centres is self.centres else replace(self, centres=centres)

    def with_kernel(self, kernel: Kernel) -> Self:
        return replace(self, kernel=kernel)

    def scratch(self, n_rows: int, like: Array) -> None:
        return None

    def forward(self, X: Array, out: Array | None = None, scratch: Array | None = None) -> Array:
        if not is_plain(self.centres):
            values = self.kernel.between(self.kernel.embed(X), self._embedded)
            if out is None:
                return values
            out[...] = values
            return out
        n = X.shape[0]
        out = np.empty((n, self.n_features), dtype=self.centres.dtype) if out is None else out
        step = max(FEW_ROWS, CACHE_BYTES // (self.n_features * self.centres.dtype.itemsize))
        for start in range(0, n, step):
            out[start : start + step] = self.kernel.between(self.kernel.embed(X[start : start + step]), self._embedded)
        return out

    def square(self) -> Array:
        """k(C, C), (M, M), some rows at a time: so large a matrix has no room for its like beside it. NumPy's is in Fortran
        order."""
        size = self.n_features
        if is_plain(self.centres):
            return self.forward(self.centres).T
        out = namespace(self.centres).empty((size, size), dtype=self.centres.dtype, device=device(self.centres))
        for rows in row_blocks(0, size, max(FEW_ROWS, DEVICE_BYTES // (8 * size))):
            out[rows, :] = self.forward(self.centres[rows, :])
        return out

    def adjoint(self, X: Array, G: Array, features: Array | None = None) -> FeatureGradient:
        return self.local_adjoint(X, G, features).on_host()

    def local_adjoint(self, X: Array, G: Array, features: Array | None = None) -> FeatureGradient:
        return FeatureGradient(self.kernel.exact_adjoint(dense(X), self.centres, G))

    def gradient_of(self, coef: Array) -> Callable[[Array], Array]:
        """The gradient of phi(x) . coef in x, for coef (M, c), as a function of rows (n, m): (n, m, c)."""
        kernel: Any = self.kernel
        if kernel.has_input_map or not hasattr(kernel, "row_gradients"):
            raise InputError(
                "Gradients in the rows are for kernels of plain differences such as Gaussian(), and "
                f"{type(kernel).__name__} is none."
            )
        coef = place(coef, like=self.centres)
        return lambda X: kernel.row_gradients(dense(X), self.centres, coef)

    def feature_names(self, columns: Array) -> list[str]:
        return [f"centre{j}" for j in range(self.n_features)]


@dataclass(frozen=True)
class CentreMap:
    """phi(x) = L^-1 [k(c_1, x), ..., k(c_M, x)], L L' = k(C, C) + jitter I, for centres C (M, m) among the rows.

    <phi(x), phi(z)> is the kernel's own value wherever x or z is a centre, and elsewhere the Nyström approximation. The
    factor is made when it is first asked for, in float64. The jitter is zero if every pivot is then above rounding (of the
    precision that the rows are in), and else the smallest of eps M 10^j, times the mean of the diagonal, at which it is.
    """

    kernel: Kernel
    centres: Array
    triangle: Array | None = None
    """L, if it is known already: (M, M), in float64."""

    @property
    def n_columns(self) -> int:
        return self.centres.shape[1]

    @property
    def n_features(self) -> int:
        return self.centres.shape[0]

    @property
    def widest(self) -> int:
        return self.kernels.widest

    @property
    def least_rows(self) -> int:
        return SOLVED_ROWS

    @cached_property
    def kernels(self) -> CentreKernels:
        """The kernel with every centre, not whitened."""
        return CentreKernels(self.kernel, self.centres)

    @property
    def factor(self) -> Array:
        """L, (M, M), in float64, where the centres are. Of very many, anything may be above its diagonal."""
        return self._factorised[0]

    @property
    def jitter(self) -> float:
        """What was added to the diagonal of k(C, C); NaN where ``triangle`` was given."""
        return self._factorised[1]

    @cached_property
    def _factorised(self) -> tuple[Array, float]:
        if self.triangle is not None:
            return place(self.triangle, like=double(self.centres[:0, :])), float("nan")
        kernels = CentreKernels(self.kernel, double(self.centres))
        return factorise(kernels.square, eps=float(np.finfo(dtype_of(self.centres)).eps))

    @cached_property
    def _triangle(self) -> Array:
        """L in the precision of the rows."""
        return place(self.factor, like=self.centres)

    @cached_property
    def _elsewhere(self) -> dict[tuple[str, str], CentreMap]:
        """The map as it was last placed elsewhere, so that it is not factorised again in every pass."""
        return {}

    def place(self, like: Array) -> CentreMap:
        centres = place(self.centres, like)
        if centres is self.centres:
            return self
        where = str(like.dtype), str(getattr(like, "device", "cpu"))
        if where not in self._elsewhere:
            self._elsewhere.clear()
            copy = replace(self, centres=centres)
            if is_foreign(centres):
                _ = copy.factor  # before any block of rows: smaller ones would make no room for it
            self._elsewhere[where] = copy
        return self._elsewhere[where]

    def with_kernel(self, kernel: Kernel) -> CentreMap:
        return CentreMap(kernel, self.centres)

    def scratch(self, n_rows: int, like: Array) -> None:
        return None

    def forward(self, X: Array, out: Array | None = None, scratch: Array | None = None) -> Array:
        if is_plain(self.centres):
            out = self.kernels.forward(X, out)
            return solve_rows(out, self._triangle, out=out)
        return solve_rows(self.kernels.forward(X), self._triangle, out=out)

    def adjoint(self, X: Array, G: Array, features: Array | None = None) -> FeatureGradient:
        return self.local_adjoint(X, G, features).on_host()

    def local_adjoint(self, X: Array, G: Array, features: Array | None = None) -> FeatureGradient:
        """Gradient through k(X, C), which is G L^-1, and through L, which is pending: see :class:`FactorGradient`."""
        features = self.forward(X) if features is None else features
        through_rows = self.kernels.local_adjoint(X, solve_rows(G, self._triangle, back=True))
        return replace(through_rows, pending=FactorGradient(self, double(G.T @ features)))

    def dual(self, coef: Array) -> Array:
        """L^-T coef (M, c), in float64: phi(x) . coef = sum_j k(x, c_j) dual_j.

        Where only a copy elsewhere has been factorised so far (on a device, of a large map), that one is used.
        """
        for copy in self._elsewhere.values():
            same = dtype_of(copy.centres) == dtype_of(self.centres)
            if same and "_factorised" in copy.__dict__ and "_factorised" not in self.__dict__:
                return place(copy.dual(coef), like=double(self.centres[:0, :]))
        coef = place(coef, like=self.factor)
        return solve_rows(coef.T, self.factor, back=True).T

    def gradient_of(self, coef: Array) -> Callable[[Array], Array]:
        """The gradient of phi(x) . coef in x, for coef (M, c), as a function of rows (n, m): (n, m, c)."""
        return self.kernels.gradient_of(self.dual(coef))

    def feature_names(self, columns: Array) -> list[str]:
        return self.kernels.feature_names(columns)

    def __getstate__(self) -> dict[str, Any]:
        """The kernel, the centres and the factor, if there is one; no copies that are on devices."""
        triangle = self.__dict__["_factorised"][0] if "_factorised" in self.__dict__ else self.triangle
        return {"kernel": self.kernel, "centres": self.centres, "triangle": triangle}


@dataclass(frozen=True)
class FactorGradient:
    """The part of the gradient of <Phi, G> that goes through the factor L, from S = G' Phi (M, M), summed over rows.

    The derivative in L is -L^-T S. With dL = L half(L^-1 dK L^-T), where half() is the lower triangle with half of the
    diagonal, that in K = k(C, C) is -L^-T half(S) L^-1, made symmetric: half(L' L^-T S) = half(S).
    """

    feature_map: CentreMap
    products: Array

    def __add__(self, other: FactorGradient) -> FactorGradient:
        return replace(self, products=self.products + other.products)

    def finish(self) -> dict[str, Array]:
        xp, factor = namespace(self.products), self.feature_map.factor
        half = (xp.tril(self.products) + xp.tril(self.products, k=-1)) * -0.5
        inner = solve_rows(half, factor, back=True)  # half(S) L^-1
        inner = solve_rows(inner.T, factor, back=True)
        centres = double(self.feature_map.centres)
        return self.feature_map.kernel.exact_adjoint(centres, centres, 0.5 * (inner + inner.T))


def factorise(make: Callable[[], Array], *, eps: float) -> tuple[Array, float]:
    """The lower factor of a kernel matrix that ``make`` makes in float64, plus the least jitter that it takes.

    Pivots below eps times the mean of the diagonal are rounding of that precision: features would be made of it.
    """
    jitter = 0.0
    while True:
        matrix = make()
        matrix = matrix if is_foreign(matrix) else np.asfortranarray(matrix)
        xp, size = namespace(matrix), matrix.shape[0]
        scale = float(xp.sum(xp.linalg.diagonal(matrix))) / size
        if not 0 < scale < np.inf or jitter > 100 * size * scale:
            raise InputError(
                "The kernel between the centres is not positive, or not finite: standardise the columns, or look for "
                "huge values."
            )
        triangle, failed = cholesky(matrix, jitter, clean=True)
        if not failed and float(xp.min(xp.linalg.diagonal(triangle))) ** 2 >= eps * scale:
            return triangle, jitter
        del matrix, triangle  # before the next one is made
        jitter = max(10 * jitter, eps * size * scale)
