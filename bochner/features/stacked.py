"""Several feature maps side by side: the features of a sum of kernels, each on its own columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy import sparse

from bochner.arrays import Array, dense, is_foreign, namespace
from bochner.features.base import FeatureGradient, FeatureMap


@dataclass(frozen=True)
class StackedMap:
    """phi(x) = [phi_1(x_1), ..., phi_r(x_r)], x_t some m_t columns of x: its kernel is sum_t k_t(x_t, z_t)."""

    maps: tuple[FeatureMap, ...]
    columns: tuple[slice | Array, ...] = ()
    """The columns of the rows that each map sees; by default the next m_t."""

    def __post_init__(self) -> None:
        if not self.columns:
            object.__setattr__(self, "columns", consecutive([each.n_columns for each in self.maps]))

    @property
    def kernel(self) -> tuple[Any, ...]:
        """The kernels k_t."""
        return tuple(each.kernel for each in self.maps)

    @property
    def n_columns(self) -> int:
        return sum(each.n_columns for each in self.maps)

    @property
    def n_features(self) -> int:
        return sum(each.n_features for each in self.maps)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of features of each map."""
        return tuple(each.n_features for each in self.maps)

    @property
    def widest(self) -> int:
        return max(self.n_features, *(each.widest for each in self.maps))

    @property
    def least_rows(self) -> int:
        return max(each.least_rows for each in self.maps)

    @cached_property
    def features(self) -> tuple[slice, ...]:
        """The features of each map."""
        return consecutive(list(self.sizes))

    def take(self, used: Array) -> Self:
        """Some of the maps, by a mask (r,), on the same rows."""
        chosen = np.flatnonzero(used).tolist()
        return replace(self, maps=tuple(self.maps[t] for t in chosen), columns=tuple(self.columns[t] for t in chosen))

    def place(self, like: Array) -> Self:
        return replace(self, maps=tuple(each.place(like) for each in self.maps))

    def with_kernel(self, kernel: Any) -> Self:
        return replace(self, maps=tuple(each.with_kernel(one) for each, one in zip(self.maps, kernel, strict=True)))

    def scratch(self, n_rows: int, like: Array) -> Any:
        return [each.scratch(n_rows, like) for each in self.maps]

    def forward(self, X: Array, out: Array | None = None, scratch: Any = None) -> Array:
        if is_foreign(X) and out is None:
            beside = [each.forward(X[:, columns]) for each, columns in zip(self.maps, self.columns, strict=True)]
            return namespace(X).concat(beside, axis=1)
        parts = zip(self.maps, self.columns, self.features, scratch or [None] * len(self.maps), strict=True)
        if out is None:
            out = np.empty((X.shape[0], self.n_features), dtype=X.dtype)
        for each, columns, features, spare in parts:
            rows = X[:, columns]
            written = each.forward(rows, out=None if sparse.issparse(rows) else out[:, features], scratch=spare)
            if sparse.issparse(rows):
                out[:, features] = dense(written)
        return out

    def adjoint(self, X: Array, G: Array, features: Array | None = None) -> FeatureGradient:
        raise NotImplementedError("Scales of several kernels at a time are not learned from their sum.")

    def local_adjoint(self, X: Array, G: Array, features: Array | None = None) -> FeatureGradient:
        return self.adjoint(X, G, features)

    def feature_names(self, columns: Array) -> list[str]:
        parts = zip(self.maps, self.columns, strict=True)
        return [f"{t}_{name}" for t, (each, some) in enumerate(parts) for name in each.feature_names(columns[some])]


def consecutive(sizes: list[int]) -> tuple[slice, ...]:
    """Slices of so many columns, one after the other."""
    ends = np.cumsum(sizes).tolist()
    return tuple(slice(end - size, end) for size, end in zip(sizes, ends, strict=True))
