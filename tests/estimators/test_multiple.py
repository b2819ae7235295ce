"""MultipleKernelRegressor and MultipleKernelClassifier: scikit-learn's checks, both habits of input, what they choose."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from bochner import MultipleKernelClassifier, MultipleKernelRegressor
from bochner.engines import forward
from bochner.kernels import Gaussian, Matern
from bochner.losses import LOSSES, EpsilonLogistic
from bochner.solvers import group_lasso_path

QUICK = {"n_features": 20, "n_alphas": 5, "validation": 3, "random_state": 0}
QUICKER = {**QUICK, "n_alphas": 3, "validation": 2, "smallest": 0.05}
FOLDS_ARE_ROWS = "a row that comes twice may be in two folds, a row of weight two is in one: see the test of equal folds"
KERNELS = [("a", "gaussian", [0, 1]), ("b", "matern32", [1, 2]), ("noise", "gaussian", slice(3, 6))]


@pytest.mark.filterwarnings("ignore:The held-out error still falls")  # on short paths
@parametrize_with_checks(
    [
        MultipleKernelRegressor("gaussian", **QUICK),
        MultipleKernelRegressor("gaussian", loss="epsilon-logistic", l1_ratio=1.0, **QUICKER),
        MultipleKernelClassifier(["gaussian", "laplacian"], **QUICK),
        MultipleKernelClassifier("gaussian", loss="multinomial", l1_ratio=1.0, **QUICKER),
    ],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": FOLDS_ARE_ROWS,
        "check_sample_weight_equivalence_on_sparse_data": FOLDS_ARE_ROWS,
    },
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def table(n=200, seed=0):
    """Six columns, of which the first three count."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6))
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + np.cos(X[:, 2]) + 0.1 * rng.standard_normal(n)


def test_a_kernel_of_noise_is_out_and_the_others_are_in():
    X, y = table(400)
    model = MultipleKernelRegressor(KERNELS, n_features=100, random_state=0).fit(X, y)
    assert model.kernel_names_.tolist() == ["a", "b", "noise"]
    assert model.kernel_weights_.shape == (3, 1)
    assert model.kernel_weights_[2, 0] == 0
    assert np.all(model.kernel_weights_[:2] > 0)
    assert list(model.kernel_weights_by_name())[-1] == "noise"
    np.testing.assert_allclose(model.explained_variance_.sum(axis=0), 1.0)
    assert model.explained_variance_[2, 0] == 0
    held_out = table(400, seed=1)
    assert model.score(*held_out) > 0.5


def test_views_and_columns_are_the_same():
    X, y = table()
    options = {"random_state": 0, **QUICK}
    of_table = MultipleKernelRegressor(KERNELS, **options).fit(X, y)
    views = {"a": X[:, [0, 1]], "b": X[:, [1, 2]], "noise": X[:, 3:]}
    kernels = {"a": "gaussian", "b": "matern32", "noise": "gaussian"}
    of_dict = MultipleKernelRegressor(kernels, **options).fit(views, y)
    of_list = MultipleKernelRegressor(list(kernels.values()), **options).fit(list(views.values()), y)
    expected = of_table.predict(X)
    np.testing.assert_allclose(of_dict.predict(views), expected, rtol=1e-10)
    np.testing.assert_allclose(of_list.predict(list(views.values())), expected, rtol=1e-10)
    assert not hasattr(of_dict, "n_features_in_")


def test_without_a_group_penalty_it_is_kernel_ridge_on_the_sum_of_the_kernels():
    X, y = table(80)
    parts = [("a", Gaussian(scale=0.7), [0, 1]), ("b", Matern(nu=1.5, scale=0.5), [2, 3])]
    options = {"alpha": 1e-2, "l1_ratio": 0.0, "refit": None, "standardize": False, "random_state": 0}
    model = MultipleKernelRegressor(parts, n_features=1000, **options).fit(X, y)
    exact = Gaussian(scale=0.7)(X[:, :2], X[:, :2]) + Matern(nu=1.5, scale=0.5)(X[:, 2:4], X[:, 2:4])
    centre = np.eye(80) - 1 / 80
    peer = KernelRidge(alpha=80 * 1e-2, kernel="precomputed").fit(centre @ exact @ centre, y - y.mean())
    expected = peer.predict(centre @ exact @ centre) + y.mean()
    # Kernel matrices of 500 frequencies err by about 1/22 of what varies; the fit follows them.
    assert np.max(np.abs(model.predict(X) - expected)) < 0.2 * np.std(expected)


