"""Choosing rows as centres: no row twice, and better than at random where rows are not alike."""

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.spatial.distance import cdist

from bochner import centres
from bochner.centres import METHODS, choose_centres, distinct_rows
from bochner.features import CentreMap
from bochner.kernels import Chi2, Gaussian, Matern, MetricKernel

KERNEL = Gaussian(scale=0.8)
each_method = pytest.mark.parametrize("method", METHODS)


def uneven(rng, n=400):
    """Many rows close together and a few far apart."""
    X = 0.05 * rng.standard_normal((n, 2))
    X[: n // 20] = 4 * rng.standard_normal((n // 20, 2))
    return rng.permutation(X)


@each_method
@pytest.mark.parametrize("n", [1, 2, 37, 200])
def test_all_different_and_as_many_as_asked_for(method, n, rng):
    X = rng.standard_normal((300, 3))
    chosen = choose_centres(X, n, np.random.default_rng(0), method=method, kernel=KERNEL)
    assert chosen.shape == (n,)
    assert len(np.unique(chosen)) == n
    assert chosen.min() >= 0
    assert chosen.max() < 300
    again = choose_centres(X, n, np.random.default_rng(0), method=method, kernel=KERNEL)
    np.testing.assert_array_equal(chosen, again)
    if n > 1:
        other = choose_centres(X, n, np.random.default_rng(1), method=method, kernel=KERNEL)
        assert not np.array_equal(chosen, other)


@each_method
@pytest.mark.parametrize(
    "convert", [np.asarray, sparse.csr_array, sparse.csc_matrix, torch.tensor], ids=["dense", "csr", "csc", "tensor"]
)
def test_of_equal_rows_one_is_chosen(method, convert, rng):
    X = np.repeat(rng.integers(0, 3, (40, 2)), 4, axis=0).astype(float)
    X[::3] *= -1
    X[5] = -0.0
    size = len(np.unique(X, axis=0))
    for n in (size - 4, size, 100):
        chosen = choose_centres(convert(X), n, rng, method=method, kernel=KERNEL)
        assert len(chosen) == min(n, size)
        assert len(np.unique(X[chosen], axis=0)) == len(chosen)


def test_distinct_rows_are_the_first_of_their_kind(rng):
    X = np.array([[0.0, 1.0], [2.0, 0.0], [-0.0, 1.0], [2.0, 0.0], [0.0, 0.0]])
    for rows in (X, X.astype(np.float32), sparse.csr_array(X), sparse.coo_array(X)):
        np.testing.assert_array_equal(distinct_rows(rows), [0, 1, 4])


@pytest.mark.parametrize("method", [method for method in METHODS if method != "random"])
@pytest.mark.parametrize("kernel", [KERNEL, Matern(nu=1.5), MetricKernel(Gaussian(), np.eye(2))], ids=["g", "m", "metric"])
def test_less_of_the_kernel_is_left_than_with_random_rows(method, kernel):
    """The trace of k(X, X) - Phi Phi', averaged over seeds: rows far from the crowd are seen."""
    X = uneven(np.random.default_rng(3))

    def left(method, seed):
        chosen = choose_centres(X, 20, np.random.default_rng(seed), method=method, kernel=kernel)
        return len(X) - np.sum(CentreMap(kernel, X[chosen]).forward(X) ** 2)

    assert np.mean([left(method, seed) for seed in range(5)]) < 0.7 * np.mean([left("random", seed) for seed in range(5)])


def test_distances_are_those_of_the_metric(rng):
    """A column that the metric does not see spreads no centres."""
    X = np.stack([rng.standard_normal(500), 1e3 * rng.standard_normal(500)], axis=1)
    blind = MetricKernel(Gaussian(), np.array([[1.0], [0.0]]))
    gaps = {}
    for kernel in (blind, None):
        chosen = choose_centres(X, 20, np.random.default_rng(0), method="k-means++", kernel=kernel)
        gaps[kernel is blind] = cdist(X[:, :1], X[chosen][:, :1]).min(axis=1).max()
    assert gaps[True] < gaps[False]


def test_k_means_draws_in_proportion_to_squared_distances():
    """Two centres of three rows: after one of the two that are near each other, the far one nearly always."""
    X = np.array([[0.0], [1.0], [3.0]])
    second = {0: [], 1: [], 2: []}
    for seed in range(3000):
        first, then = choose_centres(X, 2, np.random.default_rng(seed), method="k-means++")
        second[int(first)].append(int(then))
    assert all(900 < len(each) < 1100 for each in second.values())  # 3000 / 3, and four deviations of 26
    for first, far, share in ((0, 2, 9 / 10), (1, 2, 4 / 5), (2, 0, 9 / 13)):
        drawn = np.array(second[first])
        deviation = (share * (1 - share) / len(drawn)) ** 0.5
        assert abs(np.mean(drawn == far) - share) < 4 * deviation


def test_pivots_come_in_proportion_to_what_is_left():
    """The law of the second pivot, by the formula, although pivots are proposed several at a time."""
    X = np.array([[0.0], [0.5], [2.0], [2.2], [9.0]])
    K = Gaussian().exact(X, X)
    n_seeds, counts, firsts = 4000, np.zeros((5, 5)), np.zeros(5)
    for seed in range(n_seeds):
        chosen = centres._pivots(X, 4, np.random.default_rng(seed), Gaussian())
        firsts[chosen[0]] += 1
        counts[chosen[0], chosen[1]] += 1
    for i in range(5):
        assert abs(firsts[i] / n_seeds - 0.2) < 4 * (0.2 * 0.8 / n_seeds) ** 0.5
        law = np.maximum(1 - K[i] ** 2, 0)
        law /= law.sum()
        bound = 4 * np.sqrt(law * (1 - law) / firsts[i]) + 1e-12
        assert np.all(np.abs(counts[i] / firsts[i] - law) < bound)


def test_leverage_scores_near_the_exact_ones(monkeypatch):
    """With a pilot of all rows they are the diagonal of K (K + shift I)^-1, and far rows have the largest."""
    X = uneven(np.random.default_rng(0), n=100)
    seen = {}
    monkeypatch.setattr(centres, "_draw", lambda weights, n, rng: seen.setdefault("weights", weights)[:n].argsort())
    centres._by_leverage(X, 200, np.random.default_rng(0), KERNEL)
    K = KERNEL.exact(X, X)
    values, vectors = np.linalg.eigh(K)
    shifts = np.geomspace(1e-15, 10, 4000)
    exact = np.array([np.sum(vectors**2 * (values / (values + shift)), axis=1) for shift in shifts])
    errors = np.abs(exact - seen["weights"]).max(axis=1)
    assert errors.min() < 5e-3  # steps of one in 100 of the shift change a score by a quarter of that at most


def test_additive_kernels(rng):
    X = rng.random((60, 3))
    for method in METHODS:
        assert len(set(choose_centres(X, 7, rng, method=method, kernel=Chi2()).tolist())) == 7


def test_a_uniform_sample_of_many_rows(rng, monkeypatch):
    monkeypatch.setattr(centres, "ROWS_A_CENTRE", 3)
    sizes = []
    monkeypatch.setitem(METHODS, "k-means++", lambda X, n, rng, kernel: sizes.append(X.shape[0]) or np.arange(n))
    chosen = choose_centres(rng.random((500, 2)), 10, rng, method="k-means++")
    assert sizes == [30]
    assert len(set(chosen.tolist())) == 10


@pytest.mark.parametrize(
    ("n", "options", "words"),
    [
        (3, {"method": "kmeans"}, "must be one of 'random'"),
        (0, {}, "positive whole number"),
        (2.0, {}, "positive whole number"),
        (3, {"method": "leverage"}, "needs the kernel"),
        (3, {"method": "cholesky"}, "needs the kernel"),
    ],
)
def test_errors(n, options, words, rng):
    with pytest.raises(ValueError, match=words):
        choose_centres(rng.random((5, 2)), n, rng, **options)
