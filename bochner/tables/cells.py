"""Single cells: which are missing, and text that is numbers, dates or levels."""

from __future__ import annotations

import datetime
import decimal
import numbers
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.errors import InputError

MISSING_TEXT = frozenset(
    ("", "NA", "N/A", "n/a", "na", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "Null", "None", "none", "?")
)
"""Text that stands for a missing cell."""
ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?)?")
"""Dates as ISO 8601 writes them; only these are taken for dates."""
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
"""Numbers as text; of what else Python reads, "1_000" is a name and "inf" a word."""
DAY_SECONDS = 86_400
APART = "write it as columns of their own, or leave it out"


def text_of(value: Any) -> str:
    """A value as the name of a level: 1, 1.0 and "1" are the same one."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def is_missing(value: Any) -> bool:
    """Whether a cell is None, NaN, NaT or pandas.NA."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA is neither equal to itself nor unequal
        return True
    except ValueError:  # an array, which is many answers
        return False


def clean_text(values: Iterable[Any]) -> Array:
    """Text as objects, without spaces around it; None where it stands for a missing cell."""
    known: dict[Any, str | None] = {None: None}
    result = []
    for value in values:
        if value not in known:
            text = None if is_missing(value) else text_of(value).strip()
            known[value] = None if text in MISSING_TEXT else text
        result.append(known[value])
    return _objects(result)


def of_objects(values: Array) -> tuple[str, Array]:
    """Kind and cells of a column of Python objects, as in :class:`bochner.tables.frames.Cells`."""
    gaps = [is_missing(value) for value in values]
    types = {type(value) for value, gap in zip(values, gaps, strict=True) if not gap}
    given = [None if gap else value for value, gap in zip(values, gaps, strict=True)]
    if not types:
        return "empty", np.full(len(given), np.nan)
    if all(issubclass(t, bool | np.bool_) for t in types):
        return "truth", _floats(given)
    if all(issubclass(t, numbers.Real | decimal.Decimal) for t in types):
        return "numbers", _floats(given)
    if all(issubclass(t, datetime.date | np.datetime64) for t in types):
        return "times", as_times(given)
    if all(issubclass(t, datetime.timedelta | np.timedelta64) for t in types):
        return "numbers", _floats([None if v is None else _seconds(v) for v in given])
    if all(issubclass(t, datetime.time) for t in types):
        return "numbers", _floats([None if v is None else _since_midnight(v) for v in given])
    wrong = next((t for t in types if issubclass(t, list | tuple | dict | set | np.ndarray)), None)
    if wrong is not None:
        raise InputError(f"holds objects of type {wrong.__name__}, of which no numbers can be made: {APART}")
    return "text", clean_text(given)


def as_numbers(values: Array) -> Array | None:
    """Cleaned text (n,) as numbers, NaN where missing; None where one is no number."""
    known: dict[str | None, float] = {None: np.nan}
    for value in values:
        if value not in known:
            if not NUMBER.fullmatch(value):
                return None
            known[value] = float(value)
    return np.array([known[value] for value in values], dtype=np.float64)


def dates_of(values: Array) -> Array | None:
    """Cleaned text (n,) as times, NaT where missing; None where one is no date of ISO 8601."""
    known: dict[str, datetime.datetime] = {}
    for value in values:
        if value is None or value in known:
            continue
        if not ISO.fullmatch(value):
            return None
        try:
            known[value] = datetime.datetime.fromisoformat(value)
        except ValueError:  # the 31st of June
            return None
    return as_times([None if value is None else known[value] for value in values])


def as_times(values: Iterable[Any]) -> Array:
    """Dates and datetimes, NaT where None: (n,) of datetime64[us], the clock of their own time zone."""
    return np.array(
        [
            np.datetime64("NaT")
            if value is None
            else np.datetime64(value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value)
            for value in values
        ],
        dtype="datetime64[us]",
    )


def _seconds(value: Any) -> float:
    return value.total_seconds() if isinstance(value, datetime.timedelta) else float(value / np.timedelta64(1, "us")) / 1e6


def _since_midnight(value: datetime.time) -> float:
    return value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6


def _floats(values: Iterable[Any]) -> Array:
    return np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)


def _objects(values: list[Any]) -> Array:
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result
