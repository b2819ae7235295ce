"""Moments: sums over rows, against the rows themselves."""

import numpy as np
import pytest
from scipy import sparse

from bochner.statistics import Moments

EPS = float(np.finfo(float).eps)
FIELDS = ("gram", "cross", "feature_sum", "target_sum", "target_square", "weight")


@pytest.fixture
def block(rng):
    """Features (40, 7), targets (40, 3) and weights (40,), one of them zero."""
    weights = rng.gamma(2.0, 0.5, 40)
    weights[3] = 0
    return rng.standard_normal((40, 7)), rng.standard_normal((40, 3)), weights


def close(one, two, *, atol):
    for name in FIELDS:
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=0, atol=atol, err_msg=name)


def size(features, targets, weights):
    """A bound on the sum of absolute products in any field: what rounding errors are relative to."""
    largest = max(1.0, np.abs(features).max(), np.abs(targets).max())
    return largest**2 * float(weights.sum())


def naive(features, targets, weights):
    """The same sums, a row at a time."""
    d, c = features.shape[1], targets.shape[1]
    gram, cross, feature_sum = np.zeros((d, d)), np.zeros((d, c)), np.zeros(d)
    target_sum, target_square, total = np.zeros(c), np.zeros(c), 0.0
    for phi, y, w in zip(features, targets, weights, strict=True):
        gram += w * np.outer(phi, phi)
        cross += w * np.outer(phi, y)
        feature_sum += w * phi
        target_sum += w * y
        target_square += w * y * y
        total += w
    return Moments(gram, cross, feature_sum, target_sum, target_square, total)


def test_sums(block):
    # Sums of n products err by at most about n eps of the sum of their sizes, on both sides; square roots of weights add 2.
    close(Moments.of(*block), naive(*block), atol=2 * (40 + 4) * EPS * size(*block))


def test_sparse_features(block):
    features, targets, weights = block
    features = np.where(np.abs(features) < 1, 0, features)
    for container in (sparse.csr_array, sparse.csr_matrix):
        close(Moments.of(container(features), targets, weights), Moments.of(features, targets, weights), atol=0)


def test_blocks_add_up(block):
    whole = Moments.of(*block)
    first, second = (Moments.of(*(a[part] for a in block)) for part in (slice(0, 13), slice(13, None)))
    close(first + second, whole, atol=4 * (40 + 4) * EPS * size(*block))


def test_weight_two_is_a_row_twice(block):
    features, targets, weights = block
    double = weights.copy()
    double[5] *= 2
    repeated = [np.concatenate([a, a[5:6]]) for a in block]
    close(Moments.of(features, targets, double), Moments.of(*repeated), atol=2 * (41 + 4) * EPS * size(*repeated))


def test_weight_zero_is_no_row(block):
    kept = [np.delete(a, 3, axis=0) for a in block]
    close(Moments.of(*block), Moments.of(*kept), atol=2 * (40 + 4) * EPS * size(*block))


def test_residuals(block, rng):
    features, targets, weights = block
    coef, intercept = rng.standard_normal((7, 3)), rng.standard_normal(3)
    moments = Moments.of(*block)
    residual = features @ coef + intercept - targets
    # Sums over 40 rows and, twice, over 7 coefficients, each of size one to three.
    scale = size(*block) * (1 + np.abs(coef).sum(axis=0).max() + np.abs(intercept).max()) ** 2
    tolerance = {"rtol": 0, "atol": 4 * (40 + 2 * 7) * EPS * scale}
    np.testing.assert_allclose(moments.squared_error(coef, intercept), weights @ residual**2, **tolerance)
    with_features, with_one = moments.residual_products(coef, intercept)
    np.testing.assert_allclose(with_features, features.T @ (weights[:, None] * residual), **tolerance)
    np.testing.assert_allclose(with_one, weights @ residual, **tolerance)


def test_whole_numbers_are_numbers_like_others(block):
    features, targets, weights = block
    whole = np.round(3 * features)
    for dtype in (np.int8, np.int64, np.float16):
        close(Moments.of(whole.astype(dtype), targets, weights), Moments.of(whole, targets, weights), atol=0)


def test_float32_features_give_float64_sums(block):
    features, targets, weights = block
    single = Moments.of(features.astype(np.float32), targets, weights)
    assert all(np.asarray(getattr(single, name)).dtype == np.float64 for name in FIELDS)
    # Features, targets, weights and products are rounded to float32.
    close(single, Moments.of(*block), atol=2 * (40 + 4) * float(np.finfo(np.float32).eps) * size(*block))
