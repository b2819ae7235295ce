"""Small fitted models of every estimator and kernel, and rows to predict with them."""

from __future__ import annotations

import functools

import numpy as np

from bochner.kernels import KERNELS
from tests.public import ESTIMATORS

BY_DEFAULT = "default"
"""In the place of a kernel: as a learner is if nothing is said but a kernel, with a metric and on data centres."""
PAIRS = [(name, kernel) for name in ESTIMATORS for kernel in KERNELS]
PAIRS += [("KernelRegressor", BY_DEFAULT), ("KernelClassifier", BY_DEFAULT)]
N_COLUMNS = 3


@functools.cache
def rows(n=40, seed=0):
    """Rows without negative values, as all kernels take them, and with some zeros."""
    X = np.random.default_rng(seed).random((n, N_COLUMNS))
    X[X < 0.08] = 0.0
    X.flags.writeable = False
    return X


def target(X):
    return np.sin(4 * X[:, 0]) + X[:, 1] * X[:, 2]


def labels(X, n_classes=2):
    edges = np.quantile(target(rows()), np.linspace(0, 1, n_classes + 1)[1:-1])
    return np.searchsorted(edges, target(X))


def is_classifier(name):
    return "Classifier" in name


def make(name, kernel, **options):
    """An estimator that is fitted in little time."""
    if name == "FourierFeatures":
        sized = {} if getattr(KERNELS[kernel](), "geometry", "") == "additive" else {"n_features": 16}
        return ESTIMATORS[name](kernel, random_state=0, **{**sized, **options})
    if name.startswith("GMKL"):
        return ESTIMATORS[name]([("first", kernel, [0, 1]), ("all", kernel, slice(None))], **options)
    if name.startswith("Multiple"):
        kernels = [("first", kernel, [0, 1]), ("all", kernel, slice(None))]
        return ESTIMATORS[name](kernels, random_state=0, **{"n_features": 16, "n_alphas": 5, **options})
    sized = {} if name == "KernelRidgeGD" or kernel in ("chi2", "intersection", "jensen_shannon") else {"n_features": 16}
    return ESTIMATORS[name](kernel, random_state=0, **{**sized, "tol": 0.1, **options})


@functools.cache
def fitted(name, kernel):
    """A fitted estimator of one kernel (or of two of its family), or of the default settings."""
    X = rows(120 if kernel == BY_DEFAULT else 40)
    y = labels(X) if is_classifier(name) else target(X)
    if kernel == BY_DEFAULT:
        model = ESTIMATORS[name]("gaussian", random_state=0).fit(X, y)
        assert model.finish_ == "centres"
        return model
    return make(name, kernel).fit(X, y)


def answers(model, X):
    """All that a model says of rows, by the name of the method."""
    methods = ("transform", "predict", "decision_function", "predict_proba")
    return {method: np.asarray(getattr(model, method)(X)) for method in methods if hasattr(model, method)}


def same(found, expected):
    """Whether answers are equal bit for bit."""
    return found.keys() == expected.keys() and all(
        found[key].dtype == expected[key].dtype and np.array_equal(found[key], expected[key]) for key in expected
    )
