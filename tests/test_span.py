"""Coordinates of few rows in the span of their features: all of them, or the leading ones."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from bochner import MultipleKernelRegressor
from bochner.engines import forward
from bochner.kernels import Gaussian
from bochner.span import LeadingSpan, Span, StackedSpan

N, FEATURES, MOST = 60, 100, 8
PARTS = [(f"k{t}", Gaussian(scale=0.6), [t]) for t in range(3)]


def projected(features, most):
    """Features with nothing but their first right singular vectors."""
    _, _, vectors = np.linalg.svd(features, full_matrices=False)
    return features @ vectors[:most].T @ vectors[:most]


def test_leading_coordinates_are_those_of_the_singular_vectors(rng):
    features, coef = rng.standard_normal((N, FEATURES)), rng.standard_normal((MOST, 2))
    span = LeadingSpan.of(features, MOST)
    assert span.coordinates.shape == (N, MOST)
    near = projected(features, MOST)
    np.testing.assert_allclose(span.coordinates @ span.coordinates.T, near @ near.T, rtol=0, atol=1e-10)
    np.testing.assert_allclose(features @ span.expand(coef), span.coordinates @ coef, rtol=0, atol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(span.expand(coef), axis=0), np.linalg.norm(coef, axis=0), rtol=1e-10)


def test_directions_of_rounding_are_left_out(rng):
    features = rng.standard_normal((N, 3)) @ rng.standard_normal((3, FEATURES))
    assert LeadingSpan.of(features, MOST).coordinates.shape == (N, 3)


def test_rows_that_differ_by_less_than_rounding_share_their_coordinates(rng):
    features = np.repeat(rng.standard_normal((5, FEATURES)), 2, axis=0)
    features[:, 1], features[::2, 1] = 0.0, 1e-320
    span = Span.of(features)
    assert span.coordinates.shape == (10, 5)
    np.testing.assert_array_equal(span.coordinates[::2], span.coordinates[1::2])
    np.testing.assert_allclose(span.coordinates @ span.coordinates.T, features @ features.T, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("unit", [1e-100, 1.0, 1e100])
def test_rows_that_are_combinations_of_others_have_no_coordinate_of_their_own(rng, unit):
    own = unit * rng.standard_normal((5, FEATURES))
    features = np.vstack([own, rng.standard_normal((7, 5)) @ own]) * (1 + 1e-15 * rng.standard_normal((12, FEATURES)))
    span = Span.of(features)
    assert span.coordinates.shape == (12, 5)
    size, coef = unit * np.sqrt(FEATURES), rng.standard_normal((5, 2))
    np.testing.assert_allclose(span.coordinates @ span.coordinates.T / size**2, features @ features.T / size**2, atol=1e-12)
    np.testing.assert_allclose(features @ span.expand(coef) / size, span.coordinates @ coef / size, rtol=0, atol=1e-12)
    np.testing.assert_allclose(span.reduce(span.expand(coef)), coef, rtol=0, atol=1e-12)


def test_few_features_and_as_many_coordinates_as_rows_are_left_as_they_are(rng):
    some, many = rng.standard_normal((N, 20)), rng.standard_normal((N, FEATURES))
    assert StackedSpan.of([some, many], MOST).sizes == (20, MOST)
    assert StackedSpan.of([many], N).sizes == (N,)
    np.testing.assert_array_equal(StackedSpan.of([many], N).coordinates, StackedSpan.of([many]).coordinates)


def test_the_model_is_one_of_the_features_in_these_directions(rng):
    X, new = rng.standard_normal((N, 3)), rng.standard_normal((20, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    options = {
        "n_features": FEATURES,
        "l1_ratio": 0.0,
        "refit": None,
        "alpha": 1e-3,
        "standardize": False,
        "random_state": 0,
    }
    model = MultipleKernelRegressor(PARTS, n_coordinates=3, **options).fit(X, y)
    features = np.split(forward(model.feature_map_, X), 3, axis=1)
    peer = Ridge(alpha=N * 1e-3).fit(np.hstack([projected(some, 3) for some in features]), y)
    expected = forward(model.feature_map_, new) @ peer.coef_ + peer.intercept_
    np.testing.assert_allclose(model.predict(new), expected, rtol=0, atol=1e-8)
    whole = MultipleKernelRegressor(PARTS, **options).fit(X, y).predict(new)
    assert np.abs(model.predict(new) - whole).max() > 1e-3  # something was left out
    same = MultipleKernelRegressor(PARTS, n_coordinates=N, **options).fit(X, y).predict(new)
    np.testing.assert_array_equal(same, whole)


@pytest.mark.parametrize("value", [0, -1, 2.5, "many"])
def test_numbers_that_cannot_be(value):
    with pytest.raises(ValueError, match="n_coordinates must be a whole number, at least 1"):
        MultipleKernelRegressor(PARTS, n_coordinates=value).fit(np.eye(3), np.arange(3.0))
