"""What a kernel is: a formula, a law of frequencies, an input map, and parameters that can be learned.

Three kinds exist. A :class:`ProductKernel` is a product over columns of one function of ``s_i (x_i - z_i)``; a
:class:`RadialKernel` is a function of the distance ``||s * (x - z)||``; both may look at the rows through an input map
first. The third kind, the additive kernels of histograms, is in :mod:`bochner.kernels.homogeneous`.

Shapes, everywhere: X (n, m) and Z (k, m) are rows, G (n, k) weighs the entries of the kernel matrix, a scale is one
number or m of them. ``scale`` is a scale of *frequencies*: the larger, the narrower the kernel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from bochner.arrays import (
    Array,
    dense,
    double,
    dtype_of,
    fetch64,
    is_foreign,
    namespace,
    place,
    squared_distances,
    weighted_products,
    weighted_squares,
)
from bochner.errors import InputError
from bochner.kernels.checks import matrix, positive, refuse_large

Gradient = dict[str, Any]
"""Derivatives by parameter name: "scale" has one entry per column even where one scale is shared."""
LARGEST_IN_FLOAT32 = 1e35
"""Scales that frequencies of float32 can have, with room for their law."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Kernel(ABC):
    """A positive definite kernel k(x, z) with learnable positive parameters.

    Kernels are immutable: :meth:`replace` and :meth:`with_theta` return new ones. Two views of the parameters exist, the
    constrained one (attributes such as ``scale``, all positive) and the unconstrained one (``theta``, their logarithms in
    one vector), and :meth:`unconstrain` carries a gradient from the first to the second.
    """

    scale: float | Array = 1.0

    learnable: ClassVar[tuple[str, ...]] = ("scale",)
    """Names of the parameters that can be learned; each must be positive."""
    geometry: ClassVar[str]
    """How the kernel is turned into features: "product", "radial", "additive" or "exponentiated"."""
    has_bandwidth: ClassVar[bool] = True
    """Whether k(x, z) falls from one to zero as ``scale`` grows, so that a median heuristic makes sense."""

    def __post_init__(self) -> None:
        for name in self.learnable:
            object.__setattr__(self, name, positive(getattr(self, name), f"{type(self).__name__}.{name}"))

    def __call__(self, X: Array, Z: Array | None = None) -> Array:
        """Exact kernel matrix k(x, z) between the rows of X (n, m) and of Z (k, m; X itself if left out): (n, k)."""
        X = matrix(X, "X")
        Z = X if Z is None else matrix(Z, "Z")
        if X.shape[1] != Z.shape[1]:
            raise InputError(f"X has {X.shape[1]} columns and Z has {Z.shape[1]}: give both the same columns.")
        self.check_rows(X, argument="X")
        self.check_rows(Z, argument="Z")
        return self.exact(X, Z)

    @abstractmethod
    def exact(self, X: Array, Z: Array) -> Array:
        """Exact kernel matrix (n, k) of checked dense rows."""

    @abstractmethod
    def exact_adjoint(self, X: Array, Z: Array, G: Array) -> Gradient:
        """Gradient of ``sum(G * k(X, Z))`` in every learnable parameter: "scale" (m,), the others numbers."""

    def transform(self, X: Array) -> Array:
        """The input map: rows in which the kernel depends on differences only. The identity unless overridden."""
        return X

    @property
    def has_input_map(self) -> bool:
        """Whether :meth:`transform` is anything but the identity."""
        return type(self).transform is not Kernel.transform

    def transform_derivatives(self, X: Array) -> dict[str, Array]:
        """Derivative of :meth:`transform` in each of the kernel's parameters that it uses: arrays shaped like X."""
        return {}

    def embed(self, X: Array) -> Array:
        """Rows X (n, m), dense or sparse, as :meth:`between` wants them: what can be done once for many pairs of rows."""
        return dense(X)

    def between(self, U: Array, V: Array) -> Array:
        """Kernel matrix (n, k) of embedded rows: k(X, Z) = between(embed(X), embed(Z))."""
        return self.exact(U, V)

    def point_columns(self, n_columns: int) -> int:
        """Coordinates of a base point of the law of frequencies, for rows of ``n_columns`` columns."""
        return n_columns

    def frequencies(self, points: Array) -> Array:
        """Frequencies g = s * h of base points h, a column each: (m, f) from (m, f), where the points are."""
        scales = self.scales(points.shape[0])
        if dtype_of(points) == np.float32 and scales.max() > LARGEST_IN_FLOAT32:
            raise InputError(
                f"scale={scales.max():.3g} is more than float32 can multiply by: give the rows in float64, or bring the "
                "columns to a larger unit."
            )
        return place(scales, like=points)[:, None] * points

    def frequencies_adjoint(self, G: Array, points: Array) -> Gradient:
        """Gradient of ``sum(G * frequencies(points))`` in the parameters, float64, where G (m, f) is: sum_j G_ij h_ij."""
        return {"scale": namespace(G).sum(double(G) * double(points), axis=1)}

    @property
    def lower(self) -> float:
        """Values below this one are outside the kernel's domain."""
        return -np.inf

    @property
    def open_below(self) -> bool:
        """Whether :attr:`lower` itself is outside the domain too."""
        return False

    def contains(self, lowest: float) -> bool:
        """Whether rows with this smallest value are in the kernel's domain."""
        return bool(lowest > self.lower if self.open_below else lowest >= self.lower)

    def _refuse_large(self, values: Array, argument: str) -> None:
        """An error where an additive kernel is given numbers whose sums of squares overflow."""
        if self.geometry == "additive" and values.shape[0]:
            largest = float(fetch64(namespace(values).max(values)))
            refuse_large(type(self).__name__, argument, largest, dtype_of(values))

    def check_rows(
        self, X: Array, *, argument: str = "X", names: Array | None = None, numbers: Sequence[int] | None = None
    ) -> None:
        """Raise a ValueError that names the first column of X holding NaN, infinity or a value outside the domain.

        ``numbers`` are those of the columns in the table that they are from, if they are some of it.
        """
        self.scales(X.shape[1])
        values = X.data if hasattr(X, "tocsr") else X
        xp = namespace(values)
        with np.errstate(over="ignore", invalid="ignore"):
            total = xp.sum(values)  # NaN and infinities survive a sum: one cheap look for the usual case
        sound = bool(xp.isfinite(total))
        if sound and self.lower > -np.inf:
            sound = not bool(xp.any((values <= self.lower) if self.open_below else (values < self.lower)))
        if sound:
            self._refuse_large(values, argument)
            return
        host = fetch64(X)
        bad = ~np.isfinite(host)
        wrong = bad if bad.any() else (host <= self.lower if self.open_below else host < self.lower)
        if not wrong.any():  # the sum overflowed, the values are sound
            self._refuse_large(values, argument)
            return
        column = int(np.flatnonzero(wrong.any(axis=0))[0])
        row = int(np.flatnonzero(wrong[:, column])[0])
        label = f"column {column if numbers is None else numbers[column]}"
        label += "" if names is None else f" ({names[column]!r})"
        where = f"{argument}, {label}, row {row}"
        if bad.any():
            kind, remedy = "NaN", "fill the gaps first, for instance with sklearn.impute.SimpleImputer()"
            if not np.isnan(host[row, column]):
                kind, remedy = "inf", "replace it by a finite number, for instance with numpy.nan_to_num(X)"
            raise InputError(
                f"{where} holds {kind}, and {type(self).__name__} needs finite numbers: drop such rows, or {remedy}."
            )
        sign = ">" if self.open_below else ">="
        raise InputError(
            f"Negative values in data passed to {type(self).__name__}: {where} holds {host[row, column]:g}, and the kernel "
            f"needs values {sign} {self.lower:g}. Put sklearn.preprocessing.MinMaxScaler(clip=True) before it, or use a "
            "kernel of differences such as 'gaussian'."
        )

    # -- parameters ---------------------------------------------------------------------------------------------------

    def scales(self, n_columns: int) -> Array:
        """The scale of each of ``n_columns`` columns: (m,), the shared one repeated."""
        scale = np.asarray(self.scale)
        if scale.ndim and scale.shape[0] != n_columns:
            raise InputError(
                f"scale has {scale.shape[0]} entries and the rows have {n_columns} columns: give one number, or "
                f"{n_columns} of them."
            )
        return np.broadcast_to(scale, (n_columns,)).astype(np.float64)

    @property
    def parameters(self) -> dict[str, Any]:
        """Constrained view: every learnable parameter by name, positive."""
        return {name: getattr(self, name) for name in self.learnable}

    @property
    def theta(self) -> Array:
        """Unconstrained view: the logarithms of all learnable parameters, in the order of ``learnable``: (p,)."""
        return np.concatenate([np.log(np.atleast_1d(value)) for value in self.parameters.values()])

    def with_theta(self, theta: Array) -> Self:
        """The same kernel at another unconstrained point (p,)."""
        values, start = {}, 0
        theta = np.asarray(theta, dtype=np.float64)
        if theta.shape != self.theta.shape:
            raise InputError(
                f"theta has shape {theta.shape}, and this kernel has {self.theta.shape[0]} parameters: give one "
                "number for each."
            )
        for name, value in self.parameters.items():
            size = np.size(value)
            part = np.exp(theta[start : start + size])
            values[name] = part if np.ndim(value) else float(part[0])
            start += size
        return self.replace(**values)

    def unconstrain(self, gradient: Gradient) -> Array:
        """A gradient by name (:meth:`exact_adjoint`, or a feature map's) as the gradient in :attr:`theta`: (p,)."""
        parts = []
        for name, value in self.parameters.items():
            if name not in gradient:
                raise InputError(
                    f"{type(self).__name__} names {name!r} in `learnable`, but has no derivative in it: return one from "
                    "`transform_derivatives`, or leave the name out of `learnable`."
                )
            part = np.atleast_1d(np.asarray(gradient[name], dtype=np.float64))
            if not np.ndim(value):
                part = part.sum(keepdims=True)
            parts.append(part * value)
        return np.concatenate(parts)

    def replace(self, **parameters: Any) -> Self:
        """The same kernel with some parameters changed."""
        return replace(self, **parameters)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    def __hash__(self) -> int:
        return hash((type(self), self.theta.tobytes()))


