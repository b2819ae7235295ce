"""Deterministic features of the additive kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy import sparse

from bochner.arrays import Array, double, namespace, place
from bochner.features.base import FEW_ROWS, FeatureGradient
from bochner.features.inputs import HomogeneousInput
from bochner.kernels import AdditiveKernel


@dataclass(frozen=True)
class HomogeneousMap:
    """phi(x) = [s_i psi_q(x_i)], psi the homogeneous map of order p: 2 p + 1 features a column, q before i."""

    kernel: AdditiveKernel
    n_columns: int
    inputs: HomogeneousInput

    @property
    def n_features(self) -> int:
        return self.inputs.width * self.n_columns

    @property
    def widest(self) -> int:
        return self.n_features

    @property
    def least_rows(self) -> int:
        return FEW_ROWS

    def place(self, like: Array) -> Self:
        return self

    def with_kernel(self, kernel: AdditiveKernel) -> Self:
        return replace(self, kernel=kernel)

    def scratch(self, n_rows: int, like: Array) -> None:
        return None

    def forward(self, X: Array, out: Array | None = None, scratch: Array | None = None) -> Array:
        rows = self.inputs(X)
        scales = np.tile(self.kernel.scales(self.n_columns), self.inputs.width)
        if sparse.issparse(rows):
            return (rows @ sparse.diags_array(scales.astype(rows.dtype))).tocsr()
        rows = rows * place(scales, like=rows)
        if out is None:
            return rows
        out[...] = rows
        return out

    def adjoint(self, X: Array, G: Array, features: Array | None = None) -> FeatureGradient:
        return self.local_adjoint(X, G, features).on_host()

    def local_adjoint(self, X: Array, G: Array, features: Array | None = None) -> FeatureGradient:
        rows = self.inputs(X)
        xp = namespace(rows)
        if sparse.issparse(rows):
            products = np.asarray(rows.multiply(G).sum(axis=0)).ravel()
        else:
            products = double(xp.sum(rows * G, axis=0))
        return FeatureGradient({"scale": xp.sum(xp.reshape(products, (self.inputs.width, self.n_columns)), axis=0)})

    def feature_names(self, columns: Array) -> list[str]:
        kinds = ["sqrt"]
        for j in range(1, self.inputs.order + 1):
            kinds += [f"cos{j}", f"sin{j}"]
        return [f"{column}_{kind}" for kind in kinds for column in columns]
