"""Checks shared by the estimators: rows in, clear errors out."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, _get_feature_names, validate_data

from bochner.arrays import Array, fetch, gpu_of, is_foreign, namespace
from bochner.blas import same_bits
from bochner.engines.dask_rows import is_dask
from bochner.engines.smaller_blocks import told_of_devices
from bochner.errors import InputError
from bochner.estimators.encoding import PLACES, column_names, encoded, encoder_of, table_columns
from bochner.estimators.provenance import forget
from bochner.kernels import Kernel
from bochner.rows import Block, RowSource
from bochner.standardise import LARGEST

TEXT_KINDS = "OUST"
"""Kinds of NumPy dtypes that may hold text: objects, and strings of every sort."""


Method = TypeVar("Method", bound=Callable[..., Any])
"""A method whose types a decorator keeps."""


def check_rows(estimator: Any, X: Any, *, kernel: Kernel, reset: bool) -> Array:
    """X as rows (n, m) of float32 or float64, dense, CSR or of another array library, inside the kernel's domain.

    With ``reset`` the number and names of columns are learned, without it they are compared with the learned ones. Errors
    name the column. Tables that are not all numbers are encoded, by estimators that do so.
    """
    if isinstance(X, Block):  # of a source whose columns were compared
        check_block(X, kernel, names=seen_names(estimator))
        return X.X
    if isinstance(X, RowSource):
        raise InputError(
            f"{type(estimator).__name__} takes no rows in blocks: give it arrays, such as those of source.sample(20_000)."
        )
    if is_dask(X):
        raise InputError(
            f"{type(estimator).__name__} takes no rows of Dask's here: give it those of X.compute(), or of some partitions."
        )
    if isinstance(X, str | Path):
        raise InputError(f"X must be rows, got the path {str(X)!r}: open it with bochner.open_rows({str(X)!r}, target=...).")
    refuse_masked("X", X)
    table = encoded(estimator, X, reset=reset)
    if table is not None:
        X = table
    elif is_foreign(X):
        X = _check_foreign(estimator, X, reset=reset)
    else:
        refuse_text(X)
        X = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
        )
    kernel.check_rows(X, names=seen_names(estimator))
    return X


def seen_names(estimator: Any) -> Any:
    """The names of the columns that kernels see, or None where they have none."""
    return (table_columns(estimator) or None) if encoder_of(estimator) is None else column_names(estimator)


def check_block(block: Block, kernel: Any, names: Any) -> None:
    """An error where rows of a block are outside a kernel's domain, which says where the block begins."""
    try:
        kernel.check_rows(block.X, names=names)
    except ValueError as error:
        if not block.start:
            raise
        raise InputError(f"In the {block.n_rows} rows from row {block.start} on: {error}") from error


def on_host(X: Array) -> Array:
    """Rows as they are, or as NumPy rows where they come from another array library or from Dask."""
    if is_dask(X):
        X = X.compute()
    return fetch(X) if is_foreign(X) else X


