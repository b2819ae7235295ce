"""Kernel ridge regression on full kernel matrices: formulas, gradients, agreement with the primal and with scikit-learn."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.utils.estimator_checks import parametrize_with_checks

from bochner.criteria import HeldOutError
from bochner.exact import KernelRidgeGD
from bochner.exact.criterion import ExactFolds, ExactHeldOutError, ExactRidge
from bochner.features import FeatureChoices, build_map
from bochner.folds import Folds, Rows
from bochner.kernels import Gaussian
from bochner.memory import readable
from tests.cases import ALL, each, rows, with_scales

EPS = np.finfo(np.float64).eps


def problem(n=40, m=3, outputs=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, m))
    targets = np.stack([np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2], X[:, 2]][:outputs], axis=1)
    return Rows(X, targets + 0.1 * rng.standard_normal((n, outputs)), rng.uniform(0.5, 2, n))


def folds_of(data, validated=(0, 1, 2)):
    return Folds(tuple(data.take(part) for part in np.array_split(np.arange(data.n), 3)), validated)


def test_the_bordered_system_is_solved():
    data = problem()
    gram = Gaussian(scale=2.0).exact(data.X, data.X)
    ridge = ExactRidge.of(gram, data, 1e-2)
    diagonal = np.diag(data.weights.sum() * 1e-2 / data.weights)
    left = (gram + diagonal) @ ridge.dual + ridge.intercept
    # The condition number of the system is at most (40 + largest diagonal) / smallest diagonal, below 1e3.
    np.testing.assert_allclose(left, data.targets, atol=1e3 * 40 * EPS * np.abs(ridge.dual).max())
    np.testing.assert_allclose(ridge.dual.sum(axis=0), 0, atol=1e3 * 40 * EPS * np.abs(ridge.dual).max())


def test_without_its_intercept_it_is_scikit_learns_kernel_ridge():
    data = problem()
    kernel = Gaussian(scale=2.0)
    ridge = ExactRidge.of(kernel.exact(data.X, data.X), data, 1e-2)
    peer = KernelRidge(alpha=data.weights.sum() * 1e-2, kernel="precomputed")
    peer.fit(kernel.exact(data.X, data.X), data.targets - ridge.intercept, sample_weight=data.weights)
    np.testing.assert_allclose(ridge.dual, peer.dual_coef_, rtol=1e-8)


@pytest.mark.parametrize("validated", [(0, 1, 2), (2,)], ids=["kfold", "holdout"])
@each(ALL)
def test_gradient(kernel, validated):
    data = problem()
    data = Rows(rows(kernel, data.n, 3), data.targets, data.weights)
    criterion = ExactHeldOutError(folds_of(data, validated))
    kernel = with_scales(kernel, 3, shared=False)
    found = criterion.evaluate(kernel)

    def value(theta):
        gram = kernel.with_theta(theta).exact(criterion.rows.X, criterion.rows.X)
        return ExactFolds(gram, criterion.rows, criterion.validated).at(found.log_alpha).value

    gradient = kernel.unconstrain(found.gradient)
    expected = np.empty_like(gradient)
    for i in range(len(expected)):
        step = np.zeros_like(expected)
        step[i] = 1e-4
        near, far = (value(kernel.theta + k * step) - value(kernel.theta - k * step) for k in (1, 2))
        expected[i] = (8 * near - far) / 12e-4
    assert np.max(np.abs(gradient - expected)) < 1e-5 * np.max(np.abs(expected))


def test_derivative_in_the_penalty():
    data = problem()
    criterion = ExactHeldOutError(folds_of(data))
    folds = ExactFolds(Gaussian(scale=2.0).exact(criterion.rows.X, criterion.rows.X), criterion.rows, criterion.validated)
    difference = (folds.at(-5 + 1e-4).value - folds.at(-5 - 1e-4).value) / 2e-4
    assert folds.at(-5.0).slope == pytest.approx(difference, rel=1e-6)


@pytest.mark.parametrize("validated", [(0, 1, 2), (2,)], ids=["kfold", "holdout"])
def test_it_is_the_regression_on_features_where_the_kernel_is_their_product(validated):
    data = problem()
    folds = folds_of(data, validated)
    feature_map = build_map(Gaussian(scale=2.0), 3, FeatureChoices(n_features=20), np.random.default_rng(0))
    primal = HeldOutError(folds).evaluate(feature_map, np.log(1e-3))
    exact = ExactHeldOutError(folds)
    features = feature_map.forward(exact.rows.X)
    dual = ExactFolds(features @ features.T, exact.rows, exact.validated).at(primal.log_alpha)
    assert dual.value == pytest.approx(primal.value, rel=1e-8)


def test_the_criterion_on_features_approaches_the_exact_one():
    data = problem(n=90)
    folds = folds_of(data)
    kernel = Gaussian(scale=2.0)
    exact = ExactHeldOutError(folds).evaluate(kernel, gradient=False)
    criterion = HeldOutError(folds)

    def error(n_features):
        """Mean over seeds of the relative difference of the two criteria, each at its best penalty."""
        choices = FeatureChoices(n_features=n_features, sampling="iid")
        maps = (build_map(kernel, 3, choices, np.random.default_rng(seed)) for seed in range(20))
        return np.mean([abs(criterion.evaluate(m, gradient=False).value / exact.value - 1) for m in maps])

    few, many = error(32), error(2048)
    # Errors of the features fall by the square root of 64; half of that is left to the spread over 20 seeds.
    assert many < few / 4


def test_scale_of_a_column_follows_its_unit():
    data = problem(outputs=1)
    one = KernelRidgeGD("gaussian", max_iter=5, random_state=0).fit(data.X, data.targets[:, 0])
    X = data.X * [1.0, 10.0, 1.0]
    other = KernelRidgeGD("gaussian", max_iter=5, random_state=0).fit(X, data.targets[:, 0])
    np.testing.assert_allclose(one.scale_ / other.scale_, [1, 10, 1], rtol=1e-6)
    np.testing.assert_allclose(one.predict(data.X), other.predict(X), rtol=1e-6)


def test_too_many_rows_are_refused():
    message = "100 rows need about 480 kB .* max_memory is 100 kB: fit at most 45 rows, raise max_memory, or use"
    with pytest.raises(ValueError, match=message):
        KernelRidgeGD(max_memory=1e5).fit(np.ones((100, 2)), np.ones(100))


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0.5, "0.5 bytes"),
        (999, "999 bytes"),
        (1e3, "1 kB"),
        (4.8e5, "480 kB"),
        (2.25e6, "2.25 MB"),
        (8e9, "8 GB"),
        (3e16, "3e+04 TB"),
    ],
)
def test_sizes_are_readable(n_bytes, text):
    assert readable(n_bytes) == text


def test_leave_one_out_is_refused():
    with pytest.raises(ValueError, match="use 'kfold' or 'holdout'"):
        KernelRidgeGD(criterion="loo").fit(np.ones((10, 2)), np.arange(10.0))


def test_families_are_reported_and_clones_fit_alike():
    data = problem(outputs=1)
    model = KernelRidgeGD(max_iter=2, random_state=0).fit(data.X, data.targets[:, 0])
    assert set(model.families_) == {"Gaussian", "Cauchy", "Matern(nu=1.5)"}
    again = clone(model).fit(data.X, data.targets[:, 0])
    np.testing.assert_array_equal(again.predict(data.X), model.predict(data.X))


BY_ROW = "folds are drawn by row: a row given twice makes other folds than a weight of two"


@parametrize_with_checks(
    [KernelRidgeGD("gaussian", max_iter=2, random_state=0)],
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": BY_ROW,
        "check_sample_weight_equivalence_on_sparse_data": BY_ROW,
    },
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_three_relevant_columns_of_twenty_are_found():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 20))
    y = np.sin(2 * X[:, 4]) + X[:, 7] * X[:, 13]
    model = KernelRidgeGD("gaussian", random_state=0).fit(X, y)
    assert model.validation_error_ < 0.9  # an error of one is that of a constant
    assert set(np.argsort(-model.relevance_)[:3]) == {4, 7, 13}
