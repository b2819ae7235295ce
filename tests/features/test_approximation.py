"""Random features approximate their kernel: unbiased, with an error that falls at least as d^(-1/2).

Every kernel, every sampling that it allows, in 1, 3 and 10 columns. Bounds: the mean over R replicates (independent seeds)
is compared with the kernel in units of its standard error, five of them being allowed; a mean of squared errors over R
replicates has a relative standard deviation of at most sqrt(2 / R), that of a chi-squared law with R degrees of freedom
(pairs of rows share the frequencies, so that averaging over pairs is not counted on).
"""

from dataclasses import replace

import numpy as np
import pytest

from bochner.features import FeatureChoices, build_map, draw_points
from bochner.features.build import ORTHOGONAL_FROM
from bochner.kernels import Cauchy, Gaussian, Laplacian, Matern
from bochner.sampling import MAX_SOBOL_COLUMNS
from tests.cases import RANDOM, each, samplings

REPLICATES = 200
SPREAD = 5 * (2 / REPLICATES) ** 0.5
FEW, MANY = 16, 256
"""Frequencies of the two sizes that are compared."""
ROUNDING = 1e-9
"""Sobol points live on a grid of 2^-30."""


def pairs_of_rows(kernel, m):
    """Six pairs (x, z) near and far, inside the kernel's domain."""
    rng = np.random.default_rng([7, m])
    directions = rng.standard_normal((6, m))
    directions[0] = 1.0
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    step = directions * np.array([1.73, 0.2, 0.5, 0.8, 1.2, 2.0])[:, None]
    if kernel.lower == -np.inf:
        X = rng.standard_normal((6, m))
        return X, X + step
    X = rng.uniform(0.1, 1.5, (6, m))
    return X, np.abs(X + step)


def target(kernel, feature_map, X, Z):
    """What the features aim at: the kernel, or for an exponentiated one that of its homogeneous map."""
    if kernel.geometry != "exponentiated":
        return np.diagonal(kernel(X, Z))
    difference = feature_map.inputs(X) - feature_map.inputs(Z)
    scales = np.tile(kernel.scales(X.shape[1]), feature_map.inputs.width)
    return np.exp(-0.5 * np.sum((scales * difference) ** 2, axis=1))


def estimates(kernel, X, Z, frequencies, *, form="paired", sampling="iid", mend=lambda feature_map, rng: feature_map):
    """<phi(x), phi(z)> of each pair over independent replicates: (R, pairs); and what they aim at: (pairs,)."""
    m = X.shape[1]
    choices = FeatureChoices(n_features=frequencies * (2 if form == "paired" else 1), sampling=sampling, form=form)
    values = np.empty((REPLICATES, len(X)))
    both = np.concatenate([X, Z])
    for r in range(REPLICATES):
        rng = np.random.default_rng([r, m, frequencies])
        feature_map = mend(build_map(kernel, m, choices, rng), rng)
        features = feature_map.forward(both)
        values[r] = np.sum(features[: len(X)] * features[len(X) :], axis=1)
    return values, target(kernel, feature_map, X, Z)


def standard_errors_off(values, expected):
    """Distance of the mean from what is expected, in standard errors of the mean."""
    error = values.std(axis=0, ddof=1) / len(values) ** 0.5
    return np.abs(values.mean(axis=0) - expected) / (error + ROUNDING)


def mean_square(values, expected):
    return float(np.mean((values - expected) ** 2))


CASES = [
    pytest.param(kernel, sampling, m, id=f"{name}-{sampling}-{m}")
    for name, kernel in RANDOM.items()
    for sampling in samplings(kernel)
    for m in (1, 3, 10)
]


@pytest.mark.parametrize(("kernel", "sampling", "m"), CASES)
def test_unbiased_and_the_error_falls(kernel, sampling, m):
    kernel = kernel.replace(scale=0.8)
    X, Z = pairs_of_rows(kernel, m)
    few, expected = estimates(kernel, X, Z, FEW, sampling=sampling)
    many, _ = estimates(kernel, X, Z, MANY, sampling=sampling)
    assert np.max(standard_errors_off(few, expected)) <= 5
    assert np.max(standard_errors_off(many, expected)) <= 5
    # Squared errors fall as 1/d or faster, up to the spread of both means.
    assert mean_square(many, expected) <= mean_square(few, expected) * FEW / MANY * (1 + SPREAD) / (1 - SPREAD)


@pytest.mark.parametrize("m", [1, 3, 10])
@each(RANDOM)
def test_phase_features_are_unbiased_too(kernel, m):
    kernel = kernel.replace(scale=0.8)
    X, Z = pairs_of_rows(kernel, m)
    values, expected = estimates(kernel, X, Z, FEW, form="phase")
    assert np.max(standard_errors_off(values, expected)) <= 5


def drawn_by_coordinate(feature_map, rng):
    """The mistake that this file exists for: a radial law drawn one coordinate at a time."""
    u = rng.random(feature_map.points.shape)
    return replace(feature_map, points=np.sign(rng.random(u.shape) - 0.5) * feature_map.kernel.quantile(u, 1))


