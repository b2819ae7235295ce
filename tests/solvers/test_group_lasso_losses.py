"""Group lasso with losses other than the squared one: scikit-learn, a plain solver, optimality conditions, gaps."""

import numpy as np
import pytest
import sklearn
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.utils.fixes import parse_version

from bochner.losses import LOSSES, REGRESSION_LOSSES, EpsilonLogistic
from bochner.solvers import group_lasso_path

GROUPS = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 3])
ALL = {**LOSSES, **REGRESSION_LOSSES}
LASSO = {"penalty": "l1"} if parse_version(sklearn.__version__) < parse_version("1.8") else {"l1_ratio": 1.0}
"""What scikit-learn calls it."""
each_loss = pytest.mark.parametrize("name", list(ALL))


def problem(name, n=60, c=3, seed=0):
    """Rows of which the first two groups count, and targets as the loss wants them."""
    rng = np.random.default_rng([seed, n, c])
    X = rng.standard_normal((n, len(GROUPS)))
    scores = X @ np.where((GROUPS < 2)[:, None], rng.standard_normal((len(GROUPS), c)), 0.0) + rng.standard_normal((n, c))
    if name == "logistic":
        return X, np.where(scores > 0.3, 1.0, -1.0)
    return X, (np.eye(c)[scores.argmax(axis=1)] if name == "multinomial" else scores)


def objective(name, X, Y, coef, intercept, alpha, *, l1_ratio=1.0, shared=False, weights=None):
    share = np.full(len(X), 1 / len(X)) if weights is None else weights / weights.sum()
    parts = [coef[t == GROUPS] for t in range(4)]
    lengths = sum(np.linalg.norm(w) if shared else np.linalg.norm(w, axis=0).sum() for w in parts)
    penalty = alpha * (l1_ratio * lengths + (1 - l1_ratio) * np.sum(coef**2))
    return share @ ALL[name].values(X @ coef + intercept, Y) + penalty


@each_loss
@pytest.mark.parametrize(("shared", "l1_ratio"), [(False, 1.0), (True, 1.0), (False, 0.6)])
def test_values_are_objectives_and_no_general_minimiser_finds_lower_ones(name, shared, l1_ratio):
    X, Y = problem(name)
    weights = np.random.default_rng(1).gamma(2.0, 1.0, len(X))
    options = {"shared": shared, "l1_ratio": l1_ratio}
    path = group_lasso_path(X, Y, GROUPS, loss=name, n_alphas=4, smallest=0.05, sample_weight=weights, tol=1e-8, **options)
    assert path.converged.all()
    for alpha, coef, intercept, value in zip(path.alphas, path.coef, path.intercept, path.value.sum(axis=1), strict=True):

        def at(flat, alpha=alpha):
            flat = flat.reshape(-1, Y.shape[1])
            return objective(name, X, Y, flat[:-1], flat[-1], alpha, weights=weights, **options)

        here = np.r_[coef, intercept[None]].ravel()
        assert at(here) == pytest.approx(value, rel=1e-9)
        rng = np.random.default_rng(0)
        for start in (here, here + 0.01 * rng.standard_normal(here.shape)):
            general = minimize(at, start, method="L-BFGS-B", options={"maxiter": 2000, "maxfun": 100_000})
            assert value <= general.fun * (1 + 1e-8)


@each_loss
def test_optimality_conditions(name):
    X, Y = problem(name)
    path = group_lasso_path(X, Y, GROUPS, loss=name, n_alphas=5, smallest=0.02, tol=1e-11)
    for alpha, coef, intercept in zip(path.alphas, path.coef, path.intercept, strict=True):
        slopes = ALL[name].slopes(X @ coef + intercept, Y) / len(X)
        assert np.abs(slopes.sum(axis=0)).max() < 1e-7
        for t in range(4):
            for k in range(Y.shape[1]):
                gradient, w = X[:, t == GROUPS].T @ slopes[:, k], coef[t == GROUPS, k]
                if w.any():
                    np.testing.assert_allclose(gradient, -alpha * w / np.linalg.norm(w), atol=1e-4 * alpha)
                else:
                    assert np.linalg.norm(gradient) <= alpha * (1 + 1e-7)


