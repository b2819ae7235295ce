"""Columns to zero mean and unit spread, and back."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from bochner.arrays import Array, dense, double, dtype_of, fetch, fetch64, namespace, place
from bochner.errors import InputError
from bochner.threads import map_blocks, row_blocks

SMALLEST, LARGEST = 1e-290, 1e307
"""Spreads below count as zero, since their reciprocals, in which scales of kernels are given, would overflow; of columns
with larger numbers the squared deviations would, and they are refused."""
FAINT = 2.0**-963
"""The unit of targets none of which is beyond SMALLEST: divided by it, to the last bit, they and what is computed with them
keep the digits that numbers near the end of their range do not have."""
ROUNDING = 1e-12
"""Spreads below this part of the largest number may be what rounding leaves of constant columns."""
SAFE_IN_FLOAT32 = 1e-8, 1e37
"""Between them centres and spreads can be taken off and divided by in float32, for rows up to 1e30."""
FARTHEST, FARTHEST_IN_FLOAT32 = 1e250, 1e15
"""Standardised rows farther away than this are put there: their products with frequencies are numbers."""
BLOCK_ENTRIES = 2**17
"""Entries of rows that are summed at a time, few enough for the cache of a core."""


class ColumnSums:
    """Weighted means and variances of columns in the making, block after block, with their smallest and largest entries.

    Blocks are joined by their means and the squares around them, which loses no digits where means are large.
    """

    def __init__(self, n_columns: int) -> None:
        self.weight = 0.0
        self.mean = np.zeros(n_columns)
        self._squares = np.zeros(n_columns)
        """Sums of squares around the means, in units of the largest values, so that those of 1e200 do not overflow."""
        self.smallest = np.inf
        self.largest = np.zeros(n_columns)
        """Largest absolute value of each column."""

    def add(self, X: Array, weights: Array) -> None:
        """One more block: rows (b, m), dense or sparse, and weights (b,). Rows of weight zero count for nothing."""
        if not weights.all():
            X, weights = X[weights > 0], weights[weights > 0]
        weight = float(weights.sum())
        if weight == 0:
            return
        largest = np.maximum(self.largest, _largest(X))
        unit, share = _unit(largest), weights / weight
        if sparse.issparse(X):
            scaled = X.astype(np.float64) @ sparse.diags_array(1 / unit)
            mean = (scaled.T @ share) * unit
            squares = np.maximum(scaled.multiply(scaled).T @ share - (mean / unit) ** 2, 0)
        else:
            deviation = np.divide(fetch64(X), unit, order="C")  # the same bits for rows in any order of memory
            mean = (share @ deviation) * unit
            deviation -= mean / unit
            squares = share @ np.square(deviation, out=deviation)
        self._join(weight, mean, weight * squares, largest)
        self.smallest = min(self.smallest, float(X.min()))

    def __add__(self, other: ColumnSums) -> ColumnSums:
        """The sums over the rows of both."""
        total = copy(self)
        if other.weight > 0:
            largest = np.maximum(self.largest, other.largest)
            total._join(other.weight, other.mean, other._squares * (other.largest / _unit(largest)) ** 2, largest)
        total.smallest = min(self.smallest, other.smallest)
        return total

    def _join(self, weight: float, mean: Array, squares: Array, largest: Array) -> None:
        """Further rows: their weight, means, and sums of squares in units of the ``largest`` values of old and new."""
        unit, total = _unit(largest), self.weight + weight
        with np.errstate(over="ignore", invalid="ignore"):  # numbers so large are refused by those who ask for a spread
            difference = mean - self.mean
            self.mean = self.mean + difference * (weight / total)
            joined = (difference / unit) ** 2 * (self.weight * (weight / total))
            self._squares = self._squares * (self.largest / unit) ** 2 + squares + joined
        self.weight = total
        self.largest = largest

    def state(self) -> dict[str, Array]:
        """The sums so far, to go on from with :meth:`restore`."""
        return {name: np.asarray(value) for name, value in vars(self).items()}

    def restore(self, state: dict[str, Array]) -> None:
        """Take over sums of as many columns."""
        vars(self).update({name: value if value.ndim else float(value) for name, value in state.items()})

    @property
    def spread(self) -> Array:
        """Standard deviations of the columns: (m,)."""
        return np.sqrt(self._squares / self.weight) * _unit(self.largest)


@dataclass(frozen=True)
class Standardiser:
    """x -> (x - centre) / spread, column by column.

    That of sparse rows has a centre of zero, so that they stay sparse; with another centre, sparse rows become dense.
    """

    centre: Array
    spread: Array

    @classmethod
    def of(cls, X: Array, weights: Array) -> Standardiser:
        """Weighted mean and standard deviation of the columns of X (n, m).

        Constant columns keep a spread of one, or of what rounding may leave of them where that is larger.
        """
        return cls.of_sums(column_sums(X, weights), centred=not sparse.issparse(X))

    @classmethod
    def of_sums(cls, sums: ColumnSums, *, centred: bool = True) -> Standardiser:
        """The same from sums over the rows; not ``centred`` for sparse rows."""
        share = ROUNDING if centred else 1e-7  # squares of sparse rows are a difference, which loses half of the digits
        spread, rounding = sums.spread, share * _unit(sums.largest)
        _refuse_largest(np.where(spread > rounding, sums.largest, 0.0))
        spread = _positive(spread, rounding)
        return cls(sums.mean if centred else np.zeros(len(spread)), spread)

    @classmethod
    def of_targets(cls, sums: ColumnSums) -> Standardiser:
        """The same of targets, whose spreads need no reciprocals: those below SMALLEST count too.

        Where no target is beyond SMALLEST, squares are zero and the spread is not known: FAINT takes its place.
        """
        plain, own = cls.of_sums(sums), sums.spread
        spread = np.where(own > ROUNDING * _unit(sums.largest), own, plain.spread)
        faint = (sums.largest > 0) & (sums.largest <= SMALLEST)
        return replace(plain, spread=np.where(faint, FAINT, spread))

    @classmethod
    def identity(cls, n_columns: int) -> Standardiser:
        """Columns as they are."""
        return cls(np.zeros(n_columns), np.ones(n_columns))

    def take(self, columns: Sequence[int] | None) -> Standardiser:
        """That of some of the columns; None: of all of them."""
        return self if columns is None else Standardiser(self.centre[list(columns)], self.spread[list(columns)])

    def __call__(self, X: Array) -> Array:
        if sparse.issparse(X) and not self.centre.any():
            standardised = X.tocsr(copy=True)
            data = standardised.data / self.spread[standardised.indices]
            standardised.data = _within_reach(data, X.dtype).astype(X.dtype, copy=False)
            return standardised
        X = dense(X)
        if not self._fits_float32 and dtype_of(X) == np.float32:
            wide = double(X)
            wide = (wide - place(self.centre, like=wide)) / place(self.spread, like=wide)
            return namespace(X).astype(_within_reach(wide, dtype_of(X)), X.dtype)
        with np.errstate(over="ignore"):
            standardised = X - place(self.centre, like=X)
            standardised /= place(self.spread, like=X)
        return _within_reach(standardised, dtype_of(X))

    @cached_property
    def _fits_float32(self) -> bool:
        """Whether centres and spreads are numbers that float32 can compute with."""
        low, high = SAFE_IN_FLOAT32
        return bool(np.abs(self.centre).max() < high and low < self.spread.min() and self.spread.max() < high)

    def write(self, X: Array, out: Array) -> None:
        """The same of dense rows (n, m) of NumPy, into ``out`` (n, m) of a precision that is no less."""
        with np.errstate(over="ignore"):
            if np.any(self.centre != 0):
                np.subtract(X, self.centre, out=out, dtype=out.dtype)
            else:
                out[...] = X
            if np.any(self.spread != 1):
                out /= self.spread
        within = _within_reach(out, out.dtype)
        if within is not out:
            out[...] = within

    def undo(self, X: Array) -> Array:
        """The columns as they were."""
        return X * self.spread + self.centre


def column_sums(X: Array, weights: Array) -> ColumnSums:
    """The sums over all rows of X (n, m), dense or sparse, with weights (n,)."""
    values = X if sparse.issparse(X) else fetch(X)

    def sums_of(block: slice) -> ColumnSums:
        sums = ColumnSums(values.shape[1])
        sums.add(values[block], weights[block])
        return sums

    blocks = row_blocks(0, len(weights), max(1, BLOCK_ENTRIES // values.shape[1]))
    return functools.reduce(operator.add, map_blocks(sums_of, blocks))


def _largest(X: Array) -> Array:
    """The largest absolute value of each column of X (n, m): (m,)."""
    if sparse.issparse(X):
        return abs(X).max(axis=0).toarray().ravel().astype(np.float64)
    return np.maximum(X.max(axis=0), -X.min(axis=0)).astype(np.float64)


def _unit(largest: Array) -> Array:
    """The unit that columns are squared in, so that those of 1e200 do not overflow: their largest value, or one."""
    return np.where(largest > SMALLEST, largest, 1.0)


def _positive(spread: Array, rounding: Array) -> Array:
    """Spreads above their rounding error; those of constant columns become one, or the rounding error if it is larger."""
    return np.where(spread > np.maximum(rounding, SMALLEST), spread, np.maximum(1.0, rounding))


def _within_reach(X: Array, dtype: np.dtype[Any]) -> Array:
    """Rows to be of a dtype, those farther away than angles can be computed of put where they still can."""
    xp = namespace(X)
    far = FARTHEST_IN_FLOAT32 if dtype == np.float32 else FARTHEST
    inside = not X.shape[0] or (float(xp.max(X)) <= far and float(xp.min(X)) >= -far)
    return X if inside else X.clip(-far, far)


def _refuse_largest(largest: Array) -> None:
    """An error where columns hold numbers so large that their differences overflow."""
    if (largest > LARGEST).any():
        column = int(largest.argmax())
        raise InputError(
            f"Numbers as large as {largest[column]:.3g} (column {column}) overflow in differences, and at most {LARGEST:g} "
            "is taken: divide the column, or the targets, by a constant such as 1e10 first."
        )
