"""Rows of table files whose columns are not all numbers: encoded block by block, after a pass that learns how."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from copy import copy
from typing import Any

import numpy as np

from bochner.rows.columns import Wanted
from bochner.rows.files import guarded
from bochner.rows.source import Block, Layout, RowSource
from bochner.rows.tables import TableFile, TablePart, find_columns, targets_and_weights
from bochner.tables import TableEncoder, UnseenLevelsWarning

LEARNING_ROWS = 2**13
"""Rows that are looked at at a time while levels are learned."""


class EncodedPart(TablePart):
    """The wanted columns of one file; X goes through ``encoder``."""

    encoder: TableEncoder | None = None

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.told: set[str] = set()
        """Columns whose levels that fit did not see have been told of."""

    def tables(self) -> Generator[Any, None, None]:
        """The columns of X as record batches, in a pass of its own."""
        names = [self.schema.names[i] for i in self.choice.X]
        with closing(guarded(self.table.path, self.table.what, self.table.batches(names, LEARNING_ROWS))) as batches:
            yield from (batch for batch in self.placed(batches) if batch.num_rows)

    def _block(self, start: int, batch: Any) -> Block:
        assert self.encoder is not None  # set before any pass
        names = [self.schema.names[i] for i in self.choice.X]
        X, unseen = self.encoder.encode(batch.select(names))
        for name in unseen.keys() - self.told:  # once for each file
            self.told.add(name)
            warnings.warn(
                f"{self.name}, column {name!r} holds levels that fit did not see, such as {unseen[name][0]!r}: they count "
                "as none of its levels.",
                UnseenLevelsWarning,
                stacklevel=2,
            )
        X = X.astype(self.dtype, copy=False)
        return Block(start, X, *targets_and_weights(batch, self.choice, self.schema.names))


class EncodedRows(RowSource):
    """A row source of table files with categories, text, dates or gaps, as columns of numbers.

    The encoding is learned when it is first asked for, in a pass over the files in bounded memory; a fitted model has its
    own, and new rows take that one by :meth:`encoded_by`.
    """

    def __init__(self, parts: Sequence[EncodedPart], layout: Layout, encoder: TableEncoder | None = None) -> None:
        self._layout, self._encoder = layout, encoder
        self._parts: tuple[EncodedPart, ...] = tuple(parts)
        self.target_names, self.dtype = layout.target_names, layout.dtype
        if encoder is not None:
            self._tell(encoder)

    @property
    def encoder(self) -> TableEncoder:
        """How columns become numbers; learned from all rows at the first call."""
        if self._encoder is None:
            self._encoder = TableEncoder().fit_blocks(self._tables())
            self._tell(self._encoder)
        return self._encoder

    @property
    def n_columns(self) -> int:  # type: ignore[override]
        """Number of columns of X, encoded."""
        return len(self.encoder.names_out)

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Their names, such as "city=Rome"."""
        return tuple(self.encoder.names_out)

    def encoded_by(self, encoder: TableEncoder) -> EncodedRows:
        """The same rows with an encoding that was learned from others: columns are found by name, others are ignored."""
        return EncodedRows([copy(part) for part in self._parts], self._layout, encoder)

    def _tell(self, encoder: TableEncoder) -> None:
        for part in self._parts:
            part.encoder, part.told = encoder, set()

    def _tables(self) -> Iterator[Any]:
        for part in self._parts:
            yield from part.tables()

    def _pieces(self, step: int, first: int = 0) -> Generator[Block, None, None]:
        assert self.encoder is not None  # which is learned here at the latest
        return super()._pieces(step, first)


def open_encoded(tables: Sequence[TableFile], wanted: Wanted, dtype: Any) -> EncodedRows:
    """A row source of table files of any columns; see :func:`bochner.rows.tables.open_tables`."""
    opened = find_columns(tables, wanted, numbers=False)
    dtype = np.dtype(np.float64 if dtype is None else dtype)
    layout = Layout(len(opened.named.columns), dtype, None, opened.target_names)
    return EncodedRows(opened.parts(EncodedPart, dtype), layout)
