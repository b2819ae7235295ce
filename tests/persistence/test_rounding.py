"""Models of rows of the fit in single precision: centres are rounded, coefficients are theirs and keep their digits."""

import copy

import numpy as np
import pytest

import bochner
from bochner.exact import GMKLRegressor, KernelRidgeGD
from bochner.persistence import rounding
from tests.default_models import default_classifier, default_regressor, default_rows
from tests.persistence.models import rows, target

safetensors = pytest.importorskip("safetensors")


def kinds(path):
    """The type and shape of each array of a file."""
    with safetensors.safe_open(path, framework="np") as file:
        about = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {name: (each.get_dtype(), tuple(each.get_shape())) for name, each in about.items()}


def off(model, again, X):
    """How far predictions are apart, over the largest."""
    expected = model.predict(X)
    return np.abs(again.predict(X) - expected).max() / np.abs(expected).max()


def test_a_default_regressor_in_single_precision(path):
    """Rounded coefficients alone would be off by thousands of roundings; centres take half of the bytes."""
    model, X = default_regressor(), default_rows(seed=1)[0]
    assert np.abs(model._at_centres).sum() > 1e5
    model.save(path, dtype="float32")
    assert kinds(path)["_at_centres"][0] == "F64"
    assert kinds(path)["feature_map_.centres"] == ("F32", model.feature_map_.centres.shape)
    again = bochner.load(path)
    assert again.feature_map_.centres.dtype == np.float64
    assert 0 < off(model, again, X) < 10 * rounding.LARGEST_CHANGE
    again.save(path, dtype="float32")
    assert off(model, bochner.load(path), X) < 10 * rounding.LARGEST_CHANGE


def test_rounding_the_coefficients_too_is_seen(path):
    """What was done before, and what the tests above would miss if their bounds were loose."""
    model = copy.copy(default_regressor())
    model._at_centres = model._at_centres.astype(np.float32).astype(np.float64)
    assert off(default_regressor(), model, default_rows(seed=1)[0]) > 100 * rounding.LARGEST_CHANGE


def test_a_default_classifier_in_single_precision(path):
    model, X = default_classifier(), default_rows(seed=1)[0]
    model.save(path, dtype="float32")
    assert kinds(path)["feature_map_.centres"][0] == "F32"
    again = bochner.load(path)
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), atol=10 * rounding.LARGEST_CHANGE)


def test_centres_whose_rounding_would_show_are_not_rounded(path):
    """Coefficients of which no others are known that would suit rounded centres."""
    model, X = copy.copy(default_regressor()), default_rows(seed=1)[0]
    model.coef_ = model._at_centres
    model.save(path, dtype="float32")
    assert kinds(path)["feature_map_.centres"][0] == "F64"
    again = bochner.load(path)
    assert again._at_centres is again.coef_
    assert off(model, again, X) == 0


def test_a_metric_keeps_its_digits(path):
    X = np.random.default_rng(0).random((100, 3))
    model = bochner.KernelRegressor("gaussian", metric="full", finish="centres", n_centres=40, tol=0.1, random_state=0)
    model.fit(X, np.sin(3 * X @ [1, 1, 0]))
    model.save(path, dtype="float32")
    again = bochner.load(path)
    assert np.array_equal(again.kernel_.metric, model.kernel_.metric)
    assert off(model, again, rows(30, seed=1)) < 10 * rounding.LARGEST_CHANGE


@pytest.mark.parametrize(("alpha", "kind"), [(1e-10, "F64"), (1e-2, "F32")])
def test_exact_ridge_keeps_coefficients_and_rows_where_it_shows(path, alpha, kind):
    X, y = default_rows()
    model = KernelRidgeGD("gaussian", alpha=alpha, tol=0.1).fit(X, y)
    model.save(path, dtype="float32")
    assert kinds(path)["dual_coef_"][0] == "F64"
    assert kinds(path)["X_fit_"][0] == kind
    assert off(model, bochner.load(path), default_rows(seed=1)[0]) < 10 * rounding.LARGEST_CHANGE


def test_exact_learners_of_several_kernels_keep_their_coefficients(path):
    X = rows()
    model = GMKLRegressor("gaussian").fit(X, target(X))
    model.save(path, dtype="float32")
    assert kinds(path)["dual_coef_"][0] == "F64"
    assert off(model, bochner.load(path), rows(30, seed=1)) < 10 * rounding.LARGEST_CHANGE
