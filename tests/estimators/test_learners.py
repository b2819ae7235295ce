"""KernelRegressor and KernelClassifier: what is learned, weights, inputs and outputs, odd data, classes."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import clone

from bochner import KernelClassifier, KernelRegressor
from bochner.descent import family_name
from bochner.estimators.learner import AUTO_KERNELS
from bochner.exact import KernelRidgeGD
from bochner.kernels import KERNELS, Gaussian, Matern
from tests.cases import ADDITIVE, BUILT_IN, rows
from tests.estimators.learners import EPS, classifier, each_learner, fixed, output, regressor, small, table, targets

# -- what is learned ---------------------------------------------------------------------------------------------------


def relevant_columns(n=300, seed=0):
    """Twenty columns of which three matter."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 20))
    return X, np.sin(2 * X[:, 4]) + X[:, 7] ** 2 + X[:, 4] * X[:, 13] + 0.05 * rng.standard_normal(n)


@each_learner
def test_relevant_columns_are_found(learner):
    X, y = relevant_columns()
    model = small(learner, n_features=256).fit(X, targets(learner, y))
    relevance = model.relevance_
    assert relevance.max() == 1
    assert relevance[[4, 7, 13]].min() > np.delete(relevance, [4, 7, 13]).max()
    names = list(model.relevance_by_name())
    assert set(names[:3]) == {"x4", "x7", "x13"}
    assert list(model.relevance_by_name().values()) == sorted(relevance, reverse=True)


def test_a_start_that_predicts_nothing_is_left():
    X, y = relevant_columns()
    models = [regressor(random_state=seed).fit(X, y) for seed in range(8)]
    assert max(model.validation_error_ for model in models) < 0.1  # an error of one is that of a constant


@each_learner
def test_names_of_columns(learner):
    X, y = table()
    model = small(learner).fit(pd.DataFrame(X, columns=["height", "age", "weight"]), targets(learner, y))
    by_name = model.relevance_by_name()
    assert set(by_name) == {"height", "age", "weight"}
    assert next(iter(by_name)) == "height"
    assert by_name["height"] == 1


@each_learner
@pytest.mark.parametrize("factor", [8.0, 10.0])
def test_a_column_in_another_unit_has_its_scale_in_another_unit(learner, factor):
    X, y = table()
    unit = np.array([1.0, factor, 1.0])
    model, other = (small(learner).fit(A, targets(learner, y)) for A in (X, X * unit))
    # Standardised rows are the same for a power of two, and else but for a rounding error, which an optimiser that stops at
    # 1e-4 of the criterion may turn into as much of a scale that matters.
    tolerance = 64 * EPS if factor == 8 else 1e-2
    np.testing.assert_allclose(other.scale_ * unit, model.scale_, rtol=tolerance)
    np.testing.assert_allclose(output(other, X * unit), output(model, X), rtol=0, atol=tolerance)


def test_the_kernel_is_in_the_units_of_the_data():
    X, y = table()
    X = X * [1, 10, 100] + 5
    model = regressor(n_features=1000, criterion="holdout").fit(X, y)
    features = model.feature_map_.forward(model.standardiser_(X))
    # Features approximate the kernel of the raw rows: an error of at most 6 / sqrt(f) at 500 frequencies.
    assert np.max(np.abs(features @ features.T - model.kernel_(X))) <= 6 / 500**0.5
    np.testing.assert_array_equal(model.kernel_.scale, model.scale_)


@each_learner
@pytest.mark.parametrize(("scale", "ties"), [("shared", [0, 0, 0]), ([5, "a", 5], [0, 1, 0]), ([2, 2, 7], [0, 0, 1])])
def test_tied_scales(learner, scale, ties):
    X, y = table()
    model = small(learner, scale=scale).fit(X, targets(learner, y))
    scale = model.scale_ * model.standardiser_.spread
    for a in range(3):
        for b in range(a):
            assert (abs(scale[a] / scale[b] - 1) < 1e-12) == (ties[a] == ties[b])


