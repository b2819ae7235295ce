"""Ridge regression from moments: against scikit-learn and against the dense bordered matrix."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from bochner.solvers.normal_equations import CentredMoments, factorise
from bochner.statistics import Moments

EPS = float(np.finfo(float).eps)


def problem(n, d, c, seed=0):
    rng = np.random.default_rng([seed, n, d, c])
    features = rng.standard_normal((n, d)) + 2
    return features, features @ rng.standard_normal((d, c)) + rng.standard_normal((n, c)) + 5, rng.gamma(2.0, 0.5, n)


def condition(features, weights, alpha):
    """Of the centred matrix that is solved: what rounding errors of its entries are multiplied by."""
    shift = weights.sum() * alpha
    return 1 + float(weights @ np.sum(features**2, axis=1)) / shift


@pytest.mark.parametrize("alpha", [1e-6, 1e-3, 1.0, 100.0])
@pytest.mark.parametrize(("n", "d", "c"), [(30, 5, 1), (30, 5, 3), (8, 20, 2), (3, 1, 1)])
def test_ridge(n, d, c, alpha):
    features, targets, weights = problem(n, d, c)
    solution = CentredMoments(Moments.of(features, targets, weights)).solve(alpha)
    expected = Ridge(alpha=weights.sum() * alpha, solver="svd").fit(features, targets, sample_weight=weights)
    tolerance = n * EPS * condition(features, weights, alpha) * max(1, np.abs(solution.coef).max())
    assert tolerance < 1e-3
    np.testing.assert_allclose(solution.coef, expected.coef_.reshape(c, d).T, rtol=0, atol=tolerance)
    # The intercept is the mean target minus the sum of d coefficients times means of size three.
    np.testing.assert_allclose(solution.intercept, expected.intercept_, rtol=0, atol=10 * d * tolerance)
    assert solution.factor.jitter == 0


@pytest.mark.parametrize("alpha", [1e-3, 1.0])
@pytest.mark.parametrize(("n", "d", "c"), [(30, 5, 1), (8, 20, 3)])
def test_adjoint(n, d, c, alpha):
    features, targets, weights = problem(n, d, c)
    solution = CentredMoments(Moments.of(features, targets, weights)).solve(alpha)
    rng = np.random.default_rng(1)
    right, right_one = rng.standard_normal((d, c)), rng.standard_normal(c)
    with_one = np.c_[features, np.ones(n)]
    bordered = with_one.T @ (weights[:, None] * with_one)
    bordered[:d, :d] += weights.sum() * alpha * np.eye(d)
    expected = np.linalg.inv(bordered) @ np.r_[right, right_one[None]]
    found, found_one = solution.adjoint(right, right_one)
    tolerance = 4 * n * EPS * np.linalg.cond(bordered) * np.abs(expected).max()
    assert tolerance < 1e-3 * np.abs(expected).max()
    np.testing.assert_allclose(found, expected[:d], rtol=0, atol=tolerance)
    np.testing.assert_allclose(found_one, expected[d], rtol=0, atol=tolerance)
    # The solution itself is the adjoint of (Phi' W Y, w' Y).
    again, again_one = solution.adjoint(features.T @ (weights[:, None] * targets), weights @ targets)
    scale = 4 * n * EPS * np.linalg.cond(bordered) * max(1, np.abs(solution.coef).max(), np.abs(solution.intercept).max())
    np.testing.assert_allclose(again, solution.coef, rtol=0, atol=scale)
    np.testing.assert_allclose(again_one, solution.intercept, rtol=0, atol=scale)


INDEFINITE = {
    "zero": np.zeros((4, 4)),
    "rank one": np.ones((4, 4)),
    "slightly indefinite": np.ones((4, 4)) - 1e-13 * np.eye(4),
    "indefinite": np.diag([1.0, 1.0, -1.0]),
    "negative": -np.eye(3),
    "tiny": 1e-300 * np.ones((3, 3)),
    "huge": 1e300 * np.ones((3, 3)),
    "one zero": np.zeros((1, 1)),
}


@pytest.mark.parametrize("shift", [0.0, 1e-14])
@pytest.mark.parametrize("name", INDEFINITE)
def test_factorise_never_raises(name, shift):
    gram = INDEFINITE[name]
    before = gram.copy()
    factor = factorise(gram, shift)
    np.testing.assert_array_equal(gram, before)
    assert np.isfinite(factor.triangle).all()
    assert factor.jitter >= 0
    rebuilt = np.tril(factor.triangle) @ np.tril(factor.triangle).T
    expected = gram + (shift + factor.jitter) * np.eye(len(gram))
    np.testing.assert_allclose(rebuilt, expected, rtol=0, atol=8 * len(gram) * EPS * np.abs(expected).max())


def test_jitter_is_no_larger_than_it_must_be():
    assert factorise(np.eye(3), 0.0).jitter == 0
    # The smallest eigenvalue is -1e-13: ten times that is enough, and the diagonal grows by factors of ten.
    assert factorise(INDEFINITE["slightly indefinite"], 0.0).jitter <= 1e-12
