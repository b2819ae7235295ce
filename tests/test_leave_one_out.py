"""Leave-one-out error in closed form, against refitting without each row."""

import numpy as np
import pytest

from bochner.engines import forward
from bochner.features import FeatureChoices, build_map
from bochner.folds import Folds, Rows
from bochner.kernels import Gaussian
from bochner.leave_one_out import LeaveOneOutError, LeaveOneOutRidge
from tests.cases import ALL, each, rows, small_map, with_scales

SIZES = pytest.mark.parametrize("n_features", [10, 80], ids=["more rows than features", "more features than rows"])


def problem(kernel, n=25, m=3, seed=0):
    rng = np.random.default_rng(seed)
    return Rows(rows(kernel, n, m), rng.standard_normal((n, 2)), rng.uniform(0.5, 2, n))


def criterion_of(data):
    return LeaveOneOutError(Folds((data,), (0,)))


@SIZES
def test_value_and_predictions_are_those_of_refits(n_features):
    data = problem(Gaussian())
    feature_map = build_map(Gaussian(), 3, FeatureChoices(n_features=n_features), np.random.default_rng(0))
    found = criterion_of(data).evaluate(feature_map)
    features = np.column_stack([forward(feature_map, data.X), np.ones(data.n)])
    penalty = data.weights.sum() * np.exp(found.log_alpha) * np.diag([1.0] * n_features + [0.0])
    predictions = np.empty_like(data.targets)
    for i in range(data.n):
        rest = np.arange(data.n) != i
        weighted = features[rest] * data.weights[rest, None]
        coef = np.linalg.solve(weighted.T @ features[rest] + penalty, weighted.T @ data.targets[rest])
        predictions[i] = features[i] @ coef
    error = np.sum(data.weights[:, None] * (predictions - data.targets) ** 2) / (2 * data.weights.sum())
    assert found.value == pytest.approx(error, rel=1e-8)
    np.testing.assert_allclose(
        criterion_of(data).held_out(feature_map, found).predictions, predictions, rtol=1e-7, atol=1e-8
    )


@SIZES
@each(ALL)
def test_gradient(kernel, n_features):
    kernel = with_scales(kernel, 3, shared=False)
    data = problem(kernel)
    feature_map = small_map(kernel, 3, frequencies=n_features // 2)
    found = criterion_of(data).evaluate(feature_map)

    def value(theta):
        features = forward(feature_map.with_kernel(kernel.with_theta(theta)), data.X)
        return LeaveOneOutRidge(features, data).at(found.log_alpha).value

    gradient = kernel.unconstrain(found.gradient.parameters)
    expected = np.empty_like(gradient)
    for i in range(len(expected)):
        step = np.zeros_like(expected)
        step[i] = 1e-5  # heavy-tailed frequencies turn fast
        near, far = (value(kernel.theta + k * step) - value(kernel.theta - k * step) for k in (1, 2))
        expected[i] = (8 * near - far) / 12e-5
    assert np.max(np.abs(gradient - expected)) < 1e-5 * np.max(np.abs(expected))


def test_derivative_in_the_penalty():
    data = problem(Gaussian())
    ridge = LeaveOneOutRidge(forward(small_map(Gaussian(), 3), data.X), data)
    difference = (ridge.at(-4 + 1e-4).value - ridge.at(-4 - 1e-4).value) / 2e-4
    assert ridge.at(-4.0).slope == pytest.approx(difference, rel=1e-6)
