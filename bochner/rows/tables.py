"""Files of columns, read by pyarrow in batches of those that are wanted: Parquet and Arrow (Feather)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.errors import InputError
from bochner.rows.checks import as_targets
from bochner.rows.columns import Choice, Wanted, as_list, shown
from bochner.rows.files import UnreadableError, guarded, need, reading
from bochner.rows.source import Block, Counted, Layout, Part, RowSource

BATCH_BYTES = 2**22
"""Size of a batch in float64, at most: columns are turned into rows while they are in a core's cache."""
BUFFER_BYTES = 2**16
"""What is read of a column of a Parquet file at a time."""


ENCODE = (
    "encode it as numbers first, by encode=True or for instance with sklearn.preprocessing.OneHotEncoder(), or name the "
    "columns to read by columns=[...]"
)


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
    def counting(self) -> Generator[Counted, None, None]:
        """Rows so far, up to all of them, and the share of the file that they take."""

    def index_columns(self, schema: Any) -> list[str]:
        """Columns that pandas wrote for the index of a table: they are X only where they are asked for."""
        stored = (schema.pandas_metadata or {}).get("index_columns", [])
        return [name for name in stored if isinstance(name, str)]

    def check(self, schema: Any) -> None:
        """An error where two columns have one name, or the file seems to be written in another way than was said."""
        seen: set[str] = set()
        for name in schema.names:
            if name in seen:
                raise InputError(
                    f"{self.path} has two columns named {name!r}: names must differ, so rename one.{self.hint(schema)}"
                )
            seen.add(name)

    def are_no_names(self, names: Sequence[str]) -> bool:
        """Whether names of columns look like numbers of a row."""
        return False

    def hint(self, schema: Any) -> str:
        """What may be wrong where columns that are asked for are not there."""
        return ""

    def about_text(self, name: str) -> tuple[str, str]:
        """How a column of text looks, and what to do about it."""
        return "", ENCODE

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

    def counting(self) -> Generator[Counted, None, None]:
        with self._open() as file:
            yield file.metadata.num_rows, 1.0


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

    def counting(self) -> Generator[Counted, None, None]:
        first, n_rows = self.schema().names[:1], 0
        with closing(self.batches(first, 2**62)) as batches:
            for batch in batches:
                n_rows += batch.num_rows
                yield n_rows, None


