"""The median rule for a scale."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from bochner.kernels import Gaussian, Laplacian
from bochner.kernels.bandwidth import TYPICAL_VALUE, median_scale
from tests.cases import ADDITIVE, RANDOM, each, rows

LOG_SCALE = 1e-6
"""The root is found to this in log scale: a relative error of as much in the scale."""


@pytest.mark.parametrize("m", [1, 3, 10])
@pytest.mark.parametrize("n", [3, 7, 14])  # an odd number of pairs, so that the middle one is a pair
def test_gaussian_scale_is_one_over_the_median_distance(n, m):
    X = rows(Gaussian(), n, m)
    assert median_scale(Gaussian(), X) == pytest.approx(1 / np.median(pdist(X)), rel=2 * LOG_SCALE)


def test_laplacian_scale_is_half_over_the_median_distance():
    X = rows(Laplacian(), 7, 3)
    assert median_scale(Laplacian(), X) == pytest.approx(0.5 / np.median(pdist(X, "cityblock")), rel=2 * LOG_SCALE)


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
@each(RANDOM)
def test_the_middle_pair_gets_the_typical_value(kernel, unit):
    if 0 > kernel.lower > -np.inf:
        kernel = kernel.replace(c=unit)  # its domain has a unit
    X = rows(kernel, 40, 4) * (unit if kernel.lower in (0, -np.inf) else 1)
    scale = median_scale(kernel, X)
    pairs = kernel.replace(scale=scale)(X)[np.triu_indices(40, k=1)]
    # d k / d log s is at most one or so (t |profile'(t)| < 1 for one argument, and near exp(-1/2) for all of them).
    assert np.median(pairs) == pytest.approx(TYPICAL_VALUE, abs=4 * LOG_SCALE)


@each(RANDOM)
def test_equal_rows_get_one(kernel):
    assert median_scale(kernel, np.ones((5, 2))) == 1.0
    assert median_scale(kernel, np.ones((1, 2))) == 1.0


def test_rows_that_differ_by_their_rounding_alone_are_equal():
    X = np.full((3, 4), 1e10)
    X[1] = np.nextafter(X[1], np.inf)
    assert median_scale(Gaussian(), X) == 1.0
    X[2] += 1.0
    assert median_scale(Gaussian(), X) == pytest.approx(0.5, rel=1e-5)


def test_duplicates_do_not_count():
    X = rows(Gaussian(), 7, 3)
    twice = np.concatenate([X, X[:1], X[:1], X[:1]])
    assert np.isfinite(median_scale(Gaussian(), twice))
    pair = np.array([[0.0], [0.0], [0.0], [0.0], [2.0]])
    assert median_scale(Gaussian(), pair) == pytest.approx(0.5, rel=2 * LOG_SCALE)


@each(ADDITIVE)
def test_additive_kernels_have_no_bandwidth(kernel):
    with pytest.raises(ValueError, match=r"scale='median' asks for a bandwidth, and .* has none"):
        median_scale(kernel, np.ones((3, 2)))
