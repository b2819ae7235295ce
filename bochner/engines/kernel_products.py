"""Products with a kernel matrix between rows and centres, there and back, kept in memory or made anew in every pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import device

from bochner.arrays import Array, double, gpu_of, is_foreign, namespace
from bochner.engines.devices import free_room
from bochner.engines.passes import sum_in_order
from bochner.features import CentreKernels
from bochner.memory import as_bytes
from bochner.threads import map_blocks, row_blocks

TILE_BYTES = 2**20
"""Size of what is multiplied at a time on the CPU, in float64: on the way back it comes out of a core's own cache."""
TILES_A_BLOCK = 8
"""Tiles that one thread takes."""
SMALL_PRODUCT, FEW_COLUMNS = 10**6, 16
"""Products of this many multiplications or fewer are made by OpenBLAS without a copy of the factors in another order, which
would take most of the time where the second one has few columns."""
ONE_BY_ONE = 3
"""Columns up to which OpenBLAS is faster with each of them by itself."""
DEVICE_BLOCK_BYTES = 2**29
LEAST_ROWS = 8


@dataclass(frozen=True)
class Stretch:
    """Some rows of one table, and where they are among the rows of all tables of a pass."""

    table: int
    rows: slice
    among: slice


class KernelProducts:
    """Products with K = k(X, C) (n, M) for several tables of rows X and the centres C of a map.

    K is kept in the floating type ``kept``, or made anew from the rows in every pass (None). Products are taken in
    float64, and sums over rows in the order of the rows: on the CPU they have the same bits for any number of threads.
    """

    def __init__(self, kernels: CentreKernels, tables: Sequence[Array], kept: Any = None) -> None:
        self._tables = list(tables)
        self._kernels = kernels.place(self._tables[0])
        self._foreign = is_foreign(self._tables[0])
        self._kept = None if kept is None else [self._make(X, np.dtype(kept)) for X in self._tables]

    @property
    def n_centres(self) -> int:
        """M."""
        return self._kernels.n_features

    def there(self, some: Sequence[int], dual: Array) -> Array:
        """K dual for the rows of some tables, one under the other, and dual (M, k) in float64: (n, k)."""
        xp = namespace(dual)

        def of_block(tiles: list[Stretch]) -> Array:
            return xp.concat([_product(self._block(tile), dual) for tile in tiles], axis=0)

        return xp.concat(list(self._map(of_block, some, dual.shape[1])), axis=0)

    def back(self, some: Sequence[int], values: Array) -> Array:
        """K' values for values (n, k) in float64, of the rows of some tables: (M, k)."""
        return self._sum(lambda tile: _product(self._block(tile).T, values[tile.among, :]), some, values.shape[1])

    def there_and_back(self, some: Sequence[int], dual: Array, between: Callable[..., Array], *rows: Array) -> Array:
        """K' between(K dual, *rows) for dual (M, k), block by block of ``rows``, arrays (n, ...), in one pass: (M, k)."""

        def of_tile(tile: Stretch) -> Array:
            values = self._block(tile)
            return _product(values.T, between(_product(values, dual), *(each[tile.among] for each in rows)))

        return self._sum(of_tile, some, dual.shape[1])

    def _sum(self, function: Callable[[Stretch], Array], some: Sequence[int], n_columns: int) -> Array:
        """The sum of a function of all tiles, first within each block."""

        def of_block(tiles: list[Stretch]) -> Array:
            total = function(tiles[0])
            for tile in tiles[1:]:
                total += function(tile)
            return total

        return sum_in_order(self._map(of_block, some, n_columns))

    def _map(self, function: Callable[[list[Stretch]], Array], some: Sequence[int], n_columns: int) -> Any:
        """A function of the tiles of each block, block after block of some tables."""
        size, blocks, start = self._tile_rows(n_columns), [], 0
        for k in some:
            n = self._tables[k].shape[0]
            for block in row_blocks(0, n, size * (1 if self._foreign else TILES_A_BLOCK)):
                tiles = row_blocks(block.start, block.stop, size)
                blocks.append([Stretch(k, rows, slice(start + rows.start, start + rows.stop)) for rows in tiles])
            start += n
        return (function(tiles) for tiles in blocks) if self._foreign else map_blocks(function, blocks)

    def _tile_rows(self, n_columns: int) -> int:
        """Rows of a tile that is multiplied by this many columns."""
        numbers = (DEVICE_BLOCK_BYTES if self._foreign else TILE_BYTES) // 8
        if not self._foreign and 1 < n_columns <= FEW_COLUMNS:
            numbers = min(numbers, SMALL_PRODUCT // n_columns)
        return max(LEAST_ROWS, numbers // self.n_centres)

    def _block(self, stretch: Stretch) -> Array:
        """Values of the kernel of some rows, in float64."""
        if self._kept is not None:
            return double(self._kept[stretch.table][stretch.rows])
        X = self._tables[stretch.table]
        return double(self._kernels.forward(X[stretch.rows, :] if self._foreign else X[stretch.rows]))

    def _make(self, X: Array, dtype: np.dtype[Any]) -> Array:
        """K of one table."""
        shape = X.shape[0], self.n_centres
        if self._foreign:
            xp = namespace(X)
            out = xp.empty(shape, dtype=getattr(xp, dtype.name), device=device(X))
            for rows in row_blocks(0, shape[0], max(LEAST_ROWS, DEVICE_BLOCK_BYTES // (8 * self._kernels.widest))):
                self._kernels.forward(X[rows, :], out=out[rows, :])
            return out
        out = np.empty(shape, dtype=dtype)
        blocks = row_blocks(0, shape[0], max(LEAST_ROWS, TILES_A_BLOCK * TILE_BYTES // (8 * self.n_centres)))
        for _ in map_blocks(lambda rows: self._kernels.forward(X[rows], out=out[rows]), blocks):
            pass
        return out


def _product(matrix: Array, columns: Array) -> Array:
    """The matrix times some columns."""
    if is_foreign(matrix) or not 1 < columns.shape[1] <= ONE_BY_ONE:
        return matrix @ columns
    result = np.empty((matrix.shape[0], columns.shape[1]), order="F")
    for j in range(columns.shape[1]):
        np.matmul(matrix, columns[:, j], out=result[:, j])
    return result


def room_for_values(like: Array, budget: Any = None) -> float:
    """Bytes that a kernel matrix may take where the rows ``like`` are: ``budget``, or a share of what is free there."""
    gpu = gpu_of(like)
    return as_bytes(budget) if budget is not None or gpu is None else free_room(gpu)
