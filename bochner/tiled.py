"""Products and factors of large matrices in tiles of one size, on all threads: the same bits for any number of these.

NumPy's product lets other threads go on and SciPy's functions do not, so all that is large here is a product of NumPy's.
Matrices are float32 or float64; those that are written to are in Fortran order, as LAPACK's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

from bochner.blas import same_bits
from bochner.threads import map_blocks, row_blocks

Array = Any

TILE = 512
"""Rows and columns of a tile of a matrix that is written to. Smaller matrices are left to BLAS, in one piece."""
STRIP = 1024
"""Rows that one thread solves for, or multiplies, at a time."""
SOLVED_WHOLE = 2048
"""Rows of a triangle with which few right sides are left to LAPACK, which is slow with larger ones."""
SOLVE_COLUMNS = 128
"""Columns of a triangle that are solved for at a time; all else is matrix products."""


def add_squares(gram: Array, features: Array) -> None:
    """Add A' A for A (b, d) to the lower triangle of a matrix of float64; what becomes of the upper one is left open.

    Products of float32 are taken in float32.
    """
    if features.shape[1] <= TILE:
        with same_bits():
            if features.dtype == np.float64:
                blas.dsyrk(1.0, features.T, beta=1.0, c=gram, lower=1, overwrite_c=1)
            else:
                gram += blas.ssyrk(1.0, features.T, lower=1)
        return

    def add(tile: tuple[slice, slice]) -> None:
        rows, columns = tile
        gram[rows, columns] += (features[:, columns].T @ features[:, rows]).T

    _each(add, _lower(len(gram)))


def squares_of_triangle(triangle: Array) -> Array:
    """L' L for the lower triangle L (d, d) of float64, whose upper one may hold anything: the lower triangle."""
    d = len(triangle)
    if d <= TILE:
        with same_bits():
            return lapack.dlauum(triangle, lower=1)[0]
    result = np.empty((d, d), order="F")

    def write(tile: tuple[slice, slice]) -> None:
        rows, columns = tile
        below = slice(rows.stop, d)
        own = np.tril(triangle[rows, rows])
        across = own if rows == columns else triangle[rows, columns]
        product = across.T @ own
        product += triangle[below, columns].T @ triangle[below, rows]
        result[rows, columns] = product.T

    _each(write, _lower(d))
    return result


def cholesky(matrix: Array) -> bool:
    """Overwrite the lower triangle of a matrix (d, d) by that of L, L L' = matrix; returns whether there is none.

    What is above the diagonal may be anything afterwards.
    """
    d = len(matrix)
    if d <= TILE:
        potrf = lapack.spotrf if matrix.dtype == np.float32 else lapack.dpotrf
        with same_bits():
            triangle, failed = potrf(matrix, lower=1, clean=0, overwrite_a=int(matrix.flags.f_contiguous))
        if triangle is not matrix:
            matrix[...] = triangle
        return bool(failed)
    middle = TILE * ((d // TILE + 1) // 2)
    first, second = slice(0, middle), slice(middle, d)
    if cholesky(matrix[first, first]):
        return True
    panel, rest = matrix[second, first], matrix[second, second]
    substitute(panel, matrix[first, first])

    def subtract(tile: tuple[slice, slice]) -> None:
        rows, columns = tile
        rest[rows, columns] -= (panel[columns] @ panel[rows].T).T

    _each(subtract, _lower(d - middle))
    return cholesky(rest)


def clear_above(matrix: Array) -> None:
    """Set what is above the diagonal of a matrix (d, d) to zero."""
    for columns in row_blocks(0, len(matrix), TILE):
        matrix[: columns.start, columns] = 0.0
        matrix[columns, columns] = np.tril(matrix[columns, columns])


def substitute(rows: Array, triangle: Array, back: bool = False) -> None:
    """Overwrite every row r of (n, d) by L^-1 r, or by L^-T r to go ``back``, L the lower triangle (d, d)."""
    _each(lambda some: _substitute(rows[some], triangle, back), row_blocks(0, len(rows), STRIP))


def solve(triangle: Array, right: Array) -> Array:
    """(L L')^-1 times right, (d,) or (d, c), L the lower triangle (d, d)."""
    few = right.ndim == 1 or right.shape[1] <= SOLVE_COLUMNS
    if len(triangle) <= (SOLVED_WHOLE if few else TILE):
        with same_bits():
            return lapack.dpotrs(triangle, right, lower=1)[0]
    rows = np.array(np.atleast_2d(right.T), order="C")
    substitute(rows, triangle)
    substitute(rows, triangle, back=True)
    return rows.T.reshape(right.shape)


def product(left: Array, right: Array) -> Array:
    """The matrix product of (n, k) and (k, m), in strips of rows."""
    if len(left) <= STRIP or right.ndim == 1:
        with same_bits():
            return left @ right
    result = np.empty((left.shape[0], right.shape[1]), dtype=np.result_type(left, right))
    _each(lambda rows: np.matmul(left[rows], right, out=result[rows]), row_blocks(0, len(left), STRIP))
    return result


def _substitute(rows: Array, triangle: Array, back: bool) -> None:
    """:func:`substitute` for one strip: one half of the columns, their part in the others by a product, the other half."""
    d = triangle.shape[0]
    if d <= SOLVE_COLUMNS:
        trsm = blas.strsm if rows.dtype == np.float32 else blas.dtrsm
        rows[...] = trsm(1.0, triangle, rows.T, side=0, lower=1, trans_a=int(back)).T
        return
    middle = SOLVE_COLUMNS * ((d // SOLVE_COLUMNS + 1) // 2)
    low, high, across = slice(0, middle), slice(middle, d), triangle[middle:, :middle]
    first, second = (high, low) if back else (low, high)
    _substitute(rows[:, first], triangle[first, first], back)
    rows[:, second] -= rows[:, first] @ (across if back else across.T)
    _substitute(rows[:, second], triangle[second, second], back)


def _lower(size: int) -> list[tuple[slice, slice]]:
    """The tiles of the lower triangle of a matrix (size, size): rows and columns."""
    blocks = row_blocks(0, size, TILE)
    return [(rows, columns) for i, rows in enumerate(blocks) for columns in blocks[: i + 1]]


def _each(function: Callable[[Any], Any], pieces: Iterable[Any]) -> None:
    """A function of each piece, on all threads."""
    for _ in map_blocks(function, list(pieces)):
        pass
