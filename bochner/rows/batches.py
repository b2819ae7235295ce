"""Tables of any columns as pyarrow reads them, whole or in batches, from files or from a stream of CSV."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from bochner.errors import FileAccessError, InputError, MissingFileError, nearest
from bochner.rows.csv_files import CODECS, NUMBER, CsvStyle, csv_options, delimiter_of, refuse_one_column
from bochner.rows.files import SUFFIXES, UnreadableError, format_by_name, need
from bochner.rows.json_lines import JSON_SUFFIXES, json_batches

Source = Path | BinaryIO
"""A file, or a stream that holds CSV."""
BATCH_ROWS = 2**15
CSV_BYTES = 2**22
"""What is read of a CSV at a time; its types are guessed from the first of it."""
SUFFIXES_OF_TABLES = (*(end for end, kind in SUFFIXES.items() if kind in ("csv", "parquet", "arrow")), *JSON_SUFFIXES)
"""How names of files end that are tables."""
PACKED = 5.0
"""How many times larger than itself a compressed file is taken to be."""


def kind_of(source: Source) -> str:
    """ "csv", "parquet", "arrow" or "json", by the name of a file; a stream is CSV."""
    if not isinstance(source, Path):
        return "csv"
    plain = source.with_suffix("") if source.suffix.lower() in CODECS else source
    if plain.suffix.lower() in JSON_SUFFIXES:
        return "json"
    found = format_by_name(source)
    if found not in ("csv", "parquet", "arrow"):
        raise InputError(
            f"{source} has none of the suffixes {', '.join(SUFFIXES_OF_TABLES)} (.gz and such after .csv, .tsv and .jsonl): "
            "rename it, or pipe CSV and give -."
        )
    return found


def bytes_in_memory(path: Path) -> float:
    """About how many bytes the rows of a file take in memory; zero where it cannot be told."""
    if kind_of(path) == "parquet":
        parquet = need("pyarrow.parquet", "Parquet files")
        try:
            with parquet.ParquetFile(path) as file:
                return 8.0 * file.metadata.num_rows * file.metadata.num_columns
        except (OSError, ValueError):
            return 0.0  # reading it will say what is wrong
    return os.path.getsize(path) * (PACKED if path.suffix.lower() in CODECS else 1.0)


def read_table(source: Source, style: CsvStyle | None = None, text: Sequence[str] = ()) -> Any:
    """All rows as a table of pyarrow's; columns named in ``text`` are read as text, and those that turn out to be.

    (Types are guessed from the first rows; a column whose first text comes later is read again as text.)
    """
    pa = need("pyarrow", "tables")
    columns = [*text]
    while True:
        try:
            batches = list(read_batches(source, style, columns))
            break
        except NotThatTypeError as error:
            if not isinstance(source, Path) or error.column in columns:
                raise
            columns.append(error.column)
    if not batches or not sum(batch.num_rows for batch in batches):
        raise InputError(f"{named(source)} has no rows: give at least one, below a line of names.")
    if all(batch.schema.equals(batches[0].schema) for batch in batches):
        return pa.Table.from_batches(batches)
    return pa.concat_tables([pa.Table.from_batches([batch]) for batch in batches], promote_options="permissive")


class NotThatTypeError(UnreadableError):
    """A column holds something else than the first rows promise."""

    def __init__(self, source: Source, column: str, error: str) -> None:
        told = error.split("CSV conversion error ")[-1].splitlines()[0][:160]
        super().__init__(
            f"{named(source)}, column {column!r} holds something else than in its first rows ({told}): write it in one "
            "kind, or write the table as Parquet."
        )
        self.column = column


def read_batches(source: Source, style: CsvStyle | None = None, text: Sequence[str] = ()) -> Iterator[Any]:
    """The rows in record batches of pyarrow's, with errors that name the file; columns named in ``text`` as text."""
    pa = need("pyarrow", "tables")
    style = CsvStyle() if style is None else style
    if isinstance(source, Path):
        _refuse_missing(source)
    kind = kind_of(source)
    if kind != "csv" and (style.header is not None or style.delimiter is not None):
        what = "header=False" if style.header is not None else "delimiter="
        raise InputError(f"{what} is for CSV, and {named(source)} is {kind}: leave it out.")
    try:
        if kind == "csv":
            yield from _csv(source, style, text)
        elif kind == "json":
            with _opened(source) as stream:
                yield from json_batches(stream, text, lambda name, told: NotThatTypeError(source, name, told))
        elif isinstance(source, Path):
            yield from _parquet(source) if kind == "parquet" else _arrow(source)
    except pa.ArrowInvalid as error:
        raise UnreadableError(_about_unreadable(source, kind, str(error))) from None
    except (pa.ArrowException, EOFError, UnicodeDecodeError) as error:
        told = (str(error) or type(error).__name__).splitlines()[0][:300].rstrip(".")
        raise UnreadableError(
            f"{named(source)} could not be read as {kind}: {told}. Is the file whole? Copy it again."
        ) from None