def test_weights_are_lengths_of_coefficients():
    X, y = table()
    targets = np.c_[y, X[:, 0]]
    for shared in (True, False):
        model = MultipleKernelRegressor(
            KERNELS, l1_ratio=1.0, refit=None, shared_weights=shared, standardize=False, **QUICK
        ).fit(X, targets)
        spread = targets.std(axis=0)
        lengths = np.array([np.linalg.norm(model.coef_[20 * t : 20 * (t + 1)] / spread, axis=0) for t in range(3)])
        expected = np.linalg.norm(lengths, axis=1, keepdims=True) if shared else lengths * spread
        np.testing.assert_allclose(model.kernel_weights_, expected / np.sqrt(2), rtol=1e-8)
        assert model.path_.alphas[0] >= model.alpha_ >= model.path_.alphas[-1]
        assert np.all(model.duality_gap_ >= 0)


def test_the_choice_has_the_least_held_out_error_of_all_trials():
    X, y = table()
    model = MultipleKernelRegressor(KERNELS, l1_ratio=[1.0, 0.5, 0.0], **QUICK).fit(X, y)
    assert model.validation_error_ == min(trial["error"] for trial in model.trials_)
    assert {trial["l1_ratio"] for trial in model.trials_} == {1.0, 0.5, 0.0}
    assert any(trial["refit_alpha"] is not None for trial in model.trials_)
    sparser = clone(model).set_params(selection="one-standard-error").fit(X, y)
    assert np.count_nonzero(sparser.kernel_weights_) <= np.count_nonzero(model.kernel_weights_)


@pytest.mark.parametrize("loss", ["squared", "logistic", "multinomial"])
@pytest.mark.parametrize("shared", [True, False])
def test_classes(loss, shared):
    X, y = load_iris(return_X_y=True)
    labels = np.array(["x", "y", "z"])[y]
    kernels = [("sepal", "gaussian", [0, 1]), ("petal", "gaussian", [2, 3])]
    model = MultipleKernelClassifier(kernels, loss=loss, shared_weights=shared, **QUICK).fit(X[::2], labels[::2])
    assert model.score(X[1::2], labels[1::2]) > 0.9
    probabilities = model.predict_proba(X[1::2])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X[1::2]))
    assert model.decision_function(X).shape == (150, 3)
    assert model.kernel_weights_.shape == ((2, 1) if shared else (2, 3))


def test_two_classes_have_one_column():
    X, y = load_iris(return_X_y=True)
    model = MultipleKernelClassifier("gaussian", **QUICK).fit(X[:100], y[:100])
    assert model.decision_function(X[:100]).shape == (100,)
    assert model.score(X[:100], y[:100]) > 0.9


@pytest.mark.parametrize("loss", ["squared", "epsilon-logistic", "logistic", "multinomial"])
def test_weight_two_is_a_row_twice_on_the_same_folds(loss):
    X, y = table(60)
    learner = MultipleKernelClassifier if loss in LOSSES else MultipleKernelRegressor
    y = np.digitize(y, np.quantile(y, [0.3, 0.7])) if loss in LOSSES else y
    weights = np.repeat([1.0, 2.0], 30)
    twice = np.repeat(np.arange(60), weights.astype(int))
    folds = list(KFold(3).split(X))
    of_rows = np.zeros(60, dtype=int)
    for k, (_, test) in enumerate(folds):
        of_rows[test] = k
    repeated = [(np.flatnonzero(of_rows[twice] != k), np.flatnonzero(of_rows[twice] == k)) for k in range(3)]
    kernels = [("a", Gaussian(scale=0.5), [0, 1]), ("b", Gaussian(scale=0.5), [2, 3])]
    options = {**QUICK, "standardize": False, "tol": 1e-8, "loss": loss, "smallest": 0.1, "n_alphas": 3, "l1_ratio": 1.0}
    weighted = learner(kernels, **{**options, "validation": folds}).fit(X, y, sample_weight=weights)
    doubled = learner(kernels, **{**options, "validation": repeated}).fit(X[twice], y[twice])
    # Before the calibration of classes, which counts rows and not their weights. Where the curvature is c, a gap of 1e-8
    # leaves scores that are off by (2e-8 / c)^(1/2) on average: by 1e-3 at c = 0.02.
    np.testing.assert_allclose(doubled._outputs(X), weighted._outputs(X), atol=1e-3)
    plain = learner(kernels, **{**options, "validation": folds}).fit(X, y)
    assert np.abs(plain._outputs(X) - weighted._outputs(X)).max() > 1e-2


