"""Parquet, Arrow (Feather) and CSV files, read by pyarrow in batches of the columns that are wanted."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.rows.checks import as_targets
from bochner.rows.columns import Choice, Wanted, as_list, shown
from bochner.rows.files import COMPRESSED, UnreadableError, guarded, need, reading
from bochner.rows.source import Block, Layout, Part, RowSource

BATCH_BYTES = 2**22
"""Size of a batch in float64, at most: columns are turned into rows while they are in a core's cache."""
BUFFER_BYTES = 2**16
"""What is read of a column of a Parquet file at a time."""
CSV_BYTES = 2**20
"""What is read of a CSV file at a time; a line must fit."""


@dataclass(frozen=True)
class CsvStyle:
    """How a CSV file is written."""

    delimiter: str | None = None
    """None: a tab in .tsv files, a comma in others."""
    header: bool = True


class TableFile(ABC):
    """A file of columns, each with a name and a type of Arrow's."""

    what: str
    has_names = True
    knows_count = False
    """Whether its header has the number of rows."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def schema(self) -> Any:
        """Names and types of all columns."""

    @abstractmethod
    def batches(self, names: Sequence[str], step: int) -> Generator[Any, None, None]:
        """Record batches of some columns, of about ``step`` rows or less."""

    @abstractmethod
    def count(self) -> int:
        """Number of rows."""

    def place(self, error: BaseException, schema: Any) -> Exception | None:
        """A better error for one that was raised while batches were read, where there is one."""
        return None


class ParquetTable(TableFile):
    """A Parquet file: column chunks are read through small buffers, never a whole row group at a time."""

    what = "Parquet"
    knows_count = True

    def _open(self) -> Any:
        return need("pyarrow.parquet", "Parquet files").ParquetFile(self.path, buffer_size=BUFFER_BYTES, pre_buffer=False)

    def schema(self) -> Any:
        with self._open() as file:
            return file.schema_arrow

    def batches(self, names: Sequence[str], step: int) -> Generator[Any, None, None]:
        with self._open() as file:
            yield from file.iter_batches(batch_size=step, columns=list(names), use_threads=False)

    def count(self) -> int:
        with self._open() as file:
            return file.metadata.num_rows


class ArrowTable(TableFile):
    """An Arrow file (Feather version 2): memory-mapped, or one of its own batches at a time where they are compressed."""

    what = "an Arrow file"

    def schema(self) -> Any:
        pa, ipc = need("pyarrow", "Arrow files"), need("pyarrow.ipc", "Arrow files")
        with pa.memory_map(str(self.path)) as file:
            return ipc.open_file(file).schema

    def batches(self, names: Sequence[str], step: int) -> Generator[Any, None, None]:
        pa, ipc = need("pyarrow", "Arrow files"), need("pyarrow.ipc", "Arrow files")
        with pa.memory_map(str(self.path)) as mapped, pa.OSFile(str(self.path)) as file:
            reader = ipc.open_file(mapped)
            if reader.num_record_batches and not _is_view(reader.get_batch(0), names):  # unpack only what is wanted
                fields = [reader.schema.get_field_index(name) for name in names]
                reader = ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=fields, use_threads=False))
            for i in range(reader.num_record_batches):
                batch = reader.get_batch(i)
                yield from (batch.slice(start, step) for start in range(0, batch.num_rows, step))

    def count(self) -> int:
        first = self.schema().names[:1]
        with closing(self.batches(first, 2**62)) as batches:
            return sum(batch.num_rows for batch in batches)


class CsvTable(TableFile):
    """A CSV file, perhaps compressed. Types are guessed from its first megabyte; numbers are then read as float64."""

    what = "CSV"

    def __init__(self, path: Path, style: CsvStyle) -> None:
        super().__init__(path)
        self.style = style
        self.has_names = style.header

    @contextmanager
    def _open(self, **convert: Any) -> Iterator[Any]:
        pa, csv = need("pyarrow", "CSV files"), need("pyarrow.csv", "CSV files")
        suffixes = [suffix for suffix in self.path.suffixes if suffix not in COMPRESSED["csv"]]
        delimiter = self.style.delimiter or ("\t" if suffixes[-1:] == [".tsv"] else ",")
        read = csv.ReadOptions(block_size=CSV_BYTES, use_threads=False, autogenerate_column_names=not self.style.header)
        with (
            pa.input_stream(str(self.path), compression="detect") as text,  # the reader would not close it at once
            csv.open_csv(text, read, csv.ParseOptions(delimiter=delimiter), csv.ConvertOptions(**convert)) as file,
        ):
            yield file

    def schema(self) -> Any:
        with self._open() as file:
            return file.schema

    def batches(self, names: Sequence[str], step: int) -> Generator[Any, None, None]:
        pa = need("pyarrow", "CSV files")
        found = self.schema()
        guessed = {name: found.field(name).type for name in names}
        types = {name: pa.float64() if _is_plain_number(kind) else kind for name, kind in guessed.items()}
        with self._open(include_columns=list(names), column_types=types) as file:
            for batch in file:
                yield from (batch.slice(start, step) for start in range(0, batch.num_rows, step))

    def count(self) -> int:
        first = self.schema().names[0]
        with self._open(include_columns=[first], column_types={first: need("pyarrow", "CSV files").string()}) as file:
            return sum(batch.num_rows for batch in file)

    def place(self, error: BaseException, schema: Any) -> Exception | None:
        found = re.search(r"column #(\d+): (?:Row #(\d+): )?.*invalid value '(.*)'", str(error))
        if found is None:
            return None
        column, value = schema.names[int(found[1])], found[3]
        row = "" if found[2] is None else f", row {int(found[2]) - 1 - self.style.header}"
        name = f"column {column!r}" if self.has_names else f"column {found[1]}"
        return ValueError(
            f"{self.path}, {name}{row} holds text, {value!r}, where there were numbers before: "
            f"write numbers only, or leave that column out of columns=."
        )


class TablePart(Part):
    """The wanted columns of one file."""

    def __init__(self, table: TableFile, schema: Any, choice: Choice, dtype: Any) -> None:
        with reading(table.path, table.what):
            n_rows = table.count() if table.knows_count else None
        super().__init__(str(table.path), [table.path], n_rows)
        self.table, self.schema, self.choice, self.dtype = table, schema, choice, dtype

    def count(self) -> int:
        with reading(self.table.path, self.table.what):
            return self.table.count()

    def pieces(self, step: int) -> Generator[Block, None, None]:
        names = [self.schema.names[i] for i in self.choice.used]
        step = max(1, min(step, BATCH_BYTES // (8 * len(names))))
        start = 0
        with closing(guarded(self.table.path, self.table.what, self.table.batches(names, step))) as batches:
            try:
                for batch in batches:
                    if batch.num_rows:
                        yield self._block(start, batch)
                    start += batch.num_rows
            except UnreadableError as error:
                better = self.table.place(error.__cause__ or error, self.schema)
                if better is None:
                    raise
                raise better from error

    def _block(self, start: int, batch: Any) -> Block:
        choice, name_of = self.choice, self.schema.names
        X = np.empty((batch.num_rows, len(choice.X)), dtype=self.dtype)
        with np.errstate(over="ignore"):  # too large for float32: told as infinity
            for j, i in enumerate(choice.X):
                X[:, j] = _numbers(batch.column(name_of[i]))
        y = weight = None
        if choice.targets is not None:
            y = np.stack([_targets(batch.column(name_of[i])) for i in choice.targets], axis=1)
            y = y[:, 0].copy() if choice.one_target else y
        if choice.weight is not None:
            weight = np.array(_numbers(batch.column(name_of[choice.weight])), dtype=np.float64)
        return Block(start, X, y, weight)


def open_tables(tables: Sequence[TableFile], wanted: Wanted, dtype: Any) -> RowSource:
    """A row source of table files, which must all have the wanted columns, and the same ones where none are named.

    Numbers of columns are those of the first file; in the others the columns of these names are meant.
    """
    schemas = [_schema(table) for table in tables]
    first = schemas[0]
    choices = [wanted.among(tuple(first.names), str(tables[0].path), left_out=_index_columns(first))]
    named = _by_name(choices[0], first.names)
    for table, schema in zip(tables[1:], schemas[1:], strict=True):
        if wanted.columns is None:
            _refuse_other_columns(schema, first, table.path, tables[0].path)
        choices.append(named.among(tuple(schema.names), str(table.path)))
    for table, schema, choice in zip(tables, schemas, choices, strict=True):
        for i in choice.used:
            _refuse_type(schema.field(i), table, i, text=i in (choice.targets or ()))
        _refuse_mixed_targets(schema, first, choice, table.path, tables[0].path)
    if dtype is None:
        kinds = {str(schema.field(i).type) for schema, choice in zip(schemas, choices, strict=True) for i in choice.X}
        dtype = np.dtype(np.float32 if kinds <= {"float", "halffloat"} else np.float64)
    parts = [TablePart(*found, dtype) for found in zip(tables, schemas, choices, strict=True)]
    if not tables[0].has_names:
        return RowSource(parts, Layout(len(named.columns), dtype))
    targets = None if named.target is None else tuple(as_list(named.target))
    return RowSource(parts, Layout(len(named.columns), dtype, tuple(named.columns), targets))


def _schema(table: TableFile) -> Any:
    with reading(table.path, table.what):
        schema = table.schema()
    seen: set[str] = set()
    for name in schema.names:
        if name in seen:
            raise ValueError(f"{table.path} has two columns named {name!r}: names must differ.")
        seen.add(name)
    return schema


def _by_name(choice: Choice, names: Sequence[str]) -> Wanted:
    """The chosen columns of one file, to be found by name in others."""
    targets = None if choice.targets is None else [names[i] for i in choice.targets]
    return Wanted(
        [names[i] for i in choice.X],
        targets[0] if targets and choice.one_target else targets,
        None if choice.weight is None else names[choice.weight],
    )


def _numbers(column: Any) -> Array:
    """A column of Arrow's as an array of floats, missing values as NaN."""
    pa = need("pyarrow", "tables")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not pa.types.is_floating(column.type):
        column = column.cast(pa.float64(), safe=False)
    return column.to_numpy(zero_copy_only=False)