@each_loss
def test_the_gap_bounds_the_distance_from_the_minimum(name):
    X, Y = problem(name)
    exact = group_lasso_path(X, Y, GROUPS, loss=name, n_alphas=8, tol=1e-10)
    rough = group_lasso_path(X, Y, GROUPS, loss=name, alphas=exact.alphas, tol=1e-1)
    excess = rough.value - exact.value
    assert np.all(excess <= rough.gap + exact.gap + 1e-13)  # and rounding
    assert np.all(rough.gap <= 1e-1 * rough.value)
    assert excess.max() > 1e-6


@each_loss
def test_nothing_is_in_at_the_largest_penalty_and_something_just_below(name):
    X, Y = problem(name)
    largest = group_lasso_path(X, Y, GROUPS, loss=name, n_alphas=1).alphas[0]
    path = group_lasso_path(X, Y, GROUPS, loss=name, alphas=[largest, 0.98 * largest])
    assert not path.coef[0].any()
    assert path.coef[1].any()


def test_squared_rows_and_squared_moments_agree():
    X, Y = problem("squared")
    by_moments = group_lasso_path(X, Y, GROUPS, n_alphas=5, tol=1e-11)
    by_rows = group_lasso_path(X, Y, GROUPS, loss=REGRESSION_LOSSES["squared"], n_alphas=5, tol=1e-11)
    np.testing.assert_allclose(by_rows.alphas, by_moments.alphas, rtol=1e-12)
    np.testing.assert_allclose(by_rows.value, by_moments.value, rtol=1e-10)
    np.testing.assert_allclose(by_rows.coef, by_moments.coef, atol=1e-5)


def test_groups_of_one_are_the_logistic_lasso_of_scikit_learn():
    X, Y = problem("logistic", c=1)
    path = group_lasso_path(X, Y, np.arange(10), loss="logistic", n_alphas=4, smallest=0.05, tol=1e-12)
    for alpha, coef, intercept in zip(path.alphas[1:], path.coef[1:], path.intercept[1:], strict=True):
        options = {"C": 1 / (len(X) * alpha), "solver": "saga", "tol": 1e-10, "max_iter": 100_000, "random_state": 0}
        peer = LogisticRegression(**LASSO, **options)
        peer.fit(X, Y[:, 0])
        np.testing.assert_allclose(coef[:, 0], peer.coef_[0], atol=1e-5)
        np.testing.assert_allclose(intercept, peer.intercept_, atol=1e-5)


def test_two_classes_of_the_multinomial_loss_are_the_logistic_loss():
    """With all outputs together, coefficients (-w, w) / 2 have the length of w / 2^(1/2)."""
    X, Y = problem("logistic", c=1)
    logistic = group_lasso_path(X, Y, GROUPS, loss="logistic", n_alphas=4, tol=1e-11)
    one_hot = np.c_[Y < 0, Y > 0].astype(float)
    both = group_lasso_path(
        X, one_hot, GROUPS, loss="multinomial", shared=True, alphas=logistic.alphas * np.sqrt(2), tol=1e-11
    )
    np.testing.assert_allclose(both.coef[..., 1] - both.coef[..., 0], logistic.coef[..., 0], atol=1e-4)
    np.testing.assert_allclose(both.value, logistic.value, rtol=1e-9)


def test_a_wide_band_of_indifference_leaves_everything_out():
    X, Y = problem("squared")
    path = group_lasso_path(X, Y, GROUPS, loss=EpsilonLogistic(epsilon=100.0, gamma=5.0), alphas=[1e-3])
    assert not path.coef.any()


@pytest.mark.parametrize(
    ("loss", "message"),
    [("hinge", "loss must be one of"), ("logistic", "must be -1 or \\+1"), ("multinomial", "a one in the column")],
)
def test_bad_losses_and_targets_are_told(loss, message):
    X, Y = problem("squared")
    with pytest.raises(ValueError, match=message):
        group_lasso_path(X, Y, GROUPS, loss=loss)