@each_learner
def test_auto_reports_every_family(learner):
    X, y = table()
    model = small(learner, "auto").fit(X, targets(learner, y))
    assert len(model.families_) == len(AUTO_KERNELS)
    assert all(np.isfinite(summary["criterion"]) for summary in model.families_.values())
    assert {record["kernel"] for record in model.history_} == set(model.families_)
    assert type(model.kernel_).__name__ in {name.split("(")[0] for name in model.families_}


@pytest.mark.parametrize("learner", [KernelRegressor, KernelClassifier, KernelRidgeGD])
@pytest.mark.parametrize(
    "kernel", [["laplacian", "gaussian", "matern32"], (Gaussian(scale=0.5), "laplacian", Matern(nu=1.5))], ids=str
)
def test_the_best_family_of_a_list_is_kept(learner, kernel):
    X, y = table()
    y = y if learner is KernelRidgeGD else targets(learner, y)
    options = {} if learner is KernelRidgeGD else {"n_features": 32}
    model = learner(kernel, random_state=0, **options).fit(X, y)
    assert set(model.families_) == {"Laplacian", "Gaussian", "Matern(nu=1.5)"}
    best = min(model.families_, key=lambda name: model.families_[name]["criterion"])
    assert family_name(model.kernel_) == best == next(iter(model.families_))
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@each_learner
def test_a_list_of_one_is_that_kernel(learner):
    X, y = table()
    y = targets(learner, y)
    for kernel in ("matern32", Gaussian(scale=0.5), "chi2"):
        options = {"n_features": None} if kernel == "chi2" else {}
        one, two = (small(learner, given, **options).fit(np.abs(X), y) for given in (kernel, [kernel]))
        np.testing.assert_array_equal(output(one, np.abs(X)), output(two, np.abs(X)))


def test_objects_in_a_list_start_from_their_scales_and_names_from_the_rows():
    X, y = table()
    model = regressor([Gaussian(scale=0.01), "matern32"], standardize=False, scale="per-column", tol=1e9).fit(X, y)
    assert family_name(model.kernel_) == "Matern(nu=1.5)"
    np.testing.assert_array_equal(model.scale_, regressor("matern32", standardize=False, tol=1e9).fit(X, y).scale_)
    only = regressor([Gaussian(scale=0.01)], standardize=False, tol=1e9).fit(X, y)
    np.testing.assert_allclose(only.scale_, 0.01, rtol=1e-12)


def test_families_of_histograms_in_a_list():
    X, y = table()
    model = regressor(["chi2", "exponentiated_chi2", "gaussian"], n_features=None).fit(np.abs(X), y)
    assert len(model.families_) == 3
    with pytest.raises(ValueError, match="Negative values in data passed to Chi2"):
        regressor(["gaussian", "chi2"], n_features=None).fit(X, y)


@each_learner
@pytest.mark.parametrize("schedule", ["small-to-large", "full"])
def test_history(learner, schedule):
    X, y = table()
    records = []
    model = small(learner, Gaussian(scale=0.7), schedule=schedule, tol=1e-4, callback=records.append).fit(
        X, targets(learner, y)
    )
    assert model.history_ == records
    assert isinstance(model.converged_, bool)
    assert model.alpha_ > 0
    # From one start and at one size, steps are the evaluations that lower the criterion.
    criteria = [record["criterion"] for record in records]
    steps = sum(value < lowest for value, lowest in zip(criteria[1:], np.minimum.accumulate(criteria), strict=False))
    assert model.n_iter_ == steps > 1


@each_learner
def test_a_kernel_that_stays_takes_no_step(learner):
    X, y = table()
    model = fixed(learner).fit(X, targets(learner, y))
    assert model.n_iter_ == 0
    assert len(model.history_) == 1
    assert model.converged_


@each_learner
@pytest.mark.parametrize(("criterion", "validation"), [("kfold", 2), ("kfold", 60), ("holdout", 0.3), ("holdout", 0.001)])
def test_criteria(learner, criterion, validation):
    X, y = table()
    model = small(learner, criterion=criterion, validation=validation).fit(X, targets(learner, y))
    assert np.isfinite(model.validation_error_)
    assert np.isfinite(output(model, X)).all()


