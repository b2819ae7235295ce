"""Repeated passes over the features of folded rows that are not in memory: every pass reads the rows and makes them anew.

What is one number for each row, or a few, is here, in the order of a pass; on other machines a pass gets those of its rows.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from bochner.arrays import Array
from bochner.engines.products import Products, TableFeatures, TablePasses
from bochner.features import FeatureMap, StackedMap
from bochner.folds import FoldedRows, RemoteFolds, Rows
from bochner.statistics import Moments


@dataclass(frozen=True)
class RowNumbers:
    """All that is known of the rows of folds but X, in the order of a pass over them."""

    folds: FoldedRows
    parts: Array
    """The part of each row: (n,)."""
    targets: Array
    """(n, c)."""
    weights: Array
    """(n,)."""
    pieces: Array
    """The number of the machine's piece that each row is in, rising: (n,)."""

    @classmethod
    def of(cls, folds: FoldedRows) -> RowNumbers:
        """Those of some folds, in one pass."""
        if isinstance(folds, RemoteFolds):
            found = folds.map_reduce(_numbers, operator.add, beside=list(range(folds.n_pieces)))
        else:
            found = _numbers(folds.chunks(), 0)
        pieces, parts, targets, weights = (np.concatenate(each) for each in zip(*found, strict=True))
        return cls(folds, parts, targets, weights, pieces)

    def among(self, parts: Sequence[int]) -> Array:
        """Which rows are in some of the parts: a mask (n,)."""
        return np.isin(self.parts, parts)


@dataclass(frozen=True)
class FoldRows:
    """Rows of folds by parts, like :class:`bochner.engines.products.TableRows` those in memory."""

    numbers: RowNumbers
    feature_map: FeatureMap

    @property
    def n_features(self) -> int:
        """d."""
        return self.feature_map.n_features

    def passes(self, some: Sequence[int]) -> FoldPasses:
        """Passes there or back."""
        return FoldPasses(self.numbers, self.feature_map, tuple(some))

    def products(self, some: Sequence[int]) -> FoldProducts:
        """Passes there and back."""
        return FoldProducts(self.numbers, self.feature_map, tuple(some))

    def targets(self, some: Sequence[int]) -> Array:
        """(n, c)."""
        return self.numbers.targets[self.numbers.among(some)]

    def weights(self, some: Sequence[int]) -> Array:
        """(n,)."""
        return self.numbers.weights[self.numbers.among(some)]


@dataclass(frozen=True)
class SomeParts:
    """The features Phi (n, d) of some parts of folds."""

    numbers: RowNumbers
    feature_map: FeatureMap
    parts: tuple[int, ...]

    @property
    def n_columns(self) -> int:
        """d."""
        return self.feature_map.n_features

    def sum(self, work: Callable[..., Any], *rows: Array) -> Any:
        """The sum of ``work(table, *rows)`` over the chunks of these parts, ``rows`` (n, ...) being cut like them."""
        folds = self.numbers.folds
        over = partial(_over_chunks, work, self.feature_map, self.parts)
        if not isinstance(folds, RemoteFolds):
            return over(folds.chunks(), rows)
        pieces = self.numbers.pieces[self.numbers.among(self.parts)]
        ends = np.searchsorted(pieces, np.arange(folds.n_pieces), side="right")
        cuts = [slice(start, stop) for start, stop in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)]
        return folds.map_reduce(over, operator.add, beside=[tuple(each[cut] for each in rows) for cut in cuts])


@dataclass(frozen=True)
class FoldProducts(SomeParts):
    """Products with these features and a last column of ones, like :class:`bochner.engines.products.Products`."""

    def there_and_back(self, coef: Array, between: Callable[..., Array], *rows: Array) -> tuple[Array, Array]:
        """[Phi 1]' between([Phi 1] coef, *rows) for coef (d + 1, c), and the scores [Phi 1] coef (n, c), in one pass."""
        found = self.sum(partial(_products, coef, between), *rows)
        return found.totals[0], np.concatenate(found.by_rows)

    def moments(self, weights: Array) -> list[Moments]:
        """Moments of the features, with no targets, under each column of weights (n, k): k of them, in one pass."""
        return cast(list[Moments], self.sum(_moments, weights).totals)


@dataclass(frozen=True)
class FoldPasses(SomeParts):
    """Passes over these features, there or back, like :class:`bochner.engines.products.TablePasses`."""

    def there(self, coef: Array) -> Array:
        """Phi coef for coef (d, k): (n, k)."""
        return np.concatenate(self.sum(partial(_there, coef)))

    def back(self, values: Array) -> Array:
        """Phi' values for values (n, k): (d, k)."""
        return cast(Array, self.sum(_back, values))

    def there_and_back(self, coef: Array, between: Callable[..., Array], *rows: Array) -> Array:
        """Phi' between(Phi coef, *rows) for coef (d, k), block by block of ``rows``, arrays (n, ...), in one pass."""
        return cast(Array, self.sum(partial(_there_and_back, coef, between), *rows))

    def columns(self, used: Array) -> FoldPasses:
        """The same for some of the maps of a StackedMap, a mask (d,) of their features."""
        stacked = cast(StackedMap, self.feature_map)
        fewer = stacked.take(used[[some.start for some in stacked.features]])
        return FoldPasses(self.numbers, fewer, self.parts)


# -- what is done with chunks, wherever they are ---------------------------------------------------------------------------


def _numbers(chunks: Iterable[tuple[int, Rows]], piece: int) -> list[tuple[Array, ...]]:
    """For every chunk: its piece and its part for each of its rows, their targets and weights."""
    return [
        (np.full(rows.n, piece, np.int32), np.full(rows.n, k, np.int16), rows.targets, rows.weights) for k, rows in chunks
    ]


def _over_chunks(
    work: Callable[..., Any],
    feature_map: FeatureMap,
    parts: tuple[int, ...],
    chunks: Iterable[tuple[int, Rows]],
    beside: tuple[Array, ...],
) -> Any:
    """The sum of ``work(table, *rows)`` over the chunks of some parts; None where there are none."""
    start, total = 0, None
    for k, rows in chunks:
        if k in parts:
            some = slice(start, start + rows.n)
            found = work(TableFeatures(feature_map, rows.X), *(each[some] for each in beside))
            start, total = some.stop, found if total is None else total + found
    return total


def _there(coef: Array, table: TableFeatures) -> list[Array]:
    return [TablePasses([table]).there(coef)]


def _back(table: TableFeatures, values: Array) -> Array:
    return TablePasses([table]).back(values)


def _there_and_back(coef: Array, between: Callable[..., Array], table: TableFeatures, *rows: Array) -> Array:
    return TablePasses([table]).there_and_back(coef, between, *rows)


@dataclass(frozen=True)
class _Found:
    """What a pass over some rows comes to: things that add up, and arrays by rows that come one under the other."""

    totals: list[Any]
    by_rows: list[Array]

    def __add__(self, other: _Found) -> _Found:
        return _Found([one + two for one, two in zip(self.totals, other.totals, strict=True)], self.by_rows + other.by_rows)


def _products(coef: Array, between: Callable[..., Array], table: TableFeatures, *rows: Array) -> _Found:
    total, scores = Products([table]).there_and_back(coef, between, *rows)
    return _Found([total], [scores])


def _moments(table: TableFeatures, weights: Array) -> _Found:
    return _Found(list(Products([table]).moments(weights)), [])
