"""Several kernels, each on columns or on a view of its own: how they are named, and the rows that each of them sees.

Two habits of input exist. *One table* X (n, m) comes with triples ``("name", kernel, columns)``, columns as in
scikit-learn's ColumnTransformer. *Views* are several tables of the same rows, in a list or in a dictionary; the third item
of a triple is then the number or the name of a view.
"""

from __future__ import annotations

import difflib
import reprlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils._indexing import _get_column_indices, _safe_indexing

from bochner.arrays import Array, is_foreign, namespace
from bochner.engines.dask_rows import DaskRows
from bochner.estimators.validation import TEXT_KINDS, _refuse_text, check_rows
from bochner.kernels import KERNELS, Kernel, get_kernel
from bochner.rows import RowSource

TRIPLES = 'triples ("name", kernel, columns), such as [("colour", "gaussian", [0, 1, 2]), ("shape", "chi2", slice(3, 9))]'
VIEW_TRIPLES = 'triples ("name", kernel, view), such as [("colour", "gaussian", 0), ("shape", "chi2", 1)]'


@dataclass(frozen=True)
class Part:
    """One kernel, and where its rows come from."""

    name: str
    kernel: Kernel
    given: bool
    """Whether the kernel came as an object, with a scale of its own, and not as a name."""
    table: int = 0
    """The number of its table: that of its view, or zero."""
    columns: tuple[int, ...] | None = None
    """Its columns in that table; None for all of them."""

    def rows(self, X: Array) -> Array:
        """Its columns (n, m_t) of a checked table (n, m)."""
        if self.columns is None:
            return X
        if is_foreign(X):
            xp = namespace(X)
            return xp.take(X, xp.asarray(list(self.columns), device=X.device), axis=1)
        return X[:, list(self.columns)]

    def check_rows(self, X: Array, *, names: Array | None) -> None:
        """An error that names this kernel where its columns of X hold what it cannot take."""
        if names is None and self.columns is not None:
            names = np.array([f"x{i}" for i in range(X.shape[1])], dtype=object)
        if names is not None and self.columns is not None:
            names = np.asarray(names, dtype=object)[list(self.columns)]
        try:
            self.kernel.check_rows(self.rows(X), names=names)
        except ValueError as error:
            raise ValueError(f"Kernel {self.name!r}: {error}") from error


class ColumnsOfBlocks:
    """What is known of rows in blocks before they are read: their shape, and the names of their columns if they have any."""

    def __init__(self, source: RowSource | DaskRows) -> None:
        self.shape = source.n_rows, source.n_columns
        if source.names is not None:
            self.columns = list(source.names)

    def by_number(self, key: Any) -> Any:
        """A key of columns with numbers in place of names; a slice of names ends with its last one."""
        if callable(key):
            raise ValueError("rows in blocks are no table that a function could look at")
        if isinstance(key, slice):
            start, stop = key.start, key.stop
            last = self._number(stop) + 1 if isinstance(stop, str) else stop
            return slice(self._number(start), last, key.step)
        return [self._number(one) for one in key] if isinstance(key, list | tuple) else self._number(key)

    def _number(self, key: Any) -> Any:
        if not isinstance(key, str):
            return key
        if not hasattr(self, "columns"):
            raise ValueError("the columns of these rows have no names")
        return self.columns.index(key)


