"""Products with the features of several tables: against the products of one dense matrix."""

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from bochner.engines import forward, products
from bochner.engines.products import Products, TableFeatures
from tests.cases import BUILT_IN, each, relative_error, rows, small_map

ROUNDING = 1e-12
"""Sums of a few hundred products of numbers of order one."""
SIZES = (130, 1, 70)


def tables_of(kernel, container, kept, dtype=np.float64):
    """Tables under one map, and their features with a column of ones as one matrix (n, d + 1)."""
    X = [rows(kernel, n, 3, seed=k).astype(dtype) for k, n in enumerate(SIZES)]
    feature_map = small_map(kernel, 3)
    X = [container(part) for part in X]
    features = [forward(feature_map, part) for part in X]
    tables = [TableFeatures(feature_map, x, f if kept else None) for x, f in zip(X, features, strict=True)]
    whole = np.concatenate([f.toarray() if sparse.issparse(f) else f for f in features]).astype(np.float64)
    return tables, np.c_[whole, np.ones(len(whole))]


@each(BUILT_IN)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("block_bytes", [1, 2**21])
def test_there_and_back(kernel, container, kept, block_bytes, monkeypatch):
    monkeypatch.setattr(products, "PRODUCT_BLOCK_BYTES", block_bytes)
    tables, whole = tables_of(kernel, container, kept)
    coef = np.random.default_rng(0).standard_normal((whole.shape[1], 2))
    weights = np.random.default_rng(1).random((len(whole), 1))
    found, seen = Products(tables).there_and_back(coef, lambda scores, some: some * np.tanh(scores), weights)
    assert relative_error(seen, whole @ coef) <= ROUNDING
    assert relative_error(found, whole.T @ (weights * np.tanh(whole @ coef))) <= ROUNDING


@each(BUILT_IN)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kept", [False, True])
def test_moments_of_every_column_of_weights(kernel, container, kept):
    tables, whole = tables_of(kernel, container, kept)
    weights = np.random.default_rng(1).random((len(whole), 2))
    found = Products(tables).moments(weights)
    assert len(found) == 2
    for moments, column in zip(found, weights.T, strict=True):
        expected = whole.T @ (column[:, None] * whole)
        assert relative_error(moments.gram, expected[:-1, :-1]) <= ROUNDING
        assert relative_error(moments.feature_sum, expected[-1, :-1]) <= ROUNDING
        assert moments.weight == pytest.approx(expected[-1, -1], rel=ROUNDING)


def test_kept_features_stay_as_they_are():
    tables, whole = tables_of(BUILT_IN["gaussian"], np.asarray, kept=True)
    Products(tables).moments(np.full((len(whole), 1), 0.5))
    after = np.concatenate([table.some(slice(None)) for table in tables])
    np.testing.assert_array_equal(after, whole[:, :-1])


@pytest.mark.parametrize("kept", [False, True])
def test_rows_in_single_precision_are_summed_in_double(kept):
    tables, whole = tables_of(BUILT_IN["gaussian"], np.asarray, kept, np.float32)
    coef = np.random.default_rng(0).standard_normal((whole.shape[1], 2))
    found, _ = Products(tables).there_and_back(coef, lambda scores: scores)
    # Features are the same float32 numbers either way, but for a last bit that depends on the size of the block.
    assert relative_error(found, whole.T @ (whole @ coef)) <= (ROUNDING if kept else 1e-6)


def test_equal_bits_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(products, "PRODUCT_BLOCK_BYTES", 1)
    tables, whole = tables_of(BUILT_IN["gaussian"], np.asarray, kept=True)
    coef = np.random.default_rng(0).standard_normal((whole.shape[1], 2))
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            results.append(Products(tables).there_and_back(coef, lambda scores: scores)[0])
    np.testing.assert_array_equal(*results)
