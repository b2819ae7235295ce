"""Features from data centres: their products against the exact kernel, their gradient against differences."""

import pickle

import array_api_strict
import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.kernel_ridge import KernelRidge

from bochner import engines
from bochner.features import CentreKernels, CentreMap
from bochner.features.centres import factorise
from bochner.kernels import Gaussian, Laplacian, Matern, MetricKernel, SkewedChi2
from bochner.solvers.normal_equations import CentredMoments
from tests import naive
from tests.cases import kernel_tolerance, numerical_gradient, relative_error, slope_along

EPS = np.finfo(float).eps
A = np.random.default_rng(5).standard_normal((3, 2))
KERNELS = {
    "gaussian": Gaussian(scale=[1.0, 1.5, 2.0]),
    "shared": Gaussian(scale=1.3),
    "matern32": Matern(nu=1.5, scale=[0.5, 1.0, 1.5]),
    "matern12": Matern(nu=0.5, scale=[0.5, 1.0, 1.5]),
    "laplacian": Laplacian(scale=[0.5, 1.0, 1.5]),
    "skewed": SkewedChi2(c=6.0),
    "gaussian metric": MetricKernel(Gaussian(), A),
    "matern32 metric": MetricKernel(Matern(nu=1.5), A),
    "laplacian metric": MetricKernel(Laplacian(), A),
}
each_kernel = pytest.mark.parametrize("kernel", [pytest.param(kernel, id=name) for name, kernel in KERNELS.items()])


def case(kernel, n=9, size=6, seed=0):
    rng = np.random.default_rng(seed)
    X, C = rng.standard_normal((n, 3)), rng.standard_normal((size, 3))
    X[0] = C[0]
    return X, CentreMap(kernel, C)


def condition(feature_map):
    return float(np.linalg.cond(feature_map.factor))


@each_kernel
def test_the_formula(kernel):
    X, feature_map = case(kernel)
    K = feature_map.kernel.exact(feature_map.centres, feature_map.centres)
    between = feature_map.kernel.exact(X, feature_map.centres)
    expected = naive.whitened(between, K)
    assert feature_map.jitter == 0
    # Both solve with the same matrix, in another order: eps times its condition number, for six centres.
    np.testing.assert_allclose(feature_map.forward(X), expected, rtol=0, atol=100 * condition(feature_map) ** 2 * EPS)
    np.testing.assert_allclose(feature_map.kernels.forward(X), between, rtol=0, atol=kernel_tolerance(kernel, X, X))
    assert feature_map.feature_names(["a", "b", "c"]) == [f"centre{j}" for j in range(6)]


@each_kernel
def test_all_rows_as_centres_give_the_kernel_itself(kernel):
    X, _ = case(kernel, n=60)
    features = CentreMap(kernel, X).forward(X)
    # L L' is K but for 60 roundings of numbers below one, and the rows of L^-1 K are those of L likewise.
    bound = 60 * 60 * EPS + 2 * condition(CentreMap(kernel, X)) * kernel_tolerance(kernel, X, X)
    np.testing.assert_allclose(features @ features.T, kernel.exact(X, X), rtol=0, atol=bound)


