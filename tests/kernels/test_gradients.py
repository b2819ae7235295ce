"""Derivatives of exact kernels: in every parameter against central differences, and the numerical slope of a profile."""

from dataclasses import dataclass

import array_api_strict
import numpy as np
import pytest
import torch

from bochner.kernels import Gaussian, Matern, StationaryKernel
from tests.cases import ALL, STATIONARY, each, numerical_gradient, relative_error, rows, with_scales

STEP = 1e-3
"""Fourth-order differences in log scale: truncation about STEP^4 / 30 of a fifth derivative below 1e4, rounding eps / STEP
of the sum; both are under 1e-9 of the gradients here."""


def objective(kernel, X, Z, G):
    return lambda theta: float(np.sum(G * kernel.with_theta(theta).exact(X, Z)))


@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "per column"])
@each(ALL)
def test_exact_adjoint_against_differences(kernel, shared, m, rng):
    kernel = with_scales(kernel, m, shared=shared)
    X, Z = rows(kernel, 7, m), rows(kernel, 6, m, seed=1)
    X[0] = Z[0]  # a pair at distance zero
    G = rng.standard_normal((7, 6))
    gradient = kernel.exact_adjoint(X, Z, G)
    assert set(gradient) == set(kernel.learnable)
    assert gradient["scale"].shape == (m,)
    expected = numerical_gradient(objective(kernel, X, Z, G), kernel.theta, STEP)
    assert relative_error(kernel.unconstrain(gradient), expected) < 1e-6


@each(ALL)
def test_exact_adjoint_of_a_table_with_itself_and_near_duplicates(kernel, rng):
    """Rows that differ by rounding alone: distances of 1e-16, where slope / distance is huge for rough kernels."""
    kernel = with_scales(kernel, 3, shared=False)
    X = rows(kernel, 6, 3)
    X = np.concatenate([X, X, X * (1 + 2.0**-52), X * (1 + 1e-10)])
    G = rng.standard_normal((len(X), len(X)))
    gradient = kernel.unconstrain(kernel.exact_adjoint(X, X, G))
    assert relative_error(gradient, numerical_gradient(objective(kernel, X, X, G), kernel.theta, STEP)) < 1e-6


@each(ALL)
def test_exact_adjoint_is_linear_in_its_weights(kernel, rng):
    X, Z = rows(kernel, 5, 3), rows(kernel, 4, 3, seed=1)
    G, H = rng.standard_normal((2, 5, 4))
    both = kernel.exact_adjoint(X, Z, G + 2 * H)
    for name in kernel.learnable:
        apart = kernel.exact_adjoint(X, Z, G)[name] + 2 * kernel.exact_adjoint(X, Z, H)[name]
        # 20 terms of size below ten, a few operations each.
        np.testing.assert_allclose(both[name], apart, rtol=0, atol=20 * 10 * 10 * np.finfo(float).eps)


@each(ALL)
def test_exact_adjoint_of_other_arrays(kernel, rng):
    kernel = with_scales(kernel, 3, shared=False)
    X, Z, G = rows(kernel, 5, 3), rows(kernel, 4, 3, seed=1), rng.standard_normal((5, 4))
    X[0] = Z[0]
    expected = kernel.exact_adjoint(X, Z, G)
    for convert in (torch.tensor, array_api_strict.asarray):
        got = kernel.exact_adjoint(convert(X), convert(Z), convert(G))
        for name in kernel.learnable:
            np.testing.assert_allclose(got[name], expected[name], rtol=0, atol=20 * 100 * np.finfo(float).eps)


@each(STATIONARY)
def test_the_default_slope_equals_the_formula(kernel):
    t = np.concatenate([-np.linspace(1, 4, 7), np.linspace(1, 4, 7)])
    # On a disc of radius 1/2 around t >= 1 every profile here is analytic and below 3, so its fifth derivative is below
    # 5! * 3 / (1/2)^5 = 11520 (Cauchy) and the truncation of the difference below step^4 / 5 of that, 2.3e-9. Rounding:
    # the weights sum to 10.7 in size, on values of 1 + eps, over a step of 1e-3: 2.4e-12 for each eps of the profile.
    np.testing.assert_allclose(StationaryKernel.slope(kernel, t), kernel.slope(t), rtol=0, atol=2.3e-9 + 50 * 2.4e-12)
    assert StationaryKernel.slope(kernel, np.zeros(1))[0] == 0


@each(STATIONARY)
def test_slopes_of_other_arrays_and_dtypes(kernel):
    t = np.linspace(-3, 3, 13)
    expected = kernel.slope(t)
    eps = np.finfo(np.float32).eps
    for slope in (kernel.slope, lambda v: StationaryKernel.slope(kernel, v)):
        assert slope(t.astype(np.float32)).dtype == np.float32
        assert slope(torch.tensor(t)).dtype == torch.float64
    # Slopes are below two, and change by less than four for each unit of t.
    np.testing.assert_allclose(kernel.slope(t.astype(np.float32)), expected, rtol=0, atol=16 * 3 * eps)
    np.testing.assert_allclose(kernel.slope(torch.tensor(t)).numpy(), expected, rtol=0, atol=100 * np.finfo(float).eps)


@pytest.mark.parametrize("nu", [0.5, 0.7, 1.5, 60.0, 200.0])
def test_exact_adjoint_of_other_smoothnesses(nu, rng):
    kernel = Matern(nu=nu, scale=[0.5, 1.5])
    X, G = rows(kernel, 6, 2), rng.standard_normal((6, 6))
    gradient = kernel.unconstrain(kernel.exact_adjoint(X, X, G))
    assert relative_error(gradient, numerical_gradient(objective(kernel, X, X, G), kernel.theta, STEP)) < 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianOfLogarithms(Gaussian):
    """A radial kernel with a parameter in its input map."""

    c: float = 0.7
    learnable = ("scale", "c")

    def transform(self, X):
        return np.log1p(X / self.c)

    def transform_derivatives(self, X):
        return {"c": -X / (self.c * (X + self.c))}


def test_a_radial_kernel_with_a_parameter_in_its_input_map(rng):
    kernel = GaussianOfLogarithms(scale=[0.8, 1.1, 1.5])
    X, Z, G = rng.random((7, 3)), rng.random((6, 3)), rng.standard_normal((7, 6))
    expected = numerical_gradient(objective(kernel, X, Z, G), kernel.theta, STEP)
    assert relative_error(kernel.unconstrain(kernel.exact_adjoint(X, Z, G)), expected) < 1e-6