class View(BaseEstimator):
    """The number and the names of the columns of one view, where scikit-learn's validation keeps and compares them."""


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
                raise ValueError(f"X is {_described(X)}, and {type(estimator).__name__} was fitted on one table: give one.")
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
                raise ValueError(f"View {label!r} must be a table (rows, columns), got {what}.")
            if not reset and shape[1] != there:
                raise ValueError(f"View {label!r} has {shape[1]} columns, and it had {there} in fit: give it the same ones.")
            try:
                tables.append(self._check(self.tables[number], view, number, reset=reset))
            except ValueError as error:
                raise ValueError(f"View {label!r}: {error}") from error
        lengths = [table.shape[0] for table in tables]
        for label, length in zip(self.labels, lengths, strict=True):
            if length != lengths[0]:
                raise ValueError(
                    f"Views must have the same rows, and view {self.labels[0]!r} has {lengths[0]} of them, view {label!r} "
                    f"has {length}: give every view one row for each observation."
                )
        return tables

    def _in_order(self, X: Any) -> list[Any]:
        """The views of X in the order of fit, as many and of the same names."""
        named = isinstance(self.labels[0], str)
        expected = f"a dict of the views {list(self.labels)}" if named else f"a list of {len(self.labels)} views"
        if not is_views(X) or is_named(X) != named:
            raise ValueError(f"X must be {expected}, as in fit, got {_described(X)}.")
        if is_named(X):
            missing, unknown = set(self.labels) - set(X), set(X) - set(self.labels)
            if missing or unknown:
                wrong = f"without {min(missing)!r}" if missing else f"with an unknown view {next(iter(unknown))!r}"
                raise ValueError(f"X must be {expected}, as in fit, got one {wrong}.")
            return [X[label] for label in self.labels]
        if len(X) != len(self.labels):
            raise ValueError(f"X must be {expected}, as in fit, got {len(X)} of them.")
        return list(X)

    def _check(self, estimator: Any, X: Any, number: int, *, reset: bool) -> Array:
        """One checked table, inside the domains of all kernels on it."""
        together: Any = _Together([part for part in self.parts if part.table == number])
        X = together.without_unused_text(X)
        try:
            return check_rows(estimator, X, kernel=together, reset=reset)
        except ValueError as error:
            culprit = together.holder_of_text(X)
            if culprit is None:
                raise
            raise ValueError(f"Kernel {culprit.name!r}: {error}") from error


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
        _refuse_text(some)
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


