"""Gradients of fitted functions in the rows, and their outer products, against differences of predictions."""

import array_api_strict
import numpy as np
import pytest
import torch
from scipy import sparse
from threadpoolctl import threadpool_limits

from bochner import engines
from bochner.engines import gradients as module
from bochner.features import CentreMap, FeatureChoices, build_map
from bochner.kernels import ExponentiatedChi2, Gaussian, Laplacian, Matern, MetricKernel, SkewedChi2
from tests.cases import numerical_gradient, relative_error

A = np.random.default_rng(5).standard_normal((4, 2))
KERNELS = {
    "gaussian": Gaussian(scale=[1.0, 0.7, 0.5, 0.3]),
    "matern32": Matern(nu=1.5, scale=0.6),
    "matern12": Matern(nu=0.5, scale=[1.0, 0.7, 0.5, 0.3]),
    "laplacian": Laplacian(scale=0.4),
    "gaussian metric": MetricKernel(Gaussian(), A),
    "matern12 metric": MetricKernel(Matern(nu=0.5), A),
}
FORMS = ("centres", "paired", "phase")


def case(name, form, n=11, seed=0):
    rng = np.random.default_rng(seed)
    kernel = KERNELS[name]
    X, coef = rng.standard_normal((n, 4)), rng.standard_normal((8, 3))
    if form == "centres":
        return X, CentreMap(kernel, rng.standard_normal((8, 4))), coef
    feature_map = build_map(kernel, 4, FeatureChoices(n_features=40 if form == "phase" else 80, form=form), rng)
    few = np.argsort(np.abs(feature_map.points).max(axis=0))[
        : 8 if form == "phase" else 4
    ]  # differences dislike heavy tails
    phases = None if feature_map.phases is None else feature_map.phases[few]
    return X, type(feature_map)(kernel, 4, feature_map.inputs, feature_map.points[:, few], phases), coef


each_case = pytest.mark.parametrize(("name", "form"), [(name, form) for name in KERNELS for form in FORMS])


@each_case
def test_gradients_against_differences_of_predictions(name, form):
    X, feature_map, coef = case(name, form)
    got = module.gradients(feature_map, X, coef)
    assert got.shape == (11, 4, 3)
    for i, row in enumerate(X):
        for k in range(3):

            def value(x, k=k):
                return float(engines.predict(feature_map, x[None], coef[:, [k]], np.zeros(1))[0, 0])

            assert relative_error(got[i, :, k], numerical_gradient(value, row, 1e-4)) < 1e-6


@each_case
def test_the_outer_product_is_that_of_the_gradients(name, form, rng, monkeypatch):
    monkeypatch.setattr(module, "HOST_BLOCK_BYTES", 1)
    X, feature_map, coef = case(name, form, n=100)
    weights = rng.random(100)
    rows = module.gradients(feature_map, X, coef)
    expected = np.zeros((4, 4))
    for i in range(100):
        for k in range(3):
            expected += weights[i] * np.outer(rows[i, :, k], rows[i, :, k])
    got = engines.outer_product(feature_map, X, coef, weights)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, expected / weights.sum(), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(engines.outer_product(feature_map, sparse.csr_array(X), coef, weights), got, rtol=1e-10)
    ones = engines.outer_product(feature_map, X, coef)
    np.testing.assert_allclose(ones, np.einsum("imk,ijk->mj", rows, rows) / 100, rtol=1e-10, atol=1e-10)
    for convert in (torch.tensor, array_api_strict.asarray):
        there = engines.outer_product(feature_map, convert(X), coef, weights)
        np.testing.assert_allclose(there, got, rtol=1e-9, atol=1e-9)
    single = engines.outer_product(feature_map, X.astype(np.float32), coef, weights)
    assert relative_error(single, got) < 1e-3  # coefficients of the centres are below 100, slopes below 10: 1e3 eps
    assert single.dtype == np.float64


def test_the_number_of_threads_does_not_change_a_bit(monkeypatch):
    monkeypatch.setattr(module, "HOST_BLOCK_BYTES", 1)
    X, feature_map, coef = case("matern32", "centres", n=200)
    with threadpool_limits(1, user_api="blas"):
        one = engines.outer_product(feature_map, X, coef)
    with threadpool_limits(2, user_api="blas"):
        two = engines.outer_product(feature_map, X, coef)
    np.testing.assert_array_equal(one, two)


def test_a_direction_that_does_not_matter(rng):
    """A function of two directions of four has an outer product of rank two, in the span of the metric."""
    X, feature_map, coef = case("gaussian metric", "centres", n=50)
    values, vectors = np.linalg.eigh(engines.outer_product(feature_map, X, coef))
    assert values[1] < 1e-12 * values[-1]
    outside = vectors[:, 2:] - A @ np.linalg.lstsq(A, vectors[:, 2:], rcond=None)[0]
    np.testing.assert_allclose(outside, 0, atol=1e-10)


def test_rows_that_are_centres_of_a_kernel_with_a_kink():
    _, feature_map, coef = case("matern12", "centres")
    at_centres = module.gradients(feature_map, feature_map.centres, coef)
    assert np.isfinite(at_centres).all()
    kernel, dual = feature_map.kernel, feature_map.dual(coef)
    for j in range(8):  # the slope that all other centres give
        others = np.arange(8) != j
        expected = kernel.row_gradients(feature_map.centres[[j]], feature_map.centres[others], dual[others])[0]
        np.testing.assert_allclose(at_centres[j], expected, rtol=0, atol=1e-10)


def test_kernels_with_an_input_map_are_refused(rng):
    X = rng.random((5, 4))
    for kernel in (SkewedChi2(), ExponentiatedChi2()):
        maps = [build_map(kernel, 4, FeatureChoices(n_features=8), rng), CentreMap(kernel, X)]
        for feature_map in maps:
            with pytest.raises(ValueError, match="Gradients in the rows"):
                engines.outer_product(feature_map, X, np.ones((feature_map.n_features, 1)))
