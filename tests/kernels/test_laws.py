"""The law of frequencies of every kernel: its characteristic function is the kernel's profile.

A quantile function q says all about a law, and the mean of cos(t q(u)) over u in (0, 1) is its characteristic function. The
integral is done by Gauss-Legendre panels that grow finer, geometrically, towards the ends of (0, 1), where heavy-tailed laws
oscillate; the piece nearer than CUT to an end is left out and bounded.
"""

import numpy as np
import pytest
from scipy import integrate, special

from tests.cases import ADDITIVE, STATIONARY, each

CUT = 1e-4
PANELS, NODES = 8_000, 16
ROUNDING = 1e-9
"""Sum of 1e5 weighted cosines whose angles reach 1e5 or so, each off by eps of its angle: 1e5 * 2e-16 < 1e-10."""
PRODUCT = {name: kernel for name, kernel in STATIONARY.items() if kernel.geometry == "product"}
RADIAL = {name: kernel for name, kernel in STATIONARY.items() if kernel.geometry == "radial"}
ARGUMENTS = np.array([0.05, 0.3, 1.0, 2.5])


@pytest.fixture(scope="module")
def tail_rule():
    """Points v in (CUT, 1/2) and weights: an integral over v = CUT^y / 2^(1-y), y in (0, 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    y = ((np.arange(PANELS)[:, None] + (nodes + 1) / 2) / PANELS).ravel()
    v = 0.5 * (2 * CUT) ** y
    return v, np.tile(weights / (2 * PANELS), PANELS) * v * -np.log(2 * CUT)


def sphere_mean(r, m):
    """Mean of cos(r e . x) over unit vectors x in m dimensions: Gamma(m/2) (2/r)^(m/2-1) J_(m/2-1)(r)."""
    order = m / 2 - 1
    return special.gamma(m / 2) * (2 / r) ** order * special.jv(order, r)


@each(PRODUCT)
def test_product_laws(kernel, tail_rule):
    v, weights = tail_rule
    low, high = kernel.quantile(v), kernel.quantile(1 - v)
    np.testing.assert_allclose(low, -high, rtol=1e-9, atol=1e-12)  # symmetric; 1 - v rounds by eps / CUT of v
    for t in ARGUMENTS:
        integral = np.sum(weights * (np.cos(t * low) + np.cos(t * high)))
        assert abs(integral - kernel.profile(np.array(t))) <= 2 * CUT + ROUNDING


@pytest.mark.parametrize("m", [1, 2, 3, 10])
@each(RADIAL)
def test_radial_laws(kernel, m, tail_rule):
    v, weights = tail_rule
    low, high = kernel.quantile(v, m), kernel.quantile(1 - v, m)
    assert np.all(low > 0)
    assert np.all(np.diff(high) > 0)
    for t in ARGUMENTS:
        integral = np.sum(weights * (sphere_mean(t * low, m) + sphere_mean(t * high, m)))
        # |sphere_mean| <= 1, and the tails left out are of measure CUT each.
        assert abs(integral - kernel.profile(np.array(t))) <= 2 * CUT + ROUNDING


@each(PRODUCT)
def test_product_quantiles_increase_and_keep_their_shape(kernel):
    u = np.linspace(0.001, 0.999, 999)
    assert np.all(np.diff(kernel.quantile(u)) > 0)
    assert kernel.quantile(u.reshape(27, 37)).shape == (27, 37)
    ends = kernel.quantile(np.array([2.0**-53, 1 - 2.0**-53]))
    assert np.all(np.isfinite(ends))


@each(STATIONARY)
def test_profiles_are_one_at_zero_and_even(kernel):
    t = np.linspace(0, 5, 11)
    assert kernel.profile(np.zeros(1))[0] == 1
    np.testing.assert_array_equal(kernel.profile(t), kernel.profile(-t))


@each(ADDITIVE)
def test_spectra_of_additive_kernels(kernel):
    for w in (0.0, 0.3, 1.0, 4.0):
        if w == 0:
            half, _ = integrate.quad(kernel.spectrum, 0, np.inf, epsabs=1e-12)
        else:
            half, _ = integrate.quad(kernel.spectrum, 0, np.inf, weight="cos", wvar=w, epsabs=1e-10, limlst=200)
        # A spectrum is even; quad is asked for 1e-10 in each half.
        assert abs(2 * half - kernel.signature(np.array(w))) <= 1e-9


@each(ADDITIVE)
def test_signature_is_the_kernel_of_a_ratio(kernel):
    a, b = 0.7, 2.9
    value = kernel(np.array([[a]]), np.array([[b]]))[0, 0]
    expected = np.sqrt(a * b) * kernel.signature(np.log(np.array(b / a)))
    np.testing.assert_allclose(value, expected, rtol=16 * np.finfo(float).eps)
