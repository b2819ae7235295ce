"""float32 rows: features in float32 as long as the penalty allows it, coefficients in float64."""

import numpy as np
import pytest
import torch
from scipy import sparse

from bochner import KernelRegressor
from bochner.single_kernel import LOWEST_IN_FLOAT32
from tests.estimators.learners import each_learner, fixed, output, small, table, targets

EPS32 = float(np.finfo(np.float32).eps)


def solving_error_in_float32(alpha):
    """Relative error of coefficients from float32 features.

    A standardised row of three columns up to three deviations has angles up to ten, which float32 knows to ten roundings;
    features are off by as much, and products of them by twice that. The system has a condition of at most 1 + 1 / alpha.
    Four times that for the largest of all coefficients, and the rows themselves are rounded.
    """
    return 80 * EPS32 * (1 + 1 / alpha)


@each_learner
@pytest.mark.parametrize(
    ("alpha", "precision"), [(1e-2, "float32"), (2 * LOWEST_IN_FLOAT32, "float32"), (LOWEST_IN_FLOAT32 / 2, "float64")]
)
def test_the_penalty_decides(learner, alpha, precision):
    X, y = table()
    y = targets(learner, y)
    model = small(learner, alpha=alpha, tol=1e-1).fit(X.astype(np.float32), y)
    assert {record["precision"] for record in model.history_} == {precision}
    assert all(summary["precision"] == precision for summary in model.families_.values())
    assert model.coef_.dtype == model.intercept_.dtype == np.float64
    assert output(model, X.astype(np.float32)).dtype == np.float64


@each_learner
def test_float64_rows_stay_so(learner):
    X, y = table()
    model = small(learner, tol=1e-1).fit(X, targets(learner, y))
    assert {record["precision"] for record in model.history_} == {"float64"}


@each_learner
def test_once_in_float64_it_does_not_go_back(learner):
    X, y = table()
    model = small(learner).fit(X.astype(np.float32), targets(learner, y))
    precisions = [record["precision"] for record in model.history_]
    by_start = "".join(p[-2:] for p in precisions).replace("32", "a").replace("64", "b")
    assert by_start.count("ba") <= 1  # but for the second start, which begins in float32 again
    for entry in model.history_:
        assert entry["precision"] == "float64" or entry["alpha"] >= LOWEST_IN_FLOAT32


@each_learner
@pytest.mark.parametrize("alpha", [1.0, 1e-2])
def test_coefficients_are_those_of_float64(learner, alpha):
    X, y = table()
    y = targets(learner, y)
    double, single = (fixed(learner, alpha=alpha).fit(A, y) for A in (X, X.astype(np.float32)))
    bound = solving_error_in_float32(alpha)
    np.testing.assert_allclose(single.coef_, double.coef_, rtol=0, atol=bound * np.linalg.norm(double.coef_))
    assert single.validation_error_ == pytest.approx(double.validation_error_, rel=2 * bound)


@each_learner
def test_a_small_penalty_on_float32_rows_is_as_good_as_on_float64(learner):
    """Rows differ by a rounding to float32 and nothing else: held-out errors are those of float64 arithmetic."""
    X, y = table()
    y = targets(learner, y)
    single = X.astype(np.float32)
    one = fixed(learner, alpha=1e-9, n_features=16, standardize=False).fit(single, y)
    two = fixed(learner, alpha=1e-9, n_features=16, standardize=False).fit(single.astype(np.float64), y)
    assert one.history_[-1]["precision"] == "float64"
    assert one.validation_error_ == two.validation_error_
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.moments_.gram, two.moments_.gram)


@each_learner
@pytest.mark.parametrize("container", [sparse.csr_array, torch.tensor])
def test_other_containers(learner, container):
    X, y = table()
    y = targets(learner, y)
    X = np.where(np.abs(X) < 0.6, 0, X).astype(np.float32)
    model = fixed(learner, alpha=1e-1, standardize=False).fit(container(X), y)
    assert {record["precision"] for record in model.history_} == {"float32"}
    dense = fixed(learner, alpha=1e-1, standardize=False).fit(X, y)
    bound = solving_error_in_float32(1e-1) * np.linalg.norm(dense.coef_)
    np.testing.assert_allclose(model.coef_, dense.coef_, rtol=0, atol=bound)


@pytest.mark.parametrize("criterion", ["kfold", "holdout", "loo"])
def test_every_criterion(criterion):
    X, y = table()
    double, single = (fixed(KernelRegressor, criterion=criterion).fit(A, y) for A in (X, X.astype(np.float32)))
    bound = solving_error_in_float32(1e-2)
    assert single.validation_error_ == pytest.approx(double.validation_error_, rel=2 * bound)


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.int64, bool])
def test_other_dtypes_are_read_as_float64(dtype):
    X = (10 * table()[0]).astype(dtype)
    y = table()[1]
    one, two = (fixed(KernelRegressor).fit(A, y) for A in (X, X.astype(np.float64)))
    assert {record["precision"] for record in one.history_} == {"float64"}
    bound = solving_error_in_float32(1e-2) * np.linalg.norm(two.coef_)
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=0, atol=bound)


@each_learner
def test_rows_of_another_precision_than_the_fit(learner):
    X, y = table()
    model = fixed(learner, alpha=1e-1).fit(X, targets(learner, y))
    reach = np.abs(model.coef_).sum()
    decisions = [model._outputs(X.astype(dtype)) for dtype in (np.float32, np.float64)]
    assert np.max(np.abs(decisions[0] - decisions[1])) <= 64 * EPS32 * (1 + reach)
