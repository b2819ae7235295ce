"""A Gaussian kernel plus a linear one of other columns: its formula, its gradients, its features, and learning with it."""

import numpy as np
import pytest
import torch

from bochner import KernelRegressor
from bochner.exact import KernelRidgeGD
from bochner.features import FeatureChoices, build_map
from bochner.kernels import Gaussian, GaussianPlusLinear
from tests.cases import numerical_gradient, relative_error

LINEAR = np.array([False, True, False, True, True])
KERNEL = GaussianPlusLinear(linear=tuple(LINEAR.tolist()), scale=np.array([0.5, 0.7, 0.9, 1.1, 0.6]))


def rows(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, len(LINEAR)))


def formula(X, Z):
    """Entry by entry."""
    s = np.asarray(KERNEL.scale)
    smooth = [[np.exp(-0.5 * sum((s[i] * (x[i] - z[i])) ** 2 for i in (0, 2))) for z in Z] for x in X]
    return np.array(smooth) + [[sum(s[j] ** 2 * x[j] * z[j] for j in (1, 3, 4)) for z in Z] for x in X]


def test_it_is_the_sum_of_both_parts():
    X, Z = rows(7), rows(6, seed=1)
    X[0] = Z[0]
    # Sums of five products of numbers below ten, and the distance of a pair that is computed from x - z.
    np.testing.assert_allclose(KERNEL(X, Z), formula(X, Z), rtol=0, atol=1e-13)
    np.testing.assert_allclose(KERNEL(torch.tensor(X), torch.tensor(Z)).numpy(), formula(X, Z), rtol=0, atol=1e-13)


def test_gradients_are_those_of_differences(rng):
    X, Z = rows(7), rows(6, seed=1)
    X[0] = Z[0]
    G = rng.standard_normal((7, 6))
    expected = numerical_gradient(lambda theta: float(np.sum(G * KERNEL.with_theta(theta)(X, Z))), KERNEL.theta, 1e-3)
    assert relative_error(KERNEL.unconstrain(KERNEL.exact_adjoint(X, Z, G)), expected) < 1e-6
    feature_map = build_map(KERNEL, 5, FeatureChoices(n_features=11), rng)
    H = rng.standard_normal((7, feature_map.n_features))
    expected = numerical_gradient(
        lambda theta: float(np.sum(H * feature_map.with_kernel(KERNEL.with_theta(theta)).forward(X))), KERNEL.theta, 1e-3
    )
    for features in (None, feature_map.forward(X)):
        gradient = feature_map.adjoint(X, H, features).parameters
        assert relative_error(KERNEL.unconstrain(gradient), expected) < 1e-6


def test_features_are_fourier_ones_and_the_linear_columns_themselves():
    X = rows(6)
    feature_map = build_map(KERNEL, 5, FeatureChoices(n_features=13), np.random.default_rng(0))
    alone = build_map(KERNEL.gaussian, 2, FeatureChoices(n_features=10), np.random.default_rng(0))
    features = feature_map.forward(X)
    assert features.shape == (6, feature_map.n_features) == (6, 13)
    np.testing.assert_array_equal(features[:, :10], alone.forward(X[:, ~LINEAR]))
    np.testing.assert_array_equal(features[:, 10:], X[:, LINEAR] * np.asarray(KERNEL.scale)[LINEAR])
    placed = feature_map.place(torch.tensor(X)).forward(torch.tensor(X))
    np.testing.assert_allclose(placed.numpy(), features, rtol=0, atol=1e-13)
    assert feature_map.feature_names(np.array(list("abcde")))[-3:] == ["b", "d", "e"]


def test_few_features_are_half_fourier_ones_and_all_linear_columns():
    feature_map = build_map(KERNEL, 5, FeatureChoices(n_features=4), np.random.default_rng(0))
    assert (feature_map.fourier.n_features, feature_map.n_features) == (2, 5)


def test_both_learners_find_what_is_linear_and_what_is_not():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((700, 5))
    truth = np.sin(2 * X[:, 0]) + 3 * X[:, 1] - X[:, 4]
    y = truth + 0.3 * rng.standard_normal(700)
    start = KERNEL.replace(scale=np.full(5, 0.7))
    for model in (KernelRegressor(start, n_features=300, random_state=0), KernelRidgeGD(start, random_state=0)):
        model.fit(X[:500], y[:500])
        assert isinstance(model.kernel_, GaussianPlusLinear)
        assert np.mean((model.predict(X[500:]) - truth[500:]) ** 2) < 0.3**2 / 3  # much less than the noise


@pytest.mark.parametrize("linear", [(), (True, True), (False,), (0, 1), "ab", [(True,), (True, False)]])
def test_columns_are_told_apart_by_flags_of_both_kinds(linear):
    with pytest.raises(ValueError, match=r"GaussianPlusLinear\.linear must"):
        GaussianPlusLinear(linear=linear)


def test_another_number_of_columns_is_refused():
    with pytest.raises(ValueError, match="linear has 5 entries and the rows have 4 columns"):
        KERNEL(np.zeros((2, 4)))
    assert isinstance(KERNEL.gaussian, Gaussian)
