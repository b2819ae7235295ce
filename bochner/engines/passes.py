"""Passes of a feature map over rows, in blocks.

All of them go wherever the rows live: NumPy and sparse rows in tiles on all cores, those of other libraries (tensors on a
device) in large blocks, one after the other. Between such blocks nothing is brought to the host, so that none of them waits.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from typing import TypeVar

import numpy as np
from array_api_compat import device
from scipy import linalg, sparse

from bochner.arrays import Array, dense, double, dtype_of, fetch, host_view, is_foreign, namespace, place
from bochner.engines.threads import map_blocks, row_blocks
from bochner.features import FeatureGradient, FeatureMap
from bochner.folds import FoldedRows, RemoteFolds, Rows
from bochner.statistics import Moments, MomentSum

T = TypeVar("T")

TILE_BYTES = 2**20
"""Size of the temporaries of one step on the CPU: about a core's own cache."""
TILES_A_BLOCK = 8
DEVICE_BLOCK_BYTES = 2**28
"""Size of the temporaries of one block for arrays of other libraries, whose operations are parallel inside."""
DEVICE_SINGLE_ROWS = 4096
"""Most rows of such a block of float32 that is summed over its rows: within a block in float32, over blocks in float64."""
MOMENT_BLOCK_BYTES = 2**24
"""Size of a block of features whose moments are taken."""


def forward(feature_map: FeatureMap, X: Array) -> Array:
    """Features (n, d) of all rows of X (n, m): in the namespace and dtype of X; sparse where the map keeps sparsity."""
    host = host_view(X) if is_foreign(X) else None
    if host is not None:
        return place(forward(feature_map, host), like=X)
    placed = feature_map.place(X)
    if is_foreign(X):
        parts = [placed.forward(X[block, :]) for block in row_blocks(0, X.shape[0], _device_rows(placed))]
        return parts[0] if len(parts) == 1 else namespace(X).concat(parts, axis=0)
    return _forward_host(placed, X)


def _forward_host(placed: FeatureMap, X: Array, out: Array | None = None) -> Array:
    """Features (n, d) of NumPy or sparse rows, written to ``out`` unless they are sparse."""
    tile = _tile_rows(placed, X)
    blocks = row_blocks(0, X.shape[0], TILES_A_BLOCK * tile)
    if sparse.issparse(X) and sparse.issparse(placed.forward(X[:1])):
        return sparse.vstack(list(map_blocks(lambda block: placed.forward(X[block]), blocks)), format="csr")
    out = np.empty((X.shape[0], placed.n_features), dtype=X.dtype) if out is None else out

    lend = _lender(lambda: placed.scratch(tile, like=X))

    def write(block: slice) -> None:
        with lend() as scratch:
            for rows in row_blocks(block.start, block.stop, tile):
                placed.forward(X[rows], out=out[rows], scratch=scratch)

    for _ in map_blocks(write, blocks):
        pass
    return out


def adjoint(feature_map: FeatureMap, X: Array, G: Array) -> FeatureGradient:
    """Gradient of <Phi(X), G> for G (n, d) over all rows, summed in float64 in the order of the rows."""
    placed = feature_map.place(X)
    if is_foreign(X):
        blocks = row_blocks(0, X.shape[0], _summed_rows(placed, X))
        return sum_in_order(placed.local_adjoint(X[block, :], G[block, :]) for block in blocks).on_host()
    blocks = row_blocks(0, X.shape[0], TILES_A_BLOCK * _tile_rows(placed, X))
    return sum_in_order(map_blocks(lambda block: placed.adjoint(X[block, :], G[block, :]), blocks))


def predict(feature_map: FeatureMap, X: Array, coef: Array, intercept: Array) -> Array:
    """phi(x) . coef + intercept for all rows of X (n, m), coef (d, c): (n, c); features live for one tile of rows."""
    placed = feature_map.place(X)
    coef, intercept = place(coef, like=X), place(intercept, like=X)
    if is_foreign(X):
        blocks = row_blocks(0, X.shape[0], _device_rows(placed))
        return namespace(X).concat([placed.forward(X[block, :]) @ coef + intercept for block in blocks], axis=0)
    tile = _tile_rows(placed, X)
    out = np.empty((X.shape[0], coef.shape[1]), dtype=X.dtype)

    lend = _lender(lambda: (placed.scratch(tile, like=X), np.empty((tile, placed.n_features), dtype=X.dtype)))

    def write(block: slice) -> None:
        with lend() as (scratch, features):
            for rows in row_blocks(block.start, block.stop, tile):
                some = features[: rows.stop - rows.start]
                out[rows] = placed.forward(X[rows], out=some, scratch=scratch) @ coef + intercept

    for _ in map_blocks(write, row_blocks(0, X.shape[0], TILES_A_BLOCK * tile)):
        pass
    return out