@each_learner
@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel(learner, name):
    X = rows(BUILT_IN[name], 40, 3)
    y = targets(learner, X[:, 0] - X[:, 1] ** 2)
    model = small(learner, name, n_features=None if name in ADDITIVE else 32).fit(X, y)
    assert type(model.kernel_) is type(BUILT_IN[name])
    assert np.isfinite(output(model, X)).all()
    assert model.validation_error_ < 1.1  # a constant makes an error of one, but for the folds


def test_auto_leaves_out_what_orthogonal_sampling_cannot_draw():
    X, y = table()
    model = KernelRegressor(n_features=32, sampling="orthogonal", random_state=0).fit(X, y)
    assert set(model.families_) == {"Gaussian", "Matern(nu=1.5)"}


# -- weights -----------------------------------------------------------------------------------------------------------


@each_learner
def test_weight_zero_is_no_row(learner):
    X, y = table()
    y = targets(learner, y)
    weights = np.random.default_rng(0).gamma(2.0, 0.5, 60)
    weights[::4] = 0
    used = weights > 0
    one = small(learner).fit(X, y, weights)
    two = small(learner).fit(X[used], y[used], weights[used])
    np.testing.assert_array_equal(output(one, X), output(two, X))


@each_learner
@pytest.mark.parametrize("factor", [2.0**-20, 2.0**900, 2.0**-900])
def test_unit_of_the_weights(learner, factor):
    X, y = table()
    y = targets(learner, y)
    weights = np.random.default_rng(0).gamma(2.0, 0.5, 60)
    one, two = (small(learner).fit(X, y, w) for w in (weights, factor * weights))
    np.testing.assert_array_equal(output(one, X), output(two, X))
    ones = small(learner).fit(X, y, np.full(60, factor))
    np.testing.assert_array_equal(output(ones, X), output(small(learner).fit(X, y), X))


# -- inputs and outputs ------------------------------------------------------------------------------------------------


def test_several_targets():
    X, y = table()
    Y = np.stack([y, 3 * y + 5, X[:, 1]], axis=1)
    model = regressor().fit(X, Y)
    assert model.predict(X).shape == (60, 3)
    np.testing.assert_allclose(model.predict(X)[:, 1], 3 * model.predict(X)[:, 0] + 5, rtol=0, atol=1e-7)
    column = regressor().fit(X, y[:, None])
    assert column.predict(X).shape == (60, 1)
    np.testing.assert_array_equal(column.predict(X)[:, 0], regressor().fit(X, y).predict(X))


@each_learner
@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix])
@pytest.mark.parametrize("kernel", ["gaussian", "exponentiated_chi2", "chi2"])
def test_sparse_rows(learner, container, kernel):
    X, y = table()
    X = np.abs(np.where(np.abs(X) < 0.6, 0, X))
    y = targets(learner, y)
    options = {"standardize": False, "n_features": None if kernel == "chi2" else 32}
    dense, thin = (small(learner, kernel, **options).fit(A, y) for A in (X, container(X)))
    # The same sums in another order; the optimiser stops at 1e-4 of the criterion.
    np.testing.assert_allclose(thin.validation_error_, dense.validation_error_, rtol=1e-2)
    np.testing.assert_allclose(
        output(thin, container(X)), output(thin, X), rtol=0, atol=1e-9 * (1 + np.abs(thin.coef_).sum())
    )
    standardised = small(learner, kernel, n_features=options["n_features"]).fit(container(X), y)
    assert np.isfinite(output(standardised, container(X))).all()


