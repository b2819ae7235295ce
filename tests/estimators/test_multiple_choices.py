"""How learners of many kernels choose: own validation sets, refits, features that are kept or made anew, progress."""

import re

import numpy as np
import pytest
from sklearn.model_selection import PredefinedSplit

from bochner import MultipleKernelClassifier, MultipleKernelRegressor
from bochner.engines import forward
from bochner.engines.products import TableFeatures, TablePasses
from bochner.kernels import Gaussian
from bochner.solvers.row_loss import ArrayPasses
from bochner.weight_search import ROUGH
from tests.estimators.test_multiple import KERNELS, QUICK, table

LITTLE = 8e5
"""Bytes for matrices of sixty features in four parts, and not for the features of all rows."""


def labels(X):
    return np.where(X[:, 0] * X[:, 1] > 0, "same", np.where(X[:, 2] > 0, "up", "down"))


def test_features_made_anew_are_those_that_are_kept():
    X, y = table(300)
    model = MultipleKernelRegressor(KERNELS, **QUICK).fit(X, y)
    rows = model._stacked(model._views.take(model, X))
    kept = ArrayPasses(forward(model.feature_map_, rows))
    anew = TablePasses([TableFeatures(model.feature_map_, rows)])
    turns = TablePasses([TableFeatures(model.feature_map_, part) for part in (rows[:100], rows[100:])])
    rng = np.random.default_rng(0)
    without_b = np.repeat([True, False, True], 20)
    for used in (np.ones(60, dtype=bool), without_b):
        coef, values = rng.standard_normal((used.sum(), 4)), rng.standard_normal((300, 4))
        expected = kept.columns(used)
        for passes in (anew.columns(used), turns.columns(used)):
            np.testing.assert_allclose(passes.there(coef), expected.there(coef), atol=1e-12)
            np.testing.assert_allclose(passes.back(values), expected.back(values), atol=1e-12)
    fewer = TableFeatures(model.feature_map_, rows).columns(without_b)
    assert fewer.many(slice(0, 5)).shape == (5, 40)  # what is out is not made


def test_a_fit_in_little_memory_is_the_same():
    X, _ = table(2000)
    options = {**QUICK, "loss": "logistic", "l1_ratio": 1.0}
    plenty = MultipleKernelClassifier(KERNELS, **options).fit(X, labels(X))
    little = MultipleKernelClassifier(KERNELS, **options, max_memory=LITTLE).fit(X, labels(X))
    np.testing.assert_allclose(little.decision_function(X), plenty.decision_function(X), atol=1e-6)


def test_more_kernels_than_memory_name_the_kernel():
    X, y = table(100)
    with pytest.raises(ValueError, match=r"no room from kernel 'b' on. Use at most n_features=\d*[02468] for each kernel"):
        MultipleKernelRegressor(KERNELS, **QUICK, max_memory=1e5).fit(X, y)


@pytest.mark.parametrize("max_memory", [2e4, 1e5, 1.1e5, 1.2e5])
def test_the_number_of_features_that_is_recommended_is_accepted(max_memory):
    X, y = table(100)
    with pytest.raises(ValueError, match="Use at most n_features=") as told:
        MultipleKernelRegressor(KERNELS, **QUICK, max_memory=max_memory).fit(X, y)
    most = int(re.search(r"n_features=(\d+)", str(told.value))[1])
    MultipleKernelRegressor(KERNELS, **{**QUICK, "n_features": most}, max_memory=max_memory).fit(X, y)


def test_no_number_of_features_is_recommended_where_none_fits():
    X, y = table(100)
    with pytest.raises(ValueError, match=r"Not even two features of each fit: use fewer kernels"):
        MultipleKernelRegressor(KERNELS, **QUICK, max_memory=1e3).fit(X, y)


