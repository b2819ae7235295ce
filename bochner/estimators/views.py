"""Several kernels, each on columns or on a view of its own: from any input to the checked rows that each of them sees.

Two habits of input exist. *One table* X (n, m) comes with triples ``("name", kernel, columns)``, columns as in
scikit-learn's ColumnTransformer. *Views* are several tables of the same rows, in a list or in a dictionary; the third item
of a triple is then the number or the name of a view. How kernels are named is in ``parts.py``.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils._indexing import _safe_indexing

from bochner.arrays import Array, is_foreign
from bochner.errors import InputError
from bochner.estimators.encoding import encoder_of, learn_encoding
from bochner.estimators.parts import (
    ColumnsOfBlocks,
    Part,
    encoded_parts,
    parts_of_table,
    parts_of_views,
    refuse_equal_names,
)
from bochner.estimators.validation import TEXT_KINDS, check_rows, refuse_text
from bochner.kernels import Kernel
from bochner.rows import RowSource


class View(BaseEstimator):
    """The number and the names of the columns of one view, where scikit-learn's validation keeps and compares them."""

    _encodes_tables = False


@dataclass(frozen=True)
class Views:
    """Kernels k_1, ..., k_r, and for any input the rows x_t that each of them sees: k(x, z) = sum_t d_t k_t(x_t, z_t).

    Made by :func:`resolve` at fit. ``labels`` and ``tables`` are those of the views, and empty for one table.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator
    >>> from bochner.estimators.views import resolve
    >>> views, rows = resolve(BaseEstimator(), np.ones((5, 3)), [("a", "gaussian", [0, 2]), ("b", "chi2", 1)])
    >>> views.names, [part.shape for part in rows]
    (('a', 'b'), [(5, 2), (5, 1)])
    """

    parts: tuple[Part, ...]
    labels: tuple[Any, ...] = ()
    tables: tuple[View, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each kernel: r of them."""
        return tuple(part.name for part in self.parts)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels, as they were named or given."""
        return tuple(part.kernel for part in self.parts)

    def take(self, estimator: Any, X: Any) -> list[Array]:
        """The rows (n, m_t) of each kernel, of an input like that of fit.

        Tables are compared with what the estimator knows of its columns. Rows are float32 or float64, dense, CSR or of
        another array library.
        """
        return self._take(estimator, X, reset=False)

    def _take(self, estimator: Any, X: Any, *, reset: bool) -> list[Array]:
        if not self.labels:
            if is_views(X):
                raise InputError(f"X is {_described(X)}, and {type(estimator).__name__} was fitted on one table: give one.")
            tables = [self._check(estimator, X, 0, reset=reset)]
        else:
            tables = self._check_views(X, reset=reset)
        return [part.rows(tables[part.table]) for part in self.parts]

    def _check_views(self, X: Any, *, reset: bool) -> list[Array]:
        """The checked views, in the order of fit."""
        views = self._in_order(X)
        tables = []
        for number, (label, view) in enumerate(zip(self.labels, views, strict=True)):
            shape, there = _shape(view), getattr(self.tables[number], "n_features_in_", None)
            if len(shape) != 2 and not isinstance(view, RowSource):  # which is refused below
                what = "None" if view is None else f"{type(view).__name__} of {len(shape)} dimensions"
                raise InputError(f"View {label!r} must be a table (rows, columns), got {what}: give one.")
            if not reset and shape[1] != there:
                raise InputError(f"View {label!r} has {shape[1]} columns, and it had {there} in fit: give it the same ones.")
            try:
                tables.append(self._check(self.tables[number], view, number, reset=reset))
            except ValueError as error:
                raise InputError(f"View {label!r}: {error}") from error
        lengths = [table.shape[0] for table in tables]
        for label, length in zip(self.labels, lengths, strict=True):
            if length != lengths[0]:
                raise InputError(
                    f"Views must have the same rows, and view {self.labels[0]!r} has {lengths[0]} of them, view {label!r} "
                    f"has {length}: give every view one row for each observation."
                )
        return tables

    def _in_order(self, X: Any) -> list[Any]:
        """The views of X in the order of fit, as many and of the same names."""
        named = isinstance(self.labels[0], str)
        expected = f"a dict of the views {list(self.labels)}" if named else f"a list of {len(self.labels)} views"
        if not is_views(X) or is_named(X) != named:
            raise InputError(f"X must be {expected}, as in fit, got {_described(X)}.")
        if is_named(X):
            missing, unknown = set(self.labels) - set(X), set(X) - set(self.labels)
            if missing or unknown:
                wrong = f"without {min(missing)!r}" if missing else f"with an unknown view {next(iter(unknown))!r}"
                raise InputError(f"X must be {expected}, as in fit, got one {wrong}.")
            return [X[label] for label in self.labels]
        if len(X) != len(self.labels):
            raise InputError(f"X must be {expected}, as in fit, got {len(X)} of them.")
        return list(X)

    def _check(self, estimator: Any, X: Any, number: int, *, reset: bool) -> Array:
        """One checked table, inside the domains of all kernels on it."""
        together: Any = _Together([part for part in self.parts if part.table == number])
        if encoder_of(estimator) is not None and not reset:
            return check_rows(estimator, X, kernel=together, reset=False)
        X = together.without_unused_text(X)
        try:
            return check_rows(estimator, X, kernel=together, reset=reset)
        except ValueError as error:
            culprit = together.holder_of_text(X)
            if culprit is None:
                raise
            raise InputError(f"Kernel {culprit.name!r}: {error}") from error


class _Together:
    """Several kernels of one table as one: each checks its own columns."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts

    def check_rows(self, X: Array, *, names: Array | None) -> None:
        for part in self.parts:
            part.check_rows(X, names=names)

    def without_unused_text(self, X: Any) -> Any:
        """An unchecked table with NaN in place of text, dates and times in columns that no kernel uses."""
        if any(part.columns is None for part in self.parts) or sparse.issparse(X) or is_foreign(X) or not _is_table(X):
            return X
        table = X if hasattr(X, "shape") else np.asarray(X)
        if isinstance(table, np.ndarray) and table.dtype.kind not in TEXT_KINDS:
            return X
        used = {i for part in self.parts for i in part.columns or ()}
        unused = [i for i in range(table.shape[1]) if i not in used and _holds_text(table, i)]
        return _blanked(table, unused) if unused else X

    def holder_of_text(self, X: Any) -> Part | None:
        """The first kernel with text, dates or times among its columns of an unchecked table."""
        if sparse.issparse(X) or is_foreign(X) or len(np.shape(X)) != 2:
            return None
        table = X if hasattr(X, "shape") else np.asarray(X)
        for part in self.parts:
            if part.columns is not None and max(part.columns) >= table.shape[1]:
                continue
            if _holds_text(table, slice(None) if part.columns is None else list(part.columns)):
                return part
        return None


def _is_table(X: Any) -> bool:
    """Whether X has rows and columns, as far as can be told before it is checked."""
    return len(_shape(X)) == 2 and all(len(row) == len(X[0]) for row in (X if isinstance(X, list | tuple) else ()))


def _holds_text(table: Any, columns: Any) -> bool:
    """Whether one of these columns of an unchecked table, a number or several, holds text, dates or times."""
    columns = [columns] if isinstance(columns, int) else columns
    some = _safe_indexing(table, columns, axis=1)
    try:
        refuse_text(some)
        if (values := np.asarray(some)).dtype.kind == "O":
            values.astype(np.float64)
    except (ValueError, TypeError):  # TypeError: of objects such as dates
        return True
    return False


def _blanked(table: Any, columns: list[int]) -> Any:
    """A copy of an array or a table of pandas or polars with NaN in these columns."""
    if hasattr(table, "isetitem"):
        table = table.copy(deep=False)
        for i in columns:
            table.isetitem(i, np.nan)
    elif hasattr(table, "with_columns"):
        table = table.with_columns(*[table[table.columns[i]].is_null().cast(float) for i in columns])
    elif isinstance(table, np.ndarray):
        table = table.copy()
        table[:, columns] = np.nan
    return table


def resolve(estimator: Any, X: Any, kernels: Any, *, drop: bool = False) -> tuple[Views, list[Array]]:
    """The kernels that ``kernels`` names for the input X of a fit, and the checked rows (n, m_t) of each.

    For a table, the estimator learns ``n_features_in_`` and ``feature_names_in_``. For views it has neither.

    Parameters
    ----------
    X : table of shape (n, m), list or dict of them
        One table, or views.
    kernels : str, Kernel, list or dict
        For a table: one kernel on all columns, a list of them, or triples ``("name", kernel, columns)``, where columns are
        an int, a list of ints, a slice, a mask, names of a DataFrame's columns, or a function of X. For views: one kernel
        for all, a list of one for each, a dict from the name of a view to its kernel, or triples
        ``("name", kernel, view)``.
    drop : bool
        Whether kernels are left out whose columns are.
    """
    if is_views(X):
        for learned in ("n_features_in_", "feature_names_in_"):  # of an earlier fit, on a table
            vars(estimator).pop(learned, None)
        labels = tuple(X) if is_named(X) else tuple(range(len(X)))
        if is_named(X) and not all(isinstance(label, str) for label in labels):
            raise InputError(
                f"X is a dict of views, and its keys must be names, got {reprlib.repr(list(labels))}: write them as text."
            )
        views = Views(parts_of_views(kernels, labels), labels, tuple(View() for _ in labels))
        for table in views.tables:
            table._encodes_tables = getattr(estimator, "_encodes_tables", False)
        encoder = None
    else:
        parts = parts_of_table(kernels, ColumnsOfBlocks.of_table(X))
        every = any(part.columns is None for part in parts)
        encoder = learn_encoding(estimator, X, None if every else used_columns(parts))
        views = Views(parts if encoder is None else encoded_parts(parts, encoder, drop=drop))
    refuse_equal_names(views.parts)
    return views, views._take(estimator, X, reset=encoder is None)


def resolve_columns(table: ColumnsOfBlocks, kernels: Any, *, drop: bool = False) -> tuple[Views, Any]:
    """The same for rows in blocks, and all kernels as one that checks their rows; the estimator learns nothing."""
    parts = parts_of_table(kernels, table)
    views = Views(parts if table.encoder is None else encoded_parts(parts, table.encoder, drop=drop))
    refuse_equal_names(views.parts)
    return views, _Together(list(views.parts))


def used_columns(parts: tuple[Part, ...]) -> list[int]:
    """Numbers of the columns that kernels use."""
    return sorted({i for part in parts for i in part.columns or ()})


def is_views(X: Any) -> bool:
    """Whether X is several tables, a dict or a list of them, and not one (which may be a list of rows)."""
    if is_named(X):
        if not len(X):
            raise InputError("X is an empty dict of views: give one table for each name.")
        return True
    return isinstance(X, list | tuple) and any(len(_shape(item)) >= 2 for item in X)


def is_named(X: Any) -> bool:
    """Whether X is a dictionary, and not a sparse matrix that is made like one."""
    return isinstance(X, Mapping) and not sparse.issparse(X)


def _shape(item: Any) -> tuple[int, ...]:
    """The shape of an array or a table, that of nested lists by their first entries."""
    if hasattr(item, "shape"):
        return tuple(item.shape)
    return (len(item), *_shape(item[0])) if isinstance(item, list | tuple) and len(item) else ()


def _described(X: Any) -> str:
    """What X is, in a few words."""
    if is_named(X):
        return f"a dict of the views {reprlib.repr(list(X))}"
    return f"a list of {len(X)} views" if is_views(X) else f"one table ({type(X).__name__})"


def by_name(names: Any, values: Array) -> dict[str, Any]:
    """Values of kernels (r,) or (r, c) by their names, largest first: a number, or a list of c where c > 1."""
    rows = np.reshape(values, (len(names), -1))
    order = np.argsort(-rows.max(axis=1), kind="stable")
    return {str(names[t]): rows[t].tolist() if rows.shape[1] > 1 else float(rows[t, 0]) for t in order}
