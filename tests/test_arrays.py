"""Arrays of any kind: namespaces, moving them, distances."""

import array_api_strict
import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from scipy.spatial.distance import cdist

from bochner import arrays

EPS = np.finfo(float).eps


def test_namespaces():
    x = np.ones((2, 2))
    assert arrays.namespace(x).__name__.endswith("numpy")
    assert arrays.namespace(sparse.csr_array(x)) is np
    assert arrays.namespace(2.0) is np
    assert "torch" in arrays.namespace(torch.tensor(x)).__name__
    assert arrays.namespace(array_api_strict.asarray(x), 1.0) is array_api_strict


def test_foreign_and_plain():
    x = np.ones((2, 2))
    for value in (x, x.tolist(), pd.DataFrame(x), sparse.csr_matrix(x), sparse.coo_array(x), 1.0):
        assert not arrays.is_foreign(value)
    for value in (torch.tensor(x), array_api_strict.asarray(x)):
        assert arrays.is_foreign(value)
        assert not arrays.is_plain(value)
    assert arrays.is_plain(x)
    assert not arrays.is_plain(sparse.csr_array(x))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_place_and_fetch(dtype):
    values = np.arange(6.0).reshape(2, 3)
    likes = [
        np.zeros(1, dtype=dtype),
        sparse.csr_array(np.zeros((1, 1), dtype=dtype)),
        torch.zeros(1, dtype=getattr(torch, dtype)),
        torch.zeros(1, dtype=getattr(torch, dtype), requires_grad=True),
        array_api_strict.zeros(1, dtype=getattr(array_api_strict, dtype)),
    ]
    for like in likes:
        placed = arrays.place(values, like=like)
        assert placed.dtype == like.dtype
        assert arrays.is_foreign(placed) == arrays.is_foreign(like)
        back = arrays.fetch(placed)
        assert isinstance(back, np.ndarray)
        assert back.dtype == dtype
        np.testing.assert_array_equal(back, values)
        assert arrays.fetch64(placed).dtype == np.float64


def test_fetch_of_a_tensor_that_records_gradients():
    np.testing.assert_array_equal(arrays.fetch(torch.ones(3, requires_grad=True)), np.ones(3))
    np.testing.assert_array_equal(arrays.fetch(sparse.csr_array(np.eye(2))), np.eye(2))


def test_host_views():
    x = np.arange(6.0).reshape(2, 3)
    for array in (torch.tensor(x), array_api_strict.asarray(x)):
        view = arrays.host_view(array)
        assert isinstance(view, np.ndarray)
        np.testing.assert_array_equal(view, x)
    tensor = torch.tensor(x)
    assert np.shares_memory(arrays.host_view(tensor), tensor.numpy())
    assert arrays.host_view(torch.tensor(x, requires_grad=True)) is None
    assert arrays.host_view(torch.empty((2, 3), device="meta")) is None  # a device without memory that NumPy can see


def test_dense():
    x = np.eye(3)
    assert arrays.dense(x) is x
    np.testing.assert_array_equal(arrays.dense(sparse.csc_array(x)), x)


def near_duplicates(rng, n, m):
    X = rng.standard_normal((n, m))
    return np.concatenate([X, X, X * (1 + EPS), X + 1e-5 * rng.standard_normal((n, m))])


@pytest.mark.parametrize("convert", [np.asarray, torch.tensor, array_api_strict.asarray], ids=["numpy", "torch", "strict"])
@pytest.mark.parametrize("m", [1, 3, 40])
def test_squared_distances(m, convert, rng):
    X, Z = near_duplicates(rng, 5, m), rng.standard_normal((4, m))
    Z[0] = X[0]
    largest = 2 * np.max(np.sum(X * X, axis=1)) + 2 * np.max(np.sum(Z * Z, axis=1))
    for A, B in ((X, X), (X, Z), (X[:1], Z), (X, Z[:1])):
        got = arrays.fetch(arrays.squared_distances(convert(A), convert(B)))
        expected = cdist(A, B, "sqeuclidean")
        assert np.all(got >= 0)
        # Far pairs by products: (m + 3) eps of the norms. Near ones from x - z, after both were moved by the mean: that
        # rounds x - z by an eps of the values, which is at most 2 r eps sqrt(norms) in r^2 and covered by the same bound.
        np.testing.assert_allclose(got, expected, rtol=0, atol=(m + 3) * EPS * largest)
    got = arrays.fetch(arrays.squared_distances(convert(X), convert(X)))
    np.testing.assert_array_equal(np.diagonal(got), 0)