@pytest.mark.parametrize("m", [3, 10])
@pytest.mark.parametrize("nu", [0.5, 1.5])
def test_the_test_has_power(nu, m):
    """A Matern drawn coordinate by coordinate is another kernel, and must be found out; in one column it is right."""
    kernel = Matern(nu=nu, scale=0.8)
    X, Z = pairs_of_rows(kernel, m)
    values, expected = estimates(kernel, X, Z, MANY, mend=drawn_by_coordinate)
    assert np.max(standard_errors_off(values, expected)) > 5
    X, Z = pairs_of_rows(kernel, 1)
    values, expected = estimates(kernel, X, Z, MANY, mend=drawn_by_coordinate)
    assert np.max(standard_errors_off(values, expected)) <= 5


def test_the_wrong_matern_is_the_one_of_the_literature():
    """At x - z = (1, 1, 1), nu = 3/2: 0.199 is right, 0.114 is what coordinates drawn one by one give."""
    X, Z = np.zeros((1, 3)), np.ones((1, 3))
    right, expected = estimates(Matern(nu=1.5), X, Z, MANY)
    wrong, _ = estimates(Matern(nu=1.5), X, Z, MANY, mend=drawn_by_coordinate)
    one_column = Matern(nu=1.5)(np.zeros((1, 1)), np.ones((1, 1)))[0, 0]
    assert expected[0] == pytest.approx(0.199, abs=5e-4)
    assert standard_errors_off(right, expected)[0] <= 5
    assert standard_errors_off(wrong, one_column**3)[0] <= 5
    assert one_column**3 == pytest.approx(0.114, abs=2e-3)


def beats(better, worse):
    """Whether a mean square is below another beyond the spread of both."""
    return better * (1 + SPREAD) < worse * (1 - SPREAD)


@pytest.mark.parametrize("frequencies", [10, 40])
def test_orthogonal_frequencies_beat_independent_ones(frequencies):
    """Yu et al. (2016): at distance one in ten columns the variance falls to 1 - 0.9 e^-1 / (1 - e^-1)^2 = 0.17 of it."""
    X = np.zeros((1, 10))
    Z = np.full((1, 10), 10**-0.5)
    squares = {s: mean_square(*estimates(Gaussian(), X, Z, frequencies, sampling=s)) for s in ("iid", "orthogonal")}
    assert beats(squares["orthogonal"], squares["iid"])


@pytest.mark.parametrize(
    ("kernel", "m"),
    # In three columns for laws whose tails are light; of a Cauchy law theory only says "no worse", the cosine of its
    # quantile having no bounded variation.
    [(Gaussian(), 1), (Gaussian(), 3), (Cauchy(), 1), (Cauchy(), 3), (Matern(), 1), (Matern(), 3), (Laplacian(), 1)],
)
def test_quasi_monte_carlo_beats_independent_frequencies(kernel, m):
    kernel = kernel.replace(scale=0.8)
    X, Z = pairs_of_rows(kernel, m)
    squares = {s: mean_square(*estimates(kernel, X, Z, MANY, sampling=s)) for s in ("iid", "qmc")}
    assert beats(squares["qmc"], squares["iid"])


@pytest.mark.parametrize("m", [1, 3, 10])
def test_pairs_have_a_lower_variance_than_phases(m):
    """For as many features: var cos(a) / f with f = d/2 pairs is below that of d phases wherever the kernel is large."""
    X, Z = np.zeros((1, m)), np.full((1, m), 0.5 * m**-0.5)
    paired = mean_square(*estimates(Gaussian(), X, Z, 20))
    phase = mean_square(*estimates(Gaussian(), X, Z, 40, form="phase"))
    assert beats(paired, phase)


@each({name: kernel for name, kernel in RANDOM.items() if kernel.geometry == "product"})
def test_a_product_law_has_no_orthogonal_frequencies(kernel, rng):
    with pytest.raises(ValueError, match="sampling='orthogonal' needs a radial law") as info:
        build_map(kernel, 3, FeatureChoices(n_features=6, sampling="orthogonal"), rng)
    assert type(kernel).__name__ in str(info.value)


@pytest.mark.parametrize("m", [1, 3, 10])
@each({name: kernel for name, kernel in RANDOM.items() if kernel.geometry == "radial"})
def test_orthogonal_frequencies_are_at_right_angles(kernel, m, rng):
    points = draw_points(kernel, 2 * m + 1, m, sampling="orthogonal", rng=rng)
    for start in range(0, len(points), m):
        block = points[start : start + m]
        block = block / np.linalg.norm(block, axis=1, keepdims=True)
        np.testing.assert_allclose(block @ block.T, np.eye(len(block)), rtol=0, atol=16 * m**1.5 * np.finfo(float).eps)


@pytest.mark.parametrize("m", [1, ORTHOGONAL_FROM - 1, ORTHOGONAL_FROM])
@each(RANDOM)
def test_auto_sampling_is_orthogonal_where_that_exists_and_pays_and_else_quasi_monte_carlo(kernel, m):
    auto = build_map(kernel, m, FeatureChoices(n_features=20), np.random.default_rng(0))
    inputs = m * auto.inputs.width
    meant = "orthogonal" if kernel.geometry != "product" and inputs >= ORTHOGONAL_FROM else "qmc"
    named = build_map(kernel, m, FeatureChoices(n_features=20, sampling=meant), np.random.default_rng(0))
    np.testing.assert_array_equal(auto.points, named.points)


def test_auto_sampling_of_more_columns_than_sobol_points_have(rng):
    assert draw_points(Laplacian(), 2, MAX_SOBOL_COLUMNS + 1, sampling="auto", rng=rng).shape == (2, MAX_SOBOL_COLUMNS + 1)