def resolve(estimator: Any, X: Any, kernels: Any) -> tuple[Views, list[Array]]:
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
    """
    if is_views(X):
        for learned in ("n_features_in_", "feature_names_in_"):  # of an earlier fit, on a table
            vars(estimator).pop(learned, None)
        labels = tuple(X) if is_named(X) else tuple(range(len(X)))
        if is_named(X) and not all(isinstance(label, str) for label in labels):
            raise ValueError(f"X is a dict of views, and its keys must be names, got {reprlib.repr(list(labels))}.")
        views = Views(_parts_of_views(kernels, labels), labels, tuple(View() for _ in labels))
    else:
        views = Views(_parts_of_table(kernels, X))
    _refuse_equal_names(views.parts)
    return views, views._take(estimator, X, reset=True)


def resolve_columns(table: ColumnsOfBlocks, kernels: Any) -> tuple[Views, Any]:
    """The same for rows in blocks, and all kernels as one that checks their rows; the estimator learns nothing."""
    views = Views(_parts_of_table(kernels, table))
    _refuse_equal_names(views.parts)
    return views, _Together(list(views.parts))


def is_views(X: Any) -> bool:
    """Whether X is several tables, a dict or a list of them, and not one (which may be a list of rows)."""
    if is_named(X):
        if not len(X):
            raise ValueError("X is an empty dict of views: give one table for each name.")
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


def _parts_of_table(kernels: Any, X: Any) -> tuple[Part, ...]:
    """The kernels of one table."""
    if isinstance(kernels, Mapping):
        raise ValueError(f"X is one table, and kernels is a dict, which is for views: give a list of {TRIPLES}.")
    if isinstance(kernels, str | Kernel):
        kernels = [kernels]
    items = _listed(kernels, TRIPLES)
    if not any(map(_is_triple, items)):
        found = [_kernel_of(item, f"number {i}", TRIPLES) for i, item in enumerate(items)]
        names = _numbered([item if isinstance(item, str) else type(item).__name__.lower() for item in items])
        return tuple(
            Part(name, kernel, not isinstance(item, str)) for name, kernel, item in zip(names, found, items, strict=True)
        )
    parts = []
    table = X if hasattr(X, "shape") else np.asarray(X)
    if len(table.shape) != 2 or 0 in table.shape:  # the check of the rows will say so
        return tuple(Part(name, kernel, given) for name, kernel, given, _ in (_triple(item, TRIPLES) for item in items))
    for name, kernel, given, key in (_triple(item, TRIPLES) for item in items):
        parts.append(Part(name, kernel, given, columns=_columns(table, name, key)))
    return tuple(parts)


def _parts_of_views(kernels: Any, labels: tuple[Any, ...]) -> tuple[Part, ...]:
    """The kernels of views that have these names or numbers."""
    if isinstance(kernels, str | Kernel):
        kernels = [kernels] * len(labels)
    if isinstance(kernels, Mapping):
        if set(kernels) != set(labels):
            wrong = sorted(set(labels) ^ set(kernels), key=str)[0]
            raise ValueError(
                f"kernels is a dict of the views {list(kernels)}, and X has the views {list(labels)}: {wrong!r} is in one "
                f"of the two only. Give each view of X one kernel, or a list of {VIEW_TRIPLES}."
            )
        kernels = [kernels[label] for label in labels]
    items = _listed(kernels, VIEW_TRIPLES)
    if any(map(_is_triple, items)):
        triples = [_triple(item, VIEW_TRIPLES) for item in items]
        return tuple(Part(name, kernel, given, _view(name, key, labels)) for name, kernel, given, key in triples)
    if len(items) != len(labels):
        raise ValueError(
            f"kernels has {len(items)} entries and X has {len(labels)} views: give one kernel for all, one for each view, "
            f"or {VIEW_TRIPLES}."
        )
    names = [label if isinstance(label, str) else f"view{label}" for label in labels]
    found = [_kernel_of(item, f"of view {label!r}", VIEW_TRIPLES) for label, item in zip(labels, items, strict=True)]
    return tuple(
        Part(name, kernel, not isinstance(items[i], str), i)
        for i, (name, kernel) in enumerate(zip(names, found, strict=True))
    )


def _listed(kernels: Any, expected: str) -> list[Any]:
    """The items of a list of kernels, at least one."""
    if not isinstance(kernels, list | tuple):
        raise ValueError(f"kernels must be a kernel, a list of kernels or of {expected}, got {reprlib.repr(kernels)}.")
    if _is_triple_alone(kernels):
        raise ValueError(f"kernels is one triple by itself, that of {kernels[0]!r}: put it in a list, [{kernels!r}].")
    if not len(kernels):
        raise ValueError(f'kernels is empty: give a kernel, such as "gaussian", or a list of {expected}.')
    return list(kernels)


def _is_triple(item: Any) -> bool:
    return isinstance(item, tuple | list)


def _is_triple_alone(kernels: Any) -> bool:
    """Whether kernels are a triple that is not in a list."""
    return (
        isinstance(kernels, tuple)
        and len(kernels) == 3
        and isinstance(kernels[0], str)
        and kernels[0] not in KERNELS
        and isinstance(kernels[1], str | Kernel)
        and not isinstance(kernels[2], tuple | Kernel)
    )


def _triple(item: Any, expected: str) -> tuple[str, Kernel, bool, Any]:
    """Name, kernel, whether it is an object, and columns or view."""
    if not (_is_triple(item) and len(item) == 3 and isinstance(item[0], str)):
        raise ValueError(f"kernels must be a list of {expected}, got {reprlib.repr(item)} among them.")
    name, kernel, where = item
    return name, _kernel_of(kernel, repr(name), expected), not isinstance(kernel, str), where


def _kernel_of(kernel: Any, which: str, expected: str) -> Kernel:
    """A kernel from its name or from itself; an error says which entry is wrong."""
    try:
        return get_kernel(kernel)
    except ValueError as error:
        raise ValueError(
            f"Kernel {which}: {error} Kernels on columns or views of their own are a list of {expected}."
        ) from error


def _columns(X: Any, name: str, key: Any) -> tuple[int, ...]:
    """Numbers of the columns of a table that a key means, at least one."""
    in_blocks = isinstance(X, ColumnsOfBlocks)
    key = key(X) if callable(key) and not in_blocks else key
    if not in_blocks:
        _refuse_unknown_columns(X, name, key)
    try:
        key = X.by_number(key) if in_blocks else key
        if isinstance(key, bool | float) or key is None:
            raise ValueError("it is none of these")
        everything = isinstance(key, slice) and key.start is None and key.stop is None
        found = range(X.shape[1])[key] if everything else _get_column_indices(X, key)
    except (ValueError, TypeError, IndexError, NotImplementedError) as error:
        known = (
            f"of X, which are {reprlib.repr(list(X.columns))}" if hasattr(X, "columns") else f"0 to {X.shape[1] - 1} of X"
        )
        raise ValueError(
            f"Kernel {name!r}: its columns must be a number, a slice, a mask, names of a table's columns, a list of numbers "
            f"or names, or a function of X, and among the columns {known}; got {reprlib.repr(key)} ({error})."
        ) from error
    if not len(found):
        raise ValueError(f"Kernel {name!r} has no columns: {reprlib.repr(key)} chooses none. Give it one, or leave it out.")
    return tuple(int(i) % X.shape[1] for i in found)


def _refuse_unknown_columns(X: Any, name: str, key: Any) -> None:
    """An error that says which column is not there, or that a mask has another length than X has columns."""
    items = list(key) if isinstance(key, list | tuple | np.ndarray) else [key]
    n_columns = X.shape[1]
    if items and all(isinstance(item, bool | np.bool_) for item in items) and not isinstance(key, bool):
        if len(items) != n_columns:
            raise ValueError(
                f"Kernel {name!r}: its mask has {len(items)} entries, and X has {n_columns} columns: give one for each."
            )
        return
    if hasattr(X, "columns"):
        known = [str(column) for column in X.columns]
        unknown = next((item for item in items if isinstance(item, str) and item not in known), None)
        if unknown is not None:
            near = difflib.get_close_matches(unknown, known, n=1)
            advice = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"Kernel {name!r}: X has no column {unknown!r}: {advice}X has {reprlib.repr(known)}.")
    whole = [item for item in items if isinstance(item, int | np.integer) and not isinstance(item, bool)]
    beyond = next((item for item in whole if not -n_columns <= item < n_columns), None)
    if beyond is not None:
        raise ValueError(f"Kernel {name!r}: X has no column {beyond}: its {n_columns} columns are 0 to {n_columns - 1}.")


def _view(name: str, key: Any, labels: tuple[Any, ...]) -> int:
    """The number of the view that a key means: its name, or its number."""
    if isinstance(key, str) and key in labels:
        return labels.index(key)
    whole = isinstance(key, int | np.integer) and not isinstance(key, bool)
    if whole and 0 <= key < len(labels):
        return int(key)
    raise ValueError(f"Kernel {name!r}: its view must be one of {list(labels)}, got {reprlib.repr(key)}.")


def _numbered(names: list[str]) -> list[str]:
    """Names, the second of a kind with "-2" after it, and so on."""
    seen: Counter[str] = Counter()
    result = []
    for name in names:
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return result


def _refuse_equal_names(parts: tuple[Part, ...]) -> None:
    name, times = Counter(part.name for part in parts).most_common(1)[0]
    if times > 1:
        raise ValueError(f"{times} kernels have the name {name!r}: give each a name of its own, such as '{name}-2'.")


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


def needs_positive(kernels: Any) -> bool:
    """Whether one of the kernels that are named takes no negative values; False where they are not named well."""
    if isinstance(kernels, str | Kernel):
        kernels = [kernels]
    items = list(kernels.values()) if isinstance(kernels, Mapping) else kernels if isinstance(kernels, list | tuple) else []
    items = [item[1] if _is_triple(item) and len(item) == 3 else item for item in items]
    try:
        return any(get_kernel(item).lower > -np.inf for item in items)
    except ValueError:  # it will be told at fit
        return False