@pytest.mark.parametrize("convert", [np.asarray, torch.tensor, array_api_strict.asarray], ids=["numpy", "torch", "strict"])
@pytest.mark.parametrize("m", [1, 3])
def test_weighted_squares(m, convert, rng):
    X, Z = near_duplicates(rng, 4, m), near_duplicates(rng, 3, m)
    Z[:4] = X[:4]
    squares = (X[:, None] - Z[None]) ** 2
    distance = np.sqrt(squares.sum(axis=2))
    W = rng.standard_normal(distance.shape) / np.where(distance > 0, distance, np.inf)  # as large as a rough kernel's
    expected = np.einsum("nk,nki->i", W, squares)
    got = arrays.fetch(arrays.weighted_squares(convert(W), convert(X), convert(Z)))
    # Every term is W (x - z)^2 <= r <= 10. Far pairs: (m + 3) eps (norms < 50) / r with r^2 > 1e-4 norms; near ones:
    # the rounding of the rows around their mean, an eps or two of values below ten. 16 * 12 terms.
    np.testing.assert_allclose(got, expected, rtol=0, atol=16 * 12 * (m + 3) * EPS * 100 * 50**0.5)


def test_many_close_pairs_are_taken_in_parts(rng, monkeypatch):
    X = np.repeat(rng.standard_normal((3, 2_000)), 30, axis=0)  # 4_000_000 // 2_000 = 2_000 pairs at a time, 2_700 close
    np.testing.assert_allclose(
        arrays.squared_distances(X, X), cdist(X, X, "sqeuclidean"), rtol=0, atol=2_003 * EPS * 2 * 2_300
    )
    W = rng.standard_normal((90, 90))
    expected = np.array([np.sum(W * (X[:, i, None] - X[None, :, i]) ** 2) for i in range(2_000)])
    np.testing.assert_allclose(arrays.weighted_squares(W, X, X), expected, rtol=0, atol=8_100 * 100 * EPS * 4)


@pytest.mark.parametrize("size", [1e25, 1e36])
def test_distances_of_rows_too_large_to_square(size):
    X = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, -1.0]], dtype=np.float32) * np.float32(size)
    distances = arrays.squared_distances(X, X)
    np.testing.assert_array_equal(distances[[0, 1, 2, 0], [0, 1, 2, 1]], 0)
    np.testing.assert_array_equal(distances[2, :2], np.inf)


@pytest.mark.parametrize("convert", [np.asarray, torch.tensor, array_api_strict.asarray], ids=["numpy", "torch", "strict"])
@pytest.mark.parametrize("m", [1, 3])
def test_weighted_products(m, convert, rng):
    X, Z, A = near_duplicates(rng, 4, m), near_duplicates(rng, 3, m), rng.standard_normal((m, 2))
    Z[:4] = X[:4]
    differences = X[:, None] - Z[None]
    distance = np.sqrt(((differences @ A) ** 2).sum(axis=2))
    W = rng.standard_normal(distance.shape) / np.where(distance > 0, distance, np.inf)
    expected = np.einsum("nk,nki,nkj->ij", W, differences, differences @ A)
    got = arrays.weighted_products(*map(convert, (W, X, Z, X @ A, Z @ A)))
    # As for the weighted squares; with x - z up to a hundred times (x - z) A where a direction is nearly lost.
    np.testing.assert_allclose(arrays.fetch(got), expected, rtol=0, atol=16 * 12 * (m + 3) * EPS * 1e4 * 50**0.5)


@pytest.mark.parametrize("convert", [np.array, torch.tensor, array_api_strict.asarray], ids=["numpy", "torch", "strict"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_triangles(dtype, convert, rng):
    """A factor, and solves with it there and back, against NumPy's own; a matrix that has none says so."""
    d, eps = 300, float(np.finfo(dtype).eps)
    B = rng.standard_normal((d, 2 * d)).astype(dtype)
    matrix, rows = (B @ B.T / d + np.eye(d, dtype=dtype)).astype(dtype), rng.standard_normal((7, d)).astype(dtype)
    triangle, failed = arrays.cholesky(
        convert(matrix) if convert is not np.array else np.asfortranarray(matrix), 0.5, clean=True
    )
    assert not failed
    L = np.linalg.cholesky(matrix.astype(float) + 0.5 * np.eye(d))
    # Eigenvalues from 1.5 to 8: a condition number below six, and three of the factor.
    np.testing.assert_allclose(arrays.fetch(triangle), L, rtol=0, atol=d * eps * 6)
    for back in (False, True):
        expected = np.linalg.solve(L.T if back else L, rows.T).T
        got = arrays.solve_rows(convert(rows), triangle, back=back)
        np.testing.assert_allclose(arrays.fetch(got), expected, rtol=0, atol=d * eps * 30)
        out = convert(np.zeros((7, d), dtype=dtype))
        assert arrays.solve_rows(convert(rows), triangle, back=back, out=out) is out
        np.testing.assert_allclose(arrays.fetch(out), expected, rtol=0, atol=d * eps * 30)
        own = convert(rows)
        assert arrays.solve_rows(own, triangle, back=back, out=own) is own
        np.testing.assert_allclose(arrays.fetch(own), expected, rtol=0, atol=d * eps * 30)
    assert arrays.cholesky(convert(-np.eye(3, dtype=dtype)))[1]


def test_a_read_only_array_is_copied_where_it_could_be_written_to():
    values = np.ones(3)
    values.flags.writeable = False
    placed = arrays.place(values, like=torch.zeros(1, dtype=torch.float64))
    placed += 1
    np.testing.assert_array_equal(values, 1)
