"""One kernel on the columns or the view that it sees, and the ways to name it: names, objects, triples."""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils._indexing import _get_column_indices

from bochner.arrays import Array, is_foreign, namespace
from bochner.engines.dask_rows import DaskRows
from bochner.errors import InputError, nearest
from bochner.kernels import KERNELS, Kernel, get_kernel
from bochner.rows import EncodedRows, RowSource
from bochner.tables import TableEncoder, is_table, table_names

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

    def width(self, n_columns: int) -> int:
        """How many columns it sees of a table of so many."""
        return n_columns if self.columns is None else len(self.columns)

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
        if names is not None and self.columns is not None:
            names = np.asarray(names, dtype=object)[list(self.columns)]
        try:
            self.kernel.check_rows(self.rows(X), names=names, numbers=self.columns)
        except ValueError as error:
            raise InputError(f"Kernel {self.name!r}: {error}") from error


class ColumnsOfBlocks:
    """What is known of rows in blocks before they are read: their shape, and the names of their columns if they have any."""

    def __init__(self, source: RowSource | DaskRows) -> None:
        self.encoder = source.encoder if isinstance(source, EncodedRows) else None
        names = source.names if self.encoder is None else self.encoder.names_in
        self.shape = source.n_rows, source.n_columns if self.encoder is None else len(self.encoder.names_in)
        if names is not None:
            self.columns = list(names)

    @classmethod
    def of_table(cls, X: Any) -> Any:
        """X as it is, or the same of a table of pyarrow's, whose columns are not called so."""
        if not is_table(X) or hasattr(X, "dtypes"):
            return X
        head = cls.__new__(cls)
        head.encoder, head.shape, head.columns = None, (X.num_rows, X.num_columns), table_names(X)
        return head

    def by_number(self, key: Any) -> Any:
        """A key of columns with numbers in place of names; a slice of names ends with its last one."""
        if callable(key):
            raise InputError("rows in blocks are no table that a function could look at")
        if isinstance(key, slice):
            start, stop = key.start, key.stop
            last = self._number(stop) + 1 if isinstance(stop, str) else stop
            return slice(self._number(start), last, key.step)
        return [self._number(one) for one in key] if isinstance(key, list | tuple) else self._number(key)

    def _number(self, key: Any) -> Any:
        if not isinstance(key, str):
            return key
        if not hasattr(self, "columns"):
            raise InputError("the columns of these rows have no names")
        return self.columns.index(key)


def parts_of_table(kernels: Any, X: Any) -> tuple[Part, ...]:
    """The kernels of one table."""
    if isinstance(kernels, Mapping):
        raise InputError(f"X is one table, and kernels is a dict, which is for views: give a list of {TRIPLES}.")
    if isinstance(kernels, str | Kernel):
        kernels = [kernels]
    items = _listed(kernels, TRIPLES)
    if not any(map(_is_triple, items)):
        found = [_kernel_of(item, f"number {i}", TRIPLES) for i, item in enumerate(items)]
        names = _numbered([item if isinstance(item, str) else type(item).__name__.lower() for item in items])
        return tuple(
            Part(name, kernel, not isinstance(item, str)) for name, kernel, item in zip(names, found, items, strict=True)
        )
    triples = (_triple(item, TRIPLES) for item in items)
    table = X if hasattr(X, "shape") else np.asarray(X)
    if len(table.shape) != 2 or 0 in table.shape:  # the check of the rows will say so
        return tuple(Part(name, kernel, given) for name, kernel, given, _ in triples)
    return tuple(Part(name, kernel, given, columns=_columns(table, name, key)) for name, kernel, given, key in triples)


def encoded_parts(parts: tuple[Part, ...], encoder: TableEncoder, *, drop: bool = False) -> tuple[Part, ...]:
    """Kernels on columns of a table as kernels on those that it is encoded to.

    Where nothing is left of the columns of a kernel, ``drop`` leaves it out; otherwise that is an error.
    """
    result = []
    for part in parts:
        columns = None if part.columns is None else encoder.positions(part.columns)
        if columns is not None and not columns:
            if drop:
                continue
            raise InputError(
                f"Kernel {part.name!r} has no columns: all of those it was given were left out. Give it others."
            )
        result.append(replace(part, columns=columns))
    return tuple(result)


