"""What KernelRegressor and KernelClassifier refuse, and what they say."""

import numpy as np
import pandas as pd
import pytest

from bochner import KernelClassifier, KernelRegressor
from bochner.exact import KernelRidgeGD
from bochner.kernels import Gaussian
from tests.cases import ADDITIVE
from tests.estimators.learners import classifier, each_learner, regressor, small, table, targets


@each_learner
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "cv"}, "criterion must be one of .*holdout.*, got 'cv'"),
        ({"criterion": None}, "criterion must be one of .*, got None"),
        ({"scale": "column"}, "scale must be one of auto, per-column, shared, got 'column'"),
        (
            {"scale": [0, 1]},
            r"scale .* whole number or a name for each of the 3 columns, such as \[0, 0, 1\] .*, got \[0, 1\]",
        ),
        ({"scale": [[0, 1], [2]]}, r"scale .* for each of the 3 columns, such as .*'a'.*, got \[\[0, 1\], \[2\]\]"),
        ({"scale": [0, None, 1]}, r"scale .* for each of the 3 columns, .*, got \[0, None, 1\]"),
        ({"scale": 2.0}, "scale .* for each of the 3 columns, .*, got 2.0"),
        ({"criterion": "kfold", "validation": 1}, "validation must be a whole number of folds, at least 2, .*, got 1"),
        ({"criterion": "kfold", "validation": 0.2}, "validation must be a whole number of folds, at least 2, .*, got 0.2"),
        ({"criterion": "kfold", "validation": "3"}, "validation must be a whole number of folds, at least 2, .*, got '3'"),
        ({"criterion": "kfold", "validation": 61}, "validation asks for 61 folds of 60 rows: use at most 60"),
        ({"criterion": "holdout", "validation": 5}, "validation must be a fraction between 0 and 1 for 'holdout', got 5"),
        ({"criterion": "holdout", "validation": 0.0}, "validation must be a fraction between 0 and 1"),
        ({"criterion": "holdout", "validation": "half"}, "validation must be a fraction .*, got 'half'"),
        ({"criterion": "holdout", "validation": np.nan}, "validation must be a fraction .*, got nan"),
        (
            {"validation": "kfold"},
            r"validation must be a number of folds .* or a set .*\(X, y\), and .*: write criterion='kfold'",
        ),
        ({"validation": "three"}, r"validation must be a number of folds .* or a set .*\(X, y\), got 'three'"),
        ({"validation": 1}, "validation must be a number of folds .*, got 1"),
        ({"validation": 1.5}, "validation must be a number of folds .*, got 1.5"),
        ({"standardize": "yes"}, "standardize must be True or False, got 'yes'"),
        ({"standardize": 1}, "standardize must be True or False, got 1"),
        ({"warm_start": None}, "warm_start must be True or False, got None"),
        ({"verbose": "a"}, "verbose must be a whole number, zero or more, or True or False, got 'a'"),
        ({"verbose": -1}, "verbose must be a whole number, zero or more, .*, got -1"),
        ({"kernel": []}, r"kernel is empty: give the families to try, such as \['gaussian', 'matern32'\]"),
        ({"kernel": ["gaussian", "gausian"]}, "Unknown kernel 'gausian': did you mean 'gaussian'"),
        ({"kernel": ["gaussian", None]}, "kernel must be a name or a Kernel object, got None"),
        ({"schedule": "large"}, "schedule must be one of small-to-large, full, got 'large'"),
        ({"scale_penalty": "l1"}, "scale_penalty must be one of none, squared, sparse, got 'l1'"),
        ({"scale_penalty": ["none"]}, r"scale_penalty must be one of none, squared, sparse, got \['none'\]"),
        ({"scale_penalty_strength": -1.0}, "scale_penalty_strength must be a number, zero or more, got -1.0"),
        ({"scale_penalty_strength": "big"}, "scale_penalty_strength must be a number, zero or more, got 'big'"),
        ({"tol": -1e-4}, "tol must be None, or a number, zero or more, got -0.0001"),
        ({"tol": "small"}, "tol must be None, or a number, zero or more, got 'small'"),
        ({"callback": 3}, "callback must be a function of one record or None, got 3"),
        ({"kernel": "gausian"}, "Unknown kernel 'gausian': did you mean 'gaussian'"),
        ({"kernel": Gaussian}, r"kernel is the class Gaussian: give an object of it, Gaussian\(\)"),
        ({"kernel": None}, "kernel must be a name or a Kernel object, got None"),
        ({"kernel": Gaussian(scale=[1.0, 2.0])}, "scale has 2 entries and the rows have 3 columns"),
        ({"n_features": 7}, r"n_features must be an even whole number, or None \(.*\), got 7: .* pairs of cosine and sine"),
        ({"n_features": -2}, r"n_features must be an even whole number, or None \(.*\), got -2"),
        ({"n_features": "auto"}, r"n_features must be an even whole number, or None \(four for each row.*\), got 'auto'"),
        ({"n_features": 64.0}, r"n_features must be an even whole number, or None \(.*\), got 64.0"),
        ({"n_features": True}, r"n_features must be an even whole number, or None \(.*\), got True"),
        ({"kernel": "chi2", "n_features": "auto"}, "n_features must be .*, got 'auto'"),
        ({"sampling": "sobol"}, "sampling must be one of .*, got 'sobol'"),
        ({"random_state": "x"}, "random_state must be None, a whole number"),
    ],
    ids=str,
)
def test_parameters(learner, options, message):
    X, y = table()
    with pytest.raises(ValueError, match=message):
        small(learner, **options).fit(np.abs(X), targets(learner, y))


