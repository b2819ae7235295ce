"""Products and factors in tiles: against NumPy and SciPy, in one piece."""

import numpy as np
import pytest
from scipy import linalg
from threadpoolctl import threadpool_limits

from bochner import tiled

SIZES = (1, 7, 512, 513, 1100)
EPS = np.finfo(float).eps


def positive(d, seed=0, dtype=np.float64):
    A = np.random.default_rng(seed).standard_normal((d + 5, d))
    return np.asfortranarray(A.T @ A / d + np.eye(d), dtype=dtype)


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_squares(d, dtype):
    A = np.random.default_rng(d).standard_normal((40, d)).astype(dtype)
    gram = np.asfortranarray(np.full((d, d), 2.0))
    tiled.add_squares(gram, A.copy())
    exact = 2 + A.astype(float).T @ A.astype(float)
    assert np.tril(np.abs(gram - exact)).max() <= 40 * np.finfo(dtype).eps * np.abs(exact).max()


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cholesky(d, dtype):
    A = positive(d, dtype=dtype)
    L = A.copy(order="F")
    assert not tiled.cholesky(L)
    L = np.tril(L).astype(float)
    assert np.abs(L @ L.T - A).max() <= 10 * d * np.finfo(dtype).eps * np.abs(A).max()


@pytest.mark.parametrize("d", [3, 600, 1100])
def test_there_is_none_of_an_indefinite_matrix(d):
    A = positive(d)
    A[-1, -1] = -1.0
    assert tiled.cholesky(A)


@pytest.mark.parametrize("d", SIZES)
def test_what_is_above_the_diagonal_is_cleared(d):
    matrix = np.asfortranarray(np.random.default_rng(0).standard_normal((d, d)))
    expected = np.tril(matrix)
    tiled.clear_above(matrix)
    np.testing.assert_array_equal(matrix, expected)


@pytest.mark.parametrize("d", [*SIZES, tiled.SOLVED_WHOLE + 1])
@pytest.mark.parametrize("columns", [None, 1, 200])
def test_solve(d, columns):
    A = positive(d)
    right = np.random.default_rng(1).standard_normal(d if columns is None else (d, columns))
    L = A.copy(order="F")
    tiled.cholesky(L)
    expected = linalg.solve(A, right, assume_a="pos")
    assert np.abs(tiled.solve(L, right) - expected).max() <= 100 * d * EPS * np.linalg.cond(A) * np.abs(expected).max()


@pytest.mark.parametrize("d", SIZES)
def test_squares_of_a_triangle_leave_out_what_is_above_it(d):
    L = np.tril(positive(d))
    spoiled = np.asfortranarray(L + np.triu(np.full((d, d), 1e6), k=1))
    found = np.tril(tiled.squares_of_triangle(spoiled))
    assert np.abs(found - np.tril(L.T @ L)).max() <= 10 * d * EPS * np.abs(L.T @ L).max()


@pytest.mark.parametrize("n", [3, 1024, 2500])
def test_product(n):
    rng = np.random.default_rng(n)
    A, B = rng.standard_normal((n, 30)), rng.standard_normal((30, 8))
    assert np.abs(tiled.product(A, B) - A @ B).max() <= 100 * EPS * np.abs(A @ B).max()


def test_any_number_of_threads_gives_the_same_bits():
    A = np.random.default_rng(0).standard_normal((1500, 1100))
    found = []
    for n_threads in (1, 2, 4):
        with threadpool_limits(n_threads, user_api="blas"):
            gram = np.asfortranarray(np.eye(1100))
            tiled.add_squares(gram, A)
            L = gram.copy(order="F")
            tiled.cholesky(L)
            solved = tiled.solve(L, A[:200].T)
            found.append([np.tril(gram).tobytes(), np.tril(L).tobytes(), solved.tobytes(), tiled.product(A, gram).tobytes()])
    assert found[0] == found[1] == found[2]
