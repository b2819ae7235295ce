"""Rows in the partitions of Dask collections: they stay on the machines where they are, and what is summed over them comes.

A partition becomes a small sum on the worker that has it. Sums are added in pairs by the numbers of the partitions, and
every task has one thread of BLAS: which worker was first, and how many there are, changes no bit. Tasks are pure, so that
Dask can do those of a lost worker again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from bochner.arrays import Array
from bochner.engines.dask_cluster import alone, get_dask, room, run, summed, tasks, told
from bochner.errors import InputError
from bochner.folds import Folds, Rows
from bochner.rows import Block
from bochner.rows.checks import check_values, common_dtype
from bochner.rows.memory import as_block
from bochner.rows.source import Layout
from bochner.streamed import Cut, PassRecord, SampledFolds

T = TypeVar("T")


def is_dask(values: Any) -> bool:
    """Whether values are a collection of Dask's."""
    return type(values).__module__.partition(".")[0] in ("dask", "dask_expr")


@dataclass(frozen=True)
class DaskRows:
    """Rows, targets and weights in partitions, none of them empty. Made by :func:`dask_rows`."""

    partitions: tuple[Any, ...]
    """A ``Delayed`` :class:`bochner.rows.Block` each, whose ``start`` counts all rows."""
    n_rows: int
    n_columns: int
    dtype: Any
    """float32 or float64: the precision of X."""
    names: tuple[str, ...] | None = None
    """Names of the columns."""
    has_targets: bool = True

    def head(self, n_rows: int) -> Block:
        """The first rows of the first partition, brought here."""
        first: Block = run(tasks(partial(_head, n_rows), self.partitions[:1])[0])
        return first

    def map(self, function: Callable[[Block], T]) -> list[T]:
        """``function`` of every partition, in their order, brought here."""
        found: list[T] = run(get_dask().delayed(list)(tasks(function, self.partitions)))
        return found

    def map_reduce(self, function: Callable[[Block], T], add: Callable[[T, T], T]) -> T:
        """The sum of ``function`` over the partitions."""
        return summed(function, self.partitions, add)

    def folds(
        self,
        *,
        n: int,
        cut: Cut,
        in_memory: Folds,
        smallest_value: float,
        prepare: Callable[[Block], Rows],
        watch: Callable[[PassRecord], None] | None = None,
    ) -> DaskFolds:
        """The rows in parts; ``prepare`` makes standardised rows with targets and weights from a block."""
        chunks = tasks(partial(_chunks, prepare, cut), self.partitions)
        row_bytes = self.dtype.itemsize * self.n_columns + 8 * (in_memory.n_targets + 1)
        if row_bytes * self.n_rows <= room():
            with told():
                chunks = list(get_dask().persist(*chunks))
        return DaskFolds(
            n=n, cut=cut, in_memory=in_memory, smallest_value=smallest_value, watch=watch, partitions=tuple(chunks)
        )


@dataclass(frozen=True, kw_only=True)
class DaskFolds(SampledFolds):
    """Standardised rows in parts, on the workers of a cluster."""

    partitions: tuple[Any, ...]
    """A ``Delayed`` list of the chunks of each partition."""

    def chunks(self) -> Iterator[tuple[int, Rows]]:
        """All rows, brought here one partition at a time: sums over them are better taken by :meth:`map_reduce`."""
        for partition in self.partitions:
            yield from _cast(self.dtype, run(partition))

    @property
    def n_pieces(self) -> int:
        """Number of partitions."""
        return len(self.partitions)

    def map_reduce(self, function: Callable[..., T], add: Callable[[T, T], T], *, beside: Sequence[Any] | None = None) -> T:
        """The sum of ``function(chunks)`` over the partitions, taken where they are; ``beside`` has something for each."""
        self._passes[0] += 1
        start = time.perf_counter()
        total = summed(partial(_of_chunks, function, self.dtype), self.partitions, add, beside)
        if self.watch is not None:
            seconds = time.perf_counter() - start
            self.watch({"pass": self._passes[0], "done": self.n, "n_rows": self.n, "seconds": seconds})
        return total


