"""Group lasso where losses hardly curve: targets far outside the bend of the loss, classes that can be told apart."""

import numpy as np
import pytest

from bochner.losses import LOSSES, EpsilonLogistic
from bochner.solvers import group_lasso_path

GROUPS = np.repeat(np.arange(3), 4)


@pytest.mark.parametrize("size", [1.0, 100.0, 1e4])
def test_targets_far_outside_the_bend_never_raise_the_objective(size):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 12))
    y = size * (X[:, 0] + 0.1 * rng.standard_normal(60))
    loss = EpsilonLogistic(epsilon=0.1, gamma=10.0)
    path = group_lasso_path(X, y, GROUPS, loss=loss, n_alphas=4, smallest=0.05, max_iter=30)
    shifts = np.linspace(y.min(), y.max(), 2001)
    at_zero = min(loss.values(np.full((60, 1), a), y[:, None]).mean() for a in shifts)
    assert np.all(path.value[:, 0] <= at_zero * (1 + 1e-6))
    assert np.all(np.diff(path.value[:, 0]) <= 1e-6 * at_zero)  # a smaller penalty has a smaller minimum


@pytest.mark.parametrize("name", list(LOSSES))
def test_classes_that_can_be_told_apart(name):
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=60)
    X = np.repeat(np.eye(3), 4, axis=1)[labels] + 0.01 * rng.standard_normal((60, 12))
    one_hot = np.eye(3)[labels]
    targets = one_hot if name == "multinomial" else 2 * one_hot - 1
    path = group_lasso_path(X, targets, GROUPS, loss=name, n_alphas=5, smallest=1e-4)
    assert path.converged.all()
    assert np.mean((X @ path.coef[-1] + path.intercept[-1]).argmax(axis=1) == labels) == 1
