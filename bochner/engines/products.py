"""Repeated passes over the features of the same rows: kept in memory, or made anew for every block of every pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from bochner.arrays import Array, dense, fetch64
from bochner.engines.passes import MOMENT_BLOCK_BYTES, forward, sum_in_order
from bochner.features import FeatureMap, StackedMap
from bochner.folds import Rows
from bochner.statistics import Moments
from bochner.threads import map_blocks, row_blocks

PRODUCT_BLOCK_BYTES = 2**21
"""Size of a block of features that is multiplied from both sides: the second time it comes out of the cache."""


class TableFeatures:
    """The features (n, d) of one table of rows X (n, m): those that are ``kept``, or else made anew from X."""

    def __init__(self, feature_map: FeatureMap, X: Array, kept: Array | None = None) -> None:
        self.n = X.shape[0]
        self.n_features = feature_map.n_features if kept is None else kept.shape[1]
        self._X = X
        self._map = feature_map.place(X)
        self._kept = kept

    def some(self, rows: slice) -> Array:
        """Features (b, d) of some rows, on the thread that asks for them."""
        return self._map.forward(self._X[rows]) if self._kept is None else self._kept[rows]

    def many(self, rows: slice) -> Array:
        """The same on all threads."""
        return forward(self._map, self._X[rows]) if self._kept is None else self._kept[rows]

    def columns(self, used: Array) -> TableFeatures:
        """The features of some maps of a StackedMap, a mask (d,) of their columns: those of the others are not made."""
        if self._kept is not None:
            return self if used.all() else TableFeatures(self._map, self._X, self._kept[:, used])
        stacked = cast(StackedMap, self._map)
        return TableFeatures(stacked.take(used[[some.start for some in stacked.features]]), self._X)


class Products:
    """Products with the features Phi (n, d) of several tables, one under the other, and a last column of ones."""

    def __init__(self, tables: Sequence[TableFeatures]) -> None:
        self._cuts = _cut(tables, PRODUCT_BLOCK_BYTES, at_least=64)
        self._large_cuts = _cut(tables, MOMENT_BLOCK_BYTES, at_least=512)
        self._sources = {block.start: (table, rows) for block, table, rows in self._cuts}

    def there_and_back(self, coef: Array, between: Callable[..., Array], *rows: Array) -> tuple[Array, Array]:
        """[Phi 1]' between([Phi 1] coef, *rows) for coef (d + 1, c), and the scores [Phi 1] coef (n, c), in one pass.

        ``between`` turns the scores (b, c) of a block of rows, and what ``rows`` (n, ...) have of it, into as many numbers.
        """
        scores = np.empty((self._cuts[-1][0].stop, coef.shape[1]))

        def of_block(block: slice) -> Array:
            table, some = self._sources[block.start]
            features = table.some(some)
            scores[block] = features @ coef[:-1] + coef[-1]
            middle = between(scores[block], *(each[block] for each in rows))
            return np.concatenate([features.T @ middle, middle.sum(axis=0, keepdims=True)])

        return sum_in_order(map_blocks(of_block, [block for block, _, _ in self._cuts])), scores

    def moments(self, weights: Array) -> list[Moments]:
        """Moments of the features, with no targets, under each column of weights (n, k): k of them, in one pass."""
        sums: list[Moments] = []
        for block, table, rows in self._large_cuts:
            features = fetch64(dense(table.many(rows)))
            parts = [Moments.of(features, np.empty((len(features), 0)), column) for column in weights[block].T]
            sums = [one + two for one, two in zip(sums, parts, strict=True)] if sums else parts
        return sums


class TablePasses:
    """Passes over the features Phi (n, d) of several tables, one under the other, there or back."""

    def __init__(self, tables: Sequence[TableFeatures]) -> None:
        self._tables = tables
        self._cuts = _cut(tables, MOMENT_BLOCK_BYTES, at_least=512)

    @property
    def n_columns(self) -> int:
        """d."""
        return self._tables[0].n_features

    def there(self, coef: Array) -> Array:
        """Phi coef for coef (d, k): (n, k)."""
        return np.concatenate([fetch64(dense(table.many(rows))) @ coef for _, table, rows in self._cuts])

    def back(self, values: Array) -> Array:
        """Phi' values for values (n, k): (d, k)."""
        total = np.zeros((self.n_columns, values.shape[1]))
        for block, table, rows in self._cuts:
            total += fetch64(dense(table.many(rows))).T @ values[block]
        return total

    def there_and_back(self, coef: Array, between: Callable[..., Array], *rows: Array) -> Array:
        """Phi' between(Phi coef, *rows) for coef (d, k), block by block of ``rows``, arrays (n, ...), in one pass."""
        cuts = _cut(self._tables, PRODUCT_BLOCK_BYTES, at_least=64)
        sources = {block.start: (table, some) for block, table, some in cuts}

        def of_block(block: slice) -> Array:
            table, some = sources[block.start]
            features = table.some(some)
            return features.T @ between(features @ coef, *(each[block] for each in rows))

        return sum_in_order(map_blocks(of_block, [block for block, _, _ in cuts]))

    def columns(self, used: Array) -> TablePasses:
        """The same for some of the features, a mask (d,)."""
        return TablePasses([table.columns(used) for table in self._tables])


class TableRows:
    """Rows in memory by parts: passes over the features of some of them, their targets and their weights."""

    def __init__(self, parts: Sequence[Rows], tables: Sequence[TableFeatures]) -> None:
        self._parts, self._tables = parts, tables

    @property
    def n_features(self) -> int:
        """d."""
        return self._tables[0].n_features

    def passes(self, some: Sequence[int]) -> TablePasses:
        """Passes there or back."""
        return TablePasses([self._tables[k] for k in some])

    def products(self, some: Sequence[int]) -> Products:
        """Passes there and back."""
        return Products([self._tables[k] for k in some])

    def targets(self, some: Sequence[int]) -> Array:
        """(n, c)."""
        return np.concatenate([self._parts[k].targets for k in some])

    def weights(self, some: Sequence[int]) -> Array:
        """(n,)."""
        return np.concatenate([self._parts[k].weights for k in some])


def _cut(tables: Sequence[TableFeatures], block_bytes: int, *, at_least: int) -> list[tuple[slice, TableFeatures, slice]]:
    """Blocks of rows of tables one under the other: which rows of the whole, which table, which rows of it."""
    cuts = []
    start = 0
    for table in tables:
        for rows in row_blocks(0, table.n, max(at_least, block_bytes // (8 * table.n_features))):
            cuts.append((slice(start + rows.start, start + rows.stop), table, rows))
        start += table.n
    return cuts
