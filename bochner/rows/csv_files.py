"""CSV files, perhaps compressed, and errors for those that are written in another way than was said."""

from __future__ import annotations

import itertools
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bochner.errors import InputError
from bochner.rows.files import COMPRESSED, need
from bochner.rows.source import Counted
from bochner.rows.tables import ENCODE, TableFile, is_plain_number

CSV_BYTES = 2**20
"""What is read of a CSV file at a time; a line must fit."""
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
"""How pyarrow calls what a file is compressed by, by the end of its name."""
DELIMITERS = (";", "\t", "|", ",")
"""What may separate columns, where a file seems to have only one."""
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
"""What looks like a number of a row in the place of a name."""
MANY_NAMES = 4
"""Numbers in a row that are hardly in order by chance."""


@dataclass(frozen=True)
class CsvStyle:
    """How a CSV file is written."""

    delimiter: str | None = None
    """None: a tab in .tsv files, a comma in others."""
    header: bool | None = None
    """Whether the first line has names. None: it does, but names that look like a row are refused."""
    decimal: str = "."


def delimiter_of(path: Path, style: CsvStyle | None = None) -> str:
    """What separates columns: as the style has it, or a tab in .tsv files and a comma in others."""
    if style is not None and style.delimiter:
        return style.delimiter
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSED["csv"] else path
    return "\t" if plain.suffix.lower() == ".tsv" else ","


def csv_options(style: CsvStyle, delimiter: str, block_bytes: int, *, use_threads: bool = True, **convert: Any) -> Any:
    """Options of pyarrow's reader: how to read, to parse and to convert. Columns without names are f0, f1, ..."""
    csv = need("pyarrow.csv", "CSV files")
    return (
        csv.ReadOptions(block_size=block_bytes, use_threads=use_threads, autogenerate_column_names=style.header is False),
        csv.ParseOptions(delimiter=delimiter),
        csv.ConvertOptions(decimal_point=style.decimal, **convert),
    )


class CsvTable(TableFile):
    """A CSV file, perhaps compressed. Types are guessed from its first megabyte; numbers are then read as float64."""

    what = "CSV"

    def __init__(self, path: Path, style: CsvStyle) -> None:
        super().__init__(path)
        self.style = style
        self.has_names = style.header is not False
        self.compression = CODECS.get(path.suffix.lower())
        self.delimiter = delimiter_of(path, style)

    @contextmanager
    def _open(self, **convert: Any) -> Iterator[tuple[Any, Any]]:
        """A reader of batches, and the file as it is on disk."""
        pa, csv = need("pyarrow", "CSV files"), need("pyarrow.csv", "CSV files")
        options = csv_options(self.style, self.delimiter, CSV_BYTES, use_threads=False, **convert)
        with (
            pa.OSFile(str(self.path)) as file,
            pa.input_stream(file, compression=self.compression) as text,  # the reader would not close it at once
            csv.open_csv(text, *options) as reader,
        ):
            yield reader, file

    def schema(self) -> Any:
        with self._open() as (reader, _):
            return reader.schema

    def batches(self, names: Sequence[str], step: int) -> Generator[Any, None, None]:
        pa = need("pyarrow", "CSV files")
        found = self.schema()
        guessed = {name: found.field(name).type for name in names}
        types = {name: pa.float64() if is_plain_number(kind) else kind for name, kind in guessed.items()}
        with self._open(include_columns=list(names), column_types=types) as (reader, _):
            for batch in reader:
                yield from (batch.slice(start, step) for start in range(0, batch.num_rows, step))

    def counting(self) -> Generator[Counted, None, None]:
        size, n_rows = max(1, self.path.stat().st_size), 0
        with self._as_text(self.schema().names[0]) as (reader, file):
            for batch in reader:
                n_rows += batch.num_rows
                yield n_rows, min(1.0, file.tell() / size)

    def _as_text(self, name: str) -> AbstractContextManager[tuple[Any, Any]]:
        """One column as it is written."""
        return self._open(include_columns=[name], column_types={name: need("pyarrow", "CSV files").string()})

    def index_columns(self, schema: Any) -> list[str]:
        """A first column without a name: that of pandas' to_csv and of R's write.csv."""
        return schema.names[:1] if self.has_names and schema.names[:1] == [""] else []

    # -- errors -------------------------------------------------------------------------------------------------------

    def check(self, schema: Any) -> None:
        super().check(schema)
        if len(schema.names) == 1:
            refuse_one_column(str(self.path), self._first_line(), self.delimiter, self.style)

    def are_no_names(self, names: Sequence[str]) -> bool:
        return self.style.header is None and _is_a_row(names)

    def hint(self, schema: Any) -> str:
        if self.style.header is not None or not any(map(_is_number, schema.names)):
            return ""
        return " Has the file no line of names? Then say header=False, and give columns by their numbers."

    def about_text(self, name: str) -> tuple[str, str]:
        text = self._first_text(name)
        if text is None:
            return super().about_text(name)
        is_comma = self.style.decimal == "." and re.fullmatch(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*", text)
        return f", such as {text[:40]!r}", "for a comma before the fraction say decimal=','" if is_comma else ENCODE

    def place(self, error: BaseException, schema: Any) -> Exception | None:
        found = re.search(r"column #(\d+): (?:Row #(\d+): )?.*invalid value '(.*)'", str(error))
        if found is None:
            return None
        column, value = schema.names[int(found[1])], found[3]
        row = "" if found[2] is None else f", row {int(found[2]) - 1 - self.has_names}"
        name = f"column {column!r}" if self.has_names else f"column {found[1]}"
        return InputError(
            f"{self.path}, {name}{row} holds text, {value!r}, where there were numbers before: "
            f"write numbers only, or leave that column out of columns=."
        )

    def _first_line(self) -> str:
        pa = need("pyarrow", "CSV files")
        with pa.OSFile(str(self.path)) as file, pa.input_stream(file, compression=self.compression) as text:
            return str(text.read(2**12).decode(errors="replace").partition("\n")[0])

    def _first_text(self, name: str) -> str | None:
        """The first entry of a column of text that is no number, if it is among the first."""
        with self._as_text(name) as (reader, _):
            batch = next(iter(reader), None)
        values = [] if batch is None else batch.column(name).to_pylist()
        return next((value for value in values if value and not _is_number(value)), None)


def refuse_one_column(where: str, line: str, delimiter: str, style: CsvStyle) -> None:
    """An error where a line that was read as one column has something else that separates columns."""
    others = [each for each in DELIMITERS if each not in (delimiter, style.decimal)]
    found = next((each for each in others if each in line), None)
    if found is not None:
        raise InputError(
            f"{where} has one column where {delimiter!r} separates columns; it begins with {line[:60]!r}. "
            f"Say delimiter={found!r}."
        )


def _is_a_row(names: Sequence[str]) -> bool:
    """Whether names of columns are numbers that are not in order, as those of pandas' tables and of spectra are."""
    if not names or not all(map(_is_number, names)):
        return False
    numbers = [float(name) for name in names]
    steps = [later - earlier for earlier, later in itertools.pairwise(numbers)]
    in_order = all(step > 0 for step in steps) or all(step < 0 for step in steps)
    return not in_order or (len(names) < MANY_NAMES and any(number != int(number) for number in numbers))


def _is_number(text: str) -> bool:
    try:
        return abs(float(text)) < float("inf")
    except ValueError:
        return False
