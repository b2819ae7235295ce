"""What is learned of one column, block after block in bounded memory, and the encoding that it is given."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.errors import InputError
from bochner.tables.columns import (
    PARTS,
    Blank,
    Encoding,
    LeftOut,
    Levels,
    Numbers,
    Sums,
    Times,
    Truth,
    WrittenTimes,
    parts_of,
    seconds_of,
)
from bochner.tables.frames import Cells
from bochner.tables.written import WAYS, Amounts, Dates, Iso, Plain, Tally, Way, agree

MOST_TRACKED = 10_000
"""Distinct levels of a column that are counted, at most."""
MOST_VALUES = 2**14
"""Numbers of a column that its median is taken of where rows come in blocks: all of them, or every k-th."""
MOSTLY_UNIQUE = 0.3
"""A column of text with more distinct values than this share of its cells tells rows apart, not kinds of rows."""


class Middle:
    """The median of numbers that come in blocks: of all, or of every k-th where they are more than ``most``."""

    def __init__(self, most: int | None) -> None:
        self.most, self.stride, self.n_seen = most, 1, 0
        self.kept: list[Array] = []

    def add(self, values: Array) -> None:
        """More numbers, none of them NaN."""
        first = -self.n_seen % self.stride
        self.kept.append(values[first :: self.stride].copy())  # and not a view, which keeps the whole block
        self.n_seen += len(values)
        while self.most is not None and sum(map(len, self.kept)) > self.most:
            self.kept = [np.concatenate(self.kept)[::2].copy()]
            self.stride *= 2

    @property
    def median(self) -> float:
        """Zero where there were none."""
        values = np.concatenate([np.zeros(0), *self.kept])
        return float(np.median(values)) if len(values) else 0.0


class Statistics:
    """What is learned of numbers, or of times: their median, and which parts of a date vary."""

    def __init__(self, most_values: int | None) -> None:
        self.middle = Middle(most_values)
        self.lowest = dict.fromkeys(PARTS, np.inf)
        self.highest = dict.fromkeys(PARTS, -np.inf)

    def see(self, values: Array) -> None:
        """More numbers or times, with gaps."""
        if values.dtype.kind != "M":
            self.middle.add(values[~np.isnan(values)])
            return
        given = values[~np.isnat(values)]
        self.middle.add(seconds_of(given))
        if len(given):
            for part, found in parts_of(given).items():
                self.lowest[part] = min(self.lowest[part], found.min())
                self.highest[part] = max(self.highest[part], found.max())

    @property
    def varying(self) -> tuple[str, ...]:
        """Parts of a date that vary."""
        return tuple(part for part in PARTS if self.lowest[part] < self.highest[part])


class Readings:
    """The ways in which all text of a column so far is numbers or dates, and what is learned of each."""

    def __init__(self, most_values: int | None) -> None:
        self.ways: dict[Way, Statistics] = {way: Statistics(most_values) for way in WAYS}
        self.differ = {Amounts: False, Dates: False}
        """Whether two ways of a kind have read a cell as different things."""
        self.rises = {way: True for way in WAYS if isinstance(way, Amounts)}
        """Whether a way has read no cell as less than the other one of its kind."""
        self.sign = ""

    def see(self, values: Array) -> None:
        """More cells of text; ways that cannot read them are out."""
        found = {way: read for way in self.ways if (read := self._read(way, values)) is not None}
        self.ways = {way: self.ways[way] for way in found}
        for way, read in found.items():
            self.ways[way].see(read)
        for kind in (Amounts, Dates):
            both = [(way, read) for way, read in found.items() if isinstance(way, kind)]
            if len(both) == 2 and not agree(both[0][1], both[1][1]):
                self.differ[kind] = True
                if kind is Amounts:
                    sizes = [np.nan_to_num(np.abs(read)) for _, read in both]
                    for i in (0, 1):
                        self.rises[both[i][0]] &= bool(np.all(sizes[i] >= sizes[1 - i]))  # type: ignore[index]
        for way in found:
            if isinstance(way, Amounts) and not self.sign:
                self.sign = way.sign_in(values)

    def _read(self, way: Way, values: Array) -> Array | None:
        return Amounts(way.decimal, self.sign).read(values) if isinstance(way, Amounts) and self.sign else way.read(values)

    def way(self) -> Way | None:
        """The one that is meant; None where there is none, or where it cannot be told."""
        for kind in (Plain, Iso, Amounts, Dates):
            of_kind = [way for way in self.ways if isinstance(way, kind)]
            if kind is Amounts and len(of_kind) == 2 and self.differ[Amounts]:
                # sums of money have no fractions of three digits
                of_kind = [way for way in of_kind if self.sign not in ("", "%") and self.rises[way]]  # type: ignore[index]
                of_kind = of_kind if len(of_kind) == 1 else []
            if kind is Dates and len(of_kind) == 2 and self.differ[Dates]:
                of_kind = []
            if of_kind:
                return of_kind[0]
        return None

    @property
    def doubt(self) -> type[Amounts] | type[Dates] | None:
        """What the text is, where only how it is meant cannot be told."""
        return next((kind for kind in (Amounts, Dates) if any(isinstance(way, kind) for way in self.ways)), None)


def numbers_of(values: Array) -> tuple[Array, str] | None:
    """Cleaned text (n,) as numbers, NaN where missing, and the sign beside them; None where it is none, or in doubt."""
    readings = Readings(None)
    readings.see(values[[value is not None for value in values]])
    way = readings.way()
    if isinstance(way, Amounts):
        way = Amounts(way.decimal, readings.sign)
    found = way.read(values) if isinstance(way, Plain | Amounts) else None
    return None if found is None else (found, readings.sign)


class ColumnLearner:
    """One column in the making; ``most_values`` bounds the numbers that its median is taken of, None takes all."""

    def __init__(self, name: str, most_values: int | None) -> None:
        self.name = name
        self.kind: str | None = None
        self.n_rows = self.n_missing = 0
        self.statistics = Statistics(most_values)
        self.readings: Readings | None = Readings(most_values)
        """None: its text is of levels, whatever it looks like."""
        self.counts: dict[str, int] = {}
        self.overflows = False
        self.rest = Tally()
        """Of cells that are not counted, for there are too many distinct ones."""

    def see(self, cells: Cells) -> None:
        """One more block of its cells."""
        self.n_rows += len(cells.values)
        if cells.kind == "empty":
            self.n_missing += len(cells.values)
            return
        if self.kind not in (None, cells.kind):
            raise InputError(
                f"Column {self.name!r} holds {self.kind} in some blocks of rows and {cells.kind} in others: write one kind."
            )
        self.kind = cells.kind
        if cells.kind in ("text", "levels"):
            self._see_text(cells)
            return
        missing = np.isnat(cells.values) if cells.kind == "times" else np.isnan(cells.values)
        self.n_missing += int(missing.sum())
        self.statistics.see(cells.values)

    def _see_text(self, cells: Cells) -> None:
        values = cells.values
        given = values[[value is not None for value in values]]
        self.n_missing += len(values) - len(given)
        if cells.kind == "levels":
            self.readings = None
        elif self.readings is not None and len(given):
            self.readings.see(given)
        self._count(given)

    def _count(self, values: Array) -> None:
        for value in values:
            if value in self.counts:
                self.counts[value] += 1
            elif len(self.counts) < MOST_TRACKED:
                self.counts[value] = 1
            else:
                self.overflows = True
                self.rest.see(value)

    def encoding(self, most_levels: int) -> Encoding:
        """What becomes of the column; a warning where it is left out."""
        n_given, gaps = self.n_rows - self.n_missing, self.n_missing > 0
        if not n_given:
            return Blank(self.name)
        learned, way = self.statistics, None
        if self.kind in ("text", "levels"):
            way = None if self.readings is None else self.readings.way()
            if self.readings is None or way is None:
                return self._levels(n_given, gaps, most_levels)
            learned = self.readings.ways[way]
        if self.kind == "truth":
            values = np.concatenate(learned.middle.kept)
            return Truth(self.name, float(values.mean() > 0.5), gaps)
        if isinstance(way, Amounts):
            assert self.readings is not None  # which has the way
            return Sums(self.name, learned.middle.median, gaps, way.decimal, self.readings.sign)
        if isinstance(way, Dates):
            return WrittenTimes(self.name, learned.varying, learned.middle.median, gaps, way.order)
        if self.kind == "times" or isinstance(way, Iso):
            return Times(self.name, learned.varying, learned.middle.median, gaps)
        return Numbers(self.name, learned.middle.median, gaps)

    def _levels(self, n_given: int, gaps: bool, most_levels: int) -> Encoding:
        n_distinct = len(self.counts)
        if n_distinct > most_levels and (self.overflows or n_distinct > MOSTLY_UNIQUE * n_given):
            warnings.warn(self._left_out(n_distinct, n_given), UserWarning, stacklevel=2)
            return LeftOut(self.name)
        levels = sorted(self.counts)
        if n_distinct == 1 and not gaps:
            return Blank(self.name)
        if n_distinct <= most_levels:
            return Levels(self.name, tuple(levels), False, gaps)
        counts = np.array([self.counts[level] for level in levels])
        rare = set(np.argsort(counts, kind="stable")[: n_distinct - most_levels + 1].tolist())
        kept = tuple(level for i, level in enumerate(levels) if i not in rare)
        return Levels(self.name, kept, True, gaps)

    def _left_out(self, n_distinct: int, n_given: int) -> str:
        more = "more than " if self.overflows else ""
        example: Any = next(iter(self.counts))
        begin = (
            f"Column {self.name!r} is left out: it is text with {more}{n_distinct:,} distinct values in {n_given:,} cells, "
        )
        doubt = None if self.readings is None else self.readings.doubt
        if doubt is Dates:
            return (
                f"{begin}dates such as {example!r}, of which day and month cannot be told apart. Write them as year, month "
                "and day, such as 2023-06-03."
            )
        if doubt is Amounts:
            return (
                f"{begin}numbers such as {example!r}, of which it cannot be told whether three digits are a fraction or "
                "thousands. Write them as plain numbers, such as 1234 or 1.234."
            )
        if self.readings is not None and (told := self._tally().in_words("empty it", "empty these")):
            return f"Column {self.name!r} is left out: {told}"
        return (
            f"{begin}such as {example[:40]!r}, too many to tell kinds of rows by. Drop it, or make numbers of it first, for "
            "instance with sklearn.feature_extraction.text.TfidfVectorizer()."
        )

    def _tally(self) -> Tally:
        """Which of its cells are numbers, the first ones first."""
        tally = Tally()
        for value, n_cells in self.counts.items():
            tally.see(value, n_cells)
        tally.add(self.rest)
        return tally
