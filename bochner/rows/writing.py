"""Record batches of pyarrow's to files and streams."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from bochner.durable import replace_file
from bochner.errors import InputError
from bochner.rows.batches import kind_of
from bochner.rows.csv_files import CODECS, delimiter_of
from bochner.rows.files import need


def write_file(path: Path, batches: Iterable[Any]) -> int:
    """Write a table as a whole or not at all, in the format of the file's name; how many rows there were.

    A device such as /dev/stderr gets CSV, row by row.
    """
    if path.exists() and not path.is_file():
        with open(path, "wb") as device:
            return write_stream(device, batches)
    kind, written = kind_of(path), 0
    if path.suffix.lower() in CODECS:
        raise InputError(f"{path}: results are written without compression. Leave {path.suffix} out, or use .parquet.")

    def write(file: BinaryIO) -> None:
        nonlocal written
        written = write_stream(file, batches, kind, delimiter_of(path))

    replace_file(path, write)
    return written


def write_stream(
    file: BinaryIO, batches: Iterable[Any], kind: str = "csv", delimiter: str = ",", *, flush: bool = False
) -> int:
    """Write a table to a binary stream, and each batch at once if ``flush``; how many rows there were."""
    rows, writer = 0, None
    try:
        for batch in batches:
            if writer is None:
                writer = _writer(file, kind, batch.schema, delimiter)
            writer.write(batch)
            rows += batch.num_rows
            if flush:
                file.flush()
    except BaseException:
        with suppress(Exception):  # such as a disk that is full still
            if writer is not None:
                writer.close()
        raise
    if writer is None:
        raise InputError("There are no rows to predict or to write: at least one is needed, so give some.")
    writer.close()
    file.flush()
    return rows


def _writer(file: BinaryIO, kind: str, schema: Any, delimiter: str) -> Any:
    if kind == "parquet":
        return need("pyarrow.parquet", "Parquet files").ParquetWriter(file, schema)
    if kind == "arrow":
        return need("pyarrow.ipc", "Arrow files").new_file(file, schema)
    return _JsonLines(file) if kind == "json" else _Csv(file, schema.names, delimiter)


class _JsonLines:
    """Rows as lines of JSON."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def write(self, batch: Any) -> None:
        """More rows."""
        self.file.writelines(f"{json.dumps(row, default=str)}\n".encode() for row in batch.to_pylist())

    def close(self) -> None:
        """Nothing is left to write."""


class _Csv:
    """Rows as CSV, quoted where they must be (pyarrow quotes all text)."""

    def __init__(self, file: BinaryIO, names: Sequence[str], delimiter: str) -> None:
        self.file, self.delimiter = file, delimiter
        self._put([names])

    def write(self, batch: Any) -> None:
        """More rows."""
        self._put(zip(*(column.to_pylist() for column in batch.columns), strict=True))

    def close(self) -> None:
        """Nothing is left to write."""

    def _put(self, rows: Iterable[Sequence[Any]]) -> None:
        text = io.StringIO()
        csv.writer(text, delimiter=self.delimiter, lineterminator="\n").writerows(rows)
        self.file.write(text.getvalue().encode())
