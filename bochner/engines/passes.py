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
from typing import Protocol, TypeVar

import numpy as np
from array_api_compat import device
from scipy import sparse

from bochner.arrays import Array, dense, double, dtype_of, fetch, host_view, is_foreign, namespace, place, solve_rows
from bochner.blas import same_bits
from bochner.engines.smaller_blocks import each_block
from bochner.errors import InputError
from bochner.features import FEW_ROWS, FeatureGradient, FeatureMap
from bochner.folds import FoldedRows, RemoteFolds, Rows, RunningSums, stretches
from bochner.statistics import Moments, MomentSum
from bochner.threads import map_blocks, row_blocks

S = TypeVar("S", covariant=True)
T = TypeVar("T")

TILE_BYTES = 2**20
"""Size of the temporaries of one step on the CPU: about a core's own cache."""
TILES_A_BLOCK = 8
DEVICE_BLOCK_BYTES = 2**30
"""Size of the temporaries of one block for arrays of other libraries: a GPU computes on it while the next one is told."""
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
        parts = [part for _, part in each_block(X.shape[0], _device_rows(placed), lambda block: placed.forward(X[block, :]))]
        return parts[0] if len(parts) == 1 else namespace(X).concat(parts, axis=0)
    return _forward_host(placed, X)


def _forward_host(placed: FeatureMap, X: Array, out: Array | None = None) -> Array:
    """Features (n, d) of NumPy or sparse rows, written to ``out`` unless they are sparse."""
    tile = _tile_rows(placed, X)
    blocks = row_blocks(0, X.shape[0], _block_rows(placed, X))
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
        each = each_block(X.shape[0], _summed_rows(placed, X), lambda some: placed.local_adjoint(X[some, :], G[some, :]))
        return sum_in_order(part for _, part in each).on_host()
    blocks = row_blocks(0, X.shape[0], _block_rows(placed, X))
    return sum_in_order(map_blocks(lambda block: placed.adjoint(X[block, :], G[block, :]), blocks))


def predict(feature_map: FeatureMap, X: Array, coef: Array, intercept: Array) -> Array:
    """phi(x) . coef + intercept for all rows of X (n, m), coef (d, c): (n, c); features live for one tile of rows."""
    placed = feature_map.place(X)
    coef, intercept = place(coef, like=X), place(intercept, like=X)
    if is_foreign(X):
        each = each_block(X.shape[0], _device_rows(placed), lambda rows: placed.forward(X[rows, :]) @ coef + intercept)
        return namespace(X).concat([part for _, part in each], axis=0)
    tile = _tile_rows(placed, X)
    out = np.empty((X.shape[0], coef.shape[1]), dtype=X.dtype)

    lend = _lender(lambda: (placed.scratch(tile, like=X), np.empty((tile, placed.n_features), dtype=X.dtype)))

    def write(block: slice) -> None:
        with lend() as (scratch, features):
            for rows in row_blocks(block.start, block.stop, tile):
                some = features[: rows.stop - rows.start]
                out[rows] = placed.forward(X[rows], out=some, scratch=scratch) @ coef + intercept

    for _ in map_blocks(write, row_blocks(0, X.shape[0], _block_rows(placed, X))):
        pass
    return out


