"""The mean of Gaussian kernels of groups of columns: its formula, its gradient, its features, and learning with it."""

import numpy as np
import pytest
import torch

from bochner import KernelRegressor
from bochner.exact import KernelRidgeGD
from bochner.features import FeatureChoices, build_map
from bochner.kernels import Gaussian, GaussianSum
from tests.cases import kernel_tolerance, numerical_gradient, relative_error

GROUPS = (0, 1, 0, 2, 1)
KERNEL = GaussianSum(groups=GROUPS, scale=np.array([0.5, 0.7, 0.9, 1.1, 0.6]))


def rows(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, len(GROUPS)))


def parts(kernel, X, Z):
    """The Gaussian kernel of each group by itself."""
    scale = np.asarray(kernel.scale)
    columns = [[i for i, group in enumerate(kernel.groups) if group == t] for t in range(3)]
    return [Gaussian(scale=scale[index])(X[:, index], Z[:, index]) for index in columns]


def test_it_is_the_mean_of_the_kernels_of_its_groups():
    X, Z = rows(7), rows(6, seed=1)
    X[0] = Z[0]
    expected = np.mean(parts(KERNEL, X, Z), axis=0)
    np.testing.assert_allclose(KERNEL(X, Z), expected, rtol=0, atol=kernel_tolerance(KERNEL, X, Z))
    got = KERNEL(torch.tensor(X), torch.tensor(Z))
    np.testing.assert_allclose(got.numpy(), expected, rtol=0, atol=kernel_tolerance(KERNEL, X, Z))
    one = GaussianSum(groups=(0,) * 5, scale=KERNEL.scale)
    joint = Gaussian(scale=KERNEL.scale)(X, Z)
    np.testing.assert_allclose(one(X, Z), joint, rtol=0, atol=kernel_tolerance(KERNEL, X, Z))


@pytest.mark.parametrize("block", [4, 1024])
def test_its_gradient_is_that_of_differences(block, monkeypatch, rng):
    monkeypatch.setattr("bochner.kernels.sums.BLOCK", block)
    X, Z = rows(7), rows(6, seed=1)
    X[0] = Z[0]
    G = rng.standard_normal((7, 6))
    gradient = KERNEL.unconstrain(KERNEL.exact_adjoint(X, Z, G))
    expected = numerical_gradient(lambda theta: float(np.sum(G * KERNEL.with_theta(theta)(X, Z))), KERNEL.theta, 1e-3)
    assert relative_error(gradient, expected) < 1e-6


@pytest.mark.parametrize("sampling", ["iid", "orthogonal", "qmc"])
def test_features_are_of_one_group_each_and_unbiased(sampling):
    X, Z = rows(4), rows(4, seed=1)
    found = []
    for seed in range(200):
        choices = FeatureChoices(n_features=24, sampling=sampling)
        feature_map = build_map(KERNEL, 5, choices, np.random.default_rng(seed))
        found.append(feature_map.forward(X) @ feature_map.forward(Z).T)
    there = feature_map.points != 0
    for t in range(3):
        assert (there[np.array(GROUPS) == t].any(axis=0)).sum() == 4  # of 12 frequencies
    assert (there.sum(axis=0) == [2] * 8 + [1] * 4).all()
    error = np.mean(found, axis=0) - KERNEL(X, Z)
    assert (np.abs(error) < 5 * np.std(found, axis=0) / 200**0.5).all()


def test_both_learners_find_a_sum_and_what_does_not_count():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((700, 5))
    truth = np.sin(X[:, 0] + X[:, 2]) + np.cos(X[:, 3])
    y = truth + 0.3 * rng.standard_normal(700)
    start = KERNEL.replace(scale=np.full(5, 0.7))
    for model in (KernelRegressor(start, n_features=300, random_state=0), KernelRidgeGD(start, random_state=0)):
        model.fit(X[:500], y[:500])
        assert np.mean((model.predict(X[500:]) - truth[500:]) ** 2) < 0.3**2 / 3  # much less than the noise
        assert 2 * model.relevance_[[1, 4]].max() < model.relevance_[[0, 2, 3]].min()
        assert isinstance(model.kernel_, GaussianSum)


@pytest.mark.parametrize("groups", [(), (0, 2), (1, 1), (0.5, 1), "ab", ((0, 1),), [(0,), (1, 2)]])
def test_groups_are_whole_numbers_without_gaps(groups):
    with pytest.raises(ValueError, match=r"GaussianSum\.groups must"):
        GaussianSum(groups=groups)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="groups has 5 entries and the rows have 4 columns"):
        KERNEL(np.zeros((2, 4)))
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="2 frequencies are fewer than the 3 groups"):
        build_map(KERNEL, 5, FeatureChoices(n_features=4), rng)
    with pytest.raises(ValueError, match="leave order out"):
        build_map(KERNEL, 5, FeatureChoices(n_features=12, order=2), rng)
