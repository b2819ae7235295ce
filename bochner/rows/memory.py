"""Rows in memory, or made by Python code as they are needed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse

from bochner.arrays import Array
from bochner.errors import InputError, InputTypeError
from bochner.rows.checks import as_targets, check_dtype, common_dtype, whole_number
from bochner.rows.source import Block, Layout, Part, RowSource

GIVE_A_FUNCTION = (
    "give a function that makes a new one each time: from_blocks(lambda: read(path)), not from_blocks(read(path))"
)


class ArraysPart(Part):
    """Arrays, of which blocks are views."""

    def __init__(self, X: Array, y: Array | None, weight: Array | None) -> None:
        super().__init__("X", n_rows=X.shape[0])
        self.rows = Block(0, X, y, weight)

    def pieces(self, step: int) -> Generator[Block, None, None]:
        for start in range(0, self.rows.n_rows, step):
            rows = self.rows.take(slice(start, start + step))
            yield as_block(start, (rows.X, rows.y, rows.weight), "X")


class BlocksPart(Part):
    """Blocks from an iterable that can be started again."""

    def __init__(self, start: Callable[[], Iterator[Any]], first: Block, n_rows: int | None) -> None:
        super().__init__("the iterable of blocks", n_rows=n_rows)
        self.start, self.first = start, first.take(slice(0, 0))

    def pieces(self, step: int) -> Generator[Block, None, None]:
        start = 0
        iterator = self.start()
        try:
            for number, given in enumerate(iterator):
                block = as_block(start, given, f"block {number}")
                self._check(block, number)
                if block.n_rows:
                    yield replace(block, X=block.X.copy())  # which may be a buffer that is filled again
                start += block.n_rows
        finally:
            _close(iterator)
        if not start:
            raise InputError(
                f"A new pass over the blocks gave no rows, as if they could be read only once: {GIVE_A_FUNCTION}."
            )

    def _check(self, block: Block, number: int) -> None:
        """An error where a block is not like the first one."""
        first = self.first
        if block.X.shape[1] != first.X.shape[1]:
            raise InputError(
                f"Block {number} has {block.X.shape[1]} columns, and block 0 has {first.X.shape[1]}: all must have "
                "the same, so give blocks of one width."
            )
        for name, new, old in (("targets", block.y, first.y), ("weights", block.weight, first.weight)):
            if (new is None) != (old is None) or (new is not None and old is not None and new.shape[1:] != old.shape[1:]):
                raise InputError(
                    f"Block {number} has {name} {_shape(new)}, and block 0 has {_shape(old)}: all must be of one form, "
                    "(X, y) or (X, y, weight), so give it to all or to none."
                )
        if sparse.issparse(block.X) != sparse.issparse(first.X):
            raise InputError(
                f"Block {number} and block 0 must both be sparse or both dense: give X.toarray() or csr_array(X)."
            )


def from_arrays(
    X: Any, y: Any = None, weight: Any = None, *, names: Sequence[str] | None = None, dtype: Any = None
) -> RowSource:
    """A row source of arrays in memory, or mapped from a file (``numpy.memmap``); nothing is copied but what is cast.

    Parameters
    ----------
    X : array (n, m), sparse matrix or table
        Rows. A table's columns give the names.
    y : array (n,) or (n, c), optional
    weight : array (n,), optional
    names : sequence of str, optional
        Names of the columns.
    dtype : "float32" or "float64", optional
        Default: float32 where X is, otherwise float64.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.rows import from_arrays
    >>> source = from_arrays(np.arange(10.0).reshape(5, 2), y=np.arange(5))
    >>> [(block.start, block.X.shape) for block in source.blocks(2)]
    [(0, (2, 2)), (2, (2, 2)), (4, (1, 2))]
    """
    names = _names(X) if names is None else tuple(names)
    X = X.tocsr() if sparse.issparse(X) else np.asarray(X)
    y, weight = (None if values is None else np.asarray(values) for values in (y, weight))
    for name, values in (("y", y), ("weight", weight)):
        if values is not None and len(values) != X.shape[0]:
            raise InputError(f"{name} has {len(values)} rows, and X has {X.shape[0]}: give one for each row of X.")
    first = as_block(0, (X[:0], None if y is None else y[:0], None if weight is None else weight[:0]), "X")
    return RowSource([ArraysPart(X, y, weight)], _layout(first, names, dtype))


def from_blocks(
    make: Callable[[], Iterable[Any]] | Iterable[Any],
    *,
    n_rows: int | None = None,
    names: Sequence[str] | None = None,
    dtype: Any = None,
) -> RowSource:
    """A row source of blocks of any length, made by Python code.

    Parameters
    ----------
    make : callable or iterable
        A function that returns a new iterator of blocks for every pass, or a list of blocks (what can be iterated again and
        again). A block is X, (X, y) or (X, y, weight), as in ``from_arrays``. Iterators run in a thread of their own.
    n_rows : int, optional
        Number of rows of a pass, where it is known; otherwise they are counted once.
    names : sequence of str, optional
        Names of the columns.
    dtype : "float32" or "float64", optional
        Default: that of the first block.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.rows import from_blocks
    >>> def blocks():
    ...     for i in range(3):
    ...         yield np.full((4, 2), i), np.arange(4)
    >>> source = from_blocks(blocks)
    >>> source.n_rows, source.n_columns
    (12, 2)
    """
    start = _Restart(make)
    iterator = start()
    try:
        given = next(iterator, None)
    finally:
        _close(iterator)
    if given is None:
        raise InputError(
            "from_blocks got no blocks: at least one is needed, of one row or more, so give a function that yields some."
        )
    names = _names(given[0] if isinstance(given, tuple | list) else given) if names is None else tuple(names)
    first = as_block(0, given, "block 0")
    n_rows = None if n_rows is None else whole_number("n_rows", n_rows)
    return RowSource([BlocksPart(start, first, n_rows)], _layout(first, names, dtype))


class _Restart:
    """Starts an iterable anew, or says that it cannot."""

    def __init__(self, make: Any) -> None:
        self.make = make
        self.last: Any = None
        if not callable(make) and not hasattr(make, "__iter__"):
            raise InputTypeError(
                f"from_blocks needs a function that returns an iterator of blocks, or a list, got {type(make).__name__}: "
                "give one of these."
            )
        if hasattr(make, "__next__"):
            raise InputTypeError(
                f"from_blocks got an iterator ({type(make).__name__}), which can be read only once: {GIVE_A_FUNCTION}."
            )

    def __call__(self) -> Iterator[Any]:
        made = self.make() if callable(self.make) else self.make
        iterator = iter(made)
        if iterator is self.last:
            raise InputError(f"The function given to from_blocks returned the same iterator twice: {GIVE_A_FUNCTION}.")
        self.last = iterator
        return iterator


def as_block(start: int, given: Any, where: str) -> Block:
    """X, (X, y) or (X, y, weight) as a block, or an error."""
    parts = tuple(given) if isinstance(given, tuple | list) else (given,)
    if not 1 <= len(parts) <= 3:
        raise InputError(f"{where} must be X, (X, y) or (X, y, weight), got {len(parts)} items.")
    X, y, weight = chain(parts, (None,) * (3 - len(parts)))
    X = X.tocsr() if sparse.issparse(X) else np.asarray(X)
    if len(X.shape) != 2 or not X.shape[1]:
        raise InputError(
            f"{where}: X must be a table (rows, columns) of one column or more, got shape {X.shape}: reshape it first."
        )
    if X.dtype.kind not in "biuf":
        raise InputError(f"{where}: X must hold numbers, got {X.dtype}: encode text as numbers first.")
    y = None if y is None else as_targets(y)
    weight = None if weight is None else np.array(weight, dtype=np.float64)
    for name, values, most in (("y", y, 2), ("weight", weight, 1)):
        if values is not None and (not 1 <= values.ndim <= most or len(values) != X.shape[0]):
            expected = f"({X.shape[0]},)" + f" or ({X.shape[0]}, targets)" * (most == 2)
            raise InputError(f"{where}: {name} must be of shape {expected}, got {values.shape}: give one for each row.")
    return Block(start, X, y, weight)


def _layout(first: Block, names: tuple[str, ...] | None, dtype: Any) -> Layout:
    n_columns = first.X.shape[1]
    if names is not None and len(names) != n_columns:
        raise InputError(f"names has {len(names)} names for {n_columns} columns of X: give one for each.")
    return Layout(n_columns, common_dtype([first.X.dtype]) if dtype is None else check_dtype(dtype), names)


def _names(X: Any) -> tuple[str, ...] | None:
    """Names of the columns of a table of pandas, polars, ..."""
    columns = getattr(X, "columns", None)
    return None if columns is None or callable(columns) or sparse.issparse(X) else tuple(str(name) for name in columns)


def _shape(values: Array | None) -> str:
    return "None" if values is None else f"of shape {values.shape}"


def _close(iterator: Any) -> None:
    if hasattr(iterator, "close"):
        iterator.close()
