"""Tables from files and pipes, whole or in batches, and back to files."""

from __future__ import annotations

import csv
import difflib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from bochner.cli.running import CommandError
from bochner.durable import replace_file
from bochner.rows.csv_files import CODECS
from bochner.rows.files import SUFFIXES, format_by_name

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
PIPE = "-"
"""Standard input or output, in CSV."""
JSON_SUFFIXES = (".jsonl", ".ndjson")
BATCH_ROWS = 2**15
CSV_BYTES = 2**22
"""What is read of a CSV at a time; its types are guessed from the first of it."""


def format_of(path: str) -> str:
    """ "csv", "parquet", "arrow" or "json", by the name of a file."""
    if path == PIPE:
        return "csv"
    plain = Path(path).with_suffix("") if Path(path).suffix.lower() in CODECS else Path(path)
    if plain.suffix.lower() in JSON_SUFFIXES:
        return "json"
    found = format_by_name(Path(path))
    if found not in ("csv", "parquet", "arrow"):
        known = [*(suffix for suffix, name in SUFFIXES.items() if name in ("csv", "parquet", "arrow")), *JSON_SUFFIXES]
        raise CommandError(
            f"{path} has none of the suffixes {', '.join(known)} (.gz and such after .csv, .tsv and .jsonl): rename it, or "
            "pipe CSV and give -."
        )
    return found


def read_table(path: str, delimiter: str | None = None, text: Sequence[str] = ()) -> Any:
    """All rows of a file as a table of pyarrow's; columns named in ``text`` are read as text, and those that turn out to be.

    (Types of CSV are guessed from its first rows; a column whose first text comes later is read again as text.)
    """
    import pyarrow as pa

    columns = [*text]
    while True:
        try:
            batches = list(read_batches(path, delimiter, columns))
            break
        except NotThatTypeError as error:
            if path == PIPE or error.column in columns:
                raise
            columns.append(error.column)
    if not batches or not sum(batch.num_rows for batch in batches):
        raise CommandError(f"{_named(path)} has no rows: at least one is needed, below a line of names.")
    return pa.Table.from_batches(batches)


class NotThatTypeError(CommandError):
    """A column of CSV holds something else than its first rows promise."""

    def __init__(self, path: str, column: str, error: str) -> None:
        told = error.split("CSV conversion error ")[-1].splitlines()[0][:160]
        super().__init__(
            f"{_named(path)}, column {column!r} holds something else than in its first rows ({told}): write it in one kind, "
            "or write the table as Parquet."
        )
        self.column = column


def read_batches(path: str, delimiter: str | None = None, text: Sequence[str] = ()) -> Iterator[Any]:
    """The rows of a file in record batches of pyarrow's, with errors that name the file; CSV with some columns as text."""
    import pyarrow as pa

    if path != PIPE:
        _refuse_missing(path)
    kind = format_of(path)
    try:
        if kind == "csv":
            yield from _csv(path, delimiter, text)
        else:
            yield from {"json": _json, "parquet": _parquet, "arrow": _arrow}[kind](path)
    except pa.ArrowInvalid as error:
        raise CommandError(_about_unreadable(path, kind, str(error))) from None
    except (pa.ArrowException, EOFError, UnicodeDecodeError) as error:
        raise CommandError(f"{_named(path)} could not be read as {kind}: {_first_line(error)}. Is the file whole?") from None


def _csv(path: str, delimiter: str | None, text: Sequence[str]) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    tabs = ".tsv" in [suffix.lower() for suffix in Path(path).suffixes[-2:]]
    options = (
        arrow_csv.ReadOptions(block_size=CSV_BYTES),
        arrow_csv.ParseOptions(delimiter=delimiter or ("\t" if tabs else ",")),
        arrow_csv.ConvertOptions(column_types=dict.fromkeys(text, pa.string())),
    )
    with _opened(path) as stream, arrow_csv.open_csv(stream, *options) as reader:
        _refuse_names(reader.schema.names, path)
        try:
            yield from reader
        except pa.ArrowInvalid as error:
            place = re.search(r"CSV column #(\d+):.* CSV conversion error", str(error))
            if place is None:
                raise
            raise NotThatTypeError(path, reader.schema.names[int(place[1])], str(error)) from None


def _json(path: str) -> Iterator[Any]:
    from pyarrow import json as arrow_json

    with _opened(path) as stream:
        table = arrow_json.read_json(stream)
    yield from table.to_batches(BATCH_ROWS)


def _parquet(path: str) -> Iterator[Any]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        yield from file.iter_batches(BATCH_ROWS)


def _arrow(path: str) -> Iterator[Any]:
    import pyarrow as pa

    with pa.memory_map(path) as file, pa.ipc.open_file(file) as reader:
        for i in range(reader.num_record_batches):
            yield reader.get_batch(i)


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    import pyarrow as pa

    if path == PIPE:
        yield pa.PythonFile(sys.stdin.buffer, mode="r")
        return
    with pa.input_stream(path, compression=CODECS.get(Path(path).suffix.lower())) as stream:
        yield stream


