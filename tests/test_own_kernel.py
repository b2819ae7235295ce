"""A kernel of one's own: a class with two methods, at home everywhere a built-in one is."""

import copy
import pickle

import array_api_strict
import numpy as np
import pytest
import torch
from scipy import special

from bochner import FourierFeatures, engines
from bochner.arrays import namespace
from bochner.features import FeatureChoices, build_map
from bochner.features.inputs import best_interval
from bochner.kernels import AdditiveKernel, Exponentiated, ProductKernel, RadialKernel
from bochner.kernels.bandwidth import TYPICAL_VALUE
from tests.cases import (
    each,
    feature_tolerance,
    kernel_tolerance,
    numerical_gradient,
    relative_error,
    rows,
    samplings,
    small_map,
    with_scales,
)
from tests.features.test_approximation import FEW, MANY, SPREAD, estimates, mean_square, pairs_of_rows, standard_errors_off
from tests.features.test_homogeneous import worst_error
from tests.kernels.test_laws import sphere_mean


class Logistic(ProductKernel):
    """k(x, z) = prod_i a_i / sinh(a_i), a = pi s (x - z): frequencies follow the logistic law."""

    def quantile(self, u):
        return np.log(u / (1 - u))

    def profile(self, t):
        return over_sinh(np.pi * abs(t))


class TwoWidths(RadialKernel):
    """k(x, z) = (exp(-r^2 / 2) + exp(-2 r^2)) / 2: frequencies are normal, half of them twice as long."""

    def quantile(self, u, n_columns):
        low = np.sqrt(2 * special.gammaincinv(n_columns / 2, u))  # the quantile lies between those of the two halves
        high = 2 * low
        for _ in range(60):
            middle = (low + high) / 2
            below = sum(special.gammainc(n_columns / 2, (middle / s) ** 2 / 2) for s in (1, 2)) / 2 < u
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2

    def profile(self, t):
        return (2.718281828459045 ** (-(t**2) / 2) + 2.718281828459045 ** (-2 * t**2)) / 2


class SquaredSech(AdditiveKernel):
    """k(x, z) = sum_i s_i^2 sqrt(x_i z_i) sech(log(x_i / z_i) / 2)^2 = sum_i s_i^2 4 (x_i z_i)^(3/2) / (x_i + z_i)^2."""

    def pair(self, a, b):
        xp = namespace(a)
        whole = xp.where(a + b > 0, a + b, xp.ones_like(a + b))
        return 4 * (a * b) ** 1.5 / whole**2

    def spectrum(self, frequency):
        return 2 / np.pi * over_sinh(np.pi * np.abs(frequency))


def over_sinh(a):
    """a / sinh(a) without overflow, one at zero."""
    xp = namespace(a)
    safe = xp.where(a > 0, a, xp.ones_like(a))
    return xp.where(a > 0, 2 * safe * xp.exp(-safe) / -xp.expm1(-2 * safe), xp.ones_like(a))


STATIONARY = {"product": Logistic(), "radial": TwoWidths()}
OWN = {**STATIONARY, "additive": SquaredSech(), "exponentiated": Exponentiated(additive=SquaredSech())}


def test_exact_values():
    assert Logistic()(np.zeros((1, 2)), np.array([[0.5, 0.0]]))[0, 0] == pytest.approx(
        np.pi / 2 / np.sinh(np.pi / 2), rel=1e-14
    )
    assert TwoWidths()(np.zeros((1, 2)), np.array([[3.0, 4.0]]))[0, 0] == pytest.approx(np.exp(-12.5) / 2, rel=1e-13)
    assert SquaredSech()(np.array([[1.0]]), np.array([[4.0]]))[0, 0] == pytest.approx(4 * 8 / 25, rel=1e-14)


@pytest.mark.parametrize("m", [1, 4])
@each(OWN)
def test_exact_matrices(kernel, m):
    kernel = with_scales(kernel, m, shared=False)
    X = rows(kernel, 8, m)
    X = np.concatenate([X, X[:2]])
    K = kernel(X)
    tolerance = kernel_tolerance(kernel, X, X)
    np.testing.assert_allclose(K, K.T, rtol=0, atol=tolerance)
    assert np.linalg.eigvalsh(K).min() >= -len(X) * tolerance
    own = kernel.scales(m) ** 2 @ X.T if kernel.geometry == "additive" else 1.0
    np.testing.assert_allclose(np.diagonal(K), own, rtol=0, atol=tolerance)
    assert kernel(X.astype(np.float32)).dtype == np.float32
    for convert in (torch.tensor, array_api_strict.asarray):
        np.testing.assert_allclose(np.from_dlpack(kernel(convert(X))), K, rtol=0, atol=tolerance)


@pytest.mark.parametrize("m", [1, 3, 10])
@each(STATIONARY)
def test_laws(kernel, m):
    """The mean of the characteristic function's argument over the midpoints of n cells of (0, 1).

    A cell is off by at most what the function changes in it, over n; in all by its variation over n. Cosines, and their
    means on a sphere, change by at most one for each unit of their argument; the two cells at the ends, where quantiles
    run to infinity, by at most two each.
    """
    n = 10_000
    u = (np.arange(n) + 0.5) / n
    points = kernel.quantile(u) if kernel.geometry == "product" else kernel.quantile(u, m)
    for t in (0.3, 1.0, 2.5):
        values = np.cos(t * points) if kernel.geometry == "product" else sphere_mean(t * points, m)
        variation = t * np.ptp(points)
        assert abs(values.mean() - kernel.profile(np.array([t]))[0]) <= (variation + 4) / n


