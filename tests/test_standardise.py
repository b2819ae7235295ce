"""Standardiser: zero mean, unit spread, and nothing that a constant, huge or sparse column can break."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from bochner.standardise import ColumnSums, Standardiser

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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_writing_is_calling_in_float64(dtype, weights, rng):
    rows = rng.standard_normal((50, 4)).astype(dtype)
    for standardiser in (Standardiser.of(rows, weights), Standardiser.identity(4)):
        out = np.empty((50, 6))
        standardiser.write(rows, out[:, 1:5])
        np.testing.assert_array_equal(out[:, 1:5], standardiser(rows.astype(np.float64)))


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


# -- sums over blocks ----------------------------------------------------------------------------------------------------


def sums_of(X, weights, cuts=(0, 1, 20, 50)):
    sums = ColumnSums(X.shape[1])
    for start, stop in pairwise(cuts):
        sums.add(X[start:stop], weights[start:stop])
    return sums


@pytest.mark.parametrize("mean", [0.0, 1e3, 1e8])
@pytest.mark.parametrize("cuts", [(0, 50), (0, 1, 20, 50), tuple(range(51))])
def test_sums_over_blocks(mean, cuts, weights, rng):
    X = rng.standard_normal((50, 3)) * [1, 10, 0.1] + mean
    sums = sums_of(X, weights, cuts)
    share = weights / weights.sum()
    expected = share @ X
    spread = np.sqrt(share @ (X - expected) ** 2)
    assert sums.weight == pytest.approx(weights.sum(), rel=50 * EPS)
    unit = np.abs(X).max(axis=0)
    np.testing.assert_allclose(sums.mean / unit, expected / unit, rtol=0, atol=2 * 50 * EPS)
    # Each block's mean is off by its rounding, a few eps of the largest value, which is up to 1e9 spreads here.
    np.testing.assert_allclose(sums.spread / unit, spread / unit, rtol=0, atol=4 * 50 * EPS)
    np.testing.assert_array_equal(sums.largest, unit)
    assert sums.smallest == X.min()


def test_sums_of_huge_columns_do_not_overflow(X, weights):
    sums, whole = sums_of(X, weights), Standardiser.of(X, weights)
    found = Standardiser.of_sums(sums)
    np.testing.assert_allclose(found.spread, whole.spread, rtol=1e-10)
    np.testing.assert_allclose(found.centre, whole.centre, rtol=0, atol=1e-12 * sums.largest.max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix])
def test_sums_of_sparse_blocks(container, dtype, weights, rng):
    X = rng.uniform(0, 1, (50, 3)).astype(dtype)
    X[X < 0.5] = 0
    sums, whole = sums_of(container(X), weights), sums_of(X.astype(float), weights)
    # The square is a difference of numbers of size one, and the spread is about a third.
    np.testing.assert_allclose(sums.mean, whole.mean, rtol=100 * np.finfo(np.float64).eps)
    np.testing.assert_allclose(sums.spread, whole.spread, rtol=1e-12)
    assert sums.smallest == 0
    found, expected = Standardiser.of_sums(sums, centred=False), Standardiser.of(container(X.astype(float)), weights)
    np.testing.assert_array_equal(found.centre, 0)
    np.testing.assert_allclose(found.spread, expected.spread, rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, 5.0, 0.1, -3e-200, 1e200])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_constant_columns_in_blocks(value, convert, weights):
    X = np.c_[np.full(50, value), np.arange(50.0)]
    sums = sums_of(convert(X), weights)
    found = Standardiser.of_sums(sums, centred=not sparse.issparse(convert(X)))
    standardised = found(convert(X))
    values = standardised.toarray() if sparse.issparse(standardised) else standardised
    assert np.ptp(values[:, 0]) <= 1e-3  # rounding is not taken for a signal
    if abs(value) < 1e6:
        assert found.spread[0] == 1


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_rows_of_weight_zero_are_not_in_the_sums(container, rng):
    X, weights = rng.standard_normal((50, 3)), np.ones(50)
    weights[20:40] = 0
    X[30] = -1e9
    sums, others = sums_of(container(X), weights), sums_of(container(X[weights > 0]), np.ones(30), (0, 1, 20, 30))
    np.testing.assert_allclose(sums.mean, others.mean, rtol=1e-12)
    np.testing.assert_allclose(sums.spread, others.spread, rtol=1e-12)
    assert sums.smallest == others.smallest
    np.testing.assert_array_equal(sums.largest, others.largest)
