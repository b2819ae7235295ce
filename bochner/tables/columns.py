"""How one column of a table becomes columns of numbers: a small frozen object for each kind, saved as a dict."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, ClassVar

import numpy as np

from bochner.arrays import Array
from bochner.errors import InputError
from bochner.tables.cells import DAY_SECONDS, as_numbers, clean_text, dates_of, text_of
from bochner.tables.frames import Cells
from bochner.tables.written import Amounts, Dates

PARTS = ("year", "month", "day", "weekday", "hour")
"""Parts of a date that become columns where they vary, beside its seconds since 1970."""
TRUE_TEXT, FALSE_TEXT = frozenset(("true", "yes", "1")), frozenset(("false", "no", "0"))


class UnseenLevelsWarning(UserWarning):
    """Rows hold levels of a column that fit did not see."""


@dataclass(frozen=True)
class Encoding:
    """One column of a table; subclasses say what becomes of it."""

    name: str
    kind: ClassVar[str]

    @property
    def names_out(self) -> tuple[str, ...]:
        """Names of the columns that it becomes."""
        raise NotImplementedError

    def encode(self, cells: Cells) -> Array:
        """Its cells (n,) as numbers (n, k), one column for each name."""
        raise NotImplementedError

    @property
    def is_read(self) -> bool:
        """Whether its cells are looked at: a table without the column will not do then."""
        return True

    def state(self) -> dict[str, Any]:
        """All fields and the kind, for JSON."""
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class Numbers(Encoding):
    """Numbers as they are, ``fill`` where they are missing, and a column that says where, if cells were missing in fit."""

    fill: float
    gaps: bool
    kind: ClassVar[str] = "numbers"

    @property
    def names_out(self) -> tuple[str, ...]:
        return (self.name, f"{self.name}=(missing)") if self.gaps else (self.name,)

    def encode(self, cells: Cells) -> Array:
        values = _numbers_like_fit(self.name, cells)
        missing = np.isnan(values)
        filled = np.where(missing, self.fill, values)
        return np.stack([filled, missing], axis=1) if self.gaps else filled[:, None]


@dataclass(frozen=True)
class Sums(Numbers):
    """Numbers that fit found as text with a ``sign`` of a currency or groups of digits, ``decimal`` before the fraction."""

    decimal: str
    sign: str
    kind: ClassVar[str] = "sums"

    def encode(self, cells: Cells) -> Array:
        if cells.kind in ("text", "levels"):
            found = Amounts(self.decimal, self.sign).read(cells.values)
            if found is None:
                like = "1.234,50" if self.decimal == "," else "1,234.50"
                raise InputError(
                    f"Column {self.name!r} held numbers such as {like} {self.sign}".rstrip()
                    + f" in fit, and now it holds {_example(cells)}: write them as in fit, or give numbers."
                )
            cells = Cells("numbers", found)
        return super().encode(cells)


@dataclass(frozen=True)
class Truth(Numbers):
    """True and false as one and zero, otherwise like numbers."""

    kind: ClassVar[str] = "truth"

    def encode(self, cells: Cells) -> Array:
        if cells.kind in ("text", "levels"):
            cells = Cells("truth", np.array([_truth_of(self.name, value) for value in cells.values], dtype=np.float64))
        return super().encode(cells)


@dataclass(frozen=True)
class Levels(Encoding):
    """One column for each level, one where it is that level; one for all others if ``other``, one for gaps if ``gaps``.

    Two levels without gaps are one column, that of the second. Levels that were not there in fit are other ones; without
    ``other`` they are zero in every column, and so are cells that are missing where none were in fit.
    """

    levels: tuple[str, ...]
    other: bool
    gaps: bool
    kind: ClassVar[str] = "levels"

    @property
    def is_binary(self) -> bool:
        """Whether one column is enough."""
        return len(self.levels) == 2 and not self.other and not self.gaps

    @property
    def names_out(self) -> tuple[str, ...]:
        shown = self.levels[1:] if self.is_binary else self.levels
        return tuple(f"{self.name}={level}" for level in (*shown, *["(other)"] * self.other, *["(missing)"] * self.gaps))

    def unseen(self, cells: Cells) -> list[str]:
        """Cells with levels that fit did not see, where these have no column of others."""
        if self.other:
            return []
        known = {None, *self.levels}
        return [value for value in _text_like_fit(cells) if value not in known]

    def encode(self, cells: Cells) -> Array:
        known: dict[str | None, int] = {level: i for i, level in enumerate(self.levels)}
        width = len(self.levels) + self.other + self.gaps
        unknown = len(self.levels) if self.other else width
        known[None] = width - 1 if self.gaps else width
        codes = np.array([known.get(value, unknown) for value in _text_like_fit(cells)], dtype=np.intp)
        table = np.zeros((len(codes), width + 1))  # the last column is that of levels that have none
        table[np.arange(len(codes)), codes] = 1.0
        return table[:, 1:width] if self.is_binary else table[:, :width]


@dataclass(frozen=True)
class Times(Encoding):
    """Parts of a date that varied in fit, and its seconds since 1970; the median date of fit where it is missing."""

    parts: tuple[str, ...]
    fill: float
    gaps: bool
    kind: ClassVar[str] = "times"

    @property
    def names_out(self) -> tuple[str, ...]:
        missing = [f"{self.name}=(missing)"] * self.gaps
        return (*(f"{self.name}.{part}" for part in self.parts), f"{self.name}.seconds", *missing)

    def encode(self, cells: Cells) -> Array:
        times = self._times(cells)
        missing = np.isnat(times)
        times = np.where(missing, np.datetime64(round(self.fill * 1e6), "us"), times)
        found = parts_of(times)
        return np.stack([*(found[part] for part in self.parts), seconds_of(times), *[missing] * self.gaps], axis=1)

    def _times(self, cells: Cells) -> Array:
        return _times_like_fit(self.name, cells)


@dataclass(frozen=True)
class WrittenTimes(Times):
    """Dates that fit found as text with day and month in one ``order``, "dmy" or "mdy"."""

    order: str
    kind: ClassVar[str] = "written dates"

    def _times(self, cells: Cells) -> Array:
        found = Dates(self.order).read(cells.values) if cells.kind in ("text", "levels") else None
        return super()._times(cells) if found is None else found


@dataclass(frozen=True)
class Blank(Encoding):
    """A column that had nothing to tell, all missing or of one level: zero, whatever it holds later."""

    kind: ClassVar[str] = "blank"

    @property
    def names_out(self) -> tuple[str, ...]:
        return (self.name,)

    def encode(self, cells: Cells) -> Array:
        return np.zeros((len(cells.values), 1))


@dataclass(frozen=True)
class LeftOut(Encoding):
    """A column that is not looked at."""

    kind: ClassVar[str] = "left out"

    @property
    def names_out(self) -> tuple[str, ...]:
        return ()

    def encode(self, cells: Cells) -> Array:
        return np.zeros((len(cells.values), 0))

    @property
    def is_read(self) -> bool:
        return False


KINDS: dict[str, Any] = {kind.kind: kind for kind in (Numbers, Truth, Sums, Levels, Times, WrittenTimes, Blank, LeftOut)}


FIELDS: dict[str, Callable[[Any], bool]] = {
    "name": lambda value: isinstance(value, str),
    "fill": lambda value: isinstance(value, float | int) and not isinstance(value, bool) and abs(value) < np.inf,
    "gaps": lambda value: isinstance(value, bool),
    "other": lambda value: isinstance(value, bool),
    "levels": lambda value: isinstance(value, tuple) and all(isinstance(level, str) for level in value),
    "decimal": lambda value: value in (".", ","),
    "sign": lambda value: isinstance(value, str),
    "order": lambda value: value in ("dmy", "mdy"),
    "parts": lambda value: isinstance(value, tuple) and all(part in PARTS for part in value),
}
"""What each field of a state must be."""


def encoding_of(state: dict[str, Any]) -> Encoding:
    """The encoding of which ``state`` is the state; an error where it is that of none."""
    if not isinstance(state, dict) or state.get("kind") not in KINDS:
        given = state.get("kind") if isinstance(state, dict) else state
        raise InputError(f"kind must be one of {', '.join(KINDS)}, got {given!r}.")
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in state.items() if key != "kind"}
    wanted = {field.name for field in dataclass_fields(KINDS[state["kind"]])}
    if set(fields) != wanted or not all(FIELDS[name](value) for name, value in fields.items()):
        raise InputError(
            f"A column of the kind {state['kind']!r} needs {', '.join(sorted(wanted))}, got {reprlib.repr(fields)}: "
            "give what state() gave."
        )
    made: Encoding = KINDS[state["kind"]](**fields)
    return made


def seconds_of(times: Array) -> Array:
    """Seconds since 1970 (n,) of times, NaN where there is none."""
    return np.where(np.isnat(times), np.nan, times.astype(np.int64) / 1e6)


def parts_of(times: Array) -> dict[str, Array]:
    """The parts of dates by name, each (n,) of float64; of NaT they mean nothing."""
    days, months, years = (times.astype(f"datetime64[{unit}]") for unit in "DMY")
    return {
        "year": years.astype(np.int64) + 1970.0,
        "month": months.astype(np.int64) % 12 + 1.0,
        "day": (days - months.astype("datetime64[D]")).astype(np.int64) + 1.0,
        "weekday": (days.astype(np.int64) + 3) % 7 + 0.0,  # Monday is 0, as in Python; 1970 began on a Thursday
        "hour": ((times - days).astype(np.int64) // 10**6 % DAY_SECONDS) // 3600 + 0.0,
    }


def _numbers_like_fit(name: str, cells: Cells) -> Array:
    """Cells of a column that held numbers in fit."""
    if cells.kind in ("numbers", "truth", "empty"):
        return cells.values
    found = as_numbers(cells.values) if cells.kind != "times" else None
    if found is None:
        raise InputError(f"Column {name!r} held numbers in fit, and now it holds {_example(cells)}: give numbers.")
    return found


def _times_like_fit(name: str, cells: Cells) -> Array:
    """Cells of a column that held dates in fit."""
    if cells.kind == "times":
        return cells.values
    if cells.kind == "empty":
        return np.full(len(cells.values), np.datetime64("NaT"), dtype="datetime64[us]")
    found = dates_of(cells.values) if cells.kind in ("text", "levels") else None
    if found is None:
        raise InputError(
            f"Column {name!r} held dates in fit, and now it holds {_example(cells, dates_of)}: give dates, or text such "
            "as 2024-05-31."
        )
    return found


def _text_like_fit(cells: Cells) -> Array:
    """Cells of a column that held levels in fit."""
    if cells.kind in ("text", "levels"):
        return cells.values
    if cells.kind == "times":
        return clean_text([None if np.isnat(value) else str(value) for value in cells.values])
    names = ("False", "True") if cells.kind == "truth" else None
    return clean_text([None if np.isnan(v) else names[int(v)] if names else text_of(v) for v in cells.values])


def _truth_of(name: str, text: str | None) -> float:
    if text is None:
        return np.nan
    if text.lower() not in TRUE_TEXT | FALSE_TEXT:
        raise InputError(f"Column {name!r} held true and false in fit, and now it holds {text!r}: give True or False.")
    return float(text.lower() in TRUE_TEXT)


def _example(cells: Cells, read: Callable[[Array], Array | None] = as_numbers) -> str:
    """The kind of some cells, with one of them that cannot be ``read``."""
    if cells.kind == "times":
        return "dates"
    if cells.kind in ("numbers", "truth"):
        return "numbers"
    shown = [value for value in cells.values if value is not None and read(np.array([value], dtype=object)) is None]
    return f"text, such as {reprlib.repr(shown[0])}" if shown else "text"