@pytest.mark.parametrize("loss", ["squared", "epsilon-logistic"])
@pytest.mark.parametrize("eta", [{"b": 3.0, "noise": 0.5}, [1.0, 3.0, 0.5]])
def test_penalties_of_kernels_are_those_of_the_solver(loss, eta):
    X, y = table()
    y = (y - y.mean()) / y.std()
    options = {"alpha": 0.02, "l1_ratio": 1.0, "refit": None, "standardize": False, "tol": 1e-9} | {"loss": loss}
    model = MultipleKernelRegressor(KERNELS, penalty_weights=eta, **QUICK, **options).fit(X, y)
    features = forward(model.feature_map_, model._stacked(model._views.take(model, X)))
    peer = EpsilonLogistic(epsilon=model.epsilon, gamma=model.gamma) if loss == "epsilon-logistic" else "squared"
    path = group_lasso_path(
        features, y, np.repeat(range(3), 20), alphas=[0.02], group_weights=[1.0, 3.0, 0.5], loss=peer, tol=1e-10
    )
    np.testing.assert_allclose(model.predict(X), (features @ path.coef[0] + path.intercept[0])[:, 0], atol=1e-4)
    np.testing.assert_allclose(model.kernel_weights_[:, 0], path.norms[0, :, 0] / np.sqrt(2), atol=1e-4)


def test_weights_of_kernels_and_classes_by_name():
    X, y = load_iris(return_X_y=True)
    labels = np.array(["setosa", "versicolor", "virginica"])[y]
    kernels = [("sepal", "gaussian", [0, 1]), ("petal", "gaussian", [2, 3])]
    model = MultipleKernelClassifier(kernels, shared_weights=False, **QUICK).fit(X, labels)
    table = pd.DataFrame(model.kernel_weights_by_name(), index=model.classes_)
    assert table.index.tolist() == ["setosa", "versicolor", "virginica"]
    for t, name in enumerate(model.kernel_names_):
        np.testing.assert_array_equal(table[name], model.kernel_weights_[t])
    assert table.columns[0] == "petal"


def test_sparse_views_pipelines_and_copies():
    X, y = table(100)
    X = np.where(X > 0, X, 0.0)
    options = {"random_state": 0, **QUICK, "standardize": False}
    dense = MultipleKernelRegressor(KERNELS, **options).fit(X, y)
    thin = MultipleKernelRegressor(KERNELS, **options).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.predict(sparse.csr_array(X)), dense.predict(X), atol=1e-6)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(dense)).predict(X), dense.predict(X))
    assert cross_val_predict(make_pipeline(MinMaxScaler(), dense), X, y, cv=3).shape == (100,)


def test_scales_learned_by_single_kernel_learning():
    X, y = table(150)
    model = MultipleKernelRegressor("auto", scale="learned", **QUICK).fit([X[:, :3], X[:, 3:]], y)
    assert model.kernel_names_.tolist() == ["0", "1"]
    assert np.ptp(np.asarray(model.kernels_[0].scale)) > 0  # a scale for each column
    named = MultipleKernelRegressor([("a", "gaussian", [0, 1, 2])], scale="learned", **QUICK).fit(X, y)
    assert type(named.kernels_[0]) is Gaussian