class StationaryKernel(Kernel):
    """A kernel of differences of mapped rows, hence (Bochner) the Fourier transform of a law of frequencies."""

    def slope(self, t: Array) -> Array:
        """Derivative of :meth:`profile`. By default a fourth-order difference taken away from zero, where kinks are.

        Its error is about 1e-11 for a smooth profile. Override it with the formula where there is one: that is faster,
        and right at kinks other than zero.
        """
        xp = namespace(t)
        wide = xp.astype(xp.abs(t), xp.float64)
        step = 1e-3
        weights = (-25 / 12, 4.0, -3.0, 4 / 3, -1 / 4)
        result = weights[0] * self.profile(wide)
        for k in range(1, 5):
            result = result + weights[k] * self.profile(wide + k * step)
        return xp.sign(t) * xp.astype(result / step, t.dtype)

    @abstractmethod
    def profile(self, t: Array) -> Array:
        """The kernel as a function of one scaled difference or distance; one at zero, and even."""

    def metric_adjoint(self, X: Array, Z: Array, A: Array, G: Array) -> Array:
        """Gradient (m, r) of ``sum(G * k(X A, Z A))`` in a matrix A (m, r), for a kernel of scale one."""
        raise NotImplementedError(f"{type(self).__name__} has no gradient in a matrix that multiplies its rows.")

    def row_gradients(self, X: Array, Z: Array, weights: Array) -> Array:
        """Gradient in x of ``sum_c weights_cq k(x, z_c)`` at each row of X (n, m), for weights (k, q): (n, m, q).

        For kernels without an input map. Where a row meets a z_c, that pair counts as flat: so it is for a kernel that is
        smooth there, and half-way between the slopes of one that has a kink.
        """
        raise NotImplementedError(f"{type(self).__name__} has no gradient in its rows.")


