"""The last ridge regression of many kernels, on more features where rows are few."""

import tracemalloc

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from bochner import MultipleKernelClassifier, MultipleKernelRegressor
from bochner.engines import forward
from bochner.estimators import dictionary, multiple_parts, multiple_rounds
from bochner.kernels import Gaussian
from bochner.multiple_kernel import fine_bytes, refit_finely

N, FINE = 120, 240
PARTS = [(f"k{t}", Gaussian(scale=0.6), [t]) for t in range(4)]


def rows(n=N):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 4))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.05 * rng.normal(size=n)


@pytest.fixture(autouse=True)
def few_features(monkeypatch):
    """50 features of each kernel to learn weights from."""
    monkeypatch.setattr(multiple_parts, "MOST_FEATURES", 80)
    monkeypatch.setattr(dictionary, "FEWEST_IN_ALL", 80)


def fitted(**options):
    X, y = rows()
    return MultipleKernelRegressor(PARTS, **{"standardize": False, "random_state": 0} | options).fit(X, y)


def sizes(model):
    return set(model.feature_map_.sizes)


@pytest.mark.parametrize("refit", ["ridge", "weighted"])
def test_it_is_ridge_regression_on_features_of_the_kernels_that_are_in(refit):
    X, y = rows()
    model = fitted(refit=refit)
    assert sizes(model) == {FINE}
    weights = model.kernel_weights_[model.kernel_weights_ > 0]
    roots = np.sqrt(weights / weights.max()) if refit == "weighted" else np.ones(len(weights))
    features = forward(model.feature_map_, X) * np.repeat(roots, FINE)
    peer = Ridge(alpha=N * model.refit_alpha_).fit(features, y)
    np.testing.assert_allclose(model.predict(X), peer.predict(features), rtol=1e-6, atol=1e-6)


def test_it_comes_closer_to_the_exact_kernels():
    X, y = rows()
    new = np.random.default_rng(2).normal(size=(200, 4))
    options = {"l1_ratio": 0.0, "alpha": 1e-3}
    kernel = sum(part[1](X[:, part[2]], X[:, part[2]]) for part in PARTS)
    there = sum(part[1](new[:, part[2]], X[:, part[2]]) for part in PARTS)
    there = there - there.mean(axis=1, keepdims=True) - kernel.mean(axis=0) + kernel.mean()
    centre = np.eye(N) - 1 / N
    peer = KernelRidge(alpha=N * 1e-3, kernel="precomputed").fit(centre @ kernel @ centre, y - y.mean())
    exact = peer.predict(there) + y.mean()
    coarse, fine = fitted(n_features=50, **options), fitted(**options)
    assert (sizes(coarse), sizes(fine)) == ({50}, {FINE})
    assert fine.alpha_ == coarse.alpha_ == 1e-3
    for model in (coarse, fine):
        lengths = [np.linalg.norm(coef) for coef in np.split(model.coef_, 4)]
        np.testing.assert_allclose(model.kernel_weights_[:, 0], lengths / np.sqrt(2), rtol=1e-6)

    def far(model):
        return np.sqrt(np.mean((model.predict(new) - exact) ** 2))

    assert far(fine) < far(coarse)


@pytest.mark.parametrize("options", [{"n_features": 50}, {"refit": None}])
def test_it_is_left_out_where_that_is_asked_for(options):
    assert sizes(fitted(**options)) <= {50, 80}


def test_it_is_left_out_where_rows_are_many(monkeypatch):
    monkeypatch.setattr(dictionary, "FINE_ROWS", N - 1)
    assert FINE not in sizes(fitted())


def test_it_is_smaller_where_memory_is_short():
    room = 3 * 8 * N * 4 * 100  # of 100 features of each of four kernels and their copies
    assert [dictionary.fine_features(4, N, there) for there in (room, 1.5 * room, np.inf)] == [100, 150, FINE]