def beside_rows(method: Method) -> Method:
    """Let what a method of rows X gives in NumPy be tensors on a GPU where X is one there; text stays in NumPy."""

    @wraps(method)
    def there(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        result = method(self, X, *args, **options)
        if gpu_of(X) is None:
            return result
        return tuple(_brought(each, X) for each in result) if isinstance(result, tuple) else _brought(result, X)

    return cast(Method, there)


def _brought(values: Array, X: Array) -> Array:
    """A NumPy array of numbers as a tensor where X is, in its own dtype."""
    return values if values.dtype.kind not in "biuf" else namespace(X).asarray(np.array(values), device=X.device)


def check_weights(sample_weight: Any, X: Array) -> Array:
    """Weights (n,) of the rows X in float64, zero or more and not all zero; ones where none are given.

    Weights that vanish in the rounding of their sum are zero.
    """
    refuse_masked("sample_weight", sample_weight)
    sample_weight = on_host(sample_weight)
    given = None if sample_weight is None else np.asarray(sample_weight)
    if given is not None and given.size and not given.any():
        raise InputError("sample_weight is zero for every row: give at least two rows a positive weight.")
    if given is not None and given.ndim == 1:
        check_lengths(X, given, "sample_weight")
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    lost = weights < len(weights) * np.finfo(np.float64).eps * weights.max()
    return np.where(lost, 0.0, weights)


def check_lengths(X: Array, values: Any, name: str) -> None:
    """An error where y or sample_weight have not one entry for each row of X."""
    if len(values) != X.shape[0]:
        raise InputError(
            f"X has {X.shape[0]} rows and {name} has {len(values)}: inconsistent numbers of samples. Give {name} one for "
            "each row."
        )


def relative_weights(weights: Array) -> tuple[Array, float]:
    """Weights (n,) in units of their mean, and that mean: only their ratios count, and their sum may be too large."""
    largest = float(weights.max())
    mean = float((weights / largest).mean())
    return weights / largest / mean, largest * mean


def refuse_masked(name: str, values: Any) -> None:
    """An error where an array has masked entries: what lies under the mask would count as values."""
    n_masked = np.ma.count_masked(values) if isinstance(values, np.ma.MaskedArray) else 0
    if n_masked:
        raise InputError(
            f"{name} is a masked array with {n_masked} masked entries, and its mask would be lost, so they must go: drop "
            f"those rows, or fill the gaps first, for instance with sklearn.impute.SimpleImputer() on "
            f"{name}.filled(numpy.nan)."
        )


def refuse_missing_targets(y: Any) -> None:
    """An error that says how many targets (n,) or (n, c) are NaN, infinite or masked, and which is the first."""
    refuse_masked("y", y)
    values = np.asarray(y)
    if values.ndim == 0 or values.size == 0 or values.dtype.kind not in ("f", "O"):
        return
    values = values.reshape(len(values), -1)
    bad = np.vectorize(_is_missing, otypes=[bool])(values) if values.dtype.kind == "O" else ~np.isfinite(values)
    rows = np.flatnonzero(bad.any(axis=1))
    if len(rows):
        first = values[bad][0]
        if isinstance(first, float | np.floating):
            first = "NaN" if np.isnan(first) else "infinity"
        raise InputError(
            f"y contains {first} in {len(rows)} of its {len(values)} rows, the first of them row {rows[0]}: drop those rows "
            "of X and y, since every row needs a target."
        )
    largest = float(np.abs(values).max()) if values.dtype.kind == "f" else 0.0
    if largest > LARGEST:
        raise InputError(
            f"y holds numbers as large as {largest:.3g}, whose differences overflow, and may hold {LARGEST:g}: divide y by "
            "a constant such as 1e10."
        )


def refuse_text_targets(estimator: Any, y: Any) -> None:
    """An error where targets that must be numbers are text; numbers as text are read.

    It names the estimator's ``_for_classes``, where there is one.
    """
    values = np.asarray(y)
    if values.dtype.kind not in TEXT_KINDS:
        return
    text = next((v for v in values.ravel() if isinstance(v, str | bytes) and not _is_number(v)), None)
    if text is not None:
        raise InputError(
            f"y holds text, such as {str(text)!r}, and {type(estimator).__name__} needs numbers: for classes, use "
            f"{getattr(estimator, '_for_classes', 'bochner.KernelClassifier')}."
        )


def check_option(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """An error where a parameter is not one of the names that it may be."""
    if value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(allowed)}, got {value!r}.")


def check_flags(estimator: Any, *names: str) -> None:
    """An error where one of these parameters is neither True nor False."""
    for name in names:
        value = getattr(estimator, name)
        if not isinstance(value, bool | np.bool_):
            raise InputError(f"{name} must be True or False, got {value!r}.")


def check_verbose(value: Any) -> None:
    """An error where ``verbose`` is neither a whole number, zero or more, nor True or False."""
    if not isinstance(value, bool | np.bool_) and not (isinstance(value, numbers.Integral) and int(value) >= 0):
        raise InputError(f"verbose must be a whole number, zero or more, or True or False, got {value!r}.")


def all_or_nothing(fit: Method) -> Method:
    """Let a fit that fails or is interrupted leave the model as it was; one that succeeds says how long it took."""

    @wraps(fit)
    def fit_or_restore(self: Any, *args: Any, **options: Any) -> Any:
        before, start = dict(vars(self)), perf_counter()
        earlier = before.get("fit_seconds_", 0.0) if fit.__name__ == "partial_fit" else 0.0
        try:
            if fit.__name__ != "partial_fit":
                vars(self).pop(PLACES, None)
            with same_bits(), told_of_devices():
                fit(self, *args, **options)
            forget(self)
            self.fit_seconds_ = earlier + perf_counter() - start
            return self
        except ConvergenceWarning:  # a warning that is made an error comes when the model is whole
            forget(self)
            raise
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return cast(Method, fit_or_restore)


def as_generator(random_state: Any) -> np.random.Generator:
    """A random Generator from None, a whole number, a Generator (used as it is) or a legacy RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise InputError(
            f"random_state must be None, a whole number or a numpy.random.Generator, got {random_state!r}."
        ) from None


def _check_foreign(estimator: Any, X: Array, *, reset: bool) -> Array:
    """What scikit-learn's validation checks, for an array that stays in its own library and on its device."""
    xp = namespace(X)
    name = type(estimator).__name__
    if X.ndim != 2:
        raise InputError(f"X must be a table (rows, columns), got an array of {X.ndim} dimensions: reshape it first.")
    if 0 in X.shape:
        raise InputError(
            f"X must have at least one row and one column, got shape {tuple(X.shape)}: give a table that has some."
        )
    if xp.isdtype(X.dtype, "complex floating"):
        raise InputError("X must hold real numbers, got complex ones: give X.real and X.imag as columns.")
    if X.dtype not in (xp.float32, xp.float64):
        X = xp.astype(X, xp.float64)
    if reset:
        estimator.n_features_in_ = X.shape[1]
        if hasattr(estimator, "feature_names_in_"):  # of an earlier fit
            del estimator.feature_names_in_
    elif X.shape[1] != estimator.n_features_in_:
        raise InputError(
            f"X has {X.shape[1]} features, but {name} is expecting {estimator.n_features_in_} features as input: "
            "give the columns of fit."
        )
    return X


def refuse_text(X: Any) -> None:
    """Name the first column of text, before a conversion fails without naming it."""
    if hasattr(X, "tocsr"):
        return
    names = None
    columns: Iterable[Array] = ()
    if hasattr(X, "collect_schema") and not hasattr(X, "to_numpy"):
        raise InputError("X is a LazyFrame, which holds no rows yet: give X.collect().")
    if hasattr(X, "columns") and hasattr(X, "dtypes"):  # a table of pandas, polars, ...
        names = _get_feature_names(X)
        columns = (np.asarray(X[column]) for column in X.columns)
    elif (values := np.asarray(X)).ndim == 2 and values.dtype.kind in TEXT_KINDS:
        names, columns = getattr(X, "column_names", None), values.T  # of a table of pyarrow
    for i, column in enumerate(columns):
        label = f"column {i}" if names is None else f"column {i} ({names[i]!r})"
        if column.dtype.kind in "mM":
            raise InputError(f"X, {label} holds dates or times: turn them into numbers first, such as days since a date.")
        if column.dtype.kind not in TEXT_KINDS:
            continue
        text = next((v for v in column if isinstance(v, str | bytes) and not _is_number(v)), None)
        if text is not None:
            raise InputError(
                f"X, {label} holds text, could not convert string to float: {str(text)!r}. Encode it first, for instance "
                "with sklearn.preprocessing.OneHotEncoder()."
            )


def _is_missing(value: Any) -> bool:
    """Whether an object is None, NaN, infinite or a missing value of pandas."""
    try:
        return value is None or bool(value != value) or value in (np.inf, -np.inf)
    except TypeError:  # pandas.NA is neither equal to itself nor unequal
        return True


def _is_number(text: str | bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
