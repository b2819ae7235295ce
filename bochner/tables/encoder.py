"""``TableEncoder``: tables with categories, dates, truth values and gaps as float64 arrays, the same for any library."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from bochner.arrays import Array
from bochner.errors import InputError, nearest
from bochner.tables.columns import Encoding, LeftOut, Levels, UnseenLevelsWarning, encoding_of
from bochner.tables.frames import Cells, cells_of, is_table, row_count, table_names
from bochner.tables.learning import MOST_VALUES, ColumnLearner

MOST_LEVELS = 40
"""Columns that one column of levels becomes, at most, but for that of its gaps."""


class TableEncoder:
    """Columns of a table of pandas, polars or pyarrow as columns of numbers.

    - Numbers stay as they are. Missing cells have the median, and ``name=(missing)`` says where they are if any were in
      fit. Durations and times of day become seconds, text that is all numbers or amounts becomes numbers.
    - True and false become 1 and 0; missing cells have the more frequent one.
    - Categories and text become ``name=level`` for each level, sorted; one column where there are two levels. Past
      ``most_levels`` they are the most frequent ones and ``name=(other)``. ``name=(missing)`` if cells were missing in fit.
    - Dates, and text that is all dates (of ISO 8601, or others that leave no doubt), become ``name.year``, month, day,
      weekday (Monday is 0) and hour, as far as these vary, and ``name.seconds`` since 1970, all by the clock of the column's
      own time zone. Missing cells have the median date.
    - Text of more distinct values than ``most_levels`` and than 30 % of its cells, or than 10,000, is left out, with a
      warning.
    - Columns without any cell, or of one level, are zero.

    Text such as "", "NA" or "?" is a missing cell. Levels that were not there in fit are other ones, or zero everywhere,
    with a warning.

    Parameters
    ----------
    most_levels : int, default=40
        Columns that one column of levels becomes, at most, but for that of its gaps.

    Attributes
    ----------
    names_in, names_out : list of str
        Names of the columns of the table, and of those that they become.
    encodings : tuple
        What becomes of each column.

    Examples
    --------
    >>> import pandas as pd
    >>> from bochner.tables import TableEncoder
    >>> born = ["1993-05-01", "1990-05-01", None]
    >>> table = pd.DataFrame({"age": [31, None, 52], "city": ["Rome", "Oslo", "Rome"], "born": born})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.names_out
    ['age', 'age=(missing)', 'city=Rome', 'born.year', 'born.weekday', 'born.seconds', 'born=(missing)']
    >>> encoder.transform(table)[:, :5].tolist()
    [[31.0, 0.0, 1.0, 1993.0, 5.0], [41.5, 1.0, 0.0, 1990.0, 1.0], [52.0, 0.0, 1.0, 1991.0, 3.0]]
    """

    encodings: tuple[Encoding, ...]

    def __init__(self, most_levels: int = MOST_LEVELS) -> None:
        if most_levels < 2:
            raise InputError(f"most_levels must be 2 or more, got {most_levels}.")
        self.most_levels = most_levels

    # -- learning -----------------------------------------------------------------------------------------------------

    def fit(self, table: Any, columns: Sequence[int] | None = None) -> Self:
        """Learn from a table; with ``columns``, numbers of them, the others are left out."""
        return self._learn([table], columns, None)

    def fit_blocks(self, tables: Iterable[Any]) -> Self:
        """Learn from tables of the same columns, one after the other, in bounded memory; medians are those of a sample."""
        return self._learn(tables, None, MOST_VALUES)

    def _learn(self, tables: Iterable[Any], columns: Sequence[int] | None, most_values: int | None) -> Self:
        learners: list[ColumnLearner] = []
        used: set[int] = set()
        for table in tables:
            names = _unique_names(table)
            if not learners:
                learners = [ColumnLearner(name, most_values) for name in names]
                used = set(range(len(names))) if columns is None else set(columns)
            for i in used:
                learners[i].see(_cells(table, i, names[i]))
        if not learners:
            raise InputError("There are no tables to learn an encoding from: give at least one.")
        return self._set(
            learner.encoding(self.most_levels) if i in used else LeftOut(learner.name) for i, learner in enumerate(learners)
        )

    def _set(self, encodings: Iterable[Encoding]) -> Self:
        self.encodings = tuple(encodings)
        if not self.names_out:
            raise InputError(
                f"No column of the table can be learned from: all of {_shown(self.names_in)} were left out: give "
                "columns with more than one value."
            )
        return self

    # -- what was learned ---------------------------------------------------------------------------------------------

    @property
    def names_in(self) -> list[str]:
        """Names of the columns of the table."""
        return [encoding.name for encoding in self.encodings]

    @property
    def names_out(self) -> list[str]:
        """Names of the columns that they become, no two of them the same."""
        taken: Counter[str] = Counter()
        result = []
        for name in (name for encoding in self.encodings for name in encoding.names_out):
            taken[name] += 1
            result.append(name if taken[name] == 1 else f"{name} ({taken[name]})")
        return result

    @property
    def origins(self) -> Array:
        """The number of the column that each column of the result comes from."""
        return np.repeat(np.arange(len(self.encodings)), [len(encoding.names_out) for encoding in self.encodings])

    def positions(self, columns: Iterable[int]) -> tuple[int, ...]:
        """Numbers of the columns that these columns of the table become."""
        origins = self.origins
        return tuple(int(j) for i in columns for j in np.flatnonzero(origins == i))

    def transform(self, table: Any) -> Array:
        """A table (n, m) as float64 (n, k).

        Columns are found by name, in any order; those that fit did not see are ignored. An :class:`UnseenLevelsWarning`
        says where levels are that fit did not see, and that have no column of others.
        """
        result, unseen = self.encode(table)
        if unseen:
            warnings.warn(about_unseen(unseen, len(result)), UnseenLevelsWarning, stacklevel=2)
        return result

    def encode(self, table: Any) -> tuple[Array, dict[str, list[str]]]:
        """The same without a warning: the encoded rows, and by the names of columns the levels that fit did not see."""
        if not is_table(table):
            raise InputError(
                f"A table of pandas, polars or pyarrow with the columns of fit is needed, got {type(table).__name__}: "
                f"give one with the columns {_shown(self.names_in)}."
            )
        n_rows = row_count(table)
        if n_rows == 0:
            raise InputError("Found a table with 0 sample(s), and at least one row is needed: give some.")
        places = {name: i for i, name in enumerate(_unique_names(table))}
        self._refuse_missing(places)
        result = np.empty((n_rows, len(self.names_out)))
        unseen: dict[str, list[str]] = {}
        at = 0
        for encoding in self.encodings:
            if encoding.is_read:
                cells = _cells(table, places[encoding.name], encoding.name)
                values = encoding.encode(cells)
                if isinstance(encoding, Levels) and (new := encoding.unseen(cells)):
                    unseen[encoding.name] = new
                result[:, at : at + values.shape[1]] = values
                at += values.shape[1]
        return result, unseen

    def unseen(self, table: Any) -> dict[str, list[str]]:
        """By the names of columns, levels that fit did not see and that have no column of others, one for each such cell."""
        places = {name: i for i, name in enumerate(_unique_names(table))}
        found = {
            each.name: each.unseen(_cells(table, places[each.name], each.name))
            for each in self.encodings
            if isinstance(each, Levels) and each.name in places
        }
        return {name: levels for name, levels in found.items() if levels}

    def _refuse_missing(self, places: dict[str, int]) -> None:
        """An error where a column is not there, with the nearest name."""
        lacking = [each.name for each in self.encodings if each.is_read and each.name not in places]
        if not lacking:
            return
        hints = []
        for name in lacking[:5]:
            near = nearest(name, [other for other in places if other not in self.names_in])
            hints.append(f"{name!r}" + (f" (is it {near[0]!r}?)" if near else ""))
        more = f" and {len(lacking) - 5} more" if len(lacking) > 5 else ""
        raise InputError(
            f"The table lacks columns that were there in fit: {', '.join(hints)}{more}. It has {_shown(list(places))}: "
            "rename or add them."
        )

    # -- saving -------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that was learned, in lists, text and numbers that JSON takes."""
        return {
            "most_levels": self.most_levels,
            "columns": [
                {key: list(value) if isinstance(value, tuple) else value for key, value in encoding.state().items()}
                for encoding in self.encodings
            ],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The encoder of which ``state`` is the state; an error where it is that of none."""
        if not isinstance(state, dict) or not isinstance(state.get("columns"), list) or "most_levels" not in state:
            raise InputError(
                f"The state of a TableEncoder must be a dict of most_levels and columns, got {type(state).__name__}: "
                "give what state() gave."
            )
        return cls(int(state["most_levels"]))._set(encoding_of(column) for column in state["columns"])

    def __repr__(self) -> str:
        if not hasattr(self, "encodings"):
            return f"TableEncoder(most_levels={self.most_levels})"
        return f"TableEncoder({len(self.names_in)} columns to {len(self.names_out)})"


def about_unseen(unseen: dict[str, list[str]], n_rows: int) -> str:
    """Which columns hold levels that fit did not see, in how many rows, and what becomes of them."""
    columns = "; ".join(
        f"column {name!r} in {len(levels):,} of {n_rows:,} rows, such as {levels[0]!r}" for name, levels in unseen.items()
    )
    return f"Levels that fit did not see: {columns}. They count as none of its levels."


def _unique_names(table: Any) -> list[str]:
    names = [str(name) for name in table_names(table)]
    name, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        raise InputError(f"The table has {times} columns named {name!r}: names must differ, so rename one.")
    return names


def _cells(table: Any, i: int, name: str) -> Cells:
    try:
        return cells_of(table, i)
    except ValueError as error:
        raise InputError(f"Column {name!r} {error}.") from error


def _shown(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