@pytest.mark.parametrize("views", [False, True])
def test_a_validation_set_of_ones_own_chooses_and_is_not_fitted(views):
    X, y = table(200)

    def form(rows):
        return [rows[:, :3], rows[:, 3:]] if views else rows

    kernels = "gaussian" if views else KERNELS
    held = (form(X[150:]), y[150:])
    options = {**QUICK, "refit": None, "l1_ratio": 1.0, "tol": 1e-10}
    model = MultipleKernelRegressor(kernels, **{**options, "validation": held}).fit(form(X[:150]), y[:150])
    error = np.mean((model.predict(held[0]) - y[150:]) ** 2) / np.var(y[:150])
    np.testing.assert_allclose(model.validation_error_, error, rtol=10 * ROUGH)
    np.testing.assert_allclose(model.validation_error_, min(trial["error"] for trial in model.trials_))
    fixed = MultipleKernelRegressor(kernels, **options, alpha=model.alpha_).fit(form(X[:150]), y[:150])
    np.testing.assert_allclose(model.predict(held[0]), fixed.predict(held[0]), atol=1e-5)


def test_a_validation_set_of_labels_and_a_splitter_choose_alike(monkeypatch):
    gap = 1e-13
    monkeypatch.setattr("bochner.weight_search.ROUGH", gap)
    X, _ = table(200)
    y = labels(X)
    kernels = [("a", Gaussian(scale=0.5), [0, 1]), ("b", Gaussian(scale=0.5), slice(2, 6))]
    options = {**QUICK, "refit": None, "standardize": False, "alpha": 0.05, "tol": gap}
    own = MultipleKernelClassifier(kernels, **{**options, "validation": (X[150:], y[150:])}).fit(X[:150], y[:150])
    split = PredefinedSplit(np.repeat([-1, 0], [150, 50]))
    both = MultipleKernelClassifier(kernels, **{**options, "validation": split}).fit(X, y)
    assert own.predict_proba(X).shape == both.predict_proba(X).shape == (200, 3)
    np.testing.assert_allclose(own.validation_error_, both.validation_error_, rtol=10 * gap**0.5)
    # One model of the first 150 rows: predictions of two solutions differ by at most the root of their gaps, in mean square.


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ((np.ones((5, 4)), np.ones(5)), "not like the rows of fit: X has 4 features"),
        ((np.ones((5, 6)), np.ones(4)), "not like the rows of fit"),
        ((np.ones((5, 6)), np.ones((5, 2))), "y must have the shape"),
        ((np.ones((5, 6)), np.ones(5), np.zeros(5)), "zero for every row"),
    ],
)
def test_validation_sets_that_do_not_fit_are_told(held, message):
    X, y = table(40)
    with pytest.raises(ValueError, match=message):
        MultipleKernelRegressor(KERNELS, **{**QUICK, "validation": held}).fit(X, y)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("refit", ["ridge", "weighted"])
def test_a_refit_is_ridge_regression_on_the_sum_of_the_kernels_that_are_in(refit, shared):
    X, y = table(150)
    Y = np.stack([y, X[:, 0]], axis=1)
    model = MultipleKernelRegressor(KERNELS, **QUICK, refit=refit, l1_ratio=1.0, shared_weights=shared).fit(X, Y)
    assert model.refit_ == refit
    F = forward(model.feature_map_, model._stacked(model._views.take(model, X)))
    F = F - F.mean(axis=0)
    targets = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    for k in range(2):
        d = np.repeat(model.kernel_weights_[:, k if not shared else 0], 20)
        d = d / d.max() if refit == "weighted" else (d > 0).astype(float)
        kernel = (F * d) @ F.T
        dual = np.linalg.solve(kernel + 150 * model.refit_alpha_ * np.eye(150), targets[:, k])
        expected = kernel @ dual * Y[:, k].std() + Y[:, k].mean()
        np.testing.assert_allclose(model.predict(X)[:, k], expected, atol=1e-6)


def test_progress_is_told(capsys):
    X, y = table(60)
    MultipleKernelRegressor(KERNELS, **QUICK, verbose=1).fit(X, y)
    shown = capsys.readouterr().err.splitlines()
    assert shown[-1].startswith("[####################]")
    assert "held-out error" in shown[-1]
    assert 3 <= len(shown) <= 5  # a line for each path: two shares of the penalty, and all rows