@pytest.mark.parametrize("options", [{"standardize": np.True_}, {"verbose": np.False_}, {"verbose": np.int64(0)}], ids=str)
def test_flags_of_numpy(options):
    X, y = table()
    np.testing.assert_array_equal(regressor(**options).fit(X, y).predict(X), regressor().fit(X, y).predict(X))


@pytest.mark.parametrize("learner", [KernelRegressor, KernelClassifier, KernelRidgeGD])
def test_a_parameter_that_there_is_not(learner):
    with pytest.raises(TypeError, match=rf"^{learner.__name__}.__init__\(\) got an unexpected keyword argument 'gamma'"):
        learner(gamma=1.0)


@each_learner
@pytest.mark.parametrize("name", ADDITIVE)
def test_features_against_an_additive_kernel(learner, name):
    X, y = table()
    with pytest.raises(ValueError, match="leave n_features out and set order"):
        small(learner, name, n_features=32).fit(np.abs(X), targets(learner, y))


@each_learner
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(60), "at least one non-zero|zero for every row"),
        (-np.ones(60), "Negative values in data passed to `sample_weight`"),
        (np.full(60, np.nan), "sample_weight contains NaN"),
        (np.ones(59), "X has 60 rows and sample_weight has 59"),
        (np.ma.masked_greater(np.arange(60.0), 57), "sample_weight is a masked array with 2 masked entries"),
    ],
    ids=["zero", "negative", "nan", "length", "masked"],
)
def test_weights(learner, weights, message):
    X, y = table()
    with pytest.raises(ValueError, match=message):
        small(learner).fit(X, targets(learner, y), weights)


@each_learner
def test_targets(learner):
    X, _ = table()
    with pytest.raises(ValueError, match="requires y to be passed"):
        small(learner).fit(X, None)
    with pytest.raises(ValueError, match="X has 60 rows and y has 59: inconsistent numbers of samples"):
        small(learner).fit(X, np.arange(59) % 2)


@each_learner
@pytest.mark.parametrize("container", [np.asarray, list, pd.Series, lambda y: np.asarray(y, dtype=object)])
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_targets_that_are_not_finite(learner, container, value, word):
    X, y = table()
    y = np.array(targets(learner, y), dtype=float)
    y[[3, 50]] = value
    with pytest.raises(ValueError, match=f"y contains {word} in 2 of its 60 rows, the first of them row 3: drop those rows"):
        small(learner).fit(X, container(y))


@each_learner
@pytest.mark.parametrize("missing", [None, pd.NA, pd.NaT], ids=str)
def test_targets_that_are_missing(learner, missing):
    X, y = table()
    y = np.array(targets(learner, y), dtype=object)
    y[7] = missing
    with pytest.raises(ValueError, match=f"y contains {missing} in 1 of its 60 rows, the first of them row 7"):
        small(learner).fit(X, y)


def test_the_first_row_of_several_targets_with_a_gap():
    X, y = table()
    Y = np.stack([y, y], axis=1)
    Y[5, 1] = Y[6, 0] = np.nan
    with pytest.raises(ValueError, match="y contains NaN in 2 of its 60 rows, the first of them row 5"):
        regressor().fit(X, Y)


@each_learner
def test_masked_arrays(learner):
    X, y = table()
    y = targets(learner, y)
    masked = np.ma.array(X, mask=np.zeros(X.shape, dtype=bool))
    model = small(learner).fit(masked, np.ma.array(y))  # nothing is masked
    masked[4, 1] = np.ma.masked
    for method in (model.predict, lambda A: small(learner).fit(A, y), lambda A: model.partial_fit(A, y)):
        with pytest.raises(ValueError, match="X is a masked array with 1 masked entries, and its mask would be lost"):
            method(masked)
    with pytest.raises(ValueError, match="y is a masked array with 30 masked entries"):
        small(learner).fit(X, np.ma.array(y, mask=np.arange(60) % 2))


