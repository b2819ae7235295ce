"""From a path to a row source: the list of formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bochner.errors import InputError
from bochner.rows import stores, tables
from bochner.rows.checks import check_dtype, whole_number
from bochner.rows.columns import Wanted
from bochner.rows.csv_files import CsvStyle, CsvTable
from bochner.rows.encoded import open_encoded
from bochner.rows.files import Paths, find_files, format_of
from bochner.rows.source import RowSource
from bochner.rows.svmlight import open_svmlight


@dataclass(frozen=True)
class Request:
    """What was asked for, as ``open_rows`` has it."""

    wanted: Wanted
    dtype: Any
    n_columns: int | None
    zero_based: bool | None
    csv: CsvStyle
    encode: bool = False


def open_rows(
    path: Paths,
    *,
    target: Any = None,
    weight: Any = None,
    columns: Any = None,
    format: str | None = None,
    dtype: Any = None,
    delimiter: str | None = None,
    header: bool | None = None,
    decimal: str = ".",
    n_columns: int | None = None,
    zero_based: bool | None = None,
    encode: bool = False,
) -> RowSource:
    """Rows of files, in blocks that fit in memory.

    Parameters
    ----------
    path : path, list of paths
        A file, a pattern such as ``"part-*.parquet"`` (its files are sorted by name), a folder, or a list of these.
    target, weight : optional
        The target, or a list of targets, and the weight of the rows. In tables (Parquet, Arrow, CSV) the name or number of a
        column. In ``.npy`` files the number of a column (-1: the last), or another ``.npy`` file. In ``.npz``, HDF5 and Zarr
        the name of an array, by default ``y`` and ``weight`` or ``sample_weight`` where they are there, or the number of a
        column of X. Files of svmlight bring their target. Where there is no target, blocks have ``y=None``.
    columns : optional
        The columns of X, in this order: names or numbers; by default all that are neither target nor weight. In ``.npz``,
        HDF5 and Zarr numbers of columns of the array ``X``, or names of the arrays that make X side by side.
    format : str, optional
        One of parquet, arrow, csv, npy, npz, svmlight, hdf5, zarr. By default the suffix tells.
    dtype : "float32" or "float64", optional
        Precision of X. By default float32 where all columns are, otherwise float64.
    delimiter : str, optional
        What separates the columns of CSV files: by default a tab in ``.tsv``, a comma in others.
    header : bool, optional
        Whether CSV files begin with a line of names. By default they do, and a first line that looks like a row is refused.
    decimal : "." or ","
        What numbers of CSV files have before their fraction.
    n_columns, zero_based : optional
        For svmlight: the number of columns, which saves a pass over the files, and whether columns are numbered from 0. By
        default they are if a first pass finds a 0; if n_columns is given, they are numbered from 1.
    encode : bool, default=False
        Whether columns of categories, text, dates, truth values or with gaps become numbers, as
        :class:`bochner.tables.TableEncoder` makes them, after a pass over all rows that learns levels and medians. For
        Parquet, Arrow and CSV. Rows for a fitted model are encoded as those of its fit.

    Returns
    -------
    RowSource

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from bochner import open_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rows.npy")
    ...     np.save(path, np.arange(12.0).reshape(4, 3))
    ...     source = open_rows(path, target=-1)
    ...     print(source.n_rows, source.n_columns, [block.y.tolist() for block in source.blocks(3)])
    4 2 [[2.0, 5.0, 8.0], [11.0]]
    """
    files = find_files(path)
    found = format_of(files, format)
    for name, value, default, meant in (
        ("delimiter", delimiter, None, "csv"),
        ("header", header, None, "csv"),
        ("decimal", decimal, ".", "csv"),
        ("n_columns", n_columns, None, "svmlight"),
        ("zero_based", zero_based, None, "svmlight"),
    ):
        if value is not default and found != meant:
            raise InputError(f"{name}= is an option of {meant} files, and {files[0]} is of format {found}: leave it out.")
    if encode and found not in TABLES:
        raise InputError(
            f"encode=True is for tables ({', '.join(TABLES)}), and {files[0]} is of format {found}: leave it out."
        )
    if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1):
        raise InputError(f"delimiter must be one character, such as ';', got {delimiter!r}.")
    if decimal not in (".", ","):
        raise InputError(f"decimal must be '.' or ',', got {decimal!r}.")
    request = Request(
        Wanted(columns, target, weight),
        None if dtype is None else check_dtype(dtype),
        None if n_columns is None else whole_number("n_columns", n_columns),
        zero_based,
        CsvStyle(delimiter, header, decimal),
        encode,
    )
    return FORMATS[found](files, request)


def _svmlight(files: list[Path], request: Request) -> RowSource:
    for name in ("columns", "target", "weight"):
        if getattr(request.wanted, name) is not None:
            raise InputError(
                f"{name}= is of no use to svmlight files, whose lines are `target column:value ...`: leave it out."
            )
    return open_svmlight(files, request.n_columns, request.zero_based, request.dtype)


def _npy(files: list[Path], request: Request) -> RowSource:
    found, wanted = stores.npy_files(files, request.wanted)
    return stores.open_stores(found, wanted, request.dtype)


def _tables(make: Callable[[Path, Request], tables.TableFile]) -> Callable[[list[Path], Request], RowSource]:
    def opened(files: list[Path], request: Request) -> RowSource:
        open_them = open_encoded if request.encode else tables.open_tables
        return open_them([make(f, request) for f in files], request.wanted, request.dtype)

    return opened


def _stores(make: Callable[[Path], stores.StoreFile]) -> Callable[[list[Path], Request], RowSource]:
    return lambda files, request: stores.open_stores([make(f) for f in files], request.wanted, request.dtype)


TABLES = ("parquet", "arrow", "csv")
"""Formats of named columns of any type."""
FORMATS: dict[str, Callable[[list[Path], Request], RowSource]] = {
    "parquet": _tables(lambda path, _: tables.ParquetTable(path)),
    "arrow": _tables(lambda path, _: tables.ArrowTable(path)),
    "csv": _tables(lambda path, request: CsvTable(path, request.csv)),
    "npy": _npy,
    "npz": _stores(stores.NpzFile),
    "svmlight": _svmlight,
    "hdf5": _stores(stores.Hdf5File),
    "zarr": _stores(stores.ZarrFile),
}
"""How files of each format become a row source; ``files.SUFFIXES`` says which suffixes they have."""
