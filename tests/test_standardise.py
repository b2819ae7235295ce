"""Standardiser: zero mean, unit spread, and nothing that a constant, huge or sparse column can break."""

import numpy as np
import pytest
from scipy import sparse

from bochner.standardise import Standardiser

EPS = float(np.finfo(float).eps)


@pytest.fixture
def weights(rng):
    return rng.gamma(2.0, 0.5, 50)


@pytest.fixture(name="X")
def table(rng):
    return rng.standard_normal((50, 4)) * [1, 10, 1e-3, 1e200] + [0, 5, 1, -3e200]


def test_zero_mean_and_unit_spread(X, weights):
    standardised = Standardiser.of(X, weights)(X)
    share = weights / weights.sum()
    # A mean of 50 values, around offsets of up to 1000 spreads.
    np.testing.assert_allclose(share @ standardised, 0, rtol=0, atol=1000 * 50 * EPS)
    np.testing.assert_allclose(share @ standardised**2, 1, rtol=0, atol=1000 * 2 * 50 * EPS)


def test_undo(X, weights):
    standardiser = Standardiser.of(X, weights)
    np.testing.assert_allclose(standardiser.undo(standardiser(X)) / X, 1, rtol=0, atol=1e4 * EPS)  # y / x down to 1e-4
    np.testing.assert_array_equal(Standardiser.identity(4)(X), X)
    np.testing.assert_array_equal(Standardiser.identity(4).undo(X), X)


def test_weight_two_is_a_row_twice(X, weights):
    double = weights.copy()
    double[7] *= 2
    one, two = Standardiser.of(X, double), Standardiser.of(np.r_[X, X[7:8]], np.r_[weights, weights[7]])
    np.testing.assert_allclose(one.centre, two.centre, rtol=4 * 51 * EPS)
    np.testing.assert_allclose(one.spread, two.spread, rtol=1000 * 51 * EPS)


@pytest.mark.parametrize("value", [0.0, 5.0, 0.1, -3e-200, 0.1e9, 1e200, -1.7e308])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_constant_columns(value, convert, weights):
    X = np.c_[np.full(50, value), np.arange(50.0)]
    standardiser = Standardiser.of(convert(X), weights)
    standardised = standardiser(convert(X))
    values = standardised.toarray() if sparse.issparse(standardised) else standardised
    assert np.isfinite(values).all()
    assert np.ptp(values[:, 0]) <= 1e-3  # rounding is not taken for a signal
    if abs(value) < 1e6:
        assert standardiser.spread[0] == 1


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_rows_are_not_centred(container, weights, rng):
    X = rng.standard_normal((50, 3)) * [1, 1e-200, 1e200]
    X[rng.random(X.shape) < 0.7] = 0
    standardiser = Standardiser.of(container(X), weights)
    standardised = standardiser(container(X))
    assert sparse.issparse(standardised)
    np.testing.assert_array_equal(standardiser.centre, 0)
    np.testing.assert_array_equal(standardised.toarray() == 0, X == 0)
    # The variance is a difference of two numbers of size one, below the largest square by a factor of a hundred at most.
    np.testing.assert_allclose(standardiser.spread, Standardiser.of(X, weights).spread, rtol=100 * 50 * EPS)
    np.testing.assert_allclose(standardised.toarray() * standardiser.spread, X, rtol=4 * EPS)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_rows_are_centred_where_the_fitted_ones_were(container, dtype, weights, rng):
    X = rng.uniform(0, 1, (50, 3)).astype(dtype)
    X[X < 0.5] = 0
    standardiser = Standardiser.of(X, weights)
    standardised = standardiser(container(X))
    assert isinstance(standardised, np.ndarray)
    assert standardised.dtype == dtype
    np.testing.assert_array_equal(standardised, standardiser(X))
    assert sparse.issparse(Standardiser.identity(3)(container(X)))


def test_dtype_is_kept(rng, weights):
    X = rng.standard_normal((50, 3)).astype(np.float32)
    standardiser = Standardiser.of(X, weights)
    assert standardiser.spread.dtype == np.float64
    assert standardiser(X).dtype == np.float32
    assert standardiser(sparse.csr_array(X)).dtype == np.float32
    # Rows and centre are rounded to float32: two roundings and a division, of values below 4.
    np.testing.assert_allclose(standardiser(X), standardiser(X.astype(float)), rtol=0, atol=16 * np.finfo(np.float32).eps)
