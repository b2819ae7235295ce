"""Cases that once broke the rule: a line each, as a failure prints it, and what was wrong."""

import numpy as np
import pytest

from bochner import KernelRegressor
from bochner.kernels import SkewedChi2
from bochner.solvers.normal_equations import CentredMoments
from bochner.standardise import ColumnSums, Standardiser, column_sums
from bochner.statistics import Moments
from tests.hostile.cases import Case
from tests.hostile.estimators import attempt

DATA = "columns={} target={} weights={} layout={} dtype={} n={} m={} seed={}"
PINNED = {
    "the spread of held-out decisions that are all alike": (
        "KernelClassifier logistic threads holdout",
        "mixed-sizes+duplicated two none C float64 3 1 0",
    ),
    "coordinates of rows that differ by 1e-323": (
        "MultipleKernelRegressor squared blocks plain",
        "denormal+1e-30 outlier none strided float64 13 1 0",
    ),
    "means of parts of 1e308 and -1e308": (
        "MultipleKernelClassifier logistic dask plain",
        "largest+bool every-row-its-own 1e12 csr own 60 1 54814",
    ),
    "the reciprocal of a spread of 1e-323": (
        "GMKLClassifier squared threads cheap",
        "denormal bool none reversed float64 30 70 26875",
    ),
    "differences of targets of 1e308": (
        "KernelRegressor squared threads given-alpha",
        "collinear largest 1e12 read-only float64 2 1 13948",
    ),
    "scikit-learn's sum of such targets": (
        "KernelRegressor squared threads centres",
        "zeros+plain largest zeros reversed float64 30 7 180821601",
    ),
    "a unit of sparse columns that is 1e-323": (
        "KernelRegressor squared threads matern12",
        "nearly-constant+int8 negative-zero 1e300 csr float64 13 70 61202",
    ),
    "the width of rows that are all alike": (
        "KernelClassifier squared threads centres",
        "negative-zero three 1e300 csc float32 8 2 152481",
    ),
    "the evidence of targets that are zero": (
        "KernelRegressor squared threads full-metric",
        "constant+offset negative-zero none reversed float32 13 2 0",
    ),
    "a metric of two rows": (
        "KernelRegressor squared threads full-metric",
        "constant+offset 1e-30 1e12 C float64 2 2 4",
    ),
    "frequencies learned from two rows": (
        "KernelRegressor squared threads free-spectrum",
        "plain plain none C float64 2 1 0",
    ),
    "an infinite held-out error, times no step": (
        "KernelClassifier squared threads free-spectrum",
        "zeros one-row-of-a-class 1e12 F own 13 3 23",
    ),
    "targets far from zero, predicted in float32": (
        "KernelRegressor squared threads plain",
        "zeros several-units ones strided float32 3 3 75853",
    ),
    "float32 rows that float32 cannot standardise": (
        "KernelClassifier squared threads per-target",
        "mixed-sizes+zeros bool two-rows C float32 3 1 0",
    ),
    "a residual of nothing in a duality gap": (
        "MultipleKernelRegressor squared torch no-refit",
        "zeros+all-zero offset 1e12 csc float64 3 7 4",
    ),
    "probabilities that are certain, in the intercept": (
        "MultipleKernelClassifier multinomial threads no-refit",
        "log-normal+units two none csc float64 5 1 0",
    ),
    "classes told by one held-out row": (
        "KernelClassifier multinomial threads holdout",
        "bool+zeros int8 1e300 frame own 8 3 3462",
    ),
    "distances of rows of 1e308": (
        "FourierFeatures squared threads matern12",
        "largest plain 1e-300 read-only own 30 3 8907449",
    ),
    "scales beyond float32": (
        "FourierFeatures squared threads skewed_chi2",
        "denormal32 int8 two-rows csr float32 8 7 1522095421",
    ),
    "1e308 divided by a small c": (
        "KernelClassifier squared threads skewed_chi2",
        "nearly-constant+largest bool 1e-300 frame own 3 7 591",
    ),
    "costs of 1e300": (
        "GMKLRegressor epsilon-insensitive threads as-they-are",
        "denormal+denormal32 outlier 1e300 read-only float64 5 3 4",
    ),
    "histograms of 1e308": (
        "KernelRegressor squared torch chi2",
        "largest+denormal int8 none strided own 3 3 1455",
    ),
    "histograms that differ by a rounding of 1e14": (
        "KernelRegressor squared torch chi2",
        "largest+offset 1e30 two-rows C float64 2 3 2",
    ),
    "labels of 2**63 in blocks": (
        "KernelClassifier squared blocks plain",
        "duplicated int64 two-rows frame float32 30 1 59",
    ),
    "classes that tie": (
        "GMKLClassifier hinge threads as-they-are",
        "units every-row-its-own float32 reversed float32 8 2 1325961",
    ),
    "a held-out error of nothing, rounded below zero": (
        "KernelRegressor squared threads per-target",
        "zeros+nearly-constant constant ones reversed float32 60 2 4294967295",
    ),
    "a square of 1e154 in a kernel's tail": (
        "KernelRegressor squared torch centres",
        "all-zero+uint64 int8 none csc float32 60 2 0",
    ),
    "an intercept that took the digits": (
        "GMKLRegressor squared threads cheap",
        "denormal32+mixed-sizes offset zeros read-only own 2 3 95567",
    ),
    "weights of 1e300, multiplied": (
        "MultipleKernelRegressor squared dask plain",
        "int8+int64 log-normal 1e300 csc float32 30 1 669",
    ),
    "costs and targets that LIBSVM cannot meet in single precision": (
        "GMKLRegressor epsilon-insensitive threads dear",
        "zeros+units 1e30 ones strided float64 30 2 219048",
    ),
    "a group without curvature": (
        "MultipleKernelClassifier logistic threads two-kernels",
        "zeros+denormal32 int64 1e12 reversed own 5 1 305",
    ),
    "rows of no weight at 1e308": (
        "MultipleKernelClassifier squared torch plain",
        "largest two two-rows C float64 30 1 113689324",
    ),
    "rows of one column that are close together": (
        "KernelRegressor squared threads given-alpha",
        "cauchy+log-normal bool none csr own 13 1 64788",
    ),
    "probabilities calibrated on a part of the rows": (
        "KernelClassifier squared torch full-metric",
        "negative-zero+plain text 1e-300 reversed float64 60 2 2835",
    ),
    "probabilities calibrated on rows of which a few have all the weight": (
        "KernelClassifier squared torch full-metric",
        "float16+bool three 1e12 C float32 60 70 0",
    ),
    "held-out errors of nothing, rounded further below zero": (
        "KernelRegressor squared blocks plain",
        "int64 outlier float32 csc float32 60 3 1784",
    ),
    "two rows that differ by their rounding alone": (
        "MultipleKernelRegressor squared threads as-they-are",
        "nearly-constant+one-hot plain none C float64 2 70 1",
    ),
    "targets without digits": (
        "KernelRegressor squared dask given-alpha",
        "int8 denormal ones read-only float32 60 2 75650",
    ),
    "two targets without digits": (
        "KernelRegressor squared threads given-alpha",
        "log-normal+zeros denormal 1e300 csc float32 2 1 0",
    ),
    "a coordinate that is the rounding of 1e30": (
        "KernelRegressor squared threads chi2",
        "collinear+constant plain none strided float64 2 70 2",
    ),
    "a coordinate that is the rounding of a row": (
        "MultipleKernelRegressor squared threads as-they-are",
        "nearly-constant+one-hot plain none C float64 3 1 4",
    ),
}


