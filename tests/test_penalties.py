"""Penalties on scales: their formulas and derivatives."""

import numpy as np
import pytest

from bochner.penalties import SCALE_PENALTIES
from tests.cases import numerical_gradient, relative_error

EPS = float(np.finfo(float).eps)
SCALES = np.array([0.3, 1.0, 2.5])


@pytest.mark.parametrize("name", SCALE_PENALTIES)
def test_derivative(name):
    penalty = SCALE_PENALTIES[name](0.7)
    gradient = penalty.gradient(SCALES)
    assert gradient.shape == SCALES.shape
    # Values below 6 and a step of 1e-2: rounding of a fourth-order difference is below 6 eps / 1e-2 times three, and no
    # penalty has a fifth derivative.
    difference = numerical_gradient(penalty.value, SCALES, 1e-2)
    if name == "none":
        np.testing.assert_array_equal(gradient, 0)
        np.testing.assert_array_equal(difference, 0)
    else:
        assert relative_error(gradient, difference) <= 2000 * EPS


@pytest.mark.parametrize("name", SCALE_PENALTIES)
def test_zero_strength_is_no_penalty(name):
    penalty = SCALE_PENALTIES[name](0.0)
    assert penalty.value(SCALES) == 0
    np.testing.assert_array_equal(penalty.gradient(SCALES), 0)


def test_formulas():
    assert SCALE_PENALTIES["none"](2.0).value(SCALES) == 0
    assert SCALE_PENALTIES["squared"](2.0).value(SCALES) == pytest.approx(2 * (0.09 + 1 + 6.25), rel=8 * EPS)
    assert SCALE_PENALTIES["sparse"](2.0).value(SCALES) == pytest.approx(2 * 3.8, rel=8 * EPS)
