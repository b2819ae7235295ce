"""What the tests run over, and the tools that several of them share."""

from dataclasses import replace

import numpy as np
import pytest

from bochner.features import FeatureChoices, build_map
from bochner.kernels import KERNELS, Matern, StationaryKernel
from bochner.sampling import SAMPLINGS

BUILT_IN = {name: make() for name, make in KERNELS.items()}
"""Every kernel of the public list, by name."""
ALL = {**BUILT_IN, "matern0.7": Matern(nu=0.7), "matern3.2": Matern(nu=3.2), "matern_inf": Matern(nu=np.inf)}
"""The same and a few smoothnesses that have no name."""
STATIONARY = {name: kernel for name, kernel in ALL.items() if isinstance(kernel, StationaryKernel)}
ADDITIVE = {name: kernel for name, kernel in ALL.items() if kernel.geometry == "additive"}
RANDOM = {name: kernel for name, kernel in ALL.items() if kernel.geometry != "additive"}


def each(kernels):
    """Run a test for each kernel of a dictionary."""
    return pytest.mark.parametrize("kernel", [pytest.param(kernel, id=name) for name, kernel in kernels.items()])


def samplings(kernel):
    """The samplings that a random kernel allows: orthogonal ones exist for radial laws only."""
    return [s for s in SAMPLINGS if s != "orthogonal" or kernel.geometry != "product"]


def rows(kernel, n, m, *, seed=0, dtype=np.float64):
    """n rows of m columns inside the kernel's domain, zeros among them where the kernel is of histograms."""
    rng = np.random.default_rng([seed, n, m])
    if kernel.lower == -np.inf:
        return rng.standard_normal((n, m)).astype(dtype)
    X = rng.gamma(2.0, 0.5, (n, m))
    if kernel.lower == 0:
        X[rng.random((n, m)) < 0.2] = 0
    else:
        X += 0.8 * kernel.lower
    return X.astype(dtype)


def with_scales(kernel, m, *, shared):
    """The kernel with one scale, or one per column."""
    return kernel.replace(scale=0.7 if shared else np.linspace(0.5, 1.1, m))


def kernel_tolerance(kernel, X, Z, dtype=np.float64):
    """Bound on the rounding error of one entry of an exact kernel matrix, from the dtype.

    The squared distance is a sum of m products, taken around the mean: its error is at most (m + 3) eps q, where q is the
    largest ||x||^2 + ||z||^2. Pairs with r^2 < 1e-4 q are computed from x - z, so that the error of r = sqrt(r^2) stays
    below (m + 3) eps q / (2 * 1e-2 sqrt(q)) = 50 (m + 3) eps sqrt(q), and no profile is steeper than one in r. Columns
    taken one by one, as product and additive kernels do, lose less: a few eps for each of m factors, and m eps of the
    value itself. Twice the first bound covers the exponential and both sides of a comparison.
    """
    m = X.shape[1]
    mapped = [np.asarray(kernel.transform(np.asarray(A, dtype=np.float64))) * kernel.scales(m) for A in (X, Z)]
    largest = sum(float(np.max(np.sum(A * A, axis=1))) for A in mapped)
    return 100 * (m + 3) * float(np.finfo(dtype).eps) * max(1.0, largest**0.5)


def feature_tolerance(feature_map, X, dtype=np.float64):
    """Bound on the rounding error of each Fourier feature: an array (f,).

    An angle is a sum of M products (M inputs after the input map), off by at most (M + 2) eps sum |x_i| |g_i| counting the
    rounding of frequencies to the dtype; the input map itself errs by a few eps of its largest value (16 with the cosines
    of the homogeneous map, whose angles are below ten). Cosine and sine are Lipschitz, and off by 8 eps themselves
    (see tests/features/test_trigonometry.py). Both sides of a comparison may err: twice that.
    """
    eps = float(np.finfo(dtype).eps)
    points = np.asarray(feature_map.points, dtype=np.float64)
    frequencies = np.abs(
        np.tile(feature_map.kernel.scales(feature_map.n_columns), feature_map.inputs.width)[:, None] * points
    )
    reach = float(np.max(np.abs(feature_map.inputs(np.asarray(X, dtype=np.float64)))))
    return 2 * ((points.shape[0] + 18) * eps * reach * frequencies.sum(axis=0) + 8 * eps)


def small_map(kernel, m, *, form="paired", frequencies=5, sampling="auto", seed=0, order=None):
    """A feature map of few frequencies, as finite differences like it. Additive kernels have one form and one sampling."""
    if kernel.geometry == "additive":
        choices = FeatureChoices(order=order)
    else:
        size = frequencies * (2 if form == "paired" else 1)
        choices = FeatureChoices(n_features=size, sampling=sampling, form=form, order=order)
    return build_map(kernel, m, choices, np.random.default_rng(seed))


def moved(feature_map, points):
    """The same Fourier map with other base points under scale one."""
    return replace(feature_map.with_kernel(feature_map.kernel.replace(scale=1.0)), points=points)


def slope_along(function, x, direction, step):
    """Derivative of ``function`` (of any shape) at x along a direction, by a difference of fourth order."""
    near = function(x + step * direction) - function(x - step * direction)
    far = function(x + 2 * step * direction) - function(x - 2 * step * direction)
    return (8 * near - far) / (12 * step)


def numerical_gradient(function, x, step):
    """Gradient of a scalar function at an array x, entry by entry."""
    x = np.asarray(x, dtype=np.float64)
    gradient = np.empty(x.shape)
    for index in np.ndindex(x.shape):
        unit = np.zeros(x.shape)
        unit[index] = 1
        gradient[index] = slope_along(function, x, unit, step)
    return gradient


def relative_error(value, reference):
    """Largest difference over the largest entry of the reference."""
    return float(np.max(np.abs(np.asarray(value) - reference)) / np.max(np.abs(reference)))


ABOUT = {
    "date": "2030-01-01T00:00:00+00:00",
    "python": "3.12",
    "versions": {"bochner": "1"},
    "blas": [],
    "cpu": "a",
    "cores": 2,
    "memory_gib": 1.0,
    "system": "Linux",
    "commit": None,
    "dirty": False,
}
"""A manifest of a benchmark."""
