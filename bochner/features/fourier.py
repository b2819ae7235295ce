"""Random Fourier features: cosines and sines of random projections (Rahimi and Recht, 2007)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, cast

import numpy as np

from bochner.arrays import Array, double, is_plain, namespace, place
from bochner.errors import InputError
from bochner.features.base import FEW_ROWS, FeatureGradient
from bochner.features.inputs import InputMap
from bochner.features.trigonometry import write_cos_sin
from bochner.kernels import Kernel


@dataclass(frozen=True)
class FourierMap:
    """phi(x) = f^(-1/2) [cos(g_1 . x), ..., cos(g_f . x), sin(g_1 . x), ..., sin(g_f . x)], g_j = s * h_j.

    The frequencies g are the scales s times base points h (or a metric A times them, g_j = A h_j) that are drawn once and
    kept, so the features are a smooth function of the scales. Pairs of cosine and sine make every feature vector a unit
    vector and have a lower variance than random phases; with ``phases`` b (f,) the map is phi(x) = (2/f)^(1/2)
    [cos(g_j . x + b_j)] instead.
    """

    kernel: Kernel
    n_columns: int
    inputs: InputMap
    points: Array
    """Base points h: (width * m, f), a frequency a column; (r, f) under a metric of rank r."""
    phases: Array | None = None

    @property
    def n_features(self) -> int:
        return self.points.shape[1] * (2 if self.phases is None else 1)

    @property
    def widest(self) -> int:
        return max(self.n_columns * self.inputs.width, self.points.shape[1])

    @property
    def least_rows(self) -> int:
        return FEW_ROWS

    @cached_property
    def frequencies(self) -> Array:
        """g = s * h, (width * m, f): in the namespace and dtype of the base points."""
        parts = [self.kernel.frequencies(points) for points in self._by_width(self.points)]
        return parts[0] if len(parts) == 1 else namespace(self.points).concat(parts, axis=0)

    def _by_width(self, array: Array) -> list[Array]:
        """The rows of an array (of points, or of frequencies) that belong to each of ``inputs.width`` values a column."""
        size = array.shape[0] // self.inputs.width
        return [array[start : start + size, :] for start in range(0, array.shape[0], size)]

    @cached_property
    def _half_frequencies(self) -> Array:
        return self.frequencies * 0.5

    @cached_property
    def _quarter_turn(self) -> Self:
        """The map whose features are the derivatives of these in their angles: cos(z + pi/2) = -sin z."""
        return replace(self, phases=cast(Array, self.phases) + np.pi / 2)

    def place(self, like: Array) -> Self:
        points, phases = place(self.points, like), None if self.phases is None else place(self.phases, like)
        return self if points is self.points and phases is self.phases else replace(self, points=points, phases=phases)

    def with_kernel(self, kernel: Kernel) -> Self:
        return replace(self, kernel=kernel, inputs=self.inputs.with_kernel(kernel))

    def scratch(self, n_rows: int, like: Array) -> Array:
        return np.empty((2, n_rows, self.points.shape[1]), dtype=like.dtype)

    def forward(self, X: Array, out: Array | None = None, scratch: Array | None = None) -> Array:
        rows = self.inputs(X)
        f = self.points.shape[1]
        weight = (1 / f) ** 0.5 if self.phases is None else (2 / f) ** 0.5
        if not is_plain(self.points):
            return self._forward_elsewhere(rows, weight, out)
        half, spare = self._half_angles(rows, scratch)
        out = np.empty((half.shape[0], self.n_features), dtype=half.dtype) if out is None else out
        if self.phases is None:
            write_cos_sin(half, weight, cosine=out[:, :f], sine=out[:, f:], scratch=spare)
        else:
            half += 0.5 * self.phases
            write_cos_sin(half, weight, cosine=out, scratch=spare)
        return out

    def _half_angles(self, rows: Array, scratch: Array | None) -> tuple[Array, Array | None]:
        """Half of each g_j . x, and a spare array like them, both in ``scratch`` where it is given and rows are dense."""
        if scratch is None or not is_plain(rows):
            return rows @ self._half_frequencies, None
        half, spare = scratch[:, : rows.shape[0]]
        return np.matmul(rows, self._half_frequencies, out=half), spare

    def _forward_elsewhere(self, rows: Array, weight: float, out: Array | None) -> Array:
        """The forward map in the words of the array API, for other arrays than NumPy's; ``out`` if their cosine takes it."""
        xp = namespace(rows)
        angles = rows @ self.frequencies
        angles = angles if self.phases is None else angles + self.phases
        if out is None:
            return weight * (xp.concat([xp.cos(angles), xp.sin(angles)], axis=1) if self.phases is None else xp.cos(angles))
        f = self.points.shape[1]
        xp.cos(angles, out=out[:, :f])
        if self.phases is None:
            xp.sin(angles, out=out[:, f:])
        out *= weight
        return out

    def adjoint(self, X: Array, G: Array, features: Array | None = None) -> FeatureGradient:
        return self.local_adjoint(X, G, features).on_host()

    def local_adjoint(self, X: Array, G: Array, features: Array | None = None) -> FeatureGradient:
        xp = namespace(self.points)
        slopes = self._angle_gradient(X, G, features)
        rows = self.inputs(X)
        frequencies = double(rows.T @ slopes)
        pairs = zip(self._by_width(frequencies), self._by_width(self.points), strict=True)
        parts = [self.kernel.frequencies_adjoint(some, points) for some, points in pairs]
        parameters = {name: sum(part[name] for part in parts[1:]) + parts[0][name] for name in parts[0]}
        for name, change in self.inputs.derivatives(X).items():
            parameters[name] = xp.sum(double(change.T @ slopes) * double(self.frequencies))
        return FeatureGradient(parameters, frequencies)

    def _angle_gradient(self, X: Array, G: Array, features: Array | None) -> Array:
        """Gradient of <Phi, G> in the angles g_j . x: (n, f)."""
        if self.phases is not None:
            return self._quarter_turn.forward(X) * G
        f = self.points.shape[1]
        features = self.forward(X) if features is None else features
        return features[:, :f] * G[:, f:] - features[:, f:] * G[:, :f]

    def gradient_of(self, coef: Array) -> Callable[[Array], Array]:
        """The gradient of phi(x) . coef in x, for coef (d, c), as a function of rows (n, m): (n, m, c)."""
        if self.inputs.width > 1 or self.kernel.has_input_map:
            raise InputError(
                f"Gradients in the rows are for kernels without an input map, and {type(self.kernel).__name__} "
                "has one: use another."
            )
        xp = namespace(self.points)
        coef = place(coef, like=self.points)

        def gradient(X: Array) -> Array:
            features = self.forward(X)
            slopes = (self._angle_gradient(X, coef[None, :, k], features) for k in range(coef.shape[1]))
            return xp.stack([each @ self.frequencies.T for each in slopes], axis=2)

        return gradient

    def feature_names(self, columns: Array) -> list[str]:
        f = self.points.shape[1]
        if self.phases is not None:
            return [f"cos{j}" for j in range(f)]
        return [f"cos{j}" for j in range(f)] + [f"sin{j}" for j in range(f)]
