"""Scales by evidence: the formula, its gradient, and what it finds, beside the Gaussian process of scikit-learn."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from bochner.evidence import learn_by_evidence, negative_evidence
from bochner.kernels import get_kernel

KERNELS = ("gaussian", "matern12", "matern32", "matern52")


def made(n=40, c=2):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    Y = np.stack([np.sin(2 * X[:, 0]), X[:, 1] * X[:, 0]], axis=1)[:, :c] + 0.1 * rng.standard_normal((n, c))
    return X, Y


@pytest.mark.parametrize("name", KERNELS)
def test_gradient_against_differences(name):
    X, Y = made()
    kernel = get_kernel(name).replace(scale=np.array([0.7, 0.5, 0.9]))
    _, gradient, in_noise = negative_evidence(kernel, X, Y, -2.0)

    def value(theta, log_noise=-2.0):
        return negative_evidence(kernel.with_theta(theta), X, Y, log_noise)[0]

    steps = 1e-5 * np.eye(3)
    differences = [(value(kernel.theta + e) - value(kernel.theta - e)) / 2e-5 for e in steps]
    np.testing.assert_allclose(kernel.unconstrain(gradient), differences, rtol=1e-6, atol=1e-6)
    in_log_noise = (value(kernel.theta, -2 + 1e-5) - value(kernel.theta, -2 - 1e-5)) / 2e-5
    np.testing.assert_allclose(in_noise, in_log_noise, rtol=1e-6)


def test_value_is_the_density_at_the_best_amplitude():
    X, Y = made(c=1)
    n, kernel = len(X), get_kernel("gaussian").replace(scale=0.8)
    Q = kernel(X) + 0.05 * np.eye(n)
    amplitudes = np.geomspace(1e-3, 1e3, 20_001)
    square, logdet = Y[:, 0] @ np.linalg.solve(Q, Y[:, 0]), np.linalg.slogdet(Q)[1]
    densities = -0.5 * (square / amplitudes + logdet + n * np.log(2 * np.pi * amplitudes))
    best = amplitudes[densities.argmax()]
    expected = multivariate_normal(np.zeros(n), best * Q).logpdf(Y[:, 0])
    value, _, _ = negative_evidence(kernel, X, Y, np.log(0.05))
    constant = 0.5 * n * (1 + np.log(2 * np.pi / n))  # of the profiled amplitude y' Q^-1 y / n
    np.testing.assert_allclose(-value - constant, expected, rtol=1e-6)


def test_as_good_as_the_gaussian_process_of_scikit_learn():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((150, 2))
    y = np.sin(2 * X[:, 0]) + np.sin(X[:, 1]) + 0.2 * rng.standard_normal(150)
    y = y - y.mean()
    peer_kernel = ConstantKernel() * RBF(np.ones(2)) + WhiteKernel(0.1)
    peer = GaussianProcessRegressor(peer_kernel, n_restarts_optimizer=1, random_state=0).fit(X, y)
    ours = learn_by_evidence(get_kernel("gaussian").replace(scale=np.ones(2)), X, y[:, None], max_iter=100)

    def best_evidence(kernel):
        noises = np.linspace(np.log(1e-6), np.log(1e2), 200)
        n = len(X)
        values = [negative_evidence(kernel, X, y[:, None], noise)[0] for noise in noises]
        return -min(values) - 0.5 * n * (1 + np.log(2 * np.pi / n))

    assert best_evidence(ours) > peer.log_marginal_likelihood_value_ - 0.5  # by how much a grid of noises may miss


def test_columns_that_do_not_count_lose_their_scale():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((200, 6))
    y = np.sin(2 * X[:, 2]) + 0.1 * rng.standard_normal(200)
    kernel = learn_by_evidence(get_kernel("matern32").replace(scale=np.ones(6)), X, (y - y.mean())[:, None])
    others = np.delete(kernel.scales(6), 2)
    assert kernel.scales(6)[2] > 5 * others.max()
