"""The deterministic features of additive kernels: formula, interval, error, scikit-learn's sampler."""

import numpy as np
import pytest
from sklearn.kernel_approximation import AdditiveChi2Sampler

from bochner.features.inputs import HomogeneousInput, best_interval
from bochner.kernels import Chi2
from tests import naive
from tests.cases import ADDITIVE, each, relative_error, rows, small_map, with_scales

EPS = np.finfo(float).eps


def worst_error(kernel, order, interval):
    """Largest |k(1, z) - <psi(1), psi(z)>| over z in (0, 1]: by homogeneity the largest over all x, z in [0, 1]."""
    z = np.exp(-np.linspace(0, 25, 4001))[:, None]
    psi = HomogeneousInput(kernel, order, interval)
    return float(np.max(np.abs(kernel(np.ones((1, 1)), z) - psi(np.ones((1, 1))) @ psi(z).T)))


@pytest.mark.parametrize("order", [0, 1, 2, 5])
@each(ADDITIVE)
def test_equal_to_the_formula(kernel, order):
    X = rows(kernel, 6, 3)
    psi = HomogeneousInput(kernel, order, 0.45)
    expected = naive.homogeneous_map(X, kernel.spectrum, order, 0.45)
    # Angles j L log x are below 20: a cosine off by 20 eps and its own 8.
    np.testing.assert_allclose(psi(X), expected, rtol=0, atol=(20 + 16) * EPS * np.sqrt(X.max()))
    assert psi.width == 2 * order + 1


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "per column"])
@each(ADDITIVE)
def test_the_map_multiplies_by_the_scales(kernel, shared):
    kernel = with_scales(kernel, 3, shared=shared)
    X = rows(kernel, 6, 3)
    feature_map = small_map(kernel, 3)
    expected = naive.homogeneous_map(X, kernel.spectrum, 2, feature_map.inputs.interval) * np.tile(kernel.scales(3), 5)
    np.testing.assert_allclose(feature_map.forward(X), expected, rtol=0, atol=(20 + 16) * EPS * np.sqrt(X.max()))
    assert feature_map.n_features == feature_map.widest == 15


@pytest.mark.parametrize("order", [0, 1, 2, 3])
@pytest.mark.parametrize("interval", [0.3, 0.5, 0.8])
def test_equal_to_scikit_learns_sampler(order, interval):
    X = rows(Chi2(), 8, 4)
    theirs = AdditiveChi2Sampler(sample_steps=order + 1, sample_interval=interval).fit_transform(X)
    ours = HomogeneousInput(Chi2(), order, interval)(X)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=(20 + 16) * EPS * np.sqrt(X.max()))


@pytest.mark.parametrize(("order", "theirs"), [(0, 0.8), (1, 0.5), (2, 0.4)])
def test_best_interval_is_no_worse_than_scikit_learns(order, theirs):
    ours = best_interval(Chi2(), order)
    assert worst_error(Chi2(), order, ours) <= worst_error(Chi2(), order, theirs)


@pytest.mark.parametrize("order", [0, 1, 2, 4, 8])
@each(ADDITIVE)
def test_best_interval_is_the_best_of_a_fine_grid(kernel, order):
    ours = worst_error(kernel, order, best_interval(kernel, order))
    grid = np.geomspace(0.01, 4.0, 200)
    # The last grid of best_interval has steps of 0.2% of L around the best point of one with steps of 8%; the error is
    # Lipschitz in log L with a constant below its own size times ten, which leaves 2%.
    assert ours <= 1.02 * min(worst_error(kernel, order, interval) for interval in grid)


def test_best_interval_does_not_depend_on_the_scale():
    assert best_interval(Chi2(scale=[1.0, 5.0]), 2) == best_interval(Chi2(), 2)


@pytest.mark.parametrize("m", [1, 3, 10])
@each(ADDITIVE)
def test_error_falls_with_the_order_at_least_as_fast_as_random_features(kernel, m):
    """d = (2 p + 1) m features: the worst error at order p times sqrt(d) must not grow.

    From order one on: at order zero there is no frequency yet, only sqrt(x), which is better than its one feature would
    suggest for the slowly decaying spectrum of the intersection kernel (0.172, then 0.104, a factor of 1.65 < sqrt(3)).
    """
    X = np.tile(np.exp(-np.linspace(0, 25, 1001))[:, None], m)  # the worst pairs have the same worst ratio in all columns
    Z = np.ones((1, m))
    exact = kernel(X, Z)
    previous = None
    for order in (1, 2, 4, 8, 16):
        feature_map = small_map(kernel, m, order=order)
        error = np.max(np.abs(exact - feature_map.forward(X) @ feature_map.forward(Z).T)) * feature_map.n_features**0.5
        assert previous is None or error <= previous
        previous = error


@each(ADDITIVE)
def test_adjoint_is_a_sum_of_products(kernel, rng):
    kernel = with_scales(kernel, 3, shared=False)
    X = rows(kernel, 6, 3)
    feature_map = small_map(kernel, 3)
    G = rng.standard_normal((6, 15))
    gradient = feature_map.adjoint(X, G)
    assert gradient.frequencies is None
    products = (feature_map.forward(X) * G).sum(axis=0).reshape(5, 3).sum(axis=0)
    assert relative_error(gradient.parameters["scale"] * kernel.scale, products) < 1e-13  # linear in the scales: 30 terms


@each(ADDITIVE)
def test_zeros_stay_zero_and_small_values_stay_finite(kernel):
    feature_map = small_map(kernel, 2)
    X = np.array([[0.0, 1.0], [5e-324, 1e-300], [1e300, 0.0]])
    features = feature_map.forward(X)
    assert np.isfinite(features).all()
    np.testing.assert_array_equal(features[0, ::2], 0)


def test_names():
    feature_map = small_map(Chi2(), 2, order=1)
    assert feature_map.feature_names(["a", "b"]) == ["a_sqrt", "b_sqrt", "a_cos1", "b_cos1", "a_sin1", "b_sin1"]
