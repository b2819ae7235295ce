"""Passes of a feature map over rows: forward and adjoint, in blocks, wherever the rows live."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from bochner.arrays import Array, is_foreign, namespace
from bochner.engines.threads import map_blocks, row_blocks
from bochner.features import FeatureGradient, FeatureMap

TILE_BYTES = 2**20
"""Size of the temporaries of one step on the CPU: about a core's own cache."""
TILES_A_BLOCK = 8
DEVICE_BLOCK_BYTES = 2**28
"""Size of the temporaries of one block for arrays of other libraries, whose operations are parallel inside."""


def forward(feature_map: FeatureMap, X: Array) -> Array:
    """Features (n, d) of all rows of X (n, m): in the namespace and dtype of X; sparse where the map keeps sparsity."""
    placed = feature_map.place(X)
    if is_foreign(X):
        parts = [placed.forward(X[block, :]) for block in row_blocks(X.shape[0], _device_rows(placed))]
        return parts[0] if len(parts) == 1 else namespace(X).concat(parts, axis=0)
    tile = _tile_rows(placed, X)
    blocks = row_blocks(X.shape[0], TILES_A_BLOCK * tile)
    if sparse.issparse(X) and sparse.issparse(placed.forward(X[:1])):
        return sparse.vstack(list(map_blocks(lambda block: placed.forward(X[block]), blocks)), format="csr")
    out = np.empty((X.shape[0], placed.n_features), dtype=X.dtype)

    def write(block: slice) -> None:
        for start in range(block.start, block.stop, tile):
            rows = slice(start, min(start + tile, block.stop))
            placed.forward(X[rows], out=out[rows])

    for _ in map_blocks(write, blocks):
        pass
    return out


def adjoint(feature_map: FeatureMap, X: Array, G: Array) -> FeatureGradient:
    """Gradient of <Phi(X), G> for G (n, d) over all rows, summed in float64 in the order of the rows."""
    placed = feature_map.place(X)
    rows = _device_rows(placed) if is_foreign(X) else TILES_A_BLOCK * _tile_rows(placed, X)
    blocks = row_blocks(X.shape[0], rows)

    def gradient(block: slice) -> FeatureGradient:
        return placed.adjoint(X[block], G[block])

    results = map(gradient, blocks) if is_foreign(X) else map_blocks(gradient, blocks)
    total = next(iter_results := iter(results))
    for part in iter_results:
        total = total + part
    return total


def _tile_rows(feature_map: FeatureMap, X: Array) -> int:
    return max(16, TILE_BYTES // (feature_map.widest * X.dtype.itemsize))


def _device_rows(feature_map: FeatureMap) -> int:
    return max(16, DEVICE_BLOCK_BYTES // (8 * feature_map.widest))
