"""Problems of folds: ridge regressions on the kernels that are in, against each target by itself."""

import numpy as np
import pytest

from bochner.engines import forward
from bochner.features import FeatureChoices, StackedMap, build_map
from bochner.fold_problems import FoldProblems, KernelRidges
from bochner.folds import Folds, Rows
from bochner.kernels import Gaussian
from bochner.solvers.groups import Groups

ALPHA = 1e-2
NORMS = np.array([[2.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, 3.0, 0.0]])
"""Lengths of three kernels for three targets, the last of which has none."""


def folded(n, rng):
    X, Y, weights = rng.standard_normal((n, 3)), rng.standard_normal((n, 3)), rng.uniform(0.5, 2.0, n)
    return Folds(tuple(Rows(X[k::2], Y[k::2], weights[k::2]) for k in range(2)), (0, 1))


def stacked(rng):
    return StackedMap(tuple(build_map(Gaussian(), 1, FeatureChoices(n_features=10), rng) for _ in range(3)))


def naive_ridge(features, targets, weights):
    """Coefficients and intercept of the weighted mean squared error plus ALPHA |w|^2."""
    share = weights / weights.sum()
    mean, level = share @ features, share @ targets
    centred = features - mean
    gram = centred.T @ (share[:, None] * centred) + ALPHA * np.eye(features.shape[1])
    coef = np.linalg.solve(gram, centred.T @ (share * (targets - level)))
    return coef, level - mean @ coef


@pytest.mark.parametrize("n", [60, 12])  # more rows than features, and fewer: then in coordinates of the rows
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("without", [None, 1])
def test_ridges_of_kernels_that_are_in(n, weighted, without):
    rng = np.random.default_rng(n)
    folds, feature_map = folded(n, rng), stacked(rng)
    problems = FoldProblems(folds, feature_map, together=False)
    groups = Groups(problems.sizes)
    coef, intercept = KernelRidges(problems, groups, NORMS, weighted=weighted).model(without, ALPHA)
    coef = problems.expand(coef)
    rows = Rows.stack([part for k, part in enumerate(folds.parts) if k != without])
    features = forward(feature_map, rows.X)
    for target, norms in enumerate(NORMS.T):
        root = np.sqrt(norms / max(norms.max(), 1e-300)) if weighted else (norms > 0).astype(float)
        root = np.repeat(root, feature_map.sizes)
        expected, level = naive_ridge(features * root, rows.targets[:, target], rows.weights)
        np.testing.assert_allclose(coef[:, target], root * expected, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(intercept[target], level, rtol=1e-8, atol=1e-10)


def test_lengths_of_all_targets_together():
    rng = np.random.default_rng(0)
    folds, feature_map = folded(60, rng), stacked(rng)
    problems = FoldProblems(folds, feature_map, together=True)
    together = KernelRidges(problems, Groups(problems.sizes, shared=True), NORMS[:, :1], weighted=True)
    each = KernelRidges(problems, Groups(problems.sizes), np.repeat(NORMS[:, :1], 3, axis=1), weighted=True)
    for one, two in zip(together.model(0, ALPHA), each.model(0, ALPHA), strict=True):
        np.testing.assert_array_equal(one, two)