def parts_of_views(kernels: Any, labels: tuple[Any, ...]) -> tuple[Part, ...]:
    """The kernels of views that have these names or numbers."""
    if isinstance(kernels, str | Kernel):
        kernels = [kernels] * len(labels)
    if isinstance(kernels, Mapping):
        if set(kernels) != set(labels):
            wrong = sorted(set(labels) ^ set(kernels), key=str)[0]
            raise InputError(
                f"kernels is a dict of the views {list(kernels)}, and X has the views {list(labels)}: {wrong!r} is in one "
                f"of the two only. Give each view of X one kernel, or a list of {VIEW_TRIPLES}."
            )
        kernels = [kernels[label] for label in labels]
    items = _listed(kernels, VIEW_TRIPLES)
    if any(map(_is_triple, items)):
        triples = [_triple(item, VIEW_TRIPLES) for item in items]
        return tuple(Part(name, kernel, given, _view(name, key, labels)) for name, kernel, given, key in triples)
    if len(items) != len(labels):
        raise InputError(
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
        raise InputError(f"kernels must be a kernel, a list of kernels or of {expected}, got {reprlib.repr(kernels)}.")
    if _is_triple_alone(kernels):
        raise InputError(f"kernels is one triple by itself, that of {kernels[0]!r}: put it in a list, [{kernels!r}].")
    if not len(kernels):
        raise InputError(f'kernels is empty: give a kernel, such as "gaussian", or a list of {expected}.')
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
        raise InputError(f"kernels must be a list of {expected}, got {reprlib.repr(item)} among them.")
    name, kernel, where = item
    return name, _kernel_of(kernel, repr(name), expected), not isinstance(kernel, str), where


def _kernel_of(kernel: Any, which: str, expected: str) -> Kernel:
    """A kernel from its name or from itself; an error says which entry is wrong."""
    try:
        return get_kernel(kernel)
    except ValueError as error:
        raise InputError(
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
            raise InputError("it is none of these")
        everything = isinstance(key, slice) and key.start is None and key.stop is None
        found = range(X.shape[1])[key] if everything else _get_column_indices(X, key)
    except (ValueError, TypeError, IndexError, NotImplementedError) as error:
        known = (
            f"of X, which are {reprlib.repr(list(X.columns))}" if hasattr(X, "columns") else f"0 to {X.shape[1] - 1} of X"
        )
        raise InputError(
            f"Kernel {name!r}: its columns must be a number, a slice, a mask, names of a table's columns, a list of numbers "
            f"or names, or a function of X, and among the columns {known}; got {reprlib.repr(key)} ({error}): give one of "
            "these."
        ) from error
    if not len(found):
        raise InputError(f"Kernel {name!r} has no columns: {reprlib.repr(key)} chooses none. Give it one, or leave it out.")
    return tuple(int(i) % X.shape[1] for i in found)


def _refuse_unknown_columns(X: Any, name: str, key: Any) -> None:
    """An error that says which column is not there, or that a mask has another length than X has columns."""
    items = list(key) if isinstance(key, list | tuple | np.ndarray) else [key]
    n_columns = X.shape[1]
    if items and all(isinstance(item, bool | np.bool_) for item in items) and not isinstance(key, bool):
        if len(items) != n_columns:
            raise InputError(
                f"Kernel {name!r}: its mask has {len(items)} entries, and X has {n_columns} columns: give one for each."
            )
        return
    if hasattr(X, "columns"):
        known = [str(column) for column in X.columns]
        unknown = next((item for item in items if isinstance(item, str) and item not in known), None)
        if unknown is not None:
            near = nearest(unknown, known)
            advice = f"did you mean {near[0]!r}? " if near else ""
            raise InputError(f"Kernel {name!r}: X has no column {unknown!r}: {advice}give one of {reprlib.repr(known)}.")
    whole = [item for item in items if isinstance(item, int | np.integer) and not isinstance(item, bool)]
    beyond = next((item for item in whole if not -n_columns <= item < n_columns), None)
    if beyond is not None:
        raise InputError(
            f"Kernel {name!r}: X has no column {beyond}: its {n_columns} columns are 0 to {n_columns - 1}. Name those."
        )


def _view(name: str, key: Any, labels: tuple[Any, ...]) -> int:
    """The number of the view that a key means: its name, or its number."""
    if isinstance(key, str) and key in labels:
        return labels.index(key)
    whole = isinstance(key, int | np.integer) and not isinstance(key, bool)
    if whole and 0 <= key < len(labels):
        return int(key)
    raise InputError(f"Kernel {name!r}: its view must be one of {list(labels)}, got {reprlib.repr(key)}.")


def _numbered(names: list[str]) -> list[str]:
    """Names, the second of a kind with "-2" after it, and so on."""
    seen: Counter[str] = Counter()
    result = []
    for name in names:
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return result


def refuse_equal_names(parts: tuple[Part, ...]) -> None:
    """An error where two kernels have the same name."""
    name, times = Counter(part.name for part in parts).most_common(1)[0]
    if times > 1:
        raise InputError(f"{times} kernels have the name {name!r}: give each a name of its own, such as '{name}-2'.")


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
