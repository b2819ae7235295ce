"""Products with a kernel matrix between rows and centres, kept or made anew, against the matrix itself."""

import numpy as np
import pytest
import torch
from scipy import sparse
from threadpoolctl import threadpool_limits

from bochner.engines import kernel_products
from bochner.engines.kernel_products import KernelProducts, room_for_values
from bochner.features import CentreKernels
from bochner.kernels import Matern

EPS = np.finfo(float).eps


@pytest.fixture
def tables(rng):
    return [rng.standard_normal((n, 3)) for n in (70, 1, 45)]


@pytest.fixture
def kernels(rng):
    return CentreKernels(Matern(nu=1.5, scale=0.7), rng.standard_normal((20, 3)))


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(kernel_products, "TILE_BYTES", 8 * 20 * 9)
    monkeypatch.setattr(kernel_products, "TILES_A_BLOCK", 3)
    monkeypatch.setattr(kernel_products, "DEVICE_BLOCK_BYTES", 8 * 20 * 23)


def all_products(kernels, tables, kept, rng, where=lambda a: a):
    """there, back, and there and back, of the first and the last table, and what they should be."""
    products = KernelProducts(kernels, [where(X) for X in tables], kept)
    K = np.vstack([kernels.kernel.exact(tables[k], kernels.centres) for k in (0, 2)])
    dual, values, weights = rng.standard_normal((20, 2)), rng.standard_normal((115, 3)), rng.uniform(1, 2, (115, 1))
    found = (
        products.there([0, 2], where(dual)),
        products.back([0, 2], where(values)),
        products.there_and_back([0, 2], where(dual), lambda s, w: w * (s + 1), where(weights)),
    )
    return found, (K @ dual, K.T @ values, K.T @ (weights * (K @ dual + 1)))


@pytest.mark.parametrize("where", [lambda a: a, torch.asarray], ids=["numpy", "torch"])
@pytest.mark.parametrize("kept", [None, "float64", "float32"])
def test_against_the_matrix(kernels, tables, kept, where, rng):
    found, expected = all_products(kernels, tables, kept, rng, where)
    # Rounding of values below one, to float32 where they are kept so, times what they are multiplied by and added up.
    unit = 2.0**-24 if kept == "float32" else 1e-13
    for one, two, size in zip(found, expected, (20 * 4, 115 * 4, 115 * 2 * (20 * 4 + 1)), strict=True):
        assert isinstance(one, torch.Tensor) == (where is torch.asarray)
        assert str(one.dtype).endswith("float64")
        np.testing.assert_allclose(np.asarray(one), two, rtol=0, atol=2 * unit * size)


@pytest.mark.parametrize("columns", range(1, 6))
def test_any_number_of_columns(kernels, tables, columns, rng):
    K = np.vstack([kernels.forward(X) for X in tables])
    products = KernelProducts(kernels, tables, np.float64)
    everything = range(len(tables))
    dual, values = rng.standard_normal((K.shape[1], columns)), rng.standard_normal((len(K), columns))
    np.testing.assert_allclose(products.there(everything, dual), K @ dual, rtol=0, atol=1e-13 * 4 * K.shape[1])
    np.testing.assert_allclose(products.back(everything, values), K.T @ values, rtol=0, atol=1e-13 * 4 * len(K))
    both = products.there_and_back(everything, dual, lambda s, v: s * v, values)
    np.testing.assert_allclose(both, K.T @ ((K @ dual) * values), rtol=0, atol=1e-13 * 16 * len(K) * K.shape[1])


def test_rows_of_float32_have_values_of_float32_and_sums_of_float64(kernels, tables, rng):
    single = [X.astype(np.float32) for X in tables]
    K = np.vstack([kernels.place(single[0]).forward(X) for X in single])
    assert K.dtype == np.float32
    dual = rng.standard_normal((20, 2))
    expected = K.astype(float) @ dual
    for kept in ("float32", None):
        np.testing.assert_allclose(KernelProducts(kernels, single, kept).there([0, 1, 2], dual), expected, atol=1e-5)
    # What is kept was made in blocks of other sizes, whose products of rows round differently; kept, it is what it is.
    products = KernelProducts(kernels, single, "float32")
    values = np.asarray(products.there([0, 1, 2], np.eye(20)))
    np.testing.assert_array_equal(values, values.astype(np.float32))
    np.testing.assert_allclose(products.there([0, 1, 2], dual), values @ dual, rtol=0, atol=100 * EPS)


def test_sparse_rows(kernels, tables, rng):
    found, _ = all_products(kernels, tables, None, rng)
    some = KernelProducts(kernels, [sparse.csr_array(X) for X in tables])
    rng = np.random.default_rng(0)
    dual = rng.standard_normal((20, 1))
    np.testing.assert_allclose(some.there([0, 1], dual), KernelProducts(kernels, tables).there([0, 1], dual), atol=1e-12)
    assert len(found) == 3


@pytest.mark.parametrize("kept", [None, "float64", "float32"])
def test_the_same_bits_on_any_number_of_threads(kernels, tables, kept):
    each = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="blas"):
            found, _ = all_products(kernels, tables, kept, np.random.default_rng(3))
        each.append(b"".join(array.tobytes() for array in found))
    assert each[0] == each[1] == each[2]


def test_room(tables):
    assert room_for_values(tables[0], "2GB") == 2e9
    assert room_for_values(torch.asarray(tables[0]), 100) == 100
    assert 0 < room_for_values(tables[0]) < np.inf
