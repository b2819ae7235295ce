"""FourierFeatures as a scikit-learn estimator: its checks, and what its tests ask of the samplers that ours replaces."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from bochner import FourierFeatures
from bochner.features.inputs import best_interval
from bochner.kernels import KERNELS, Chi2, Gaussian, Matern, SkewedChi2, get_kernel
from tests.features.test_homogeneous import worst_error


def size(name):
    """Few features, so that the checks are quick; an additive kernel decides by itself."""
    return None if get_kernel(name).geometry == "additive" else 20


@parametrize_with_checks(
    [
        FourierFeatures(),
        *(FourierFeatures(name, n_features=size(name)) for name in KERNELS),
        FourierFeatures(n_features=20, form="phase"),
        FourierFeatures(n_features=20, sampling="iid"),
        FourierFeatures("laplacian", n_features=20, sampling="iid", form="phase"),
        FourierFeatures(Matern(nu=0.7, scale=0.5), n_features=20),
        FourierFeatures("chi2", order=1),
    ],
    expected_failed_checks=lambda estimator: {
        "check_array_api_same_namespace": "a map may meet rows of any library, not only of the one that it was fitted on"
    },
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("form", ["paired", "phase"])
def test_gaussian_features_of_histograms(form, histograms):
    X, Z = histograms
    gamma = 10.0
    transformer = FourierFeatures(scale=(2 * gamma) ** 0.5, n_features=1000, form=form, sampling="iid", random_state=42)
    approximate = transformer.fit_transform(X) @ transformer.transform(Z).T
    exact = rbf_kernel(X, Z, gamma=gamma)
    np.testing.assert_allclose(Gaussian(scale=(2 * gamma) ** 0.5)(X, Z), exact, rtol=0, atol=1e-12)
    # var cos(a) = (1 + k^4) / 2 - k^2 for a Gaussian angle, over 500 frequencies; phases add at most 1/2 for each of 1000.
    sigma = np.sqrt(((1 + exact**4) / 2 - exact**2) / 500) if form == "paired" else np.sqrt(1.5 / 1000)
    # 90,000 errors of normal size: six sigma has a chance of 2e-4. Their mean is at most as uncertain as the worst of them.
    assert np.max(np.abs(approximate - exact) / sigma) <= 6
    assert abs(np.mean(approximate - exact)) <= 5 * np.max(sigma)


def test_skewed_chi2_features_of_histograms(histograms):
    X, Z = histograms
    c = 0.03
    Z = Z.copy()
    Z[0, 0] = -c / 2  # above -c is inside the domain
    kernel = SkewedChi2(c=c, scale=0.5)
    transformer = FourierFeatures(kernel, n_features=1000, sampling="iid", random_state=42).fit(X)
    log_kernel = (np.log(X + c)[:, None] + np.log(Z + c)[None]) / 2 + np.log(2) - np.log((X + c)[:, None] + (Z + c)[None])
    exact = np.exp(log_kernel.sum(axis=2))
    approximate = transformer.transform(X) @ transformer.transform(Z).T
    # Fifty factors, each off by a few eps of its logarithm.
    np.testing.assert_allclose(kernel(X, Z), exact, rtol=50 * 32 * np.finfo(float).eps)
    assert np.isfinite(approximate).all()
    assert np.max(np.abs(approximate - exact)) <= 6 / 500**0.5  # cosines have a variance of at most one
    Z[0, 0] = -2 * c
    with pytest.raises(ValueError, match=r"X, column 0, row 0 holds -0\.06, and the kernel needs values > -0\.03"):
        transformer.transform(Z)


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array])
def test_chi2_features_of_histograms(container, histograms):
    X, Z = histograms
    transformer = FourierFeatures("chi2", order=2)
    features = transformer.fit_transform(X)
    exact = Chi2()(X, Z)
    np.testing.assert_allclose(exact, (2 * X[:, None] * Z[None] / (X[:, None] + Z[None])).sum(axis=2), rtol=1e-13)
    # The error of a column is at most the worst error of the map times max(x, z), and those add up to two at most.
    bound = 2 * worst_error(Chi2(), 2, best_interval(Chi2(), 2))
    assert np.max(np.abs(features @ transformer.transform(Z).T - exact)) <= bound
    from_sparse = transformer.fit_transform(container(X))
    assert sparse.issparse(from_sparse)
    np.testing.assert_allclose(from_sparse.toarray(), features, rtol=0, atol=16 * np.finfo(float).eps)
    np.testing.assert_allclose(transformer.transform(container(Z)).toarray(), transformer.transform(Z), rtol=0, atol=1e-15)


@pytest.mark.parametrize("method", ["fit", "fit_transform", "transform"])
def test_chi2_refuses_negative_values(method, histograms):
    X = histograms[0].copy()
    transformer = FourierFeatures("chi2").fit(X)
    X[0, 0] = -1
    with pytest.raises(ValueError, match="Negative values in data passed to Chi2: X, column 0, row 0 holds -1"):
        getattr(transformer, method)(X)


@pytest.mark.parametrize("order", [0, 1, 2, 3, 7])
def test_any_order_without_an_interval_to_give(order, histograms):
    transformer = FourierFeatures("chi2", order=order)
    assert transformer.fit_transform(histograms[0]).shape == (300, 50 * (2 * order + 1))
    assert transformer.get_params()["order"] == order


@pytest.mark.parametrize("name", KERNELS)
def test_lists_and_sparse_rows(name):
    table = [[1, 2], [3, 4], [5, 6]]
    transformer = FourierFeatures(name, n_features=size(name), scale=1.0, random_state=0)
    expected = transformer.fit_transform(np.array(table, dtype=float))
    np.testing.assert_array_equal(transformer.fit_transform(table), expected)
    features = transformer.fit_transform(sparse.csr_array(table))
    features = features.toarray() if sparse.issparse(features) else features
    # Angles are below 6 * 2 * sum |g|, and the frequencies of twenty features below a hundred.
    np.testing.assert_allclose(features, expected, rtol=0, atol=12 * 2 * 100 * 8 * np.finfo(float).eps)


@pytest.mark.parametrize("name", KERNELS)
def test_float32_and_float64_rows_get_the_same_frequencies(name):
    X = np.array([[1, 2], [3, 4], [5, 6]])
    maps = [FourierFeatures(name, random_state=42).fit(X.astype(dtype)).feature_map_ for dtype in (np.float32, np.float64)]
    assert maps[0].kernel == maps[1].kernel
    if hasattr(maps[0], "points"):
        np.testing.assert_array_equal(maps[0].points, maps[1].points)


@pytest.mark.parametrize("form", ["paired", "phase"])
def test_names_of_features(form, histograms):
    transformer = FourierFeatures(n_features=6, form=form).fit(histograms[0])
    kinds = ["cos0", "cos1", "cos2", "sin0", "sin1", "sin2"] if form == "paired" else [f"cos{j}" for j in range(6)]
    np.testing.assert_array_equal(transformer.get_feature_names_out(), [f"fourierfeatures_{kind}" for kind in kinds])


def test_names_of_chi2_features():
    transformer = FourierFeatures("chi2", order=2).fit(np.ones((3, 3)))
    kinds = ["sqrt", "cos1", "sin1", "cos2", "sin2"]
    expected = [f"fourierfeatures_f{i}_{kind}" for kind in kinds for i in range(3)]
    np.testing.assert_array_equal(transformer.get_feature_names_out(["f0", "f1", "f2"]), expected)
    with pytest.raises(ValueError, match="input_features should have length equal to number of features"):
        transformer.get_feature_names_out(["f0"])