@each_learner
@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix])
@pytest.mark.parametrize("fitted", ["dense", "sparse"])
def test_sparse_and_dense_rows_are_the_same_to_a_fitted_model(learner, container, fitted):
    X, y = table()
    X = np.where(np.abs(X) < 0.6, 0, X + 3)
    y = targets(learner, y)
    model = small(learner).fit(X if fitted == "dense" else container(X), y)
    expected = output(model, X)
    # The same products in another order, of features of length one.
    bound = 64 * EPS * (1 + np.abs(model.coef_).sum())
    np.testing.assert_allclose(output(model, container(X)), expected, rtol=0, atol=bound)
    assert model.score(container(X), y) == pytest.approx(model.score(X, y), abs=bound)


@each_learner
def test_float32_rows(learner):
    X, y = table()
    y = targets(learner, y)
    model = small(learner).fit(X.astype(np.float32), y)
    assert model.coef_.dtype == np.float64
    assert model.feature_map_.points.dtype == np.float64
    # Features are rounded to float32 and multiplied by the coefficients.
    bound = 64 * float(np.finfo(np.float32).eps) * (1 + np.abs(model.coef_).sum())
    decisions = [model._outputs(X.astype(dtype)) for dtype in (np.float32, np.float64)]
    assert np.max(np.abs(decisions[0] - decisions[1])) <= bound


@each_learner
def test_tensors(learner):
    X, y = table()
    y = targets(learner, y)
    expected = small(learner).fit(X, y)
    model = small(learner).fit(torch.tensor(np.array(X)), y)
    np.testing.assert_array_equal(output(model, torch.tensor(np.array(X))), output(expected, X))


# -- odd data ----------------------------------------------------------------------------------------------------------


def odd_tables():
    X, _ = table(40, 4)
    rng = np.random.default_rng(0)
    return {
        "constant column": np.c_[X, np.full(40, 7.0)],
        "constant columns": np.ones((40, 3)),
        "duplicated columns": np.c_[X, X],
        "duplicated rows": np.repeat(X[:4], 10, axis=0),
        "wide": rng.standard_normal((40, 90)),
        "one column": X[:, :1],
        "huge": 1e200 * X,
        "tiny": 1e-200 * X,
        "mixed": X * [1e200, 1e-200, 1, 1e10],
        "offset": X + 1e8,
        "outlier": np.r_[X[:-1], 1e12 * X[-1:]],
        "integers": rng.integers(0, 3, (40, 4)),
        "booleans": rng.random((40, 4)) < 0.5,
    }


@each_learner
@pytest.mark.parametrize("name", odd_tables())
def test_odd_tables_give_finite_predictions(learner, name):
    X = odd_tables()[name]
    y = targets(learner, table(40, 4)[1], 3)
    model = small(learner).fit(X, y)
    assert np.isfinite(output(model, X)).all()
    assert np.isfinite(model.validation_error_)
    assert np.isfinite(model.relevance_).all()


@pytest.mark.parametrize("value", [0.0, 3.0, 0.1, -1e200, 1e-200])
def test_constant_target(value):
    X, _ = table()
    model = regressor().fit(X, np.full(60, value))
    # Predictions are the mean of sixty equal values.
    np.testing.assert_allclose(model.predict(X), value, rtol=64 * EPS)
    assert 0 <= model.validation_error_ <= 1e-3


@pytest.mark.parametrize("unit", [1e200, 1e-200, 1e12])
def test_unit_of_the_target(unit):
    X, y = table()
    model, other = regressor().fit(X, y), regressor().fit(X, unit * y)
    assert np.isfinite(other.predict(X)).all()
    # Standardised targets differ by rounding; the optimiser stops at 1e-4 of the criterion.
    assert other.validation_error_ == pytest.approx(model.validation_error_, rel=1e-2)


@each_learner
@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_few_rows(learner, n):
    X, y = table()
    y = y[:n] if learner is KernelRegressor else np.arange(n) % 2
    assert np.isfinite(output(small(learner).fit(X[:n], y), X)).all()