def quadratic_form(feature_map: FeatureMap, X: Array, triangle: Array, mean: Array) -> Array:
    """|L^-1 (phi(x) - mean)|^2 for all rows of X (n, m), L the lower ``triangle`` (d, d) in float64: (n,)."""
    placed = feature_map.place(X)
    if is_foreign(X):
        return namespace(X).concat(list(_device_quadratic_form(placed, X, triangle, mean)))
    blocks = row_blocks(0, X.shape[0], max(256, MOMENT_BLOCK_BYTES // (8 * feature_map.n_features)))
    parts = []
    for block in blocks:
        deviations = dense(_forward_host(placed, X[block])).astype(np.float64) - mean
        parts.append(np.sum(linalg.solve_triangular(triangle, deviations.T, lower=True, check_finite=False) ** 2, axis=0))
    return np.concatenate(parts)


def _device_quadratic_form(placed: FeatureMap, X: Array, triangle: Array, mean: Array) -> Iterator[Array]:
    """The same, block after block of rows that are not NumPy's."""
    xp = namespace(X)
    triangle, mean = place(triangle, like=double(X[:0, :])), place(mean, like=double(X[:0, :]))
    for block in row_blocks(0, X.shape[0], _device_rows(placed)):
        deviations = double(placed.forward(X[block, :])) - mean
        yield xp.sum(xp.linalg.solve_triangular(triangle, deviations.T, upper=False) ** 2, axis=0)


def moments(feature_map: FeatureMap, X: Array, targets: Array, weights: Array) -> Moments:
    """Moments of the features of X (n, m) with targets (n, c) and weights (n,), one block of features at a time."""
    total = MomentSum(feature_map.n_features, targets.shape[1], like=X)
    _add_moments(total, feature_map.place(X), Rows(X, targets, weights))
    return total.moments()


def _add_moments(total: MomentSum, placed: FeatureMap, rows: Rows) -> None:
    """Add the moments of rows to a sum."""
    if is_foreign(rows.X):
        for block, features in _device_features(placed, rows.X):
            total.add(features, rows.targets[block], rows.weights[block])
        return
    n_rows = max(512, MOMENT_BLOCK_BYTES // (8 * placed.n_features))
    buffer = np.empty((min(n_rows, rows.n), placed.n_features), dtype=rows.X.dtype)
    for block in row_blocks(0, rows.n, n_rows):
        features = _forward_host(placed, rows.X[block], buffer[: block.stop - block.start])
        total.add(dense(features), rows.targets[block], rows.weights[block])


def fold_moments(feature_map: FeatureMap, folds: FoldedRows) -> list[Moments]:
    """Moments of every part of some rows, in one pass over all of them."""
    of_chunks = partial(_chunk_moments, feature_map, folds.n_parts)
    return folds.map_reduce(of_chunks, _add_each) if isinstance(folds, RemoteFolds) else of_chunks(folds.chunks())


def _chunk_moments(feature_map: FeatureMap, n_parts: int, chunks: Iterable[tuple[int, Rows]]) -> list[Moments]:
    """Moments of every part, from chunks of them."""
    sums: dict[int, MomentSum] = {}
    for k, rows in chunks:
        if not sums:  # all rows are alike, and the first of them say where that is
            feature_map = feature_map.place(rows.X)
            size = feature_map.n_features, rows.targets.shape[1]
            sums = {k: MomentSum(*size, like=rows.X) for k in range(n_parts)}
        _add_moments(sums[k], feature_map, rows)
    return [total.moments() for total in sums.values()]


def _add_each(some: list[Moments], others: list[Moments]) -> list[Moments]:
    """The moments of every part of two sets of rows."""
    return list(map(operator.add, some, others))


def pull_back_folds(
    feature_map: FeatureMap, folds: FoldedRows, gradient_of: Callable[[int, Rows, Array], Array]
) -> FeatureGradient:
    """Gradient in the map of a function of all features, given ``gradient_of(part, rows, features)`` in some of them."""
    of_chunks = partial(_pull_back_chunks, feature_map, gradient_of)
    return folds.map_reduce(of_chunks, operator.add) if isinstance(folds, RemoteFolds) else of_chunks(folds.chunks())


def _pull_back_chunks(
    feature_map: FeatureMap, gradient_of: Callable[[int, Rows, Array], Array], chunks: Iterable[tuple[int, Rows]]
) -> FeatureGradient:
    """The same from chunks of the parts."""

    def of_chunk(placed: FeatureMap, k: int, rows: Rows) -> FeatureGradient:
        return _pull_back(placed, rows.X, lambda block, features: gradient_of(k, rows.take(block), features))

    def each() -> Generator[FeatureGradient, None, None]:
        placed = None
        for k, rows in chunks:
            placed = feature_map.place(rows.X) if placed is None else placed
            yield of_chunk(placed, k, rows)

    return sum_in_order(each()).on_host()


def pull_back(feature_map: FeatureMap, X: Array, gradient_of: Callable[[slice, Array], Array]) -> FeatureGradient:
    """Gradient in the map of a function of the features, given ``gradient_of(block, features)`` in a block of them."""
    return _pull_back(feature_map.place(X), X, gradient_of).on_host()


def _pull_back(placed: FeatureMap, X: Array, gradient_of: Callable[[slice, Array], Array]) -> FeatureGradient:
    """The same in arrays that stay where the rows are."""

    def gradient(block: slice, features: Array) -> FeatureGradient:
        return placed.local_adjoint(X[block], gradient_of(block, features), features=features)

    if is_foreign(X):
        return sum_in_order(gradient(block, features) for block, features in _device_features(placed, X))
    blocks = row_blocks(0, X.shape[0], _tile_rows(placed, X))
    return sum_in_order(map_blocks(lambda block: gradient(block, placed.forward(X[block])), blocks))


def _device_features(placed: FeatureMap, X: Array) -> Iterator[tuple[slice, Array]]:
    """Blocks of rows that are not NumPy's, and their features, which the next ones overwrite."""
    n_rows = max(1, min(_summed_rows(placed, X), X.shape[0]))
    buffer = namespace(X).empty((n_rows, placed.n_features), dtype=X.dtype, device=device(X))
    for block in row_blocks(0, X.shape[0], n_rows):
        yield block, placed.forward(X[block, :], out=buffer[: block.stop - block.start, :])


def predict_folds(feature_map: FeatureMap, folds: FoldedRows, models: dict[int, tuple[Array, Array]]) -> dict[int, Array]:
    """Predictions (n, c), on the host, of each part that has a model: coefficients (d, c) and intercept (c,)."""
    parts: dict[int, list[Array]] = {k: [] for k in models}
    for k, rows in folds.chunks():
        if k in models:
            parts[k].append(fetch(predict(feature_map, rows.X, *models[k])))
    return {k: np.concatenate(predictions) for k, predictions in parts.items()}


def sum_in_order(parts: Generator[T, None, None]) -> T:
    """The sum of ``parts`` from first to last; whatever they hold is let go of, also where an addition fails."""
    with closing(parts):
        return functools.reduce(operator.add, parts)


def _lender(make: Callable[[], T]) -> Callable[[], AbstractContextManager[T]]:
    """A context that lends something to one thread at a time and makes a new one only where none is free."""
    free: deque[T] = deque()

    @contextmanager
    def lend() -> Iterator[T]:
        try:
            item = free.pop()
        except IndexError:
            item = make()
        yield item
        free.append(item)

    return lend


def _tile_rows(feature_map: FeatureMap, X: Array) -> int:
    return max(16, TILE_BYTES // (feature_map.widest * X.dtype.itemsize))


def _device_rows(feature_map: FeatureMap) -> int:
    return max(16, DEVICE_BLOCK_BYTES // (8 * max(feature_map.widest, feature_map.n_features)))


def _summed_rows(feature_map: FeatureMap, X: Array) -> int:
    return min(_device_rows(feature_map), DEVICE_SINGLE_ROWS if dtype_of(X) == np.float32 else sys.maxsize)