def _refuse_missing(path: str) -> None:
    if not os.path.exists(path):
        folder = Path(path).parent
        near = difflib.get_close_matches(Path(path).name, os.listdir(folder), n=1) if folder.is_dir() else []
        hint = f" Is it {folder / near[0]}?" if near else "" if folder.is_dir() else f" There is no folder {folder}."
        raise CommandError(f"There is no file {path}.{hint}")
    if os.path.isdir(path):
        raise CommandError(f"{path} is a folder: give the name of a file.")
    if os.path.getsize(path) == 0:
        raise CommandError(f"{path} is empty: a line of names and at least one row are needed.")


def _refuse_names(names: Sequence[str], path: str) -> None:
    """An error where columns have the same name, or where the first line holds numbers."""
    if all(NUMBER.fullmatch(name.strip()) for name in names):
        shown = ", ".join(names[:3])
        raise CommandError(
            f"{_named(path)} has numbers in its first line ({shown}, ...), where the names of the columns should be: put a "
            "line of names before it."
        )
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise CommandError(f"{_named(path)} has two columns named {name!r}: names must differ.")
        seen.add(name)


def _about_unreadable(path: str, kind: str, error: str) -> str:
    """What may be wrong with a file that pyarrow cannot read."""
    if "Empty CSV" in error:
        return f"{_named(path)} is empty: a line of names and at least one row are needed."
    if kind == "csv" and "Expected" in error and "columns, got" in error:
        where = error.split("CSV parse error: ")[-1].split("\n")[0]
        return (
            f"{_named(path)} has rows of different lengths ({where[:160]}): every row needs as many columns as the "
            "first line. If columns are not separated by a comma, say so by --delimiter."
        )
    return f"{_named(path)} could not be read as {kind}: {error.splitlines()[0][:300]}"


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:300].rstrip(".")


def _named(path: str) -> str:
    return "Standard input" if path == PIPE else path


def find_column(name: str, names: Sequence[str], path: str, option: str) -> str:
    """A column that was asked for, or an error with the nearest names."""
    if name in names:
        return name
    low = {each.lower(): each for each in names}
    alike = [name.lower()] if name.lower() in low else difflib.get_close_matches(name.lower(), list(low), n=2, cutoff=0.65)
    near = [low[each] for each in alike]
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    shown = ", ".join(map(repr, names[:12])) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    raise CommandError(f"{_named(path)} has no column {name!r} ({option}).{hint} Its columns are {shown}.", code=2)


# -- writing ----------------------------------------------------------------------------------------------------------


def check_writable(path: str) -> None:
    """An error where a file cannot be written, before anything takes long."""
    if path == PIPE:
        return
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise CommandError(f"There is no folder {folder} to write {Path(path).name} to: make it first.")
    if os.path.isdir(path):
        raise CommandError(f"{path} is a folder: give the name of a file.")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {folder} takes no new files ({error.strerror}).") from None


def write_batches(path: str, batches: Iterable[Any]) -> int:
    """Write record batches to a file, as a whole or not at all, or to standard output; how many rows there were."""
    if path == PIPE:
        return _write(sys.stdout.buffer, "csv", batches)
    written = 0

    def write(file: BinaryIO) -> None:
        nonlocal written
        written = _write(file, kind, batches, "\t" if ".tsv" in Path(path).name else ",")

    device = Path(path).exists() and not Path(path).is_file()  # such as /dev/stderr
    kind = "csv" if device else format_of(path)
    if Path(path).suffix.lower() in CODECS:
        raise CommandError(
            f"{path}: results are written without compression. Leave {Path(path).suffix} out, or use .parquet."
        )
    if device:
        with open(path, "wb") as file:
            write(file)
        return written
    replace_file(Path(path), write)
    return written


def _write(file: BinaryIO, kind: str, batches: Iterable[Any], delimiter: str = ",") -> int:
    rows, writer = 0, None
    for batch in batches:
        if writer is None:
            writer = _writer(file, kind, batch.schema, delimiter)
        writer.write(batch) if kind != "parquet" else writer.write_batch(batch)
        rows += batch.num_rows
        if file is sys.stdout.buffer:
            file.flush()
    if writer is None:
        raise CommandError("There are no rows to predict: at least one is needed.")
    if hasattr(writer, "close"):
        writer.close()
    file.flush()
    return rows


def _writer(file: BinaryIO, kind: str, schema: Any, delimiter: str) -> Any:
    if kind == "parquet":
        from pyarrow import parquet

        return parquet.ParquetWriter(file, schema)
    if kind == "arrow":
        import pyarrow as pa

        return pa.ipc.new_file(file, schema)
    return _JsonLines(file) if kind == "json" else _Csv(file, schema.names, delimiter)


class _JsonLines:
    """Rows as lines of JSON."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def write(self, batch: Any) -> None:
        """More rows."""
        self.file.writelines(f"{json.dumps(row, default=str)}\n".encode() for row in batch.to_pylist())


class _Csv:
    """Rows as CSV, quoted where they must be (pyarrow quotes all text)."""

    def __init__(self, file: BinaryIO, names: Sequence[str], delimiter: str) -> None:
        self.file, self.delimiter = file, delimiter
        self._put([names])

    def write(self, batch: Any) -> None:
        """More rows."""
        self._put(zip(*(column.to_pylist() for column in batch.columns), strict=True))

    def _put(self, rows: Iterable[Sequence[Any]]) -> None:
        text = io.StringIO()
        csv.writer(text, delimiter=self.delimiter, lineterminator="\n").writerows(rows)
        self.file.write(text.getvalue().encode())