def dask_rows(X: Any, y: Any = None, weight: Any = None) -> DaskRows:
    """The rows of a dask.array (n, m) or dask.dataframe X, with targets y (n,) or (n, c) and weights (n,) beside them.

    Where Dask does not know how many rows partitions have, these are counted first.
    """
    layout = dask_layout(X)
    beside = {name: values for name, values in (("y", y), ("sample_weight", weight)) if values is not None}
    for name, values in beside.items():
        if np.ndim(values) not in ((1, 2) if name == "y" else (1,)):  # before anything is computed
            shape = "(rows,) or (rows, targets)" if name == "y" else "(rows,)"
            raise InputError(f"{name} must be of shape {shape}, got an array of {np.ndim(values)} dimensions.")
    lengths = _lengths(X=X, **{name: values for name, values in beside.items() if is_dask(values)})
    rows = lengths.pop("X")
    for name, values in beside.items():
        n = sum(lengths[name]) if name in lengths else len(values)
        if n != sum(rows):
            raise InputError(f"{name} has {n} rows, and X has {sum(rows)}: give one for each row of X.")
    pieces = [_pieces(X)]
    for name in ("y", "sample_weight"):
        given = beside.get(name)
        pieces.append([None] * len(rows) if given is None else _like(name, given, lengths.get(name), rows))
    starts = np.cumsum([0, *rows]).tolist()
    make = get_dask().delayed(_block, pure=False, traverse=False)
    blocks = tuple(
        make(_Place(i, starts[i], rows[i], layout), *parts) for i, parts in enumerate(zip(*pieces, strict=True)) if rows[i]
    )
    if not blocks:
        raise InputError("There are no rows: at least one is needed, so give a table that has some.")
    return DaskRows(blocks, sum(rows), layout.n_columns, layout.dtype, layout.names, "y" in beside)


def dask_layout(X: Any) -> Layout:
    """Columns and precision of X, or an error where it is no table of numbers."""
    if hasattr(X, "columns") and hasattr(X, "to_delayed"):
        names = tuple(str(name) for name in X.columns)
        for name, dtype in zip(names, X.dtypes, strict=True):
            if dtype.kind not in "biuf":
                raise InputError(f"X, column {name!r} holds {dtype}, not numbers: encode it first, or leave it out.")
        return Layout(len(names), common_dtype([_plain(dtype) for dtype in X.dtypes]), names)
    if not hasattr(X, "chunks") or X.ndim != 2:
        what = f"an array of {X.ndim} dimensions" if hasattr(X, "chunks") else type(X).__name__
        raise InputError(f"X must be a dask.array (rows, columns) or a dask.dataframe, got {what}.")
    if X.dtype.kind not in "biuf":
        raise InputError(f"X must hold numbers, got {X.dtype}: encode text as numbers first.")
    return Layout(int(X.shape[1]), common_dtype([X.dtype]))


@dataclass(frozen=True)
class Place:
    """The number of a partition, and that of its first row among all; None where Dask does not know."""

    number: int
    start: int | None


def map_rows(function: Callable[[Array, Place], Any], X: Any, like: Any) -> Any:
    """A dask.array of ``function`` of the rows of every partition of X, and of its place, or a tuple of them.

    ``like`` is that of one row.
    """
    if isinstance(like, tuple):
        return tuple(map_rows(partial(_item, i, function), X, one) for i, one in enumerate(like))
    if not hasattr(X, "chunks"):
        X = X.to_dask_array()
    X = X.rechunk({1: -1})
    chunks = (X.chunks[0], *((size,) for size in like.shape[1:]))
    axes = {"drop_axis": 1} if like.ndim == 1 else {}
    shared = get_dask().delayed(function, pure=False, traverse=False)  # once, not in every task
    return X.map_blocks(
        _mapped, function=shared, dtype=like.dtype, meta=np.empty((0,) * like.ndim, like.dtype), chunks=chunks, **axes
    )


# -- rows ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """Where a partition is among the others, and what they have in common."""

    number: int
    start: int
    n_rows: int
    layout: Layout


def _lengths(**collections: Any) -> dict[str, list[int]]:
    """The number of rows of every partition; those that Dask does not know are counted."""
    known, unknown = {}, {}
    for name, values in collections.items():
        chunks = getattr(values, "chunks", ((math.nan,),))[0]
        if any(math.isnan(n) for n in chunks):
            unknown[name] = tasks(len, _pieces(values))
        else:
            known[name] = [int(n) for n in chunks]
    return {**known, **run(get_dask().delayed(unknown))} if unknown else known


def _pieces(values: Any) -> list[Any]:
    """The partitions as ``Delayed`` objects."""
    if hasattr(values, "chunks") and values.ndim == 2 and values.shape[1] > 0 and len(values.chunks[1]) > 1:
        values = values.rechunk({1: -1})
    return list(np.ravel(np.asarray(values.to_delayed(), dtype=object)))


