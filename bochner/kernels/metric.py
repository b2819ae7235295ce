"""A kernel of rows that a matrix has multiplied: its metric may turn columns into each other, or leave directions out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
from array_api_compat import device

from bochner.arrays import Array, dense, double, dtype_of, fetch, fetch64, is_foreign, namespace, place, squared_distances
from bochner.errors import InputError
from bochner.kernels.base import Gradient, RadialKernel, StationaryKernel
from bochner.kernels.checks import positive

ROUNDINGS = 8
"""A row is at the origin where it is no longer than so many roundings of the numbers that it is made of."""
FAR_FROM_ONE = 10
"""Binary digits by which the largest entry of a metric whose length does not count may be away from one."""


@dataclass(frozen=True, eq=False)
class MetricKernel(StationaryKernel):
    """k(x, z) = base(x A, z A), A = ``metric`` (m, r) any real matrix; for a radial base, a function of (x-z) A A' (x-z)'.

    Frequencies are A h, for base points h of the base in r dimensions. Scales of the base, and ``scale`` (one number, or one
    for each of m columns), are multiplied into the metric when the kernel is made, and are one afterwards. The parameters
    have no sign: ``theta`` is A itself, row by row. A base has no input map: Gaussian, Matern, Laplacian, Cauchy, or one of
    your own.

    With an ``origin`` (m,) the kernel sees only in which direction from there a row lies: k(x, z) = base(u, v), u the row
    (x - origin) A brought to length one, or zero where no more than rounding is left of it. How long A is does not count.
    The base is radial and keeps its scale, one number, into which ``scale`` is multiplied: it says how narrow the kernel is.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.kernels import Gaussian, MetricKernel
    >>> kernel = MetricKernel(Gaussian(), np.array([[1.0], [-1.0]]))  # sees x_1 - x_2 alone
    >>> float(kernel(np.array([[0.0, 0.0]]), np.array([[3.0, 3.0]]))[0, 0])
    1.0
    """

    base: StationaryKernel
    metric: Array
    origin: Array | None = None

    learnable = ("metric",)

    def __post_init__(self) -> None:
        base, metric = self.base, _finite_matrix(self.metric)
        if not isinstance(base, StationaryKernel) or isinstance(base, MetricKernel):
            raise InputError(f"MetricKernel.base must be a kernel of differences such as Gaussian(), got {base!r}.")
        if base.has_input_map or base.learnable != ("scale",):
            raise InputError(
                f"MetricKernel.base is {type(base).__name__}, which has an input map of its own: use a kernel of plain "
                "differences such as Gaussian(), and map the rows yourself if you want that."
            )
        scale = np.asarray(positive(self.scale, "MetricKernel.scale"))
        if self.origin is not None:
            object.__setattr__(self, "origin", _origin(self.origin, base, scale, metric))
            metric, base = _near_one(metric), base.replace(scale=base.scale * float(scale))
        elif scale.ndim and scale.shape[0] != metric.shape[0]:
            raise InputError(f"scale has {scale.shape[0]} entries and the metric {metric.shape[0]} rows: give as many.")
        else:
            metric = metric * base.scales(metric.shape[1]) * (scale[:, None] if scale.ndim else scale)
            base = base.replace(scale=1.0)
        metric.flags.writeable = False
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "metric", metric)
        object.__setattr__(self, "scale", 1.0)
        object.__setattr__(self, "geometry", base.geometry)
        object.__setattr__(self, "has_bandwidth", base.has_bandwidth)

    # -- the kernel ---------------------------------------------------------------------------------------------------

    def quantile(self, u: Array, *n_columns: int) -> Array:
        """That of the base, in the r dimensions of its base points."""
        return self.base.quantile(u, *n_columns)  # type: ignore[attr-defined]

    def profile(self, t: Array) -> Array:
        return self.base.profile(t)

    def slope(self, t: Array) -> Array:
        return self.base.slope(t)

    def exact(self, X: Array, Z: Array) -> Array:
        return self.between(self.embed(X), self.embed(Z))

    def embed(self, X: Array) -> Array:
        return self.base.embed(self.seen(X))

    def between(self, U: Array, V: Array) -> Array:
        return self.base.between(U, V)

    def seen(self, X: Array) -> Array:
        """Rows X (n, m) as the base sees them: (n, r)."""
        return X @ self._placed("metric", X) if self.origin is None else self._directions_of(X)[0]

    def _directions_of(self, X: Array) -> tuple[Array, Array]:
        """Rows seen from the origin, of length one (n, r), and their lengths before (n, 1): zeros and one at the origin.

        That is where (x - origin) A is no longer than its rounding.
        """
        X, metric, origin = dense(X), self._placed("metric", X), self._placed("origin", X)
        rows = (X - origin) @ metric
        xp = namespace(rows)
        largest = xp.max(xp.abs(rows), axis=1, keepdims=True)
        largest = xp.where(largest > 0, largest, xp.ones_like(largest))  # whose squares may overflow
        lengths = largest * xp.linalg.vector_norm(rows / largest, axis=1, keepdims=True)
        reach = (xp.abs(X) + xp.abs(origin)) @ xp.linalg.vector_norm(metric, axis=1, keepdims=True)
        there = lengths > ROUNDINGS * float(np.finfo(dtype_of(rows)).eps) * reach
        lengths = xp.where(there, lengths, xp.ones_like(lengths))
        return xp.where(there, rows / lengths, xp.zeros_like(rows)), lengths

    def _placed(self, name: str, X: Array) -> Array:
        """The metric or the origin where X is; of another device than the host it stays there for the next time."""
        value = getattr(self, name)
        if not is_foreign(X):
            return place(value, like=X)
        where = name, str(X.dtype), str(device(X))
        if where not in self._elsewhere:
            self._elsewhere[where] = place(value, like=X)
        return self._elsewhere[where]

    @cached_property
    def _elsewhere(self) -> dict[tuple[str, str, str], Array]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """All but the copies on devices."""
        return {name: value for name, value in self.__dict__.items() if name != "_elsewhere"}

    def exact_adjoint(self, X: Array, Z: Array, G: Array) -> Gradient:
        X, Z = dense(X), dense(Z)
        if self.origin is None:
            return {"metric": fetch64(self.base.metric_adjoint(X, Z, place(self.metric, like=X), G))}
        return {"metric": fetch64(self._directions_adjoint(X, Z, G))}

    def _directions_adjoint(self, X: Array, Z: Array, G: Array) -> Array:
        """A row u of length one changes across itself alone: by what is left of its pull W v without the part along u."""
        base, origin = cast(RadialKernel, self.base), self._placed("origin", X)
        (U, lengths), (V, others) = self._directions_of(X), self._directions_of(Z)
        squares = squared_distances(base.embed(U), base.embed(V))
        W = float(np.asarray(base.scale)) ** 2 * G * base.slope_over_distance(squares)
        across_U, across_V = _across(U, W @ V, lengths), _across(V, W.T @ U, others)
        return -((X - origin).T @ across_U + (Z - origin).T @ across_V)

    def row_gradients(self, X: Array, Z: Array, weights: Array) -> Array:
        if self.origin is None:
            inner = self.base.row_gradients(self.seen(X), self.seen(Z), weights)
        else:
            U, lengths = self._directions_of(X)
            inner = self.base.row_gradients(U, self.seen(Z), weights)
            inner = _across(U[:, :, None], inner, lengths[:, :, None])
        return place(self.metric, like=inner) @ inner

    def point_columns(self, n_columns: int) -> int:
        if self.origin is not None:
            raise InputError(
                "A MetricKernel with an origin has no random features: use those of data centres, "
                "bochner.features.CentreMap(kernel, centres), or leave origin out and give rows of length one."
            )
        return self.metric.shape[1]

    def frequencies(self, points: Array) -> Array:
        return place(self.metric, like=points) @ points

    def frequencies_adjoint(self, G: Array, points: Array) -> Gradient:
        return {"metric": double(G) @ double(points).T}

    # -- parameters ---------------------------------------------------------------------------------------------------

    def scales(self, n_columns: int) -> Array:
        """How sensitive the kernel is to each column alone: the lengths of the rows of A, (m,)."""
        if n_columns != self.metric.shape[0]:
            raise InputError(
                f"metric has {self.metric.shape[0]} rows and the rows of data have {n_columns} columns: give a metric "
                "for them."
            )
        return np.linalg.norm(self.metric, axis=1)

    @property
    def theta(self) -> Array:
        """The metric, row by row: (m r,)."""
        return self.metric.ravel().copy()

    def with_theta(self, theta: Array) -> Self:
        theta = np.asarray(theta, dtype=np.float64)
        if theta.shape != (self.metric.size,):
            raise InputError(
                f"theta has shape {theta.shape}, and this kernel has {self.metric.size} parameters: give one number "
                "for each."
            )
        return self.replace(metric=theta.reshape(self.metric.shape))

    def unconstrain(self, gradient: Gradient) -> Array:
        return fetch64(gradient["metric"]).ravel()

    def rescaled(self, factor: float) -> Self:
        """The same, narrower by a positive factor: of the metric, or of the scale of the base where there is an origin."""
        return self.replace(scale=factor)

    def before(self, centre: Array, spread: Array) -> Self:
        """The kernel of rows x for which this one sees (x - centre) / spread, for a centre (m,) and a spread (m,)."""
        metric = self.metric / np.asarray(spread)[:, None]
        if self.origin is None:
            return self.replace(metric=metric)
        moved = self.origin * spread
        reach = np.abs(moved) + np.abs(centre)
        rounding = np.abs(moved + centre) <= ROUNDINGS * float(np.finfo(np.float64).eps) * reach
        return self.replace(metric=metric, origin=np.where(rounding, 0.0, moved + centre))

    @property
    def outer(self) -> Array:
        """A A', (m, m): what distances depend on where the base is radial."""
        return self.metric @ self.metric.T

    def directions(self, k: int | None = None) -> tuple[Array, Array]:
        """The k leading directions (all: None) in which the kernel changes: unit vectors (k, m), and strengths (k,).

        They are the left singular vectors of A, each with its largest entry positive, and the singular values: along a
        direction, a radial kernel without an origin is the base of that scale.
        """
        vectors, strengths, _ = np.linalg.svd(self.metric, full_matrices=False)
        rows = vectors.T[:k]
        largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1)
        return rows * np.where(largest < 0, -1.0, 1.0), strengths[:k]


