"""Models as they are fitted if nothing is said but the family of kernels: a learned metric, a finish on data centres."""

from __future__ import annotations

import functools

import numpy as np

from bochner import KernelClassifier, KernelRegressor

N, M = 120, 3


@functools.cache
def default_rows(seed=0, n=N):
    """Rows (n, M) and targets without noise, which make coefficients at centres large and of either sign."""
    X = np.random.default_rng(seed).random((n, M))
    X.flags.writeable = False
    return X, np.sin(4 * X[:, 0]) + X[:, 1] * X[:, 2]


@functools.cache
def default_regressor():
    """A regressor of :func:`default_rows`, on all of them as centres."""
    model = KernelRegressor("gaussian", random_state=0).fit(*default_rows())
    assert model.finish_ == "centres"
    assert model.selection_
    return model


@functools.cache
def default_classifier():
    """A classifier of the same rows."""
    X, y = default_rows()
    model = KernelClassifier("gaussian", random_state=0).fit(X, np.where(y > np.median(y), "high", "low"))
    assert model.finish_ == "centres"
    assert model.selection_
    return model