def squared_lengths(feature_map: FeatureMap, X: Array) -> Array:
    """|phi(x)|^2 for all rows of X (n, m), NumPy or sparse: (n,), in float64."""
    placed = feature_map.place(X)
    blocks = row_blocks(0, X.shape[0], max(256, MOMENT_BLOCK_BYTES // (8 * feature_map.n_features)))
    return np.concatenate(
        [np.sum(dense(_forward_host(placed, X[block])).astype(np.float64) ** 2, axis=1) for block in blocks]
    )


def quadratic_form(feature_map: FeatureMap, X: Array, triangle: Array, mean: Array) -> Array:
    """|L^-1 (phi(x) - mean)|^2 for all rows of X (n, m), L the lower ``triangle`` (d, d) in float64: (n,)."""
    placed = feature_map.place(X)
    if is_foreign(X):
        return namespace(X).concat(list(_device_quadratic_form(placed, X, triangle, mean)))
    blocks = row_blocks(0, X.shape[0], max(256, MOMENT_BLOCK_BYTES // (8 * feature_map.n_features)))
    parts = []
    for block in blocks:
        deviations = dense(_forward_host(placed, X[block])).astype(np.float64) - mean
        parts.append(np.sum(solve_rows(deviations, triangle, out=deviations) ** 2, axis=1))
    return np.concatenate(parts)


def _device_quadratic_form(placed: FeatureMap, X: Array, triangle: Array, mean: Array) -> Iterator[Array]:
    """The same, block after block of rows that are not NumPy's."""
    xp = namespace(X)
    triangle, mean = place(triangle, like=double(X[:0, :])), place(mean, like=double(X[:0, :]))

    def form(block: slice) -> Array:
        deviations = double(placed.forward(X[block, :])) - mean
        return xp.sum(xp.linalg.solve_triangular(triangle, deviations.T, upper=False) ** 2, axis=0)

    yield from (part for _, part in each_block(X.shape[0], _device_rows(placed), form))


def moments(feature_map: FeatureMap, X: Array, targets: Array, weights: Array) -> Moments:
    """Moments of the features of X (n, m) with targets (n, c) and weights (n,), one block of features at a time."""
    total = MomentSum(feature_map.n_features, targets.shape[1], like=X)
    with same_bits():
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


def fold_moments(feature_map: FeatureMap, folds: FoldedRows, kept: dict[int, Array] | None = None) -> list[Moments]:
    """Moments of every part of some rows, in one pass over all of them.

    ``kept``, of rows all on a device, takes the features of parts that make a single block together, for a
    :func:`pull_back_folds`.
    """
    make = partial(PartMoments, feature_map, folds.n_targets, folds.n_parts)
    if isinstance(folds, RemoteFolds):
        return folds.map_reduce(partial(_sum_of_chunks, make), _add_each)
    return _sum_of_folds(partial(make, kept), folds)


class PassSums(RunningSums, Protocol[S]):
    """Sums over the chunks of a pass, and what they come to."""

    def add(self, k: int, rows: Rows) -> None:
        """Some rows of part ``k``."""

    def total(self) -> S:
        """What the sums come to; nothing may be added after that."""


def _sum_of_folds(make: Callable[[], PassSums[S]], folds: FoldedRows) -> S:
    """The sum over all rows of folds that are brought here; the sums may be saved on the way."""
    sums = make()
    with same_bits(), closing(stretches(folds, sums)) as each:
        for chunks in each:
            for k, rows in chunks:
                sums.add(k, rows)
    return sums.total()


def _sum_of_chunks(make: Callable[[], PassSums[S]], chunks: Iterable[tuple[int, Rows]]) -> S:
    """The sum over some chunks."""
    sums = make()
    for k, rows in chunks:
        sums.add(k, rows)
    return sums.total()


class PartMoments:
    """Moments of all parts of some rows, on their way."""

    name = "moments"

    def __init__(self, feature_map: FeatureMap, n_targets: int, n_parts: int, kept: dict[int, Array] | None = None) -> None:
        self._map, self._n_targets, self._n_parts, self._kept = feature_map, n_targets, n_parts, kept
        self._placed: FeatureMap | None = None
        self._sums: list[MomentSum] = []

    def add(self, k: int, rows: Rows) -> None:
        """Some rows of part ``k``; all rows are alike, and the first of them say where that is."""
        if self._placed is None:
            self._begin(rows.X)
            self._placed = self._map.place(rows.X)
        if self._kept is None or not self._has_room(self._placed, rows):
            _add_moments(self._sums[k], self._placed, rows)
            return
        for block, features in _device_features(self._placed, rows.X):
            if features.shape[0] == rows.n:
                self._kept[k] = namespace(rows.X).asarray(features, copy=True)
            self._sums[k].add(features, rows.targets[block], rows.weights[block])

    def total(self) -> list[Moments]:
        """The moments of each part; nothing may be added after that."""
        return [total.moments() for total in self._sums]

    def state(self) -> dict[str, Array]:
        """The sums so far, in NumPy arrays."""
        return {f"{k}/{name}": value for k, total in enumerate(self._sums) for name, value in total.state().items()}

    def restore(self, state: dict[str, Array]) -> None:
        """Go on from sums that :meth:`state` gave; before any rows are added, those to come are NumPy's."""
        self._begin(None)
        for k, total in enumerate(self._sums):
            total.restore({name.split("/")[1]: value for name, value in state.items() if name.startswith(f"{k}/")})

    def _has_room(self, placed: FeatureMap, rows: Rows) -> bool:
        """Whether the features of a part are a single block, and no more than one with all that are kept."""
        before = sum(features.shape[0] for features in (self._kept or {}).values())
        return 0 < rows.n <= _summed_rows(placed, rows.X) and before + rows.n <= _device_rows(placed)

    def _begin(self, like: Array | None) -> None:
        if not self._sums:
            self._sums = [MomentSum(self._map.n_features, self._n_targets, like=like) for _ in range(self._n_parts)]


def _add_each(some: list[Moments], others: list[Moments]) -> list[Moments]:
    """The moments of every part of two sets of rows."""
    return list(map(operator.add, some, others))


def pull_back_folds(
    feature_map: FeatureMap,
    folds: FoldedRows,
    gradient_of: Callable[[int, Rows, Array], Array],
    kept: dict[int, Array] | None = None,
) -> FeatureGradient:
    """Gradient in the map of a function of all features, given ``gradient_of(part, rows, features)`` in some of them.

    Features of parts that :func:`fold_moments` has ``kept`` are taken from there.
    """
    make = partial(PulledBack, feature_map, gradient_of)
    if isinstance(folds, RemoteFolds):
        return folds.map_reduce(partial(_sum_of_chunks, make), operator.add)
    return _sum_of_folds(partial(make, kept), folds)


class PulledBack:
    """The gradient in a map of a function of all features, on its way."""

    name = "gradient"

    def __init__(
        self,
        feature_map: FeatureMap,
        gradient_of: Callable[[int, Rows, Array], Array],
        kept: dict[int, Array] | None = None,
    ) -> None:
        self._map, self._gradient_of, self._kept = feature_map, gradient_of, kept or {}
        self._placed: FeatureMap | None = None
        self._sum: FeatureGradient | None = None

    def add(self, k: int, rows: Rows) -> None:
        """Some rows of part ``k``."""
        if rows.n == 0:
            return
        self._placed = self._map.place(rows.X) if self._placed is None else self._placed
        features = self._kept.pop(k, None)
        if features is None:
            gradient = _pull_back(self._placed, rows.X, lambda block, some: self._gradient_of(k, rows.take(block), some))
        else:
            gradient = self._placed.local_adjoint(rows.X, self._gradient_of(k, rows, features), features=features)
        self._sum = gradient if self._sum is None else self._sum.beside(gradient) + gradient

    def total(self) -> FeatureGradient:
        """The gradient, its parameters in NumPy arrays."""
        if self._sum is None:
            raise InputError("There are no rows to sum over: at least one is needed, so give a table that has some.")
        return self._sum.named()

    def state(self) -> dict[str, Array]:
        """The sum so far, in NumPy arrays."""
        if self._sum is None:
            return {}
        there = self._sum.on_host()
        frequencies = {} if there.frequencies is None else {"frequencies": there.frequencies}
        return {**{f"parameters/{name}": np.asarray(v) for name, v in there.parameters.items()}, **frequencies}

    def restore(self, state: dict[str, Array]) -> None:
        """Go on from a sum that :meth:`state` gave."""
        parameters = {name.split("/")[1]: value[()] for name, value in state.items() if name != "frequencies"}
        self._sum = FeatureGradient(parameters, state.get("frequencies")) if state else None


def pull_back(feature_map: FeatureMap, X: Array, gradient_of: Callable[[slice, Array], Array]) -> FeatureGradient:
    """Gradient in the map of a function of the features, given ``gradient_of(block, features)`` in a block of them."""
    return _pull_back(feature_map.place(X), X, gradient_of).on_host()


def _pull_back(placed: FeatureMap, X: Array, gradient_of: Callable[[slice, Array], Array]) -> FeatureGradient:
    """The same in arrays that stay where the rows are."""

    def gradient(block: slice, features: Array) -> FeatureGradient:
        return placed.local_adjoint(X[block], gradient_of(block, features), features=features)

    if is_foreign(X):
        each = each_block(X.shape[0], _summed_rows(placed, X), lambda block: gradient(block, placed.forward(X[block, :])))
        return sum_in_order(part for _, part in each)
    blocks = row_blocks(0, X.shape[0], _tile_rows(placed, X))
    return sum_in_order(map_blocks(lambda block: gradient(block, placed.forward(X[block])), blocks))


def _device_features(placed: FeatureMap, X: Array) -> Iterator[tuple[slice, Array]]:
    """Blocks of rows that are not NumPy's, and their features, which the next ones overwrite."""
    n_rows = max(1, min(_summed_rows(placed, X), X.shape[0]))
    buffer: Array = None

    def features(block: slice) -> Array:
        nonlocal buffer
        n = block.stop - block.start
        if buffer is None or 2 * n <= buffer.shape[0] < X.shape[0]:  # the first one, or room for half of it alone
            buffer = None
            buffer = namespace(X).empty((n, placed.n_features), dtype=X.dtype, device=device(X))
        return placed.forward(X[block, :], out=buffer[:n, :])

    yield from each_block(X.shape[0], n_rows, features)


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
    return max(feature_map.least_rows, TILE_BYTES // (feature_map.widest * X.dtype.itemsize))


def _block_rows(feature_map: FeatureMap, X: Array) -> int:
    """Rows that one thread takes: several tiles, where these are small."""
    small = max(FEW_ROWS, TILE_BYTES // (feature_map.widest * X.dtype.itemsize))
    return max(TILES_A_BLOCK * small, _tile_rows(feature_map, X))


def _device_rows(feature_map: FeatureMap) -> int:
    return max(16, DEVICE_BLOCK_BYTES // (8 * max(feature_map.widest, feature_map.n_features)))


def _summed_rows(feature_map: FeatureMap, X: Array) -> int:
    return min(_device_rows(feature_map), DEVICE_SINGLE_ROWS if dtype_of(X) == np.float32 else sys.maxsize)
