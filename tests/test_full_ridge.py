"""Kernel ridge regression with every row as a centre."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from bochner.criteria import HeldOutError
from bochner.features import CentreMap
from bochner.folds import Folds, Rows
from bochner.full_ridge import FullHeldOutError, FullPenalties, FullRidge
from bochner.kernels import Gaussian, Matern, MetricKernel


def some_folds(seed: int = 0, n: int = 60, n_parts: int = 3, *, equal: bool = False) -> Folds:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    Y = np.column_stack([np.sin(X[:, 0]) + 2, X[:, 1] * X[:, 2]]) + 0.1 * rng.standard_normal((n, 2))
    weights = np.ones(n) if equal else rng.uniform(0.5, 2.0, n)
    parts = tuple(Rows(X[k::n_parts], Y[k::n_parts], weights[k::n_parts]) for k in range(n_parts))
    return Folds(parts, validated=(1,))


KERNELS = [Gaussian(scale=0.7), Matern(scale=[0.5, 1.0, 0.2], nu=1.5), MetricKernel(Gaussian(), np.tri(3) / 2)]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_it_is_the_regression_on_all_rows_as_centres(kernel):
    folds = some_folds()
    rows = np.concatenate([part.X for part in folds.parts])
    by_sums = HeldOutError(Folds(folds.parts, validated=(1,)), penalty=1e-3)
    training = np.concatenate([folds.parts[0].X, folds.parts[2].X])
    reference = by_sums.evaluate(CentreMap(kernel, training), gradient=False)
    trial = FullPenalties(FullRidge(kernel, [folds.parts[0], folds.parts[2]]), folds.parts[1]).at(float(np.log(1e-3)))
    assert trial.value == pytest.approx(reference.value, rel=1e-8)

    criterion = FullHeldOutError(folds)
    whole = CentreMap(kernel, rows)
    found = criterion.evaluate(whole)
    fit = criterion.fit(whole, found)
    exact = HeldOutError(folds, penalty=float(np.exp(found.log_alpha)))
    other = exact.fit(whole, exact.evaluate(whole, gradient=False))
    assert fit.at_centres
    np.testing.assert_allclose(fit.intercept, other.intercept, rtol=1e-6)
    np.testing.assert_allclose(kernel(rows, rows) @ fit.coef, whole.forward(rows) @ other.coef, rtol=1e-6, atol=1e-8)


def test_it_agrees_with_scikit_learn_where_targets_have_no_mean():
    folds = some_folds(equal=True)
    rows = Rows.stack(list(folds.parts))
    alpha = 1e-2
    dual, intercept = FullRidge(Gaussian(scale=1.0), list(folds.parts)).solve(float(np.log(alpha))).coefficients
    peer = KernelRidge(alpha=alpha * rows.n, kernel="rbf", gamma=0.5).fit(rows.X, rows.targets - intercept)
    np.testing.assert_allclose(dual, peer.dual_coef_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(dual.sum(axis=0), 0, atol=1e-9)


def test_derivatives_in_the_penalty_are_those_of_differences():
    folds = some_folds()
    search = FullPenalties(FullRidge(Gaussian(scale=0.7), [folds.parts[0], folds.parts[2]]), folds.parts[1])
    here, h = float(np.log(3e-3)), 1e-4
    low, middle, high = (search.at(here + step) for step in (-h, 0, h))
    assert middle.slope == pytest.approx((high.value - low.value) / (2 * h), rel=1e-6)
    assert middle.curvature == pytest.approx((high.slope - low.slope) / (2 * h), rel=1e-6)


def test_the_penalty_is_the_best_of_a_grid():
    folds = some_folds()
    whole = CentreMap(Gaussian(scale=0.7), np.concatenate([part.X for part in folds.parts]))
    found = FullHeldOutError(folds).evaluate(whole)
    search = FullPenalties(FullRidge(Gaussian(scale=0.7), [folds.parts[0], folds.parts[2]]), folds.parts[1])
    grid = [search.at(point).value for point in np.linspace(found.log_alpha - 3, found.log_alpha + 3, 25)]
    assert found.value <= min(grid) * (1 + 1e-3)


def test_a_row_without_weight_is_not_there():
    folds = some_folds()
    first, kept = folds.parts[0], np.arange(folds.parts[0].n) != 4
    without = FullRidge(Gaussian(), [first.take(kept)]).solve(-5.0).coefficients
    weights = np.where(kept, first.weights, 0.0)
    dual, intercept = FullRidge(Gaussian(), [Rows(first.X, first.targets, weights)]).solve(-5.0).coefficients
    np.testing.assert_allclose(dual[kept], without[0], rtol=1e-7)
    np.testing.assert_allclose(dual[4], 0, atol=1e-100)
    np.testing.assert_allclose(intercept, without[1], rtol=1e-7)


def test_no_gradient_and_no_blocks():
    folds = some_folds()
    with pytest.raises(ValueError, match="has no gradient: use HeldOutError"):
        FullHeldOutError(folds).evaluate(CentreMap(Gaussian(), folds.parts[0].X), gradient=True)
    with pytest.raises(ValueError, match="use HeldOutError"):
        FullHeldOutError(object())