def test_shares_of_variance_are_those_of_the_predictions():
    X, _ = rows()
    model = fitted()
    parts = np.split(forward(model.feature_map_, X), len(model.feature_map_.sizes), axis=1)
    coefs = np.split(model.coef_, len(parts))
    each = np.array([(part @ coef)[:, 0] for part, coef in zip(parts, coefs, strict=True)])
    expected = [np.cov(one, each.sum(axis=0))[0, 1] / np.var(each.sum(axis=0), ddof=1) for one in each]
    is_in = model.kernel_weights_[:, 0] > 0
    np.testing.assert_allclose(model.explained_variance_[is_in, 0], expected, rtol=1e-8)


def test_a_kernel_for_each_class():
    X, y = rows()
    labels = np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))
    model = MultipleKernelClassifier(PARTS, shared_weights=False, random_state=0).fit(X, labels)
    assert sizes(model) == {FINE}
    assert model.score(X, labels) > 0.8
    is_out = np.repeat((model.kernel_weights_ == 0)[model.kernel_weights_.any(axis=1)], FINE, axis=0)
    assert np.all(model.coef_[is_out] == 0)


@pytest.mark.parametrize("refit", ["auto", "ridge", "weighted", "joint"])
def test_all_kernels_may_be_out(refit):
    X, y = rows()
    for model in (fitted(refit=refit, alpha=100.0), fitted_to(np.ones(N), refit=refit)):
        assert not model.kernel_weights_.any()
        assert FINE not in sizes(model)
        np.testing.assert_allclose(model.predict(X), model.predict(X)[0])
    np.testing.assert_allclose(fitted(refit=refit, alpha=100.0).predict(X), y.mean())


def fitted_to(y, **options):
    return MultipleKernelRegressor(PARTS, **{"standardize": False, "random_state": 0} | options).fit(rows()[0], y)


def two_targets(X):
    """Of the first column, and of the second."""
    return np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2]) + 0.05 * np.random.default_rng(3).normal(size=(len(X), 2))


def test_each_target_on_the_kernels_that_are_in_for_it():
    X, _ = rows()
    y = two_targets(X)
    model = fitted_to(y, shared_weights=False, refit="ridge", l1_ratio=1.0)
    is_in = model.kernel_weights_ > 0
    assert sizes(model) == {FINE}
    assert not np.array_equal(is_in[:, 0], is_in[:, 1])
    features = np.split(forward(model.feature_map_, X), len(model.feature_map_.sizes), axis=1)
    by_kernel = dict(zip(np.flatnonzero(is_in.any(axis=1)).tolist(), features, strict=True))
    for target in range(2):
        some = np.hstack([by_kernel[t] for t in np.flatnonzero(is_in[:, target])])
        peer = Ridge(alpha=N * model.refit_alpha_).fit(some, y[:, target])
        np.testing.assert_allclose(model.predict(X)[:, target], peer.predict(some), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shared", [True, False])
def test_memory_is_what_is_counted(shared, monkeypatch):
    """Also where a target has fewer kernels than all of them together."""
    n, seen = 300, []

    def watched(learned, folds, feature_map, choices):
        tracemalloc.start()
        found = refit_finely(learned, folds, feature_map, choices)
        seen.append((tracemalloc.get_traced_memory()[1], learned.norms.shape[1], feature_map.n_features))
        tracemalloc.stop()
        return found

    monkeypatch.setattr(multiple_rounds, "refit_finely", watched)
    X = np.random.default_rng(1).normal(size=(n, 6))
    parts = [(f"k{t}", Gaussian(scale=0.6), [t]) for t in range(6)]
    y = np.column_stack([two_targets(X), two_targets(X[:, 2:])])
    options = {"shared_weights": shared, "l1_ratio": 1.0, "alpha": 0.1, "random_state": 0}
    model = MultipleKernelRegressor(parts, **options).fit(X, y)
    assert shared or (model.kernel_weights_ > 0).sum(axis=0).min() == 1
    ((peak, n_sets, n_features),) = seen
    assert sizes(model) == {2 * n}
    assert peak <= fine_bytes(n, 5, n_sets) + 8 * (dictionary.FINE_COPIES + n_sets - 1) * n * n_features