@pytest.mark.parametrize("name", PINNED)
def test_the_rule_holds(name):
    learner, data = PINNED[name]
    line = "estimator={} loss={} engine={} variant={} ".format(*learner.split()) + DATA.format(*data.split())
    outcome = attempt(Case.parse(line))
    assert outcome.result != "failed", outcome.message


def test_float32_rows_predict_targets_far_from_zero():
    """The mean of the targets is added in float64: float32 has seven digits, and these targets differ in the eighth."""
    X = np.random.default_rng(0).standard_normal((60, 2)).astype(np.float32)
    y = 1e8 + np.sin(X[:, 0].astype(float))
    model = KernelRegressor("gaussian", n_features=32, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9


def test_rows_far_beyond_float32_keep_their_order():
    X = np.array([[1e-30], [2e-30], [3e-30], [1e30]], dtype=np.float32)
    found = Standardiser.of(X, np.array([1.0, 1.0, 1.0, 0.0]))(X)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[:3, 0], np.array([-1, 0, 1]) * 1.5**0.5, rtol=1e-5, atol=1e-6)
    assert np.isfinite(found).all()
    assert found[3, 0] > 1e10


def test_spreads_without_a_reciprocal_are_those_of_constant_columns():
    assert Standardiser.of(np.array([[5e-324], [1e-323]]), np.ones(2)).spread.item() == 1.0
    assert Standardiser.of(np.array([[-1e-280], [1e-280]]), np.ones(2)).spread.item() == pytest.approx(1e-280)


