"""Random Fourier features of some columns beside the other columns themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from bochner.arrays import Array, dense, double, is_plain, namespace, place
from bochner.features.base import FeatureGradient
from bochner.features.fourier import FourierMap
from bochner.kernels import GaussianPlusLinear


@dataclass(frozen=True)
class FourierAndLinearMap:
    """phi(x) = [Fourier features of the columns i, s_j x_j of the columns j], as the kernel tells columns apart."""

    kernel: GaussianPlusLinear
    fourier: FourierMap
    """That of the Gaussian part, on its columns."""
    points: Array
    """An array of the kind, and where, all of this is computed: the base points of the Fourier features."""

    @property
    def n_columns(self) -> int:
        return len(self.kernel.linear)

    @property
    def n_features(self) -> int:
        return self.fourier.n_features + len(self.kernel.columns[1])

    @property
    def widest(self) -> int:
        return max(self.n_columns, self.n_features, self.fourier.widest)

    @property
    def least_rows(self) -> int:
        return self.fourier.least_rows

    @cached_property
    def _weights(self) -> Array:
        return place(self.kernel.scales(self.n_columns)[self.kernel.columns[1]], like=self.points)

    def place(self, like: Array) -> Self:
        fourier = self.fourier.place(like)
        return self if fourier is self.fourier else replace(self, fourier=fourier, points=fourier.points)

    def with_kernel(self, kernel: GaussianPlusLinear) -> Self:
        return replace(self, kernel=kernel, fourier=self.fourier.with_kernel(kernel.gaussian))

    def scratch(self, n_rows: int, like: Array) -> Array:
        return self.fourier.scratch(n_rows, like)

    def forward(self, X: Array, out: Array | None = None, scratch: Array | None = None) -> Array:
        X = dense(X)
        smooth, linear = self.kernel.columns
        last = self.fourier.n_features
        if not is_plain(X) and out is None:
            return namespace(X).concat([self.fourier.forward(X[:, smooth]), X[:, linear] * self._weights], axis=1)
        out = np.empty((X.shape[0], self.n_features), dtype=X.dtype) if out is None else out
        self.fourier.forward(X[:, smooth], out=out[:, :last], scratch=scratch)
        out[:, last:] = X[:, linear] * self._weights
        return out

    def adjoint(self, X: Array, G: Array, features: Array | None = None) -> FeatureGradient:
        return self.local_adjoint(X, G, features).on_host()

    def local_adjoint(self, X: Array, G: Array, features: Array | None = None) -> FeatureGradient:
        X = dense(X)
        xp = namespace(X)
        smooth, linear = self.kernel.columns
        last = self.fourier.n_features
        given = None if features is None else features[:, :last]
        own = self.fourier.local_adjoint(X[:, smooth], G[:, :last], given).parameters["scale"]
        other = double(xp.sum(X[:, linear] * G[:, last:], axis=0))
        order = np.argsort(np.concatenate([smooth, linear]))
        return FeatureGradient({"scale": xp.concat([own, other])[order]})

    def feature_names(self, columns: Array) -> list[str]:
        smooth, linear = self.kernel.columns
        return [*self.fourier.feature_names(columns[smooth]), *(str(name) for name in columns[linear])]