# -- classes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("labels", "n_classes"), [(int, 2), (int, 3), (int, 6), (str, 2), (str, 3), (str, 6), (bool, 2)])
def test_probabilities_agree_with_predictions(labels, n_classes):
    X, y = table(120)
    y = np.array([f"class {k}" if labels is str else labels(k) for k in targets(KernelClassifier, y, n_classes)])
    model = classifier().fit(X, y)
    np.testing.assert_array_equal(model.classes_, np.unique(y))
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (120, n_classes)
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=0, atol=2 * n_classes * EPS)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X))
    decisions = model.decision_function(X)
    if n_classes == 2:
        assert decisions.shape == (120,)
        np.testing.assert_array_equal(model.classes_[(decisions > 0).astype(int)], model.predict(X))
    else:
        assert decisions.shape == (120, n_classes)
        np.testing.assert_array_equal(model.classes_[decisions.argmax(axis=1)], model.predict(X))


def test_rare_classes_agree_too():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    y = np.searchsorted([1.0, 1.8], X[:, 0] + 0.5 * rng.standard_normal(150))
    model = classifier(criterion="holdout").fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X).argmax(axis=1), model.predict(X))


def test_class_weight_is_a_weight():
    X, y = table()
    y = targets(KernelClassifier, y, 3)
    by_class = {0: 1.0, 1: 2.0, 2: 0.5}
    one = classifier(class_weight=by_class).fit(X, y)
    two = classifier().fit(X, y, np.array([by_class[k] for k in y]))
    np.testing.assert_array_equal(output(one, X), output(two, X))


def test_balanced_classes_weigh_the_same():
    X, y = table()
    y = (y > np.quantile(y, 0.8)).astype(int)
    one = classifier(class_weight="balanced").fit(X, y)
    two = classifier(class_weight={0: 60 / (2 * np.sum(y == 0)), 1: 60 / (2 * np.sum(y == 1))}).fit(X, y)
    np.testing.assert_array_equal(output(one, X), output(two, X))
    assert one.predict_proba(X)[:, 1].mean() > classifier().fit(X, y).predict_proba(X)[:, 1].mean()


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_a_class_without_weight(class_weight):
    X, y = table()
    y = targets(KernelClassifier, y, 3)
    model = classifier(class_weight=class_weight).fit(X, y, (y < 2).astype(float))
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    probabilities = model.predict_proba(X)
    assert np.isfinite(probabilities).all()
    assert (probabilities[:, 2] < 0.1).all()  # a third of a row of the prior, against twenty in each of the others


@pytest.mark.parametrize("learner", [KernelRegressor, KernelRidgeGD])
def test_columns_share_a_scale_where_rows_are_too_few_to_tell_them_apart(learner):
    """Thirty columns that all count, and 120 rows: scales of their own follow the folds, not the columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 30))
    y = np.tanh(X.sum(axis=1) / 8) + 0.2 * rng.standard_normal(500)
    options = {"n_features": 200} if learner is KernelRegressor else {"max_iter": 10}
    models = [learner("gaussian", scale=scale, random_state=0, **options) for scale in ("per-column", "auto")]
    own, auto = (model.fit(X[:120], y[:120]) for model in models)
    assert (own.n_scales_, auto.n_scales_) == (30, 1)
    np.testing.assert_allclose(np.ptp(auto.scale_ * auto.standardiser_.spread), 0, atol=1e-12 * auto.scale_.max())
    assert own.validation_error_ < auto.validation_error_  # which is why the choice needs rows that neither has seen
    assert auto.score(X[120:], y[120:]) > own.score(X[120:], y[120:])


def test_columns_have_scales_of_their_own_where_few_of_them_count():
    X, y = relevant_columns()
    assert KernelRegressor("gaussian", n_features=100, random_state=0).fit(X, y).n_scales_ == 20


@pytest.mark.parametrize("options", [{"scale": "shared"}, {"scale_penalty": "sparse"}, {"kernel": Gaussian(scale=0.5)}])
def test_auto_gives_way_to_other_choices(options):
    X, y = relevant_columns()
    model = KernelRegressor(**{"kernel": "gaussian", "n_features": 32, "random_state": 0, "tol": 0.1, **options}).fit(
        X[:60], y[:60]
    )
    assert model.n_scales_ == (1 if "scale" in options else 20)