@pytest.mark.parametrize("unit", [5e-324, 1e-320, 1e-300, 1e-291])
def test_targets_that_are_next_to_nothing_are_learned_like_others(unit):
    X = np.linspace(0, 1, 30)[:, None]
    y = np.round(40 * np.sin(4 * X[:, 0]))
    model = KernelRegressor("gaussian", n_features=32, alpha=1e-6, random_state=0)
    plain, small = (model.fit(X, targets).predict(X) for targets in (y, y * unit))
    roundings = 8 * 5e-324 / unit  # those of the targets in their mean and sums; predictions of zero would be 40 off
    np.testing.assert_allclose(small / unit, plain, rtol=0, atol=1e-9 + roundings)


@pytest.mark.parametrize("unit", [1e-291, 1e-289, 1e-287])
def test_small_targets_that_vary_by_a_small_part_are_learned_like_others(unit):
    """Their spread is below the smallest whose reciprocal is a number, and they themselves are not."""
    X = np.linspace(0, 1, 30)[:, None]
    y = 1 + 0.01 * np.sin(4 * X[:, 0])
    model = KernelRegressor("gaussian", n_features=32, alpha=1e-6, random_state=0)
    plain, small = (model.fit(X, targets).predict(X) for targets in (y, y * unit))
    assert np.abs(plain - y).max() < 1e-4
    np.testing.assert_allclose(small / unit, plain, rtol=0, atol=1e-8)


def test_small_targets_that_are_constant_but_for_rounding_stay_so():
    targets = 1e-289 * (1 + np.array([[0.0], [2e-16], [-2e-16]]))
    assert Standardiser.of_targets(column_sums(targets, np.ones(3))).spread.item() == 1.0


def test_the_least_penalty_counts_for_long_features_only():
    rng = np.random.default_rng(0)
    unit = rng.standard_normal((50, 3))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    Y, weights = rng.standard_normal((50, 1)), np.ones(50)
    assert CentredMoments(Moments.of(unit, Y, weights)).least_alpha < 1e-13
    assert CentredMoments(Moments.of(1e7 * unit, Y, weights)).least_alpha > 1e-3


def test_numbers_too_large_for_c_are_the_largest_that_are_not():
    kernel = SkewedChi2(c=0.1)
    assert np.isfinite(kernel.transform(np.array([[1.7e308]]))).all()
    X = np.array([[0.5, 3.0]])
    np.testing.assert_allclose(kernel.transform(X), np.log1p(X / 0.1), rtol=1e-15)


@pytest.mark.parametrize("unit", [1e-300, 1.0, 1e300])
def test_variances_of_blocks_do_not_depend_on_the_unit_of_weights(unit):
    total = ColumnSums(1)
    for block in np.array_split(np.arange(8.0)[:, None], 4):
        total.add(block, np.full(2, unit))
    np.testing.assert_allclose(total.spread, np.std(np.arange(8.0)), rtol=1e-14)
