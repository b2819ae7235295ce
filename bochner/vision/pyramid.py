"""Histograms on the cells of pyramids: grids of 1, 2, 4, ... cells a side on the bounding box of every segment.

Borders of cells lie at multiples of a few pixels. What one superpixel has in common with one square block of so many pixels
then lies in one cell of any segment. An image has some ten thousand of these *pieces*; each has its histogram once, and the
cells of all segments are sums of pieces, one product with a sparse matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import ndimage, sparse

from bochner.arrays import Array
from bochner.errors import InputError


@dataclass(frozen=True)
class Pyramid:
    """Grids of 1, 2, ..., 2^(levels - 1) cells a side, whose borders lie at multiples of ``block`` pixels."""

    levels: int = 4
    block: int = 4

    def __post_init__(self) -> None:
        if self.levels < 1 or self.block < 1:
            raise InputError(f"levels and block must be 1 or more: got {self.levels} and {self.block}.")

    @property
    def side(self) -> int:
        """Cells along a side of the finest grid."""
        return 2 ** (self.levels - 1)

    @property
    def n_cells(self) -> int:
        """Cells of all grids."""
        return sum(4**level for level in range(self.levels))

    def borders(self, low: Array, high: Array) -> Array:
        """First blocks of the cells of the finest grid between pixels low and high (s,), high left out: (s, side)."""
        shares = np.arange(self.side) / self.side
        places = np.asarray(low)[:, None] + (np.asarray(high) - low)[:, None] * shares
        return np.floor(places / self.block + 0.5).astype(np.int64)

    def stack(self, finest: Array) -> Array:
        """All grids side by side, coarse ones first (s, n_cells * q), from the finest (s, side, side, q)."""
        s, side, _, q = finest.shape
        levels = []
        for level in range(self.levels):
            n = 2**level
            levels.append(finest.reshape(s, n, side // n, n, side // n, q).sum(axis=(2, 4)).reshape(s, n * n * q))
        return np.concatenate(levels, axis=1)


@dataclass(frozen=True)
class Boxes:
    """Bounding boxes of segments: first row and column (s,), and those after the last; empty segments have 0, 0."""

    top: Array
    bottom: Array
    left: Array
    right: Array

    @classmethod
    def of(cls, labels: Array, members: Array) -> Boxes:
        """Boxes of unions of superpixels, ``members`` (s, P)."""
        far = max(labels.shape)
        ends = np.full((members.shape[1], 4), far)
        for own, place in zip(ends, ndimage.find_objects(labels + 1), strict=False):
            if place is not None:
                own[:] = place[0].start, -place[0].stop, place[1].start, -place[1].stop
        low = np.stack([np.where(members, column, far).min(axis=1, initial=far) for column in ends.T], axis=1)
        low[(low == far).any(axis=1)] = 0
        return cls(low[:, 0], -low[:, 1], low[:, 2], -low[:, 3])


@dataclass(frozen=True)
class Pieces:
    """Parts of an image that lie in one block each, numbered from 0 to A - 1."""

    number: Array
    """(n,): the piece of each pixel, or of whatever is counted."""
    first: Array
    """(A,): one of its pixels, as a place in what is counted."""
    row: Array
    """(A,): row of its block."""
    column: Array

    @classmethod
    def of(cls, kinds: Array, rows: Array, columns: Array, block: int) -> Pieces:
        """Pieces of places (n,) of the same kind in the same block; rows and columns are in pixels."""
        down, right = rows // block, columns // block
        n_right = int(right.max(initial=0)) + 1
        n_blocks = (int(down.max(initial=0)) + 1) * n_right
        key = kinds.astype(np.int64) * n_blocks + down * n_right + right
        _, first, number = np.unique(key, return_index=True, return_inverse=True)
        return cls(number, first, down[first], right[first])

    @property
    def n_pieces(self) -> int:
        """Number of pieces A."""
        return len(self.first)

    def histogram(self, bins: Array, n_bins: int, weights: Array | None = None) -> Array:
        """Counts, or sums of weights, of the bin of each place (n,): (A, n_bins) of float32."""
        found = np.bincount(self.number * n_bins + bins, weights, minlength=self.n_pieces * n_bins)
        return found.reshape(self.n_pieces, n_bins).astype(np.float32)


def pooled(pieces: Pieces, inside: Array, boxes: Boxes, pyramid: Pyramid, histograms: Array) -> Array:
    """Sums of the histograms (A, q) of the pieces that are ``inside`` (A, s) segments, cell by cell: (s, side, side, q)."""
    side, n = pyramid.side, inside.shape[1]
    piece, segment = np.nonzero(inside)
    down = _cells(pyramid.borders(boxes.top, boxes.bottom), int(pieces.row.max(initial=0)) + 1)
    right = _cells(pyramid.borders(boxes.left, boxes.right), int(pieces.column.max(initial=0)) + 1)
    cell = (segment * side + down[segment, pieces.row[piece]]) * side + right[segment, pieces.column[piece]]
    starts = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
    ones = np.ones(len(cell), dtype=np.float32)
    matrix = sparse.csc_array((ones, cell, starts), shape=(n * side * side, pieces.n_pieces))
    return (matrix @ histograms).reshape(n, side, side, histograms.shape[1])


def _cells(borders: Array, n_blocks: int) -> Array:
    """The cell of each block, by the last border that is not beyond it: (s, n_blocks)."""
    reached = np.arange(n_blocks) >= borders[:, 1:, None]
    return reached.sum(axis=1)


def normalised(histograms: Array) -> Array:
    """Histograms (s, q) that sum to one, of float32; those without anything stay zero."""
    totals = histograms.sum(axis=1, keepdims=True, dtype=np.float64)
    return (histograms / np.where(totals > 0, totals, 1)).astype(np.float32)
