"""alpha= of the learners, and penalties on scales: a number, the best one, one for each target; exact zeros."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from bochner import KernelClassifier, KernelRegressor
from tests.estimators.learners import (
    each_learner,
    features_of,
    fixed,
    output,
    regressor,
    small,
    solving_error,
    table,
    targets,
)


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 1, np.float32(0.5)])
@pytest.mark.parametrize("criterion", ["kfold", "holdout", "loo"])
def test_a_number_is_the_penalty_of_scikit_learns_ridge(alpha, criterion):
    X, y = table()
    weights = np.random.default_rng(0).gamma(2.0, 0.5, 60)
    model = fixed(KernelRegressor, alpha=alpha, criterion=criterion).fit(X, y, weights)
    assert model.alpha_ == pytest.approx(float(alpha), rel=1e-12)
    assert {round(np.log10(record["alpha"]), 9) for record in model.history_} == {round(np.log10(float(alpha)), 9)}
    features = features_of(model, X)
    ridge = Ridge(alpha=float(alpha) * weights.sum()).fit(features, y, weights)
    bound = solving_error(features, float(alpha)) * np.linalg.norm(ridge.coef_)
    np.testing.assert_allclose(model.coef_[:, 0], ridge.coef_, rtol=0, atol=bound)


@each_learner
def test_an_endless_penalty_leaves_the_mean(learner):
    X, y = table()
    y = targets(learner, y)
    model = fixed(learner, alpha=1e9).fit(X, y)
    mean = y.mean() if learner is KernelRegressor else (2.0 * y - 1).mean()
    # Coefficients are at most |Phi' y| / (n alpha) <= largest target / alpha.
    np.testing.assert_allclose(model._outputs(X)[:, 0], mean, rtol=0, atol=1e-8 * np.abs(y).max())


@each_learner
def test_the_best_penalty_is_no_worse_than_any_number(learner):
    X, y = table()
    y = targets(learner, y)
    best = fixed(learner, alpha=None).fit(X, y)
    for alpha in 10.0 ** np.arange(-8, 1):
        other = fixed(learner, alpha=alpha).fit(X, y)
        # The search ends where another step promises a part of 1e-4 of the error; ten times that for steps that keep less.
        assert best.validation_error_ <= other.validation_error_ * (1 + 1e-3)
    assert best.alpha_ > 0


@each_learner
def test_one_target_of_its_own_is_the_best_penalty(learner):
    X, y = table()
    y = targets(learner, y)
    one, two = (fixed(learner, alpha=alpha).fit(X, y) for alpha in ("per-target", None))
    assert one.alpha_.shape == (1,)
    # The same search by eigenvalues or by factors: equal but for rounding, which the smallest penalty magnifies.
    np.testing.assert_allclose(one.alpha_, two.alpha_, rtol=1e-6)
    np.testing.assert_allclose(output(one, X), output(two, X), rtol=0, atol=1e-6 * np.abs(output(two, X)).max())


def test_targets_together_are_targets_alone():
    X, y = table()
    rng = np.random.default_rng(1)
    Y = np.stack([y, X[:, 1] + 0.5 * rng.standard_normal(60), X[:, 0] * X[:, 2] + 0.3 * rng.standard_normal(60)], axis=1)
    together = fixed(KernelRegressor, alpha="per-target").fit(X, Y)
    alone = [fixed(KernelRegressor, alpha=None).fit(X, Y[:, j]) for j in range(3)]
    # Each search ends where a step promises less than a part of 1e-4 of the error; errors are flat in the penalty there, so
    # that predictions differ by the square root of that part of the residual's spread at most.
    for j, model in enumerate(alone):
        bound = 1e-2 * model.residual_deviation_[0]
        np.testing.assert_allclose(together.predict(X)[:, j], model.predict(X), rtol=0, atol=bound)
    errors = [model.validation_error_ for model in alone]
    assert together.validation_error_ == pytest.approx(np.mean(errors), rel=1e-3)
    assert len(set(together.alpha_)) == 3


def test_a_penalty_for_each_target_is_no_worse_than_one_for_all():
    X, y = table()
    Y = np.stack([y, np.random.default_rng(0).standard_normal(60)], axis=1)
    own, shared = (fixed(KernelRegressor, alpha=alpha).fit(X, Y) for alpha in ("per-target", None))
    assert own.validation_error_ <= shared.validation_error_ * (1 + 1e-3)
    assert own.alpha_[1] > own.alpha_[0]  # noise wants the larger penalty


def test_every_class_may_have_a_penalty_of_its_own():
    X, y = table()
    model = small(KernelClassifier, alpha="per-target").fit(X, targets(KernelClassifier, y, 3))
    assert model.alpha_.shape == (3,)
    np.testing.assert_array_equal(model.predict_proba(X).argmax(axis=1), model.predict(X))
    assert all(len(record["alpha"]) == 3 for record in model.history_)


@each_learner
@pytest.mark.parametrize("alpha", [0, -1.0, np.nan, np.inf, "auto", [1.0], np.ones(2), (1e-3, 1e-2), {}])
def test_penalties_that_are_none(learner, alpha):
    X, y = table()
    with pytest.raises(ValueError, match=r"alpha must be a positive number, None .* or 'per-target', got"):
        small(learner, alpha=alpha).fit(X, targets(learner, y))


@each_learner
def test_leaving_one_out_has_one_penalty(learner):
    X, y = table()
    with pytest.raises(ValueError, match="alpha='per-target' needs criterion='kfold' or 'holdout', not 'loo'"):
        small(learner, alpha="per-target", criterion="loo").fit(X, targets(learner, y))


# -- penalties on scales -------------------------------------------------------------------------------------------------


def three_of_twelve(n=200):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 12))
    return X, np.sin(2 * X[:, 4]) + X[:, 7] + X[:, 2] * X[:, 4] + 0.05 * rng.standard_normal(n)


@pytest.mark.parametrize("seed", range(3))
def test_useless_columns_have_a_relevance_of_zero(seed):
    X, y = three_of_twelve()
    useful = np.isin(np.arange(12), [2, 4, 7])
    model = regressor(n_features=64, scale_penalty="sparse", scale_penalty_strength=0.03, random_state=seed).fit(X, y)
    assert (model.relevance_[~useful] == 0).all()
    assert (model.relevance_[useful] > 0).all()
    # Columns of relevance zero move no prediction. Their scale is 1e-12 of the largest one, so that an angle feels 1e-12 of
    # (largest scale) x (base point) x (distance), products below 1e3, and a prediction the sum of its coefficients' share.
    moved = np.where(model.relevance_ > 0, X, X[::-1])
    bound = 1e-9 * np.abs(model.coef_).sum()
    np.testing.assert_allclose(model.predict(moved), model.predict(X), rtol=0, atol=bound)
    assert (regressor(n_features=64, random_state=seed, tol=1e-2).fit(X, y).relevance_ > 0).all()


@pytest.mark.parametrize("penalty", ["squared", "sparse"])
def test_a_penalty_of_no_strength_is_none(penalty):
    X, y = table()
    one = regressor(scale_penalty=penalty, scale_penalty_strength=0.0).fit(X, y)
    two = regressor().fit(X, y)
    kept = one.relevance_ > 0  # a sparse penalty rounds scales below a thousandth of the largest to zero
    np.testing.assert_allclose(one.scale_[kept], two.scale_[kept], rtol=1e-12)
    spread = two.standardiser_.spread
    assert (two.scale_ * spread < 1e-3 * np.max(two.scale_ * spread))[~kept].all()


@each_learner
def test_a_strong_penalty_makes_scales_small(learner):
    X, y = table()
    y = targets(learner, y)
    scales = [
        small(learner, scale_penalty="squared", scale_penalty_strength=strength).fit(X, y).scale_ @ X.var(axis=0)
        for strength in (0.0, 0.1, 10.0)
    ]
    assert scales[0] > scales[1] > scales[2]