@pytest.mark.parametrize("m", [1, 3, 10])
@each({name: kernel for name, kernel in OWN.items() if name != "additive"})
def test_approximation(kernel, m):
    kernel = kernel.replace(scale=0.5)
    X, Z = pairs_of_rows(kernel, m)
    for sampling in samplings(kernel):
        few, expected = estimates(kernel, X, Z, FEW, sampling=sampling)
        many, _ = estimates(kernel, X, Z, MANY, sampling=sampling)
        assert np.max(standard_errors_off(few, expected)) <= 5
        assert np.max(standard_errors_off(many, expected)) <= 5
        assert mean_square(many, expected) <= mean_square(few, expected) * FEW / MANY * (1 + SPREAD) / (1 - SPREAD)


def test_approximation_by_the_homogeneous_map():
    errors = [worst_error(SquaredSech(), order, best_interval(SquaredSech(), order)) for order in (1, 2, 4, 8)]
    widths = [3, 5, 9, 17]
    for i in range(3):
        assert errors[i + 1] * widths[i + 1] ** 0.5 <= errors[i] * widths[i] ** 0.5


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "per column"])
@each(OWN)
def test_exact_adjoint(kernel, shared, rng):
    kernel = with_scales(kernel, 3, shared=shared)
    X, Z = rows(kernel, 7, 3), rows(kernel, 6, 3, seed=1)
    X[0] = Z[0]
    G = rng.standard_normal((7, 6))
    expected = numerical_gradient(lambda theta: np.sum(G * kernel.with_theta(theta).exact(X, Z)), kernel.theta, 1e-3)
    assert relative_error(kernel.unconstrain(kernel.exact_adjoint(X, Z, G)), expected) < 1e-6


@pytest.mark.parametrize("form", ["paired", "phase"])
@each(OWN)
def test_adjoint(kernel, form, rng):
    kernel = with_scales(kernel, 3, shared=False)
    X = rows(kernel, 6, 3)
    feature_map = small_map(kernel, 3, form=form)
    G = rng.standard_normal((6, feature_map.n_features))

    def value(theta):
        return float(np.sum(feature_map.with_kernel(kernel.with_theta(theta)).forward(X) * G))

    expected = numerical_gradient(value, kernel.theta, 1e-3)
    assert relative_error(kernel.unconstrain(engines.adjoint(feature_map, X, G).parameters), expected) < 1e-6


@each(OWN)
def test_transformer(kernel):
    X = rows(kernel, 25, 3)
    size = None if kernel.geometry == "additive" else 40
    transformer = FourierFeatures(kernel, n_features=size, random_state=0).fit(X)
    assert transformer.kernel_ == kernel
    features = transformer.transform(X)
    again = pickle.loads(pickle.dumps(transformer))
    np.testing.assert_array_equal(again.transform(X), features)
    feature_map = build_map(kernel, 3, FeatureChoices(n_features=size), np.random.default_rng(0))
    if size:
        assert np.all(np.abs(feature_map.forward(X) - features) <= np.tile(feature_tolerance(feature_map, X), 2))
        median = FourierFeatures(kernel, scale="median", n_features=size).fit(X).kernel_
        pairs = median(X)[np.triu_indices(25, k=1)]
        assert np.median(pairs) == pytest.approx(TYPICAL_VALUE, abs=1e-5)  # the log scale is found to 1e-6
    else:
        np.testing.assert_allclose(feature_map.forward(X), features, rtol=0, atol=1e-14)
    from_torch = transformer.transform(torch.tensor(X))
    assert isinstance(from_torch, torch.Tensor)


@each(OWN)
def test_copies(kernel):
    kernel = with_scales(kernel, 3, shared=False)
    for again in (pickle.loads(pickle.dumps(kernel)), copy.deepcopy(kernel)):
        assert again == kernel
        assert hash(again) == hash(kernel)
    assert type(kernel).__name__ in repr(kernel)


def test_a_kernel_with_one_method_missing_cannot_be_made():
    class Half(ProductKernel):
        def profile(self, t):
            return 1 / (1 + t * t)

    with pytest.raises(TypeError, match="quantile"):
        Half()


def test_a_kernel_that_vanishes_has_a_gradient_all_the_same(rng):
    """Profiles with zeros: the product of the other factors cannot be had by dividing."""

    class Wave(ProductKernel):
        """k(x, z) = prod_i cos(s_i (x_i - z_i)): frequencies are plus or minus one."""

        def quantile(self, u):
            return np.sign(u - 0.5)

        def profile(self, t):
            return np.where(np.abs(np.abs(t) - np.pi / 2) < 1e-12, 0.0, np.cos(t))

        def slope(self, t):
            return -np.sin(t)

    kernel = Wave(scale=[1.0, 1.0])
    X = np.array([[np.pi / 2, 0.3], [0.2, 0.1]])
    Z = np.array([[0.0, 0.1]])
    G = rng.standard_normal((2, 1))
    difference = X - Z
    expected = [
        np.sum(G[:, 0] * -np.sin(difference[:, i]) * difference[:, i] * np.cos(difference[:, 1 - i])) for i in (0, 1)
    ]
    np.testing.assert_allclose(kernel.exact_adjoint(X, Z, G)["scale"], expected, rtol=0, atol=1e-14)