def _targets(column: Any) -> Array:
    """A column of Arrow's as targets: numbers, or text."""
    pa = need("pyarrow", "tables")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return as_targets(column.to_numpy(zero_copy_only=False) if _is_text(column.type) else _numbers(column))


def _is_view(batch: Any, names: Sequence[str]) -> bool:
    """Whether the columns of a batch are a view of the mapped file: then they are not compressed, and nothing was read."""
    buffers = [buffer for name in names for buffer in batch.column(name).buffers() if buffer is not None]
    return not any(buffer.is_mutable for buffer in buffers)


def _is_text(kind: Any) -> bool:
    types = need("pyarrow", "tables").types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _is_plain_number(kind: Any) -> bool:
    types = need("pyarrow", "tables").types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind)


def _refuse_type(field: Any, table: TableFile, i: int, text: bool) -> None:
    """An error where a column is not of numbers; a target may be of text."""
    types = need("pyarrow", "tables").types
    kind = _values(field.type)
    if _is_plain_number(kind) or types.is_boolean(kind) or types.is_decimal(kind) or (text and _is_text(kind)):
        return
    where = f"{table.path}, column {field.name!r}" if table.has_names else f"{table.path}, column {i}"
    if types.is_temporal(kind):
        raise ValueError(f"{where} holds dates or times ({kind}): turn them into numbers first, such as days since a date.")
    if _is_text(kind) or types.is_binary(kind):
        header = " (Has the file no line of names? Then say header=False.)" if isinstance(table, CsvTable) else ""
        raise ValueError(
            f"{where} holds text: encode it as numbers first, for instance with sklearn.preprocessing.OneHotEncoder(), or "
            f"name the columns to read by columns=[...].{header}"
        )
    raise ValueError(f"{where} holds {kind}, not numbers: write it as columns of numbers, or leave it out of columns=[...].")


