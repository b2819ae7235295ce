"""Group lasso beside skglm, on random features of digits: the same objectives."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from bochner import FourierFeatures
from bochner.solvers import group_lasso_path
from tests.naive import group_lasso_objective


def quarters(n, per_kernel):
    """Features of the four quarters of images of digits, and whether a digit is a three."""
    X, y = load_digits(return_X_y=True)
    images = X[:n].reshape(-1, 8, 8) / 16
    corners = [images[:, 4 * i : 4 * i + 4, 4 * j : 4 * j + 4].reshape(n, -1) for i in (0, 1) for j in (0, 1)]
    parts = [
        FourierFeatures("gaussian", n_features=per_kernel, scale=1.0, random_state=t).fit_transform(corner)
        for t, corner in enumerate(corners)
    ]
    return np.hstack(parts), np.where(y[:n] == 3, 1.0, -1.0), np.repeat(np.arange(4), per_kernel)


@pytest.mark.parametrize("unequal", [False, True])
def test_objectives_are_those_of_skglm(unequal):
    from skglm.datafits import QuadraticGroup
    from skglm.penalties import WeightedGroupL2
    from skglm.solvers import GroupBCD
    from skglm.utils.data import grp_converter

    F, y, groups = quarters(600, 10)
    weights = np.array([1.0, 2.0, 0.5, 1.5]) if unequal else np.ones(4)
    path = group_lasso_path(F, y, groups, n_alphas=4, smallest=0.01, group_weights=weights, tol=1e-10)
    indices, bounds = grp_converter(10, F.shape[1])
    solver = GroupBCD(max_iter=1000, max_epochs=10**6, tol=1e-12, fit_intercept=False, warm_start=True)
    X, centred = np.asfortranarray(F - F.mean(axis=0)), y - y.mean()
    coef, fitted = np.zeros(F.shape[1]), np.zeros(len(F))
    for i, alpha in enumerate(path.alphas):
        penalty = WeightedGroupL2(alpha / 2, weights, bounds, indices)  # of half the mean square
        coef = solver.solve(X, centred, QuadraticGroup(bounds, indices), penalty, coef, fitted)[0]
        intercept = y.mean() - F.mean(axis=0) @ coef
        options = {"alpha": alpha, "group_weights": weights}
        theirs = group_lasso_objective(F, y[:, None], groups, coef[:, None], intercept[None], **options)
        assert path.value[i, 0] <= theirs * (1 + 1e-9)
        np.testing.assert_allclose(theirs, path.value[i, 0], rtol=1e-6)
