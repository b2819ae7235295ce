"""Small learners, a small table, and what tests of learners share."""

import numpy as np
import pytest

from bochner import KernelClassifier, KernelRegressor
from bochner.arrays import dense
from bochner.kernels import Gaussian, get_kernel

EPS = float(np.finfo(float).eps)
LEARNERS = (KernelRegressor, KernelClassifier)
each_learner = pytest.mark.parametrize("learner", LEARNERS)


def regressor(kernel="gaussian", **options):
    return KernelRegressor(kernel, **{"n_features": 32, "random_state": 0, **options})


def classifier(kernel="gaussian", **options):
    return KernelClassifier(kernel, **{"n_features": 32, "random_state": 0, **options})


def small(learner, kernel="gaussian", **options):
    return (regressor if learner is KernelRegressor else classifier)(kernel, **options)


def table(n=60, m=3, seed=0):
    rng = np.random.default_rng([seed, n, m])
    X = rng.standard_normal((n, m))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(n)
    X.flags.writeable = y.flags.writeable = False
    return X, y


def targets(learner, y, n_classes=2):
    """y itself, or its quantile as a class."""
    if learner is KernelRegressor:
        return y
    return np.searchsorted(np.quantile(y, np.arange(1, n_classes) / n_classes), y)


def output(model, X):
    return model.predict(X) if isinstance(model, KernelRegressor) else model.predict_proba(X)


def fixed(learner, scale=0.7, **options):
    """A learner whose kernel stays where it starts: no step promises to lower the criterion by a billion times itself."""
    return small(learner, Gaussian(scale=scale), **{"alpha": 1e-2, "tol": 1e9, **options})


def drawn(learner, **options):
    """A learner on features without randomness, so that they stay the same for any number of rows; its kernel stays too."""
    return small(learner, get_kernel("chi2"), **{"n_features": None, "alpha": 1e-2, "tol": 1e9, **options})


def features_of(model, X):
    """The features (n, d) that a fitted learner sees."""
    return dense(model.feature_map_.forward(model.standardiser_(X)))


def solving_error(features, alpha):
    """Bound on the relative rounding error of ridge coefficients.

    The matrix A / W + alpha I has a condition number of at most 1 + |Phi|^2 / (W alpha), which is 1 + 1 / alpha for features
    of length one; sums over n rows and a Cholesky solution of size d are off by at most about n + d roundings of their own
    size. Centring the moments loses no more than a factor of two, and both sides of a comparison may err.
    """
    n, d = features.shape
    largest = float(np.max(np.sum(features**2, axis=1)))
    return 4 * (n + d) * EPS * (1 + largest / alpha)
