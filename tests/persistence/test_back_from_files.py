"""What comes back from files of models."""

import numpy as np
import pytest

import bochner
from bochner import FourierFeatures, KernelClassifier, KernelRegressor, MultipleKernelRegressor
from bochner.exact import GMKLRegressor
from bochner.kernels import Gaussian, Matern
from tests.persistence.models import answers, fitted, labels, make, rows, same, target
from tests.persistence.stored import header_of

safetensors = pytest.importorskip("safetensors")


def test_names_of_columns(path):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(rows(), columns=["a", "b", "c"])
    model = KernelRegressor("gaussian", n_features=16, tol=0.1, random_state=0).fit(table, target(rows()))
    model.save(path)
    again = bochner.load(path)
    assert header_of(path)["columns"]["names"] == ["a", "b", "c"]
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    assert np.array_equal(again.predict(table), model.predict(table))
    with pytest.raises(ValueError, match="feature names"):
        again.predict(table[["b", "a", "c"]])
    model = MultipleKernelRegressor(
        [("one", "gaussian", ["a"]), ("two", "gaussian", ["b", "c"])], n_features=8, alpha=0.1, random_state=0
    )
    model.fit(table, target(rows())).save(path)
    assert np.array_equal(bochner.load(path).predict(table), model.predict(table))


VARIANTS = {
    "several targets": lambda X: KernelRegressor(n_features=16, tol=0.1, random_state=0).fit(X, X[:, :2]),
    "float32": lambda X: KernelRegressor(n_features=16, tol=0.1, random_state=0).fit(X.astype(np.float32), target(X)),
    "centres": lambda X: KernelRegressor("gaussian", finish="centres", n_centres=9, tol=0.1, random_state=0).fit(
        X, target(X)
    ),
    "mixture": lambda X: KernelRegressor("gaussian", n_features=16, spectrum="mixture", tol=0.1, random_state=0).fit(
        X, target(X)
    ),
    "per target": lambda X: KernelRegressor("gaussian", n_features=16, alpha="per-target", tol=0.1, random_state=0).fit(
        X, X[:, :2]
    ),
    "text": lambda X: KernelClassifier("gaussian", n_features=16, tol=0.1, random_state=0).fit(
        X, np.array(["no", "yes"])[labels(X)]
    ),
    "objects": lambda X: KernelClassifier("gaussian", n_features=16, tol=0.1, random_state=0).fit(
        X, labels(X).astype(str).astype(object)
    ),
    "bool": lambda X: KernelClassifier("gaussian", n_features=16, tol=0.1, random_state=0).fit(X, labels(X) == 1),
    "logistic": lambda X: KernelClassifier("gaussian", n_features=16, loss="logistic", tol=0.1, random_state=0).fit(
        X, labels(X, 3)
    ),
    "weights": lambda X: KernelClassifier(
        "cauchy", n_features=16, class_weight={0: 1.0, 1: 3.0}, tol=0.1, random_state=0
    ).fit(X, labels(X)),
    "joint": lambda X: make("MultipleKernelRegressor", "gaussian", refit="joint").fit(X, target(X)),
    "auto": lambda X: MultipleKernelRegressor(alpha=0.1, random_state=0).fit(X, target(X)),
    "phases": lambda X: FourierFeatures(Matern(nu=0.8), form="phase", n_features=15, random_state=0).fit(X),
    "scales": lambda X: FourierFeatures(Gaussian(scale=[1.0, 2.0, 3.0]), n_features=8, random_state=0).fit(X),
    "order": lambda X: FourierFeatures("chi2", order=3).fit(X),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_other_models_predict_the_same_too(path, name):
    X = rows(25, seed=1)
    model = VARIANTS[name](rows())
    model.save(path)
    assert same(answers(bochner.load(path), X), answers(model, X))


def test_sparse_rows_and_views(path):
    from scipy import sparse

    X = sparse.csr_matrix(rows())
    model = KernelRegressor("chi2", tol=0.1, random_state=0).fit(X, target(rows()))
    model.save(path)
    assert np.array_equal(bochner.load(path).predict(X), model.predict(X))
    for views in ({"b": rows()[:, :2], "a": rows()[:, 2:]}, [rows()[:, :2], rows()[:, 2:]]):
        many = MultipleKernelRegressor("gaussian", n_features=8, alpha=0.1, random_state=0).fit(views, target(rows()))
        many.save(path)
        assert np.array_equal(bochner.load(path).predict(views), many.predict(views))
    grams = [rows() @ rows().T, np.eye(40)]
    exact = GMKLRegressor("precomputed").fit(grams, target(rows()))
    exact.save(path)
    assert np.array_equal(bochner.load(path).predict(grams), exact.predict(grams))


def test_sums_are_left_out_unless_they_are_asked_for(path):
    X, y = rows(), target(rows())
    model = KernelRegressor("gaussian", n_features=40, tol=0.1, random_state=0).fit(X, y)
    model.save(path)
    small, without = path.stat().st_size, bochner.load(path)
    for call in (lambda: without.predict(X, return_std=True), lambda: without.partial_fit(X, y)):
        with pytest.raises(ValueError, match="compact=False"):
            call()
    model.save(path, compact=False)
    assert path.stat().st_size > small + 8 * 40**2
    again = bochner.load(path)
    assert np.array_equal(again.predict(X, return_std=True), model.predict(X, return_std=True))
    again.partial_fit(X[:5], y[:5] + 1)
    model.partial_fit(X[:5], y[:5] + 1)
    assert np.array_equal(again.predict(X), model.predict(X))


def test_paths_keep_their_norms(path):
    model = fitted("MultipleKernelRegressor", "gaussian")
    model.save(path)
    again = bochner.load(path).path_
    assert np.array_equal(again.norms, model.path_.norms)
    assert again.coef.shape[1] == 0
    model.save(path, compact=False)
    assert np.array_equal(bochner.load(path).path_.coef, model.path_.coef)