@pytest.mark.parametrize("size", [1, 127, 128, 129, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_centres_in_blocks_of_columns(size, dtype, rng):
    """The blocked substitution is one triangular solve, there and back, and does not care for the layout of its rows."""
    C, X = rng.standard_normal((size, 3)).astype(dtype), rng.standard_normal((40, 3)).astype(dtype)
    feature_map = CentreMap(Matern(nu=0.5, scale=2.0), C)
    features = feature_map.forward(X)
    assert features.dtype == dtype
    expected = np.linalg.solve(feature_map.factor, feature_map.kernel.exact(C.astype(float), X.astype(float))).T
    bound = 10 * size * condition(feature_map) * np.finfo(dtype).eps
    np.testing.assert_allclose(features, expected, rtol=0, atol=bound)
    inside = np.zeros((40, size + 4), dtype=dtype)
    feature_map.forward(X, out=inside[:, 2:-2])
    np.testing.assert_allclose(inside[:, 2:-2], features, rtol=0, atol=bound)
    assert not inside[:, :2].any()
    assert not inside[:, -2:].any()
    coef = rng.standard_normal((size, 2)).astype(dtype)
    values = feature_map.kernel.exact(X.astype(float), C.astype(float)) @ feature_map.dual(coef)
    np.testing.assert_allclose(values, expected @ coef, rtol=0, atol=10 * size**0.5 * bound)


@pytest.mark.parametrize("kernel", [KERNELS["gaussian"], KERNELS["matern32 metric"]], ids=["gaussian", "metric"])
def test_ridge_on_all_rows_as_centres_is_kernel_ridge(kernel, rng):
    X, y, new = rng.standard_normal((80, 3)), rng.standard_normal((80, 1)), rng.standard_normal((20, 3))
    alpha = 0.01
    feature_map = CentreMap(kernel, X)
    features = feature_map.forward(X)
    coef = np.linalg.solve(features.T @ features + 80 * alpha * np.eye(80), features.T @ y)
    exact = KernelRidge(alpha=80 * alpha, kernel="precomputed").fit(kernel.exact(X, X), y)
    predicted = engines.predict(feature_map, new, coef, np.zeros(1))
    # Both matrices have eigenvalues of 0.8 and above; errors of the features are those of the test above.
    np.testing.assert_allclose(predicted, exact.predict(kernel.exact(new, X)), rtol=0, atol=1e-9)
    by_dual = engines.predict(feature_map.kernels, new, feature_map.dual(coef), np.zeros(1))
    np.testing.assert_allclose(by_dual, predicted, rtol=0, atol=1e-9)


def test_moments_and_ridge_through_the_engines(rng):
    """The statistics of the learners on these features: ridge with an intercept, as from the features themselves."""
    X, y = rng.standard_normal((700, 3)), rng.standard_normal((700, 2))
    feature_map = CentreMap(Matern(nu=1.5), X[:50])
    moments = engines.moments(feature_map, X, y, np.ones(700))
    coef, intercept = CentredMoments(moments).coefficients(0.1)
    features = engines.forward(feature_map, X)
    np.testing.assert_allclose(features, feature_map.forward(X), rtol=0, atol=1e-10)
    centred = features - features.mean(axis=0)
    expected = np.linalg.solve(centred.T @ centred + 70 * np.eye(50), centred.T @ (y - y.mean(axis=0)))
    np.testing.assert_allclose(coef, expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(intercept, y.mean(axis=0) - features.mean(axis=0) @ expected, rtol=0, atol=1e-10)


@each_kernel
def test_every_parameter_against_differences(kernel, rng):
    X, feature_map = case(kernel)
    G = rng.standard_normal((9, 6))

    def value(theta):
        return float(np.sum(feature_map.with_kernel(kernel.with_theta(theta)).forward(X) * G))

    gradient = feature_map.adjoint(X, G)
    assert set(gradient.parameters) == set(kernel.learnable)
    assert relative_error(kernel.unconstrain(gradient.parameters), numerical_gradient(value, kernel.theta, 1e-3)) < 1e-6
    given = feature_map.adjoint(X, G, features=feature_map.forward(X))
    for name in kernel.learnable:
        np.testing.assert_array_equal(given.parameters[name], gradient.parameters[name])


@each_kernel
def test_dot_product(kernel, rng):
    X, feature_map = case(kernel, seed=1)
    G, direction = rng.standard_normal((9, 6)), rng.standard_normal(kernel.theta.size)
    change = slope_along(
        lambda theta: feature_map.with_kernel(kernel.with_theta(theta)).forward(X), kernel.theta, direction, 3e-4
    )
    right = float(direction @ kernel.unconstrain(feature_map.adjoint(X, G).parameters))
    assert abs(np.sum(change * G) - right) < 1e-6 * np.sum(np.abs(change * G))


@each_kernel
def test_not_whitened(kernel, rng):
    X, feature_map = case(kernel)
    plain = CentreKernels(kernel, feature_map.centres)
    G = rng.standard_normal((9, 6))
    expected = numerical_gradient(
        lambda t: float(np.sum(plain.with_kernel(kernel.with_theta(t)).forward(X) * G)), kernel.theta, 1e-3
    )
    assert relative_error(kernel.unconstrain(plain.adjoint(X, G).parameters), expected) < 1e-6
    np.testing.assert_array_equal(plain.forward(X), feature_map.kernels.forward(X))


@pytest.mark.parametrize("foreign", [None, torch.tensor, array_api_strict.asarray], ids=["numpy", "torch", "strict"])
@each_kernel
def test_gradients_of_blocks_add_up(kernel, foreign, rng):
    """Through the factor the gradient is found once, from sums over blocks, whatever these are."""
    X, feature_map = case(kernel, n=600)
    G = rng.standard_normal((600, 6))
    whole = feature_map.adjoint(X, G).parameters
    if foreign is None:
        answers = [engines.adjoint(feature_map, X, G), engines.pull_back(feature_map, X, lambda rows, _: G[rows])]
    else:
        answers = [engines.adjoint(feature_map, foreign(X), foreign(G))]
        if foreign is torch.tensor:
            answers.append(engines.pull_back(feature_map, torch.tensor(X), lambda rows, _: torch.tensor(G)[rows]))
    for name in kernel.learnable:
        size = np.abs(whole[name]).max()
        for answer in answers:
            assert answer.pending is None
            np.testing.assert_allclose(answer.parameters[name], whole[name], rtol=0, atol=1e-9 * (1 + size))


@each_kernel
def test_sparse_rows_and_other_arrays(kernel, rng):
    X, feature_map = case(kernel)
    expected = feature_map.forward(X)
    np.testing.assert_allclose(feature_map.forward(sparse.csr_array(X)), expected, rtol=0, atol=1e-12)
    for convert in (torch.tensor, array_api_strict.asarray):
        there = feature_map.place(convert(X))
        got = there.forward(convert(X))
        assert got.dtype == convert(X).dtype
        np.testing.assert_allclose(np.asarray(got), expected, rtol=0, atol=1e-10)
        np.testing.assert_allclose(np.asarray(there.dual(np.ones((6, 1)))), feature_map.dual(np.ones((6, 1))), rtol=1e-9)
        assert feature_map.place(convert(X)) is there  # with its factor, for the next pass
    out = torch.empty((9, 6), dtype=torch.float64)
    assert feature_map.place(torch.tensor(X)).forward(torch.tensor(X), out=out) is out
    np.testing.assert_allclose(out.numpy(), expected, rtol=0, atol=1e-10)
    G = rng.standard_normal((9, 6))
    gradient = feature_map.adjoint(sparse.csr_array(X), G)
    for name, value in feature_map.adjoint(X, G).parameters.items():
        np.testing.assert_allclose(gradient.parameters[name], value, rtol=0, atol=1e-9 * (1 + np.abs(value).max()))


@each_kernel
def test_float32_rows(kernel, rng):
    X, feature_map = case(kernel)
    G = rng.standard_normal((9, 6)).astype(np.float32)
    X = X.astype(np.float32)
    feature_map = CentreMap(kernel, feature_map.centres.astype(np.float32).astype(float))
    small = feature_map.place(X)
    assert small.factor.dtype == np.float64
    features = small.forward(X)
    assert features.dtype == np.float32
    cond = condition(feature_map)
    bound = 10 * cond * max(kernel_tolerance(kernel, X, X, np.float32), 6 * np.finfo(np.float32).eps)
    np.testing.assert_allclose(features, feature_map.forward(X.astype(float)), rtol=0, atol=bound)
    expected = feature_map.adjoint(X.astype(float), G.astype(float)).parameters
    for name, value in small.adjoint(X, G).parameters.items():
        assert np.asarray(value).dtype == np.float64
        # Errors of the features once more through L^-1, and 54 terms of G and of slopes below five.
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=54 * 5 * cond * bound)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_centres_that_are_nearly_dependent_take_a_jitter(dtype, rng):
    """A wide Gaussian kernel of many rows has no rank: features stay finite and of the right size, and none are noise."""
    C, X = rng.standard_normal((200, 2)), rng.standard_normal((50, 2))
    feature_map = CentreMap(Gaussian(scale=0.05), C).place(np.empty(0, dtype=dtype))
    eps = float(np.finfo(dtype).eps)
    assert 200 * eps <= feature_map.jitter <= 200 * eps * 100
    assert np.diagonal(feature_map.factor).min() ** 2 >= eps
    features = feature_map.forward(X.astype(dtype))
    assert np.isfinite(features).all()
    K = Gaussian(scale=0.05).exact(X, X)
    # The approximation misses at most what the jitter hides, eps 200^2 of norm, and roundings of k grow by |L^-1|.
    np.testing.assert_allclose(features @ features.T, K, rtol=0, atol=20 * 200 * eps**0.5)


def test_equal_centres_and_kernels_that_are_not_finite():
    feature_map = CentreMap(Gaussian(), np.zeros((5, 2)))
    assert feature_map.jitter > 0
    np.testing.assert_allclose(np.sum(feature_map.forward(np.zeros((1, 2))) ** 2), 1, rtol=0, atol=1e-6)
    for wrong in (np.full((2, 2), np.nan), np.array([[1.0, np.nan], [np.nan, 1.0]]), np.zeros((2, 2))):
        with pytest.raises(ValueError, match="not positive, or not finite"):
            factorise(lambda wrong=wrong: wrong.copy(), eps=EPS)


@pytest.mark.parametrize("kernel", [Gaussian(scale=0.7), Matern(nu=0.5), MetricKernel(Gaussian(), np.diag([1.0, 0.5, 0.7]))])
def test_the_kernel_between_all_centres(kernel, rng):
    centres = rng.standard_normal((700, 3))
    found = CentreKernels(kernel, centres).square()
    assert found.flags.f_contiguous
    np.testing.assert_allclose(found, kernel.exact(centres, centres), rtol=0, atol=1e-12)


def test_a_factor_that_is_known_is_not_made_again(monkeypatch):
    X, feature_map = case(KERNELS["gaussian"])
    features = feature_map.forward(X)
    again = pickle.loads(pickle.dumps(feature_map))
    feature_map.place(torch.zeros(1, dtype=torch.float32))
    monkeypatch.setattr("bochner.features.centres.factorise", None)
    np.testing.assert_array_equal(again.forward(X), features)
    assert set(again.__dict__) >= {"triangle"}
    other = CentreMap(feature_map.kernel, feature_map.centres, feature_map.factor)
    np.testing.assert_array_equal(other.forward(X), features)
    assert np.isnan(other.jitter)
    assert "_elsewhere" not in pickle.loads(pickle.dumps(feature_map)).__dict__


def test_a_float32_copy_of_a_known_factor(rng):
    X, feature_map = case(KERNELS["gaussian"])
    known = CentreMap(feature_map.kernel, feature_map.centres, feature_map.factor).place(X.astype(np.float32))
    np.testing.assert_allclose(known.factor, feature_map.factor)
