"""GMKLRegressor and GMKLClassifier: forms of input, scales, weights of rows, errors, and scikit-learn's checks."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from bochner.exact import GMKLClassifier, GMKLRegressor
from bochner.kernels import Gaussian
from tests.exact.test_gmkl import gaussian_grams


def table(n=60, seed=0):
    rng = np.random.default_rng([seed, n])
    X = rng.standard_normal((n, 3))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(n)


TRIPLES = [("a", "gaussian", [0]), ("b", "laplacian", [1, 2])]


def test_machines_are_those_of_scikit_learn():
    X, y = table()
    model = GMKLRegressor(TRIPLES, tol=1e-6).fit(X, y)
    assert model.kernel_names_ == ["a", "b"]
    parts = (X[:, [0]], X[:, 1:])
    K = sum(d * k(x) for d, k, x in zip(model.kernel_weights_, model.kernels_, parts, strict=True))
    reference = SVR(kernel="precomputed", tol=1e-8).fit(K, y)
    scores = reference.predict(K)
    # Two near solutions differ in K_d-norm by the root of twice their gaps; f(x) by that times the root of k(x, x).
    bound = np.sqrt(2 * 2 * 1e-6 * model.objective_ * K[0, 0])
    np.testing.assert_allclose(model.predict(X), scores, rtol=0, atol=10 * bound)
    classes = np.where(y > 0, "up", "down")
    model = GMKLClassifier(TRIPLES, tol=1e-6).fit(X, classes)
    K = sum(d * k(x) for d, k, x in zip(model.kernel_weights_[:, 0], model.kernels_, parts, strict=True))
    reference = SVC(kernel="precomputed", tol=1e-8).fit(K, classes)
    bound = np.sqrt(2 * 2 * 1e-6 * model.objective_[0] * K[0, 0])
    np.testing.assert_allclose(model.decision_function(X), reference.decision_function(K), rtol=0, atol=10 * bound)
    np.testing.assert_array_equal(model.classes_, reference.classes_)


@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_several_classes_are_each_against_the_rest(loss):
    X, y = table()
    labels = np.digitize(y, [-0.5, 0.5])
    model = GMKLClassifier(TRIPLES, loss=loss).fit(X, labels)
    assert model.kernel_weights_.shape == (2, 3)
    assert model.objective_.shape == model.duality_gap_.shape == (3,)
    for k in range(3):
        one = GMKLClassifier(TRIPLES, loss=loss).fit(X, labels == k)
        assert one.kernel_weights_.shape == (2, 1)
        np.testing.assert_array_equal(one.kernel_weights_[:, 0], model.kernel_weights_[:, k])
        np.testing.assert_allclose(one.decision_function(X), model.decision_function(X)[:, k], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X).argmax(axis=1))


@pytest.mark.parametrize("loss", ["epsilon-insensitive", "squared"])
def test_one_problem_in_every_form(loss):
    X, y = table()
    model = GMKLRegressor(TRIPLES, loss=loss).fit(X, y)
    expected = model.predict(X[:7])
    parts = {"a": X[:, [0]], "b": X[:, 1:]}
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    named = GMKLRegressor([("a", "gaussian", "u"), ("b", "laplacian", ["v", "w"])], loss=loss).fit(frame, y)
    listed = GMKLRegressor(["gaussian", "laplacian"], loss=loss).fit(list(parts.values()), y)
    keyed = GMKLRegressor({"a": "gaussian", "b": "laplacian"}, loss=loss).fit(parts, y)
    sparse_rows = GMKLRegressor(TRIPLES, loss=loss, standardize=False).fit(sparse.csr_array(X), y)
    dense_rows = GMKLRegressor(TRIPLES, loss=loss, standardize=False).fit(X, y)
    np.testing.assert_array_equal(named.predict(frame[:7]), expected)
    np.testing.assert_array_equal(listed.predict([part[:7] for part in parts.values()]), expected)
    np.testing.assert_array_equal(keyed.predict({name: part[:7] for name, part in parts.items()}), expected)
    np.testing.assert_array_equal(sparse_rows.predict(sparse.csr_array(X[:7])), dense_rows.predict(X[:7]))
    grams = {name: kernel(part) for (name, part), kernel in zip(parts.items(), model.kernels_, strict=True)}
    given = GMKLRegressor("precomputed", loss=loss).fit(grams, y)
    assert given.kernel_names_ == ["a", "b"]
    new = {name: gram[:7] for name, gram in grams.items()}
    np.testing.assert_allclose(given.predict(new), expected, rtol=1e-9)
    stacked = GMKLRegressor("precomputed", loss=loss).fit(np.stack(list(grams.values())), y)
    np.testing.assert_array_equal(stacked.predict(np.stack(list(new.values()))), given.predict(new))
    assert stacked.kernel_names_ == ["kernel0", "kernel1"]


def test_weights_by_name():
    X, y = table()
    model = GMKLRegressor(TRIPLES).fit(X, y)
    weights = model.kernel_weights_by_name()
    assert weights == dict(zip(model.kernel_names_, model.kernel_weights_.tolist(), strict=True))
    assert list(weights.values()) == sorted(weights.values(), reverse=True)
    several = GMKLClassifier(TRIPLES).fit(X, np.digitize(y, [-0.5, 0.5]))
    assert several.kernel_weights_by_name()["b"] == several.kernel_weights_[1].tolist()
    given = GMKLRegressor("precomputed").fit(gaussian_grams()[0], gaussian_grams()[1])
    assert sorted(given.kernel_weights_by_name()) == sorted(given.kernel_names_)


def test_scales():
    X, y = table()
    wide = X * [100.0, 1.0, 1.0]
    own = GMKLRegressor([("a", Gaussian(scale=0.3), [0])]).fit(X, y)
    assert own.kernels_ == [Gaussian(scale=0.3)]
    median = GMKLRegressor("gaussian", loss="squared").fit(X, y)
    again = GMKLRegressor("gaussian", loss="squared").fit(wide, y)
    np.testing.assert_allclose(again.predict(wide), median.predict(X), rtol=0, atol=1e-9)
    given = GMKLRegressor("gaussian", scale="given").fit(X, y)
    np.testing.assert_allclose(given.kernels_[0].scale, 1 / X.std(axis=0))
    assert GMKLRegressor("gaussian", scale="given", standardize=False).fit(X, y).kernels_ == [Gaussian()]
    assert GMKLRegressor("chi2").fit(np.abs(X), y).kernels_[0].scales(3).tolist() == [1.0, 1.0, 1.0]
    # A shift by 1e6 rounds rows and kernels by 1e-10; sixty rows with coefficients of size one add that up.
    shifted = GMKLRegressor("gaussian", loss="squared").fit(X + 1e6, y).predict(X + 1e6)
    np.testing.assert_allclose(shifted, median.predict(X), rtol=0, atol=1e-7)


@pytest.mark.parametrize("model", [GMKLRegressor(TRIPLES), GMKLRegressor(TRIPLES, loss="squared"), GMKLClassifier(TRIPLES)])
def test_weights_of_rows(model):
    X, y = table(40)
    y = y if isinstance(model, GMKLRegressor) else y > 0
    weights = np.arange(40) % 3
    weighted = clone(model).set_params(tol=1e-6).fit(X, y, sample_weight=weights)
    repeated = clone(model).set_params(tol=1e-6).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert np.all(np.abs(weighted.objective_ - repeated.objective_) <= weighted.duality_gap_ + repeated.duality_gap_)
    doubled = clone(model).set_params(C=2.0, tol=1e-6).fit(X, y)
    heavy = clone(model).set_params(tol=1e-6).fit(X, y, sample_weight=np.full(40, 2.0))
    np.testing.assert_allclose(doubled.predict(X).astype(float), heavy.predict(X).astype(float), rtol=1e-9)


def test_copies_and_blocks():
    X, y = table()
    model = GMKLRegressor(TRIPLES).fit(X, y)
    expected = model.predict(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), expected)
    np.testing.assert_array_equal(clone(model).fit(X, y).predict(X), expected)
    assert model.score(X, y) > 0.5
    model.max_memory = 10_000
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-12)


def test_a_target_within_epsilon():
    X, y = table()
    model = GMKLRegressor(TRIPLES, epsilon=10.0).fit(X, y)
    np.testing.assert_array_equal(model.kernel_weights_, 0)
    assert model.objective_ == model.duality_gap_ == 0
    assert np.ptp(model.predict(X)) == 0
    constant = GMKLRegressor(TRIPLES, loss="squared").fit(X, np.full(len(y), 3.0))
    np.testing.assert_allclose(constant.predict(X), 3.0, rtol=1e-12)


def test_a_solver_that_ends_early_says_so():
    X, y = table()
    model = GMKLRegressor(TRIPLES, max_iter=1, tol=1e-6)
    with pytest.warns(ConvergenceWarning, match="duality gap of .* after 1 steps, and tol is 1e-06: raise max_iter"):
        model.fit(X, y)
    assert not model.converged_
    assert model.duality_gap_ > 1e-6 * model.objective_


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": -1.0}, "C must be a positive number, got -1.0"),
        ({"C": "large"}, "C must be a positive number, got 'large'"),
        ({"tol": 0}, "tol must be a positive number"),
        ({"epsilon": -0.1}, "epsilon must be a number, zero or more"),
        ({"max_iter": 0}, "max_iter must be a whole number, one or more"),
        ({"loss": "hinge"}, "loss must be one of epsilon-insensitive, squared, got 'hinge'"),
        ({"scale": 2.0}, "scale must be one of median, given"),
        ({"standardize": "yes"}, "standardize must be True or False, got 'yes'"),
        ({"max_memory": 1e5}, r"60 rows and 2 kernels \('a', 'b'\) need about 173 kB .* fit at most 45 rows"),
        ({"kernels": [("a", "gaussian", [7])]}, "Kernel 'a': X has no column"),
        ({"kernels": [("a", "chi2", [1])]}, "Kernel 'a': Negative values"),
        ({"kernels": "precomputed"}, r"X must be a list or a dict of kernel matrices, .* got an array of shape \(60, 3\)"),
    ],
)
def test_bad_options(options, message):
    X, y = table()
    with pytest.raises(ValueError, match=message):
        GMKLRegressor(**{"kernels": TRIPLES, **options}).fit(X, y)


def test_bad_rows_and_targets():
    X, y = table()
    bad = X.copy()
    bad[3, 2] = np.nan
    model = GMKLRegressor(TRIPLES)
    with pytest.raises(ValueError, match=r"Kernel 'b': X, column 2, row 3 holds NaN"):
        model.fit(bad, y)
    with pytest.raises(ValueError, match="y contains NaN"):
        model.fit(X, np.where(y > 1, np.nan, y))
    with pytest.raises(ValueError, match="y has 2 columns, and GMKLRegressor learns one target"):
        model.fit(X, np.stack([y, y], axis=1))
    with pytest.raises(ValueError, match=r"GMKLRegressor needs numbers: for classes, use bochner\.exact\.GMKLClassifier"):
        model.fit(X, np.where(y > 0, "up", "down"))
    with pytest.raises(ValueError, match="y has only one class, 'up'"):
        GMKLClassifier(TRIPLES).fit(X, ["up"] * len(y))
    with pytest.raises(ValueError, match="y has only one class, 1,"):
        GMKLClassifier(TRIPLES).fit(X, (y > 0).astype(int), sample_weight=y > 0)
    assert not hasattr(model, "views_")


def test_bad_kernel_matrices():
    grams, y = gaussian_grams()
    model = GMKLRegressor("precomputed")
    for change, message in (
        (lambda K: K[:, :5], r"Kernel 'b': its matrix must be of all pairs of rows, \(30, 30\), got shape \(30, 5\)"),
        (lambda K: np.where(np.eye(len(K)), np.nan, K), "Kernel 'b': its matrix holds nan in row 0, column 0"),
        (lambda K: K + np.triu(K), "Kernel 'b': its matrix must be symmetric"),
        (lambda K: -K, "Kernel 'b': its matrix has -1 on its diagonal"),
        (lambda K: 1 - 5 * K + 5 * np.eye(len(K)), "Kernel 'b' is not positive semidefinite"),
        (lambda K: K[0], "Kernel 'b': its matrix must have rows and columns"),
        (lambda K: [["a"]], "Kernel 'b': its matrix must hold numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit({"a": grams[0], "b": change(grams[1])}, y)
    with pytest.raises(ValueError, match="at least one kernel matrix, got none"):
        model.fit([], y)
    model.fit({"a": grams[0], "b": grams[1]}, y)
    with pytest.raises(ValueError, match=r"X must hold a matrix for each kernel of fit, \['a', 'b'\], got 1 for \['a'\]"):
        model.predict({"a": grams[0]})
    with pytest.raises(ValueError, match=r"Kernel 'b': its matrix must have one row for each new row \(4\)"):
        model.predict([grams[0][:4], grams[1][:5]])


BY_TOLERANCE = (
    "repeated rows lead the hinge loss along another path, and both fits end within tol of the same optimum, not within 1e-7"
)


@parametrize_with_checks(
    [
        GMKLRegressor(),
        GMKLRegressor(loss="squared"),
        GMKLRegressor(["gaussian", "laplacian"]),
        GMKLRegressor("chi2"),
        GMKLClassifier(),
        GMKLClassifier(loss="squared"),
        GMKLClassifier([("a", "gaussian", slice(0, 1)), ("b", "gaussian", slice(None))]),
    ],
    expected_failed_checks=lambda estimator: (
        {}
        if estimator.loss != "hinge"
        else {
            "check_sample_weight_equivalence_on_dense_data": BY_TOLERANCE,
            "check_sample_weight_equivalence_on_sparse_data": BY_TOLERANCE,
        }
    ),
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