def _across(U: Array, G: Array, lengths: Array) -> Array:
    """What is left of rows G without their parts along rows U of length one, over lengths; nothing where U is zero."""
    xp = namespace(U, G)
    squares = xp.sum(U * U, axis=1, keepdims=True)
    return xp.where(squares > 0, G - U * xp.sum(U * G, axis=1, keepdims=True), xp.zeros_like(G)) / lengths


def _near_one(metric: Array) -> Array:
    """A metric whose length does not count, times a power of two where its entries are far from one."""
    exponent = int(np.frexp(np.abs(metric).max())[1])
    return np.ldexp(metric, -exponent) if abs(exponent) > FAR_FROM_ONE else metric


def _origin(value: Any, base: StationaryKernel, scale: Array, metric: Array) -> Array:
    """The origin of a metric (m, r) as an array (m,), for a radial base with one scale."""
    if not isinstance(base, RadialKernel) or np.ndim(base.scale) or scale.ndim:
        raise InputError(
            "MetricKernel with an origin needs a radial base with one scale, such as Gaussian(), and one number as scale, "
            f"got {base!r} and scale={scale!r}: leave origin out, or use another base."
        )
    try:
        origin = np.array(fetch(value), dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"MetricKernel.origin must be an array of real numbers, got {value!r}.") from None
    if origin.shape != metric.shape[:1] or not np.isfinite(origin).all():
        raise InputError(
            f"MetricKernel.origin must be {metric.shape[0]} finite numbers, one for each row of the metric, got "
            f"shape {origin.shape}" + (" with NaN or infinite entries." if origin.shape == metric.shape[:1] else ".")
        )
    origin.flags.writeable = False
    return origin


def _finite_matrix(value: Any) -> Array:
    """A finite matrix of float64, a fresh one, or a ValueError that says what came instead."""
    try:
        matrix = np.array(fetch(value), dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"MetricKernel.metric must be a matrix of real numbers, got {value!r}.") from None
    if matrix.ndim != 2 or 0 in matrix.shape or not np.isfinite(matrix).all():
        what = f"shape {matrix.shape}" if matrix.ndim != 2 or 0 in matrix.shape else "NaN or infinite entries"
        raise InputError(f"MetricKernel.metric must be a finite matrix, columns of the rows by directions, got {what}.")
    return matrix
