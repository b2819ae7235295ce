"""A penalty for each kernel: the formula, derivatives, limits, and noise that loses its weight."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from bochner import MultipleKernelRegressor
from bochner.fold_problems import FoldMoments
from bochner.kernel_penalties import KernelPenalties
from bochner.kernels import Gaussian
from bochner.statistics import Moments

SIZES = (4, 3, 5)


def parts(n_targets=2, seed=0):
    """Features, targets and weights of three parts of rows."""
    rng = np.random.default_rng(seed)
    coef = rng.standard_normal((sum(SIZES), n_targets))
    found = []
    for n in (30, 25, 20):
        features = rng.standard_normal((n, sum(SIZES))) + 1
        found.append((features, features @ coef + rng.standard_normal((n, n_targets)), rng.uniform(0.5, 2, n)))
    return found


def regressions(found, validated=(0, 2)):
    moments = [Moments.of(features.copy(), *rest) for features, *rest in found]
    return KernelPenalties(FoldMoments.of(moments, tuple(range(len(moments)))), SIZES, validated)


PENALTIES = np.array([0.02, 0.5, 0.1])


@pytest.mark.parametrize("without", [None, 1])
def test_models_are_those_of_ridge_regression_on_scaled_columns(without):
    found = parts()
    kept = [part for k, part in enumerate(found) if k != without]
    X, y, weights = (np.concatenate(each) for each in zip(*kept, strict=True))
    roots = np.repeat(PENALTIES, SIZES) ** -0.5
    expected = Ridge(alpha=weights.sum()).fit(X * roots, y, sample_weight=weights)
    coef, intercept = regressions(found).model(without, PENALTIES)
    np.testing.assert_allclose(coef, roots[:, None] * expected.coef_.T, rtol=0, atol=1e-10)
    np.testing.assert_allclose(intercept, expected.intercept_, rtol=0, atol=1e-10)


def test_the_error_is_that_of_rows_that_are_left_out():
    found = parts()
    some = regressions(found)
    errors = []
    for k in (0, 2):
        coef, intercept = some.model(k, PENALTIES)
        features, targets, weights = found[k]
        errors.append(np.average(np.mean((features @ coef + intercept - targets) ** 2, axis=1), weights=weights))
    assert some.error_and_gradient(np.log(PENALTIES))[0] == pytest.approx(np.mean(errors), rel=1e-11)


@pytest.mark.parametrize("target", [None, 1])
def test_derivatives_are_those_of_finite_differences(target):
    some = regressions(parts())
    some = some if target is None else some.of_target(target)
    at, step = np.log(PENALTIES), 1e-5
    _, gradient = some.error_and_gradient(at)
    for t, own in enumerate(np.eye(3)):
        ends = [some.error_and_gradient(at + sign * step * own)[0] for sign in (1, -1)]
        assert gradient[t] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6, abs=1e-9)


def test_learning_lowers_the_error():
    some = regressions(parts())
    start = np.full(3, 0.3)
    learned = some.learn(start)
    assert some.error_and_gradient(np.log(learned))[0] < some.error_and_gradient(np.log(start))[0]


def grouped(n_groups=40, each=8, seed=0):
    """Targets that depend on x alone, and a z that tells groups of rows apart: each group has noise of its own."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), each)
    x, z = rng.standard_normal((len(group), 2)), rng.standard_normal((n_groups, 3))[group]
    y = np.sin(2 * x[:, 0]) + rng.standard_normal(n_groups)[group]
    held_out = group % 4 == 0
    return np.hstack([x, z]), y, [(np.flatnonzero(~held_out), np.flatnonzero(held_out))]


@pytest.mark.parametrize("shared", [True, False])
def test_what_tells_groups_apart_loses_its_weight(shared):
    X, y, validation = grouped()
    kernels = [("signal", Gaussian(scale=0.7), [0, 1]), ("group", Gaussian(scale=1.0), [2, 3, 4])]
    options = {"n_features": 60, "l1_ratio": 0.0, "validation": validation, "random_state": 0, "shared_weights": shared}
    targets = np.stack([y, -y], axis=1)
    plain = MultipleKernelRegressor(kernels, **options).fit(X, targets)
    learned = MultipleKernelRegressor(kernels, refit="learned", **options).fit(X, targets)
    assert learned.refit_ == "learned"
    assert learned.validation_error_ < plain.validation_error_
    assert np.all(learned.explained_variance_[1] < plain.explained_variance_[1])
    assert [trial["refit"] for trial in learned.trials_].count("learned") == 1


def test_weights_that_are_no_better_are_not_tried_twice():
    X, _, validation = grouped()
    model = MultipleKernelRegressor(n_features=30, refit="learned", validation=validation, random_state=0).fit(
        X, np.ones(len(X))
    )
    assert model.refit_ is None
    assert len({(trial["alpha"], trial["l1_ratio"]) for trial in model.trials_}) == len(model.trials_)


def test_it_needs_the_squared_loss():
    with pytest.raises(ValueError, match="refit='learned' needs loss='squared'"):
        MultipleKernelRegressor(refit="learned", loss="epsilon-logistic").fit(*grouped()[:2])