def test_a_dictionary_by_default():
    X, y = table(100)
    model = MultipleKernelRegressor(**QUICK).fit(X, y)
    assert "gaussian x 0.5" in model.kernel_names_
    assert "column 5" in model.kernel_names_
    assert len(model.kernel_names_) == 12


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_a_dictionary_of_many_columns_has_groups_by_the_first_word_of_their_names(kind):
    X = np.random.default_rng(0).standard_normal((60, 24))
    names = [*(f"colour_{i}" for i in range(12)), *(f"edge{i}" for i in range(10)), "size (mm)", "été"]
    table = kind(dict(zip(names, X.T, strict=True)))
    model = MultipleKernelRegressor(**QUICKER).fit(table, X[:, 0])
    assert model.kernel_names_[6:].tolist() == ["columns colour", "columns edge", "columns size", "columns été"]
    assert [np.size(kernel.scale) for kernel in model.kernels_[6:]] == [12, 10, 1, 1]
    for same in (X, kind(dict(zip([f"x{i}" for i in range(24)], X.T, strict=True)))):  # nothing to go by
        assert len(MultipleKernelRegressor(**QUICKER).fit(same, X[:, 0]).kernel_names_) == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": -1.0}, "alpha must be a positive number, got -1.0"),
        ({"l1_ratio": 2.0}, "l1_ratio must be 'auto'"),
        ({"loss": "hinge"}, "loss must be one of"),
        ({"loss": "epsilon-logistic", "gamma": 0.0}, "gamma"),
        ({"loss": "epsilon-logistic", "epsilon": -1.0}, "epsilon"),
        ({"penalty_weights": {"c": 1.0}}, "names the kernel 'c'"),
        ({"penalty_weights": [1.0, -1.0, 1.0]}, "a positive number for each of the 3 kernels"),
        ({"kernels": [("a", "gaussian", [0, 9])]}, "Kernel 'a'"),
        ({"kernels": [("a", "gaussian", [])]}, "Kernel 'a' has no columns"),
        ({"kernels": [("a", "gaussian", [0]), ("a", "gaussian", [1])]}, "2 kernels have the name 'a'"),
        ({"scale": "wide"}, "scale must be one of"),
        ({"refit": "lasso"}, "refit must be"),
        ({"refit": "ridge", "loss": "epsilon-logistic"}, "refit='ridge' needs loss='squared'"),
        ({"n_alphas": 0}, "n_alphas must be a whole number"),
        ({"refit": True}, "refit must be"),
        ({"standardize": "yes"}, "standardize must be True or False, got 'yes'"),
        ({"shared_weights": "no"}, "shared_weights must be True or False, got 'no'"),
        ({"verbose": "a"}, "verbose must be a whole number"),
        ({"validation": "kfold"}, "validation must be a number of folds .*, got 'kfold'"),
    ],
)
def test_bad_input_is_told(options, message):
    X, y = table(40)
    with pytest.raises(ValueError, match=message):
        MultipleKernelRegressor(**{"kernels": KERNELS, **QUICK, **options}).fit(X, y)


def test_classes_for_a_regressor_are_told_where_to_go():
    X, y = table(40)
    with pytest.raises(ValueError, match=r"needs numbers: for classes, use bochner\.MultipleKernelClassifier"):
        MultipleKernelRegressor(KERNELS, **QUICK).fit(X, np.where(y > 0, "up", "down"))


def test_numbers_of_rows_that_differ_are_told():
    X, y = table(40)
    model = MultipleKernelRegressor(KERNELS, **QUICK)
    with pytest.raises(ValueError, match="X has 40 rows and y has 39"):
        model.fit(X, y[:-1])
    with pytest.raises(ValueError, match="X has 40 rows and sample_weight has 38"):
        model.fit(X, y, np.ones(38))


def test_weights_of_classes_that_are_not_there_are_told():
    X, y = table(40)
    labels = np.where(y > 0, "up", "down")
    with pytest.raises(
        ValueError, match="class_weight names the class 'upp', which is not in y: its classes are 'down', 'up'"
    ):
        MultipleKernelClassifier(KERNELS, class_weight={"upp": 2.0, "down": 1.0}, **QUICK).fit(X, labels)
    MultipleKernelClassifier(KERNELS, class_weight={"up": 2.0, "down": 1.0, "level": 3.0}, **QUICK).fit(X, labels)


def test_no_refit_in_two_words():
    X, y = table(40)
    one, two = (MultipleKernelRegressor(KERNELS, **QUICK, refit=refit).fit(X, y) for refit in (None, False))
    assert one.refit_ is two.refit_ is None
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_shares_of_the_variance_by_name():
    X, y = table(40)
    shares = MultipleKernelRegressor(KERNELS, **QUICK).fit(X, y).explained_variance_by_name()
    assert sum(shares.values()) == pytest.approx(1)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    model = MultipleKernelRegressor(KERNELS, **QUICK).fit(X, np.stack([y, X[:, 0]], axis=1))
    for t, name in enumerate(model.kernel_names_):
        assert model.explained_variance_by_name()[name] == model.explained_variance_[t].tolist()


def test_views_of_different_lengths_and_labels_of_one_class_are_told():
    X, y = table(40)
    with pytest.raises(ValueError, match="same rows"):
        MultipleKernelRegressor("gaussian").fit([X, X[:-1]], y)
    with pytest.raises(ValueError, match="only one class"):
        MultipleKernelClassifier("gaussian").fit(X, np.zeros(40))