@pytest.mark.parametrize(
    "model", [regressor(), KernelRidgeGD("gaussian", max_iter=2, random_state=0)], ids=lambda model: type(model).__name__
)
@pytest.mark.parametrize("dtype", [str, object])
def test_targets_of_text(model, dtype):
    X, y = table()
    labels = np.where(y > 0, "high", "low").astype(dtype)
    with pytest.raises(ValueError, match=f"y holds text, such as '(high|low)', and {type(model).__name__} needs numbers"):
        model.fit(X, labels)
    numbers = np.round(y, 3)
    expected = model.fit(X, numbers).predict(X)
    np.testing.assert_array_equal(model.fit(X, numbers.astype(str).astype(dtype)).predict(X), expected)


@each_learner
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_that_are_not_finite(learner, value):
    X, y = table()
    X = X.copy()
    model = small(learner).fit(X, targets(learner, y))
    X[4, 1] = value
    for method in (model.predict, lambda A: small(learner).fit(A, targets(learner, y))):
        with pytest.raises(ValueError, match=r"X, column 1, row 4 holds .* needs finite numbers"):
            method(X)


@each_learner
def test_outside_the_domain(learner):
    X, y = table()
    with pytest.raises(ValueError, match="Negative values"):
        small(learner, "skewed_chi2").fit(X, targets(learner, y))
    model = small(learner, "skewed_chi2").fit(np.abs(X), targets(learner, y))
    with pytest.raises(ValueError, match="Negative values"):
        model.predict(X - 100)


def test_one_row():
    X, y = table()
    with pytest.raises(ValueError, match="at least two rows, got 1 sample"):
        regressor().fit(X[:1], y[:1])
    weights = np.zeros(60)
    weights[3] = 1
    with pytest.raises(ValueError, match="at least two rows, got 1 sample"):
        regressor().fit(X, y, weights)


def test_one_class():
    X, y = table()
    for labels, name in ((np.zeros(60, dtype=int), "0"), (np.full(60, "yes"), "'yes'"), (np.ones(60, dtype=bool), "True")):
        with pytest.raises(ValueError, match=f"y has only one class, {name}, .*at least two classes"):
            classifier().fit(X, labels)
    labels = targets(KernelClassifier, y)
    with pytest.raises(ValueError, match=r"y has only one class, .*among rows of positive weight"):
        classifier().fit(X, labels, labels)


def test_classes_that_are_none():
    X, y = table()
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        classifier().fit(X, y)


@pytest.mark.parametrize("class_weight", [{0: 1, 1: -1}, {0: 1, 1: 0}])
def test_class_weights_that_are_not_positive(class_weight):
    X, y = table()
    with pytest.raises(ValueError, match="class_weight must give every class a positive weight, got"):
        classifier(class_weight=class_weight).fit(X, targets(KernelClassifier, y))


@pytest.mark.parametrize("class_weight", ["bal", 3, np.ones(2)], ids=str)
def test_class_weights_of_another_kind(class_weight):
    X, y = table()
    with pytest.raises(ValueError, match="class_weight must be 'balanced', None or a dict of a weight for each class, got"):
        classifier(class_weight=class_weight).fit(X, targets(KernelClassifier, y))


def test_more_features_than_memory_are_refused_before_learning(monkeypatch):
    X, y = table()
    monkeypatch.setattr("bochner.estimators.sized.machine_bytes", lambda: 1e9)
    with pytest.raises(
        ValueError, match=r"=60000 needs about 28\.8 GB .* has 1 GB: use fewer, such as 3534, or keep_moments=False"
    ):
        KernelRegressor(n_features=60_000).fit(X, y)
    with pytest.raises(ValueError, match=r"needs about 2\.59 GB .*: use fewer, such as 3726\."):
        KernelRegressor(n_features=8000, keep_moments=False).fit(np.ones((6000, 2)), np.arange(6000.0))
    with pytest.raises(ValueError, match=r"needs about 3\.1 GB .*: use fewer, such as 3534\."):  # with or without moments_
        KernelRegressor(n_features=8000).fit(np.ones((6000, 2)), np.arange(6000.0))


def test_few_features_for_want_of_memory_are_warned_of():
    X, y = table()
    with pytest.warns(UserWarning, match=r"max_memory is 1 MB, which has room for 78 features.*For 256.*to 10\.5 MB"):
        model = regressor(n_features=None, max_memory="1MB").fit(X, y)
    assert model.feature_map_.n_features == 78
    regressor(n_features=78, max_memory="1MB").fit(X, y)  # as was asked for
    regressor(n_features=None, max_memory="10.5MB").fit(X, y)
