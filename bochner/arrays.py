"""Arrays of any kind: their namespace, dtype and device, and the few operations that every room needs.

Everything below works on NumPy arrays, on SciPy sparse matrices where it says so, and on the arrays of any library that
follows the array API standard and whose arrays can be assigned to (PyTorch, CuPy, ...), without importing that library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj, is_numpy_namespace
from array_api_compat import numpy as numpy_namespace
from scipy import sparse

from bochner import in_place, tiled

Array = Any
"""An array of any namespace; shapes are given in the docstrings, as (rows, columns)."""


CLOSE = 1e-4
"""Pairs of rows are close where ||x - z||^2 is this part of ||x||^2 + ||z||^2 or less."""


def namespace(*arrays: Array) -> Any:
    """The array namespace shared by ``arrays``; sparse matrices and plain numbers count as NumPy."""
    if len(arrays) == 1 and isinstance(arrays[0], np.ndarray):  # most of the time, and there may be little else to do
        return numpy_namespace
    dense = [a for a in arrays if is_array_api_obj(a) and not sparse.issparse(a)]
    return array_namespace(*dense) if dense else np


def is_foreign(array: Array) -> bool:
    """Whether ``array`` belongs to an array library other than NumPy (and is not a sparse matrix or a table)."""
    if isinstance(array, np.ndarray):
        return False
    return not sparse.issparse(array) and is_array_api_obj(array) and not is_numpy_namespace(array_namespace(array))


def is_plain(array: Array) -> bool:
    """Whether ``array`` is a dense NumPy array."""
    return isinstance(array, np.ndarray)


def place(values: Array, like: Array) -> Array:
    """``values`` in the namespace, on the device and in the floating dtype of ``like``: themselves if they are there."""
    if sparse.issparse(like) or is_plain(like):
        return np.asarray(fetch(values), dtype=like.dtype)
    there = values if is_foreign(values) else np.asarray(values)
    if is_plain(there) and not there.flags.writeable:  # another library may share its memory, and write to it
        there = there.copy()
    return namespace(like).asarray(there, dtype=like.dtype, device=device(like))


def fetch(array: Array) -> Array:
    """``array`` as a dense NumPy array in its own dtype, from whatever device it lives on."""
    if sparse.issparse(array):
        return array.toarray()
    if is_foreign(array):
        if hasattr(array, "detach"):  # a tensor that may sit on another device or record gradients
            array = array.detach().cpu()
        return np.from_dlpack(array)
    return np.asarray(array)


def gpu_of(array: Array) -> str | None:
    """The name of the GPU that a tensor of PyTorch's is on, such as "cuda:0"; None: an array that is elsewhere."""
    where = getattr(array, "device", None)
    return str(where) if getattr(where, "type", None) == "cuda" else None


def host_view(array: Array) -> Array | None:
    """A NumPy view of an array of another library that lies in host memory, or None where there is none to be had."""
    if getattr(array, "requires_grad", False):
        return None  # a gradient is being recorded: stay in the library that records it
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError, ValueError):  # on a device of its own
        return None


def fetch64(array: Array) -> Array:
    """``array`` as a dense NumPy array of float64."""
    return fetch(array).astype(np.float64, copy=False)


def fetch_numbers(numbers: Sequence[Array]) -> Array:
    """Numbers, or arrays of one number, as a NumPy array of float64: those of a device come in one transfer."""
    if any(is_foreign(number) for number in numbers):
        return fetch64(namespace(*numbers).stack(list(numbers)))
    return np.array(numbers, dtype=np.float64)


def total(array: Array) -> Array:
    """The sum of all entries: a float, or a number that stays on its device."""
    value = namespace(array).sum(array)
    return value if is_foreign(array) else float(value)


def double(array: Array) -> Array:
    """``array`` in float64 where it is: a dense NumPy array, or one of another library on its device."""
    if is_foreign(array):
        xp = namespace(array)
        return xp.astype(array, xp.float64, copy=False)
    return fetch64(array)


def dtype_of(array: Array) -> np.dtype[Any]:
    """NumPy's name for the dtype of an array of any library."""
    return np.dtype(str(array.dtype).rpartition(".")[-1])


def dense(array: Array) -> Array:
    """``array`` itself, or the dense form of a sparse one."""
    return array.toarray() if sparse.issparse(array) else array


def squared_distances(X: Array, Z: Array) -> Array:
    """Squared Euclidean distances between the rows of X (n, m) and Z (k, m): an array (n, k).

    Uses ||x - z||^2 = ||x||^2 + ||z||^2 - 2<x, z> around the mean of Z, so that the work is one matrix product. Pairs so
    close that this difference would lose half of its digits are computed again from x - z.
    """
    xp = namespace(X, Z)
    centre = xp.mean(Z, axis=0)
    X, Z = X - centre, Z - centre
    with np.errstate(over="ignore", invalid="ignore"):  # rows beyond the square root of the largest number
        norms = xp.sum(X * X, axis=1)[:, None] + xp.sum(Z * Z, axis=1)[None, :]
        result = norms - 2 * (X @ Z.T)
        again = ~(result >= CLOSE * norms) | (norms == np.inf)
        if bool(xp.any(again)):
            result[again] = xp.concat([xp.sum(squares, axis=1) for _, squares in _pair_squares(X, Z, again)])
    return xp.clip(result, min=0.0)


