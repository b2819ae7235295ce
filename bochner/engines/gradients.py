"""Gradients of a fitted function in its rows, and the average of their outer products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from bochner.arrays import Array, double, fetch64, is_foreign, namespace, place
from bochner.engines.passes import sum_in_order
from bochner.features import FeatureMap
from bochner.threads import map_blocks, row_blocks

HOST_BLOCK_BYTES = 2**22
"""Size of the widest temporary of a block of rows on the CPU: kernels are prepared once a block."""
DEVICE_BLOCK_BYTES = 2**29


class DifferentiableMap(FeatureMap, Protocol):
    """A feature map with a gradient in its rows."""

    def gradient_of(self, coef: Array) -> Callable[[Array], Array]:
        """The gradient of phi(x) . coef in x, for coef (d, c), as a function of rows (n, m): (n, m, c)."""


def gradients(feature_map: DifferentiableMap, X: Array, coef: Array) -> Array:
    """The gradient of phi(x) . coef in x at each row of X (n, m), for coef (d, c): (n, m, c), where X is."""
    gradient = feature_map.place(X).gradient_of(coef)
    blocks = _blocks(feature_map, X, coef.shape[1])
    if is_foreign(X):
        return namespace(X).concat([gradient(X[block, :]) for block in blocks], axis=0)
    return np.concatenate(list(map_blocks(lambda block: gradient(X[block]), blocks)))


def outer_product(feature_map: DifferentiableMap, X: Array, coef: Array, weights: Array | None = None) -> Array:
    """(1/W) sum_i w_i sum_k g_ik g_ik', g_ik the gradient of phi(x) . coef_k at row x_i: (m, m) in float64, on the host.

    X (n, m) are rows, coef (d, c) the coefficients of c functions, weights (n,) those of the rows (all one: None), W their
    sum. Blocks are added in the order of the rows.
    """
    gradient = feature_map.place(X).gradient_of(coef)
    weights = np.ones(X.shape[0]) if weights is None else weights
    roots = place(np.sqrt(fetch64(weights)), like=double(X[:0, :] if is_foreign(X) else np.empty(0)))

    def of_block(block: slice) -> Array:
        some = double(gradient(X[block, :] if is_foreign(X) else X[block])) * roots[block][:, None, None]
        xp = namespace(some)
        flat = xp.reshape(xp.permute_dims(some, (1, 0, 2)), (some.shape[1], -1))
        return flat @ flat.T

    blocks = _blocks(feature_map, X, coef.shape[1])
    total = sum_in_order((of_block(block) for block in blocks) if is_foreign(X) else map_blocks(of_block, blocks))
    return fetch64(total) / float(np.sum(fetch64(weights)))


def _blocks(feature_map: FeatureMap, X: Array, n_targets: int) -> list[slice]:
    """Blocks of rows whose widest temporary has a fixed size."""
    widest = max(feature_map.widest, X.shape[1] * n_targets)
    return row_blocks(0, X.shape[0], max(16, (DEVICE_BLOCK_BYTES if is_foreign(X) else HOST_BLOCK_BYTES) // (8 * widest)))
