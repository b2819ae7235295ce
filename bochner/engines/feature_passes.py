"""Passes over features that are not kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from bochner.arrays import Array, dense
from bochner.engines.passes import forward
from bochner.engines.threads import row_blocks
from bochner.features import StackedMap

BLOCK_BYTES = 2**26
"""Size of a block of features, in float64."""


@dataclass(frozen=True)
class FeaturePasses:
    """Products with the features Phi (n, D) of rows X, which every pass makes anew, block by block."""

    feature_map: StackedMap
    X: Array

    def there(self, coef: Array) -> Array:
        """Phi coef for coef (D, k): (n, k)."""
        out = np.empty((self.X.shape[0], coef.shape[1]))
        for block, features in self._blocks():
            out[block] = features @ coef
        return out

    def back(self, values: Array) -> Array:
        """Phi' values for values (n, k): (D, k)."""
        total = np.zeros((self.feature_map.n_features, values.shape[1]))
        for block, features in self._blocks():
            total += features.T @ values[block]
        return total

    def columns(self, used: Array) -> FeaturePasses:
        """The same for the features of some kernels, a mask (D,): those of the others are not made."""
        starts = [some.start for some in self.feature_map.features]
        return FeaturePasses(self.feature_map.take(used[starts]), self.X)

    def _blocks(self) -> Iterator[tuple[slice, Array]]:
        """Blocks of rows with their features in float64."""
        n_rows = max(256, BLOCK_BYTES // (8 * self.feature_map.n_features))
        for block in row_blocks(0, self.X.shape[0], n_rows):
            features = dense(forward(self.feature_map, self.X[block]))
            yield block, cast(Array, features.astype(np.float64, copy=False))