@pytest.mark.parametrize("loss", ["squared", "multinomial"])
def test_coordinates_of_few_rows_stand_for_many_features(loss, monkeypatch):
    X, _ = table(60)
    y = labels(X)
    options = {**QUICK, "n_features": 100, "loss": loss, "l1_ratio": 1.0, "tol": 1e-8}
    few = MultipleKernelClassifier(KERNELS, **options).fit(X, y)
    monkeypatch.setattr("bochner.fold_problems.few_rows", lambda *_: False)
    many = MultipleKernelClassifier(KERNELS, **options).fit(X, y)
    assert few.coef_.shape == many.coef_.shape == (300, 3)
    assert (few.alpha_, few.l1_ratio_, few.refit_, few.refit_alpha_) == pytest.approx(
        (many.alpha_, many.l1_ratio_, many.refit_, many.refit_alpha_)
    )
    np.testing.assert_allclose(few.decision_function(X), many.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(few.kernel_weights_, many.kernel_weights_, atol=1e-5)
    np.testing.assert_allclose(few.explained_variance_, many.explained_variance_, atol=1e-5)
    assert few.path_.coef.shape == many.path_.coef.shape
    np.testing.assert_allclose(few.path_.value, many.path_.value, rtol=2 * ROUGH)


@pytest.mark.parametrize("refit", ["ridge", "weighted"])
def test_a_refit_of_no_kernel_is_a_constant(refit):
    X, y = table(60)
    model = MultipleKernelRegressor(KERNELS, **QUICK, refit=refit, alpha=1e3).fit(X, y)
    assert not model.kernel_weights_.any()
    np.testing.assert_allclose(model.predict(X), y.mean())
    flat = MultipleKernelRegressor(KERNELS, **QUICK, refit=refit, l1_ratio=1.0).fit(X, np.full(60, 2.0))
    np.testing.assert_allclose(flat.predict(X), 2.0)


@pytest.mark.parametrize("refit", [None, "ridge", "weighted", "auto"])
def test_the_path_has_all_penalties_that_were_tried(refit):
    X, y = table(100)
    options = {**QUICK, "n_alphas": 6, "smallest": 0.1, "l1_ratio": 1.0}
    model = MultipleKernelRegressor(KERNELS, **options, refit=refit).fit(X, y)
    assert len(model.path_.alphas) >= 6  # and more where the error still falls
    assert model.alpha_ in model.path_.alphas
    assert {trial["alpha"] for trial in model.trials_} <= set(model.path_.alphas)


@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
def test_the_plain_average_is_as_exact_as_asked_for(loss):
    X, _ = table(100)
    options = {**QUICK, "loss": loss, "l1_ratio": 0.0, "alpha": 1e-3, "tol": 1e-9}
    model = MultipleKernelClassifier(KERNELS, **options).fit(X, labels(X))
    assert model.converged_
    assert np.all(model.duality_gap_ <= 1e-9 * 3 * np.log(2))  # the loss of three questions whose scores are zero


def test_float32_rows_give_what_float64_rows_give():
    X, y = table(400)
    options = {**QUICK, "smallest": 1e-6}
    double = MultipleKernelRegressor(KERNELS, **options).fit(X.astype(np.float32).astype(np.float64), y)
    single = MultipleKernelRegressor(KERNELS, **options).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.predict(X), double.predict(X), rtol=1e-6)
    assert all(trial["error"] > 0 for trial in single.trials_)


