"""Tables that commands read and write: which files and pipes are meant, and which of their columns."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bochner.cli.running import USAGE, CommandError
from bochner.errors import nearest
from bochner.rows import batches, writing
from bochner.rows.csv_files import NUMBER, CsvStyle

PIPE = "-"
"""Standard input or output, in CSV."""
SHOWN = 12
"""Columns that an error lists."""


def _source(path: str) -> batches.Source:
    return sys.stdin.buffer if path == PIPE else Path(path)


def style_of(delimiter: str | None, no_header: bool) -> CsvStyle:
    """How CSV is written, by the options of a command."""
    if delimiter is not None and len(delimiter) != 1:
        delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
        if len(delimiter) != 1:
            raise CommandError(f"--delimiter must be one character, such as ';', got {delimiter!r}.", code=USAGE)
    return CsvStyle(delimiter, False if no_header else None)


def read_table(path: str, style: CsvStyle | None = None, text: Sequence[str] = ()) -> Any:
    """All rows of a file or of standard input; see :func:`bochner.rows.batches.read_table`."""
    return batches.read_table(_source(path), style, text)


def read_batches(path: str, style: CsvStyle | None = None, text: Sequence[str] = ()) -> Iterator[Any]:
    """The rows of a file or of standard input in batches; see :func:`bochner.rows.batches.read_batches`."""
    return batches.read_batches(_source(path), style, text)


def write_batches(path: str, found: Iterable[Any]) -> int:
    """Write record batches to a file, as a whole or not at all, or to standard output; how many rows there were."""
    if path == PIPE:
        return writing.write_stream(sys.stdout.buffer, found, flush=True)
    return writing.write_file(Path(path), found)


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
        raise CommandError(
            f"{path} cannot be written, for {folder} takes no new files ({error.strerror}): give a place in another folder."
        ) from None


def check_ending(path: str, endings: Sequence[str], name: str, example: str) -> None:
    """An error where an output is not called as what is written there; a folder and a device are for others to judge."""
    if Path(path).suffix.lower() in endings or (os.path.exists(path) and not os.path.isfile(path)):
        return
    among = f"{', '.join(endings[:-1])} or {endings[-1]}" if len(endings) > 1 else endings[0]
    raise CommandError(f"{name} must end in {among}, got {path!r}: give a name such as {example}.", code=USAGE)


def find_column(name: str, names: Sequence[str], path: str, option: str) -> str:
    """A column that was asked for, or an error with the nearest names."""
    if name in names:
        return name
    near = nearest(name, names, n=2)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    if seem_rows(names):
        hint += " Has the file no line of names? Then say --no-header."
    raise CommandError(
        f"{named(path)} has no column {name!r} ({option}).{hint} Its columns are {in_words(names)}: give one of them.",
        code=USAGE,
    )


def named(path: str) -> str:
    """What a sentence calls a file, at its beginning."""
    return "Standard input" if path == PIPE else path


def in_words(names: Sequence[str]) -> str:
    """Names of columns, some of them where there are many."""
    return ", ".join(map(repr, names[:SHOWN])) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def seem_rows(names: Sequence[str]) -> bool:
    """Whether the names of columns may be the first row of a file that has no line of names."""
    return any(NUMBER.fullmatch(name.strip()) for name in names)


def by_number(name: str, names: Sequence[str]) -> str:
    """The name of a column of a file without names, which may be asked for by its number, from 0; -1 is the last."""
    try:
        return names[int(name)]
    except (ValueError, IndexError):
        return name