class ProductKernel(StationaryKernel):
    """k(x, z) = prod_i profile(s_i (T(x)_i - T(z)_i)), T the input map; frequencies are independent by column.

    A kernel of one's own needs two methods: ``quantile(u)``, the inverse distribution function of the frequencies of one
    column, and ``profile(t)``, their characteristic function.
    """

    geometry = "product"

    @abstractmethod
    def quantile(self, u: Array) -> Array:
        """Inverse distribution function of the law of one frequency at scale one; u (any shape) in (0, 1)."""

    def exact(self, X: Array, Z: Array) -> Array:
        X, Z = self.transform(X), self.transform(Z)
        xp = namespace(X, Z)
        result = xp.ones((X.shape[0], Z.shape[0]), dtype=X.dtype)
        if is_foreign(X):
            result = place(np.ones(result.shape), like=X)
        for _, t in self._scaled_differences(X, Z):
            result = result * self.profile(t)
        return result

    def exact_adjoint(self, X: Array, Z: Array, G: Array) -> Gradient:
        K = self.exact(X, Z)
        changes_X, changes_Z = self.transform_derivatives(X), self.transform_derivatives(Z)
        X, Z = self.transform(X), self.transform(Z)
        xp = namespace(X, Z)
        scales = self.scales(X.shape[1])
        scale = np.empty(X.shape[1])
        others = dict.fromkeys(changes_X, 0.0)
        for i, t in self._scaled_differences(X, Z):
            weight = G * self._product_without(i, K, t, X, Z) * self.slope(t)
            scale[i] = float(xp.sum(weight * (X[:, i, None] - Z[None, :, i])))
            for name in others:
                dX, dZ = changes_X[name], changes_Z[name]
                others[name] += scales[i] * float(xp.sum(weight * (dX[:, i, None] - dZ[None, :, i])))
        return {"scale": scale, **others}

    def metric_adjoint(self, X: Array, Z: Array, A: Array, G: Array) -> Array:
        U, V = X @ A, Z @ A
        xp = namespace(U, V)
        K = self.exact(U, V)
        columns = []
        for j, t in self._scaled_differences(U, V):
            weight = G * self._product_without(j, K, t, U, V) * self.slope(t)
            columns.append(X.T @ xp.sum(weight, axis=1) - Z.T @ xp.sum(weight, axis=0))
        return xp.stack(columns, axis=1)

    def row_gradients(self, X: Array, Z: Array, weights: Array) -> Array:
        K = self.exact(X, Z)
        scales = self.scales(X.shape[1])
        columns = [
            float(scales[i]) * ((self._product_without(i, K, t, X, Z) * self.slope(t)) @ weights)
            for i, t in self._scaled_differences(X, Z)
        ]
        return namespace(X, Z).stack(columns, axis=1)

    def _scaled_differences(self, X: Array, Z: Array) -> Any:
        """Pairs (i, s_i (x_i - z_i)) over the columns of mapped rows."""
        for i, s in enumerate(self.scales(X.shape[1])):
            yield i, float(s) * (X[:, i, None] - Z[None, :, i])

    def _product_without(self, i: int, K: Array, t: Array, X: Array, Z: Array) -> Array:
        """The product of all factors but the i-th: K over it, or factor by factor where it vanishes with a slope."""
        xp = namespace(X, Z)
        factor = self.profile(t)
        zero = factor == 0
        if not bool(xp.any(zero & (self.slope(t) != 0))):
            return xp.where(zero, xp.zeros_like(K), K / xp.where(zero, xp.ones_like(K), factor))
        result = xp.ones_like(K)
        for j, other in self._scaled_differences(X, Z):
            result = result if j == i else result * self.profile(other)
        return result