def _refuse_other_columns(schema: Any, first: Any, path: Path, first_path: Path) -> None:
    """An error where two files do not have the same columns."""
    index = {*_index_columns(schema), *_index_columns(first)}
    here, there = set(schema.names) | index, set(first.names) | index
    lacks, adds = [n for n in first.names if n not in here], [n for n in schema.names if n not in there]
    if not lacks and not adds:
        return
    difference = "; ".join(
        [f"it lacks {shown(lacks)}"] * bool(lacks) + [f"it has {shown(adds)}, which the other has not"] * bool(adds)
    )
    raise ValueError(
        f"{path} has other columns than {first_path}: {difference}. "
        "Name those to read, which all files must have, by columns=[...]."
    )


def _refuse_mixed_targets(schema: Any, first: Any, choice: Choice, path: Path, first_path: Path) -> None:
    """An error where a target is text in one file and numbers in another."""
    for i in choice.targets or ():
        name = schema.names[i]
        here, there = (_is_text(_values(found.field(name).type)) for found in (schema, first))
        if here != there:
            kinds = ("numbers", "text")
            raise ValueError(
                f"{path}, target {name!r} holds {kinds[here]}, and in {first_path} it holds {kinds[there]}: write one kind."
            )


def _values(kind: Any) -> Any:
    """The type of a column's values, which may be written as a dictionary."""
    return kind.value_type if need("pyarrow", "tables").types.is_dictionary(kind) else kind


def _index_columns(schema: Any) -> list[str]:
    """Columns that pandas wrote for the index of a table."""
    stored = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in stored if isinstance(name, str)]
