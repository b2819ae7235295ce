"""What is learned of one column, block after block in bounded memory, and the encoding that it is given."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from bochner.arrays import Array
from bochner.errors import InputError
from bochner.tables.cells import as_numbers, dates_of
from bochner.tables.columns import PARTS, Blank, Encoding, LeftOut, Levels, Numbers, Times, Truth, parts_of, seconds_of
from bochner.tables.frames import Cells

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


class ColumnLearner:
    """One column in the making; ``most_values`` bounds the numbers that its median is taken of, None takes all."""

    def __init__(self, name: str, most_values: int | None) -> None:
        self.name = name
        self.kind: str | None = None
        self.n_rows = self.n_missing = 0
        self.middle = Middle(most_values)
        self.numbers = self.dates = True
        """Whether all text so far is numbers, or dates."""
        self.counts: dict[str, int] = {}
        self.overflows = False
        self.lowest = dict.fromkeys(PARTS, np.inf)
        self.highest = dict.fromkeys(PARTS, -np.inf)

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
        if cells.kind in ("numbers", "truth"):
            self._see_numbers(cells.values)
        elif cells.kind == "times":
            self._see_times(cells.values)
        else:
            self._see_text(cells)

    def _see_numbers(self, values: Array) -> None:
        given = values[~np.isnan(values)]
        self.n_missing += len(values) - len(given)
        self.middle.add(given)

    def _see_times(self, times: Array) -> None:
        given = times[~np.isnat(times)]
        self.n_missing += len(times) - len(given)
        self.middle.add(seconds_of(given))
        if len(given):
            for part, values in parts_of(given).items():
                self.lowest[part] = min(self.lowest[part], values.min())
                self.highest[part] = max(self.highest[part], values.max())

    def _see_text(self, cells: Cells) -> None:
        values = cells.values
        self.numbers = self.numbers and cells.kind == "text"
        self.dates = self.dates and cells.kind == "text"
        numbers = as_numbers(values) if self.numbers else None
        dates = dates_of(values) if self.dates else None
        before = self.n_missing
        self.numbers, self.dates = numbers is not None, dates is not None
        if numbers is not None and any(value is not None for value in values):
            self._see_numbers(numbers)
            self.dates = False
        elif dates is not None and any(value is not None for value in values):
            self._see_times(dates)
        self._count(values)
        self.n_missing = before + sum(value is None for value in values)

    def _count(self, values: Array) -> None:
        for value in values:
            if value is None:
                continue
            if value in self.counts:
                self.counts[value] += 1
            elif len(self.counts) < MOST_TRACKED:
                self.counts[value] = 1
            else:
                self.overflows = True

    def encoding(self, most_levels: int) -> Encoding:
        """What becomes of the column; a warning where it is left out."""
        n_given, gaps = self.n_rows - self.n_missing, self.n_missing > 0
        if not n_given:
            return Blank(self.name)
        is_text = self.kind in ("text", "levels")
        if self.kind == "truth":
            values = np.concatenate(self.middle.kept)
            return Truth(self.name, float(values.mean() > 0.5), gaps)
        if self.kind == "numbers" or (is_text and self.numbers):
            return Numbers(self.name, self.middle.median, gaps)
        if self.kind == "times" or (is_text and self.dates):
            varying = tuple(part for part in PARTS if self.lowest[part] < self.highest[part])
            return Times(self.name, varying, self.middle.median, gaps)
        return self._levels(n_given, gaps, most_levels)

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
        return (
            f"Column {self.name!r} is left out: it is text with {more}{n_distinct:,} distinct values in {n_given:,} cells, "
            f"such as {example[:40]!r}, too many to tell kinds of rows by. Drop it, or make numbers of it first, for "
            "instance with sklearn.feature_extraction.text.TfidfVectorizer()."
        )
