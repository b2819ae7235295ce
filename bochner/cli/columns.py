"""The columns of new rows beside those that a model was fitted on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bochner.cli.data import PIPE, in_words, named, read_batches, seem_rows
from bochner.cli.running import CommandError
from bochner.errors import nearest
from bochner.estimators.encoding import table_columns
from bochner.rows.csv_files import NUMBER, CsvStyle
from bochner.tables.cells import clean_text
from bochner.tables.columns import Levels, Sums
from bochner.tables.written import is_number

PLACE = re.compile(r"f\d+")
"""Names of columns of files without names."""


def batches_for(model: Any, data: str, style: CsvStyle) -> Iterator[Any]:
    """The rows of a file, with the names of the model's columns where the file has none."""
    text = text_columns(model)
    if style.header is not False:
        return read_batches(data, style, text)
    first = None if data == PIPE else next(read_batches(data, style), None)
    if first is not None:  # the file's own numbers of the columns that are text
        names = names_by_place(model, first.schema.names)
        text = [own for own, name in zip(first.schema.names, names, strict=True) if name in text]
    return _by_place(model, data, read_batches(data, style, text))


def _by_place(model: Any, data: str, batches: Iterator[Any]) -> Iterator[Any]:
    """Batches of a file without names, after a look at the first row, with the names of the model's columns."""
    for number, own in enumerate(batches):
        batch = own.rename_columns(names_by_place(model, own.schema.names))
        if number == 0:
            _refuse_names(model, batch, data)
        yield batch


def _refuse_names(model: Any, batch: Any, data: str) -> None:
    """An error where the first row of a file that is said to have no line of names looks like one."""
    first = {str(column[0]) for column in batch.columns if batch.num_rows}
    if (names := _headings(model)) and first.issuperset(names):  # a row may hold some of them by chance
        raise CommandError(f"{named(data)} has names in its first line, such as {names[0]!r}: leave --no-header out.")
    text = text_columns(model)
    columns = [batch.column(name) for name in batch.schema.names if name not in text]
    if found := [str(column[0]) for column in columns if _has_heading(column)]:
        raise CommandError(
            f"{named(data)} seems to have names in its first line, such as {found[0]!r} above numbers: take that line out, "
            "or leave --no-header out if the model was fitted on these names."
        )


def refuse_headings(table: Any, data: str) -> None:
    """An error where the first row of a table without names is one of names: words above all columns that hold numbers.

    The words are not those of a row: no two are alike, and none stands in its column again.
    """
    import pyarrow as pa

    found, above_numbers = [], False
    for i, column in enumerate(table.columns):
        if i == 0 and _is_index(column):
            continue
        if table.num_rows == 0 or not pa.types.is_string(column.type):
            return  # the first row has a number, or nothing above numbers
        first, *others = clean_text(column.to_pylist())
        below = [cell for cell in others if cell is not None]
        if first is None or not any(map(str.isalpha, first)) or is_number(first) or first in found or first in below:
            return
        found.append(first)
        above_numbers |= bool(below) and all(map(is_number, below))
    if above_numbers:
        raise CommandError(f"{named(data)} has names in its first line, such as {found[0]!r}: leave --no-header out.")


def _is_index(column: Any) -> bool:
    """Whether a column counts the rows from 0 or 1, below nothing: pandas and R write it so."""
    if len(column) < 2 or column[0].is_valid:
        return False
    _, *others = column.to_pylist()
    return others in (list(range(len(others))), list(range(1, len(others) + 1)))


def _headings(model: Any) -> list[str]:
    """Names of a model's columns that no row should hold: not numbers, and not levels that the fit has seen."""
    encoder = getattr(model, "encoder_", None)
    encodings = [] if encoder is None else [each for each in encoder.encodings if isinstance(each, Levels)]
    levels = {level for each in encodings for level in each.levels}
    return [name for name in table_columns(model) if not NUMBER.fullmatch(name.strip()) and name not in levels]


def _has_heading(column: Any) -> bool:
    """Whether a column of text has numbers below its first cell, and none there."""
    first, *others = [cell.strip() for cell in column.to_pylist() if isinstance(cell, str)] or [""]
    return bool(others) and not NUMBER.fullmatch(first) and all(map(NUMBER.fullmatch, others))


def names_by_place(model: Any, names: Sequence[str]) -> list[str]:
    """Names of the columns of a file without names: their numbers in the file of the fit, if that many are there.

    A file that has just the columns which the model sees, without the target and those that were dropped, has them in order.
    """
    known = table_columns(model)
    return known if len(known) == len(names) else list(names)


def text_columns(model: Any) -> list[str]:
    """Columns that were text when a model was fitted: CSV of other rows has them as text too, such as 01 and 1.234."""
    encoder = getattr(model, "encoder_", None)
    return [] if encoder is None else [each.name for each in encoder.encodings if isinstance(each, Levels | Sums)]


def rows_for(model: Any, table: Any, path: str) -> Any:
    """The columns of a table that a model was fitted on; an error where one is not there, or holds text for numbers."""
    known = table_columns(model)
    encoder = getattr(model, "encoder_", None)
    needed = known if encoder is None else [each.name for each in encoder.encodings if each.is_read]
    if lacking := [name for name in needed if name not in table.schema.names]:
        raise CommandError(_about_lacking(lacking, known, table.schema.names, path))
    if encoder is not None:
        return table  # the encoder finds its columns by name, and says which hold something else
    for name in known or table.schema.names:
        _refuse_text(table, name, path)
    chosen = table.select(known) if known else table
    return chosen if hasattr(model, "feature_names_in_") else np.asarray(chosen)  # without names, as those of the fit


def _about_lacking(lacking: Sequence[str], known: Sequence[str], names: Sequence[str], path: str) -> str:
    """Which columns are not there, which are, and what may be the reason."""
    guesses = {name: nearest(name, [other for other in names if other not in known]) for name in lacking[:5]}
    shown = ", ".join(f"{name!r} (is it {near[0]!r}?)" if near else repr(name) for name, near in guesses.items())
    more = f" and {len(lacking) - 5} more" if len(lacking) > 5 else ""
    places, by_place = (all(map(PLACE.fullmatch, some)) for some in (known, names))
    if by_place:
        remedy = (
            f"columns without names are those of the fit by their places, so give these {len(known)} in their order, "
            f"{in_words(known)}" + ("." if places else "; or leave --no-header out, if its first line has names.")
        )
    elif seem_rows(names):
        remedy = "if it has no line of names, say --no-header, else rename or add them."
    elif places:
        remedy = "the model was fitted on a file without names, so take the line of names out and say --no-header."
    else:
        remedy = "rename or add them."
    return f"{named(path)} lacks columns that the model was fitted on, {shown}{more}. It has {in_words(names)}: {remedy}"


def _refuse_text(table: Any, name: str, path: str) -> None:
    """An error where a column that was numbers in the fit holds text or dates."""
    import pyarrow as pa

    column = table.column(name)
    if any(kind(column.type) for kind in (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean, pa.types.is_null)):
        return
    other = next((cell for cell in map(str, filter(None, column.to_pylist())) if not NUMBER.fullmatch(cell.strip())), None)
    if other is not None:
        raise CommandError(
            f"{named(path)}, column {name!r} held numbers in the fit, and now it holds {other!r}: give numbers, or, if that "
            "column should be another, the columns of the fit."
        )
