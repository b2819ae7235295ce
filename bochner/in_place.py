"""Cholesky factors on a device in the memory of one matrix, for matrices of which it has no room for a second one.

All is done in blocks of PyTorch's: a factor of a block on the diagonal, and products for the rest. A matrix (M, M) has room
for two triangles, L on and below the diagonal and that of a preconditioner above it, whose own diagonal blocks lie beside.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace as namespace

from bochner.threads import row_blocks

Array = Any

BLOCK = 4096
"""Rows of a block."""
LARGE = 16_384
"""Rows from which on matrices of a device are factorised in place; smaller ones are left to its library."""


def cholesky_in_place(matrix: Array, block: int = BLOCK) -> bool:
    """Overwrite a matrix (M, M) of PyTorch's by its lower factor, zero above; returns whether there is none."""
    blocks = row_blocks(0, len(matrix), block)
    for k, own in enumerate(blocks):
        triangle, failed = namespace(matrix).linalg.cholesky_ex(matrix[own, own])
        if bool(failed):
            return True
        matrix[own, own] = triangle
        below = slice(own.stop, len(matrix))
        matrix[below, own] = _divided(matrix[below, own], triangle)
        for other in blocks[k + 1 :]:
            rest = slice(other.start, len(matrix))
            matrix[rest, other] -= matrix[rest, own] @ matrix[other, own].T
        matrix[own, below] = 0.0
    return False


class SecondFactor:
    """R, upper, with R' R = (1/M) L' (I - 11'/M) L + alpha I, above the lower factor L in the same matrix (M, M).

    Whoever reads L must look below and on the diagonal alone, as triangular solutions do.
    """

    def __init__(self, lower: Array, block: int = BLOCK) -> None:
        self._matrix = lower
        self._blocks = row_blocks(0, len(lower), block)
        self._diagonal: list[Array] = []
        # Blocks of L on the diagonal are zero above it.
        sums = [namespace(lower).sum(lower[own.start :, own], axis=0) for own in self._blocks]
        self._mean = namespace(lower).concat(sums) / len(lower)
        self.scale = 0.0
        """The mean of the diagonal of the matrix of the latest penalty."""

    def make(self, alpha: float) -> bool:
        """Make R for a penalty, anew from L; returns whether there is none."""
        A, m, size = self._matrix, self._mean, len(self._matrix)
        diagonal: list[Any] = []
        for own in self._blocks:
            above, below = slice(0, own.start), slice(own.start, size)
            A[above, own] = A[below, above].T @ A[below, own] / size - m[above, None] * m[own]
            diagonal.append(A[below, own].T @ A[below, own] / size - m[own, None] * m[own])
            namespace(A).linalg.diagonal(diagonal[-1])[...] += alpha
        self.scale = sum(float(namespace(A).sum(namespace(A).linalg.diagonal(each))) for each in diagonal) / size
        for k, own in enumerate(self._blocks):
            triangle, failed = namespace(A).linalg.cholesky_ex(diagonal[k])
            if bool(failed):
                return True
            diagonal[k] = triangle.T
            after = slice(own.stop, size)
            A[own, after] = _divided(A[own, after].T, triangle).T
            for j in range(k + 1, len(self._blocks)):
                other = self._blocks[j]
                between = slice(own.stop, other.start)
                A[between, other] -= A[own, between].T @ A[own, other]
                diagonal[j] = diagonal[j] - A[own, other].T @ A[own, other]
        self._diagonal = diagonal
        return False

    def solve(self, right: Array) -> Array:
        """(R' R)^-1 right, for right (M, k)."""
        A, xp = self._matrix, namespace(right)
        solved = xp.asarray(right, copy=True)
        for own, triangle in zip(self._blocks, self._diagonal, strict=True):
            rest = solved[own] - A[: own.start, own].T @ solved[: own.start]
            solved[own] = xp.linalg.solve_triangular(triangle.T, rest, upper=False)
        for own, triangle in zip(reversed(self._blocks), reversed(self._diagonal), strict=True):
            rest = solved[own] - A[own, own.stop :] @ solved[own.stop :]
            solved[own] = xp.linalg.solve_triangular(triangle, rest, upper=True)
        return solved


def _divided(rows: Array, triangle: Array) -> Array:
    """L^-1 r for every row r, L a lower triangle."""
    return namespace(rows).linalg.solve_triangular(triangle.T, rows, upper=True, left=False)