def _like(name: str, values: Any, lengths: list[int] | None, rows: list[int]) -> list[Any]:
    """Targets or weights in partitions of as many rows as those of X."""
    if lengths is None:  # in memory here
        cuts = np.cumsum(rows)[:-1]
        return [get_dask().delayed(part, pure=False, traverse=False) for part in np.split(np.asarray(values), cuts)]
    if lengths != rows:
        if not hasattr(values, "chunks"):  # a table, of which Dask reads few columns in larger partitions than many
            values = _as_array(values, lengths)
        if any(math.isnan(n) for n in values.chunks[0]):
            differ = next((i for i, (a, b) in enumerate(zip(lengths, rows, strict=False)) if a != b), None)
            what = (
                f"{len(lengths)} partitions, and X has {len(rows)}"
                if differ is None
                else f"{lengths[differ]} rows in partition {differ}, and X has {rows[differ]}"
            )
            raise InputError(
                f"{name} has {what}: take both from one dask.dataframe, or give them the same partitions, such as "
                f"{name}.to_dask_array(lengths=True) and X.to_dask_array(lengths=True)."
            )
        values = values.rechunk({0: tuple(rows)})
    return _pieces(values)


def _as_array(values: Any, lengths: list[int]) -> Any:
    """A table, or a column, as a dask.array in the partitions that it is read in, of so many rows."""
    import dask.array as da

    width = () if values.ndim == 1 else (len(values.columns),)
    dtypes = [values.dtype] if values.ndim == 1 else list(values.dtypes)
    dtype = np.dtype(np.float64) if all(dtype.kind in "biuf" for dtype in dtypes) else np.dtype(object)
    make = get_dask().delayed(_numbers, pure=False, traverse=False)
    parts = zip(_pieces(values), lengths, strict=True)
    return da.concatenate([da.from_delayed(make(part), (n, *width), dtype=dtype) for part, n in parts])


def _block(place: _Place, X: Any, y: Any, weight: Any) -> Block:
    """A partition as a checked block."""
    where = f"partition {place.number}"
    block = as_block(0, (_numbers(X), _numbers(y), _numbers(weight)), where)
    if block.n_rows != place.n_rows:
        raise InputError(
            f"{where} had {block.n_rows} rows when it was computed, and {place.n_rows} were expected: give rows that "
            "do not change."
        )
    with np.errstate(over="ignore"):  # too large for float32: told as infinity
        block = replace(block, X=block.X.astype(place.layout.dtype, copy=False))
    check_values(block, where, place.start, place.layout.names, None)
    return replace(block, start=place.start)


def _numbers(values: Any) -> Any:
    """A table of numbers, or a column of them, as a NumPy array with NaN where values are missing; others as they are."""
    if not hasattr(values, "to_numpy"):
        return values
    dtypes = list(values.dtypes) if hasattr(values, "columns") else [values.dtype]
    if not all(dtype.kind in "biuf" for dtype in dtypes):
        return values.to_numpy()
    dtype = common_dtype([_plain(dtype) for dtype in dtypes])
    return values.to_numpy(dtype=dtype, na_value=np.nan)


def _plain(dtype: Any) -> Any:
    """NumPy's dtype of a dtype of pandas' own."""
    return getattr(dtype, "numpy_dtype", dtype)


# -- tasks: what runs on the workers ------------------------------------------------------------------------------------


def _head(n_rows: int, block: Block) -> Block:
    return block.take(slice(0, n_rows))


def _chunks(prepare: Callable[[Block], Rows], cut: Cut, block: Block) -> list[tuple[int, Rows]]:
    return list(cut.chunks(block.start, prepare(block)))


def _cast(dtype: Any, chunks: Iterable[tuple[int, Rows]]) -> Iterator[tuple[int, Rows]]:
    return ((k, replace(rows, X=rows.X.astype(dtype, copy=False))) for k, rows in chunks)


def _of_chunks(function: Callable[..., T], dtype: Any, chunks: list[tuple[int, Rows]], *beside: Any) -> T | None:
    """``function`` of the chunks of a partition; None where none of its rows counts."""
    return function(_cast(dtype, chunks), *beside) if chunks else None


def _mapped(X: Array, function: Callable[[Array, Place], Any], block_info: Any) -> Any:
    number, start = block_info[0]["chunk-location"][0], block_info[0]["array-location"][0][0]
    return alone(function, X, Place(number, None if math.isnan(start) else start))


def _item(index: int, function: Callable[[Array, Place], Any], X: Array, place: Place) -> Any:
    return function(X, place)[index]