@pytest.mark.parametrize("loss", ["squared", "logistic", "multinomial"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_losses_classes_and_weights_go_together(loss, shared, n_classes):
    X, _ = table(150)
    y = labels(X) if n_classes == 3 else np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    held = (X[100:], y[100:], np.linspace(1, 2, 50))
    options = {**QUICK, "loss": loss, "shared_weights": shared, "class_weight": "balanced", "validation": held}
    model = MultipleKernelClassifier(KERNELS, **options).fit(X[:100], y[:100], np.linspace(2, 1, 100))
    columns = 1 if shared else {"multinomial": n_classes}.get(loss, 1 if n_classes == 2 else n_classes)
    assert model.kernel_weights_.shape == (3, columns)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    with pytest.raises(ValueError, match=r"Leave those rows out[.]"):
        MultipleKernelClassifier(KERNELS, **{**options, "validation": (X, np.full(150, "else"))}).fit(X, y)


def test_weights_count_where_scales_are_learned():
    X, y = table(120)
    weights = np.where(X[:, 0] > 0, 1.0, 1e-3)
    options = {**QUICK, "scale": "learned"}
    with_weights = MultipleKernelRegressor(KERNELS[:1], **options).fit(X, y, weights)
    without = MultipleKernelRegressor(KERNELS[:1], **options).fit(X, y)
    assert not np.allclose(with_weights.kernels_[0].scale, without.kernels_[0].scale)


def test_given_scales_of_the_dictionary_differ():
    X, y = table(60)
    model = MultipleKernelRegressor(scale="given", **QUICK).fit(X, y)
    scales = [float(np.max(kernel.scale * X.std(axis=0))) for kernel in model.kernels_[:3]]
    np.testing.assert_allclose(scales, scales[1] * np.array([0.5, 1.0, 2.0]))


@pytest.mark.parametrize("l1_ratio", [[], None, ["a"], 1.5])
def test_shares_that_are_none_are_told(l1_ratio):
    X, y = table(40)
    with pytest.raises(ValueError, match="l1_ratio must be 'auto'"):
        MultipleKernelRegressor(KERNELS, **QUICK, l1_ratio=l1_ratio).fit(X, y)


def test_refits_find_their_penalty_where_nobody_has_averaged():
    X, y = table(300)
    shares = {"with": [0.0, 1.0], "without": 1.0}
    models = {name: MultipleKernelRegressor(KERNELS, **QUICK, l1_ratio=share).fit(X, y) for name, share in shares.items()}
    refits = {
        name: min(trial["error"] for trial in model.trials_ if trial["refit"] == "weighted")
        for name, model in models.items()
    }
    assert refits["without"] == pytest.approx(refits["with"])


def test_a_joint_refit_is_one_kernel_on_the_columns_that_are_in():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(300, 3))
    y = np.sin(2 * X[:, 0] * X[:, 2]) + X[:, 0] + X[:, 2]  # no sum of kernels of single columns knows the sine
    kernels = [(f"{i}", Gaussian(scale=1.0 + 0.1 * i), [i]) for i in range(3)]
    options = {**QUICK, "n_features": 100, "l1_ratio": 1.0, "standardize": False}
    sums, joint, auto = (
        MultipleKernelRegressor(kernels, **{**options, "refit": refit}).fit(X[:200], y[:200])
        for refit in ("ridge", "joint", "auto")
    )
    assert (joint.refit_, auto.refit_) == ("joint", "joint")
    is_in = np.flatnonzero(joint.kernel_weights_[:, 0])
    assert len(is_in) >= 2
    (one,) = joint.feature_map_.maps
    np.testing.assert_allclose(one.kernel.scale, (1.0 + 0.1 * is_in) / len(is_in) ** 0.5)
    features = one.forward(X[:, is_in])  # ridge regression in its dual form
    centred, mean = features[:200] - features[:200].mean(axis=0), y[:200].mean()
    unit = y[:200].std()
    dual = np.linalg.solve(centred @ centred.T + 200 * joint.refit_alpha_ * np.eye(200), (y[:200] - mean) / unit)
    expected = mean + unit * (features[200:] - features[:200].mean(axis=0)) @ centred.T @ dual
    np.testing.assert_allclose(joint.predict(X[200:]), expected, atol=1e-6)
    assert joint.score(X[200:], y[200:]) > sums.score(X[200:], y[200:])


def test_kernels_of_two_families_have_no_joint_kernel():
    X, y = table()
    kernels = [("a", "gaussian", [0, 1]), ("b", "matern32", slice(0, 4))]
    with pytest.raises(ValueError, match=r"one family, such as 'gaussian' for all of them, and these are in: 'a', 'b'"):
        MultipleKernelRegressor(kernels, **QUICK, refit="joint", alpha=1e-6).fit(X, y)
    assert MultipleKernelRegressor(kernels, **QUICK, alpha=1e-6).fit(X, y).refit_ != "joint"


def test_kernels_that_are_in_share_the_features_of_those_that_are_out():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 24))
    y = np.sin(X[:, 0]) + np.sin(X[:, 3])
    kernels = [(f"{i}", "gaussian", [i, i + 1, i + 2]) for i in range(0, 24, 3)]
    model = MultipleKernelRegressor(kernels, l1_ratio=1.0, alpha=0.1, refit=None, random_state=0).fit(X, y)
    is_in = model.kernel_weights_[:, 0] > 0
    assert is_in[:2].all()
    assert len(model.feature_map_.sizes) == is_in.sum() < 8
    assert min(model.feature_map_.sizes) > 200  # the share of each of eight kernels


