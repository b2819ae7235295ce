"""Checks shared by the estimators: rows in, clear errors out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.utils.validation import _get_feature_names, validate_data

from bochner.arrays import Array, is_foreign, namespace
from bochner.kernels import Kernel

TEXT_KINDS = "OUST"
"""Kinds of NumPy dtypes that may hold text: objects, and strings of every sort."""


def check_rows(estimator: Any, X: Any, *, kernel: Kernel, reset: bool) -> Array:
    """X as rows (n, m) of float32 or float64, dense, CSR or of another array library, inside the kernel's domain.

    With ``reset`` the number and names of columns are learned, without it they are compared with the learned ones. Errors
    name the column.
    """
    if is_foreign(X):
        X = _check_foreign(estimator, X, reset=reset)
    else:
        _refuse_text(X)
        X = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
        )
    kernel.check_rows(X, names=getattr(estimator, "feature_names_in_", None))
    return X


def as_generator(random_state: Any) -> np.random.Generator:
    """A random Generator from None, a whole number, a Generator (used as it is) or a legacy RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state must be None, a whole number or a numpy.random.Generator, got {random_state!r}."
        ) from None


def _check_foreign(estimator: Any, X: Array, *, reset: bool) -> Array:
    """What scikit-learn's validation checks, for an array that stays in its own library and on its device."""
    xp = namespace(X)
    name = type(estimator).__name__
    if X.ndim != 2:
        raise ValueError(f"X must be a table (rows, columns), got an array of {X.ndim} dimensions: reshape it first.")
    if 0 in X.shape:
        raise ValueError(f"X must have at least one row and one column, got shape {tuple(X.shape)}.")
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError("X must hold real numbers, got complex ones.")
    if X.dtype not in (xp.float32, xp.float64):
        X = xp.astype(X, xp.float64)
    if reset:
        estimator.n_features_in_ = X.shape[1]
        if hasattr(estimator, "feature_names_in_"):  # of an earlier fit
            del estimator.feature_names_in_
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {name} is expecting {estimator.n_features_in_} features as input."
        )
    return X


def _refuse_text(X: Any) -> None:
    """Name the first column of text, before a conversion fails without naming it."""
    if hasattr(X, "tocsr"):
        return
    names = None
    columns: Iterable[Array] = ()
    if hasattr(X, "collect_schema") and not hasattr(X, "to_numpy"):
        raise ValueError("X is a LazyFrame, which holds no rows yet: give X.collect().")
    if hasattr(X, "columns") and hasattr(X, "dtypes"):  # a table of pandas, polars, ...
        names = _get_feature_names(X)
        columns = (np.asarray(X[column]) for column in X.columns)
    elif (values := np.asarray(X)).ndim == 2 and values.dtype.kind in TEXT_KINDS:
        columns = values.T
    for i, column in enumerate(columns):
        label = f"column {i}" if names is None else f"column {i} ({names[i]!r})"
        if column.dtype.kind in "mM":
            raise ValueError(f"X, {label} holds dates or times: turn them into numbers first, such as days since a date.")
        if column.dtype.kind not in TEXT_KINDS:
            continue
        text = next((v for v in column if isinstance(v, str | bytes) and not _is_number(v)), None)
        if text is not None:
            raise ValueError(
                f"X, {label} holds text, could not convert string to float: {str(text)!r}. Encode it first, for instance "
                "with sklearn.preprocessing.OneHotEncoder()."
            )


def _is_number(text: str | bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