def named(source: Source) -> str:
    """What errors call a source."""
    return str(source) if isinstance(source, Path) else "Standard input"


def _csv(source: Source, style: CsvStyle, text: Sequence[str]) -> Iterator[Any]:
    pa, csv = need("pyarrow", "CSV files"), need("pyarrow.csv", "CSV files")
    delimiter = delimiter_of(source if isinstance(source, Path) else Path(), style)
    options = csv_options(style, delimiter, CSV_BYTES, column_types=dict.fromkeys(text, pa.string()))
    with _opened(source) as stream, csv.open_csv(stream, *options) as reader:
        names = reader.schema.names
        if len(names) == 1 and style.header is None:
            refuse_one_column(named(source), names[0], delimiter, style)
        _refuse_names(names, source, style)
        try:
            yield from reader
        except pa.ArrowInvalid as error:
            place = re.search(r"CSV column #(\d+):.* CSV conversion error", str(error))
            if place is None:
                raise
            raise NotThatTypeError(source, reader.schema.names[int(place[1])], str(error)) from None


def _parquet(path: Path) -> Iterator[Any]:
    with need("pyarrow.parquet", "Parquet files").ParquetFile(path) as file:
        yield from file.iter_batches(BATCH_ROWS)


def _arrow(path: Path) -> Iterator[Any]:
    pa, ipc = need("pyarrow", "Arrow files"), need("pyarrow.ipc", "Arrow files")
    with pa.memory_map(str(path)) as file, ipc.open_file(file) as reader:
        for i in range(reader.num_record_batches):
            yield reader.get_batch(i)


@contextmanager
def _opened(source: Source) -> Iterator[Any]:
    pa = need("pyarrow", "tables")
    if not isinstance(source, Path):
        yield pa.PythonFile(source, mode="r")
        return
    with pa.input_stream(str(source), compression=CODECS.get(source.suffix.lower())) as stream:
        yield stream


def _refuse_missing(path: Path) -> None:
    if not path.exists():
        folder = path.parent
        there = sorted(os.listdir(folder), key=lambda other: other.endswith(path.suffix)) if folder.is_dir() else []
        others = {other.split(".")[0]: other for other in there}
        near = nearest(path.name.split(".")[0], others)  # what comes after the first dot makes any two alike
        hint = f" Is it {folder / others[near[0]]}?" if near else "" if folder.is_dir() else f" There is no folder {folder}."
        raise MissingFileError(f"There is no file {path}.{hint} Check the name.")
    if path.is_dir():
        raise FileAccessError(f"{path} is a folder: give the name of a file.")
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(f"{path} is empty: give a line of names and at least one row.")


def _refuse_names(names: Sequence[str], source: Source, style: CsvStyle) -> None:
    """An error where columns have the same name, or where the first line holds numbers."""
    if style.header is None and all(NUMBER.fullmatch(name.strip()) for name in names):
        shown = ", ".join(names[:3]) + ", ..." * (len(names) > 3)
        raise InputError(
            f"{named(source)} has numbers in its first line ({shown}), where the names of the columns should be: if it has "
            "no line of names, say header=False."
        )
    seen: set[str] = set()
    for name in names:
        if name in seen:
            hint = " If its first line is a row, say header=False." if style.header is None else ""
            raise InputError(f"{named(source)} has two columns named {name!r}: names must differ, so rename one.{hint}")
        seen.add(name)


def _about_unreadable(source: Source, kind: str, error: str) -> str:
    """What may be wrong with a file that pyarrow cannot read."""
    if "Empty CSV" in error or "Empty JSON" in error:
        return f"{named(source)} is empty: a line of names and at least one row are needed, so write these."
    if kind == "csv" and "Expected" in error and "columns, got" in error:
        where = error.split("CSV parse error: ")[-1].split("\n")[0]
        return (
            f"{named(source)} has rows of different lengths ({where[:160]}): every row needs as many columns as the "
            "first line. If columns are not separated by a comma, say so by delimiter=."
        )
    return f"{named(source)} could not be read as {kind}: {error.splitlines()[0][:300]}. Check it, or copy it again."