class TablePart(Part):
    """The wanted columns of one file."""

    def __init__(self, table: TableFile, schema: Any, choice: Choice, dtype: Any) -> None:
        super().__init__(str(table.path), [table.path])
        self.table, self.schema, self.choice, self.dtype = table, schema, choice, dtype
        if table.knows_count:
            self.n_rows = sum(n_rows for n_rows, _ in self.counting())

    def counting(self) -> Generator[Counted, None, None]:
        return guarded(self.table.path, self.table.what, self.table.counting())

    def pieces(self, step: int) -> Generator[Block, None, None]:
        names = [self.schema.names[i] for i in self.choice.used]
        step = max(1, min(step, BATCH_BYTES // (8 * len(names))))
        start = 0
        with closing(guarded(self.table.path, self.table.what, self.table.batches(names, step))) as batches:
            for batch in self.placed(batches):
                if batch.num_rows:
                    yield self._block(start, batch)
                start += batch.num_rows

    def placed(self, batches: Generator[Any, None, None]) -> Generator[Any, None, None]:
        """The same batches, with errors that say where in the file a value is."""
        try:
            yield from batches
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
        return Block(start, X, *targets_and_weights(batch, choice, name_of))


def targets_and_weights(batch: Any, choice: Choice, names: Sequence[str]) -> tuple[Array | None, Array | None]:
    """Targets (k,) or (k, c) and weights (k,) of a batch of columns; None where there are none."""
    y = weight = None
    if choice.targets is not None:
        y = np.stack([_targets(batch.column(names[i])) for i in choice.targets], axis=1)
        y = y[:, 0].copy() if choice.one_target else y
    if choice.weight is not None:
        weight = np.array(_numbers(batch.column(names[choice.weight])), dtype=np.float64)
    return y, weight


@dataclass(frozen=True)
class Opened:
    """Table files and the columns that are wanted of each; names of X, and of the targets."""

    tables: Sequence[TableFile]
    schemas: Sequence[Any]
    choices: Sequence[Choice]
    named: Wanted

    @property
    def target_names(self) -> tuple[str, ...] | None:
        """Names of the targets."""
        return None if self.named.target is None else tuple(as_list(self.named.target))

    def parts(self, kind: type[TablePart], dtype: Any) -> list[Any]:
        """One part for each file."""
        return [kind(*found, dtype) for found in zip(self.tables, self.schemas, self.choices, strict=True)]


def find_columns(tables: Sequence[TableFile], wanted: Wanted, *, numbers: bool = True) -> Opened:
    """Where the wanted columns are in table files; an error where X must be ``numbers`` and is not."""
    schemas = [_schema(table) for table in tables]
    first = schemas[0]
    choices = [_chosen(wanted, tables[0], first)]
    named = _by_name(choices[0], first.names)
    for table, schema in zip(tables[1:], schemas[1:], strict=True):
        if wanted.columns is None:
            _refuse_other_columns(table, schema, tables[0], first)
        choices.append(named.among(tuple(schema.names), str(table.path)))
    for table, schema, choice in zip(tables, schemas, choices, strict=True):
        for i in choice.used if numbers else choice.used[len(choice.X) :]:
            _refuse_type(schema.field(i), table, i, text=i in (choice.targets or ()))
        _refuse_mixed_targets(schema, first, choice, table.path, tables[0].path)
    return Opened(tables, schemas, choices, named)


def open_tables(tables: Sequence[TableFile], wanted: Wanted, dtype: Any) -> RowSource:
    """A row source of table files, which must all have the wanted columns, and the same ones where none are named.

    Numbers of columns are those of the first file; in the others the columns of these names are meant.
    """
    opened = find_columns(tables, wanted)
    schemas, choices, named = opened.schemas, opened.choices, opened.named
    if dtype is None:
        kinds = {str(schema.field(i).type) for schema, choice in zip(schemas, choices, strict=True) for i in choice.X}
        dtype = np.dtype(np.float32 if kinds <= {"float", "halffloat"} else np.float64)
    parts = opened.parts(TablePart, dtype)
    if not tables[0].has_names:
        return RowSource(parts, Layout(len(named.columns), dtype))
    return RowSource(parts, Layout(len(named.columns), dtype, tuple(named.columns), opened.target_names))


def _schema(table: TableFile) -> Any:
    with reading(table.path, table.what):
        schema = table.schema()
        _ = schema.names  # which are text in UTF-8, or no names
    table.check(schema)
    return schema


def _chosen(wanted: Wanted, table: TableFile, schema: Any) -> Choice:
    """Positions of the wanted columns in the first file."""
    try:
        choice = wanted.among(tuple(schema.names), str(table.path), left_out=table.index_columns(schema))
    except ValueError as error:
        raise InputError(f"{error}{table.hint(schema)}") from None
    names = [schema.names[i] for i in choice.X]
    if table.are_no_names(names):
        raise InputError(
            f"{table.path} has numbers where names of columns are expected, {', '.join(names[:4])}: say header=False if its "
            "first line is a row, or header=True if these are names."
        )
    return choice


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
    return as_targets(column.to_numpy(zero_copy_only=False) if is_text(column.type) else _numbers(column))


def _is_view(batch: Any, names: Sequence[str]) -> bool:
    """Whether the columns of a batch are a view of the mapped file: then they are not compressed, and nothing was read."""
    buffers = [buffer for name in names for buffer in batch.column(name).buffers() if buffer is not None]
    return not any(buffer.is_mutable for buffer in buffers)


def is_text(kind: Any) -> bool:
    """Whether a type of Arrow's is text."""
    types = need("pyarrow", "tables").types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def is_plain_number(kind: Any) -> bool:
    """Whether a type of Arrow's is of numbers, or of nothing but missing values."""
    types = need("pyarrow", "tables").types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind)


def _refuse_type(field: Any, table: TableFile, i: int, text: bool) -> None:
    """An error where a column is not of numbers; a target may be of text."""
    types = need("pyarrow", "tables").types
    kind = _values(field.type)
    if is_plain_number(kind) or types.is_boolean(kind) or types.is_decimal(kind) or (text and is_text(kind)):
        return
    where = f"{table.path}, column {field.name!r}" if table.has_names else f"{table.path}, column {i}"
    if types.is_temporal(kind):
        raise InputError(
            f"{where} holds dates or times ({kind}): turn them into numbers first, such as days since a date, or say "
            "encode=True."
        )
    if is_text(kind) or types.is_binary(kind):
        example, advice = table.about_text(field.name)
        raise InputError(f"{where} holds text{example}: {advice}.")
    raise InputError(f"{where} holds {kind}, not numbers: write it as columns of numbers, or leave it out of columns=[...].")


def _refuse_other_columns(table: TableFile, schema: Any, first_table: TableFile, first: Any) -> None:
    """An error where two files do not have the same columns."""
    index = {*table.index_columns(schema), *first_table.index_columns(first)}
    here, there = set(schema.names) | index, set(first.names) | index
    lacks, adds = [n for n in first.names if n not in here], [n for n in schema.names if n not in there]
    if not lacks and not adds:
        return
    difference = "; ".join(
        [f"it lacks {shown(lacks)}"] * bool(lacks) + [f"it has {shown(adds)}, which the other has not"] * bool(adds)
    )
    raise InputError(
        f"{table.path} has other columns than {first_table.path}: {difference}. "
        "Name those to read, which all files must have, by columns=[...]."
    )


def _refuse_mixed_targets(schema: Any, first: Any, choice: Choice, path: Path, first_path: Path) -> None:
    """An error where a target is text in one file and numbers in another."""
    for i in choice.targets or ():
        name = schema.names[i]
        here, there = (is_text(_values(found.field(name).type)) for found in (schema, first))
        if here != there:
            kinds = ("numbers", "text")
            raise InputError(
                f"{path}, target {name!r} holds {kinds[here]}, and in {first_path} it holds {kinds[there]}: write one kind."
            )


def _values(kind: Any) -> Any:
    """The type of a column's values, which may be written as a dictionary."""
    return kind.value_type if need("pyarrow", "tables").types.is_dictionary(kind) else kind
