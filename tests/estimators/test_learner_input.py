"""What KernelRegressor and KernelClassifier refuse, and what they say."""

import numpy as np
import pytest

from bochner import KernelClassifier
from bochner.kernels import Gaussian
from tests.cases import ADDITIVE
from tests.estimators.learners import classifier, each_learner, regressor, small, table, targets


@each_learner
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "cv"}, "criterion must be one of .*holdout.*, got 'cv'"),
        ({"criterion": None}, "criterion must be one of .*, got None"),
        ({"scale": "column"}, "scale must be 'per-column', 'shared' or a group for each column, got 'column'"),
        ({"scale": [0, 1]}, r"scale .* for each of the 3 columns, such as \[0, 0, 1\], got \[0, 1\]"),
        ({"scale": 2.0}, "scale .* for each of the 3 columns, .*, got 2.0"),
        ({"criterion": "kfold", "validation": 1}, "validation must be a whole number of folds, at least 2, .*, got 1"),
        ({"criterion": "kfold", "validation": 0.2}, "validation must be a whole number of folds, at least 2, .*, got 0.2"),
        ({"criterion": "kfold", "validation": "3"}, "validation must be a whole number of folds, at least 2, .*, got '3'"),
        ({"criterion": "kfold", "validation": 61}, "validation asks for 61 folds of 60 rows: use at most 60"),
        ({"criterion": "holdout", "validation": 5}, "validation must be a fraction between 0 and 1 for 'holdout', got 5"),
        ({"criterion": "holdout", "validation": 0.0}, "validation must be a fraction between 0 and 1"),
        ({"criterion": "holdout", "validation": "half"}, "validation must be a fraction .*, got 'half'"),
        ({"criterion": "holdout", "validation": np.nan}, "validation must be a fraction .*, got nan"),
        ({"schedule": "large"}, "schedule must be one of small-to-large, full, got 'large'"),
        ({"scale_penalty": "l1"}, "scale_penalty must be one of none, squared, sparse, got 'l1'"),
        ({"scale_penalty": ["none"]}, r"scale_penalty must be one of none, squared, sparse, got \['none'\]"),
        ({"scale_penalty_strength": -1.0}, "scale_penalty_strength must be a number, zero or more, got -1.0"),
        ({"scale_penalty_strength": "big"}, "scale_penalty_strength must be a number, zero or more, got 'big'"),
        ({"tol": -1e-4}, "tol must be a number, zero or more, got -0.0001"),
        ({"tol": None}, "tol must be a number, zero or more, got None"),
        ({"callback": 3}, "callback must be a function of one record or None, got 3"),
        ({"kernel": "gausian"}, "Unknown kernel 'gausian': did you mean 'gaussian'"),
        ({"kernel": Gaussian}, r"kernel is the class Gaussian: give an object of it, Gaussian\(\)"),
        ({"kernel": None}, "kernel must be a name or a Kernel object, got None"),
        ({"kernel": Gaussian(scale=[1.0, 2.0])}, "scale has 2 entries and the rows have 3 columns"),
        ({"n_features": 7}, "n_features must be even"),
        ({"n_features": -2}, "n_features must be a positive whole number or None, got -2"),
        ({"sampling": "sobol"}, "sampling must be one of .*, got 'sobol'"),
        ({"random_state": "x"}, "random_state must be None, a whole number"),
    ],
    ids=str,
)
def test_parameters(learner, options, message):
    X, y = table()
    with pytest.raises(ValueError, match=message):
        small(learner, **options).fit(X, targets(learner, y))


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
        (np.ones(59), r"sample_weight.shape == \(59,\), expected \(60,\)"),
    ],
    ids=["zero", "negative", "nan", "length"],
)
def test_weights(learner, weights, message):
    X, y = table()
    with pytest.raises(ValueError, match=message):
        small(learner).fit(X, targets(learner, y), weights)


@each_learner
def test_targets(learner):
    X, y = table()
    y = np.array(targets(learner, y), dtype=float)
    for value, word in ((np.nan, "NaN"), (np.inf, "infinity")):
        y[3] = value
        with pytest.raises(ValueError, match=f"y contains {word}"):
            small(learner).fit(X, y)
    with pytest.raises(ValueError, match="requires y to be passed"):
        small(learner).fit(X, None)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[60, 59\]"):
        small(learner).fit(X, np.arange(59) % 2)


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
    with pytest.raises(ValueError, match=r"y has only one class, .*at least two classes"):
        classifier().fit(X, np.zeros(60))
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


@pytest.mark.parametrize("class_weight", ["even", 3])
def test_class_weights_of_another_kind(class_weight):
    X, y = table()
    with pytest.raises(ValueError, match="'class_weight' parameter"):
        classifier(class_weight=class_weight).fit(X, targets(KernelClassifier, y))