def weighted_squares(W: Array, X: Array, Z: Array) -> Array:
    """sum_rc W_rc (x_ri - z_ci)^2 for each column i of X (n, m) and Z (k, m), with W (n, k): an array (m,).

    By matrix products, as in :func:`squared_distances`, and like there from x - z for pairs that are close: their weights
    may be as large as their distance is small.
    """
    xp = namespace(W, X, Z)
    centre = xp.mean(Z, axis=0)
    X, Z = X - centre, Z - centre
    norms = xp.sum(X * X, axis=1)[:, None] + xp.sum(Z * Z, axis=1)[None, :]
    close = norms - 2 * (X @ Z.T) < CLOSE * norms
    far = xp.where(close, xp.zeros_like(W), W)
    result = xp.sum(far, axis=1) @ (X * X) + xp.sum(far, axis=0) @ (Z * Z) - 2 * xp.sum(X * (far @ Z), axis=0)
    near = W[close]
    for pairs, squares in _pair_squares(X, Z, close):
        result = result + near[pairs] @ squares
    return result


def weighted_products(W: Array, X: Array, Z: Array, U: Array, V: Array) -> Array:
    """sum_rc W_rc (x_r - z_c) (u_r - v_c)^T, with W (n, k), X (n, m), Z (k, m), U (n, r), V (k, r): an array (m, r).

    By matrix products, except for pairs whose u and v are close: their weights may be as large as u - v is small.
    """
    xp = namespace(W, X, Z, U, V)
    X, Z = X - xp.mean(Z, axis=0), Z - xp.mean(Z, axis=0)
    U, V = U - xp.mean(V, axis=0), V - xp.mean(V, axis=0)
    norms = xp.sum(U * U, axis=1)[:, None] + xp.sum(V * V, axis=1)[None, :]
    close = norms - 2 * (U @ V.T) < CLOSE * norms
    far = xp.where(close, xp.zeros_like(W), W)
    result = X.T @ (xp.sum(far, axis=1)[:, None] * U - far @ V) + Z.T @ (xp.sum(far, axis=0)[:, None] * V - far.T @ U)
    near = W[close]
    both = xp.concat([X, U], axis=1), xp.concat([Z, V], axis=1)
    for pairs, differences in _pair_differences(*both, close):
        result = result + differences[:, : X.shape[1]].T @ (near[pairs][:, None] * differences[:, X.shape[1] :])
    return result


def _pair_squares(X: Array, Z: Array, chosen: Array) -> Iterator[tuple[slice, Array]]:
    """(x_r - z_c)^2 for the pairs (r, c) chosen by a mask (n, k): a slice of the pairs and their squares (pairs, m)."""
    for pairs, difference in _pair_differences(X, Z, chosen):
        yield pairs, difference * difference


def _pair_differences(X: Array, Z: Array, chosen: Array) -> Iterator[tuple[slice, Array]]:
    """x_r - z_c for the pairs (r, c) chosen by a mask (n, k): a slice of the pairs and their differences (pairs, m)."""
    xp = namespace(X, Z)
    rows, columns = xp.nonzero(chosen)
    step = max(1, 4_000_000 // X.shape[1])
    for start in range(0, rows.shape[0], step):
        pairs = slice(start, min(start + step, rows.shape[0]))
        yield pairs, xp.take(X, rows[pairs], axis=0) - xp.take(Z, columns[pairs], axis=0)


def cholesky(matrix: Array, shift: float = 0.0, *, clean: bool = False) -> tuple[Array, bool]:
    """The lower factor L L' of matrix (d, d) + shift I, which uses the matrix up, and whether there is none.

    NumPy's matrices are in Fortran order; what is above the diagonal of L may be anything unless it is to be ``clean``.
    """
    if not is_foreign(matrix):
        matrix[np.diag_indices_from(matrix)] += shift
        failed = tiled.cholesky(matrix)
        if clean and not failed:
            tiled.clear_above(matrix)
        return matrix, failed
    xp = namespace(matrix)
    if hasattr(xp.linalg, "cholesky_ex"):  # PyTorch's, which says so where there is none
        xp.linalg.diagonal(matrix)[...] += shift
        if len(matrix) >= in_place.LARGE:
            return matrix, in_place.cholesky_in_place(matrix)
        triangle, failed = xp.linalg.cholesky_ex(matrix)
        return triangle, bool(failed)
    try:
        triangle = xp.linalg.cholesky(matrix + shift * xp.eye(matrix.shape[0], dtype=matrix.dtype, device=device(matrix)))
    except np.linalg.LinAlgError:
        return matrix, True
    return triangle, not bool(xp.all(xp.isfinite(triangle)))


def solve_rows(rows: Array, triangle: Array, *, back: bool = False, out: Array | None = None) -> Array:
    """L^-1 r for every row r of (n, d), or L^-T r to go ``back``, L the lower triangle (d, d).

    Written to ``out``, which may be ``rows`` itself, where that is given.
    """
    if is_plain(rows):
        out = np.array(rows) if out is None else out
        if out is not rows:
            out[...] = rows
        tiled.substitute(out, triangle, back)
        return out
    xp = namespace(rows)
    matrix = triangle if back else triangle.T
    if not hasattr(xp.linalg, "solve_triangular"):
        solved = xp.linalg.solve(matrix.T, rows.T).T
    elif out is None:
        return xp.linalg.solve_triangular(matrix, rows, upper=not back, left=False)
    else:
        solved = xp.linalg.solve_triangular(matrix, rows, upper=not back, left=False, out=None if out is rows else out)
    if out is None or solved is out:
        return solved
    out[...] = solved
    return out