class RadialKernel(StationaryKernel):
    """k(x, z) = profile(r), r = ||s * (T(x) - T(z))||; a frequency is a uniform direction times a random radius.

    A kernel of one's own needs two methods: ``quantile(u, n_columns)``, the inverse distribution function of the length of
    a frequency in that many dimensions, and ``profile(r)``.
    """

    geometry = "radial"

    @abstractmethod
    def quantile(self, u: Array, n_columns: int) -> Array:
        """Inverse distribution function of the length of a frequency at scale one; u (any shape) in (0, 1)."""

    def exact(self, X: Array, Z: Array) -> Array:
        return self.between(self.embed(X), self.embed(Z))

    def embed(self, X: Array) -> Array:
        X = self.transform(dense(X))
        return X * place(self.scales(X.shape[1]), like=X)

    def between(self, U: Array, V: Array) -> Array:
        return self.profile(namespace(U, V).sqrt(squared_distances(U, V)))

    def exact_adjoint(self, X: Array, Z: Array, G: Array) -> Gradient:
        changes_X, changes_Z = self.transform_derivatives(X), self.transform_derivatives(Z)
        X, Z = self.transform(X), self.transform(Z)
        xp = namespace(X, Z)
        scales = self.scales(X.shape[1])
        U, V = X * place(scales, like=X), Z * place(scales, like=Z)
        weight = G * self.slope_over_distance(squared_distances(U, V))
        sums = fetch64(weighted_squares(weight, U, V))
        others = {}
        for name, dX in changes_X.items():
            dZ = changes_Z[name]  # sum_rc W_rc (x - z)_i (dx - dz)_i, expanded into matrix products
            own = xp.sum(weight, axis=1) @ (X * dX) + xp.sum(weight, axis=0) @ (Z * dZ)
            across = xp.sum(X * (weight @ dZ) + dX * (weight @ Z), axis=0)
            others[name] = float(scales**2 @ fetch64(own - across))
        return {"scale": sums / scales, **others}

    def metric_adjoint(self, X: Array, Z: Array, A: Array, G: Array) -> Array:
        U, V = X @ A, Z @ A
        return weighted_products(G * self.slope_over_distance(squared_distances(U, V)), X, Z, U, V)

    def row_gradients(self, X: Array, Z: Array, weights: Array) -> Array:
        xp = namespace(X, Z)
        U, V = self.embed(X), self.embed(Z)
        centre = xp.mean(V, axis=0)
        U, V = U - centre, V - centre
        squares = squared_distances(U, V)
        norms = xp.sum(U * U, axis=1)[:, None] + xp.sum(V * V, axis=1)[None, :]
        apart = squares > float(np.finfo(dtype_of(U)).eps) * norms  # else u (x - c) would be rounding, times a large u
        u = xp.where(apart, self.slope_over_distance(squares), xp.zeros_like(squares))
        k, q = weights.shape
        towards = u @ xp.reshape(weights[:, None, :] * V[:, :, None], (k, -1))
        gradient = (u @ weights)[:, None, :] * U[:, :, None] - xp.reshape(towards, (U.shape[0], -1, q))
        return gradient * place(self.scales(X.shape[1]), like=U)[None, :, None]

    def slope_over_distance(self, squares: Array) -> Array:
        """profile'(r) / r from r^2, and zero where r is zero."""
        xp = namespace(squares)
        apart = squares > 0
        distance = xp.sqrt(xp.where(apart, squares, xp.ones_like(squares)))
        return xp.where(apart, self.slope(distance) / distance, xp.zeros_like(squares))