def test_each_kernel_has_the_features_that_are_given_for_it():
    X, y = table()
    kernels = [("smooth", "gaussian", [0, 1, 2]), ("rough", "matern12", [0, 1])]
    model = MultipleKernelRegressor(kernels, n_features=[20, 60], l1_ratio=0.0, refit=None, random_state=0).fit(X, y)
    assert tuple(model.feature_map_.sizes) == (20, 60)
    same = MultipleKernelRegressor(kernels, n_features=(40, 40), random_state=0).fit(X, y)
    once = MultipleKernelRegressor(kernels, n_features=40, random_state=0).fit(X, y)
    np.testing.assert_array_equal(same.predict(X), once.predict(X))
    with pytest.raises(ValueError, match="n_features must be one number, or one for each of the 2 kernels, got 3"):
        MultipleKernelRegressor(kernels, n_features=[20, 60, 20]).fit(X, y)
    with pytest.raises(ValueError, match=r"n_features must be an even whole number, one for each kernel, or None, got \[20"):
        MultipleKernelRegressor(kernels, n_features=[20, 61]).fit(X, y)


def test_an_average_that_is_asked_for_stays_one():
    X, _ = table()
    model = MultipleKernelRegressor(["gaussian"] * 2, **QUICK, l1_ratio=0.0).fit(X, X[:, 0] * X[:, 1])
    assert model.refit_ is None
    assert len(model.feature_map_.maps) == 2


def test_a_dictionary_is_searched_with_few_features(capsys):
    X, y = table(300)
    model = MultipleKernelRegressor(random_state=0, n_alphas=6, validation=2, verbose=1).fit(X, y)
    sizes = np.array(model.feature_map_.sizes)
    assert len(sizes) < 12
    coordinates = np.minimum(sizes, 300)  # of the rows stand for more features
    assert coordinates.sum() <= 2200
    assert np.all(sizes == sizes[0])
    assert sizes.max() > 1000 // 12
    shown = capsys.readouterr().err.splitlines()
    assert "round" not in shown[0]
    assert "round 2" in shown[-1]


def test_a_path_goes_on_while_the_error_falls():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 6))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + np.cos(X[:, 2]) + 0.02 * rng.standard_normal(300)
    kernels = [("pair", "gaussian", [0, 1]), ("single", "matern32", [2]), ("noise", "gaussian", slice(3, 6))]
    model = MultipleKernelRegressor(kernels, n_features=100, refit=None, l1_ratio=1.0, random_state=0).fit(X, y)
    alphas = model.path_.alphas
    assert len(alphas) > 20
    np.testing.assert_allclose(alphas[1:] / alphas[:-1], 1e-3 ** (1 / 19))
    assert alphas[-1] >= 1e-6 * alphas[0]
    assert model.alpha_ < alphas[19]


def test_a_path_that_ends_too_early_is_told():
    X, y = table(300)
    options = {"n_features": 50, "l1_ratio": 1.0, "refit": None, "validation": 3, "random_state": 0}
    with pytest.warns(UserWarning, match=r"still falls at alpha_=.*lower smallest, for instance to 2e-01"):
        model = MultipleKernelRegressor(KERNELS, **options, n_alphas=6, smallest=0.5).fit(X, y)
    assert model.alpha_ == model.path_.alphas[-1]
    assert len(model.path_.alphas) == 11
