"""Columns of tables of pandas, polars and pyarrow as NumPy arrays of one of few kinds, whatever library they come from."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.errors import InputError
from bochner.tables.cells import APART, as_times, clean_text, of_objects, text_of

PLAIN_KINDS = "biuf"
"""Kinds of NumPy dtypes that are numbers, or true and false."""


@dataclass(frozen=True)
class Cells:
    """One column of a table: n cells of one kind.

    ``kind`` is "numbers" (float64, NaN where missing), "truth" (0, 1 and NaN), "times" (datetime64[us], NaT where missing),
    "text" or "levels" (objects, str or None), or "empty" (missing cells of no type). Levels are those of a column that is
    declared to be of categories; text may turn out to be numbers or dates.
    """

    kind: str
    values: Array


def is_table(X: Any) -> bool:
    """Whether X is a table of pandas, polars or pyarrow."""
    return _library(X) is not None


def _library(X: Any) -> str | None:
    """Which library a table is of; None where it is no table. No library is imported for that."""
    for library, names in (("pandas", ("DataFrame",)), ("polars", ("DataFrame",)), ("pyarrow", ("Table", "RecordBatch"))):
        module = sys.modules.get(library)
        if module is not None and isinstance(X, tuple(getattr(module, name) for name in names)):
            return library
    return None


def table_names(X: Any) -> list[Any]:
    """The names of a table's columns, as they are."""
    return list(X.schema.names if _library(X) == "pyarrow" else X.columns)


def row_count(X: Any) -> int:
    """How many rows a table has."""
    return int(X.num_rows if _library(X) == "pyarrow" else X.shape[0])


def cells_of(X: Any, i: int) -> Cells:
    """Column number ``i`` of a table."""
    library = _library(X)
    if library == "pandas":
        return _of_pandas(X.iloc[:, i])
    if library == "polars":
        return _of_polars(X.to_series(i))
    return _of_arrow(X.column(i))


def needs_encoding(X: Any, columns: Sequence[int] | None = None) -> bool:
    """Whether a table has cells, in all columns or in these, that are missing or neither numbers nor true or false.

    Tables of numbers are taken as they are. Text that is all numbers counts as such.
    """
    if not is_table(X) or not row_count(X):
        return False
    return not all(_is_plain(X, i) for i in (range(len(table_names(X))) if columns is None else columns))


def _is_plain(X: Any, i: int) -> bool:
    """Whether a column is one of numbers without gaps, as scikit-learn takes it too."""
    library = _library(X)
    if library == "pandas":
        series = X.iloc[:, i]
        if isinstance(series.dtype, np.dtype) and series.dtype.kind in PLAIN_KINDS + "c":
            return series.dtype.kind != "f" or not np.isnan(series.to_numpy()).any()
    cells = cells_of(X, i)
    if cells.kind in ("numbers", "truth"):
        return not np.isnan(cells.values).any()
    return cells.kind == "text" and all(value is not None and _is_number(value) for value in cells.values)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _of_pandas(series: Any) -> Cells:
    import pandas as pd

    kinds, dtype = pd.api.types, series.dtype
    if isinstance(dtype, pd.ArrowDtype):
        return _of_arrow(series.array.__arrow_array__())
    if isinstance(dtype, pd.CategoricalDtype):
        levels = [text_of(value) for value in dtype.categories]
        return Cells("levels", clean_text(np.array([*levels, None], dtype=object)[series.cat.codes.to_numpy()]))
    if kinds.is_bool_dtype(dtype):
        return Cells("truth", series.to_numpy(dtype=np.float64, na_value=np.nan))
    if kinds.is_complex_dtype(dtype):
        raise InputError("holds complex numbers, and real ones are needed: give their real and imaginary parts")
    if kinds.is_numeric_dtype(dtype):
        return Cells("numbers", series.to_numpy(dtype=np.float64, na_value=np.nan))
    if isinstance(dtype, pd.PeriodDtype):
        series = series.dt.to_timestamp()
    if isinstance(dtype, pd.DatetimeTZDtype):
        series = series.dt.tz_localize(None)
    if kinds.is_datetime64_any_dtype(series.dtype):
        return Cells("times", series.to_numpy(dtype="datetime64[us]"))
    if kinds.is_timedelta64_dtype(dtype):
        return Cells("numbers", series.dt.total_seconds().to_numpy(dtype=np.float64, na_value=np.nan))
    return Cells(*of_objects(series.to_numpy(dtype=object)))


def _of_polars(series: Any) -> Cells:
    import polars as pl

    dtype = series.dtype
    if dtype == pl.Null:
        return Cells("empty", np.full(len(series), np.nan))
    if dtype == pl.Boolean:
        return Cells("truth", series.cast(pl.Float64).to_numpy())
    if dtype.is_numeric():
        return Cells("numbers", series.cast(pl.Float64).to_numpy())
    if dtype in (pl.Categorical, pl.Enum):
        return Cells("levels", clean_text(series.cast(pl.String).to_list()))
    if dtype == pl.String:
        return Cells("text", clean_text(series.to_list()))
    if dtype == pl.Duration:
        return Cells("numbers", series.dt.total_microseconds().cast(pl.Float64).to_numpy() / 1e6)
    if dtype == pl.Date:
        return Cells("times", series.to_numpy().astype("datetime64[us]"))
    if dtype == pl.Datetime:
        return Cells("times", series.dt.replace_time_zone(None).dt.cast_time_unit("us").to_numpy().astype("datetime64[us]"))
    if dtype == pl.Time or dtype == pl.Object:
        return Cells(*of_objects(np.array(series.to_list(), dtype=object)))
    raise InputError(f"holds {dtype}, of which no numbers can be made: {APART}")


def _of_arrow(column: Any) -> Cells:
    import pyarrow as pa
    import pyarrow.compute as pc

    types, declared = pa.types, False
    if types.is_dictionary(column.type):
        declared = True
        column = column.cast(column.type.value_type) if isinstance(column, pa.ChunkedArray) else column.dictionary_decode()
    kind = column.type
    if types.is_null(kind):
        return Cells("empty", np.full(len(column), np.nan))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return Cells("levels" if declared else "text", clean_text(column.to_pylist()))
    if declared:
        return Cells("levels", clean_text([None if value is None else text_of(value) for value in column.to_pylist()]))
    if types.is_boolean(kind):
        return Cells("truth", _floats(column))
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return Cells("numbers", _floats(column))
    if types.is_timestamp(kind):
        local = pc.local_timestamp(column) if kind.tz is not None else column
        return Cells("times", _numpy(local.cast(pa.timestamp("us"), safe=False)).astype("datetime64[us]"))
    if types.is_date(kind):
        return Cells("times", as_times(column.to_pylist()))
    if types.is_duration(kind):
        return Cells("numbers", _floats(column.cast(pa.duration("us"), safe=False).cast(pa.int64())) / 1e6)
    if types.is_time(kind):
        return Cells(*of_objects(np.array(column.to_pylist(), dtype=object)))
    raise InputError(f"holds {kind}, of which no numbers can be made: {APART}")


def _floats(column: Any) -> Array:
    import pyarrow as pa

    return _numpy(column.cast(pa.float64(), safe=False))


def _numpy(column: Any) -> Array:
    """An array or a chunked array of Arrow's in NumPy."""
    return column.to_numpy() if hasattr(column, "num_chunks") else column.to_numpy(zero_copy_only=False)
